//! GGUF import: Llama-shaped models with tensors in F32, F16, BF16, Q4_0, Q4_1 or Q8_0, and the tokenizer in the file.
//!
//! Weights are widened on load; saving the result gives a Hugging Face folder.

mod blocks;
mod file;
mod tokenizer;

pub use file::{GgufFile, MetadataValue};

use crate::causal_lm::{CausalLm, TensorSource};
use crate::chat_template::{ChatTemplate, TemplateError};
use crate::config::{ConfigError, Family, ModelConfig};
use crate::generation_config::GenerationConfig;
use crate::tokenizer::Tokenizer;
use burn::tensor::{Device, FloatDType, TensorData};
use std::path::{Path, PathBuf};

/// Why a GGUF file cannot be imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GgufError {
    /// The file cannot be read.
    #[error("{path}: cannot read")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is cut off or not GGUF.
    #[error("byte {offset}: {reason}")]
    Damaged {
        /// Where in the file.
        offset: usize,
        /// What was found and expected.
        reason: String,
    },
    /// A metadata key is missing or has another type.
    #[error("metadata key `{key}`: found {found}, needed: {needed}")]
    Metadata {
        /// The key.
        key: String,
        /// What is there.
        found: String,
        /// What is needed.
        needed: &'static str,
    },
    /// The file uses what this importer does not do.
    #[error("{what} is {found}, which is not supported; supported: {supported}")]
    Unsupported {
        /// What it is about.
        what: String,
        /// What was found.
        found: String,
        /// What is supported.
        supported: &'static str,
    },
    /// A tensor is missing.
    #[error("tensor `{name}` is missing; needed: shape {needed:?}")]
    Missing {
        /// Its name in the file.
        name: String,
        /// Its shape, outermost first.
        needed: Vec<usize>,
    },
    /// A tensor has another shape than the metadata needs.
    #[error("tensor `{name}` has shape {found:?}, needed: {needed:?}")]
    Shape {
        /// Its name in the file.
        name: String,
        /// Its shape, outermost first.
        found: Vec<usize>,
        /// What the metadata needs.
        needed: Vec<usize>,
    },
    /// The file holds a tensor that a Llama-shaped model has no place for.
    #[error("tensor `{name}` belongs to nothing in a llama-shaped model")]
    Unexpected {
        /// Its name in the file.
        name: String,
    },
    /// The shape does not fit together.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The tokenizer in the metadata cannot be built.
    #[error("tokenizer in the metadata: {reason}")]
    Tokenizer {
        /// What is wrong.
        reason: String,
    },
    /// The chat template in the metadata is not valid.
    #[error(transparent)]
    Template(#[from] TemplateError),
}

/// What [`load`] returns.
#[derive(Debug)]
pub struct LoadedGguf {
    /// The model, on the device asked for.
    pub model: CausalLm,
    /// Start and end ids, as far as the metadata has them.
    pub generation_config: GenerationConfig,
    /// The tokenizer of the file.
    pub tokenizer: Tokenizer,
    /// The chat template of the file, where it has one.
    pub chat_template: Option<ChatTemplate>,
}

/// Loads a GGUF file onto `device`, with weights in `dtype`.
///
/// # Errors
/// [`GgufError`]: a damaged file, an architecture, tensor type or option that is not supported, or a tensor that is missing, left over or of
/// another shape.
pub fn load(path: impl AsRef<Path>, device: &Device, dtype: FloatDType) -> Result<LoadedGguf, GgufError> {
    let file = GgufFile::open(path.as_ref())?;
    let config = read_config(&file)?;
    let mut source = GgufSource { file: &file, config: &config, dtype, used: Vec::new() };
    let model = CausalLm::assemble(&config, dtype, device, &mut source)?;
    let used = source.used;
    if let Some(name) = file.tensor_names().find(|name| !used.iter().any(|used| used == name)) {
        return Err(GgufError::Unexpected { name: name.to_owned() });
    }
    let (tokenizer, tokenizer_config) = tokenizer::build(&file)?;
    let template = file.get("tokenizer.chat_template").and_then(MetadataValue::text);
    let chat_template =
        template.map(|source| ChatTemplate::compile(source, &tokenizer_config)).transpose()?;
    let generation_config = GenerationConfig {
        bos_token_id: config.bos_token_id,
        eos_token_id: config.eos_token_id.clone(),
        ..GenerationConfig::default()
    };
    Ok(LoadedGguf { model, generation_config, tokenizer, chat_template })
}

