//! The network: embeddings, layers of whole attention and feed-forward, norms behind each.

use super::EncoderConfig;
use crate::batch::PackedBatch;
use crate::checkpoint::{CheckpointError, WeightFiles};
use crate::decoder::{Embedding, Linear};
use crate::ops;
use burn::module::Param;
use burn::tensor::{DType, Device, FloatDType, Tensor};

/// A BERT encoder without pooler and heads.
#[derive(Debug)]
pub struct Bert {
    word_embeddings: Embedding,
    position_embeddings: Embedding,
    /// The row of the first segment, `[1, hidden]`.
    segment: Tensor<2>,
    norm: LayerNorm,
    layers: Vec<BertLayer>,
    config: EncoderConfig,
}

/// One layer.
#[derive(Debug)]
pub struct BertLayer {
    query: Linear,
    key: Linear,
    value: Linear,
    attention_output: Linear,
    attention_norm: LayerNorm,
    intermediate: Linear,
    output: Linear,
    output_norm: LayerNorm,
    heads: usize,
}

#[derive(Debug)]
struct LayerNorm {
    weight: Tensor<1>,
    bias: Tensor<1>,
    epsilon: f64,
}

impl LayerNorm {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        ops::layer_norm(x, self.weight.clone(), self.bias.clone(), self.epsilon)
    }
}

impl BertLayer {
    /// `[T, hidden]` to `[T, hidden]`; `lengths` are the rows of the packed batch.
    pub fn forward(&self, x: Tensor<2>, lengths: &[usize]) -> Tensor<2> {
        let [tokens, width] = x.dims();
        let dim = width / self.heads;
        let heads = |y: Tensor<2>| y.reshape([tokens, self.heads, dim]);
        let q = heads(self.query.forward(x.clone()));
        let k = heads(self.key.forward(x.clone()));
        let v = heads(self.value.forward(x.clone()));
        let mixed = ops::full_attention(q, k, v, lengths, (dim as f64).powf(-0.5));
        let mixed = self.attention_output.forward(mixed.reshape([tokens, width]));
        let x = self.attention_norm.forward(mixed + x);
        let inner = ops::gelu(self.intermediate.forward(x.clone()));
        self.output_norm.forward(self.output.forward(inner) + x)
    }
}

impl Bert {
    /// Takes the weights from `files`, whose names may begin with `bert.`; the pooler and pre-training heads are left out.
    ///
    /// # Errors
    /// [`CheckpointError`]: a tensor that is missing, left over, or of another shape or type.
    pub fn load(
        config: &EncoderConfig,
        files: &WeightFiles,
        device: &Device,
        dtype: FloatDType,
    ) -> Result<Self, CheckpointError> {
        let prefix =
            if files.shape("bert.embeddings.word_embeddings.weight").is_some() { "bert." } else { "" };
        let mut take = Take { files, device, dtype, prefix, used: Vec::new() };
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        let eps = config.layer_norm_eps;
        let word_embeddings = take.embedding("embeddings.word_embeddings", config.vocab_size, hidden)?;
        let position_embeddings =
            take.embedding("embeddings.position_embeddings", config.max_position_embeddings, hidden)?;
        let segments: Tensor<2> =
            take.tensor("embeddings.token_type_embeddings.weight", [config.type_vocab_size, hidden])?;
        let norm = take.norm("embeddings.LayerNorm", hidden, eps)?;
        let mut layers = Vec::with_capacity(config.num_hidden_layers);
        for i in 0..config.num_hidden_layers {
            let at = |part: &str| format!("encoder.layer.{i}.{part}");
            layers.push(BertLayer {
                query: take.linear(&at("attention.self.query"), hidden, hidden)?,
                key: take.linear(&at("attention.self.key"), hidden, hidden)?,
                value: take.linear(&at("attention.self.value"), hidden, hidden)?,
                attention_output: take.linear(&at("attention.output.dense"), hidden, hidden)?,
                attention_norm: take.norm(&at("attention.output.LayerNorm"), hidden, eps)?,
                intermediate: take.linear(&at("intermediate.dense"), hidden, inner)?,
                output: take.linear(&at("output.dense"), inner, hidden)?,
                output_norm: take.norm(&at("output.LayerNorm"), hidden, eps)?,
                heads: config.num_attention_heads,
            });
        }
        take.check_left_over()?;
        let segment = segments.narrow(0, 0, 1);
        Ok(Self { word_embeddings, position_embeddings, segment, norm, layers, config: config.clone() })
    }

