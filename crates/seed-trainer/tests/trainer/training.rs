//! Tiny real runs: gradients in parts, fine-tuning, updates, resume, learning.

use crate::policy::{self, tiny_model};
use proptest::prelude::*;
use seed_model::device::select_all;
use seed_model::optim::named_gradients;
use seed_model::{Activations, try_loss_and_gradients};
use seed_trainer::config::{Config, Layers, ScheduleKind};
use seed_trainer::learner::{Learner, accumulate};
use seed_trainer::mesh::Mesh;
use seed_trainer::observer::Silent;
use seed_trainer::rl::advantage::{AdvantageOptions, assign};
use seed_trainer::rl::objective::objective;
use seed_trainer::rl::sample::Sample;
use seed_trainer::rl::scoring::{SampledRow, pack, sampled_batch, score_rows};
use seed_trainer::rl::update::{UpdateOptions, update};
use seed_trainer::schedule::Schedule;
use seed_trainer::sft::fit::{FitOptions, Lesson, fit, loss_of};
use seed_trainer::train;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fn config(sets: &[&str]) -> Config {
    Layers::new().set(["preset=corrected"]).unwrap().set(sets).unwrap().resolve().unwrap().config().clone()
}

/// Lessons of different lengths over a vocabulary of 64.
fn lessons(count: usize) -> Vec<Lesson> {
    (0..count)
        .map(|i| {
            let id = |at: usize| ((i * 31 + at * 17) % 60) as u32 + 2;
            let mut lesson = Lesson::new(
                (0..3 + i % 4).map(id).collect::<Vec<u32>>(),
                (0..2 + i % 5).map(|at| id(at + 9)).collect(),
            );
            // Every third lesson has a masked token inside, as transcripts have.
            if i % 3 == 0 {
                lesson.mask[1] = false;
            }
            lesson
        })
        .collect()
}

fn gradients(mesh: &Mesh, micro_tokens: usize) -> BTreeMap<String, Vec<f32>> {
    let model = tiny_model(64, 1);
    let lessons = lessons(13);
    let rows: Vec<SampledRow<'_>> = lessons.iter().map(Lesson::row).collect();
    let parts = pack(rows.iter().map(SampledRow::tokens), micro_tokens);
    let total: usize = lessons.iter().flat_map(|l| &l.mask).filter(|on| **on).count();
    let result = accumulate(mesh, &model, parts.len(), |model, part| {
        let batch = sampled_batch(&rows[parts[part].clone()], 64).unwrap();
        let (part, gradients) =
            try_loss_and_gradients(model, &batch.packed, Activations::Keep, |hidden, head| {
                let logp = batch.scores(hidden, head, 1.0, false).logp;
                Ok::<_, ()>((part, -logp.sum() / total as f64))
            })?;
        Ok::<_, ()>((Some(gradients), part))
    })
    .unwrap();
    assert_eq!(result.reports, (0..parts.len()).collect::<Vec<_>>());
    let named = named_gradients(&model, &result.gradients);
    named.into_iter().map(|(name, data)| (name, data.iter::<f32>().collect())).collect()
}

#[track_caller]
fn close(a: &BTreeMap<String, Vec<f32>>, b: &BTreeMap<String, Vec<f32>>, tolerance: f32) {
    assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
    for (name, values) in a {
        for (x, y) in values.iter().zip(&b[name]) {
            assert!((x - y).abs() <= tolerance, "{name}: {x} and {y}");
        }
    }
}

#[test]
fn accumulation_is_one_big_batch() {
    let alone = Mesh::new(1);
    close(&gradients(&alone, 1), &gradients(&alone, 100_000), 2e-6);
}

#[test]
fn the_number_of_workers_changes_no_bit() {
    let alone = gradients(&Mesh::new(1), 20);
    let devices = select_all("cpu, cpu,cpu").unwrap();
    for mesh in [Mesh::new(2), Mesh::new(3), Mesh::over(&devices, 0)] {
        assert_eq!(alone, gradients(&mesh, 20), "{mesh:?}");
    }
}

