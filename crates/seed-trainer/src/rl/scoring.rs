//! Old, reference, teacher and current log-probabilities: one layout, one definition, [`seed_model::ScoreBatch`].

use crate::mesh::Mesh;
use burn::tensor::Tensor;
use seed_model::{CausalLm, PlacedPicture, ScoreBatch, ScoreError, ScoreRow};
use std::ops::Range;

/// A row of which only the sampled tokens are scored.
#[derive(Debug, Clone, Copy)]
pub struct SampledRow<'a> {
    /// Ids before the response.
    pub prompt: &'a [u32],
    /// Sampled ids and, between them, what the environment said.
    pub response: &'a [u32],
    /// True where the policy sampled the id.
    pub mask: &'a [bool],
    /// Pictures at their places over prompt and response; empty for text.
    pub pictures: &'a [PlacedPicture],
}

impl SampledRow<'_> {
    /// Tokens of prompt and response.
    pub fn tokens(&self) -> usize {
        self.prompt.len() + self.response.len()
    }
}

/// Log-probabilities of the sampled tokens of one row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TokenScores {
    /// One entry a sampled token.
    pub logp: Vec<f32>,
    /// Entropy at the same places, where it was asked for.
    pub entropy: Option<Vec<f32>>,
}

/// Lays out rows so that hidden states of sampled tokens alone meet the head.
///
/// # Errors
/// [`ScoreError`] for an empty prompt or an id outside the vocabulary.
pub fn sampled_batch(rows: &[SampledRow<'_>], vocab_size: usize) -> Result<ScoreBatch, ScoreError> {
    let all: Vec<ScoreRow<'_>> = rows
        .iter()
        .map(|row| ScoreRow { prompt: row.prompt, response: row.response, pictures: row.pictures })
        .collect();
    let mut batch = ScoreBatch::new(&all, vocab_size)?;
    let mask: Vec<bool> = rows.iter().flat_map(|row| row.mask.iter().copied()).collect();
    let mut keep = mask.iter();
    batch.predicted_by.retain(|_| *keep.next().expect("a mask entry for each response token"));
    let mut keep = mask.iter();
    batch.targets.retain(|_| *keep.next().expect("a mask entry for each response token"));
    batch.lengths = rows.iter().map(|row| row.mask.iter().filter(|sampled| **sampled).count()).collect();
    Ok(batch)
}

/// Scores rows on all workers, in passes of at most `micro_tokens` tokens (at least one row each).
///
/// # Errors
/// [`ScoreError`] for an empty prompt, an id outside the vocabulary or a picture that the model cannot see.
pub fn score_rows(
    mesh: &Mesh,
    model: &CausalLm,
    rows: &[SampledRow<'_>],
    micro_tokens: usize,
    temperature: f64,
    entropy: bool,
) -> Result<Vec<TokenScores>, ScoreError> {
    let parts = pack(rows.iter().map(SampledRow::tokens), micro_tokens);
    let vocab_size = model.config().vocab_size;
    let replicas = mesh.replicas(model, parts.len());
    let scored = mesh.map_by_worker(parts.len(), |worker, part| {
        let model = &replicas[worker];
        let batch = sampled_batch(&rows[parts[part].clone()], vocab_size)?;
        model.check_pictures(&batch.packed).map_err(ScoreError::Unseen)?;
        let scores = batch.scores(model.hidden(&batch.packed), model.lm_head(), temperature, entropy);
        Ok(split(&batch.lengths, host(scores.logp), scores.entropy.map(host)))
    })?;
    Ok(scored.into_iter().flatten().collect())
}

/// Cuts consecutive rows into parts of at most `limit` tokens; a longer row is a part of its own.
pub fn pack(tokens: impl IntoIterator<Item = usize>, limit: usize) -> Vec<Range<usize>> {
    let mut parts = vec![];
    let (mut start, mut filled, mut end) = (0, 0, 0);
    for tokens in tokens {
        if end > start && filled + tokens > limit {
            parts.push(start..end);
            (start, filled) = (end, 0);
        }
        filled += tokens;
        end += 1;
    }
    if end > start {
        parts.push(start..end);
    }
    parts
}

/// The values of a tensor in host memory.
pub(crate) fn host(tensor: Tensor<1>) -> Vec<f32> {
    tensor.into_data_as::<f32>().try_to_vec().expect("the data was just converted to f32")
}

fn split(lengths: &[usize], logp: Vec<f32>, entropy: Option<Vec<f32>>) -> Vec<TokenScores> {
    let mut start = 0;
    lengths
        .iter()
        .map(|length| {
            let range = start..start + length;
            start = range.end;
            let entropy = entropy.as_ref().map(|all| all[range.clone()].to_vec());
            TokenScores { logp: logp[range].to_vec(), entropy }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_cover_every_row_once_and_respect_the_limit(
            tokens in prop::collection::vec(0usize..50, 0..30), limit in 1usize..100,
        ) {
            let parts = pack(tokens.iter().copied(), limit);
            let covered: Vec<usize> = parts.iter().cloned().flatten().collect();
            prop_assert_eq!(covered, (0..tokens.len()).collect::<Vec<_>>());
            for part in &parts {
                let sum: usize = tokens[part.clone()].iter().sum();
                prop_assert!(sum <= limit || part.len() == 1);
            }
        }
    }

    #[test]
    fn only_sampled_tokens_are_targets() {
        let rows = [
            SampledRow {
                prompt: &[1, 2],
                response: &[3, 4, 5, 6],
                mask: &[true, false, false, true],
                pictures: &[],
            },
            SampledRow { prompt: &[7], response: &[8], mask: &[true], pictures: &[] },
        ];
        let batch = sampled_batch(&rows, 10).unwrap();
        assert_eq!(batch.packed.ids, [1, 2, 3, 4, 5, 7]);
        assert_eq!((batch.targets, batch.predicted_by), (vec![3, 6, 8], vec![1, 4, 5]));
        assert_eq!(batch.lengths, [2, 1]);
    }
}
