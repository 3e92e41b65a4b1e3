//! Low-rank adapters, in and out of folders in the layout of the PEFT library.
//!
//! Attaching adapters makes the base weights constants; they are never changed, and clones of the base keep sharing them.

use crate::causal_lm::CausalLm;
use crate::checkpoint::save::{StoredTensor, write_json, write_shard};
use crate::checkpoint::{CheckpointError, WeightFiles};
use crate::decoder::{Adapter, Linear};
use crate::init::{Stream, normal};
use burn::module::{Module, Param};
use burn::tensor::{DType, FloatDType, Tensor, TensorData};
use safetensors::tensor::Dtype;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::Path;

/// Rank, scale and places of an adapter.
#[derive(Debug, Clone, PartialEq)]
pub struct Lora {
    /// Inner width of the update.
    pub rank: usize,
    /// The update is multiplied by `alpha / rank`, or by `alpha / sqrt(rank)` with [`rank_stabilised`](Self::rank_stabilised).
    pub alpha: f64,
    /// Divide by the square root of the rank (`use_rslora`).
    pub rank_stabilised: bool,
    /// Last parts of the names of the layers to adapt, e.g. `q_proj`.
    pub target_modules: BTreeSet<String>,
}

/// Every projection of a block.
pub const ALL_PROJECTIONS: [&str; 7] =
    ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];

/// The modules that an adapter leaves out where a model has a vision tower.
const NOT_VISION: &str = ".*visual.*";

/// Why an adapter cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoraError {
    /// A file of the adapter cannot be read or written, or a tensor does not fit.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// `adapter_config.json` asks for something that this crate does not do.
    #[error("adapter_config.json: key `{key}` is {found}, which is not supported; supported: {supported}")]
    Unsupported {
        /// The key.
        key: String,
        /// Its value.
        found: String,
        /// What is supported.
        supported: &'static str,
    },
    /// A target names no layer that can be adapted.
    #[error("target `{target}` names no layer; layers that can be adapted: {}", ALL_PROJECTIONS.join(", "))]
    UnknownTarget {
        /// The target.
        target: String,
    },
    /// The model has no adapter.
    #[error("the model carries no adapter; attach or load one first")]
    NoAdapter,
    /// The model has an adapter already.
    #[error("the model carries an adapter already; merge or detach it first")]
    AlreadyAdapted,
    /// A rank of 0.
    #[error("rank is 0, needed: at least 1")]
    ZeroRank,
}

impl Lora {
    /// An adapter on every projection of every block.
    pub fn new(rank: usize, alpha: f64) -> Self {
        let target_modules = ALL_PROJECTIONS.iter().map(|name| (*name).to_owned()).collect();
        Self { rank, alpha, rank_stabilised: false, target_modules }
    }

    /// The same on these layers only.
    pub fn with_targets<T: Into<String>>(mut self, targets: impl IntoIterator<Item = T>) -> Self {
        self.target_modules = targets.into_iter().map(Into::into).collect();
        self
    }

    /// The factor on the update.
    pub fn scale(&self) -> f64 {
        let rank = self.rank as f64;
        self.alpha / if self.rank_stabilised { rank.sqrt() } else { rank }
    }

    fn check(&self) -> Result<(), LoraError> {
        if self.rank == 0 {
            return Err(LoraError::ZeroRank);
        }
        match self.target_modules.iter().find(|target| !ALL_PROJECTIONS.contains(&target.as_str())) {
            Some(target) => Err(LoraError::UnknownTarget { target: target.clone() }),
            None => Ok(()),
        }
    }

    /// `base` with fresh adapters: A normal with standard deviation `1 / rank`, B zero, so that outputs are those of the base at first.
    ///
    /// Base weights stop collecting gradients in the result, the vision tower's too; `base` and its clones are untouched. Adapter weights
    /// are f32. Only the decoder is adapted.
    ///
    /// # Errors
    /// [`LoraError`] for a target that names no layer, a rank of 0, or a model that has an adapter.
    pub fn attach(&self, base: &CausalLm, seed: u64) -> Result<CausalLm, LoraError> {
        let rank = self.rank;
        self.install(base, |name, [out, from]| {
            let a =
                normal(&mut Stream::named(seed, &format!("{name}.lora_A")), rank * from, 1.0 / rank as f64);
            Ok((TensorData::new(a, [rank, from]), TensorData::new(vec![0f32; out * rank], [out, rank])))
        })
    }

