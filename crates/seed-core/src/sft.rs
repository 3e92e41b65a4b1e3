//! Supervised fine-tuning: the next-token loss on response tokens.

use burn::tensor::Tensor;

use crate::aggregate::{Aggregation, Normalizer, aggregate_over};
use crate::error::{InputError, setting};
use crate::rows::TokenRows;

/// Which next-token predictions of one sequence count.
///
/// Position i predicts token i + 1, so a sequence of `length` tokens has `length − 1` predictions; those of tokens at or after
/// `prompt_length` count. A sequence without prompt has no prediction for its first token.
pub fn shifted_loss_mask(length: usize, prompt_length: usize) -> Vec<bool> {
    (1..length).map(|target| target >= prompt_length).collect()
}

/// Mean negative log-probability of the counted target tokens, in nats.
///
/// `logp` has one entry per token of `rows`: the log-probability of each target. Over a mini-batch in parts, pass the merged
/// counts as `over`; alone, `None`. Without a counted token the loss is 0.
pub fn sft_loss(
    logp: Tensor<1>,
    rows: &TokenRows,
    over: Option<&Normalizer>,
) -> Result<Tensor<1>, InputError> {
    let own = Normalizer::of(rows);
    let over = over.unwrap_or(&own);
    setting(
        "over.tokens",
        over.tokens as f64,
        over.tokens >= own.tokens,
        "at least the tokens of this part",
    )?;
    Ok(-aggregate_over(logp, rows, Aggregation::TokenMean, over)?)
}
