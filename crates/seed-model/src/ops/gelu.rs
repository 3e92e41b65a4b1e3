//! The activation of encoders.

use burn::tensor::Tensor;

/// `x Φ(x)` with the normal distribution function Φ (through erf, not tanh), element-wise.
///
/// The fused kernel has no backward pass: tensors with autodiff take the portable definition.
pub fn gelu(x: Tensor<2>) -> Tensor<2> {
    #[cfg(feature = "cpu")]
    if super::constant_on_cpu(&x) {
        return super::fused::gelu(x);
    }
    super::portable::gelu(x)
}
