//! The gated MLP.

use super::Linear;
use crate::ops;
use burn::module::Module;
use burn::tensor::Tensor;

/// `down(silu(gate(x)) * up(x))`.
#[derive(Module, Debug)]
pub struct Mlp {
    /// hidden to intermediate, through the activation.
    pub gate_proj: Linear,
    /// hidden to intermediate.
    pub up_proj: Linear,
    /// intermediate to hidden.
    pub down_proj: Linear,
}

impl Mlp {
    /// `[T, hidden]` to `[T, hidden]`.
    pub fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let gate = self.gate_proj.forward(x.clone());
        self.down_proj.forward(ops::gated_mlp(gate, self.up_proj.forward(x)))
    }
}
