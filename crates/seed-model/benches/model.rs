//! Speed and memory of models and operators, beside PyTorch with the same weights in one run.
//!
//! `cargo xtask bench model [--torch PYTHON] [CASE…]`: every measurement runs in a process of its own (peak memory is the
//! process's, and what it was before any weight is shown beside it), first ours, then `scripts/torch_bench.py` with the same
//! checkpoint folder, and one table compares them. `CASE` is `MODEL/TASK` or a part of it, e.g. `tiny`, `smollm2/decode`,
//! `logprob`, `minilm`. SmolLM2 and MiniLM are real weights, which `cargo xtask fetch smollm2` and `minilm` get.

use burn::optim::GradientsParams;
use burn::tensor::{Device, Distribution, FloatDType, Tensor};
use seed_model::checkpoint::{self, SaveOptions};
use seed_model::generate::{Decoder, Decoding, Draw, TrainingSampling};
use seed_model::ops::{self, portable};
use seed_model::optim::{AdamW, AdamWOptions};
use seed_model::{
    CacheLayout, CausalLm, EncoderOptions, Family, ModelConfig, ScoreRow, TextEncoder, gguf, score,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

/// As in the `seed` binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A model and the sizes it is measured at.
struct Shape {
    name: &'static str,
    /// Its shape for fresh weights; `None` for the real ones of SmolLM2.
    config: Option<fn() -> ModelConfig>,
    /// Rows and tokens a row of forward and training.
    rows: (usize, usize),
    /// Tokens of a prompt, and decoding steps.
    prompt: usize,
    steps: usize,
    batches: [usize; 2],
}

const SHAPES: [Shape; 3] = [
    Shape {
        name: "tiny",
        config: Some(|| ModelConfig::new(Family::Qwen2, 1024, 128, 384, 4, (4, 2, 32))),
        rows: (8, 300),
        prompt: 300,
        steps: 64,
        batches: [1, 64],
    },
    Shape {
        name: "small",
        config: Some(|| ModelConfig::new(Family::Qwen2, 2048, 256, 768, 4, (4, 2, 64))),
        rows: (8, 512),
        prompt: 512,
        steps: 32,
        batches: [1, 64],
    },
    Shape { name: "smollm2", config: None, rows: (4, 128), prompt: 128, steps: 8, batches: [1, 64] },
];

const TASKS: [&str; 5] = ["forward", "train", "prefill", "decode-one", "decode-many"];

/// Tokens, hidden width and vocabulary of the operator's measurement.
const LOGPROB: [usize; 3] = [2048, 896, 151_936];

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if args.first().is_some_and(|arg| arg == "--case") {
        let start = status_mib("VmRSS");
        let mut found = measure(&args[1], Path::new(&args[2]));
        found["start_mib"] = json!(start);
        println!("{found}");
        return ExitCode::SUCCESS;
    }
    let python = args
        .iter()
        .position(|arg| arg == "--torch")
        .map(|at| args.drain(at..=at + 1).nth(1).expect("--torch PYTHON"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut cases: Vec<String> =
        SHAPES.iter().flat_map(|shape| TASKS.iter().map(|task| format!("{}/{task}", shape.name))).collect();
    cases.extend(["minilm/passages", "logprob/fused", "logprob/plain"].map(str::to_owned));
    cases.retain(|case| args.is_empty() || args.iter().any(|part| case.contains(part.as_str())));
    println!("per second; memory: peak MiB (above the empty process)");
    println!("| case | size | SEED | memory | PyTorch | memory | ratio |\n|---|---|---|---|---|---|---|");
    for case in cases {
        let dir = folder.path().join(case.split('/').next().expect("a name"));
        prepare(&case, &dir);
        let ours = run(Command::new(std::env::current_exe().expect("this program"))
            .arg("--case")
            .arg(&case)
            .arg(&dir));
        let theirs = python.as_ref().map(|python| {
            let mut command = Command::new(python);
            command.arg("scripts/torch_bench.py").arg(&case).arg(&dir).arg(ours.to_string());
            // A variable that limits another library's threads would also limit PyTorch's.
            command.current_dir(workspace()).env_remove("OPENBLAS_NUM_THREADS").env_remove("OMP_NUM_THREADS");
            run(&mut command)
        });
        row(&case, &ours, theirs.as_ref());
    }
    ExitCode::SUCCESS
}

fn workspace() -> PathBuf {
    // The running cargo's word first: the binary may come from a target folder that several clones share.
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.join("../..")
}

fn row(case: &str, ours: &Value, theirs: Option<&Value>) {
    let number = |v: &Value, key: &str| v[key].as_f64().unwrap_or(f64::NAN);
    let speed = |v: &Value| number(v, "tokens") / number(v, "seconds");
    let memory = |v: &Value| {
        let peak = number(v, "peak_mib");
        format!("{peak:.0} (+{:.0})", peak - number(v, "start_mib"))
    };
    let size = ours["size"].as_str().unwrap_or("");
    let (torch, their_memory, ratio) = match theirs {
        Some(v) => (format!("{:.0}", speed(v)), memory(v), format!("{:.2}", speed(ours) / speed(v))),
        None => ("–".to_owned(), "–".to_owned(), "–".to_owned()),
    };
    println!(
        "| {case} | {size} | {:.0} | {} | {torch} | {their_memory} | {ratio} |",
        speed(ours),
        memory(ours)
    );
}

fn run(command: &mut Command) -> Value {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or("");
    serde_json::from_str(last)
        .unwrap_or_else(|_| panic!("{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr)))
}

/// A fetched artefact.
fn artefact(part: &str) -> PathBuf {
    let root = std::env::var_os("SEED_ARTEFACTS")
        .map_or_else(|| workspace().join("target/artefacts"), PathBuf::from);
    root.join(part)
}

/// Writes the checkpoint folder that both sides load.
fn prepare(case: &str, folder: &Path) {
    let Some(shape) = SHAPES.iter().find(|shape| case.starts_with(shape.name)) else { return };
    if folder.join("config.json").exists() {
        return;
    }
    std::fs::create_dir_all(folder).expect("a folder in the temporary directory");
    let model = match shape.config {
        Some(config) => CausalLm::init(&config(), 1, &Device::flex()),
        None => {
            let path = artefact("smollm2/SmolLM2-135M-Instruct.Q4_1.gguf");
            gguf::load(&path, &Device::flex(), FloatDType::F32)
                .unwrap_or_else(|error| panic!("{error}; run `cargo xtask fetch smollm2`"))
                .model
        }
    };
    checkpoint::save(&model, folder, &SaveOptions::default()).expect("the folder can be written");
}

/// Median seconds of at least three runs, about two seconds in all; a first run warms up.
fn median(mut work: impl FnMut()) -> f64 {
    work();
    let start = Instant::now();
    let mut times = Vec::new();
    while times.len() < 3 || (start.elapsed().as_secs_f64() < 2.0 && times.len() < 40) {
        let begin = Instant::now();
        work();
        times.push(begin.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// A line of this process's status in MiB: `VmRSS` now, `VmHWM` at its peak.
fn status_mib(key: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<f64>().ok())
        .map_or(f64::NAN, |kib| kib / 1024.0)
}

fn peak_mib() -> f64 {
    status_mib("VmHWM")
}

fn ids(count: usize, vocabulary: usize, salt: usize) -> Vec<u32> {
    (0..count)
        .map(|i| (((i + salt * 7919) as u64 * 2_654_435_761) >> 7) as usize % vocabulary)
        .map(|id| id as u32)
        .collect()
}

fn measure(case: &str, folder: &Path) -> Value {
    let (name, task) = case.split_once('/').expect("MODEL/TASK");
    match name {
        "logprob" => return measure_logprob(task),
        "minilm" => return measure_minilm(),
        _ => {}
    }
    let shape = SHAPES.iter().find(|shape| shape.name == name).expect("a known model");
    let device = if task == "train" { Device::flex().autodiff() } else { Device::flex() };
    let model =
        checkpoint::load(folder, &device, FloatDType::F32).expect("the folder was just written").model;
    let vocabulary = model.config().vocab_size;
    let many = shape.batches[usize::from(task == "decode-many" || task == "prefill")];
    let result = |rows: usize, length: usize, tokens: usize, seconds: f64| json!({"size": format!("{rows} × {length}"), "rows": rows, "length": length, "steps": shape.steps, "tokens": tokens, "seconds": seconds, "peak_mib": peak_mib()});
    match task {
        "forward" | "train" => {
            let (rows, length) = shape.rows;
            let sequences: Vec<Vec<u32>> = (0..rows).map(|row| ids(length, vocabulary, row)).collect();
            let batch: Vec<ScoreRow> =
                sequences.iter().map(|ids| ScoreRow::new(&ids[..1], &ids[1..])).collect();
            let mut optimiser = AdamW::new(AdamWOptions::default());
            // Taken out for a step, so that the optimiser alone holds the weights and works in place.
            let mut held = Some(model);
            let seconds = median(|| {
                let model = held.take().expect("put back below");
                let logp = score(&model, &batch, 1.0, false).expect("valid rows").logp;
                held = Some(if task == "train" {
                    let gradients = GradientsParams::from_grads(logp.mean().neg().backward(), &model);
                    optimiser.step(model, gradients, 1e-4)
                } else {
                    let _: f32 = logp.sum().into_scalar();
                    model
                });
            });
            result(rows, length, rows * length, seconds)
        }
        "prefill" => {
            // As many prompts as fit a forward pass of training.
            let rows = (shape.rows.0 * shape.rows.1 / shape.prompt).min(many);
            let prompts: Vec<Vec<u32>> = (0..rows).map(|row| ids(shape.prompt, vocabulary, row)).collect();
            let prompts: Vec<&[u32]> = prompts.iter().map(Vec::as_slice).collect();
            let seconds = median(|| {
                let mut decoder = Decoder::new(&model, CacheLayout::Paged { max_tokens: None });
                decoder.add(&prompts).expect("room");
            });
            result(rows, shape.prompt, rows * shape.prompt, seconds)
        }
        _ => {
            let prompts: Vec<Vec<u32>> = (0..many).map(|row| ids(shape.prompt, vocabulary, row)).collect();
            let mut decoder = Decoder::new(&model, CacheLayout::Paged { max_tokens: None });
            let mut slots = Vec::new();
            for prompts in prompts.chunks(16) {
                slots.extend(
                    decoder.add(&prompts.iter().map(Vec::as_slice).collect::<Vec<_>>()).expect("room").0,
                );
            }
            let decoding = Decoding::Sample(TrainingSampling { temperature: 1.0 });
            let seconds = median(|| {
                let mut last: Vec<u32> = vec![1; many];
                for step in 0..shape.steps {
                    let rows: Vec<_> = slots.iter().copied().zip(last.chunks(1)).collect();
                    let logits = decoder.extend(&rows).expect("room");
                    let draws: Vec<Draw> = (0..many)
                        .map(|row| Draw { seed: 1, stream: row as u64, index: step as u64 })
                        .collect();
                    last = logits.choose(&decoding, None, &draws).iter().map(|choice| choice.id).collect();
                }
                slots.iter().for_each(|slot| decoder.truncate(*slot, shape.prompt));
            });
            result(many, shape.prompt, many * shape.steps, seconds)
        }
    }
}

/// Forward and backward of the log-probability of 2,048 tokens in a vocabulary of 151,936.
fn measure_logprob(form: &str) -> Value {
    let [tokens, width, vocabulary] = LOGPROB;
    let device = Device::flex().autodiff();
    let leaf = |shape: [usize; 2]| {
        Tensor::<2>::random(shape, Distribution::Normal(0.0, 0.05), &device).require_grad()
    };
    let (hidden, head) = (leaf([tokens, width]), leaf([vocabulary, width]));
    let targets = ids(tokens, vocabulary, 1);
    let start = Instant::now();
    let out = match form {
        "fused" => ops::selected_logprob(hidden.clone(), head.clone(), &targets, 1.0, false),
        _ => portable::selected_logprob(hidden.clone(), head.clone(), &targets, 1.0, false),
    };
    let gradients = out.logp.mean().backward();
    let found = hidden.grad(&gradients).is_some() && head.grad(&gradients).is_some();
    assert!(found, "both gradients");
    json!({"size": format!("{tokens} × {vocabulary}, width {width}"), "shape": LOGPROB, "tokens": tokens, "seconds": start.elapsed().as_secs_f64(), "peak_mib": peak_mib()})
}

/// The passages of the dense reference through MiniLM, tokenizer included.
fn measure_minilm() -> Value {
    let folder = artefact("minilm");
    let shared = std::env::var_os("SEED_SHARED").map_or_else(|| workspace().join("../shared"), PathBuf::from);
    let data = shared.join("data/search_qa");
    let read = |file: &str| {
        let path = data.join(file);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let subset: Vec<String> = serde_json::from_str(&read("dense_subset.json")).expect("a list of ids");
    let lines = [read("wiki18_mini.jsonl"), read("multihop_mini.jsonl")].concat();
    let rows: std::collections::HashMap<String, String> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON lines"))
        .map(|row| {
            (row["id"].as_str().unwrap_or("").to_owned(), row["contents"].as_str().unwrap_or("").to_owned())
        })
        .collect();
    let texts: Vec<&str> = subset.iter().map(|id| rows[id].as_str()).collect();
    let encoder = TextEncoder::load(&folder, &EncoderOptions::default(), &Device::flex(), FloatDType::F32)
        .unwrap_or_else(|error| panic!("{error}; run `cargo xtask fetch minilm`"));
    encoder.encode_passages(&texts[..64]).expect("texts of the reference");
    let start = Instant::now();
    let vectors = encoder.encode_passages(&texts).expect("texts of the reference");
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(vectors.len(), texts.len());
    json!({"size": format!("{} passages", texts.len()), "folder": folder, "data": data, "tokens": texts.len(), "seconds": seconds, "peak_mib": peak_mib()})
}
