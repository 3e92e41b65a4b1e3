//! The cache against the full forward pass; generation against scoring.

use crate::ops::numbers;
use burn::tensor::{Device, Tensor};
use proptest::prelude::*;
use seed_model::generate::{
    Decoder, Decoding, Draw, Filter, Finish, GenerateError, GenerateOptions, Seeds, TrainingSampling,
};
use seed_model::{
    CacheError, CacheLayout, CausalLm, KvCache, ModelConfig, PackedBatch, ScoreRow, generate, score,
};

const PAGED: CacheLayout = CacheLayout::Paged { max_tokens: None };

fn config(heads: usize, kv_heads: usize) -> ModelConfig {
    let text = format!(
        r#"{{"model_type": "qwen2", "vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": {heads}, "num_key_value_heads": {kv_heads}, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
        "tie_word_embeddings": true, "max_position_embeddings": 512, "initializer_range": 0.3}}"#
    );
    ModelConfig::from_json(serde_json::from_str(&text).expect("JSON")).expect("a valid configuration")
}

fn model() -> CausalLm {
    CausalLm::init(&config(4, 2), 5, &Device::flex())
}

fn ids(count: usize, seed: u64) -> Vec<u32> {
    numbers(count, seed).into_iter().map(|x| ((x + 1.0) * 48.0) as u32).collect()
}

fn values<const R: usize>(tensor: &Tensor<R>) -> Vec<f32> {
    tensor.clone().into_data().try_into_vec().expect("f32")
}

fn hidden_alone(model: &CausalLm, ids: &[u32]) -> Vec<f32> {
    values(&model.hidden(&PackedBatch::new(&[ids])))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Any way of feeding sequences to a cache gives the bits of the full forward pass.
    #[test]
    fn cache_equals_no_cache(
        pieces in prop::collection::vec(prop::collection::vec(1usize..40, 1..5), 1..4),
        (heads, kv_heads) in prop::sample::select(vec![(4, 2), (4, 4), (4, 1)]),
        fixed: bool,
    ) {
        let model = CausalLm::init(&config(heads, kv_heads), 3, &Device::flex());
        let layout = if fixed { CacheLayout::Static { max_len: 200 } } else { PAGED };
        let mut cache = KvCache::new(&model, layout);
        let sequences: Vec<Vec<u32>> = pieces.iter().enumerate().map(|(i, p)| ids(p.iter().sum(), i as u64 + 1)).collect();
        let slots: Vec<_> = pieces.iter().map(|_| cache.add()).collect();
        let mut found: Vec<Vec<f32>> = vec![Vec::new(); pieces.len()];
        for round in 0..4 {
            let rows: Vec<usize> = (0..pieces.len()).filter(|i| round < pieces[*i].len()).collect();
            if rows.is_empty() {
                break;
            }
            let parts: Vec<_> = rows.iter().map(|&i| {
                let start: usize = pieces[i][..round].iter().sum();
                (slots[i], &sequences[i][start..start + pieces[i][round]])
            }).collect();
            let hidden = values(&model.extend(&mut cache, &parts).expect("room"));
            let mut from = 0;
            for (&i, (_, ids)) in rows.iter().zip(&parts) {
                found[i].extend(&hidden[from..from + ids.len() * 32]);
                from += ids.len() * 32;
            }
        }
        for (sequence, found) in sequences.iter().zip(found) {
            prop_assert_eq!(found, hidden_alone(&model, sequence));
        }
    }

    #[test]
    fn forks_go_their_own_ways(shared in 1usize..80, left in 1usize..40, right in 1usize..40, fixed: bool) {
        let model = model();
        let layout = if fixed { CacheLayout::Static { max_len: 150 } } else { PAGED };
        let mut cache = KvCache::new(&model, layout);
        let (prefix, a, b) = (ids(shared, 1), ids(left, 2), ids(right, 3));
        let first = cache.add();
        model.extend(&mut cache, &[(first, &prefix)]).expect("room");
        let before = cache.bytes();
        let second = cache.fork(first);
        prop_assert_eq!(cache.bytes(), if fixed { 2 * before } else { before });
        let both = values(&model.extend(&mut cache, &[(first, &a), (second, &b)]).expect("room"));
        let whole = |tail: &[u32]| hidden_alone(&model, &[&prefix, tail].concat())[shared * 32..].to_vec();
        prop_assert_eq!(&both[..left * 32], &whole(&a)[..]);
        prop_assert_eq!(&both[left * 32..], &whole(&b)[..]);
        // cut one back and let it go the other's way
        cache.truncate(first, shared);
        let again = values(&model.extend(&mut cache, &[(first, &b)]).expect("room"));
        prop_assert_eq!(again, whole(&b));
        cache.free(first);
        cache.free(second);
        prop_assert_eq!((cache.bytes(), cache.is_empty()), (0, true));
    }

    /// A response depends neither on the other prompts nor on the size of the batch.
    #[test]
    fn company_does_not_change_a_response(count in 2usize..6, max_batch in 1usize..6, seed in 0u64..100) {
        let model = model();
        let prompts: Vec<Vec<u32>> = (0..count).map(|i| ids(1 + (i * 13) % 40, seed + i as u64 % 2)).collect();
        let seeds: Vec<u64> = (0..count as u64).map(|i| seed * 10 + i).collect();
        let options = GenerateOptions {
            seeds: Seeds::Each(seeds.clone()), max_tokens: 24, stop_ids: vec![7, 50], max_batch, vocab_limit: Some(90), ..Default::default()
        };
        let all = generate(&model, &prompts, &options).expect("valid");
        for (i, generation) in all.iter().enumerate() {
            let one = GenerateOptions { seeds: Seeds::Each(vec![seeds[i]]), ..options.clone() };
            let alone = generate(&model, &prompts[i..=i], &one).expect("valid");
            prop_assert_eq!(generation, &alone[0]);
            prop_assert!(generation.ids.iter().all(|id| *id < 90));
            let stopped = generation.ids.iter().position(|id| [7, 50].contains(id));
            match generation.finish {
                Finish::Stop => prop_assert_eq!(stopped, Some(generation.ids.len() - 1)),
                Finish::Length => prop_assert_eq!((stopped, generation.ids.len()), (None, 24)),
            }
        }
    }
}

