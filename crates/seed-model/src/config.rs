//! `config.json`: the shape of a model, in both generations of key names.
//!
//! Published checkpoints have `rope_theta`, `rope_scaling` and `torch_dtype` at the top level; newer writers use
//! `rope_parameters` and `dtype`. Both are read, the published form is written. Keys that do not matter here are kept
//! and written back. Newer writers also nest the decoder of a model that sees in `text_config`; it is written flat, as published.

mod rope;
mod vision;

pub use rope::{RopeScaling, RotaryFrequencies};
pub use vision::VisionConfig;

use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{path}: cannot read the configuration")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is not JSON.
    #[error("{path}: not valid JSON")]
    Json {
        /// The file.
        path: PathBuf,
        /// The cause, with line and column.
        source: serde_json::Error,
    },
    /// A key is missing.
    #[error("configuration key `{key}` is missing; needed: {needed}")]
    Missing {
        /// The key.
        key: &'static str,
        /// What its value should be.
        needed: &'static str,
    },
    /// A key has a value that cannot be used.
    #[error("configuration key `{key}` is {found}, needed: {needed}")]
    Invalid {
        /// The key.
        key: String,
        /// Its value, as JSON.
        found: String,
        /// What is needed.
        needed: String,
    },
    /// A key asks for something that this crate does not compute.
    #[error("configuration key `{key}` is {found}, which is not supported; supported: {supported}")]
    Unsupported {
        /// The key.
        key: String,
        /// Its value, as JSON.
        found: String,
        /// What is supported.
        supported: &'static str,
    },
}

/// The decoder families, by their `model_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// Qwen2 and Qwen2.5: biases on query, key and value projections.
    Qwen2,
    /// Qwen3: queries and keys are normalised per head; the head size is explicit.
    Qwen3,
    /// Llama-shaped: neither.
    Llama,
    /// Qwen2.5-VL: Qwen2 with a vision tower and rotary positions on three axes.
    Qwen25Vl,
}

impl Family {
    /// The name in `model_type`.
    pub fn model_type(self) -> &'static str {
        match self {
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
            Self::Llama => "llama",
            Self::Qwen25Vl => "qwen2_5_vl",
        }
    }

    /// The name in `architectures`.
    pub fn architecture(self) -> &'static str {
        match self {
            Self::Qwen2 => "Qwen2ForCausalLM",
            Self::Qwen3 => "Qwen3ForCausalLM",
            Self::Llama => "LlamaForCausalLM",
            Self::Qwen25Vl => "Qwen2_5_VLForConditionalGeneration",
        }
    }
}

/// Shape and constants of a decoder. Field names are those of `config.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// The family; decides biases and norms.
    pub model_type: Family,
    /// Rows of the embedding; may exceed the tokenizer's vocabulary.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the gated MLP.
    pub intermediate_size: usize,
    /// Number of blocks.
    pub num_hidden_layers: usize,
    /// Query heads.
    pub num_attention_heads: usize,
    /// Key and value heads; divides the query heads.
    pub num_key_value_heads: usize,
    /// Size of a head; even. Not always `hidden_size / num_attention_heads`.
    pub head_dim: usize,
    /// Added to the mean square in every norm.
    pub rms_norm_eps: f64,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// How the rotary frequencies are stretched.
    pub rope_scaling: Option<RopeScaling>,
    /// The longest sequence that the model was made for.
    pub max_position_embeddings: usize,
    /// The head is the embedding matrix; no `lm_head.weight` in the file.
    pub tie_word_embeddings: bool,
    /// Biases on query, key, value **and** output projections (Llama and Qwen3 only; Qwen2 has its own rule).
    pub attention_bias: bool,
    /// Standard deviation of fresh weights.
    pub initializer_range: f64,
    /// End-of-text ids; one or several in the file.
    pub eos_token_id: Vec<u32>,
    /// Beginning-of-text id.
    pub bos_token_id: Option<u32>,
    /// The vision tower and its tokens; of Qwen2.5-VL, and there always.
    pub vision: Option<VisionConfig>,
    /// Everything else in the file, written back as it is.
    pub other: Map<String, Value>,
}

