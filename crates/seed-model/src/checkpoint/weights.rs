//! Safetensors files of one folder, memory-mapped.

use super::CheckpointError;
use burn::tensor::{FloatDType, TensorData};
use half::{bf16, f16};
use memmap2::Mmap;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

/// The tensors of a folder (or of one file), by name.
#[derive(Debug)]
pub struct WeightFiles {
    shards: Vec<Shard>,
    /// Tensor name to shard.
    index: BTreeMap<String, usize>,
}

#[derive(Debug)]
struct Shard {
    path: PathBuf,
    map: Mmap,
    metadata: Metadata,
    /// Where tensor data starts in the file.
    start: usize,
}

impl WeightFiles {
    /// Opens `model.safetensors.index.json` and its shards, else `model.safetensors`.
    ///
    /// # Errors
    /// [`CheckpointError`] for missing or damaged files, or an index that disagrees with its shards.
    pub fn open(folder: &Path) -> Result<Self, CheckpointError> {
        let index = folder.join("model.safetensors.index.json");
        if index.is_file() {
            return Self::open_sharded(folder, &index);
        }
        let single = folder.join("model.safetensors");
        if !single.is_file() {
            return Err(CheckpointError::NoWeights { folder: folder.to_path_buf() });
        }
        Self::open_file(&single)
    }

    /// Opens one safetensors file.
    ///
    /// # Errors
    /// [`CheckpointError`] for a missing or damaged file.
    pub fn open_file(path: &Path) -> Result<Self, CheckpointError> {
        let shard = Shard::open(path)?;
        let index = shard.names().into_iter().map(|name| (name, 0)).collect();
        Ok(Self { shards: vec![shard], index })
    }

    fn open_sharded(folder: &Path, path: &Path) -> Result<Self, CheckpointError> {
        let wrong = |reason: String| CheckpointError::Json { path: path.to_path_buf(), reason };
        let text = std::fs::read_to_string(path)
            .map_err(|source| CheckpointError::Read { path: path.to_path_buf(), source })?;
        let json: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let map =
            json["weight_map"].as_object().ok_or_else(|| wrong("key `weight_map` is missing".to_owned()))?;
        let mut files = BTreeSet::new();
        let mut placed = Vec::with_capacity(map.len());
        for (name, file) in map {
            // A plain file name: an index must not reach outside its folder.
            let plain = |file: &&str| Path::new(file).file_name().is_some_and(|last| last == *file);
            let file = file
                .as_str()
                .filter(plain)
                .ok_or_else(|| wrong(format!("`{name}` is not given a file name")))?;
            files.insert(file);
            placed.push((name.clone(), file));
        }
        let files: Vec<&str> = files.into_iter().collect();
        let shards =
            files.iter().map(|file| Shard::open(&folder.join(file))).collect::<Result<Vec<_>, _>>()?;
        let mut index = BTreeMap::new();
        for (name, file) in placed {
            let shard =
                files.binary_search(&file).map_err(|_| wrong(format!("`{file}` is not in the index")))?;
            if shards[shard].metadata.info(&name).is_none() {
                return Err(wrong(format!("`{name}` is said to be in {file}, which does not hold it")));
            }
            index.insert(name, shard);
        }
        for (i, shard) in shards.iter().enumerate() {
            for name in shard.names() {
                // The library that writes these files lists every tensor.
                if index.get(&name) != Some(&i) {
                    return Err(wrong(format!(
                        "{} holds `{name}`, which the index does not place there",
                        files[i]
                    )));
                }
            }
        }
        Ok(Self { shards, index })
    }

