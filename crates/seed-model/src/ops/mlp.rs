//! The gate of the MLP.

use burn::tensor::{Tensor, activation::silu};

/// `silu(gate) * up`, element-wise; both `[T, intermediate]`. `silu(x) = x / (1 + exp(-x))`.
pub fn gated_mlp(gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> {
    silu(gate) * up
}