impl ModelConfig {
    /// A configuration from its shape: `heads` = (query heads, key-value heads, head size).
    ///
    /// Rotary base 1e4, epsilon 1e-6, 4,096 positions, tied head, no attention bias; change the fields as needed.
    pub fn new(
        model_type: Family,
        vocab_size: usize,
        hidden_size: usize,
        intermediate_size: usize,
        num_hidden_layers: usize,
        heads: (usize, usize, usize),
    ) -> Self {
        Self {
            model_type,
            vocab_size,
            hidden_size,
            intermediate_size,
            num_hidden_layers,
            num_attention_heads: heads.0,
            num_key_value_heads: heads.1,
            head_dim: heads.2,
            rms_norm_eps: 1e-6,
            rope_theta: 1e4,
            rope_scaling: None,
            max_position_embeddings: 4096,
            tie_word_embeddings: true,
            attention_bias: false,
            initializer_range: 0.02,
            eos_token_id: Vec::new(),
            bos_token_id: None,
            vision: None,
            other: Map::new(),
        }
    }

    /// The same decoder with a vision tower: a Qwen2.5-VL.
    pub fn with_vision(mut self, vision: VisionConfig) -> Self {
        self.model_type = Family::Qwen25Vl;
        self.vision = Some(vision);
        self
    }