/// The log-probabilities that generation returns are, bit for bit, those that scoring gives.
#[test]
fn generation_and_scoring_agree() {
    let model = model();
    let prompts: Vec<Vec<u32>> = (0..5).map(|i| ids(3 + 11 * i, i as u64)).collect();
    for decoding in [
        Decoding::Greedy,
        Decoding::Sample(TrainingSampling { temperature: 0.6 }),
        Decoding::Filtered(Filter { temperature: 1.3, top_k: Some(5), top_p: Some(0.9) }),
    ] {
        let options = GenerateOptions { decoding, max_tokens: 40, ..Default::default() };
        let generations = generate(&model, &prompts, &options).expect("valid");
        let rows: Vec<ScoreRow> =
            prompts.iter().zip(&generations).map(|(prompt, g)| ScoreRow::new(prompt, &g.ids)).collect();
        let scores = score(&model, &rows, decoding.temperature(), false).expect("valid rows");
        let generated: Vec<f32> = generations.iter().flat_map(|g| g.logp.clone()).collect();
        assert_eq!(values(&scores.logp), generated, "{decoding:?}");
    }
}

#[test]
fn greedy_takes_the_largest_logit() {
    let model = model();
    let prompt = ids(9, 4);
    let options = GenerateOptions { decoding: Decoding::Greedy, max_tokens: 12, ..Default::default() };
    let found = generate(&model, std::slice::from_ref(&prompt), &options).expect("valid").remove(0);
    let mut sequence = prompt;
    for id in &found.ids {
        let logits = values(&model.logits(&PackedBatch::new(&[&sequence])));
        let last = &logits[logits.len() - 97..];
        let best = (0..97).fold(0, |best, i| if last[i] > last[best] { i } else { best });
        assert_eq!(*id as usize, best);
        sequence.push(*id);
    }
}

/// Frequencies of many draws follow the softmax at the temperature; filters cut what they should.
#[test]
fn samples_follow_the_distribution() {
    let model = model();
    let prompt = ids(9, 4);
    let mut decoder = Decoder::new(&model, PAGED);
    let (slots, logits) = decoder.add(&[&prompt]).expect("room");
    assert_eq!(decoder.cache().len(slots[0]), 9);
    let row: Vec<f64> = logits.row(0).iter().map(|x| f64::from(*x)).collect();
    let temperature = 0.8;
    let top = row.iter().copied().fold(f64::MIN, f64::max);
    let weights: Vec<f64> = row.iter().map(|x| ((x - top) / temperature).exp()).collect();
    let total: f64 = weights.iter().sum();
    let mut order: Vec<usize> = (0..97).collect();
    order.sort_by(|a, b| weights[*b].total_cmp(&weights[*a]));
    let draws = 20_000u64;
    let frequencies = |decoding: Decoding| {
        let mut counts = vec![0usize; 97];
        for index in 0..draws {
            counts[logits.choose(&decoding, None, &[Draw { seed: 11, stream: 2, index }])[0].id as usize] +=
                1;
        }
        counts
    };
    let counts = frequencies(Decoding::Sample(TrainingSampling { temperature }));
    for (count, weight) in counts.iter().zip(&weights) {
        let p = weight / total;
        let deviation = (p * (1.0 - p) / draws as f64).sqrt();
        assert!(
            (*count as f64 / draws as f64 - p).abs() < 5.0 * deviation + 1e-9,
            "{count} of {draws} at {p}"
        );
    }
    let kept =
        |counts: &[usize]| (0..97).filter(|i| counts[*i] > 0).collect::<std::collections::BTreeSet<_>>();
    let five = frequencies(Decoding::Filtered(Filter { temperature, top_k: Some(5), top_p: None }));
    assert_eq!(kept(&five), order[..5].iter().copied().collect());
    let mut sum = 0.0;
    let most = order
        .iter()
        .take_while(|i| {
            let open = sum < 0.5 * total;
            sum += weights[**i];
            open
        })
        .count();
    let half = frequencies(Decoding::Filtered(Filter { temperature, top_k: None, top_p: Some(0.5) }));
    assert_eq!(kept(&half), order[..most].iter().copied().collect());
}

