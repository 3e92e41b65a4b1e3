//! What can be wrong with a folder.

use crate::config::ConfigError;
use std::path::PathBuf;

/// Why a checkpoint cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file cannot be read.
    #[error("{path}: cannot read")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("{path}: cannot write")]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The folder has no weights.
    #[error("{folder}: no weights; needed: `model.safetensors` or `model.safetensors.index.json`")]
    NoWeights {
        /// The folder.
        folder: PathBuf,
    },
    /// A JSON file cannot be used.
    #[error("{path}: {reason}")]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the place where known.
        reason: String,
    },
    /// A safetensors file is damaged.
    #[error("{path}: not a valid safetensors file: {reason}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A tensor that the configuration needs is not in the files.
    #[error("tensor `{name}` is missing; needed: shape {needed:?}{hint}")]
    Missing {
        /// The tensor.
        name: String,
        /// Its shape.
        needed: Vec<usize>,
        /// What to try; empty or starting with `; `.
        hint: &'static str,
    },
    /// The files hold a tensor that the model has no place for.
    #[error("{file}: tensor `{name}` belongs to nothing in the model that config.json describes")]
    Unexpected {
        /// The file.
        file: PathBuf,
        /// The tensor.
        name: String,
    },
    /// A tied model came with another head.
    #[error(
        "{file}: `lm_head.weight` differs from `model.embed_tokens.weight`, but `tie_word_embeddings` is true"
    )]
    TiedHeadDiffers {
        /// The file.
        file: PathBuf,
    },
    /// A model with an adapter is not a checkpoint.
    #[error(
        "the model carries a LoRA adapter; save the adapter with `Lora::save`, or merge it first with `Lora::merge`"
    )]
    HasAdapter,
    /// A tensor has another shape than the configuration needs.
    #[error("{file}: tensor `{name}` has shape {found:?}, needed: {needed:?}")]
    Shape {
        /// The file.
        file: PathBuf,
        /// The tensor.
        name: String,
        /// Shape in the file.
        found: Vec<usize>,
        /// Shape by the configuration.
        needed: Vec<usize>,
    },
    /// A tensor has a type that cannot be used.
    #[error("{file}: tensor `{name}` has type {found}, needed: {needed}")]
    Type {
        /// The file.
        file: PathBuf,
        /// The tensor.
        name: String,
        /// Type in the file.
        found: String,
        /// Types that can be used.
        needed: &'static str,
    },
}
