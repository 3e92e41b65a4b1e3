//! A picture that is ready for the vision tower.

use std::sync::Arc;

/// Size of a picture in patches: one frame, `height` rows of `width` patches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grid {
    /// Rows of patches.
    pub height: usize,
    /// Patches in a row.
    pub width: usize,
}

impl Grid {
    /// Number of patches.
    pub fn patches(&self) -> usize {
        self.height * self.width
    }
}

/// How pixels become the numbers of patches: what pictures of one processor share.
#[derive(Debug, PartialEq)]
pub(crate) struct PatchForm {
    /// Pixels of a patch's side.
    pub(crate) patch: usize,
    /// Copies of a still picture in a patch.
    pub(crate) frames: usize,
    /// Patches of a merged block's side.
    pub(crate) merge: usize,
    /// Value of each byte for red, green, blue.
    pub(crate) values: [[f32; 256]; 3],
}

/// A picture, resized so that its sides hold whole merged blocks of patches.
///
/// It keeps 8-bit pixels; [`values`](Self::values) makes the numbers that the tower reads. Share it as `Arc<Picture>`: a frame that
/// many rows look at exists once, and its embeddings are computed once a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    grid: Grid,
    /// Rows of pixels, three bytes each.
    pixels: Vec<u8>,
    form: Arc<PatchForm>,
}

// The table of values comes from finite constants: no NaN.
impl Eq for Picture {}

impl Picture {
    /// `pixels` has `grid` times the patch side on both axes, and the grid holds whole merged blocks.
    pub(crate) fn new(grid: Grid, pixels: Vec<u8>, form: Arc<PatchForm>) -> Self {
        debug_assert_eq!(pixels.len(), grid.patches() * form.patch * form.patch * 3);
        Self { grid, pixels, form }
    }

    /// Its size in patches.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Its size in place holders: rows and columns of merged blocks.
    pub fn merged(&self) -> Grid {
        Grid { height: self.grid.height / self.form.merge, width: self.grid.width / self.form.merge }
    }

    /// Place holders that it takes in a row of tokens.
    pub fn tokens(&self) -> usize {
        self.merged().patches()
    }

    /// Resized 8-bit pixels, row by row, three bytes each.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// (pixels of a patch's side, frames in a patch, patches of a merged block's side).
    pub(crate) fn form(&self) -> (usize, usize, usize) {
        (self.form.patch, self.form.frames, self.form.merge)
    }

    /// Numbers of a patch: channels · frames · side².
    pub fn patch_len(&self) -> usize {
        3 * self.form.frames * self.form.patch * self.form.patch
    }

    /// Normalised values, `[patches, patch_len]` row by row.
    ///
    /// Patches come block by block: merged blocks in rows, inside a block its patches in rows. Inside a patch: channel, frame (the
    /// still picture repeated), row, column.
    pub fn values(&self) -> Vec<f32> {
        let PatchForm { patch, frames, merge, values } = &*self.form;
        let (patch, merge, stride) = (*patch, *merge, self.grid.width * *patch * 3);
        let mut out = Vec::with_capacity(self.grid.patches() * self.patch_len());
        for_each_patch(self.grid, merge, |row, column| {
            let corner = row * patch * stride + column * patch * 3;
            for (channel, values) in values.iter().enumerate() {
                for _ in 0..*frames {
                    for y in 0..patch {
                        let line = &self.pixels[corner + y * stride..][..patch * 3];
                        out.extend(line[channel..].iter().step_by(3).map(|byte| values[usize::from(*byte)]));
                    }
                }
            }
        });
        out
    }
}

/// Row and column of every patch, in the order of published patch tensors.
pub(crate) fn for_each_patch(grid: Grid, merge: usize, mut visit: impl FnMut(usize, usize)) {
    for block_row in (0..grid.height).step_by(merge) {
        for block_column in (0..grid.width).step_by(merge) {
            for row in block_row..block_row + merge {
                for column in block_column..block_column + merge {
                    visit(row, column);
                }
            }
        }
    }
}
