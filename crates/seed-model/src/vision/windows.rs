//! The order in which patches go through the tower: window by window, so that attention inside a window is attention inside a row of
//! a packed batch.

use super::picture::{Grid, for_each_patch};
use crate::config::VisionConfig;
use crate::decoder::Rotary;
use burn::tensor::{Device, Tensor, TensorData};

/// Base of the rotary frequencies of patches; not in the configuration.
const THETA: f64 = 10_000.0;

/// Patches of some pictures in window order.
pub(crate) struct Windows {
    /// For each patch in window order: its place in the published order.
    pub(crate) patches: Vec<u32>,
    /// For each merged block in the published order: its place in window order.
    pub(crate) blocks: Vec<u32>,
    /// Patches of each window.
    pub(crate) windows: Vec<usize>,
    /// Patches of each picture.
    pub(crate) pictures: Vec<usize>,
    /// Angles of the patches in window order.
    pub(crate) rotary: Rotary,
}

impl Windows {
    pub(crate) fn new(config: &VisionConfig, grids: &[Grid], device: &Device) -> Self {
        let merge = config.spatial_merge_size;
        let unit = merge * merge;
        // Blocks of a window's side; a window smaller than a block is a block.
        let side = (config.window_size / merge / config.patch_size).max(1);
        let (mut order, mut windows, mut positions) = (Vec::new(), Vec::new(), Vec::new());
        for grid in grids {
            let (rows, columns, start) = (grid.height / merge, grid.width / merge, order.len());
            for top in (0..rows).step_by(side) {
                for left in (0..columns).step_by(side) {
                    let before = order.len();
                    for row in top..rows.min(top + side) {
                        order.extend(
                            (left..columns.min(left + side)).map(|column| start + row * columns + column),
                        );
                    }
                    windows.push((order.len() - before) * unit);
                }
            }
            for_each_patch(*grid, merge, |row, column| positions.push((row, column)));
        }
        let mut blocks = vec![0; order.len()];
        for (place, block) in order.iter().enumerate() {
            blocks[*block] = place as u32;
        }
        let patches: Vec<u32> = order
            .iter()
            .flat_map(|block| (block * unit..(block + 1) * unit).map(|patch| patch as u32))
            .collect();
        let positions: Vec<(usize, usize)> = patches.iter().map(|patch| positions[*patch as usize]).collect();
        Self {
            rotary: rotary(&positions, config.head_dim(), device),
            patches,
            blocks,
            windows,
            pictures: grids.iter().map(Grid::patches).collect(),
        }
    }
}

/// Half of the pairs turn by the row, half by the column: pair `i` of a half of `D/4` by `position · 10000^(-4i/D)`.
fn rotary(positions: &[(usize, usize)], head_dim: usize, device: &Device) -> Rotary {
    let quarter = head_dim / 4;
    let frequencies: Vec<f64> =
        (0..quarter).map(|i| THETA.powf(-2.0 * i as f64 / (head_dim / 2) as f64)).collect();
    let highest = positions.iter().map(|(row, column)| row.max(column) + 1).max().unwrap_or(0);
    let table: Vec<(f32, f32)> = (0..highest)
        .flat_map(|at| frequencies.iter().map(move |f| (at as f64 * f).sin_cos()))
        .map(|(sin, cos)| (sin as f32, cos as f32))
        .collect();
    let angles = |&(row, column): &(usize, usize)| {
        let of = |at: usize| &table[at * quarter..(at + 1) * quarter];
        of(row).iter().chain(of(column))
    };
    let device = device.clone().inner();
    let tensor = |part: fn(&(f32, f32)) -> f32| {
        let values: Vec<f32> = positions.iter().flat_map(angles).map(part).collect();
        Tensor::from_data(TensorData::new(values, [positions.len(), 2 * quarter]), &device)
    };
    Rotary { cos: tensor(|angle| angle.1), sin: tensor(|angle| angle.0) }
}
