//! The vision tower of Qwen2.5-VL: patches to embeddings of place holders. Field names are the paths of published checkpoints, under
//! `visual.`.
//!
//! Shape letters: `P` patches, `E` place holders, `W` width of the tower, `H` width of the decoder.

use super::picture::{Grid, Picture};
use super::windows::Windows;
use crate::assemble::Build;
use crate::causal_lm::TensorSource;
use crate::config::VisionConfig;
use crate::decoder::{Linear, Mlp, RmsNorm, Rotary};
use crate::ops;
use burn::module::{Module, Param};
use burn::tensor::{DType, FloatDType, Tensor, TensorData, s};

/// Added to the mean square in every norm of the tower; not in the configuration.
const EPSILON: f64 = 1e-6;

/// Patches to embeddings. Most blocks attend inside windows, those of `fullatt_block_indexes` over the whole picture.
#[derive(Module, Debug)]
pub struct VisionTower {
    /// Pixels to the tower's width.
    pub patch_embed: PatchEmbed,
    /// The blocks, first to last.
    pub blocks: Vec<VisionBlock>,
    /// Blocks of patches to embeddings.
    pub merger: Merger,
    #[module(skip)]
    config: VisionConfig,
}

/// The first layer, a convolution whose stride is its size.
#[derive(Module, Debug)]
pub struct PatchEmbed {
    /// Its weight.
    pub proj: PatchProjection,
}

/// A product of each patch with a weight.
#[derive(Module, Debug)]
pub struct PatchProjection {
    /// `[W, channels, frames, side, side]`.
    pub weight: Param<Tensor<5>>,
}

/// Attention and gated MLP with biases, each behind a norm and added to the residual stream.
#[derive(Module, Debug)]
pub struct VisionBlock {
    /// Norm before attention.
    pub norm1: RmsNorm,
    /// Norm before the MLP.
    pub norm2: RmsNorm,
    /// Self-attention.
    pub attn: VisionAttention,
    /// Gated MLP.
    pub mlp: Mlp,
}

/// Self-attention over windows or pictures.
#[derive(Module, Debug)]
pub struct VisionAttention {
    /// `W` to queries, keys and values of all heads, in this order.
    pub qkv: Linear,
    /// All heads to `W`.
    pub proj: Linear,
    #[module(skip)]
    heads: usize,
}

/// Joins the patches of a merged block into one embedding.
#[derive(Module, Debug)]
pub struct Merger {
    /// Norm of each patch.
    pub ln_q: RmsNorm,
    /// The published sequence: linear, GELU (without weights), linear.
    pub mlp: Vec<Option<Linear>>,
}

impl VisionTower {
    pub(crate) fn assemble<S: TensorSource>(
        config: &VisionConfig,
        build: &mut Build<'_, S>,
    ) -> Result<Self, S::Error> {
        let (width, inner) = (config.hidden_size, config.intermediate_size);
        let (side, frames) = (config.patch_size, config.temporal_patch_size);
        let shape = [width, config.in_channels, frames, side, side];
        let patch_embed = PatchEmbed {
            proj: PatchProjection { weight: build.param("visual.patch_embed.proj.weight", shape)? },
        };
        let mut blocks = Vec::with_capacity(config.depth);
        for i in 0..config.depth {
            let at = |part: &str| format!("visual.blocks.{i}.{part}");
            blocks.push(VisionBlock {
                norm1: build.norm(&at("norm1"), width, EPSILON)?,
                norm2: build.norm(&at("norm2"), width, EPSILON)?,
                attn: VisionAttention {
                    qkv: build.linear(&at("attn.qkv"), width, 3 * width, true)?,
                    proj: build.linear(&at("attn.proj"), width, width, true)?,
                    heads: config.num_heads,
                },
                mlp: Mlp {
                    gate_proj: build.linear(&at("mlp.gate_proj"), width, inner, true)?,
                    up_proj: build.linear(&at("mlp.up_proj"), width, inner, true)?,
                    down_proj: build.linear(&at("mlp.down_proj"), inner, width, true)?,
                },
            });
        }
        let merged = width * config.spatial_merge_size * config.spatial_merge_size;
        let merger = Merger {
            ln_q: build.norm("visual.merger.ln_q", width, EPSILON)?,
            mlp: vec![
                Some(build.linear("visual.merger.mlp.0", merged, merged, true)?),
                None,
                Some(build.linear("visual.merger.mlp.2", merged, config.out_hidden_size, true)?),
            ],
        };
        Ok(Self { patch_embed, blocks, merger, config: config.clone() })
    }