    /// Reads `config.json` (the file, or the folder that holds it).
    ///
    /// # Errors
    /// [`ConfigError`] when the file cannot be read, a key is missing or wrong, or an option is not supported.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let path = if path.is_dir() { path.join("config.json") } else { path.to_path_buf() };
        let text = std::fs::read_to_string(&path)
            .map_err(|source| ConfigError::Read { path: path.clone(), source })?;
        let value = serde_json::from_str(&text).map_err(|source| ConfigError::Json { path, source })?;
        Self::from_json(value)
    }

    /// The configuration in a parsed `config.json`.
    ///
    /// # Errors
    /// [`ConfigError`] when a key is missing or wrong, or an option is not supported.
    pub fn from_json(value: Value) -> Result<Self, ConfigError> {
        let Value::Object(map) = value else {
            return Err(ConfigError::Missing { key: "model_type", needed: "a JSON object with this key" });
        };
        let mut keys = Keys(map);
        let model_type = match keys.text("model_type")?.as_deref() {
            Some("qwen2") => Family::Qwen2,
            Some("qwen3") => Family::Qwen3,
            Some("llama") => Family::Llama,
            Some("qwen2_5_vl") => Family::Qwen25Vl,
            Some(other) => return Err(unsupported("model_type", &json!(other), FAMILIES)),
            None => return Err(ConfigError::Missing { key: "model_type", needed: FAMILIES }),
        };
        keys.take("architectures");
        let sees = model_type == Family::Qwen25Vl;
        if sees {
            keys.flatten_text_config()?;
        }
        let num_hidden_layers = keys.size("num_hidden_layers")?;
        keys.refuse_unsupported(num_hidden_layers)?;
        let vision = if sees { Some(VisionConfig::take(&mut keys)?) } else { None };
        let max_position_embeddings = keys.size("max_position_embeddings")?;
        let (rope_theta, rope_scaling) = rope::read(&mut keys, max_position_embeddings, sees)?;
        let hidden_size = keys.size("hidden_size")?;
        let num_attention_heads = keys.size("num_attention_heads")?;
        let num_key_value_heads = match keys.optional_size("num_key_value_heads")? {
            Some(heads) => heads,
            None if model_type == Family::Llama => num_attention_heads,
            None => {
                return Err(ConfigError::Missing { key: "num_key_value_heads", needed: "a whole number" });
            }
        };
        // Where the key is absent, Qwen3's library default is 128; the others divide.
        let head_dim = match keys.optional_size("head_dim")? {
            Some(size) => size,
            None if model_type == Family::Qwen3 => 128,
            None => hidden_size / num_attention_heads,
        };
        let attention_bias = keys.flag("attention_bias")?.unwrap_or(false);
        let config = Self {
            model_type,
            vocab_size: keys.size("vocab_size")?,
            hidden_size,
            intermediate_size: keys.size("intermediate_size")?,
            num_hidden_layers,
            num_attention_heads,
            num_key_value_heads,
            head_dim,
            rms_norm_eps: keys.positive("rms_norm_eps")?.unwrap_or(1e-6),
            rope_theta,
            rope_scaling,
            max_position_embeddings,
            tie_word_embeddings: keys.flag("tie_word_embeddings")?.unwrap_or(false),
            attention_bias,
            initializer_range: keys.positive("initializer_range")?.unwrap_or(0.02),
            eos_token_id: keys.ids("eos_token_id")?,
            bos_token_id: keys.ids("bos_token_id")?.first().copied(),
            vision,
            other: Map::new(),
        };
        // Written afresh in the published form, or derived.
        for key in ["torch_dtype", "dtype", "rope_scaling", "rope_parameters", "layer_types"] {
            keys.take(key);
        }
        let config = Self { other: keys.0, ..config };
        config.check()?;
        Ok(config)
    }

    /// Checks that sizes fit together.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] for heads that do not divide, an odd head size or a size of 0.
    pub fn check(&self) -> Result<(), ConfigError> {
        let invalid = |key: &str, found: usize, needed: String| {
            Err(ConfigError::Invalid { key: key.to_owned(), found: found.to_string(), needed })
        };
        for (key, size) in [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("num_key_value_heads", self.num_key_value_heads),
        ] {
            if size == 0 {
                return invalid(key, size, "at least 1".to_owned());
            }
        }
        if !self.num_attention_heads.is_multiple_of(self.num_key_value_heads) {
            let needed = format!("a divisor of `num_attention_heads` ({})", self.num_attention_heads);
            return invalid("num_key_value_heads", self.num_key_value_heads, needed);
        }
        if self.head_dim == 0 || !self.head_dim.is_multiple_of(2) {
            return invalid(
                "head_dim",
                self.head_dim,
                "an even number (rotary embeddings turn pairs)".to_owned(),
            );
        }
        if self.attention_bias && self.is_qwen2() {
            return invalid(
                "attention_bias",
                1,
                "absent or false for qwen2, which always has q, k and v biases".into(),
            );
        }
        match &self.vision {
            Some(vision) => vision.check(self.head_dim, self.hidden_size, self.vocab_size),
            None if self.model_type == Family::Qwen25Vl => {
                Err(ConfigError::Missing { key: "vision_config", needed: "the shape of the vision tower" })
            }
            None => Ok(()),
        }
    }

    /// Whether query, key and value projections have biases.
    pub fn qkv_bias(&self) -> bool {
        self.is_qwen2() || self.attention_bias
    }

    /// Whether the decoder is that of Qwen2.
    fn is_qwen2(&self) -> bool {
        matches!(self.model_type, Family::Qwen2 | Family::Qwen25Vl)
    }

    /// Whether the output projection of attention has a bias.
    pub fn output_bias(&self) -> bool {
        self.attention_bias
    }

    /// Whether queries and keys are normalised per head.
    pub fn qk_norm(&self) -> bool {
        self.model_type == Family::Qwen3
    }

    /// The factor on attention scores: head size to the power -1/2.
    pub fn attention_scale(&self) -> f64 {
        (self.head_dim as f64).powf(-0.5)
    }

    /// The turning speed of each pair of a head.
    pub fn rotary_frequencies(&self) -> RotaryFrequencies {
        RotaryFrequencies::new(self.head_dim, self.rope_theta, self.rope_scaling)
    }

    /// `config.json` in the published form. `torch_dtype`: `"float32"`, `"bfloat16"` or `"float16"`.
    pub fn to_json(&self, torch_dtype: &str) -> Value {
        let mut map = Map::new();
        let mut put = |key: &str, value: Value| {
            map.insert(key.to_owned(), value);
        };
        put("architectures", json!([self.model_type.architecture()]));
        if !self.is_qwen2() {
            put("attention_bias", json!(self.attention_bias));
        }
        put("bos_token_id", json!(self.bos_token_id));
        put(
            "eos_token_id",
            match self.eos_token_id.as_slice() {
                [] => Value::Null,
                [one] => json!(one),
                several => json!(several),
            },
        );
        if !self.is_qwen2() || self.head_dim * self.num_attention_heads != self.hidden_size {
            put("head_dim", json!(self.head_dim));
        }
        put("hidden_act", json!("silu"));
        put("hidden_size", json!(self.hidden_size));
        put("initializer_range", json!(self.initializer_range));
        put("intermediate_size", json!(self.intermediate_size));
        put("max_position_embeddings", json!(self.max_position_embeddings));
        put("model_type", json!(self.model_type.model_type()));
        put("num_attention_heads", json!(self.num_attention_heads));
        put("num_hidden_layers", json!(self.num_hidden_layers));
        put("num_key_value_heads", json!(self.num_key_value_heads));
        put("rms_norm_eps", json!(self.rms_norm_eps));
        match &self.vision {
            Some(vision) => vision.put(&mut put),
            None => put("rope_scaling", self.rope_scaling.map_or(Value::Null, RopeScaling::to_json)),
        }
        put("rope_theta", json!(self.rope_theta));
        put("tie_word_embeddings", json!(self.tie_word_embeddings));
        put("torch_dtype", json!(torch_dtype));
        put("vocab_size", json!(self.vocab_size));
        for (key, value) in &self.other {
            map.entry(key.clone()).or_insert_with(|| value.clone());
        }
        Value::Object(map)
    }
}

