//! A policy that sees: pictures through roll-outs, analyses and the teacher's branch.

use crate::policy::{shared, workspace};
use burn::tensor::FloatDType;
use seed_model::{CausalLm, ModelConfig, device};
use seed_rollout::collect::{Collector, Episode, GroupPlan};
use seed_rollout::engine::{Engine, EngineOptions};
use seed_trainer::config::{Config, Layers};
use seed_trainer::mesh::Mesh;
use seed_trainer::observer::Silent;
use seed_trainer::pretrain::visual::pretrain;
use seed_trainer::rl::sample::Sample;
use seed_trainer::rl::scoring::score_rows;
use seed_trainer::rl::skills::Analyst;
use seed_trainer::train::{Finished, train};
use seed_trainer::world::World;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn folder() -> PathBuf {
    shared().join("vectors/qwen2_5_vl_tiny/float32")
}

fn config(name: &str) -> Config {
    let name = format!("env.name={name}");
    let sets = [name.as_str(), "env.max_steps=3", "rollout.layout=step", "rollout.max_prompt_tokens=4000"];
    Layers::new()
        .set(sets)
        .unwrap()
        .set(["rollout.group=2", "rollout.max_response_tokens=8"])
        .unwrap()
        .resolve()
        .unwrap()
        .config()
        .clone()
}

/// The architecture of the reference with fresh weights and room for long prompts.
fn model() -> CausalLm {
    let mut shape = ModelConfig::read(folder()).unwrap();
    (shape.max_position_embeddings, shape.initializer_range) = (1 << 14, 0.3);
    let model = CausalLm::init(&shape, 3, &device::select("cpu").unwrap());
    assert_eq!(model.dtype(), FloatDType::F32);
    model
}

fn episode(world: &World, config: &Config, model: &CausalLm) -> Episode {
    let options = world.collect_options(config);
    let (suite, dialogue, projection) = (world.suite.as_ref(), &world.dialogue, world.projection);
    let collector = Collector { suite, dialogue, projection, options: &options };
    let task = suite.tasks("train").unwrap()[0].clone();
    let tokenizer = &dialogue.tokenizer;
    let ends = tokenizer.end_ids().to_vec();
    let engine = Engine::new(model.clone(), tokenizer.vocab_size(), ends, EngineOptions::default());
    collector.collect(&mut [engine], &[GroupPlan { task, seed: 7 }], &|_| ()).unwrap().episodes.remove(0)
}

#[test]
fn frames_reach_the_analysis_and_both_branches() {
    let model = model();
    let image = model.config().vision.as_ref().unwrap().image_token_id;
    for (name, suite, tokens) in [("ezpoints", "ezpoints", 121), ("sokoban", "sokoban_visual", 81)] {
        let config = config(name);
        let world = World::open(&config, &folder()).unwrap();
        assert_eq!(world.suite.name(), suite);
        let mut episode = episode(&world, &config, &model);
        let steps = episode.trajectory.steps.len();
        assert!(steps > 0 && episode.trajectory.steps.iter().all(|step| step.image.is_some()));

        // One picture a step, whatever an answer says.
        episode.trajectory.steps[0].response.push_str(" <image> <|image_pad|><|vision_start|>");
        let analyst = Analyst::new(&world, &config);
        let asked = analyst.context(&world, &episode, usize::MAX).unwrap();
        if let Some(asked) = asked {
            assert_eq!(asked.pictures.len(), steps);
            assert_eq!(asked.ids.iter().filter(|id| **id == image).count(), steps * tokens);
        } else {
            panic!("{name}: the analysis prompt is longer than `analyzer.context_tokens`");
        }

        // The same pixels behind a longer prompt, and another log-probability.
        let row = episode.rows[0].clone();
        let pictures = episode.pictures(&row, world.dialogue.eyes.as_ref()).unwrap();
        let mut sample = Sample::new(row, pictures);
        let block = world.skill_block("push <image> first");
        sample.teach(world.teacher_prompt(&config, &episode, 0, &block).unwrap());
        let (student, teacher) = (sample.student(), sample.teacher().unwrap());
        assert!(teacher.prompt.len() > student.prompt.len());
        assert_eq!((student.pictures.len(), teacher.pictures.len()), (1, 1));
        assert!(Arc::ptr_eq(&student.pictures[0].picture, &teacher.pictures[0].picture));
        let temperature = config.rollout.temperature;
        let scores =
            score_rows(&Mesh::new(1), &model, &[student, teacher], 4096, temperature, false).unwrap();
        let gap = sample.engine_logp().zip(&scores[0].logp).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(gap < 1e-4, "{name}: engine and trainer differ by {gap}");
        assert_ne!(scores[0].logp, scores[1].logp);
    }
}