    /// Its shape.
    pub fn config(&self) -> &EncoderConfig {
        &self.config
    }

    /// Last hidden states `[T, hidden]`.
    ///
    /// # Panics
    /// When an id is not below the vocabulary size, or a row is longer than `max_position_embeddings`.
    pub fn forward(&self, batch: &PackedBatch) -> Tensor<2> {
        self.layers.iter().fold(self.embed(batch), |x, layer| layer.forward(x, &batch.lengths))
    }

    /// The embeddings and the output of each layer: `num_hidden_layers + 1` tensors `[T, hidden]`.
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    pub fn hidden_states(&self, batch: &PackedBatch) -> Vec<Tensor<2>> {
        let mut states = vec![self.embed(batch)];
        for layer in &self.layers {
            states.push(layer.forward(states[states.len() - 1].clone(), &batch.lengths));
        }
        states
    }

    fn embed(&self, batch: &PackedBatch) -> Tensor<2> {
        let words = self.word_embeddings.forward(&batch.ids);
        let positions = self.position_embeddings.forward(&batch.positions());
        self.norm.forward(words + positions + self.segment.clone())
    }
}

/// Tensors of the files, and which were taken.
struct Take<'a> {
    files: &'a WeightFiles,
    device: &'a Device,
    dtype: FloatDType,
    prefix: &'static str,
    used: Vec<String>,
}

impl Take<'_> {
    fn tensor<const R: usize>(
        &mut self,
        name: &str,
        shape: [usize; R],
    ) -> Result<Tensor<R>, CheckpointError> {
        let name = format!("{}{name}", self.prefix);
        let data = self.files.tensor(&name, &shape, self.dtype)?;
        self.used.push(name);
        Ok(Tensor::from_data(data, (self.device, DType::from(self.dtype))))
    }

    fn param<const R: usize>(
        &mut self,
        name: &str,
        shape: [usize; R],
    ) -> Result<Param<Tensor<R>>, CheckpointError> {
        Ok(Param::from_tensor(self.tensor(name, shape)?))
    }

    fn embedding(&mut self, name: &str, rows: usize, width: usize) -> Result<Embedding, CheckpointError> {
        Ok(Embedding { weight: self.param(&format!("{name}.weight"), [rows, width])? })
    }

    fn linear(&mut self, name: &str, from: usize, to: usize) -> Result<Linear, CheckpointError> {
        let weight = self.param(&format!("{name}.weight"), [to, from])?;
        let bias = Some(self.param(&format!("{name}.bias"), [to])?);
        Ok(Linear { weight, bias, adapter: None })
    }

    fn norm(&mut self, name: &str, size: usize, epsilon: f64) -> Result<LayerNorm, CheckpointError> {
        let weight = self.tensor(&format!("{name}.weight"), [size])?;
        Ok(LayerNorm { weight, bias: self.tensor(&format!("{name}.bias"), [size])?, epsilon })
    }

    /// A tensor that the encoder does not use is an error, but for the parts of other tasks that published files carry.
    fn check_left_over(&self) -> Result<(), CheckpointError> {
        let used: std::collections::HashSet<&str> = self.used.iter().map(String::as_str).collect();
        let of_other_tasks = |name: &str| {
            let inner = name.strip_prefix(self.prefix).unwrap_or(name);
            inner.starts_with("pooler.") || inner == "embeddings.position_ids" || name.starts_with("cls.")
        };
        let left = self.files.names().find(|name| !used.contains(name) && !of_other_tasks(name));
        match left {
            Some(name) => {
                Err(CheckpointError::Unexpected { file: self.files.file_of(name), name: name.to_owned() })
            }
            None => Ok(()),
        }
    }
}
