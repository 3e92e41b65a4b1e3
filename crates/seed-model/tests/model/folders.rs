//! Folders in and out, and what is said about damaged ones.

use crate::reference::*;
use crate::tiny::cases;
use burn::tensor::FloatDType;
use safetensors::tensor::{Dtype, TensorView};
use seed_model::checkpoint::{self, CheckpointError, SaveOptions, WeightFiles};
use seed_model::{CausalLm, Family, ModelConfig, PackedBatch, Tokenizer};
use std::collections::BTreeMap;
use std::path::Path;

/// Name, type, shape and bytes of every tensor of a folder.
fn contents(folder: &Path) -> BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "safetensors") {
            let bytes = std::fs::read(&path).unwrap();
            let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
            for (name, view) in file.tensors() {
                all.insert(name, (view.dtype(), view.shape().to_vec(), view.data().to_vec()));
            }
        }
    }
    all
}

#[test]
fn load_save_load_is_bit_equal_in_one_file_and_in_shards() {
    for case in cases() {
        let original = contents(&case.folder);
        let stored = original.values().next().unwrap().0;
        let dtype = if stored == Dtype::BF16 { FloatDType::BF16 } else { FloatDType::F32 };
        let loaded = checkpoint::load(&case.folder, &cpu(), FloatDType::F32).unwrap();
        for max_shard_bytes in [usize::MAX, 200_000, 1] {
            let folder = tempfile::tempdir().unwrap();
            let generation_config = loaded.generation_config.clone();
            let options = SaveOptions { dtype: Some(dtype), max_shard_bytes, generation_config };
            checkpoint::save(&loaded.model, folder.path(), &options).unwrap();
            assert_eq!(contents(folder.path()), original, "{}", case.name);
            let sharded = folder.path().join("model.safetensors.index.json").exists();
            assert_eq!(sharded, max_shard_bytes != usize::MAX);
            let again = checkpoint::load(folder.path(), &cpu(), FloatDType::F32).unwrap();
            assert_eq!(again.config, loaded.config);
            assert_eq!(again.generation_config, loaded.generation_config);
            let prompt = PackedBatch::new(&case.prompts()[..1]);
            assert_eq!(to_vec(again.model.logits(&prompt)), to_vec(loaded.model.logits(&prompt)));
        }
    }
}

#[test]
fn a_second_save_leaves_nothing_of_the_first() {
    let case = cases().remove(0);
    let model = case.load();
    let folder = tempfile::tempdir().unwrap();
    let shards = SaveOptions { max_shard_bytes: 100_000, ..SaveOptions::default() };
    checkpoint::save(&model, folder.path(), &shards).unwrap();
    checkpoint::save(&model, folder.path(), &SaveOptions::default()).unwrap();
    let files: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(files.iter().filter(|file| file.ends_with("safetensors")).count(), 1, "{files:?}");
    assert!(checkpoint::load(folder.path(), &cpu(), FloatDType::F32).is_ok());
}

#[test]
fn a_tokenizer_is_written_as_it_was_read() {
    let folder = tempfile::tempdir().unwrap();
    let source = vectors("qwen3_tiny/float32");
    Tokenizer::load(&source).unwrap().save(folder.path()).unwrap();
    let read = |folder: &Path| std::fs::read(folder.join("tokenizer.json")).unwrap();
    assert_eq!(read(folder.path()), read(&source));
    assert_eq!(
        json(&folder.path().join("tokenizer_config.json")),
        json(&source.join("tokenizer_config.json"))
    );
}

/// A folder with the tensors of a tiny model, changed by `edit`.
fn edited(
    edit: impl FnOnce(&mut BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>, &mut serde_json::Value),
) -> String {
    let case = cases().remove(0);
    let folder = tempfile::tempdir().unwrap();
    let (mut tensors, mut config) = (contents(&case.folder), json(&case.folder.join("config.json")));
    edit(&mut tensors, &mut config);
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let views = tensors.iter().map(|(name, (dtype, shape, bytes))| {
        (name.clone(), TensorView::new(*dtype, shape.clone(), bytes).unwrap())
    });
    safetensors::serialize_to_file(views, None, &folder.path().join("model.safetensors")).unwrap();
    match checkpoint::load(folder.path(), &cpu(), FloatDType::F32) {
        Ok(_) => "loads".to_owned(),
        Err(error) => error.to_string().replace(&folder.path().display().to_string(), "DIR"),
    }
}

