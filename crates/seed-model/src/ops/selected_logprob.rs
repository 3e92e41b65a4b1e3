//! Log-probabilities of given tokens: the one definition that everything scores with.

use burn::tensor::Tensor;

/// What [`selected_logprob`] returns.
#[derive(Debug, Clone)]
pub struct SelectedLogprob {
    /// `[T]` in f32: natural logarithm of the probability of each target.
    pub logp: Tensor<1>,
    /// `[T]` in f32: entropy of the whole distribution in nats; only where asked for.
    pub entropy: Option<Tensor<1>>,
}

/// Log-probability of `targets[t]` under `softmax(hidden[t] · lm_headᵀ / temperature)`.
///
/// `hidden` is `[T, H]`, `lm_head` `[V, H]` (a transposed view of `[H, V]` is as good), `targets` has `T` ids below `V`.
/// The softmax runs over all `V` rows, in f32; both results have gradients for `hidden` and `lm_head`.
///
/// Logits exist a part at a time, and the backward pass computes them again. In f32 on the CPU a fused kernel walks over slices of the
/// vocabulary with a running maximum and sum, 8 MiB of logits each; elsewhere chunks of rows with 128 MiB each are worked on.
///
/// # Panics
/// When `targets.len()` is not `T`, a target is not below `V`, or `temperature` is not positive.
pub fn selected_logprob(
    hidden: Tensor<2>,
    lm_head: Tensor<2>,
    targets: &[u32],
    temperature: f64,
    entropy: bool,
) -> SelectedLogprob {
    let ([tokens, width], [vocabulary, head_width]) = (hidden.dims(), lm_head.dims());
    assert_eq!(tokens, targets.len(), "one target for each hidden state");
    assert_eq!(width, head_width, "the head is as wide as the hidden states");
    assert!(temperature > 0.0, "temperature {temperature} is not positive");
    if let Some(target) = targets.iter().find(|target| **target as usize >= vocabulary) {
        panic!("target {target} in a vocabulary of {vocabulary}");
    }
    #[cfg(feature = "cpu")]
    if super::on_cpu(&hidden) && super::on_cpu(&lm_head) && tokens > 0 {
        return super::fused::selected_logprob(hidden, lm_head, targets, temperature, entropy);
    }
    super::chunked::within_budget(hidden, lm_head, targets, temperature, entropy)
}
