//! Norms over the last dimension.

use burn::tensor::Tensor;

/// `x / sqrt(mean(x²) + eps) * weight` over the last dimension.
///
/// `x` is `[.., N]`, `weight` `[N]`. Statistics are taken in f32 and cast back before the weight, as published models do.
pub fn rms_norm<const R: usize>(x: Tensor<R>, weight: Tensor<1>, eps: f64) -> Tensor<R> {
    assert_eq!(x.dims()[R - 1], weight.dims()[0], "the weight is as wide as the last dimension");
    #[cfg(feature = "cpu")]
    if super::on_cpu(&x) && super::on_cpu(&weight) {
        return super::fused::rms_norm(x, weight, eps);
    }
    super::portable::rms_norm(x, weight, eps)
}

/// `(x - mean) / sqrt(variance + eps) * weight + bias` over the last dimension, statistics in f32.
///
/// `x` is `[T, N]`, `weight` and `bias` `[N]`; the variance divides by `N`. The fused kernel has no backward pass: tensors with
/// autodiff take the portable definition.
pub fn layer_norm(x: Tensor<2>, weight: Tensor<1>, bias: Tensor<1>, eps: f64) -> Tensor<2> {
    assert_eq!(x.dims()[1], weight.dims()[0], "the weight is as wide as the last dimension");
    assert_eq!(weight.dims(), bias.dims(), "weight and bias have one shape");
    #[cfg(feature = "cpu")]
    if super::constant_on_cpu(&x) && super::constant_on_cpu(&weight) && super::constant_on_cpu(&bias) {
        return super::fused::layer_norm(x, weight, bias, eps);
    }
    super::portable::layer_norm(x, weight, bias, eps)
}