#[test]
fn a_mesh_has_a_worker_a_device() {
    let cpu = select_all("cpu").unwrap();
    assert_eq!(Mesh::over(&cpu, 3).workers(), 3);
    let three = Mesh::over(&select_all("cpu,cpu,cpu").unwrap(), 0);
    assert_eq!((three.workers(), three.replicas(&tiny_model(64, 1), 2).len()), (3, 2));
    let error = select_all("cpu,gpu:1").unwrap_err().to_string();
    assert!(error.contains("`gpu:1`") && error.contains("cuda:all"), "{error}");
}

/// The GPU of the first backend that is compiled in, beside the CPU: weights really move.
#[cfg(any(feature = "cuda", feature = "wgpu"))]
#[test]
fn devices_of_two_kinds_share_an_update() {
    let gpu = if cfg!(feature = "cuda") { "cuda:0" } else { "wgpu:0" };
    let mesh = Mesh::over(&select_all(&format!("cpu,{gpu}")).unwrap(), 0);
    let model = tiny_model(64, 1);
    let replicas = mesh.replicas(&model, 2);
    assert!(replicas[0].device() == model.device() && replicas[1].device() != model.device());
    close(&gradients(&Mesh::new(1), 20), &gradients(&mesh, 20), 1e-4);
    let lessons = lessons(9);
    let rows: Vec<SampledRow<'_>> = lessons.iter().map(Lesson::row).collect();
    let model = seed_model_valid();
    let scores = |mesh: &Mesh| score_rows(mesh, &model, &rows, 20, 0.7, true).unwrap();
    for (alone, shared) in scores(&Mesh::new(1)).iter().zip(&scores(&mesh)) {
        assert!(alone.logp.iter().zip(&shared.logp).all(|(a, b)| (a - b).abs() < 1e-4));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    /// Company, order and passes change no log-probability beyond rounding.
    #[test]
    fn a_row_scores_the_same_in_any_company(order in Just((0..9usize).collect::<Vec<_>>()).prop_shuffle(), micro in 1usize..80) {
        let model = seed_model_valid();
        let lessons = lessons(9);
        let alone = score_rows(&Mesh::new(1), &model, &lessons.iter().map(Lesson::row).collect::<Vec<_>>(), 1, 0.7, true).unwrap();
        let rows: Vec<SampledRow<'_>> = order.iter().map(|i| lessons[*i].row()).collect();
        let together = score_rows(&Mesh::new(2), &model, &rows, micro, 0.7, true).unwrap();
        for (place, row) in order.iter().zip(&together) {
            for (a, b) in alone[*place].logp.iter().zip(&row.logp) {
                prop_assert!((a - b).abs() < 1e-5);
            }
            for (a, b) in alone[*place].entropy.iter().flatten().zip(row.entropy.iter().flatten()) {
                prop_assert!((a - b).abs() < 1e-5);
            }
        }
    }
}

fn seed_model_valid() -> seed_model::CausalLm {
    Learner::new(tiny_model(64, 1), Default::default()).snapshot()
}

#[test]
fn fine_tuning_lowers_the_loss_it_is_fitted_to() {
    let lessons = lessons(24);
    let mut learner = Learner::new(tiny_model(64, 2), Default::default());
    let mesh = Mesh::new(2);
    let before = loss_of(&learner, &mesh, &lessons, 200).unwrap();
    let steps = FitOptions::steps(lessons.len(), 8, 20);
    let options = FitOptions {
        epochs: 20,
        batch: 8,
        micro_tokens: 40,
        schedule: Schedule::new(ScheduleKind::Cosine, 1e-2, 0.1, steps),
        max_grad_norm: 1.0,
        seed: 5,
    };
    let mut count = 0;
    fit(&mut learner, &mesh, &lessons, &options, |step, _, record| {
        count = step;
        assert!(record.get("sft/loss").is_some());
    })
    .unwrap();
    assert_eq!(count, steps);
    let after = loss_of(&learner, &mesh, &lessons, 200).unwrap();
    assert!(after < 0.6 * before, "{before} to {after}");
}

/// Samples whose old log-probabilities are those of the model, with teachers on every second row.
fn samples(learner: &Learner) -> Vec<Sample> {
    let mesh = Mesh::new(1);
    let mut samples: Vec<Sample> =
        lessons(16).iter().enumerate().map(|(i, l)| policy::sample(l, i)).collect();
    let model = learner.snapshot();
    let student: Vec<SampledRow<'_>> = samples.iter().map(Sample::student).collect();
    let old = score_rows(&mesh, &model, &student, 1000, 1.0, false).unwrap();
    let teacher: Vec<SampledRow<'_>> = samples.iter().filter_map(Sample::teacher).collect();
    let mut teacher = score_rows(&mesh, &model, &teacher, 1000, 1.0, false).unwrap().into_iter();
    for (sample, old) in samples.iter_mut().zip(old) {
        sample.reference_logp = old.logp.iter().map(|x| x - 0.01).collect();
        sample.advantage = vec![if sample.row.won { 1.0 } else { -1.0 }; old.logp.len()];
        if sample.teacher_prompt.is_some() {
            sample.teacher_logp = teacher.next().unwrap().logp;
        }
        sample.old_logp = old.logp;
    }
    samples
}

/// Every row's advantage under `corrected`, with rows `invalid` of the wrong form and rewards from `reward`.
fn row_advantages(sets: &[&str], invalid: &[usize], reward: impl Fn(usize) -> f64) -> Vec<f64> {
    let config = config(sets);
    let mut samples = samples(&Learner::new(tiny_model(64, 3), Default::default()));
    for (index, sample) in samples.iter_mut().enumerate() {
        // Two rows an episode, of which the second may break the form.
        sample.row.trajectory = index / 2;
        sample.row.episode_return = reward(index / 2);
        sample.row.turns.iter_mut().for_each(|turn| turn.valid = !invalid.contains(&index));
    }
    let options = AdvantageOptions { config: &config.adv, invalid_penalty: 0.1, completed: 0, anchors: &[] };
    assign(&mut samples, options).unwrap();
    samples.iter().map(|sample| sample.advantage[0]).collect()
}

#[test]
fn a_penalty_for_form_keeps_its_size_beside_compared_episodes() {
    for estimator in ["adv.estimator=group", "adv.estimator=rloo"] {
        let tied = row_advantages(&[estimator], &[1, 6], |_| 0.0);
        for (index, advantage) in tied.iter().enumerate() {
            let expected = if [1, 6].contains(&index) { -0.1 } else { 0.0 };
            assert!((advantage - expected).abs() < 1e-12, "{estimator}, row {index}: {advantage}");
        }
    }
    let reward = |episode: usize| f64::from(u8::from(episode.is_multiple_of(2)));
    let (whole, broken) = (row_advantages(&[], &[], reward), row_advantages(&[], &[1], reward));
    for (index, (whole, broken)) in whole.iter().zip(&broken).enumerate() {
        let lost = if index == 1 { 0.1 } else { 0.0 };
        assert!((whole - broken - lost).abs() < 1e-12, "row {index}: {whole} and {broken}");
    }
    // The reference compares scores, and blows the penalty up.
    let reference = ["adv.penalty=score", "adv.across=rows", "adv.std_floor=0"];
    let rows = row_advantages(&reference, &[1], |_| 1.0);
    assert!(rows[1] < -1.0, "{}", rows[1]);
}

fn options(config: &Config, mini_rows: usize, micro_tokens: usize) -> UpdateOptions {
    UpdateOptions {
        objective: objective(config, 0),
        mini_rows,
        micro_tokens,
        epochs: 1,
        temperature: 1.0,
        lr: 1e-3,
        max_grad_norm: 1.0,
        refresh_teacher: false,
    }
}

#[test]
fn every_ratio_is_one_at_the_first_mini_batch() {
    let config = config(&["opd.coef=0.1"]);
    let mut learner = Learner::new(tiny_model(64, 3), Default::default());
    let mut samples = samples(&learner);
    let record = update(&mut learner, &Mesh::new(2), &mut samples, &options(&config, 4, 30), |_| ()).unwrap();
    let ratio = record.get("actor/ratio_max_first").unwrap();
    assert!(ratio < 1e-4, "{ratio}");
    assert_eq!(record.get("actor/optimizer_steps"), Some(4.0));
    for name in
        ["actor/pg_loss", "actor/kl_loss", "actor/entropy", "opd/loss", "opd/gate_mean", "actor/grad_norm"]
    {
        assert!(record.get(name).is_some_and(f64::is_finite), "{name}");
    }
    let gate = record.get("opd/gate_mean").unwrap();
    assert!(gate > 0.0 && gate < 1.0);
}

#[test]
fn passes_and_workers_change_no_update() {
    let config = config(&["opd.coef=0.1", "loss.entropy_coef=0.01"]);
    let run = |workers: usize, micro_tokens: usize| {
        let mut learner = Learner::new(tiny_model(64, 3), Default::default());
        let mut samples = samples(&learner);
        let options = options(&config, 8, micro_tokens);
        update(&mut learner, &Mesh::new(workers), &mut samples, &options, |_| ()).unwrap();
        policy::weights(&learner)
    };
    let whole = run(1, 100_000);
    assert_eq!(run(1, 25), run(3, 25), "workers");
    // One AdamW step divides by the gradient's own size: rounding of tiny gradients grows up to the learning rate.
    close(&whole, &run(1, 25), 2e-4);
}

#[test]
fn gradient_checkpointing_changes_no_update() {
    let config = config(&["opd.coef=0.1", "model.gradient_checkpointing=true"]);
    let activations = Activations::from(&config.model);
    assert_eq!(activations, Activations::Recompute);
    let run = |activations| {
        let mut learner = Learner::new(tiny_model(64, 3), Default::default()).with_activations(activations);
        let mut samples = samples(&learner);
        let options = options(&config, 8, 60);
        let record = update(&mut learner, &Mesh::new(2), &mut samples, &options, |_| ()).unwrap();
        (policy::weights(&learner), record.get("actor/grad_norm").unwrap())
    };
    let (kept, again) = (run(Activations::Keep), run(activations));
    assert!((kept.1 / again.1 - 1.0).abs() < 1e-4, "{} and {}", kept.1, again.1);
    close(&kept.0, &again.0, 2e-4);
}

#[test]
fn a_loss_that_is_no_number_stops_before_the_step() {
    let config = config(&[]);
    let mut learner = Learner::new(tiny_model(64, 3), Default::default());
    let mut samples = samples(&learner);
    samples[5].advantage[0] = f64::NAN;
    let before = policy::weights(&learner);
    let error =
        update(&mut learner, &Mesh::new(1), &mut samples, &options(&config, 0, 1000), |_| ()).unwrap_err();
    assert_eq!(error.to_string(), "optimiser step 0 of the update: the loss is NaN; its rows are 0..16");
    assert_eq!(policy::weights(&learner), before);
}

/// A whole run on the household world with a fresh policy of one layer.
fn tiny_run(runs: &Path, name: &str, sets: &[&str]) -> train::Finished {
    let model = runs.join("model");
    if !model.exists() {
        policy::write_folder(&model);
    }
    let fixed = [
        format!("runs_dir={}", runs.display()),
        format!("name={name}"),
        format!("model.path={}", model.display()),
    ];
    let layers = Layers::new().set(policy::TINY_RUN).unwrap().set(&fixed).unwrap().set(sets).unwrap();
    train::train(&layers.resolve().unwrap(), &Silent).unwrap()
}

fn checkpoint_bytes(folder: &Path) -> Vec<(String, Vec<u8>)> {
    ["model.safetensors", "trainer/state.json", "trainer/optimizer.safetensors"]
        .map(|name| (name.to_owned(), fs::read(folder.join(name)).unwrap()))
        .into()
}

#[track_caller]
fn same_bytes(a: &[(String, Vec<u8>)], b: &[(String, Vec<u8>)], what: &str) {
    for ((name, a), (_, b)) in a.iter().zip(b) {
        let place = a.iter().zip(b).position(|(a, b)| a != b);
        assert!(a == b, "{what}: `{name}` differs at byte {place:?} of {} and {}", a.len(), b.len());
    }
}

#[test]
fn a_killed_run_goes_on_to_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let whole = tiny_run(dir.path(), "whole", &["opd.teacher_weights=ema"]);
    let expected = checkpoint_bytes(&whole.checkpoint);
    let lines = fs::read_to_string(whole.folder.join("metrics.jsonl")).unwrap().lines().count();
    // Kills after update 2, after update 1 with a half-written checkpoint, and before the first checkpoint.
    for keep in [Some(2), Some(1), None] {
        let run = dir.path().join(format!("killed-{keep:?}"));
        policy::copy_folder(&whole.folder, &run);
        for step in 0..=4 {
            if keep.is_none_or(|keep| step > keep) {
                fs::remove_dir_all(run.join(format!("checkpoints/step-{step:06}"))).unwrap();
            }
        }
        fs::create_dir_all(run.join("checkpoints/.step-000002.partial")).unwrap();
        let text = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
        fs::write(run.join("metrics.jsonl"), &text[..text.len() - 7]).unwrap();
        let finished = train::resume(&run, &Silent).unwrap();
        same_bytes(&checkpoint_bytes(&finished.checkpoint), &expected, &format!("killed {keep:?}"));
        let again = fs::read_to_string(run.join("metrics.jsonl")).unwrap().lines().count();
        assert_eq!(again, lines, "killed {keep:?}");
    }
}

