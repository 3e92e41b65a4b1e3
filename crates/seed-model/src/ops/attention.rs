//! Attention inside each row of a packed batch, causal or full, and over a cache.

use crate::cache::{Append, KvCache};
use burn::tensor::Tensor;

/// Attention of every token to itself and the earlier tokens of its own row.
///
/// `q` is `[T, heads, D]`, `k` and `v` are `[T, kv_heads, D]` with `heads` a multiple of `kv_heads`: query head `h` reads
/// key-value head `h / (heads / kv_heads)`. `lengths` are the rows, summing to `T`; empty rows are fine. Returns
/// `[T, heads, D]`. Softmax is taken in f32.
///
/// # Panics
/// When shapes or lengths do not fit.
pub fn causal_attention(
    q: Tensor<3>,
    k: Tensor<3>,
    v: Tensor<3>,
    lengths: &[usize],
    scale: f64,
) -> Tensor<3> {
    check(&q, &k, &v, lengths);
    #[cfg(feature = "cpu")]
    if super::on_cpu(&q) && super::on_cpu(&k) && super::on_cpu(&v) && q.dims()[0] > 0 {
        return super::fused::attention(q, k, v, lengths, scale, true);
    }
    super::portable::causal_attention(q, k, v, lengths, scale)
}

/// Attention of every token to all tokens of its own row, before and after it; otherwise as [`causal_attention`].
///
/// Rows may be anything that must not see each other: pictures, windows of a picture, sentences.
///
/// # Panics
/// When shapes or lengths do not fit.
pub fn full_attention(q: Tensor<3>, k: Tensor<3>, v: Tensor<3>, lengths: &[usize], scale: f64) -> Tensor<3> {
    check(&q, &k, &v, lengths);
    #[cfg(feature = "cpu")]
    if super::on_cpu(&q) && super::on_cpu(&k) && super::on_cpu(&v) && q.dims()[0] > 0 {
        return super::fused::attention(q, k, v, lengths, scale, false);
    }
    super::portable::full_attention(q, k, v, lengths, scale)
}

fn check(q: &Tensor<3>, k: &Tensor<3>, v: &Tensor<3>, lengths: &[usize]) {
    let ([tokens, heads, dim], [_, kv_heads, _]) = (q.dims(), k.dims());
    assert_eq!(lengths.iter().sum::<usize>(), tokens, "row lengths sum to the number of tokens");
    assert_eq!(k.dims(), [tokens, kv_heads, dim], "keys have the shape of the queries");
    assert_eq!(k.dims(), v.dims(), "keys and values have one shape");
    assert!(kv_heads > 0 && heads.is_multiple_of(kv_heads), "{heads} query heads over {kv_heads} key heads");
}

/// Appends keys and values of `rows` to their slots in one layer of the cache, and attends their queries to all that the
/// slots then hold. Reads the cache in place.
pub(crate) fn cached_attention(
    cache: &mut KvCache,
    layer: usize,
    rows: &[Append],
    q: Tensor<3>,
    k: Tensor<3>,
    v: Tensor<3>,
    scale: f64,
) -> Tensor<3> {
    #[cfg(feature = "cpu")]
    if cache.is_host() {
        return super::fused::cached_attention(cache, layer, rows, q, k, v, scale);
    }
    cache.attend_on_device(layer, rows, q, k, v, scale)
}
