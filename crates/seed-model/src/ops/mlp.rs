//! The gate of the MLP.

use burn::tensor::Tensor;

/// `silu(gate) * up`, element-wise; both `[T, intermediate]`. `silu(x) = x / (1 + exp(-x))`.
pub fn gated_mlp(gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> {
    assert_eq!(gate.dims(), up.dims(), "gate and up have one shape");
    #[cfg(feature = "cpu")]
    if super::on_cpu(&gate) && super::on_cpu(&up) {
        return super::fused::gated_mlp(gate, up);
    }
    super::portable::gated_mlp(gate, up)
}