#[test]
fn an_adapter_is_trained_saved_and_resumed_on_weights_that_stay() {
    let dir = tempfile::tempdir().unwrap();
    let sets = ["model.lora_rank=4", "model.lora_alpha=8", "opd.teacher_weights=ema", "loss.kl_coef=0.01"];
    let whole = tiny_run(dir.path(), "whole", &sets);
    let adapter = |folder: &Path| fs::read(folder.join("adapter/adapter_model.safetensors")).unwrap();
    let first = whole.folder.join("checkpoints/step-000000");
    assert_ne!(adapter(&first), adapter(&whole.checkpoint));
    // An adapter that is new changes nothing; the merged model of a later checkpoint is another.
    let model = |folder: &Path| policy::tensors(&folder.join("model.safetensors"));
    let base = model(&dir.path().join("model"));
    assert_eq!(model(&first), base);
    let merged = model(&whole.checkpoint);
    for (name, values) in &base {
        assert_eq!(merged[name] != *values, name.contains("_proj"), "{name}");
    }
    // The optimiser holds the adapter's moments alone.
    let optimizer = policy::tensors(&whole.checkpoint.join("trainer/optimizer.safetensors"));
    assert!(!optimizer.is_empty());
    assert!(optimizer.keys().all(|name| name.contains("lora_")), "{:?}", optimizer.keys());

    let run = dir.path().join("killed");
    policy::copy_folder(&whole.folder, &run);
    for step in 2..=4 {
        fs::remove_dir_all(run.join(format!("checkpoints/step-{step:06}"))).unwrap();
    }
    let finished = train::resume(&run, &Silent).unwrap();
    same_bytes(&checkpoint_bytes(&finished.checkpoint), &checkpoint_bytes(&whole.checkpoint), "resumed");
    assert_eq!(adapter(&finished.checkpoint), adapter(&whole.checkpoint));
}