const FAMILIES: &str = "\"qwen2\", \"qwen3\", \"llama\" or \"qwen2_5_vl\"";

pub(crate) fn unsupported(key: &str, found: &Value, supported: &'static str) -> ConfigError {
    ConfigError::Unsupported { key: key.to_owned(), found: found.to_string(), supported }
}

pub(crate) fn invalid(key: &str, found: &Value, needed: &str) -> ConfigError {
    ConfigError::Invalid { key: key.to_owned(), found: found.to_string(), needed: needed.to_owned() }
}

/// The keys of a JSON object that were not read yet; `null` counts as absent.
pub(crate) struct Keys(pub(crate) Map<String, Value>);

impl Keys {
    pub(crate) fn take(&mut self, key: &str) -> Option<Value> {
        self.0.shift_remove(key).filter(|value| !value.is_null())
    }

    pub(crate) fn optional_size(&mut self, key: &'static str) -> Result<Option<usize>, ConfigError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let size = value.as_u64().and_then(|v| usize::try_from(v).ok()).filter(|v| *v > 0 && *v < 1 << 40);
        size.map(Some).ok_or_else(|| invalid(key, &value, "a positive whole number"))
    }

    pub(crate) fn size(&mut self, key: &'static str) -> Result<usize, ConfigError> {
        self.optional_size(key)?.ok_or(ConfigError::Missing { key, needed: "a positive whole number" })
    }

    pub(crate) fn positive(&mut self, key: &'static str) -> Result<Option<f64>, ConfigError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let number = value.as_f64().filter(|v| v.is_finite() && *v > 0.0);
        number.map(Some).ok_or_else(|| invalid(key, &value, "a positive number"))
    }

    pub(crate) fn flag(&mut self, key: &'static str) -> Result<Option<bool>, ConfigError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| invalid(key, &value, "true or false"))
    }

    pub(crate) fn text(&mut self, key: &'static str) -> Result<Option<String>, ConfigError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        value.as_str().map(|text| Some(text.to_owned())).ok_or_else(|| invalid(key, &value, "a text"))
    }

    fn ids(&mut self, key: &'static str) -> Result<Vec<u32>, ConfigError> {
        let Some(value) = self.take(key) else { return Ok(Vec::new()) };
        let one = |id: &Value| id.as_u64().and_then(|id| u32::try_from(id).ok());
        let ids = match &value {
            Value::Array(items) => items.iter().map(one).collect::<Option<Vec<_>>>(),
            single => one(single).map(|id| vec![id]),
        };
        ids.ok_or_else(|| invalid(key, &value, "a token id or a list of token ids"))
    }

    /// Lifts the keys of `text_config` to the top level, where published files have them. The nested value is the decoder's own; the
    /// top level is asked first for token ids, and a head that either of them ties is tied.
    fn flatten_text_config(&mut self) -> Result<(), ConfigError> {
        let Some(value) = self.take("text_config") else { return Ok(()) };
        let Value::Object(text) = value else { return Err(invalid("text_config", &value, "an object")) };
        for (key, value) in text {
            let held = self.0.get(&key).filter(|held| !held.is_null());
            let keep = match key.as_str() {
                "model_type" | "architectures" => true,
                "tie_word_embeddings" => held == Some(&Value::Bool(true)),
                key => held.is_some() && key.ends_with("_token_id"),
            };
            if !keep && !value.is_null() {
                self.0.insert(key, value);
            }
        }
        Ok(())
    }

