//! `config.json` of an encoder.

use super::EncoderError;
use crate::config::{ConfigError, Keys, unsupported};
use serde_json::Value;
use std::path::Path;

/// Shape and constants of a BERT encoder. Field names are those of `config.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct EncoderConfig {
    /// Rows of the word embedding.
    pub vocab_size: usize,
    /// Width of the hidden states, and of a vector.
    pub hidden_size: usize,
    /// Number of layers.
    pub num_hidden_layers: usize,
    /// Heads; divide the width.
    pub num_attention_heads: usize,
    /// Width inside the feed-forward part.
    pub intermediate_size: usize,
    /// Rows of the position embedding: the longest text in tokens.
    pub max_position_embeddings: usize,
    /// Rows of the segment embedding; a single text takes the first.
    pub type_vocab_size: usize,
    /// Added to the variance in every norm.
    pub layer_norm_eps: f64,
}

impl EncoderConfig {
    /// Reads `config.json` of a folder.
    ///
    /// # Errors
    /// [`EncoderError::Config`] when the file cannot be read, a key is missing or wrong, or an option is not supported.
    pub fn read(folder: &Path) -> Result<Self, EncoderError> {
        let path = folder.join("config.json");
        let read = |path: &Path| {
            let text = std::fs::read_to_string(path)
                .map_err(|source| ConfigError::Read { path: path.to_path_buf(), source })?;
            let value = serde_json::from_str(&text)
                .map_err(|source| ConfigError::Json { path: path.to_path_buf(), source })?;
            Self::from_json(value)
        };
        read(&path).map_err(|source| EncoderError::Config { path, source })
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
        for (key, expected, supported) in [
            ("model_type", "bert", "\"bert\""),
            ("hidden_act", "gelu", "\"gelu\" (the exact one)"),
            ("position_embedding_type", "absolute", "\"absolute\""),
        ] {
            match keys.text(key)? {
                Some(found) if found != expected => {
                    return Err(unsupported(key, &Value::String(found), supported));
                }
                None if key == "model_type" => {
                    return Err(ConfigError::Missing { key: "model_type", needed: "\"bert\"" });
                }
                _ => {}
            }
        }
        for key in ["is_decoder", "add_cross_attention"] {
            if keys.flag(key)?.unwrap_or(false) {
                return Err(unsupported(key, &Value::Bool(true), "false: an encoder"));
            }
        }
        let config = Self {
            vocab_size: keys.size("vocab_size")?,
            hidden_size: keys.size("hidden_size")?,
            num_hidden_layers: keys.size("num_hidden_layers")?,
            num_attention_heads: keys.size("num_attention_heads")?,
            intermediate_size: keys.size("intermediate_size")?,
            max_position_embeddings: keys.size("max_position_embeddings")?,
            type_vocab_size: keys.optional_size("type_vocab_size")?.unwrap_or(2),
            layer_norm_eps: keys.positive("layer_norm_eps")?.unwrap_or(1e-12),
        };
        if !config.hidden_size.is_multiple_of(config.num_attention_heads) {
            return Err(ConfigError::Invalid {
                key: "num_attention_heads".into(),
                found: config.num_attention_heads.to_string(),
                needed: format!("a divisor of `hidden_size` ({})", config.hidden_size),
            });
        }
        Ok(config)
    }
}
