//! Rows of tokens joined without padding.

use crate::vision::{Axes, PlacedPicture, Prompt, Span};

/// Several rows of token ids as one sequence; attention never crosses a row's edge.
///
/// `T` below is [`tokens`](Self::tokens), the sum of all lengths. Rows of length 0 are allowed and contribute nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PackedBatch {
    /// All ids, row after row.
    pub ids: Vec<u32>,
    /// Length of each row; they sum to `ids.len()`.
    pub lengths: Vec<usize>,
    /// Pictures of all rows, their places counted in `ids`, in ascending order.
    pub pictures: Vec<PlacedPicture>,
}

impl PackedBatch {
    /// Packs rows in the order given.
    pub fn new<R: AsRef<[u32]>>(rows: &[R]) -> Self {
        let mut batch = Self::default();
        for row in rows {
            batch.push(row.as_ref());
        }
        batch
    }

    /// Appends one row.
    pub fn push(&mut self, row: &[u32]) {
        self.push_prompt(Prompt::text(row));
    }

    /// Appends one row with its pictures.
    pub fn push_prompt(&mut self, row: Prompt<'_>) {
        let start = self.ids.len();
        self.pictures.extend(row.pictures.iter().map(|placed| placed.shifted(start)));
        self.ids.extend_from_slice(row.ids);
        self.lengths.push(row.ids.len());
    }

    /// Number of tokens of all rows.
    pub fn tokens(&self) -> usize {
        self.ids.len()
    }

    /// Where each row starts in `ids`, and one more entry for the end: `lengths.len() + 1` values.
    pub fn offsets(&self) -> Vec<usize> {
        std::iter::once(0)
            .chain(self.lengths.iter().scan(0, |end, len| {
                *end += len;
                Some(*end)
            }))
            .collect()
    }

    /// Position of each token in its row, from 0.
    pub fn positions(&self) -> Vec<u32> {
        self.lengths.iter().flat_map(|&len| 0..len as u32).collect()
    }

    /// Position of each token on the axes time, height and width: text counts on all three, the place holders of a picture have one
    /// time and count in rows and columns, and text goes on after the highest of them.
    pub fn axes(&self) -> Vec<Axes> {
        let mut span = Span::default();
        let (mut start, mut rest) = (0, self.pictures.as_slice());
        for &len in &self.lengths {
            let (here, later) = rest.split_at(rest.partition_point(|placed| placed.start < start + len));
            span.next = 0;
            let here: Vec<PlacedPicture> = here.iter().map(|placed| placed.earlier(start)).collect();
            span.push(len, &here);
            (start, rest) = (start + len, later);
        }
        span.axes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_their_edges() {
        let batch = PackedBatch::new(&[vec![5, 6, 7], vec![], vec![8]]);
        assert_eq!(batch.ids, [5, 6, 7, 8]);
        assert_eq!(batch.offsets(), [0, 3, 3, 4]);
        assert_eq!(batch.positions(), [0, 1, 2, 0]);
    }
}