    fn refuse_unsupported(&mut self, layers: usize) -> Result<(), ConfigError> {
        if let Some(value) = self.take("hidden_act").filter(|value| value != "silu") {
            return Err(unsupported("hidden_act", &value, "\"silu\""));
        }
        let window = self.0.get("sliding_window").filter(|value| !value.is_null()).cloned();
        let wanted = self.0.get("use_sliding_window").and_then(Value::as_bool).unwrap_or(false);
        let first = self.0.get("max_window_layers").and_then(Value::as_u64).unwrap_or(0);
        if let Some(window) = window.filter(|_| wanted && first < layers as u64) {
            return Err(unsupported("sliding_window", &window, "full attention in every layer"));
        }
        if let Some(value) = self.0.get("layer_types").filter(|value| !value.is_null()) {
            let full =
                value.as_array().is_some_and(|kinds| kinds.iter().all(|kind| kind == "full_attention"));
            if !full {
                return Err(unsupported("layer_types", value, "\"full_attention\" in every layer"));
            }
        }
        if let Some(value) = self.0.get("quantization_config").filter(|value| !value.is_null()) {
            return Err(unsupported("quantization_config", value, "weights stored as f32, f16 or bf16"));
        }
        for (key, supported) in [
            ("mlp_bias", "false"),
            ("use_mrope", "false"),
            ("rope_interleaved", "false (rotary halves are split)"),
        ] {
            if let Some(value) = self.0.get(key).filter(|value| **value == Value::Bool(true)) {
                return Err(unsupported(key, value, supported));
            }
        }
        for (key, needed) in [("attention_dropout", 0.0), ("partial_rotary_factor", 1.0)] {
            if let Some(value) =
                self.0.get(key).filter(|value| !value.is_null() && value.as_f64() != Some(needed))
            {
                return Err(unsupported(key, value, if needed == 0.0 { "0" } else { "1" }));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published() -> Value {
        json!({
            "model_type": "qwen2", "vocab_size": 512, "hidden_size": 64, "intermediate_size": 160,
            "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-6,
            "rope_theta": 1000000.0, "max_position_embeddings": 512, "tie_word_embeddings": false,
            "torch_dtype": "float32", "use_cache": true, "sliding_window": 64, "max_window_layers": 3,
            "use_sliding_window": false, "eos_token_id": 482, "hidden_act": "silu", "rope_scaling": null
        })
    }

    fn with(key: &str, value: Value) -> Result<ModelConfig, ConfigError> {
        let mut json = published();
        json[key] = value;
        ModelConfig::from_json(json)
    }

    #[test]
    fn both_generations_of_keys_mean_the_same() {
        let mut new = published();
        let map = new.as_object_mut().unwrap();
        for key in ["torch_dtype", "rope_theta", "rope_scaling"] {
            map.shift_remove(key);
        }
        map.insert("dtype".into(), json!("float32"));
        map.insert("rope_parameters".into(), json!({"rope_type": "default", "rope_theta": 1000000.0}));
        map.insert("layer_types".into(), json!(["full_attention", "full_attention", "full_attention"]));
        assert_eq!(ModelConfig::from_json(new).unwrap(), ModelConfig::from_json(published()).unwrap());
    }

    #[test]
    fn what_is_written_reads_back_equal_and_keeps_other_keys() {
        let config = ModelConfig::from_json(published()).unwrap();
        let written = config.to_json("float32");
        assert_eq!(written["use_cache"], true);
        assert_eq!(ModelConfig::from_json(written).unwrap(), config);
    }

    #[test]
    fn unsupported_options_fail_in_one_sentence() {
        for (key, value) in [
            ("rope_scaling", json!({"type": "dynamic", "factor": 4.0})),
            ("rope_parameters", json!({"full_attention": {"rope_type": "default"}})),
            ("hidden_act", json!("gelu")),
            ("layer_types", json!(["full_attention", "sliding_attention", "full_attention"])),
            ("model_type", json!("mistral")),
            ("use_mrope", json!(true)),
            ("quantization_config", json!({"quant_method": "gptq"})),
        ] {
            let message = with(key, value).unwrap_err().to_string();
            assert!(message.contains(key) && message.contains("not supported"), "{message}");
        }
    }

    #[test]
    fn a_sliding_window_counts_only_where_a_layer_uses_it() {
        let mut json = published();
        json["use_sliding_window"] = json!(true);
        assert!(ModelConfig::from_json(json.clone()).is_ok());
        json["max_window_layers"] = json!(2);
        let message = ModelConfig::from_json(json).unwrap_err().to_string();
        assert!(
            message.starts_with("configuration key `sliding_window` is 64, which is not supported"),
            "{message}"
        );
    }

    #[test]
    fn wrong_values_name_key_found_and_needed() {
        assert_eq!(
            with("hidden_size", json!("64")).unwrap_err().to_string(),
            "configuration key `hidden_size` is \"64\", needed: a positive whole number"
        );
        assert_eq!(
            with("num_key_value_heads", json!(3)).unwrap_err().to_string(),
            "configuration key `num_key_value_heads` is 3, needed: a divisor of `num_attention_heads` (4)"
        );
        assert_eq!(
            with("vocab_size", Value::Null).unwrap_err().to_string(),
            "configuration key `vocab_size` is missing; needed: a positive whole number"
        );
    }
}
