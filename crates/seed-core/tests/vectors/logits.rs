//! From logits to the numbers that the crate works on. `seed-model` does this without a rows × vocabulary buffer; for a vocabulary
//! of a handful of tokens the textbook form is enough.

use burn::tensor::{Int, Tensor, TensorData, activation::log_softmax};

/// log softmax(z / temperature) at the sampled tokens: `[tokens, vocabulary]` → `[tokens]`.
pub(crate) fn selected_logprob(logits: Tensor<2>, tokens: &[u32], temperature: f64) -> Tensor<1> {
    let index: Vec<i64> = tokens.iter().map(|&token| i64::from(token)).collect();
    let index =
        Tensor::<2, Int>::from_data(TensorData::new(index, [tokens.len(), 1]), &logits.device().inner());
    // The backward pass of a division rounds the reciprocal to single precision.
    log_softmax(logits * temperature.recip(), 1).gather(1, index).reshape([-1])
}

/// −Σ p log p of each position.
pub(crate) fn entropy(logits: Tensor<2>) -> Tensor<1> {
    let logp = log_softmax(logits, 1);
    -(logp.clone().exp() * logp).sum_dim(1).reshape([-1])
}
