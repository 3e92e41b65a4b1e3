//! From one number per token to one number per batch: the four aggregations and their normalisers.
//!
//! An aggregation is a sum of token values times weights, divided by a count. The count may be taken over the tokens at hand
//! (one micro-batch) or over a whole mini-batch that is processed in parts ([`Normalizer::merge`]): in the second case the parts
//! add up to exactly what one big batch would give.

use burn::tensor::Tensor;

use crate::error::{InputError, same_length};
use crate::rows::{Cleaner, TokenRows, constant, loss_precision};
use crate::switch::switch;

switch! {
    /// How token losses become one loss.
    Aggregation ("aggregation") {
        /// Sum over counted tokens / their number.
        TokenMean = "token-mean",
        /// Sum over the tokens of a row, mean over all rows, empty ones included.
        SeqMeanTokenSum = "seq-mean-token-sum",
        /// Mean over the tokens of a row, mean over the rows that have a counted token.
        SeqMeanTokenMean = "seq-mean-token-mean",
        /// Sum over everything / padded width ([`TokenRows::with_width`]).
        SeqMeanTokenSumNorm = "seq-mean-token-sum-norm",
    }
}

/// The counts that an [`Aggregation`] may divide by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Normalizer {
    /// Counted tokens.
    pub tokens: usize,
    /// Rows, empty ones included.
    pub rows: usize,
    /// Rows with at least one counted token.
    pub filled_rows: usize,
    /// Padded width.
    pub width: usize,
}

impl Normalizer {
    /// The counts of one batch.
    pub fn of(rows: &TokenRows) -> Self {
        let per_row = rows.counted_per_row();
        Self {
            tokens: per_row.iter().sum(),
            rows: per_row.len(),
            filled_rows: per_row.iter().filter(|&&count| count > 0).count(),
            width: rows.width(),
        }
    }

    /// Adds the counts of another part of the same mini-batch; the padded width is the larger one.
    pub fn merge(&mut self, other: &Self) {
        self.tokens += other.tokens;
        self.rows += other.rows;
        self.filled_rows += other.filled_rows;
        self.width = self.width.max(other.width);
    }

    /// What `aggregation` divides by.
    pub fn divisor(&self, aggregation: Aggregation) -> usize {
        match aggregation {
            Aggregation::TokenMean => self.tokens,
            Aggregation::SeqMeanTokenSum => self.rows,
            Aggregation::SeqMeanTokenMean => self.filled_rows,
            Aggregation::SeqMeanTokenSumNorm => self.width,
        }
    }
}

/// The weight of each token in the aggregated value: its derivative with respect to the token's loss.
///
/// `counted` says which tokens take part; `averaged` over which tokens a row mean is taken (the same layout except for the
/// response-token normaliser of distillation); `over` holds the counts. Without anything to divide by, all weights are zero.
pub fn token_weights(
    aggregation: Aggregation,
    counted: &TokenRows,
    averaged: &TokenRows,
    over: &Normalizer,
) -> Result<Vec<f64>, InputError> {
    let per_row = row_weights(aggregation, averaged);
    let scale = inverse(over.divisor(aggregation));
    counted.spread(&per_row.iter().map(|weight| weight * scale).collect::<Vec<_>>())
}

/// Aggregates token values `[tokens]` to one value `[1]`, divided by the counts of the same batch.
///
/// Masked places never matter. A mask without any counted token gives 0.
pub fn aggregate(
    values: Tensor<1>,
    rows: &TokenRows,
    aggregation: Aggregation,
) -> Result<Tensor<1>, InputError> {
    aggregate_over(values, rows, aggregation, &Normalizer::of(rows))
}

/// Aggregates one part of a mini-batch whose counts are `over`; the results of all parts add up to the aggregate of the whole.
pub fn aggregate_over(
    values: Tensor<1>,
    rows: &TokenRows,
    aggregation: Aggregation,
    over: &Normalizer,
) -> Result<Tensor<1>, InputError> {
    same_length("values", values.dims()[0], rows.token_count(), "token")?;
    let values = loss_precision(values);
    let cleaner = rows.cleaner(&values);
    let values = cleaner.mask(values);
    Ok(Averager::new(aggregation, rows, rows, over, &cleaner)?.average(values))
}

/// One aggregation prepared for several token tensors of the same batch, whose masked places are already zero.
pub(crate) struct Averager {
    /// `None` when all weights are equal, which is every mode but the mean of row means.
    weights: Option<Tensor<1>>,
    scale: f64,
}

impl Averager {
    pub(crate) fn new(
        aggregation: Aggregation,
        counted: &TokenRows,
        averaged: &TokenRows,
        over: &Normalizer,
        cleaner: &Cleaner,
    ) -> Result<Self, InputError> {
        let weights = match aggregation {
            Aggregation::SeqMeanTokenMean => {
                let weights = counted.spread(&row_weights(aggregation, averaged))?;
                Some(constant(&weights, &cleaner.device, cleaner.dtype))
            }
            _ => None,
        };
        Ok(Self { weights, scale: inverse(over.divisor(aggregation)) })
    }

    /// Divides by a number of parts as well: the mean of the parts' means.
    pub(crate) fn over_parts(self, parts: usize) -> Self {
        Self { scale: self.scale / parts as f64, ..self }
    }

    /// `clean` holds zero at masked places.
    pub(crate) fn average(&self, clean: Tensor<1>) -> Tensor<1> {
        let weighted = match &self.weights {
            Some(weights) => clean * weights.clone(),
            None => clean,
        };
        weighted.sum() * self.scale
    }
}

fn row_weights(aggregation: Aggregation, averaged: &TokenRows) -> Vec<f64> {
    match aggregation {
        Aggregation::SeqMeanTokenMean => averaged.counted_per_row().into_iter().map(inverse).collect(),
        _ => vec![1.0; averaged.row_count()],
    }
}

fn inverse(count: usize) -> f64 {
    if count == 0 { 0.0 } else { 1.0 / count as f64 }
}
