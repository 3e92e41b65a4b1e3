//! A decoder with a language-model head, and with eyes where its configuration has them.

use crate::assemble::Build;
use crate::batch::PackedBatch;
use crate::config::ModelConfig;
use crate::decoder::{Attention, Block, Embedding, Linear, Mlp, Rotary, Trunk, axis_tables, rotary_tables};
use crate::ops;
use crate::vision::{Axes, Picture, PictureError, VisionTower};
use burn::module::Module;
use burn::tensor::{Device, FloatDType, Tensor, TensorData};
use std::sync::Arc;

/// A causal language model: Qwen2/2.5, Qwen3, Llama-shaped or Qwen2.5-VL, by its configuration.
///
/// `Send + Sync`; a clone shares its weights until an optimiser step replaces them. On a device with autodiff its parameters
/// collect gradients; `valid()` gives the same weights without.
#[derive(Module, Debug)]
pub struct CausalLm {
    /// The vision tower of a model that sees.
    pub visual: Option<VisionTower>,
    /// Embedding, blocks and final norm.
    pub model: Trunk,
    /// The head where it is not tied; its weight is `[vocab, hidden]`.
    pub lm_head: Option<Linear>,
    #[module(skip)]
    config: ModelConfig,
}

/// Where the weights of a new model come from.
pub trait TensorSource {
    /// What can go wrong.
    type Error;

    /// The values of the tensor `name`, of exactly `shape`.
    ///
    /// # Errors
    /// When the source has no such tensor, or with another shape or type.
    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<TensorData, Self::Error>;
}

impl CausalLm {
    /// A model with fresh weights in f32: normal with `initializer_range` for matrices, 0 for biases, 1 for norms.
    ///
    /// The values depend on `seed` and each tensor's name alone, not on the device or the order of creation.
    pub fn init(config: &ModelConfig, seed: u64, device: &Device) -> Self {
        let mut source = crate::init::FreshWeights::new(seed, config.initializer_range);
        match Self::assemble(config, FloatDType::F32, device, &mut source) {
            Ok(model) => model,
            Err(never) => match never {},
        }
    }

    /// A model whose weights come from `source`, asked for in the order of the forward pass.
    ///
    /// # Errors
    /// The first error of the source.
    pub fn assemble<S: TensorSource>(
        config: &ModelConfig,
        dtype: FloatDType,
        device: &Device,
        source: &mut S,
    ) -> Result<Self, S::Error> {
        let mut build = Build { source, device, dtype };
        let (hidden, inner, dim) = (config.hidden_size, config.intermediate_size, config.head_dim);
        let (q, kv) = (config.num_attention_heads * dim, config.num_key_value_heads * dim);
        let visual = match &config.vision {
            Some(vision) => Some(VisionTower::assemble(vision, &mut build)?),
            None => None,
        };
        let embed_tokens =
            Embedding { weight: build.param("model.embed_tokens.weight", [config.vocab_size, hidden])? };
        let mut layers = Vec::with_capacity(config.num_hidden_layers);
        for i in 0..config.num_hidden_layers {
            let at = |part: &str| format!("model.layers.{i}.{part}");
            let eps = config.rms_norm_eps;
            layers.push(Block {
                input_layernorm: build.norm(&at("input_layernorm"), hidden, eps)?,
                self_attn: Attention {
                    q_proj: build.linear(&at("self_attn.q_proj"), hidden, q, config.qkv_bias())?,
                    k_proj: build.linear(&at("self_attn.k_proj"), hidden, kv, config.qkv_bias())?,
                    v_proj: build.linear(&at("self_attn.v_proj"), hidden, kv, config.qkv_bias())?,
                    o_proj: build.linear(&at("self_attn.o_proj"), q, hidden, config.output_bias())?,
                    q_norm: if config.qk_norm() {
                        Some(build.norm(&at("self_attn.q_norm"), dim, eps)?)
                    } else {
                        None
                    },
                    k_norm: if config.qk_norm() {
                        Some(build.norm(&at("self_attn.k_norm"), dim, eps)?)
                    } else {
                        None
                    },
                    head_dim: dim,
                },
                post_attention_layernorm: build.norm(&at("post_attention_layernorm"), hidden, eps)?,
                mlp: Mlp {
                    gate_proj: build.linear(&at("mlp.gate_proj"), hidden, inner, false)?,
                    up_proj: build.linear(&at("mlp.up_proj"), hidden, inner, false)?,
                    down_proj: build.linear(&at("mlp.down_proj"), inner, hidden, false)?,
                },
            });
        }
        let norm = build.norm("model.norm", hidden, config.rms_norm_eps)?;
        let lm_head = match config.tie_word_embeddings {
            true => None,
            false => Some(build.linear("lm_head", hidden, config.vocab_size, false)?),
        };
        Ok(Self { visual, model: Trunk { embed_tokens, layers, norm }, lm_head, config: config.clone() })
    }

