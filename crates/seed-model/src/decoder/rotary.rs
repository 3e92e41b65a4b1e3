//! Angles of the rotary embedding.

use crate::config::RotaryFrequencies;
use burn::tensor::{Device, Tensor, TensorData, s};

/// Cosines and sines for the tokens of one batch.
#[derive(Debug, Clone)]
pub struct Rotary {
    /// `[T, D/2]` in f32.
    pub cos: Tensor<2>,
    /// `[T, D/2]` in f32.
    pub sin: Tensor<2>,
}

/// Tables for tokens at `positions`: pair `i` turns by `position · radians[i]`.
pub fn rotary_tables(positions: &[u32], frequencies: &RotaryFrequencies, device: &Device) -> Rotary {
    let RotaryFrequencies { radians, attention_factor: scale } = frequencies;
    let half = radians.len();
    let angles = |position: u32| {
        radians.iter().map(move |f| {
            let (sin, cos) = (f64::from(position) * f).sin_cos();
            (sin * scale, cos * scale)
        })
    };
    let (mut cos, mut sin) =
        (Vec::with_capacity(positions.len() * half), Vec::with_capacity(positions.len() * half));
    let highest = positions.iter().copied().max().unwrap_or(0) as usize;
    if highest < positions.len() {
        // Rows repeat positions: compute each once.
        let table: Vec<(f32, f32)> =
            (0..=highest as u32).flat_map(&angles).map(|(s, c)| (s as f32, c as f32)).collect();
        for &position in positions {
            for (s, c) in &table[position as usize * half..][..half] {
                sin.push(*s);
                cos.push(*c);
            }
        }
    } else {
        for (s, c) in positions.iter().copied().flat_map(angles) {
            sin.push(s as f32);
            cos.push(c as f32);
        }
    }
    let device = device.clone().inner();
    let tensor =
        |values: Vec<f32>| Tensor::from_data(TensorData::new(values, [positions.len(), half]), &device);
    Rotary { cos: tensor(cos), sin: tensor(sin) }
}

/// Tables for tokens at positions on several axes: pair `i` turns as in [`rotary_tables`], by the position on the axis whose section
/// of pairs holds it. Equal positions on all axes give the plain table.
///
/// `sections` sum to half the head size.
pub fn axis_tables(
    positions: &[[u32; 3]],
    sections: [usize; 3],
    frequencies: &RotaryFrequencies,
    device: &Device,
) -> Rotary {
    let axis = |axis: usize| {
        let positions: Vec<u32> = positions.iter().map(|at| at[axis]).collect();
        rotary_tables(&positions, frequencies, device)
    };
    let axes: [Rotary; 3] = std::array::from_fn(axis);
    let mut start = 0;
    let ranges = sections.map(|pairs| {
        start += pairs;
        start - pairs..start
    });
    let join = |part: fn(&Rotary) -> &Tensor<2>| {
        let parts = axes.iter().zip(&ranges).filter(|(_, pairs)| !pairs.is_empty());
        Tensor::cat(parts.map(|(axis, pairs)| part(axis).clone().slice(s![.., pairs.clone()])).collect(), 1)
    };
    Rotary { cos: join(|axis| &axis.cos), sin: join(|axis| &axis.sin) }
}
