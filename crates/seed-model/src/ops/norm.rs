//! Root-mean-square norm.

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