    /// The configuration it was made from.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The device of its weights, with autodiff where they collect gradients.
    pub fn device(&self) -> Device {
        self.model.embed_tokens.weight.val().device()
    }

    /// The element type of its weights and activations.
    pub fn dtype(&self) -> FloatDType {
        self.model.embed_tokens.weight.val().dtype().into()
    }

    /// The head as `[vocab, hidden]`: the embedding matrix where tied.
    ///
    /// Rows beyond the tokenizer's vocabulary are part of it.
    pub fn lm_head(&self) -> Tensor<2> {
        match &self.lm_head {
            Some(head) => head.weight.val(),
            None => self.model.embed_tokens.weight.val(),
        }
    }

    /// The same model with a vision tower that learns, or one that is a constant.
    ///
    /// New and loaded models learn everywhere. A constant tower costs no backward pass; its weights have no gradients.
    pub fn train_vision(mut self, learns: bool) -> Self {
        self.visual = self.visual.map(|tower| tower.set_require_grad(learns));
        self
    }

    /// Checks that the model can see the pictures of a batch.
    ///
    /// # Errors
    /// [`PictureError`] when the model has no vision tower, or a picture was prepared for another one.
    pub fn check_pictures(&self, batch: &PackedBatch) -> Result<(), PictureError> {
        if batch.pictures.is_empty() {
            return Ok(());
        }
        let Some(tower) = &self.visual else {
            return Err(PictureError::NoVision { model_type: self.config.model_type.model_type() });
        };
        let config = tower.config();
        let needed = (config.patch_size, config.temporal_patch_size, config.spatial_merge_size);
        match batch.pictures.iter().position(|placed| placed.picture.form() != needed) {
            Some(picture) => {
                let found = batch.pictures[picture].picture.form();
                Err(PictureError::Form { picture, found, needed })
            }
            None => Ok(()),
        }
    }

    /// Embeddings of every token, `[T, hidden]`: rows of the embedding matrix, and of the vision tower where pictures stand. A picture
    /// that the batch holds several times (one `Arc`) is looked at once.
    ///
    /// # Panics
    /// Where [`check_pictures`](Self::check_pictures) has an error, or an id is not below `vocab_size`.
    pub fn embed(&self, batch: &PackedBatch) -> Tensor<2> {
        let text = self.model.embed_tokens.forward(&batch.ids);
        if let Err(error) = self.check_pictures(batch) {
            panic!("{error}");
        }
        let Some(tower) = self.visual.as_ref().filter(|_| !batch.pictures.is_empty()) else { return text };
        // Rows of the text first, those of the distinct pictures behind it; each token takes one.
        let mut rows: Vec<u32> = (0..batch.tokens() as u32).collect();
        let mut distinct: Vec<(&Arc<Picture>, usize)> = Vec::new();
        let mut end = batch.tokens();
        for placed in &batch.pictures {
            let known = distinct.iter().find(|(picture, _)| Arc::ptr_eq(picture, &placed.picture));
            let first = known.map_or(end, |(_, first)| *first);
            if first == end {
                distinct.push((&placed.picture, end));
                end += placed.picture.tokens();
            }
            for (i, token) in placed.tokens().enumerate() {
                rows[token] = (first + i) as u32;
            }
        }
        let pictures: Vec<&Picture> = distinct.iter().map(|(picture, _)| picture.as_ref()).collect();
        ops::embedding(Tensor::cat(vec![text, tower.embed(&pictures)], 0), &rows)
    }

