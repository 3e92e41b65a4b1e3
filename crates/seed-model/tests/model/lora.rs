//! Adapters: in, out, merged, and never a change to the base.

use crate::reference::*;
use crate::tiny::{Case, cases};
use burn::module::Module;
use burn::optim::GradientsParams;
use seed_model::checkpoint::{self, WeightFiles};
use seed_model::lora::{LoraError, has_adapter};
use seed_model::optim::{AdamW, AdamWOptions, named_gradients};
use seed_model::{CausalLm, Lora, PackedBatch};

fn reference_case() -> (Case, std::path::PathBuf, WeightFiles) {
    let case = cases().into_iter().find(|case| case.name == "qwen2_tiny/float32").unwrap();
    let tensors = WeightFiles::open_file(&vectors("qwen2_tiny/reference_lora.safetensors")).unwrap();
    (case, vectors("qwen2_tiny/lora"), tensors)
}

fn weights(model: &CausalLm) -> Vec<f32> {
    let layer = &model.model.layers[0].self_attn.q_proj;
    [to_vec(layer.weight.val()), to_vec(model.lm_head())].concat()
}

#[test]
fn a_peft_folder_gives_the_reference_logits_and_merged_weights() {
    let (case, folder, expected) = reference_case();
    let base = case.load();
    let before = weights(&base);
    let (lora, adapted) = Lora::load(&base, &folder).unwrap();
    let config = json(&folder.join("adapter_config.json"));
    let (rank, alpha) = (config["r"].as_f64().unwrap(), config["lora_alpha"].as_f64().unwrap());
    assert_eq!((lora.rank as f64, lora.scale()), (rank, alpha / rank));
    let merged = Lora::merge(&adapted).unwrap();
    for (k, prompt) in case.prompts().iter().enumerate() {
        let batch = PackedBatch::new(&[prompt]);
        let logits = stored(&expected, &format!("prompt{k}.logits"));
        assert_close("adapter", &to_vec(adapted.logits(&batch)), &logits, 2e-4);
        assert_close("merged", &to_vec(merged.logits(&batch)), &logits, 2e-4);
    }
    let out = tempfile::tempdir().unwrap();
    checkpoint::save(&merged, out.path(), &checkpoint::SaveOptions::default()).unwrap();
    let files = WeightFiles::open(out.path()).unwrap();
    for name in expected.names().filter(|name| name.starts_with("merged.")) {
        let found = stored(&files, name.strip_prefix("merged.").unwrap());
        assert_close(name, &found, &stored(&expected, name), 1e-6);
    }
    assert_eq!(weights(&base), before, "the base never changes");
    assert_eq!(weights(&Lora::detach(&adapted).unwrap()), before);
}

#[test]
fn only_the_adapter_learns_and_its_folder_comes_back() {
    let (case, _, _) = reference_case();
    let base = case.load().train();
    let before = weights(&base);
    let lora = Lora::new(2, 4.0).with_targets(["q_proj", "v_proj"]);
    let mut model = lora.attach(&base, 7).unwrap();
    let prompt = PackedBatch::new(&case.prompts()[..1]);
    assert_eq!(
        to_vec(model.logits(&prompt)),
        to_vec(base.logits(&prompt)),
        "a fresh adapter changes nothing"
    );

    let mut optimiser = AdamW::new(AdamWOptions::default());
    for _ in 0..3 {
        let gradients = GradientsParams::from_grads(case.loss(&model).backward(), &model);
        let names: Vec<String> = named_gradients(&model, &gradients).into_keys().collect();
        assert_eq!(names.len(), 2 * 2 * model.config().num_hidden_layers);
        assert!(names.iter().all(|name| name.contains("adapter.lora_")), "{names:?}");
        model = optimiser.step(model, gradients, 1e-2);
    }
    assert_eq!(weights(&model), before);
    let learnt = to_vec(model.logits(&prompt));
    assert_ne!(learnt, to_vec(base.logits(&prompt)));

    let folder = tempfile::tempdir().unwrap();
    lora.save(&model, folder.path(), "base").unwrap();
    let (read, restored) = Lora::load(&base, folder.path()).unwrap();
    assert_eq!(read, lora);
    assert_eq!(to_vec(restored.logits(&prompt)), learnt);
    // What was saved is what PEFT names its tensors.
    let files = WeightFiles::open_file(&folder.path().join("adapter_model.safetensors")).unwrap();
    let expected = WeightFiles::open_file(&vectors("qwen2_tiny/lora/adapter_model.safetensors")).unwrap();
    assert!(
        files
            .names()
            .filter(|name| name.contains("q_proj"))
            .eq(expected.names().filter(|n| n.contains("q_proj")))
    );
}

#[test]
fn mistakes_are_named() {
    let (case, folder, _) = reference_case();
    let base = case.load();
    let error = Lora::new(2, 4.0).with_targets(["q_prj"]).attach(&base, 0).unwrap_err();
    assert!(error.to_string().starts_with("target `q_prj` names no layer"), "{error}");
    let adapted = Lora::new(1, 1.0).attach(&base, 0).unwrap();
    assert!(has_adapter(&adapted) && !has_adapter(&base));
    assert!(matches!(Lora::load(&adapted, &folder), Err(LoraError::AlreadyAdapted)));
    assert!(matches!(Lora::merge(&base), Err(LoraError::NoAdapter)));

    let copy = tempfile::tempdir().unwrap();
    std::fs::copy(folder.join("adapter_model.safetensors"), copy.path().join("adapter_model.safetensors"))
        .unwrap();
    let mut config = json(&folder.join("adapter_config.json"));
    let rank = config["r"].as_u64().unwrap();
    let shapes = format!("needed: [{}, ", rank + 1);
    for (key, value, part) in [
        ("r", serde_json::json!(rank + 1), shapes.as_str()),
        ("use_dora", serde_json::json!(true), "key `use_dora` is true, which is not supported"),
        ("rank_pattern", serde_json::json!({"q_proj": 8}), "key `rank_pattern`"),
        ("target_modules", serde_json::json!(["q_proj"]), "belongs to nothing"),
        ("target_modules", serde_json::json!(seed_model::lora::ALL_PROJECTIONS), "is missing"),
    ] {
        let old = config[key].take();
        config[key] = value;
        std::fs::write(copy.path().join("adapter_config.json"), config.to_string()).unwrap();
        let message = Lora::load(&base, copy.path()).unwrap_err().to_string();
        assert!(message.contains(part), "{key}: {message}");
        config[key] = old;
    }
}