#[test]
fn two_runs_with_different_workers_give_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let one = tiny_run(dir.path(), "one", &["train.updates=2", "workers=1"]);
    let three = tiny_run(dir.path(), "three", &["train.updates=2", "workers=3"]);
    same_bytes(&checkpoint_bytes(&one.checkpoint), &checkpoint_bytes(&three.checkpoint), "workers");
}

#[test]
fn recorded_episodes_train_as_their_own_run_did() {
    let dir = tempfile::tempdir().unwrap();
    let sets = ["method=grpo", "train.updates=3", "eval.before=false", "eval.every=0"];
    let live = tiny_run(dir.path(), "live", &[&sets[..], &["rollout.record_every=1"]].concat());
    let recorded = format!("rollout.recorded={}", live.folder.join("rollouts").display());
    let again = |name: &str, more: &[&str]| {
        tiny_run(dir.path(), name, &[&sets[..], &[&recorded, "rollout.record_every=0"], more].concat())
    };
    let replayed = again("replayed", &[]);
    let numbers = |run: &train::Finished| {
        let lines = seed_trainer::metrics::read_jsonl(&run.folder.join("metrics.jsonl")).unwrap();
        let of = |(_, line): &(u64, serde_json::Map<String, serde_json::Value>)| {
            ["rollout/response_tokens", "episode/reward", "advantage/abs_mean", "actor/grad_norm"]
                .map(|name| line[name].as_f64().unwrap())
        };
        lines.iter().map(of).collect::<Vec<_>>()
    };
    // The engine's log-probabilities and the trainer's differ in the last bits.
    for (a, b) in numbers(&live).iter().flatten().zip(numbers(&replayed).iter().flatten()) {
        assert!((a - b).abs() <= 1e-3 * a.abs().max(1e-3), "{a} and {b}");
    }
    // More updates than files: they start over; another method may read the same episodes.
    let lines =
        |run: &train::Finished| fs::read_to_string(run.folder.join("metrics.jsonl")).unwrap().lines().count();
    assert_eq!(lines(&again("longer", &["train.updates=5", "method=seed_without_sft"])), 5);
}

