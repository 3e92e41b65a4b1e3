//! Log-probabilities of given tokens: the one definition that everything scores with.

use burn::tensor::{FloatDType, Int, Tensor, TensorData, activation::log_softmax};

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
/// `hidden` is `[T, H]`, `lm_head` `[V, H]`, `targets` has `T` ids below `V`. `temperature` is positive. The softmax runs over
/// all `V` rows, in f32.
///
/// # Panics
/// When `targets.len()` is not `T`.
pub fn selected_logprob(
    hidden: Tensor<2>,
    lm_head: Tensor<2>,
    targets: &[u32],
    temperature: f64,
    entropy: bool,
) -> SelectedLogprob {
    let tokens = hidden.dims()[0];
    assert_eq!(tokens, targets.len(), "one target for each hidden state");
    let device = hidden.device();
    let logits = super::linear(hidden, lm_head, None).cast(FloatDType::F32).div_scalar(temperature);
    let logp_all = log_softmax(logits, 1);
    let ids: Vec<i32> = targets.iter().map(|id| *id as i32).collect();
    let ids = Tensor::<2, Int>::from_data(TensorData::new(ids, [tokens, 1]), &device);
    let entropy =
        entropy.then(|| (logp_all.clone().exp() * logp_all.clone()).sum_dim(1).neg().reshape([tokens]));
    SelectedLogprob { logp: logp_all.gather(1, ids).reshape([tokens]), entropy }
}
