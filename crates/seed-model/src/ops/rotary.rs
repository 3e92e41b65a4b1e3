//! Rotary position embedding, halves split.

use burn::tensor::Tensor;

/// Turns pair `(i, i + D/2)` of every head by the angle of its token.
///
/// `x` is `[T, heads, D]`; `cos` and `sin` are constants `[T, D/2]` in f32 or `x`'s type.
pub fn rotary(x: Tensor<3>, cos: Tensor<2>, sin: Tensor<2>) -> Tensor<3> {
    #[cfg(feature = "cpu")]
    if super::on_cpu(&x) && super::on_cpu(&cos) && super::on_cpu(&sin) {
        return super::fused::rotary(x, cos, sin);
    }
    super::portable::rotary(x, cos, sin)
}
