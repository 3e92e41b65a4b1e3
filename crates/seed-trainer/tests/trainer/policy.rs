//! Small policies and rows for tests.

use seed_model::{CausalLm, ChatTemplate, ModelConfig, Tokenizer};
use seed_rollout::row::{Finish, Row, Turn};
use seed_trainer::checkpoint::{Companions, save_model};
use seed_trainer::learner::Learner;
use seed_trainer::rl::sample::Sample;
use seed_trainer::sft::fit::Lesson;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A run of four updates that takes seconds.
pub(crate) const TINY_RUN: [&str; 21] = [
    "preset=corrected",
    "method=seed_without_sft",
    "analyzer.weights=external",
    "workers=2",
    "env.difficulty=0",
    "env.max_steps=3",
    "env.train_tasks=8",
    "rollout.layout=transcript",
    "rollout.tasks=2",
    "rollout.group=3",
    "rollout.max_prompt_tokens=300",
    "rollout.max_response_tokens=6",
    "rollout.max_transcript_tokens=500",
    "batch.mini_rows=3",
    "batch.micro_tokens=400",
    "optim.lr=1e-3",
    "train.updates=4",
    "eval.games=2",
    "eval.every=2",
    "checkpoint.every=1",
    "checkpoint.keep=0",
];

fn shape(vocabulary: usize, end: u32) -> ModelConfig {
    let value = serde_json::json!({
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": vocabulary,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "hidden_act": "silu",
        "max_position_embeddings": 2048,
        "initializer_range": 0.1,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": true,
        "attention_bias": false,
        "attention_dropout": 0.0,
        "use_sliding_window": false,
        "eos_token_id": end,
        "torch_dtype": "float32",
    });
    ModelConfig::from_json(value).unwrap()
}

/// A fresh policy of one layer with gradients.
pub(crate) fn tiny_model(vocabulary: usize, seed: u64) -> CausalLm {
    CausalLm::init(&shape(vocabulary, 0), seed, &seed_model::device::select("cpu").unwrap().autodiff())
}

/// The workspace's folder.
pub(crate) fn workspace() -> PathBuf {
    // The running cargo's word first: the binary may come from a target folder that several clones share.
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.join("../..")
}

/// The quick start's tokenizer.
pub(crate) fn tokenizer_folder() -> PathBuf {
    workspace().join("data/tiny")
}

/// A fresh policy of one layer over the quick start's tokenizer, as a Hugging Face folder.
pub(crate) fn write_folder(folder: &Path) {
    let tokenizer = Tokenizer::load(tokenizer_folder()).unwrap();
    let chat = ChatTemplate::load(tokenizer_folder()).unwrap();
    let device = seed_model::device::select("cpu").unwrap();
    let model = CausalLm::init(&shape(tokenizer.vocab_size(), tokenizer.end_ids()[0]), 7, &device);
    fs::create_dir_all(folder).unwrap();
    let companions =
        Companions { tokenizer: &tokenizer, chat: &chat, generation_config: None, processor: None };
    save_model(folder, &model, companions).unwrap();
}

/// A lesson as a collected row: groups of four, every second one won and with a teacher.
pub(crate) fn sample(lesson: &Lesson, number: usize) -> Sample {
    let mut turns = vec![];
    let mut start = None;
    for (at, on) in lesson.mask.iter().chain([&false]).enumerate() {
        match (start, *on) {
            (None, true) => start = Some(at),
            (Some(from), false) => {
                let step = turns.len();
                turns.push(Turn {
                    step,
                    start: from,
                    end: at,
                    finish: Finish::End,
                    reward: 0.0,
                    valid: true,
                });
                start = None;
            }
            _ => {}
        }
    }
    let won = number.is_multiple_of(2);
    let task = seed_envs::Task { id: format!("t{}", number / 4), split: "train".into(), kind: "k".into() };
    let row = Row {
        prompt_ids: lesson.prompt.clone(),
        response_ids: lesson.response.clone(),
        response_mask: lesson.mask.clone(),
        logp: vec![0.0; lesson.response.len()],
        pictures: vec![],
        turns,
        group: number / 4,
        trajectory: number,
        step: 0,
        reward: f64::from(u8::from(won)),
        episode_return: f64::from(u8::from(won)),
        episode_steps: 1,
        won,
        valid: true,
        prompt_cut: 0,
        task,
        signals: None,
    };
    let mut sample = Sample::new(row, vec![]);
    if won {
        sample.teacher_prompt = Some([&[5, 6, 7], lesson.prompt.as_slice()].concat());
    }
    sample
}

/// Every weight by name.
pub(crate) fn weights(learner: &Learner) -> BTreeMap<String, Vec<f32>> {
    let dir = tempfile::tempdir().unwrap();
    seed_model::checkpoint::save(&learner.snapshot(), dir.path(), &Default::default()).unwrap();
    tensors(&dir.path().join("model.safetensors"))
}

/// Every tensor of a safetensors file of 32-bit floats, by name.
pub(crate) fn tensors(file: &Path) -> BTreeMap<String, Vec<f32>> {
    let bytes = fs::read(file).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let table: serde_json::Value = serde_json::from_slice(&bytes[8..8 + header]).unwrap();
    let values = |entry: &serde_json::Value| {
        let at = |i: usize| 8 + header + entry["data_offsets"][i].as_u64().unwrap() as usize;
        bytes[at(0)..at(1)].chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    };
    let names = table.as_object().unwrap().iter().filter(|(name, _)| *name != "__metadata__");
    names.map(|(name, entry)| (name.clone(), values(entry))).collect()
}

pub(crate) fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() { copy_folder(&path, &target) } else { _ = fs::copy(&path, &target).unwrap() }
    }
}

/// Where reference data lies.
pub(crate) fn shared() -> PathBuf {
    std::env::var_os("SEED_SHARED").map_or_else(|| workspace().join("../shared"), PathBuf::from)
}
