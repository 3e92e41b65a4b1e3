//! Grouped-query self-attention.

use super::{Linear, RmsNorm, Rotary};
use crate::ops;
use burn::module::Module;
use burn::tensor::Tensor;

/// Projections of self-attention; families differ in biases and in `q_norm`/`k_norm`.
#[derive(Module, Debug)]
pub struct Attention {
    /// hidden to heads · head size.
    pub q_proj: Linear,
    /// hidden to key-value heads · head size.
    pub k_proj: Linear,
    /// hidden to key-value heads · head size.
    pub v_proj: Linear,
    /// heads · head size to hidden.
    pub o_proj: Linear,
    /// Qwen3: norm of each query head, before the rotary embedding.
    pub q_norm: Option<RmsNorm>,
    /// Qwen3: norm of each key head, before the rotary embedding.
    pub k_norm: Option<RmsNorm>,
    /// Size of a head.
    #[module(skip)]
    pub head_dim: usize,
}

impl Attention {
    /// Projects `x` `[T, hidden]` to turned queries `[T, heads, D]`, turned keys and values `[T, kv_heads, D]`, hands them to
    /// `attend` and projects what it returns, `[T, heads, D]`, back to `[T, hidden]`.
    pub fn forward(
        &self,
        x: Tensor<2>,
        rotary: &Rotary,
        attend: impl FnOnce(Tensor<3>, Tensor<3>, Tensor<3>) -> Tensor<3>,
    ) -> Tensor<2> {
        let tokens = x.dims()[0];
        let heads = |y: Tensor<2>| {
            let count = y.dims()[1] / self.head_dim;
            y.reshape([tokens, count, self.head_dim])
        };
        let mut q = heads(self.q_proj.forward(x.clone()));
        let mut k = heads(self.k_proj.forward(x.clone()));
        let v = heads(self.v_proj.forward(x));
        if let Some(norm) = &self.q_norm {
            q = norm.forward(q);
        }
        if let Some(norm) = &self.k_norm {
            k = norm.forward(k);
        }
        let turn = |y: Tensor<3>| ops::rotary(y, rotary.cos.clone(), rotary.sin.clone());
        let mixed = attend(turn(q), turn(k), v);
        let [_, count, dim] = mixed.dims();
        self.o_proj.forward(mixed.reshape([tokens, count * dim]))
    }
}
