//! What must not matter: company, order, padding, chunks.

use crate::reference::*;
use proptest::prelude::*;
use seed_model::{CausalLm, Family, ModelConfig, PackedBatch, ScoreRow, score};
use std::sync::LazyLock;

/// One model a family; heads that share keys, a head size of its own.
static MODELS: LazyLock<Vec<CausalLm>> = LazyLock::new(|| {
    [Family::Qwen2, Family::Qwen3, Family::Llama]
        .into_iter()
        .map(|family| {
            let mut config = ModelConfig::new(family, 40, 24, 48, 2, (6, 2, 8));
            config.initializer_range = 0.3;
            CausalLm::init(&config, 11, &cpu())
        })
        .collect()
});

fn rows() -> impl Strategy<Value = Vec<(Vec<u32>, Vec<u32>)>> {
    let ids = |range| prop::collection::vec(0u32..40, range);
    prop::collection::vec((ids(1..9), ids(0..7)), 1..6)
}

fn logp(model: &CausalLm, rows: &[(Vec<u32>, Vec<u32>)], temperature: f64) -> Vec<Vec<f32>> {
    let borrowed: Vec<ScoreRow> =
        rows.iter().map(|(prompt, response)| ScoreRow::new(prompt, response)).collect();
    let scores = score(model, &borrowed, temperature, false).unwrap();
    let all = to_vec(scores.logp);
    let mut at = 0;
    scores
        .lengths
        .iter()
        .map(|len| {
            at += len;
            all[at - len..at].to_vec()
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_row_scores_alone_as_in_company_and_in_any_order(rows in rows(), temperature in 0.5f64..2.0, which in 0..3usize) {
        let model = &MODELS[which];
        let together = logp(model, &rows, temperature);
        let mut reversed = rows.clone();
        reversed.reverse();
        let mut backwards = logp(model, &reversed, temperature);
        backwards.reverse();
        for (i, row) in rows.iter().enumerate() {
            let alone = logp(model, std::slice::from_ref(row), temperature).remove(0);
            assert_close("alone", &alone, &together[i], 1e-5);
            assert_close("order", &backwards[i], &together[i], 1e-5);
        }
    }

    #[test]
    fn later_tokens_never_reach_earlier_ones(ids in prop::collection::vec(0u32..40, 2..16), other in 0u32..40, which in 0..3usize) {
        let model = &MODELS[which];
        let mut changed = ids.clone();
        *changed.last_mut().unwrap() = other;
        let kept = (ids.len() - 1) * 40;
        let a = to_vec(model.logits(&PackedBatch::new(&[&ids])));
        let b = to_vec(model.logits(&PackedBatch::new(&[&changed])));
        assert_close("prefix", &a[..kept], &b[..kept], 1e-5);
    }
}

#[test]
fn an_empty_batch_is_empty() {
    let model = &MODELS[0];
    assert_eq!(model.hidden(&PackedBatch::default()).dims(), [0, 24]);
    let scores = score(model, &[], 1.0, true).unwrap();
    assert_eq!((scores.logp.dims(), scores.entropy.unwrap().dims(), scores.lengths.len()), ([0], [0], 0));
}

#[test]
fn weights_depend_on_the_seed_alone() {
    let config = MODELS[0].config();
    let logits =
        |seed| to_vec(CausalLm::init(config, seed, &cpu()).logits(&PackedBatch::new(&[[1u32, 2, 3]])));
    assert_eq!(logits(5), logits(5));
    assert_ne!(logits(5), logits(6));
}
