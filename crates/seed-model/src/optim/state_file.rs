//! Optimiser state as a safetensors file.

use super::adamw::{AdamW, AdamWOptions, Moments};
use crate::checkpoint::save::StoredTensor;
use crate::checkpoint::{CheckpointError, WeightFiles};
use burn::tensor::{DType, Device, FloatDType, Tensor};
use safetensors::tensor::Dtype;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// The metadata key of the step counts.
const STEPS: &str = "steps";

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
    /// Tensors are `mean.<name>`, `square.<name>` and `master.<name>`; the steps by parameter are a JSON object under
    /// the metadata key `steps`: one entry, since safetensors writes several in no fixed order. Equal states give
    /// equal bytes.
    ///
    /// # Errors
    /// [`StateError`] when the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), StateError> {
        let path = path.as_ref();
        let mut tensors = Vec::new();
        let mut steps = BTreeMap::new();
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
            steps.insert(name, moments.step);
        }
        let steps = serde_json::to_string(&steps).expect("a map of whole numbers is JSON");
        let metadata = HashMap::from([(STEPS.to_owned(), steps)]);
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
        let metadata = files.metadata();
        let steps = metadata.get(STEPS).ok_or_else(|| wrong(format!("metadata key `{STEPS}` is missing")))?;
        let steps: BTreeMap<String, _> = serde_json::from_str(steps).map_err(|error| {
            wrong(format!("metadata key `{STEPS}`: {error}; needed: an object of whole numbers"))
        })?;
        for (name, step) in steps {
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
