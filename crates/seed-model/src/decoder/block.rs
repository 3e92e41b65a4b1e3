//! One block, and the stack of them.

use super::{Attention, Mlp, RmsNorm, Rotary};
use crate::ops;
use burn::module::{Module, Param};
use burn::tensor::{Device, Int, Tensor, TensorData};

/// Attention and MLP, each behind a norm and added to the residual stream.
#[derive(Module, Debug)]
pub struct Block {
    /// Norm before attention.
    pub input_layernorm: RmsNorm,
    /// Self-attention.
    pub self_attn: Attention,
    /// Norm before the MLP.
    pub post_attention_layernorm: RmsNorm,
    /// Gated MLP.
    pub mlp: Mlp,
}

impl Block {
    /// `[T, hidden]` to `[T, hidden]`; see [`Attention::forward`] for `attend`.
    pub fn forward(
        &self,
        x: Tensor<2>,
        rotary: &Rotary,
        attend: impl FnOnce(Tensor<3>, Tensor<3>, Tensor<3>) -> Tensor<3>,
    ) -> Tensor<2> {
        let x = x.clone() + self.self_attn.forward(self.input_layernorm.forward(x), rotary, attend);
        x.clone() + self.mlp.forward(self.post_attention_layernorm.forward(x))
    }
}

/// Embedding, blocks and the final norm.
#[derive(Module, Debug)]
pub struct Trunk {
    /// The embedding matrix.
    pub embed_tokens: Embedding,
    /// The blocks, first to last.
    pub layers: Vec<Block>,
    /// The final norm.
    pub norm: RmsNorm,
}

/// The embedding matrix.
#[derive(Module, Debug)]
pub struct Embedding {
    /// `[vocab, hidden]`.
    pub weight: Param<Tensor<2>>,
}

impl Embedding {
    /// Rows of the matrix: `[T, hidden]`. Ids must be below the vocabulary size.
    pub fn forward(&self, ids: &[u32]) -> Tensor<2> {
        ops::embedding(self.weight.val(), ids)
    }
}

/// Ids as an index tensor.
pub(crate) fn id_tensor(ids: &[u32], device: &Device) -> Tensor<1, Int> {
    let ids: Vec<i32> = ids.iter().map(|id| *id as i32).collect();
    let count = ids.len();
    Tensor::from_data(TensorData::new(ids, [count]), device)
}
