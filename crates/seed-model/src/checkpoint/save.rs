//! Writing a folder in the published form.

use super::CheckpointError;
use crate::causal_lm::CausalLm;
use crate::generation_config::GenerationConfig;
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{DType, FloatDType, Tensor, TensorData};
use safetensors::tensor::{Dtype, View};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

/// How [`save`] writes.
#[derive(Debug, Clone)]
pub struct SaveOptions {
    /// Element type of the file; `None` keeps the model's.
    pub dtype: Option<FloatDType>,
    /// Most bytes of tensors in one file; a tensor larger than that gets a file of its own.
    pub max_shard_bytes: usize,
    /// Written as `generation_config.json`.
    pub generation_config: Option<GenerationConfig>,
}

impl Default for SaveOptions {
    /// The model's type, 5 GB a file, no `generation_config.json`.
    fn default() -> Self {
        Self { dtype: None, max_shard_bytes: 5_000_000_000, generation_config: None }
    }
}

/// Writes `config.json` and the weights: `model.safetensors`, or `model-00001-of-0000N.safetensors` with
/// `model.safetensors.index.json`. Weights that the folder already has are replaced. Tokenizer and chat template have their own
/// [`save`](crate::Tokenizer::save).
///
/// Tensors leave the device one at a time.
///
/// # Errors
/// [`CheckpointError`] when a file cannot be written, a type cannot be stored, or the model carries an adapter (merge it, or save the
/// adapter).
pub fn save(
    model: &CausalLm,
    folder: impl AsRef<Path>,
    options: &SaveOptions,
) -> Result<(), CheckpointError> {
    let folder = folder.as_ref();
    if crate::lora::has_adapter(model) {
        return Err(CheckpointError::HasAdapter);
    }
    let dtype = options.dtype.unwrap_or_else(|| model.dtype());
    let (stored, name) = match dtype {
        FloatDType::F32 => (Dtype::F32, "float32"),
        FloatDType::BF16 => (Dtype::BF16, "bfloat16"),
        FloatDType::F16 => (Dtype::F16, "float16"),
        other => {
            return Err(CheckpointError::Type {
                file: folder.to_path_buf(),
                name: "model".to_owned(),
                found: format!("{other:?}"),
                needed: "F32, F16 or BF16",
            });
        }
    };
    std::fs::create_dir_all(folder)
        .map_err(|source| CheckpointError::Write { path: folder.to_path_buf(), source })?;
    write_json(&folder.join("config.json"), &model.config().to_json(name))?;
    if let Some(config) = &options.generation_config {
        let path = folder.join("generation_config.json");
        let value = serde_json::to_value(config)
            .map_err(|error| CheckpointError::Json { path: path.clone(), reason: error.to_string() })?;
        write_json(&path, &value)?;
    }
    remove_weights(folder)?;

    let mut tensors = StoredTensors { path: Vec::new(), dtype, stored, tensors: Vec::new() };
    model.visit(&mut tensors);
    let shards = split(tensors.tensors, options.max_shard_bytes);
    if let [_] = shards.as_slice() {
        return shards
            .into_iter()
            .try_for_each(|shard| write_shard(&folder.join("model.safetensors"), shard));
    }
    let count = shards.len();
    let (mut weight_map, mut total) = (Map::new(), 0);
    for (i, shard) in shards.into_iter().enumerate() {
        let file = format!("model-{:05}-of-{count:05}.safetensors", i + 1);
        for (name, tensor) in &shard {
            total += tensor.data_len();
            weight_map.insert(name.clone(), json!(file));
        }
        write_shard(&folder.join(file), shard)?;
    }
    weight_map.sort_keys();
    let index = json!({"metadata": {"total_size": total}, "weight_map": weight_map});
    write_json(&folder.join("model.safetensors.index.json"), &index)
}

/// Writes indented JSON and a final newline.
pub(crate) fn write_json(path: &Path, value: &Value) -> Result<(), CheckpointError> {
    std::fs::write(path, format!("{value:#}\n"))
        .map_err(|source| CheckpointError::Write { path: path.to_path_buf(), source })
}

/// Writes one safetensors file, marked as the Python library expects.
pub(crate) fn write_shard(path: &Path, tensors: Vec<(String, StoredTensor)>) -> Result<(), CheckpointError> {
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    safetensors::serialize_to_file(tensors, Some(metadata), path).map_err(|error| CheckpointError::Write {
        path: path.to_path_buf(),
        source: std::io::Error::other(error.to_string()),
    })
}

/// Removes what an earlier save left, so that old shards never mix with new ones.
fn remove_weights(folder: &Path) -> Result<(), CheckpointError> {
    let failed = |source| CheckpointError::Write { path: folder.to_path_buf(), source };
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let shard = name.starts_with("model-") && name.contains("-of-") && name.ends_with(".safetensors");
        if shard || name == "model.safetensors" || name == "model.safetensors.index.json" {
            std::fs::remove_file(entry.path()).map_err(failed)?;
        }
    }
    Ok(())
}

fn split(tensors: Vec<(String, StoredTensor)>, most: usize) -> Vec<Vec<(String, StoredTensor)>> {
    let mut shards = vec![Vec::new()];
    let mut size = 0;
    for (name, tensor) in tensors {
        let bytes = tensor.data_len();
        if size > 0 && size + bytes > most {
            shards.push(Vec::new());
            size = 0;
        }
        size += bytes;
        if let Some(last) = shards.last_mut() {
            last.push((name, tensor));
        }
    }
    shards
}

/// A tensor that is fetched from its device when it is written.
pub(crate) struct StoredTensor {
    shape: Vec<usize>,
    stored: Dtype,
    data: Box<dyn Fn() -> TensorData>,
}

impl StoredTensor {
    pub(crate) fn new<const D: usize>(tensor: Tensor<D>, dtype: FloatDType, stored: Dtype) -> Self {
        let shape = tensor.dims().to_vec();
        let same = tensor.dtype() == DType::from(dtype);
        let data = move || {
            let tensor = tensor.clone().inner();
            if same { tensor.into_data() } else { tensor.cast(dtype).into_data() }
        };
        Self { shape, stored, data: Box::new(data) }
    }
}

impl View for StoredTensor {
    fn dtype(&self) -> Dtype {
        self.stored
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Owned((self.data)().as_bytes().to_vec())
    }

    fn data_len(&self) -> usize {
        self.shape.iter().product::<usize>() * self.stored.bitsize() / 8
    }
}

struct StoredTensors {
    path: Vec<String>,
    dtype: FloatDType,
    stored: Dtype,
    tensors: Vec<(String, StoredTensor)>,
}

impl ModuleVisitor for StoredTensors {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.tensors.push((self.path.join("."), StoredTensor::new(param.val(), self.dtype, self.stored)));
    }
}
