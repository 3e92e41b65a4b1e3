//! Models of other formats as Hugging Face folders that a run can start from.

use crate::checkpoint::{Companions, SaveError, save_model};
use crate::run_folder::write_folder;
use burn::tensor::FloatDType;
use seed_model::device::{self, DeviceError};
use seed_model::gguf::{self, GgufError};
use std::path::{Path, PathBuf};

/// Why a file cannot be imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The file.
    #[error("{path} cannot be imported")]
    Gguf {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<GgufError>,
    },
    /// A run writes prompts in the model's own chat format.
    #[error(
        "{path}: no chat template in the file (metadata key `tokenizer.chat_template`); take the instruct model"
    )]
    NoChatTemplate {
        /// The file.
        path: PathBuf,
    },
    /// Something stands where the folder is to go.
    #[error("{path} exists already; remove it, or name another folder")]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// The CPU.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Writing.
    #[error(transparent)]
    Save(#[from] SaveError),
    /// The disk failed.
    #[error(transparent)]
    Storage(#[from] crate::run_folder::StorageError),
}

/// Writes the Llama-shaped model of a GGUF file, its tokenizer and its chat template as the folder `to`, weights in f32.
///
/// # Errors
/// [`ImportError`]; nothing is then at `to`.
pub fn gguf(file: &Path, to: &Path) -> Result<(), ImportError> {
    if to.exists() {
        return Err(ImportError::Exists { path: to.to_path_buf() });
    }
    let loaded = gguf::load(file, &device::select("cpu")?, FloatDType::F32)
        .map_err(|source| ImportError::Gguf { path: file.to_path_buf(), source: Box::new(source) })?;
    let chat = loaded
        .chat_template
        .as_ref()
        .ok_or_else(|| ImportError::NoChatTemplate { path: file.to_path_buf() })?;
    let companions = Companions {
        tokenizer: &loaded.tokenizer,
        chat,
        generation_config: Some(&loaded.generation_config),
        processor: None,
    };
    write_folder(to, |folder| Ok(save_model(folder, &loaded.model, companions)?))
}
