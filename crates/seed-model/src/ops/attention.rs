//! Causal attention inside each row of a packed batch.

use burn::tensor::{Bool, FloatDType, Tensor, activation::softmax};

/// Attention of every token to itself and the earlier tokens of its own row.
///
/// `q` is `[T, heads, D]`, `k` and `v` are `[T, kv_heads, D]` with `heads` a multiple of `kv_heads`: query head `h` reads
/// key-value head `h / (heads / kv_heads)`. `lengths` are the rows, summing to `T`. Returns `[T, heads, D]`.
/// Softmax is taken in f32.
pub fn causal_attention(
    q: Tensor<3>,
    k: Tensor<3>,
    v: Tensor<3>,
    lengths: &[usize],
    scale: f64,
) -> Tensor<3> {
    let mut rows = Vec::with_capacity(lengths.len());
    let mut start = 0;
    for &len in lengths.iter().filter(|len| **len > 0) {
        let row = |x: &Tensor<3>| x.clone().narrow(0, start, len);
        rows.push(attend_row(row(&q), row(&k), row(&v), scale));
        start += len;
    }
    debug_assert_eq!(start, q.dims()[0], "row lengths sum to the number of tokens");
    if rows.len() == 1 { rows.remove(0) } else { Tensor::cat(rows, 0) }
}

fn attend_row(q: Tensor<3>, k: Tensor<3>, v: Tensor<3>, scale: f64) -> Tensor<3> {
    let [len, heads, dim] = q.dims();
    let kv_heads = k.dims()[1];
    let group = heads / kv_heads;
    // Queries that share a key head become rows of one product: keys are never repeated.
    let q = q.swap_dims(0, 1).reshape([kv_heads, group * len, dim]);
    let scores = q.matmul(k.swap_dims(0, 1).transpose()).mul_scalar(scale).reshape([heads, len, len]);
    let future = Tensor::<2, Bool>::tril_mask([len, len], 0, &scores.device()).unsqueeze::<3>();
    let dtype: FloatDType = scores.dtype().into();
    let scores = scores.cast(FloatDType::F32).mask_fill(future, f32::NEG_INFINITY);
    let weights = softmax(scores, 2).cast(dtype).reshape([kv_heads, group * len, len]);
    weights.matmul(v.swap_dims(0, 1)).reshape([heads, len, dim]).swap_dims(0, 1)
}