#[test]
fn every_mismatch_names_tensor_found_and_needed() {
    let name = "model.layers.1.mlp.up_proj.weight";
    assert_eq!(edited(|_, _| ()), "loads");
    let shape = json(&cases()[0].folder.join("config.json"));
    let (hidden, inner) = (&shape["hidden_size"], &shape["intermediate_size"]);
    assert_eq!(
        edited(|tensors, _| drop(tensors.remove(name))),
        format!("tensor `{name}` is missing; needed: shape [{inner}, {hidden}]")
    );
    assert_eq!(
        edited(|tensors, _| tensors.get_mut(name).unwrap().1.reverse()),
        format!(
            "DIR/model.safetensors: tensor `{name}` has shape [{hidden}, {inner}], needed: [{inner}, {hidden}]"
        )
    );
    let other = edited(|tensors, _| {
        let bytes = vec![0; 8];
        tensors.insert("model.extra.weight".into(), (Dtype::F32, vec![2], bytes));
    });
    assert!(
        other.starts_with("DIR/model.safetensors: tensor `model.extra.weight` belongs to nothing"),
        "{other}"
    );
    let kind = edited(|tensors, _| {
        let tensor = tensors.get_mut("model.norm.weight").unwrap();
        tensor.0 = Dtype::I64;
        tensor.2 = vec![0; 8 * tensor.1[0]];
    });
    assert!(
        kind.contains("`model.norm.weight` has type I64") && kind.ends_with("needed: F32, F16 or BF16"),
        "{kind}"
    );
    let window = edited(|_, config| {
        config["use_sliding_window"] = true.into();
        config["sliding_window"] = 64.into();
        config["max_window_layers"] = 0.into();
    });
    assert!(window.contains("`sliding_window` is 64, which is not supported"), "{window}");
}

#[test]
fn damaged_folders_are_errors_not_panics() {
    let folder = tempfile::tempdir().unwrap();
    let load = || checkpoint::load(folder.path(), &cpu(), FloatDType::F32).unwrap_err();
    assert!(matches!(load(), CheckpointError::Config(_)));
    let case = cases().remove(0);
    std::fs::copy(case.folder.join("config.json"), folder.path().join("config.json")).unwrap();
    assert!(load().to_string().contains("no weights; needed: `model.safetensors`"));
    let whole = std::fs::read(case.folder.join("model.safetensors")).unwrap();
    for cut in [0, 7, 100, whole.len() - 1] {
        std::fs::write(folder.path().join("model.safetensors"), &whole[..cut]).unwrap();
        assert!(matches!(load(), CheckpointError::Damaged { .. }), "cut at {cut}");
    }
    let index = folder.path().join("model.safetensors.index.json");
    for text in ["{", "{}", r#"{"weight_map": {"a": "../model.safetensors"}}"#, r#"{"weight_map": {"a": 1}}"#]
    {
        std::fs::write(&index, text).unwrap();
        assert!(matches!(load(), CheckpointError::Json { .. }), "{text}");
    }
}

#[test]
fn tied_heads_stored_twice_must_agree() {
    let config = ModelConfig::new(Family::Llama, 8, 4, 8, 1, (2, 1, 2));
    let folder = tempfile::tempdir().unwrap();
    let model = CausalLm::init(&config, 3, &cpu());
    checkpoint::save(&model, folder.path(), &SaveOptions::default()).unwrap();
    let path = folder.path().join("model.safetensors");
    let mut tensors = contents(folder.path());
    let mut load_with_head = |change: u8| {
        let mut head = tensors["model.embed_tokens.weight"].clone();
        head.2[0] ^= change;
        tensors.insert("lm_head.weight".into(), head);
        let views = tensors.iter().map(|(name, (dtype, shape, bytes))| {
            (name.clone(), TensorView::new(*dtype, shape.clone(), bytes).unwrap())
        });
        safetensors::serialize_to_file(views, None, &path).unwrap();
        checkpoint::load(folder.path(), &cpu(), FloatDType::F32)
    };
    assert!(load_with_head(0).is_ok());
    assert!(matches!(load_with_head(1), Err(CheckpointError::TiedHeadDiffers { .. })));
}

#[test]
fn f16_files_are_widened_and_written() {
    let case = cases().remove(0);
    let folder = tempfile::tempdir().unwrap();
    let options = SaveOptions { dtype: Some(FloatDType::F16), ..SaveOptions::default() };
    checkpoint::save(&case.load(), folder.path(), &options).unwrap();
    assert_eq!(json(&folder.path().join("config.json"))["torch_dtype"], "float16");
    let (half, full) = (WeightFiles::open(folder.path()).unwrap(), WeightFiles::open(&case.folder).unwrap());
    for name in full.names() {
        let expected = stored(&full, name);
        let size = expected.iter().fold(0f32, |m, x| m.max(x.abs()));
        assert_close(name, &stored(&half, name), &expected, size / 1000.0);
    }
}
