//! Root-mean-square norm.

use burn::tensor::{FloatDType, Tensor};

/// `x / sqrt(mean(x²) + eps) * weight` over the last dimension.
///
/// `x` is `[.., N]`, `weight` `[N]`. Statistics are taken in f32 and cast back before the weight, as published models do.
pub fn rms_norm<const R: usize>(x: Tensor<R>, weight: Tensor<1>, eps: f64) -> Tensor<R> {
    let dtype: FloatDType = x.dtype().into();
    let wide = x.cast(FloatDType::F32);
    let scale = (wide.clone().square().mean_dim(R - 1) + eps).sqrt().recip();
    (wide * scale).cast(dtype) * weight.unsqueeze()
}
