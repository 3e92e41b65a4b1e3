//! The operators as plain burn operations: what the fused kernels are tested against, and what runs on other devices.

use super::SelectedLogprob;
use burn::tensor::activation::{log_softmax, silu, softmax};
use burn::tensor::{Bool, FloatDType, Int, Tensor, TensorData, s};

/// See [`causal_attention`](super::causal_attention).
pub fn causal_attention(
    q: Tensor<3>,
    k: Tensor<3>,
    v: Tensor<3>,
    lengths: &[usize],
    scale: f64,
) -> Tensor<3> {
    attention(q, k, v, lengths, scale, true)
}

/// See [`full_attention`](super::full_attention).
pub fn full_attention(q: Tensor<3>, k: Tensor<3>, v: Tensor<3>, lengths: &[usize], scale: f64) -> Tensor<3> {
    attention(q, k, v, lengths, scale, false)
}

fn attention(
    q: Tensor<3>,
    k: Tensor<3>,
    v: Tensor<3>,
    lengths: &[usize],
    scale: f64,
    causal: bool,
) -> Tensor<3> {
    let mut rows = Vec::with_capacity(lengths.len());
    let mut start = 0;
    for &len in lengths.iter().filter(|len| **len > 0) {
        let row = |x: &Tensor<3>| x.clone().narrow(0, start, len);
        rows.push(attend_row(row(&q), row(&k), row(&v), scale, causal));
        start += len;
    }
    assert_eq!(start, q.dims()[0], "row lengths sum to the number of tokens");
    match rows.len() {
        0 => q,
        1 => rows.remove(0),
        _ => Tensor::cat(rows, 0),
    }
}

/// Attention of the last `q.len` positions of one sequence over all its keys: `q` is `[n, heads, D]`, `k` and `v` are
/// `[len, kv_heads, D]` with `len >= n`. With `causal`, none sees a key after its own position.
pub fn attend_row(q: Tensor<3>, k: Tensor<3>, v: Tensor<3>, scale: f64, causal: bool) -> Tensor<3> {
    let [count, heads, dim] = q.dims();
    let [len, kv_heads, _] = k.dims();
    let group = heads / kv_heads;
    // Queries that share a key head become rows of one product: keys are never repeated.
    let q = q.swap_dims(0, 1).reshape([kv_heads, group * count, dim]);
    let scores = q.matmul(k.swap_dims(0, 1).transpose()).mul_scalar(scale).reshape([heads, count, len]);
    let dtype: FloatDType = scores.dtype().into();
    let mut scores = scores.cast(FloatDType::F32);
    if causal {
        let offset = (len - count) as i64;
        let device = scores.device().inner();
        let future = Tensor::<2, Bool>::tril_mask([count, len], offset, &device).unsqueeze::<3>();
        scores = scores.mask_fill(future, f32::NEG_INFINITY);
    }
    let weights = softmax(scores, 2).cast(dtype).reshape([kv_heads, group * count, len]);
    weights.matmul(v.swap_dims(0, 1)).reshape([heads, count, dim]).swap_dims(0, 1)
}

/// See [`linear`](super::linear).
pub fn linear(x: Tensor<2>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<2> {
    let y = x.matmul(weight.transpose());
    match bias {
        Some(bias) => y + bias.unsqueeze(),
        None => y,
    }
}

/// See [`embedding`](super::embedding).
pub fn embedding(table: Tensor<2>, ids: &[u32]) -> Tensor<2> {
    let device = table.device().inner();
    table.select(0, indices(ids, &device))
}

/// See [`gated_mlp`](super::gated_mlp).
pub fn gated_mlp(gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> {
    silu(gate) * up
}

/// See [`rms_norm`](super::rms_norm).
pub fn rms_norm<const R: usize>(x: Tensor<R>, weight: Tensor<1>, eps: f64) -> Tensor<R> {
    let dtype: FloatDType = x.dtype().into();
    let wide = x.cast(FloatDType::F32);
    let scale = (wide.clone().square().mean_dim(R - 1) + eps).sqrt().recip();
    (wide * scale).cast(dtype) * weight.unsqueeze()
}

/// See [`layer_norm`](super::layer_norm).
pub fn layer_norm(x: Tensor<2>, weight: Tensor<1>, bias: Tensor<1>, eps: f64) -> Tensor<2> {
    let dtype: FloatDType = x.dtype().into();
    let wide = x.cast(FloatDType::F32);
    let centred = wide.clone() - wide.mean_dim(1);
    let scale = (centred.clone().square().mean_dim(1) + eps).sqrt().recip();
    (centred * scale).cast(dtype) * weight.unsqueeze() + bias.unsqueeze()
}

/// See [`gelu`](super::gelu).
pub fn gelu(x: Tensor<2>) -> Tensor<2> {
    burn::tensor::activation::gelu(x)
}

/// See [`rotary`](super::rotary).
pub fn rotary(x: Tensor<3>, cos: Tensor<2>, sin: Tensor<2>) -> Tensor<3> {
    let half = x.dims()[2] / 2;
    let dtype: FloatDType = x.dtype().into();
    let (cos, sin) = (cos.cast(dtype).unsqueeze_dim::<3>(1), sin.cast(dtype).unsqueeze_dim::<3>(1));
    let first = x.clone().slice(s![.., .., 0..half]);
    let second = x.slice(s![.., .., half..]);
    let turned_first = first.clone() * cos.clone() - second.clone() * sin.clone();
    let turned_second = second * cos + first * sin;
    Tensor::cat(vec![turned_first, turned_second], 2)
}

/// See [`selected_logprob`](super::selected_logprob). Holds the logits of all tokens at once.
pub fn selected_logprob(
    hidden: Tensor<2>,
    lm_head: Tensor<2>,
    targets: &[u32],
    temperature: f64,
    entropy: bool,
) -> SelectedLogprob {
    let tokens = hidden.dims()[0];
    let device = hidden.device().inner();
    let logits = linear(hidden, lm_head, None).cast(FloatDType::F32).div_scalar(temperature);
    let logp_all = log_softmax(logits, 1);
    let entropy =
        entropy.then(|| (logp_all.clone().exp() * logp_all.clone()).sum_dim(1).neg().reshape([tokens]));
    let ids = indices(targets, &device).reshape([tokens, 1]);
    SelectedLogprob { logp: logp_all.gather(1, ids).reshape([tokens]), entropy }
}

fn indices(ids: &[u32], device: &burn::tensor::Device) -> Tensor<1, Int> {
    let ids: Vec<i32> = ids.iter().map(|id| *id as i32).collect();
    let count = ids.len();
    Tensor::from_data(TensorData::new(ids, [count]), device)
}