#[test]
fn wrong_requests_say_what_is_wrong() {
    let model = model();
    let options = GenerateOptions { max_tokens: 3, ..Default::default() };
    let error = |prompts: &[Vec<u32>], options: &GenerateOptions| {
        generate(&model, prompts, options).expect_err("refused").to_string()
    };
    assert!(error(&[vec![1], vec![]], &options).starts_with("prompt 1 has no tokens"));
    assert_eq!(error(&[vec![97]], &options), "id 97 is not below the vocabulary size 97");
    let seeds = GenerateOptions { seeds: Seeds::Each(vec![1, 2]), ..options.clone() };
    assert!(error(&[vec![1]], &seeds).starts_with("2 seeds for 1 prompts"));
    let cold = GenerateOptions {
        decoding: Decoding::Sample(TrainingSampling { temperature: 0.0 }),
        ..options.clone()
    };
    assert!(error(&[vec![1]], &cold).starts_with("option `temperature` is 0"));
    let short = GenerateOptions { layout: CacheLayout::Static { max_len: 4 }, ..options };
    let full = generate(&model, &[vec![1, 2, 3]], &short).expect_err("refused");
    assert_eq!(full, GenerateError::Cache(CacheError::SlotFull { len: 4, added: 1, max: 4 }));
}

#[test]
fn pages_run_out_and_come_back() {
    let model = model();
    let mut cache = KvCache::new(&model, CacheLayout::Paged { max_tokens: Some(96) });
    let (a, b) = (cache.add(), cache.add());
    model.extend(&mut cache, &[(a, &ids(64, 1))]).expect("two pages of three");
    let full = model.extend(&mut cache, &[(b, &ids(33, 2))]).expect_err("two more do not fit");
    assert_eq!((full, cache.len(b)), (CacheError::OutOfPages { needed: 2, left: 1 }, 0));
    cache.free(a);
    model.extend(&mut cache, &[(b, &ids(33, 2))]).expect("now they do");
}

/// The form for other devices and types, run on the CPU in bf16 and compared with itself uncached.
#[test]
fn the_portable_cache_equals_no_cache() {
    use burn::module::Module;
    use burn::tensor::FloatDType;
    struct Cast;
    impl burn::module::ModuleMapper for Cast {
        fn map_float<const D: usize>(
            &mut self,
            param: burn::module::Param<Tensor<D>>,
        ) -> burn::module::Param<Tensor<D>> {
            let (id, tensor, mapper) = param.consume();
            burn::module::Param::from_mapped_value(id, tensor.cast(FloatDType::BF16), mapper)
        }
    }
    let model = model().map(&mut Cast);
    let mut cache = KvCache::new(&model, PAGED);
    let (a, b) = (cache.add(), cache.add());
    let (x, y) = (ids(70, 1), ids(20, 2));
    let float = |t: Tensor<2>| values(&t.cast(FloatDType::F32));
    model.extend(&mut cache, &[(a, &x[..60]), (b, &y[..19])]).expect("room");
    let c = cache.fork(b);
    let tail = float(model.extend(&mut cache, &[(a, &x[60..]), (c, &y[19..])]).expect("room"));
    let full = float(model.hidden(&PackedBatch::new(&[x.clone(), y.clone()])));
    let wanted = [&full[60 * 32..70 * 32], &full[89 * 32..]].concat();
    // bf16 has 8 bits; products of different shapes round differently
    for (found, wanted) in tail.iter().zip(&wanted) {
        assert!((found - wanted).abs() < 0.06, "{found} against {wanted}");
    }
    assert_eq!((cache.len(a), cache.len(b), cache.len(c)), (70, 19, 20));
}
