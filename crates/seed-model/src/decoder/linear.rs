//! A linear layer in the layout of checkpoints, with an optional low-rank adapter.

use crate::ops;
use burn::module::{Module, Param};
use burn::tensor::Tensor;

/// `x · weightᵀ + bias`, plus the adapter's update where there is one.
#[derive(Module, Debug)]
pub struct Linear {
    /// `[out, in]`, as in the file.
    pub weight: Param<Tensor<2>>,
    /// `[out]`.
    pub bias: Option<Param<Tensor<1>>>,
    /// A low-rank update (LoRA); the weight itself is then a constant.
    pub adapter: Option<Adapter>,
}

/// A low-rank update of a linear layer: `scale · (x · Aᵀ) · Bᵀ`.
#[derive(Module, Debug)]
pub struct Adapter {
    /// `[rank, in]`.
    pub lora_a: Param<Tensor<2>>,
    /// `[out, rank]`.
    pub lora_b: Param<Tensor<2>>,
    /// `alpha / rank`.
    #[module(skip)]
    pub scale: f64,
}

impl Linear {
    /// `[T, in]` to `[T, out]`.
    pub fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let bias = self.bias.as_ref().map(Param::val);
        let Some(adapter) = &self.adapter else {
            return ops::linear(x, self.weight.val(), bias);
        };
        let low = ops::linear(x.clone(), adapter.lora_a.val(), None);
        let update = ops::linear(low, adapter.lora_b.val(), None).mul_scalar(adapter.scale);
        ops::linear(x, self.weight.val(), bias) + update
    }
}
