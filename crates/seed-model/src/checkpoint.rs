//! Hugging Face folders: `config.json`, `generation_config.json` and safetensors, in one file or in shards.

mod error;
pub(crate) mod save;
mod weights;

pub use error::CheckpointError;
pub use save::{SaveOptions, save};
pub use weights::WeightFiles;
pub(crate) use weights::map_file;

use crate::causal_lm::{CausalLm, TensorSource};
use crate::config::ModelConfig;
use crate::generation_config::GenerationConfig;
use burn::tensor::{Device, FloatDType, TensorData};
use std::path::Path;

/// What [`load`] returns.
#[derive(Debug)]
pub struct LoadedModel {
    /// The model, on the device asked for.
    pub model: CausalLm,
    /// Its configuration; also in [`CausalLm::config`].
    pub config: ModelConfig,
    /// `generation_config.json`, where the folder has one.
    pub generation_config: Option<GenerationConfig>,
}

/// Loads a Hugging Face folder onto `device`, with weights and activations in `dtype`.
///
/// Files are memory-mapped and each tensor is read once, straight into the memory it keeps. Stored f32, f16 and bf16 are
/// widened or rounded to `dtype`. Give a device with `.autodiff()` to train.
///
/// # Errors
/// [`CheckpointError`]: a file that cannot be read, an option that is not supported, or a tensor that is missing, left over, or has
/// another shape or type than the configuration needs.
pub fn load(
    folder: impl AsRef<Path>,
    device: &Device,
    dtype: FloatDType,
) -> Result<LoadedModel, CheckpointError> {
    let folder = folder.as_ref();
    let config = ModelConfig::read(folder)?;
    let files = WeightFiles::open(folder)?;
    let mut source = FileSource { files: &files, dtype, used: Vec::new() };
    let model = CausalLm::assemble(&config, dtype, device, &mut source)?;
    let used = source.used;
    check_left_over(&files, &config, &used)?;
    let generation_config = GenerationConfig::read(folder)?;
    Ok(LoadedModel { model, config, generation_config })
}

struct FileSource<'a> {
    files: &'a WeightFiles,
    dtype: FloatDType,
    used: Vec<String>,
}

impl TensorSource for FileSource<'_> {
    type Error = CheckpointError;

    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<TensorData, CheckpointError> {
        let name = name_in(self.files, name);
        let data = self.files.tensor(&name, shape, self.dtype);
        self.used.push(name);
        data
    }
}

/// The name that a tensor has in the files: as published, or as newer writers nest models that see.
fn name_in(files: &WeightFiles, name: &str) -> String {
    let nested = match name.strip_prefix("model.") {
        Some(rest) => format!("model.language_model.{rest}"),
        None => format!("model.{name}"),
    };
    if files.shape(name).is_none() && files.shape(&nested).is_some() { nested } else { name.to_owned() }
}

/// A tensor that the model does not use is an error, but for two that published files carry without meaning.
fn check_left_over(
    files: &WeightFiles,
    config: &ModelConfig,
    used: &[String],
) -> Result<(), CheckpointError> {
    let used: std::collections::HashSet<&str> = used.iter().map(String::as_str).collect();
    for name in files.names().filter(|name| !used.contains(name)) {
        if name.ends_with("rotary_emb.inv_freq") || name.ends_with("rotary_pos_emb.inv_freq") {
            continue;
        }
        if name == "lm_head.weight" && config.tie_word_embeddings {
            if files.same_bytes(name, &name_in(files, "model.embed_tokens.weight"))? {
                continue;
            }
            return Err(CheckpointError::TiedHeadDiffers { file: files.file_of(name) });
        }
        return Err(CheckpointError::Unexpected { file: files.file_of(name), name: name.to_owned() });
    }
    Ok(())
}