    /// `base` with the adapter of a PEFT folder: `adapter_config.json` and `adapter_model.safetensors`.
    ///
    /// # Errors
    /// [`LoraError`]: a file that cannot be read, an option that is not supported, or a tensor that is missing, left over or of another shape.
    pub fn load(base: &CausalLm, folder: impl AsRef<Path>) -> Result<(Self, CausalLm), LoraError> {
        let folder = folder.as_ref();
        let lora = Self::read_config(&folder.join("adapter_config.json"))?;
        let files = WeightFiles::open_file(&folder.join("adapter_model.safetensors"))?;
        let mut used = BTreeSet::new();
        let model = lora.install(base, |name, [out, from]| {
            let mut read = |part: &str, shape: [usize; 2]| {
                let mut name = format!("base_model.model.{name}.{part}.weight");
                if files.shape(&name).is_none() {
                    // Newer writers nest the decoder of a model that sees.
                    let nested = name.replacen(".model.layers.", ".model.language_model.layers.", 1);
                    name = if files.shape(&nested).is_some() { nested } else { name };
                }
                let data = files.tensor(&name, &shape, FloatDType::F32);
                used.insert(name);
                data
            };
            Ok((read("lora_A", [lora.rank, from])?, read("lora_B", [out, lora.rank])?))
        })?;
        if let Some(name) = files.names().find(|name| !used.contains(*name)) {
            return Err(
                CheckpointError::Unexpected { file: files.file_of(name), name: name.to_owned() }.into()
            );
        }
        Ok((lora, model))
    }

    fn read_config(path: &Path) -> Result<Self, LoraError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| CheckpointError::Read { path: path.to_path_buf(), source })?;
        let wrong =
            |reason: String| LoraError::from(CheckpointError::Json { path: path.to_path_buf(), reason });
        let json: Map<String, Value> =
            serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let get = |key: &str| json.get(key).unwrap_or(&Value::Null);
        let refuse = |key: &str, supported: &'static str| {
            Err(LoraError::Unsupported { key: key.to_owned(), found: get(key).to_string(), supported })
        };
        if get("peft_type") != "LORA" {
            return refuse("peft_type", "\"LORA\"");
        }
        for key in
            ["use_dora", "fan_in_fan_out", "lora_bias", "use_qalora", "use_bdlora", "trainable_token_indices"]
        {
            if !matches!(get(key), Value::Null | Value::Bool(false)) {
                return refuse(key, "false");
            }
        }
        if !matches!(get("bias"), Value::Null) && get("bias") != "none" {
            return refuse("bias", "\"none\"");
        }
        // Anything here would give some layers another rank, scale or place.
        // What `save` writes for a model that sees: the vision tower has layers of these names, too.
        if !matches!(get("exclude_modules"), Value::Null) && get("exclude_modules") != NOT_VISION {
            return refuse("exclude_modules", "null, or \".*visual.*\" (the vision tower)");
        }
        for key in [
            "rank_pattern",
            "alpha_pattern",
            "modules_to_save",
            "layers_to_transform",
            "layers_pattern",
            "target_parameters",
            "layer_replication",
        ] {
            let empty = match get(key) {
                Value::Null => true,
                Value::Array(items) => items.is_empty(),
                Value::Object(items) => items.is_empty(),
                _ => false,
            };
            if !empty {
                return refuse(key, "null or empty");
            }
        }
        let rank = get("r")
            .as_u64()
            .ok_or_else(|| wrong("key `r` is missing, needed: a whole number".to_owned()))?;
        let alpha = get("lora_alpha").as_f64();
        let alpha = alpha.ok_or_else(|| wrong("key `lora_alpha` is missing, needed: a number".to_owned()))?;
        let targets = match get("target_modules") {
            Value::Array(items) => {
                items.iter().map(|item| item.as_str().map(last_part)).collect::<Option<_>>()
            }
            Value::String(text) if text == "all-linear" => {
                Some(ALL_PROJECTIONS.iter().map(|name| (*name).to_owned()).collect())
            }
            _ => None,
        };
        let Some(target_modules) = targets else {
            return refuse("target_modules", "a list of layer names, or \"all-linear\"");
        };
        let rank_stabilised = get("use_rslora") == true;
        Ok(Self { rank: rank as usize, alpha, rank_stabilised, target_modules })
    }

    fn install(
        &self,
        base: &CausalLm,
        mut weights: impl FnMut(&str, [usize; 2]) -> Result<(TensorData, TensorData), LoraError>,
    ) -> Result<CausalLm, LoraError> {
        self.check()?;
        if has_adapter(base) {
            return Err(LoraError::AlreadyAdapted);
        }
        let device = base.device();
        let mut model = base.clone().set_require_grad(false);
        for (name, layer) in projections(&mut model) {
            if !self.target_modules.contains(&last_part(&name)) {
                continue;
            }
            let (a, b) = weights(&name, layer.weight.val().dims())?;
            let param = |data| Param::from_tensor(Tensor::<2>::from_data(data, (&device, DType::F32)));
            layer.adapter = Some(Adapter { lora_a: param(a), lora_b: param(b), scale: self.scale() });
        }
        Ok(model)
    }

    /// Writes the adapter of `model` as a PEFT folder. `base` goes to `base_model_name_or_path`.
    ///
    /// # Errors
    /// [`LoraError::NoAdapter`], or a file that cannot be written.
    pub fn save(&self, model: &CausalLm, folder: impl AsRef<Path>, base: &str) -> Result<(), LoraError> {
        let folder = folder.as_ref();
        let mut tensors = Vec::new();
        for (name, layer) in projections(&mut model.clone()) {
            if let Some(adapter) = &layer.adapter {
                for (part, weight) in [("lora_A", &adapter.lora_a), ("lora_B", &adapter.lora_b)] {
                    let tensor = StoredTensor::new(weight.val(), FloatDType::F32, Dtype::F32);
                    tensors.push((format!("base_model.model.{name}.{part}.weight"), tensor));
                }
            }
        }
        if tensors.is_empty() {
            return Err(LoraError::NoAdapter);
        }
        std::fs::create_dir_all(folder)
            .map_err(|source| CheckpointError::Write { path: folder.to_path_buf(), source })?;
        let mut config = json!({
            "base_model_name_or_path": base,
            "bias": "none",
            "fan_in_fan_out": false,
            "inference_mode": true,
            "lora_alpha": self.alpha,
            "lora_dropout": 0.0,
            "modules_to_save": null,
            "peft_type": "LORA",
            "r": self.rank,
            "target_modules": self.target_modules,
            "task_type": "CAUSAL_LM",
            "use_dora": false,
            "use_rslora": self.rank_stabilised,
        });
        if model.visual.is_some() {
            config["exclude_modules"] = json!(NOT_VISION);
        }
        write_json(&folder.join("adapter_config.json"), &config)?;
        Ok(write_shard(&folder.join("adapter_model.safetensors"), tensors)?)
    }

    /// A model without adapter whose weights are `W + scale · B · A`; `model` is untouched.
    ///
    /// # Errors
    /// [`LoraError::NoAdapter`].
    pub fn merge(model: &CausalLm) -> Result<CausalLm, LoraError> {
        let mut merged = model.clone();
        let mut any = false;
        for (_, layer) in projections(&mut merged) {
            let Some(adapter) = layer.adapter.take() else { continue };
            any = true;
            let weight = layer.weight.val().detach();
            let dtype: FloatDType = weight.dtype().into();
            let update = adapter.lora_b.val().detach().matmul(adapter.lora_a.val().detach());
            let sum = weight.cast(FloatDType::F32) + update.mul_scalar(adapter.scale);
            layer.weight = Param::from_tensor(sum.cast(dtype).detach());
        }
        if any { Ok(merged.set_require_grad(true)) } else { Err(LoraError::NoAdapter) }
    }

    /// The base of an adapted model: the same weights as before, collecting gradients again.
    ///
    /// # Errors
    /// [`LoraError::NoAdapter`].
    pub fn detach(model: &CausalLm) -> Result<CausalLm, LoraError> {
        if !has_adapter(model) {
            return Err(LoraError::NoAdapter);
        }
        let mut base = model.clone();
        for (_, layer) in projections(&mut base) {
            layer.adapter = None;
        }
        Ok(base.set_require_grad(true))
    }
}