    /// Final hidden states of every token, `[T, hidden]`, after the last norm. Multiply by [`lm_head`](Self::lm_head) for logits.
    ///
    /// An empty batch gives `[0, hidden]`. Ids must be below `vocab_size`, and the model must see where there are pictures
    /// ([`check_pictures`](Self::check_pictures)).
    pub fn hidden(&self, batch: &PackedBatch) -> Tensor<2> {
        let embeddings = self.embed(batch);
        if batch.tokens() == 0 {
            return embeddings;
        }
        let rotary = self.rotary(batch);
        self.hidden_with(embeddings, &rotary, |_, q, k, v| self.attend(q, k, v, &batch.lengths))
    }

    /// As [`hidden`](Self::hidden), from embeddings `[T, hidden]` and angles of their positions, with attention left to the caller.
    ///
    /// `attend(layer, q, k, v)` gets turned queries `[T, heads, D]`, turned keys and values `[T, kv_heads, D]` and returns
    /// `[T, heads, D]`; a cache reads and writes keys and values there.
    pub fn hidden_with(
        &self,
        embeddings: Tensor<2>,
        rotary: &Rotary,
        mut attend: impl FnMut(usize, Tensor<3>, Tensor<3>, Tensor<3>) -> Tensor<3>,
    ) -> Tensor<2> {
        let mut x = embeddings;
        for (i, layer) in self.model.layers.iter().enumerate() {
            x = layer.forward(x, rotary, |q, k, v| attend(i, q, k, v));
        }
        self.model.norm.forward(x)
    }

    /// The embeddings, the output of each block, and, as the last entry, the output of the final norm in place of the last
    /// block's: `num_hidden_layers + 1` tensors `[T, hidden]`.
    pub fn hidden_states(&self, batch: &PackedBatch) -> Vec<Tensor<2>> {
        let rotary = self.rotary(batch);
        let mut states = vec![self.embed(batch)];
        for layer in &self.model.layers {
            let x = states[states.len() - 1].clone();
            states.push(layer.forward(x, &rotary, |q, k, v| self.attend(q, k, v, &batch.lengths)));
        }
        let last = states.pop().map(|x| self.model.norm.forward(x));
        states.extend(last);
        states
    }

    /// Logits of every token, `[T, vocab]` in f32. For large vocabularies use [`score`](crate::score()) instead.
    pub fn logits(&self, batch: &PackedBatch) -> Tensor<2> {
        ops::linear(self.hidden(batch), self.lm_head(), None).cast(FloatDType::F32)
    }

    /// Angles of the positions of a batch.
    pub fn rotary(&self, batch: &PackedBatch) -> Rotary {
        self.rotary_at(&batch.axes())
    }

    /// Angles of positions on the axes time, height and width; a model without eyes reads the first.
    pub(crate) fn rotary_at(&self, axes: &[Axes]) -> Rotary {
        let (frequencies, device) = (self.config.rotary_frequencies(), self.device());
        match &self.config.vision {
            Some(vision) => axis_tables(axes, vision.mrope_section, &frequencies, &device),
            None => {
                let positions: Vec<u32> = axes.iter().map(|at| at[0]).collect();
                rotary_tables(&positions, &frequencies, &device)
            }
        }
    }

    pub(crate) fn attend(&self, q: Tensor<3>, k: Tensor<3>, v: Tensor<3>, lengths: &[usize]) -> Tensor<3> {
        ops::causal_attention(q, k, v, lengths, self.config.attention_scale())
    }
}
