//! A decoder with a language-model head.

use crate::batch::PackedBatch;
use crate::config::ModelConfig;
use crate::decoder::{Attention, Block, Embedding, Linear, Mlp, RmsNorm, Rotary, Trunk, rotary_tables};
use crate::ops;
use burn::module::{Module, Param};
use burn::tensor::{Device, FloatDType, Tensor, TensorData};

/// A causal language model: Qwen2/2.5, Qwen3 or Llama-shaped, by its configuration.
///
/// `Send + Sync`; a clone shares its weights until an optimiser step replaces them. On a device with autodiff its parameters
/// collect gradients; `valid()` gives the same weights without.
#[derive(Module, Debug)]
pub struct CausalLm {
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
        Ok(Self { model: Trunk { embed_tokens, layers, norm }, lm_head, config: config.clone() })
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

    /// Final hidden states of every token, `[T, hidden]`, after the last norm. Multiply by [`lm_head`](Self::lm_head) for logits.
    ///
    /// An empty batch gives `[0, hidden]`. Ids must be below `vocab_size`.
    pub fn hidden(&self, batch: &PackedBatch) -> Tensor<2> {
        let embeddings = self.model.embed_tokens.forward(&batch.ids);
        if batch.tokens() == 0 {
            return embeddings;
        }
        self.hidden_with(embeddings, &batch.positions(), |_, q, k, v| self.attend(q, k, v, &batch.lengths))
    }

    /// As [`hidden`](Self::hidden), from embeddings `[T, hidden]` at `positions`, with attention left to the caller.
    ///
    /// `attend(layer, q, k, v)` gets turned queries `[T, heads, D]`, turned keys and values `[T, kv_heads, D]` and returns
    /// `[T, heads, D]`; a cache reads and writes keys and values there.
    pub fn hidden_with(
        &self,
        embeddings: Tensor<2>,
        positions: &[u32],
        mut attend: impl FnMut(usize, Tensor<3>, Tensor<3>, Tensor<3>) -> Tensor<3>,
    ) -> Tensor<2> {
        let rotary = self.rotary(positions);
        let mut x = embeddings;
        for (i, layer) in self.model.layers.iter().enumerate() {
            x = layer.forward(x, &rotary, |q, k, v| attend(i, q, k, v));
        }
        self.model.norm.forward(x)
    }

    /// The embeddings, the output of each block, and, as the last entry, the output of the final norm in place of the last
    /// block's: `num_hidden_layers + 1` tensors `[T, hidden]`.
    pub fn hidden_states(&self, batch: &PackedBatch) -> Vec<Tensor<2>> {
        let rotary = self.rotary(&batch.positions());
        let mut states = vec![self.model.embed_tokens.forward(&batch.ids)];
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

    pub(crate) fn rotary(&self, positions: &[u32]) -> Rotary {
        rotary_tables(positions, self.config.head_dim, self.config.rope_theta, &self.device())
    }

    pub(crate) fn attend(&self, q: Tensor<3>, k: Tensor<3>, v: Tensor<3>, lengths: &[usize]) -> Tensor<3> {
        ops::causal_attention(q, k, v, lengths, self.config.attention_scale())
    }
}

struct Build<'a, S> {
    source: &'a mut S,
    device: &'a Device,
    dtype: FloatDType,
}

impl<S: TensorSource> Build<'_, S> {
    fn param<const R: usize>(&mut self, name: &str, shape: [usize; R]) -> Result<Param<Tensor<R>>, S::Error> {
        let data = self.source.tensor(name, &shape)?;
        Ok(Param::from_tensor(Tensor::from_data(data, (self.device, burn::tensor::DType::from(self.dtype)))))
    }

    fn linear(&mut self, name: &str, from: usize, to: usize, bias: bool) -> Result<Linear, S::Error> {
        let weight = self.param(&format!("{name}.weight"), [to, from])?;
        let bias = if bias { Some(self.param(&format!("{name}.bias"), [to])?) } else { None };
        Ok(Linear { weight, bias, adapter: None })
    }

    fn norm(&mut self, name: &str, size: usize, epsilon: f64) -> Result<RmsNorm, S::Error> {
        Ok(RmsNorm { weight: self.param(&format!("{name}.weight"), [size])?, epsilon })
    }
}