/// Whether any layer of `model` carries an adapter.
pub fn has_adapter(model: &CausalLm) -> bool {
    let layers = &model.model.layers;
    layers.iter().any(|block| {
        let (attention, mlp) = (&block.self_attn, &block.mlp);
        [&attention.q_proj, &attention.k_proj, &attention.v_proj, &attention.o_proj]
            .into_iter()
            .chain([&mlp.gate_proj, &mlp.up_proj, &mlp.down_proj])
            .any(|layer| layer.adapter.is_some())
    })
}

/// The layers that can be adapted, by name.
fn projections(model: &mut CausalLm) -> Vec<(String, &mut Linear)> {
    let mut layers = Vec::new();
    for (i, block) in model.model.layers.iter_mut().enumerate() {
        let (attention, mlp) = (&mut block.self_attn, &mut block.mlp);
        let named = |part: &str| format!("model.layers.{i}.{part}");
        layers.extend([
            (named("self_attn.q_proj"), &mut attention.q_proj),
            (named("self_attn.k_proj"), &mut attention.k_proj),
            (named("self_attn.v_proj"), &mut attention.v_proj),
            (named("self_attn.o_proj"), &mut attention.o_proj),
            (named("mlp.gate_proj"), &mut mlp.gate_proj),
            (named("mlp.up_proj"), &mut mlp.up_proj),
            (named("mlp.down_proj"), &mut mlp.down_proj),
        ]);
    }
    layers
}

fn last_part(name: &str) -> String {
    name.rsplit('.').next().unwrap_or(name).to_owned()
}
