//! Integer plumbing of a batch: which response tokens count, positions under padding, row counts that divide evenly.

use crate::error::{InputError, setting};

/// Which tokens of a response count: up to and including the first end token, all when there is none.
pub fn response_mask(response: &[u32], end_tokens: &[u32]) -> Vec<bool> {
    let end = response.iter().position(|token| end_tokens.contains(token)).unwrap_or(response.len());
    (0..response.len()).map(|index| index <= end).collect()
}

/// Position of each token: the running count of attended tokens − 1, not below zero.
pub fn position_ids(attended: &[bool]) -> Vec<usize> {
    let mut seen = 0;
    attended
        .iter()
        .map(|&attended| {
            seen += usize::from(attended);
            usize::saturating_sub(seen, 1)
        })
        .collect()
}

/// How far a number of rows is from dividing evenly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowAdjustment {
    /// Least common multiple of the chunk sizes.
    pub divisor: usize,
    /// Rows to append to reach the next multiple.
    pub rows_to_add: usize,
    /// Rows to drop to reach the previous multiple.
    pub rows_to_drop: usize,
}

/// Row counts that every pass can cut into equal chunks.
///
/// `chunks` holds the rows that each pass takes at once over all ranks: micro-batch size × number of ranks.
pub fn row_adjustment(rows: usize, chunks: &[usize]) -> Result<RowAdjustment, InputError> {
    let mut divisor = 1usize;
    for &chunk in chunks {
        setting("chunks", chunk as f64, chunk > 0, "sizes >= 1")?;
        divisor = (divisor / greatest_common_divisor(divisor, chunk)).checked_mul(chunk).ok_or(
            InputError::Setting {
                what: "chunks",
                found: chunk as f64,
                expected: "sizes whose least common multiple fits a machine word",
            },
        )?;
    }
    let rest = rows % divisor;
    Ok(RowAdjustment { divisor, rows_to_add: (divisor - rest) % divisor, rows_to_drop: rest })
}

fn greatest_common_divisor(mut a: usize, mut b: usize) -> usize {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}
