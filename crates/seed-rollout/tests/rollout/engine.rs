//! The engine over the tiny reference model: what it samples, and whether the scoring function agrees.

use crate::shared::shared;
use crate::worlds::{self, World};
use burn::tensor::FloatDType;
use seed_model::{CausalLm, LoadedModel, ScoreRow, checkpoint, device, score};
use seed_rollout::batch::{BatchOptions, generate_batch};
use seed_rollout::collect::{CollectOptions, Collection};
use seed_rollout::engine::{Engine, EngineOptions};
use seed_rollout::row::{Finish, Layout, Row};
use seed_rollout::sampler::{Purpose, Sampling, StreamKey};
use seed_rollout::source::{Context, Request, SessionId, SourceError, TokenSource};

const FOLDER: &str = "vectors/qwen2_tiny/float32";
/// Tokens of the tokenizer; the model has 512 rows.
const VOCABULARY: usize = 494;
const END: u32 = 482;

/// The reference model. Its rotary embedding reaches further than the 512 positions that its file names, and the
/// prompts of real games need that.
fn model() -> CausalLm {
    let device = device::select("cpu").unwrap();
    let LoadedModel { model, .. } = checkpoint::load(shared(FOLDER), &device, FloatDType::F32).unwrap();
    model
}

/// The same architecture with room for long contexts and fresh weights.
fn roomy_model() -> CausalLm {
    let model = model();
    let mut config = model.config().clone();
    config.max_position_embeddings = 1 << 15;
    config.initializer_range = 0.3;
    CausalLm::init(&config, 3, &model.device())
}

fn engine(model: &CausalLm, sessions: usize, prefill_tokens: usize) -> Engine {
    let options = EngineOptions { sessions, prefill_tokens, ..EngineOptions::default() };
    Engine::new(model.clone(), VOCABULARY, [END], options)
}

fn collect(world: &World, options: &CollectOptions, engines: &mut [Engine]) -> Collection {
    world.collector(options).collect(engines, &world.plan, &|_| ()).unwrap()
}

fn options(layout: Layout) -> CollectOptions {
    CollectOptions {
        layout,
        group_size: 4,
        sampling: Sampling::at(0.8),
        max_steps: 4,
        max_prompt_tokens: 8000,
        max_response_tokens: 24,
        max_row_tokens: 16_000,
        run_seed: 5,
        ..CollectOptions::default()
    }
}