fn read_config(file: &GgufFile) -> Result<ModelConfig, GgufError> {
    let architecture = file.text("general.architecture")?;
    if architecture != "llama" {
        let (what, found) = ("metadata key `general.architecture`".to_owned(), architecture.to_owned());
        return Err(GgufError::Unsupported { what, found, supported: "llama" });
    }
    let size = |key: &str| file.size(&format!("llama.{key}"));
    let optional = |key: &str| file.get(&format!("llama.{key}"));
    if let Some(kind) =
        optional("rope.scaling.type").and_then(MetadataValue::text).filter(|kind| *kind != "none")
    {
        let (what, found) = ("metadata key `llama.rope.scaling.type`".to_owned(), kind.to_owned());
        return Err(GgufError::Unsupported { what, found, supported: "none" });
    }
    if let Some(experts) =
        optional("expert_count").and_then(MetadataValue::integer).filter(|count| *count > 0)
    {
        let (what, found) = ("metadata key `llama.expert_count`".to_owned(), experts.to_string());
        return Err(GgufError::Unsupported { what, found, supported: "0 (dense models)" });
    }
    let hidden = size("embedding_length")?;
    let heads = size("attention.head_count")?;
    let kv_heads = match optional("attention.head_count_kv") {
        Some(_) => size("attention.head_count_kv")?,
        None => heads,
    };
    let head_dim = match optional("attention.key_length") {
        Some(_) => size("attention.key_length")?,
        None => hidden / heads,
    };
    if optional("rope.dimension_count").is_some() && size("rope.dimension_count")? != head_dim {
        let found = size("rope.dimension_count")?.to_string();
        let what = "metadata key `llama.rope.dimension_count`".to_owned();
        return Err(GgufError::Unsupported {
            what,
            found,
            supported: "the head size (rotary over the whole head)",
        });
    }
    let embedding = file.shape("token_embd.weight").unwrap_or_default();
    let vocab_size = match optional("vocab_size") {
        Some(_) => size("vocab_size")?,
        None => embedding.first().copied().unwrap_or(0),
    };
    let mut config = ModelConfig::new(
        Family::Llama,
        vocab_size,
        hidden,
        size("feed_forward_length")?,
        size("block_count")?,
        (heads, kv_heads, head_dim),
    );
    config.max_position_embeddings = size("context_length")?;
    config.rms_norm_eps = file.number("llama.attention.layer_norm_rms_epsilon")?;
    if optional("rope.freq_base").is_some() {
        config.rope_theta = file.number("llama.rope.freq_base")?;
    }
    config.tie_word_embeddings = file.shape("output.weight").is_none();
    let id = |key: &str| file.get(key).and_then(MetadataValue::integer).and_then(|id| u32::try_from(id).ok());
    config.bos_token_id = id("tokenizer.ggml.bos_token_id");
    config.eos_token_id = id("tokenizer.ggml.eos_token_id").into_iter().collect();
    config.check()?;
    Ok(config)
}

struct GgufSource<'a> {
    file: &'a GgufFile,
    config: &'a ModelConfig,
    dtype: FloatDType,
    used: Vec<String>,
}

impl TensorSource for GgufSource<'_> {
    type Error = GgufError;

    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<TensorData, GgufError> {
        let stored = stored_name(name);
        let mut values = self.file.tensor(&stored, shape)?;
        self.used.push(stored);
        if name.ends_with("q_proj.weight") || name.ends_with("k_proj.weight") {
            values = split_halves(&values, self.config.head_dim, shape[1]);
        }
        let data = TensorData::new(values, shape.to_vec());
        Ok(data.convert_dtype(self.dtype.into()))
    }
}

/// The name in GGUF of a tensor of a Hugging Face folder.
fn stored_name(name: &str) -> String {
    match name {
        "model.embed_tokens.weight" => return "token_embd.weight".to_owned(),
        "model.norm.weight" => return "output_norm.weight".to_owned(),
        "lm_head.weight" => return "output.weight".to_owned(),
        _ => {}
    }
    let name = name.replacen("model.layers.", "blk.", 1);
    [
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
    ]
    .iter()
    .fold(name, |name, (from, to)| name.replace(from, to))
}

/// Rows of a query or key weight from interleaved rotary pairs (row `2i + p` of a head) to split halves (row `p · D/2 + i`).
fn split_halves(values: &[f32], head_dim: usize, width: usize) -> Vec<f32> {
    let half = head_dim / 2;
    let mut out = Vec::with_capacity(values.len());
    for head in values.chunks(head_dim * width) {
        for row in (0..2).flat_map(|p| (0..half).map(move |i| 2 * i + p)) {
            out.extend_from_slice(&head[row * width..][..width]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotary_pairs_are_split() {
        // One head of size 4, rows of width 1: pairs (0, 1) and (2, 3) become halves (0, 2) and (1, 3).
        assert_eq!(split_halves(&[0.0, 1.0, 2.0, 3.0], 4, 1), [0.0, 2.0, 1.0, 3.0]);
    }

    #[test]
    fn names_are_those_of_the_format() {
        assert_eq!(stored_name("model.layers.7.self_attn.o_proj.weight"), "blk.7.attn_output.weight");
        assert_eq!(stored_name("model.layers.0.post_attention_layernorm.weight"), "blk.0.ffn_norm.weight");
        assert_eq!(stored_name("model.norm.weight"), "output_norm.weight");
    }
}
