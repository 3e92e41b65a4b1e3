use crate::shared::shared;
use proptest::prelude::*;
use seed_rollout::sampler::{PickError, Purpose, Sampler, Sampling, SamplingError, StreamKey};
use std::collections::HashSet;

fn key(turn: u64) -> StreamKey {
    StreamKey { turn, ..StreamKey::new(7, Purpose::Rollout) }
}

/// How often each id is picked in `draws` streams.
fn frequencies(logits: &[f32], vocabulary: usize, sampling: Sampling, draws: u64) -> Vec<f64> {
    let mut sampler = Sampler::new(vocabulary);
    let mut counts = vec![0.0; logits.len()];
    for turn in 0..draws {
        let pick = sampler.pick(logits, &sampling, &mut key(turn).stream()).unwrap();
        counts[pick.id as usize] += 1.0 / draws as f64;
    }
    counts
}

#[test]
fn every_part_of_the_key_names_another_stream() {
    let base = key(0);
    let keys = [
        base,
        StreamKey { run_seed: 8, ..base },
        StreamKey { purpose: Purpose::Evaluation, ..base },
        StreamKey { purpose: Purpose::Analysis, ..base },
        StreamKey { purpose: Purpose::Environment, ..base },
        StreamKey { update: 1, ..base },
        StreamKey { group: 1, ..base },
        StreamKey { episode: 1, ..base },
        StreamKey { turn: 1, ..base },
    ];
    let seeds: HashSet<u64> = keys.iter().map(|key| key.seed()).collect();
    assert_eq!(seeds.len(), keys.len());
    assert_eq!(base.seed(), key(0).seed());
}

/// Streams are documented (docs/rollouts.md); the number comes from a separate program.
#[test]
fn the_first_stream_is_known() {
    assert_eq!(StreamKey::new(0, Purpose::Rollout).seed(), 1_397_920_386_477_351_848);
}

#[test]
fn log_probabilities_are_those_of_the_vectors() {
    let vectors = std::fs::read_to_string(shared("vectors/losses.json")).unwrap();
    let vectors: serde_json::Value = serde_json::from_str(&vectors).unwrap();
    let numbers = |value: &serde_json::Value| -> Vec<f64> {
        value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
    };
    let mut compared = 0;
    for case in vectors["cases"].as_array().unwrap().iter().filter(|case| case["kind"] == "selected_logprob")
    {
        let temperature = case["config"]["temperature"].as_f64().unwrap_or(1.0);
        for (row, logits) in case["inputs"]["logits"].as_array().unwrap().iter().enumerate() {
            for (place, logits) in logits.as_array().unwrap().iter().enumerate() {
                let logits: Vec<f32> = numbers(logits).iter().map(|&logit| logit as f32).collect();
                let token = case["inputs"]["tokens"][row][place].as_u64().unwrap() as u32;
                let expected = numbers(&case["expected"]["logp"][row])[place];
                // the inputs are rounded to f32
                let size = logits.iter().fold(1.0, |size: f64, &logit| size.max(f64::from(logit).abs()));
                let mut sampler = Sampler::new(logits.len());
                for turn in 0..300 {
                    let sampling = Sampling::at(temperature);
                    let pick = sampler.pick(&logits, &sampling, &mut key(turn).stream()).unwrap();
                    if pick.id == token {
                        assert!((f64::from(pick.logp) - expected).abs() < 2e-6 * size, "{}", case["id"]);
                        compared += 1;
                    }
                }
            }
        }
    }
    assert!(compared > 100, "only {compared} draws met a token of the vectors");
}

#[test]
fn draws_follow_the_softmax_at_every_temperature() {
    let logits = [1.0f32, 0.0, -1.0, 2.5, -3.0];
    for temperature in [0.4, 1.0, 2.0] {
        let weights: Vec<f64> = logits.iter().map(|&logit| (f64::from(logit) / temperature).exp()).collect();
        let total: f64 = weights.iter().sum();
        let draws = 20_000;
        let found = frequencies(&logits, 5, Sampling::at(temperature), draws);
        for (found, weight) in found.iter().zip(weights) {
            let p = weight / total;
            let deviation = (p * (1.0 - p) / draws as f64).sqrt();
            assert!((found - p).abs() < 4.5 * deviation + 1e-9, "found {found}, expected {p}");
        }
    }
}