fn reference() -> serde_json::Value {
    let text = std::fs::read_to_string(shared("vectors/qwen2_tiny/reference_float32.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn ids(value: &serde_json::Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

#[test]
fn greedy_tokens_are_those_of_the_reference_library() {
    let reference = reference();
    let prompts = reference["prompts"].as_array().unwrap().iter();
    let prompts: Vec<Context> = prompts.map(|prompt| ids(&prompt["input_ids"]).into()).collect();
    let expected: Vec<Vec<u32>> =
        reference["greedy"].as_array().unwrap().iter().map(|greedy| ids(&greedy["new_ids"])).collect();
    let options = BatchOptions {
        sampling: Sampling::greedy(),
        max_new_tokens: expected[0].len(),
        stream: StreamKey::new(0, Purpose::Analysis),
    };
    let model = model();
    // the reference picks from all 512 rows and does not stop at end tokens
    for seats in [1, 2, 64] {
        let new =
            || Engine::new(model.clone(), 512, [], EngineOptions { sessions: seats, ..Default::default() });
        let found = generate_batch(&mut [new(), new()], &prompts, &options, &|_| ()).unwrap();
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(&found.ids, expected);
            assert_eq!(found.finish, Finish::Length);
        }
    }
}

/// Largest distance between the engine's log-probabilities and those of the one scoring function.
fn distance(model: &CausalLm, rows: &[&Row], temperature: f64) -> f64 {
    let scored: Vec<ScoreRow> =
        rows.iter().map(|row| ScoreRow::new(&row.prompt_ids, &row.response_ids)).collect();
    let scores = score(model, &scored, temperature, false).unwrap();
    let expected: Vec<f32> = scores.logp.into_data().try_to_vec().unwrap();
    let found = rows.iter().flat_map(|row| row.logp.iter().zip(&row.response_mask));
    assert_eq!(expected.len(), rows.iter().map(|row| row.response_ids.len()).sum::<usize>());
    let gap = |((&found, &sampled), expected): ((&f32, &bool), f32)| {
        if sampled { f64::from(found - expected).abs() } else { 0.0 }
    };
    found.zip(expected).map(gap).fold(0.0, f64::max)
}

#[test]
fn engine_and_scoring_function_agree_on_whole_collections() {
    let model = roomy_model();
    for world in worlds::all() {
        for layout in [Layout::Step, Layout::Transcript] {
            let mut engines = [engine(&model, 5, 4096)];
            let collection = collect(&world, &options(layout), &mut engines);
            let rows: Vec<&Row> = collection.rows().collect();
            let sampled: usize = rows.iter().map(|row| row.sampled()).sum();
            assert!(sampled > 500, "{sampled} tokens are too few to tell");
            let distance = distance(&model, &rows, 0.8);
            println!(
                "{} {layout:?}: {sampled} sampled tokens, largest distance {distance:.2e}",
                world.suite.name()
            );
            assert!(distance < 1e-4, "{distance}");
            for row in rows {
                row.check(Some(VOCABULARY)).unwrap();
                for (token, &id) in row.response_ids.iter().enumerate() {
                    assert!(!row.response_mask[token] || (id as usize) < VOCABULARY);
                }
            }
            let stats = collection.stats.source;
            assert_eq!(stats.sampled as usize, sampled);
            assert!(
                stats.outside_mass_max > 0.0,
                "the rows beyond the tokenizer have some mass in this model"
            );
        }
    }
}

#[test]
fn episodes_are_the_same_to_the_bit_whatever_the_batch() {
    let model = roomy_model();
    for world in worlds::all() {
        for layout in [Layout::Step, Layout::Transcript] {
            let base = options(layout);
            let expected = collect(&world, &base, &mut [engine(&model, 1, 1)]);
            for (sessions, prefill, threads, engines) in
                [(64, 1 << 20, 1, 1), (3, 300, 3, 1), (4, 4096, 2, 2)]
            {
                let options = CollectOptions { environment_threads: threads, ..base.clone() };
                let mut engines: Vec<_> = (0..engines).map(|_| engine(&model, sessions, prefill)).collect();
                let found = collect(&world, &options, &mut engines);
                for (found, expected) in found.episodes.iter().zip(&expected.episodes) {
                    assert_eq!(
                        serde_json::to_string(found).unwrap(),
                        serde_json::to_string(expected).unwrap(),
                        "{} {layout:?} with {sessions} sessions",
                        world.suite.name()
                    );
                }
                assert_eq!(found.episodes.len(), expected.episodes.len());
            }
        }
    }
}

#[test]
fn only_new_tokens_are_computed() {
    let model = roomy_model();
    let world = worlds::household();
    let collection = collect(&world, &options(Layout::Transcript), &mut [engine(&model, 64, 1 << 20)]);
    let stats = collection.stats.source;
    // the prompt of a group once, then what the environment says and the last sampled token of each turn
    let prompts: usize =
        collection.episodes.iter().step_by(4).map(|episode| episode.rows[0].prompt_ids.len()).sum();
    let between: usize = collection
        .rows()
        .map(|row| row.response_mask.iter().filter(|&&on| !on).count() + row.turns.len() - 1)
        .sum();
    assert_eq!(stats.prefilled as usize, prompts + between);
    assert!(stats.reused > stats.prefilled, "{stats:?}");

    let steps = collect(&world, &options(Layout::Step), &mut [engine(&model, 64, 1 << 20)]).stats;
    assert!(steps.source.reused > 0, "{:?}", steps.source);
}

#[test]
fn finished_sessions_make_room_and_none_is_padded() {
    let model = model();
    let prompts: Vec<Context> = (0..20).map(|index| vec![29, 306, 265 + index].into()).collect();
    let options = BatchOptions {
        sampling: Sampling::at(1.0),
        max_new_tokens: 40,
        stream: StreamKey::new(3, Purpose::Analysis),
    };
    let mut engines = [engine(&model, 6, 4096)];
    let found = generate_batch(&mut engines, &prompts, &options, &|_| ()).unwrap();
    let lengths: Vec<usize> = found.iter().map(|completion| completion.ids.len()).collect();
    let stats = engines[0].stats();
    assert_eq!(stats.sampled as usize, lengths.iter().sum::<usize>());
    assert_eq!(stats.prefilled, 60);
    // in fixed batches of six, each would take as long as its longest
    let fixed: usize = lengths.chunks(6).map(|batch| batch.iter().max().unwrap() + 1).sum();
    assert!((stats.forwards as usize) < 2 * fixed, "{} forwards, {fixed}", stats.forwards);
    for completion in &found {
        let ended = completion.ids.last() == Some(&END);
        assert_eq!(completion.finish == Finish::End, ended);
        assert!(completion.ids.iter().rev().skip(1).all(|&id| id != END), "nothing after an end token");
    }
    assert_eq!(engines[0].pending(), 0);
}

#[test]
fn requests_that_cannot_be_served_are_refused() {
    let model = model();
    let mut engine = engine(&model, 2, 64);
    let request = |session: u64, context: usize, max_new_tokens: usize| Request {
        session: SessionId(session),
        context: vec![5; context].into(),
        sampling: Sampling::default(),
        max_new_tokens,
        stream: StreamKey::new(0, Purpose::Rollout),
        shared_by: 1,
    };
    let refused = engine.submit(request(0, 0, 5)).unwrap_err();
    assert!(matches!(refused, SourceError::EmptyContext { .. }), "{refused}");
    let refused = engine.submit(request(0, 510, 3)).unwrap_err();
    assert!(matches!(refused, SourceError::ContextFull { tokens: 510, limit: 512, .. }), "{refused}");
    engine.submit(request(0, 510, 2)).unwrap();
    let refused = engine.submit(request(0, 4, 2)).unwrap_err();
    assert!(matches!(refused, SourceError::Busy { .. }), "{refused}");
    let bad = Request { sampling: Sampling::at(-1.0), ..request(1, 4, 2) };
    assert!(matches!(engine.submit(bad).unwrap_err(), SourceError::Sampling(_)));
}

#[test]
fn new_weights_forget_what_the_old_ones_computed() {
    let (first, second) = (model(), CausalLm::init(model().config(), 9, &model().device()));
    let world = worlds::household();
    let options = CollectOptions {
        max_prompt_tokens: 300,
        max_row_tokens: 512,
        max_steps: 2,
        ..options(Layout::Transcript)
    };
    let mut moved = [engine(&first, 8, 4096)];
    collect(&world, &options, &mut moved);
    moved[0].set_model(second.clone());
    let found = collect(&world, &options, &mut moved);
    assert_eq!(found.episodes, collect(&world, &options, &mut [engine(&second, 8, 4096)]).episodes);
}
