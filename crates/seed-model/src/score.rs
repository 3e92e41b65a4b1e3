//! Scoring of given responses: the log-probability function for roll-out checks, old, reference, teacher and current policies.

use crate::batch::PackedBatch;
use crate::causal_lm::CausalLm;
use crate::decoder::id_tensor;
use crate::ops::{self, SelectedLogprob};
use crate::vision::{PictureError, PlacedPicture, Prompt, check_places};
use burn::tensor::Tensor;

/// A response to score, after its prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScoreRow<'a> {
    /// Ids before the response; at least one.
    pub prompt: &'a [u32],
    /// Ids to score; may be empty.
    pub response: &'a [u32],
    /// Pictures of the row; empty for text. In the prompt, or between scored parts of the response.
    pub pictures: &'a [PlacedPicture],
}

impl<'a> ScoreRow<'a> {
    /// A row without pictures.
    pub fn new(prompt: &'a [u32], response: &'a [u32]) -> Self {
        Self { prompt, response, pictures: &[] }
    }
}

/// What [`score()`] returns: responses concatenated in the order of the rows, `R` tokens together.
#[derive(Debug, Clone)]
pub struct Scores {
    /// `[R]` in f32: log-probability of each response token, given everything before it in its row.
    pub logp: Tensor<1>,
    /// `[R]` in f32: entropy of the distribution at each place, in nats; only where asked for.
    pub entropy: Option<Tensor<1>>,
    /// Length of each response; they sum to `R`.
    pub lengths: Vec<usize>,
}

/// Why rows cannot be scored.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScoreError {
    /// The first response token has nothing before it.
    #[error("row {row}: the prompt is empty; a response needs at least one id before it")]
    EmptyPrompt {
        /// Index of the row.
        row: usize,
    },
    /// An id has no row in the embedding.
    #[error("row {row}: id {found} is outside the vocabulary of {vocab_size} ids")]
    UnknownId {
        /// Index of the row.
        row: usize,
        /// The id.
        found: u32,
        /// Rows of the embedding.
        vocab_size: usize,
    },
    /// Pictures and tokens do not fit together.
    #[error("row {row}: {source}")]
    Picture {
        /// Index of the row.
        row: usize,
        /// What is wrong.
        source: PictureError,
    },
    /// The model cannot see the pictures.
    #[error(transparent)]
    Unseen(PictureError),
    /// Logits cannot be divided by it.
    #[error("temperature is {found}, needed: a positive, finite number")]
    Temperature {
        /// The value given.
        found: f64,
    },
}

/// Rows laid out for scoring: what goes through the model, and which of its hidden states predict a response token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScoreBatch {
    /// Prompt and response of each row; the last response token is left out, it predicts nothing.
    pub packed: PackedBatch,
    /// Index into the packed tokens of the hidden state that predicts each response token.
    pub predicted_by: Vec<u32>,
    /// All response ids.
    pub targets: Vec<u32>,
    /// Length of each response.
    pub lengths: Vec<usize>,
}

impl ScoreBatch {
    /// Lays out `rows`; `vocab_size` bounds the ids.
    ///
    /// # Errors
    /// [`ScoreError`] for an empty prompt, an id outside the vocabulary or a picture outside its row.
    pub fn new(rows: &[ScoreRow<'_>], vocab_size: usize) -> Result<Self, ScoreError> {
        let mut batch =
            Self { packed: PackedBatch::default(), predicted_by: vec![], targets: vec![], lengths: vec![] };
        for (index, row) in rows.iter().enumerate() {
            if row.prompt.is_empty() {
                return Err(ScoreError::EmptyPrompt { row: index });
            }
            let ids = row.prompt.iter().chain(row.response);
            if let Some(&found) = ids.clone().find(|id| **id as usize >= vocab_size) {
                return Err(ScoreError::UnknownId { row: index, found, vocab_size });
            }
            batch.lengths.push(row.response.len());
            if row.response.is_empty() {
                continue;
            }
            let first = batch.packed.tokens() + row.prompt.len() - 1;
            let length = row.prompt.len() + row.response.len() - 1;
            check_places(row.pictures, length)
                .map_err(|source| ScoreError::Picture { row: index, source })?;
            batch.predicted_by.extend((first..first + row.response.len()).map(|i| i as u32));
            batch.targets.extend_from_slice(row.response);
            let ids: Vec<u32> = ids.take(length).copied().collect();
            batch.packed.push_prompt(Prompt { ids: &ids, pictures: row.pictures });
        }
        Ok(batch)
    }

    /// Scores from the hidden states `[T, hidden]` of [`packed`](Self::packed) and a head `[vocab, hidden]`.
    pub fn scores(&self, hidden: Tensor<2>, lm_head: Tensor<2>, temperature: f64, entropy: bool) -> Scores {
        let lengths = self.lengths.clone();
        let device = hidden.device();
        if self.targets.is_empty() {
            let none = Tensor::<1>::zeros([0], &device);
            return Scores { logp: none.clone(), entropy: entropy.then_some(none), lengths };
        }
        let predicting = hidden.select(0, id_tensor(&self.predicted_by, &device.inner()));
        let SelectedLogprob { logp, entropy } =
            ops::selected_logprob(predicting, lm_head, &self.targets, temperature, entropy);
        Scores { logp, entropy, lengths }
    }
}

/// Log-probabilities of the responses of `rows` under `model` at `temperature` (logits are divided by it).
///
/// Rows are packed: the result of a row does not depend on its company, its place or any padding. Gradients flow to the
/// model's parameters where its device has autodiff.
///
/// # Errors
/// [`ScoreError`] for an empty prompt, an id outside the vocabulary, pictures that do not fit the row or the model, or a temperature
/// that is not positive.
pub fn score(
    model: &CausalLm,
    rows: &[ScoreRow<'_>],
    temperature: f64,
    entropy: bool,
) -> Result<Scores, ScoreError> {
    if !(temperature.is_finite() && temperature > 0.0) {
        return Err(ScoreError::Temperature { found: temperature });
    }
    let batch = ScoreBatch::new(rows, model.config().vocab_size)?;
    model.check_pictures(&batch.packed).map_err(ScoreError::Unseen)?;
    let hidden = model.hidden(&batch.packed);
    Ok(batch.scores(hidden, model.lm_head(), temperature, entropy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_response_token_is_predicted_by_the_one_before_it() {
        let rows = [ScoreRow::new(&[1, 2], &[3, 4]), ScoreRow::new(&[5], &[]), ScoreRow::new(&[6], &[7])];
        let batch = ScoreBatch::new(&rows, 10).unwrap();
        assert_eq!(batch.packed, PackedBatch::new(&[vec![1, 2, 3], vec![6]]));
        assert_eq!(batch.predicted_by, [1, 2, 3]);
        assert_eq!(batch.targets, [3, 4, 7]);
        assert_eq!(batch.lengths, [2, 0, 1]);
    }

    #[test]
    fn bad_rows_are_named() {
        let row = ScoreRow::new(&[], &[1]);
        assert_eq!(ScoreBatch::new(&[row], 10), Err(ScoreError::EmptyPrompt { row: 0 }));
        let row = ScoreRow::new(&[1], &[10]);
        assert_eq!(
            ScoreBatch::new(&[row], 10),
            Err(ScoreError::UnknownId { row: 0, found: 10, vocab_size: 10 })
        );
    }
}
