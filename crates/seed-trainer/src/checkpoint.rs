//! Checkpoints: a Hugging Face folder with what a resume needs in `trainer/` beside the weights.

use crate::learner::Learner;
use crate::run_folder::{RunFolder, StorageError, write_file, write_folder};
use burn::tensor::{Device, FloatDType};
use seed_model::checkpoint::{CheckpointError, SaveOptions};
use seed_model::lora::{Lora, LoraError};
use seed_model::optim::StateError;
use seed_model::vision::ProcessorError;
use seed_model::{CausalLm, ChatTemplate, GenerationConfig, ImageProcessor, Tokenizer, TokenizerError};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// Where a run stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainerState {
    /// Updates completed; 0 after stage 1.
    pub update: u64,
    /// Best success on the first panel so far, and the update it belongs to.
    pub best: Option<(f64, u64)>,
}

/// Why a checkpoint cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// The disk failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The model's files.
    #[error(transparent)]
    Model(#[from] CheckpointError),
    /// The tokenizer's files.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The image processor's file.
    #[error(transparent)]
    Processor(#[from] ProcessorError),
    /// The adapter's folder.
    #[error(transparent)]
    Adapter(#[from] LoraError),
    /// The optimiser's file.
    #[error(transparent)]
    Optimizer(#[from] StateError),
}

/// What a checkpoint holds beside weights and optimiser.
#[derive(Clone, Copy)]
pub struct Companions<'a> {
    /// Saved as it was read.
    pub tokenizer: &'a Tokenizer,
    /// Saved as `chat_template.jinja`.
    pub chat: &'a ChatTemplate,
    /// Saved where the starting model had one.
    pub generation_config: Option<&'a GenerationConfig>,
    /// Saved where the policy sees.
    pub processor: Option<&'a ImageProcessor>,
}

/// How weights go into a checkpoint and come back.
#[derive(Debug, Clone)]
pub enum Weights {
    /// All of them.
    Whole,
    /// An adapter on the weights of the folder `base`.
    Adapter {
        /// Rank, scale, places.
        lora: Lora,
        /// The starting model.
        base: PathBuf,
    },
}

impl Weights {
    /// The weights of a checkpoint as they were when it was written.
    ///
    /// # Errors
    /// [`SaveError`] for a folder that cannot be read; with an adapter, also for a base that cannot.
    pub fn load(&self, checkpoint: &Path, device: &Device, dtype: FloatDType) -> Result<CausalLm, SaveError> {
        let whole =
            |folder: &Path| seed_model::checkpoint::load(folder, device, dtype).map(|loaded| loaded.model);
        Ok(match self {
            Self::Whole => whole(checkpoint)?,
            Self::Adapter { base, .. } => Lora::load(&whole(base)?, checkpoint.join("adapter"))?.1,
        })
    }

    fn save_ema(&self, ema: &CausalLm, folder: &Path) -> Result<(), SaveError> {
        match self {
            Self::Whole => Ok(seed_model::checkpoint::save(ema, folder, &SaveOptions::default())?),
            Self::Adapter { lora, base } => {
                Ok(lora.save(ema, folder.join("adapter"), &base.display().to_string())?)
            }
        }
    }
}

/// Writes the checkpoint of `state.update`; it appears whole or not at all.
///
/// With an adapter the folder holds the merged model, which opens everywhere, and the adapter alone in `adapter/`.
///
/// # Errors
/// [`SaveError`]; an older checkpoint of the same update is then untouched.
pub fn save(
    run: &RunFolder,
    learner: &Learner,
    weights: &Weights,
    companions: Companions<'_>,
    state: &TrainerState,
    ema: Option<&CausalLm>,
) -> Result<(), SaveError> {
    write_folder(&run.checkpoint(state.update), |folder| {
        let snapshot = learner.snapshot();
        match weights {
            Weights::Whole => save_model(folder, &snapshot, companions)?,
            Weights::Adapter { lora, base } => {
                save_model(folder, &Lora::merge(&snapshot)?, companions)?;
                lora.save(&snapshot, folder.join("adapter"), &base.display().to_string())?;
            }
        }
        let trainer = folder.join("trainer");
        fs::create_dir_all(&trainer).map_err(|e| StorageError::write(&trainer, e))?;
        learner.save_optimizer(&trainer.join("optimizer.safetensors"))?;
        if let Some(ema) = ema {
            weights.save_ema(ema, &trainer.join("ema"))?;
        }
        let text = serde_json::to_string_pretty(state).expect("plain data");
        write_file(&trainer.join("state.json"), text.as_bytes())?;
        Ok(())
    })
}

/// Writes model, tokenizer and chat template into a folder.
///
/// # Errors
/// [`SaveError`] when a file cannot be written.
pub fn save_model(folder: &Path, model: &CausalLm, companions: Companions<'_>) -> Result<(), SaveError> {
    let options =
        SaveOptions { generation_config: companions.generation_config.cloned(), ..SaveOptions::default() };
    seed_model::checkpoint::save(model, folder, &options)?;
    companions.tokenizer.save(folder)?;
    write_file(&folder.join("chat_template.jinja"), companions.chat.source().as_bytes())?;
    if let Some(processor) = companions.processor {
        processor.save(folder)?;
    }
    Ok(())
}

/// Reads the trainer's state of a checkpoint.
///
/// # Errors
/// [`StorageError`] when the file is missing or is not what [`save`] writes.
pub fn read_state(folder: &Path) -> Result<TrainerState, StorageError> {
    let path = folder.join("trainer/state.json");
    let text = fs::read_to_string(&path).map_err(|e| StorageError::read(&path, e))?;
    serde_json::from_str(&text).map_err(|error| StorageError::Content {
        path,
        place: format!("line {}", error.line()),
        expected: "the state of a trainer: `update` and `best`",
    })
}

/// Reads the moving average of a checkpoint, where it has one.
///
/// # Errors
/// [`SaveError`] when the folder is there and cannot be loaded.
pub fn read_ema(
    folder: &Path,
    weights: &Weights,
    device: &Device,
    dtype: FloatDType,
) -> Result<Option<CausalLm>, SaveError> {
    let folder = folder.join("trainer/ema");
    if !folder.is_dir() {
        return Ok(None);
    }
    Ok(Some(weights.load(&folder, device, dtype)?))
}

/// Removes old checkpoints: the newest `keep`, the first (the reference) and the best stay. 0 keeps all.
///
/// # Errors
/// When the folder cannot be listed or a checkpoint cannot be removed.
pub fn prune(run: &RunFolder, keep: usize, best: Option<u64>) -> Result<(), StorageError> {
    if keep == 0 {
        return Ok(());
    }
    let steps = run.checkpoints()?;
    let old = steps.len().saturating_sub(keep);
    for step in steps[..old].iter().filter(|step| **step != 0 && Some(**step) != best) {
        let folder = run.checkpoint(*step);
        // Out of the listing first: a kill while files go must not leave half a checkpoint under its name.
        let aside = folder.with_extension("removed");
        let remove = || {
            fs::rename(&folder, &aside)?;
            fs::remove_dir_all(&aside)
        };
        remove().map_err(|e| StorageError::write(&folder, e))?;
    }
    Ok(())
}
