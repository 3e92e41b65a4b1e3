//! Rotary position embedding, halves split.

use burn::tensor::{Tensor, s};

/// Turns pair `(i, i + D/2)` of every head by the angle of its token.
///
/// `x` is `[T, heads, D]`; `cos` and `sin` are `[T, D/2]` in f32 or `x`'s type.
pub fn rotary(x: Tensor<3>, cos: Tensor<2>, sin: Tensor<2>) -> Tensor<3> {
    let half = x.dims()[2] / 2;
    let dtype: burn::tensor::FloatDType = x.dtype().into();
    let (cos, sin) = (cos.cast(dtype).unsqueeze_dim::<3>(1), sin.cast(dtype).unsqueeze_dim::<3>(1));
    let first = x.clone().slice(s![.., .., 0..half]);
    let second = x.slice(s![.., .., half..]);
    let turned_first = first.clone() * cos.clone() - second.clone() * sin.clone();
    let turned_second = second * cos + first * sin;
    Tensor::cat(vec![turned_first, turned_second], 2)
}
