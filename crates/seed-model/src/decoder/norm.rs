//! Root-mean-square norm with a weight.

use crate::ops;
use burn::module::{Module, Param};
use burn::tensor::Tensor;

/// `x / sqrt(mean(x²) + epsilon) * weight` over the last dimension.
#[derive(Module, Debug)]
pub struct RmsNorm {
    /// `[N]`, N the last dimension.
    pub weight: Param<Tensor<1>>,
    /// Added to the mean square.
    #[module(skip)]
    pub epsilon: f64,
}

impl RmsNorm {
    /// Same shape out as in.
    pub fn forward<const R: usize>(&self, x: Tensor<R>) -> Tensor<R> {
        ops::rms_norm(x, self.weight.val(), self.epsilon)
    }
}