#[test]
fn episodes_of_other_settings_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let sets = ["method=grpo", "train.updates=1", "eval.before=false", "rollout.record_every=1"];
    let live = tiny_run(dir.path(), "live", &sets);
    let recorded = format!("rollout.recorded={}", live.folder.join("rollouts").display());
    let empty = format!("rollout.recorded={}", dir.path().join("empty").display());
    fs::create_dir(dir.path().join("empty")).unwrap();
    // All but the size of groups, which no header says, is found before the run starts.
    for (set, words, early) in [
        ("rollout.temperature=0.5", "`rollout.temperature` is 1 here and 0.5 in this run", true),
        ("rollout.group=2", "group 0 has 3 episodes, `rollout.group` is 2", false),
        ("rollout.layout=step", "`rollout.layout` is Transcript here and Step in this run", true),
        (empty.as_str(), "found no `*.jsonl`", true),
        ("rollout.recorded=/nowhere.jsonl", "/nowhere.jsonl: cannot read", true),
    ] {
        let fixed = [
            format!("runs_dir={}", dir.path().display()),
            format!("model.path={}", dir.path().join("model").display()),
        ];
        let layers = Layers::new().set(policy::TINY_RUN).unwrap().set(&fixed).unwrap().set(sets).unwrap();
        let layers = layers.set([&recorded]).unwrap().set([set]).unwrap();
        let error = train::train(&layers.resolve().unwrap(), &Silent).unwrap_err();
        assert_eq!(matches!(error, train::TrainError::Recorded(_)), early, "{set}: {error}");
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(inner) = source {
            text = format!("{text}: {inner}");
            source = inner.source();
        }
        assert!(text.contains(words), "{set}: {text}");
    }
}