/// Two updates of the visual example, cut down.
fn visual_run(dir: &Path, base: &Path, name: &str, sets: &[&str]) -> Finished {
    let workspace = workspace();
    let layers = Layers::new().file(&workspace.join("configs/ezpoints-visual.toml")).unwrap();
    let places = [
        format!("name={name}"),
        format!("runs_dir={}", dir.display()),
        format!("model.path={}", base.display()),
        format!("env.prompts={}", workspace.join("configs/prompts/ezpoints_tiny").display()),
    ];
    let small = [
        "method=seed_without_sft",
        "analyzer.weights=external",
        "rollout.tasks=2",
        "rollout.group=4",
        "batch.mini_rows=32",
        "train.updates=2",
        "eval.games=4",
        "opd.coef=0.1",
    ];
    let layers = layers.set(places).unwrap().set(small).unwrap().set(sets).unwrap();
    train(&layers.resolve().unwrap(), &Silent).unwrap()
}

fn tensors(folder: &Path) -> Vec<(String, Vec<f32>)> {
    let device = device::select("cpu").unwrap();
    let model = seed_model::checkpoint::load(folder, &device.autodiff(), FloatDType::F32).unwrap().model;
    let learner = seed_trainer::learner::Learner::new(model, Default::default());
    crate::policy::weights(&learner).into_iter().collect()
}

#[test]
fn the_visual_example_trains_with_a_constant_tower_and_with_one_that_learns() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().join("base");
    let prompts = workspace().join("configs/prompts/ezpoints_tiny");
    pretrain(&prompts, &base, 4, &Silent).unwrap();
    let tokenizer = seed_model::Tokenizer::load(&base).unwrap();
    for (text, tokens) in [
        ("{\"action\": \"+\"}", 4),
        ("{\"action\": \"10\"}", 7),
        ("{\"episode_skill\": \"Write 3 * 4 and then =.\"}", 11),
    ] {
        let ids = tokenizer.encode(text).unwrap();
        assert_eq!((ids.len(), tokenizer.decode(&ids).unwrap().as_str()), (tokens, text));
    }
    let before = tensors(&base);
    for (name, sets, learns) in
        [("constant", &[][..], false), ("learning", &["model.train_vision=true"][..], true)]
    {
        let run = visual_run(dir.path(), &base, name, sets);
        let after = tensors(&run.checkpoint);
        for ((tensor, old), (_, new)) in before.iter().zip(&after) {
            let moved = old != new;
            let tower = tensor.starts_with("visual.");
            assert!(if tower { moved == learns } else { true }, "{name}: {tensor} moved: {moved}");
        }
        assert!(before.iter().zip(&after).any(|(old, new)| !old.0.starts_with("visual.") && old.1 != new.1));
        let lines = seed_trainer::metrics::read_jsonl(&run.folder.join("metrics.jsonl")).unwrap();
        let (_, last) = lines.last().unwrap();
        let number = |key: &str| last[key].as_f64().unwrap();
        assert!(number("rollout/logprob_diff_max") < 1e-3, "{last:?}");
        assert!(number("skill/requests") > 0.0 && number("opd/active_token_ratio") > 0.0, "{last:?}");
    }
}

#[test]
fn card_games_open_by_name_and_are_played_in_words_and_in_pictures() {
    let words = crate::policy::tokenizer_folder();
    let model = model();
    for name in ["number_line", "blackjack", "points24"] {
        let world = World::open(&config(name), &words).unwrap();
        assert_eq!(world.suite.name(), format!("{name}_text"));
        let config = config(name);
        let world = World::open(&config, &folder()).unwrap();
        assert_eq!(world.suite.name(), name);
        let episode = episode(&world, &config, &model);
        assert!(!episode.trajectory.steps.is_empty() && !episode.frames.is_empty());
        assert!(episode.rows.iter().all(|row| row.pictures.len() == 1));
    }
}
