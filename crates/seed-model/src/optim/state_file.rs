//! Optimiser state as a safetensors file.

use super::adamw::{AdamW, AdamWOptions, Moments};
use crate::checkpoint::save::StoredTensor;
use crate::checkpoint::{CheckpointError, WeightFiles};
use burn::tensor::{DType, Device, FloatDType, Tensor};
use safetensors::tensor::Dtype;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// Why optimiser state cannot be restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] CheckpointError),
    /// The file is not one that [`AdamW::save`] wrote.
    #[error("{path}: {reason}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

impl AdamW {
    /// Writes the moments, the master weights and the step of each parameter as one safetensors file, bit for bit.
    ///
    /// Tensors are `mean.<name>`, `square.<name>` and `master.<name>`; steps are in the file's metadata.
    ///
    /// # Errors
    /// [`StateError`] when the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), StateError> {
        let path = path.as_ref();
        let mut tensors = Vec::new();
        let mut metadata = HashMap::new();
        for (name, moments) in &self.state {
            let mut put = |kind: &str, tensor: &Tensor<1>| {
                let tensor = StoredTensor::new(tensor.clone(), FloatDType::F32, Dtype::F32);
                tensors.push((format!("{kind}.{name}"), tensor));
            };
            put("mean", &moments.mean);
            put("square", &moments.square);
            if let Some(master) = &moments.master {
                put("master", master);
            }
            metadata.insert(name.clone(), moments.step.to_string());
        }
        safetensors::serialize_to_file(tensors, Some(metadata), path).map_err(|error| {
            let source = std::io::Error::other(error.to_string());
            StateError::from(CheckpointError::Write { path: path.to_path_buf(), source })
        })
    }

    /// An optimiser with the state that [`save`](Self::save) wrote, its tensors on `device`. Add groups as before.
    ///
    /// # Errors
    /// [`StateError`] when the file cannot be read or is of another kind.
    pub fn load(path: impl AsRef<Path>, options: AdamWOptions, device: &Device) -> Result<Self, StateError> {
        let path = path.as_ref();
        let files = WeightFiles::open_file(path)?;
        let wrong = |reason: String| StateError::Content { path: path.to_path_buf(), reason };
        let read = |name: &str| -> Result<Tensor<1>, StateError> {
            let shape = files.shape(name).ok_or_else(|| wrong(format!("tensor `{name}` is missing")))?;
            let data = files.tensor(name, shape, FloatDType::F32)?;
            let count = shape.iter().product::<usize>();
            if shape != [count] {
                return Err(wrong(format!("tensor `{name}` has shape {shape:?}, needed: one dimension")));
            }
            Ok(Tensor::from_data(data, (&device.clone().inner(), DType::F32)))
        };
        let mut state = BTreeMap::new();
        for (name, step) in files.metadata() {
            let step = step.parse().map_err(|_| {
                wrong(format!("metadata key `{name}` is \"{step}\", needed: a number of steps"))
            })?;
            let master = format!("master.{name}");
            let master = if files.shape(&master).is_some() { Some(read(&master)?) } else { None };
            let moments = Moments {
                step,
                mean: read(&format!("mean.{name}"))?,
                square: read(&format!("square.{name}"))?,
                master,
            };
            state.insert(name, moments);
        }
        Ok(Self { options, groups: Vec::new(), state })
    }
}