#[test]
fn every_method_makes_an_update() {
    let dir = tempfile::tempdir().unwrap();
    let library = policy::workspace().join("configs/skills/household.json");
    let library = format!("analyzer.library={}", library.display());
    for method in seed_trainer::config::Method::ALL {
        let name = format!("{method}");
        let set = format!("method={method}");
        // GiGPO compares steps; every other method is tried on transcripts.
        let layout = if name == "gigpo" { "rollout.layout=step" } else { "rollout.layout=transcript" };
        let sets = [
            set.as_str(),
            layout,
            "train.updates=1",
            "sft.enabled=false",
            "analyzer.weights=external",
            &library,
        ];
        let needs_hindsight = matches!(name.as_str(), "seed" | "seed_without_sft" | "opid");
        let sets: Vec<&str> =
            sets.into_iter().filter(|set| needs_hindsight || !set.starts_with("analyzer.weights")).collect();
        let finished = tiny_run(dir.path(), &name, &sets);
        let lines = seed_trainer::metrics::read_jsonl(&finished.folder.join("metrics.jsonl")).unwrap();
        let last = &lines.last().unwrap().1;
        assert!(last["actor/grad_norm"].as_f64().is_some_and(f64::is_finite), "{method}");
        let teacher = last.get("time/teacher").is_some();
        let wanted = !matches!(name.as_str(), "seed_without_opd" | "grpo" | "skill_grpo" | "gigpo");
        assert_eq!(teacher, wanted, "{method}");
    }
}