    /// All tensor names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.index.keys().map(String::as_str)
    }

    /// The texts in the headers of the files, sorted by key; `format` is left out.
    pub fn metadata(&self) -> BTreeMap<String, String> {
        let texts = self.shards.iter().filter_map(|shard| shard.metadata.metadata().as_ref()).flatten();
        texts.filter(|(key, _)| *key != "format").map(|(key, text)| (key.clone(), text.clone())).collect()
    }

    /// The shape of a tensor; `None` where it is not there.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        let shard = &self.shards[*self.index.get(name)?];
        shard.metadata.info(name).map(|info| info.shape.as_slice())
    }

    /// The file that holds a tensor; an empty path where it is not there.
    pub fn file_of(&self, name: &str) -> PathBuf {
        self.index.get(name).map(|shard| self.shards[*shard].path.clone()).unwrap_or_default()
    }

    /// The values of a tensor in `dtype`, from stored f32, f16 or bf16.
    ///
    /// # Errors
    /// [`CheckpointError`] when the tensor is missing, or has another shape than `needed` or another stored type.
    pub fn tensor(
        &self,
        name: &str,
        needed: &[usize],
        dtype: FloatDType,
    ) -> Result<TensorData, CheckpointError> {
        let (shard, info) = self.find(name, needed)?;
        if info.shape != needed {
            let (found, needed) = (info.shape.clone(), needed.to_vec());
            return Err(CheckpointError::Shape {
                file: shard.path.clone(),
                name: name.to_owned(),
                found,
                needed,
            });
        }
        let bytes = shard.bytes(info);
        let shape = info.shape.clone();
        let values = match info.dtype {
            Dtype::F32 => convert(bytes, shape, dtype, f32::from_le_bytes),
            Dtype::F16 => convert(bytes, shape, dtype, |b| f16::from_le_bytes(b).to_f32()),
            Dtype::BF16 => convert(bytes, shape, dtype, |b| bf16::from_le_bytes(b).to_f32()),
            _ => None,
        };
        values.ok_or_else(|| CheckpointError::Type {
            file: shard.path.clone(),
            name: name.to_owned(),
            found: format!("{:?} (wanted as {dtype:?})", info.dtype),
            needed: "F32, F16 or BF16",
        })
    }

    /// Whether two tensors are stored alike, bit for bit.
    ///
    /// # Errors
    /// [`CheckpointError::Missing`] when one is not there.
    pub fn same_bytes(&self, a: &str, b: &str) -> Result<bool, CheckpointError> {
        let ((shard_a, a), (shard_b, b)) = (self.find(a, &[])?, self.find(b, &[])?);
        Ok(a.dtype == b.dtype && a.shape == b.shape && shard_a.bytes(a) == shard_b.bytes(b))
    }

    fn find(&self, name: &str, needed: &[usize]) -> Result<(&Shard, &TensorInfo), CheckpointError> {
        let place = self.index.get(name).and_then(|shard| {
            let shard = &self.shards[*shard];
            shard.metadata.info(name).map(|info| (shard, info))
        });
        place.ok_or_else(|| CheckpointError::Missing {
            name: name.to_owned(),
            needed: needed.to_vec(),
            hint: if name == "lm_head.weight" {
                "; is the head tied? set `tie_word_embeddings` in config.json"
            } else {
                ""
            },
        })
    }
}

/// Reads each value once, straight into the vector that the tensor keeps; `None` for a type that is not computed in.
fn convert<const N: usize>(
    bytes: &[u8],
    shape: Vec<usize>,
    dtype: FloatDType,
    value: impl Fn([u8; N]) -> f32,
) -> Option<TensorData> {
    let values = bytes.as_chunks::<N>().0.iter().map(|b| value(*b));
    Some(match dtype {
        FloatDType::F32 => TensorData::new(values.collect::<Vec<f32>>(), shape),
        FloatDType::BF16 => TensorData::new(values.map(bf16::from_f32).collect::<Vec<bf16>>(), shape),
        FloatDType::F16 => TensorData::new(values.map(f16::from_f32).collect::<Vec<f16>>(), shape),
        FloatDType::F64 => TensorData::new(values.map(f64::from).collect::<Vec<f64>>(), shape),
        _ => return None,
    })
}

impl Shard {
    fn open(path: &Path) -> Result<Self, CheckpointError> {
        let read = |source| CheckpointError::Read { path: path.to_path_buf(), source };
        let file = File::open(path).map_err(read)?;
        let map = map_file(&file).map_err(read)?;
        let (header, metadata) = SafeTensors::read_metadata(&map).map_err(|error| {
            CheckpointError::Damaged { path: path.to_path_buf(), reason: error.to_string() }
        })?;
        // 8 bytes hold the length of the header.
        Ok(Self { path: path.to_path_buf(), map, metadata, start: header + 8 })
    }

    fn names(&self) -> Vec<String> {
        self.metadata.tensors().into_keys().collect()
    }

    fn bytes(&self, info: &TensorInfo) -> &[u8] {
        &self.map[self.start + info.data_offsets.0..self.start + info.data_offsets.1]
    }
}

/// Maps a file into memory for reading.
#[allow(unsafe_code)]
pub(crate) fn map_file(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: the map is read only, and every access goes through bounds-checked slices. A file that another process truncates
    // meanwhile ends this one by a signal, as with every reader of mapped checkpoints.
    unsafe { Mmap::map(file) }
}