#[test]
fn filters_keep_the_most_probable_tokens_only() {
    let logits = [0.1f32.ln(), 0.4f32.ln(), 0.3f32.ln(), 0.2f32.ln()];
    let kept = |sampling: Sampling| -> Vec<usize> {
        let found = frequencies(&logits, 4, sampling, 2000);
        (0..4).filter(|&id| found[id] > 0.0).collect()
    };
    assert_eq!(kept(Sampling { top_k: Some(2), ..Sampling::default() }), [1, 2]);
    assert_eq!(kept(Sampling { top_p: 0.75, ..Sampling::default() }), [1, 2, 3]);
    assert_eq!(kept(Sampling { top_p: 0.1, ..Sampling::default() }), [1]);
    assert_eq!(kept(Sampling::default()), [0, 1, 2, 3]);
}

#[test]
fn filters_are_refused_in_training() {
    let refused = |sampling: Sampling| sampling.check_for_training().unwrap_err();
    assert_eq!(
        refused(Sampling { top_p: 0.9, ..Sampling::default() }),
        SamplingError::Filtered { key: "top_p" }
    );
    assert_eq!(
        refused(Sampling { top_k: Some(5), ..Sampling::default() }),
        SamplingError::Filtered { key: "top_k" }
    );
    assert_eq!(refused(Sampling::greedy()), SamplingError::Filtered { key: "temperature = 0" });
    assert_eq!(Sampling::at(0.7).check_for_training(), Ok(()));
    assert_eq!(Sampling { top_p: 0.9, ..Sampling::greedy() }.check(), Ok(()));
    for temperature in [f64::NAN, -1.0, f64::INFINITY] {
        assert!(Sampling::at(temperature).check().is_err());
    }
}

#[test]
fn damaged_logits_are_an_error() {
    let mut sampler = Sampler::new(3);
    let mut pick = |logits: &[f32]| sampler.pick(logits, &Sampling::default(), &mut key(0).stream());
    assert_eq!(pick(&[0.0, f32::NAN, 0.0]).unwrap_err(), PickError::NotFinite);
    assert_eq!(pick(&[0.0, f32::INFINITY, 0.0]).unwrap_err(), PickError::NotFinite);
    assert_eq!(pick(&[f32::NEG_INFINITY; 3]).unwrap_err(), PickError::NotFinite);
    assert!(matches!(pick(&[]).unwrap_err(), PickError::NoVocabulary { .. }));
    assert_eq!(pick(&[f32::NEG_INFINITY, 1.0, f32::NEG_INFINITY]).unwrap().id, 1);
}

proptest! {
    /// However probable the rows beyond the tokenizer are, they are never picked, and the log-probability still
    /// counts them: it is the one that training computes.
    #[test]
    fn ids_beyond_the_tokenizer_are_never_picked(
        inside in proptest::collection::vec(-5.0f32..5.0, 1..20),
        outside in proptest::collection::vec(0.0f32..30.0, 1..10),
        temperature in prop_oneof![Just(0.0), 0.1f64..3.0],
        top_k in proptest::option::of(1usize..40),
        top_p in 0.05f64..=1.0,
        turn in 0u64..1000,
    ) {
        let logits = [inside.as_slice(), &outside].concat();
        let sampling = Sampling { temperature, top_k, top_p };
        let pick = Sampler::new(inside.len()).pick(&logits, &sampling, &mut key(turn).stream()).unwrap();
        prop_assert!((pick.id as usize) < inside.len());
        let scaled = |id: usize| f64::from(logits[id]) / sampling.scoring_temperature();
        let top = (0..logits.len()).map(scaled).fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = (0..logits.len()).map(|id| (scaled(id) - top).exp()).sum();
        let expected = scaled(pick.id as usize) - top - total.ln();
        prop_assert!((f64::from(pick.logp) - expected).abs() < 1e-5 * (1.0 + expected.abs()), "{} {}", pick.logp, expected);
    }

    #[test]
    fn greedy_takes_the_first_of_the_largest(logits in proptest::collection::vec(-3i8..3, 1..30)) {
        let logits: Vec<f32> = logits.into_iter().map(f32::from).collect();
        let pick = Sampler::new(logits.len()).pick(&logits, &Sampling::greedy(), &mut key(0).stream()).unwrap();
        let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        prop_assert_eq!(pick.id as usize, logits.iter().position(|&logit| logit == top).unwrap());
    }
}
