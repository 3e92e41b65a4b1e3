//! Multiplication by a weight stored as checkpoints store it.

use burn::tensor::Tensor;

/// `x · weightᵀ + bias`: `x` is `[T, in]`, `weight` `[out, in]` (the layout of published files), `bias` `[out]`.
///
/// The backward pass makes no transposed copy of the weight, and computes only the gradients that somebody wants.
///
/// # Panics
/// When shapes do not fit.
pub fn linear(x: Tensor<2>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<2> {
    assert_eq!(x.dims()[1], weight.dims()[1], "the input is as wide as the weight");
    #[cfg(feature = "cpu")]
    if super::on_cpu(&x) && super::on_cpu(&weight) {
        return super::fused::linear(x, weight, bias);
    }
    super::portable::linear(x, weight, bias)
}