    /// The configuration it was made from.
    pub fn config(&self) -> &VisionConfig {
        &self.config
    }

    /// Embeddings of the pictures' place holders, `[E, H]`, picture after picture.
    ///
    /// # Panics
    /// When a picture was prepared for other patches ([`CausalLm::check_pictures`](crate::CausalLm::check_pictures)).
    pub fn embed(&self, pictures: &[&Picture]) -> Tensor<2> {
        let values: Vec<f32> = pictures.iter().flat_map(|picture| picture.values()).collect();
        let grids: Vec<Grid> = pictures.iter().map(|picture| picture.grid()).collect();
        let patches: usize = grids.iter().map(Grid::patches).sum();
        let weight = self.patch_embed.proj.weight.val();
        let data = TensorData::new(values, [patches, self.config.patch_len()]);
        let patches = Tensor::<2>::from_data(data, (&weight.device(), DType::F32));
        let dtype: FloatDType = weight.dtype().into();
        self.forward(patches.cast(dtype), &grids)
    }

    /// As [`embed`](Self::embed), from normalised patches `[P, patch_len]` in the published order ([`Picture::values`]).
    pub fn forward(&self, patches: Tensor<2>, grids: &[Grid]) -> Tensor<2> {
        let weight = self.patch_embed.proj.weight.val();
        let width = self.config.hidden_size;
        if patches.dims()[0] == 0 {
            return Tensor::zeros([0, self.config.out_hidden_size], (&weight.device(), weight.dtype()));
        }
        let x = ops::linear(patches, weight.reshape([width, self.config.patch_len()]), None);
        let order = Windows::new(&self.config, grids, &x.device());
        let mut x = ops::embedding(x, &order.patches);
        for (i, block) in self.blocks.iter().enumerate() {
            let rows =
                if self.config.fullatt_block_indexes.contains(&i) { &order.pictures } else { &order.windows };
            x = block.forward(x, &order.rotary, rows);
        }
        ops::embedding(self.merger.forward(x), &order.blocks)
    }
}

impl VisionBlock {
    fn forward(&self, x: Tensor<2>, rotary: &Rotary, rows: &[usize]) -> Tensor<2> {
        let x = x.clone() + self.attn.forward(self.norm1.forward(x), rotary, rows);
        x.clone() + self.mlp.forward(self.norm2.forward(x))
    }
}

impl VisionAttention {
    fn forward(&self, x: Tensor<2>, rotary: &Rotary, rows: &[usize]) -> Tensor<2> {
        let [patches, width] = x.dims();
        let dim = width / self.heads;
        let all = self.qkv.forward(x);
        let part = |i: usize| {
            all.clone().slice(s![.., i * width..(i + 1) * width]).reshape([patches, self.heads, dim])
        };
        let turn = |y| ops::rotary(y, rotary.cos.clone(), rotary.sin.clone());
        let mixed = ops::full_attention(turn(part(0)), turn(part(1)), part(2), rows, (dim as f64).powf(-0.5));
        self.proj.forward(mixed.reshape([patches, width]))
    }
}

impl Merger {
    /// `[P, W]`, the patches of a merged block adjacent, to `[E, H]`.
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let x = self.ln_q.forward(x);
        let joined = self.mlp[0].as_ref().map_or(x.dims()[1], |layer| layer.weight.val().dims()[1]);
        let [patches, width] = x.dims();
        let mut x = x.reshape([patches * width / joined, joined]);
        for layer in &self.mlp {
            x = match layer {
                Some(layer) => layer.forward(x),
                None => gelu(x),
            };
        }
        x
    }
}

/// `x · Φ(x)`, with the error function and not an approximation of it; its gradient is exact on every backend.
fn gelu(x: Tensor<2>) -> Tensor<2> {
    let share = x.clone().div_scalar(std::f64::consts::SQRT_2).erf().add_scalar(1.0).div_scalar(2.0);
    x * share
}
