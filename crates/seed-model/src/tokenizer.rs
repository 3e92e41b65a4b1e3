//! Text to ids and back.

use serde_json::Value;
use std::path::{Path, PathBuf};

/// Why a tokenizer cannot be loaded or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// A file cannot be read or written.
    #[error("{path}: cannot read or write")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file has content that cannot be used.
    #[error("{path}: {reason}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The library refused a text or ids.
    #[error("cannot {action}: {reason}")]
    Use {
        /// `encode` or `decode`.
        action: &'static str,
        /// What the library says.
        reason: String,
    },
}

/// A tokenizer in the form of `tokenizer.json`, with what `tokenizer_config.json` says beside it.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// `tokenizer.json` as read, to be written back unchanged.
    json: Vec<u8>,
    /// `tokenizer_config.json`; null where there is none.
    config: Value,
    end_ids: Vec<u32>,
}

impl Tokenizer {
    /// Loads `tokenizer.json` of a folder, and `tokenizer_config.json`, `generation_config.json` and `config.json` where present.
    ///
    /// # Errors
    /// [`TokenizerError`] when a file cannot be read or used.
    pub fn load(folder: impl AsRef<Path>) -> Result<Self, TokenizerError> {
        let folder = folder.as_ref();
        let path = folder.join("tokenizer.json");
        let json = std::fs::read(&path).map_err(|source| TokenizerError::File { path, source })?;
        let config = read_json(&folder.join("tokenizer_config.json"))?;
        let mut end_ids = Vec::new();
        for file in ["generation_config.json", "config.json"] {
            if end_ids.is_empty() {
                end_ids = ids_of(&read_json(&folder.join(file))?["eos_token_id"]);
            }
        }
        Self::from_json(json, config, end_ids)
            .map_err(|reason| TokenizerError::Content { path: folder.join("tokenizer.json"), reason })
    }

    /// From the content of `tokenizer.json` and `tokenizer_config.json` (null where there is none).
    ///
    /// Without `end_ids`, the end token named in `config` is the only one.
    pub(crate) fn from_json(json: Vec<u8>, config: Value, mut end_ids: Vec<u32>) -> Result<Self, String> {
        let inner = tokenizers::Tokenizer::from_bytes(&json).map_err(|error| error.to_string())?;
        if end_ids.is_empty() {
            end_ids.extend(token_text(&config["eos_token"]).and_then(|text| inner.token_to_id(&text)));
        }
        Ok(Self { inner, json, config, end_ids })
    }

    /// Ids of `text`. Special tokens in the text become their ids; nothing is added in front or behind.
    ///
    /// # Errors
    /// [`TokenizerError::Use`] when the library refuses the text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let encoding = self.inner.encode_fast(text, false);
        let encoding =
            encoding.map_err(|error| TokenizerError::Use { action: "encode", reason: error.to_string() })?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Text of `ids`, special tokens kept. An incomplete character shows as U+FFFD; ids without a token give nothing.
    ///
    /// # Errors
    /// [`TokenizerError::Use`] when the library refuses the ids.
    pub fn decode(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        self.decode_with(ids, false)
    }

    /// As [`decode`](Self::decode), without special tokens.
    ///
    /// # Errors
    /// [`TokenizerError::Use`] when the library refuses the ids.
    pub fn decode_skipping_special(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        self.decode_with(ids, true)
    }

    fn decode_with(&self, ids: &[u32], skip_special: bool) -> Result<String, TokenizerError> {
        self.inner
            .decode(ids, skip_special)
            .map_err(|error| TokenizerError::Use { action: "decode", reason: error.to_string() })
    }

    /// Ids that end a response, from `generation_config.json`, else `config.json`, else the tokenizer's end token.
    pub fn end_ids(&self) -> &[u32] {
        &self.end_ids
    }

    /// Number of ids that have a token, added tokens included. A model's `vocab_size` may be larger: ids from here on decode to
    /// nothing and must not be sampled.
    pub fn vocab_size(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// Number of ids without added tokens.
    pub fn base_vocab_size(&self) -> usize {
        self.inner.get_vocab_size(false)
    }

    /// The id of one token, e.g. `<|im_end|>`.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// The id that starts a text, where the tokenizer's configuration asks for one (`add_bos_token`).
    pub fn start_id(&self) -> Option<u32> {
        if self.config["add_bos_token"] != true {
            return None;
        }
        self.id(&token_text(&self.config["bos_token"])?)
    }

    /// Writes `tokenizer.json` and `tokenizer_config.json` as they were read.
    ///
    /// # Errors
    /// [`TokenizerError::File`] when a file cannot be written.
    pub fn save(&self, folder: impl AsRef<Path>) -> Result<(), TokenizerError> {
        let write = |name: &str, content: &[u8]| {
            let path = folder.as_ref().join(name);
            std::fs::write(&path, content).map_err(|source| TokenizerError::File { path, source })
        };
        write("tokenizer.json", &self.json)?;
        if self.config.is_null() {
            return Ok(());
        }
        write("tokenizer_config.json", format!("{:#}\n", self.config).as_bytes())
    }
}

/// A token in `tokenizer_config.json`: a text, or an object with `content`.
pub(crate) fn token_text(value: &Value) -> Option<String> {
    value.as_str().or_else(|| value["content"].as_str()).map(str::to_owned)
}

fn ids_of(value: &Value) -> Vec<u32> {
    let one = |id: &Value| id.as_u64().and_then(|id| u32::try_from(id).ok());
    match value {
        Value::Array(items) => items.iter().filter_map(one).collect(),
        single => one(single).into_iter().collect(),
    }
}

/// A JSON file, or null where there is none.
pub(crate) fn read_json(path: &Path) -> Result<Value, TokenizerError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Value::Null),
        Err(source) => return Err(TokenizerError::File { path: path.to_path_buf(), source }),
    };
    serde_json::from_str(&text)
        .map_err(|error| TokenizerError::Content { path: path.to_path_buf(), reason: error.to_string() })
}
