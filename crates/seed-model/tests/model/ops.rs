//! Fused operators against their portable definitions, finite differences, and themselves cut differently.

use burn::tensor::{DType, Device, FloatDType, Tensor, TensorData};
use proptest::prelude::*;
use seed_model::ops::{self, chunked, portable};

/// Values in (-1, 1) from a seed, spread by a multiplicative generator.
pub(crate) fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / 8_388_608.0 - 1.0
        })
        .collect()
}

fn leaf<const R: usize>(shape: [usize; R], seed: u64) -> Tensor<R> {
    let data = TensorData::new(numbers(shape.iter().product(), seed), shape);
    Tensor::from_data(data, &Device::flex().autodiff()).require_grad()
}

fn values<const R: usize>(tensor: &Tensor<R>) -> Vec<f32> {
    tensor.clone().into_data().try_into_vec().expect("f32")
}

#[track_caller]
fn close(found: &[f32], wanted: &[f32], tolerance: f32, what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}: lengths");
    for (i, (a, b)) in found.iter().zip(wanted).enumerate() {
        assert!((a - b).abs() <= tolerance * (1.0 + b.abs()), "{what}[{i}]: {a} against {b}");
    }
}

/// A scalar that weighs every output differently, so that no gradient cancels.
fn weigh<const R: usize>(y: &Tensor<R>, seed: u64) -> Tensor<1> {
    let shape = y.dims();
    let data = TensorData::new(numbers(shape.iter().product(), seed), shape);
    (y.clone() * Tensor::from_data(data, &Device::flex().autodiff())).sum()
}

/// Compares outputs and all gradients of two forms of one function.
macro_rules! agree {
    ($name:literal, [$($leaf:ident),+], $fused:expr, $portable:expr) => {{
        let (fused, portable) = ($fused, $portable);
        close(&values(&fused), &values(&portable), 1e-5, $name);
        let (found, wanted) = (weigh(&fused, 99).backward(), weigh(&portable, 99).backward());
        $(
            let (a, b) = ($leaf.grad(&found).expect("a gradient"), $leaf.grad(&wanted).expect("a gradient"));
            close(&values(&a), &values(&b), 1e-5, concat!($name, ": gradient of ", stringify!($leaf)));
        )+
    }};
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn linear_equals_its_definition(tokens in 1usize..70, inner in 1usize..90, out in 1usize..90, seed in 0u64..1000, bias: bool) {
        let (x, w, b) = (leaf([tokens, inner], seed), leaf([out, inner], seed + 1), leaf([out], seed + 2));
        if bias {
            agree!("linear", [x, w, b], ops::linear(x.clone(), w.clone(), Some(b.clone())), portable::linear(x.clone(), w.clone(), Some(b.clone())));
        } else {
            agree!("linear", [x, w], ops::linear(x.clone(), w.clone(), None), portable::linear(x.clone(), w.clone(), None));
        }
    }

    #[test]
    fn norm_equals_its_definition(tokens in 1usize..300, width in 1usize..140, seed in 0u64..1000) {
        let (x, w) = (leaf([tokens, width], seed), leaf([width], seed + 1));
        agree!("norm", [x, w], ops::rms_norm(x.clone(), w.clone(), 1e-6), portable::rms_norm(x.clone(), w.clone(), 1e-6));
    }

    #[test]
    fn gate_equals_its_definition(tokens in 1usize..40, width in 1usize..140, seed in 0u64..1000, size in 0.1f64..30.0) {
        let (a, b) = (leaf([tokens, width], seed), leaf([tokens, width], seed + 1));
        let wide = || a.clone().mul_scalar(size);
        agree!("gate", [a, b], ops::gated_mlp(wide(), b.clone()), portable::gated_mlp(wide(), b.clone()));
    }

    #[test]
    fn rotary_equals_its_definition(tokens in 1usize..40, heads in 1usize..5, half in 1usize..40, seed in 0u64..1000) {
        let x = leaf([tokens, heads, 2 * half], seed);
        let (cos, sin) = (leaf([tokens, half], seed + 1).detach(), leaf([tokens, half], seed + 2).detach());
        agree!("rotary", [x], ops::rotary(x.clone(), cos.clone(), sin.clone()), portable::rotary(x.clone(), cos, sin));
    }

    #[test]
    fn embedding_equals_its_definition(ids in prop::collection::vec(0u32..30, 1..80), width in 1usize..40, seed in 0u64..1000) {
        let table = leaf([30, width], seed);
        agree!("embedding", [table], ops::embedding(table.clone(), &ids), portable::embedding(table.clone(), &ids));
    }

    #[test]
    fn attention_equals_its_definition(lengths in prop::collection::vec(0usize..75, 1..4), kv_heads in 1usize..3, group in 1usize..4, dim in 1usize..36, seed in 0u64..1000) {
        let tokens: usize = lengths.iter().sum();
        prop_assume!(tokens > 0);
        let (q, k, v) = (leaf([tokens, kv_heads * group, dim], seed), leaf([tokens, kv_heads, dim], seed + 1), leaf([tokens, kv_heads, dim], seed + 2));
        let scale = 1.0 / (dim as f64).sqrt();
        agree!("attention", [q, k, v], ops::causal_attention(q.clone(), k.clone(), v.clone(), &lengths, scale), portable::causal_attention(q.clone(), k.clone(), v.clone(), &lengths, scale));
    }

    #[test]
    fn full_attention_equals_its_definition(lengths in prop::collection::vec(0usize..75, 1..4), kv_heads in 1usize..3, group in 1usize..4, dim in 1usize..36, seed in 0u64..1000) {
        let tokens: usize = lengths.iter().sum();
        prop_assume!(tokens > 0);
        let (q, k, v) = (leaf([tokens, kv_heads * group, dim], seed), leaf([tokens, kv_heads, dim], seed + 1), leaf([tokens, kv_heads, dim], seed + 2));
        let scale = 1.0 / (dim as f64).sqrt();
        agree!("full attention", [q, k, v], ops::full_attention(q.clone(), k.clone(), v.clone(), &lengths, scale), portable::full_attention(q.clone(), k.clone(), v.clone(), &lengths, scale));
    }

    #[test]
    fn logprob_equals_its_definition(tokens in 1usize..40, width in 1usize..40, vocabulary in 2usize..2500, temperature in 0.3f64..2.0, transposed: bool, seed in 0u64..1000) {
        let hidden = leaf([tokens, width], seed);
        let targets: Vec<u32> = (0..tokens).map(|t| ((t as u64 * 7919 + seed) % vocabulary as u64) as u32).collect();
        let head = if transposed { leaf([width, vocabulary], seed + 1) } else { leaf([vocabulary, width], seed + 1) };
        let view = || if transposed { head.clone().transpose() } else { head.clone() };
        let fused = || ops::selected_logprob(hidden.clone(), view(), &targets, temperature, true);
        let plain = || portable::selected_logprob(hidden.clone(), view(), &targets, temperature, true);
        agree!("logp", [hidden, head], fused().logp, plain().logp);
        agree!("entropy", [hidden, head], fused().entropy.expect("asked for"), plain().entropy.expect("asked for"));
        let alone = ops::selected_logprob(hidden.clone(), view(), &targets, temperature, false);
        prop_assert_eq!(values(&alone.logp), values(&fused().logp));
    }

    #[test]
    fn chunks_of_rows_equal_the_definition(tokens in 1usize..12, rows in 1usize..14, vocabulary in 2usize..60, temperature in 0.3f64..2.0, transposed: bool, seed in 0u64..1000) {
        let hidden = leaf([tokens, 9], seed);
        let targets: Vec<u32> = (0..tokens).map(|t| ((t as u64 * 7919 + seed) % vocabulary as u64) as u32).collect();
        let head = if transposed { leaf([9, vocabulary], seed + 1) } else { leaf([vocabulary, 9], seed + 1) };
        let view = || if transposed { head.clone().transpose() } else { head.clone() };
        let chunked = |entropy| chunked::selected_logprob(hidden.clone(), view(), &targets, temperature, entropy, rows);
        let plain = || portable::selected_logprob(hidden.clone(), view(), &targets, temperature, true);
        agree!("logp in chunks", [hidden, head], chunked(false).logp, plain().logp);
        agree!("logp beside entropy", [hidden, head], chunked(true).logp, plain().logp);
        agree!("entropy in chunks", [hidden, head], chunked(true).entropy.expect("asked for"), plain().entropy.expect("asked for"));
        prop_assert!(chunked(false).entropy.is_none());
    }

    /// A token's numbers do not depend on the rows around it: bit for bit.
    #[test]
    fn company_does_not_matter(lengths in prop::collection::vec(1usize..60, 2..5), chosen in 0usize..5, seed in 0u64..1000) {
        let chosen = chosen % lengths.len();
        let (start, len) = (lengths[..chosen].iter().sum::<usize>(), lengths[chosen]);
        let tokens: usize = lengths.iter().sum();
        let (q, k, v) = (leaf([tokens, 4, 12], seed), leaf([tokens, 2, 12], seed + 1), leaf([tokens, 2, 12], seed + 2));
        let all = ops::causal_attention(q.clone(), k.clone(), v.clone(), &lengths, 0.3).narrow(0, start, len);
        let part = |x: &Tensor<3>| x.clone().narrow(0, start, len);
        let alone = ops::causal_attention(part(&q), part(&k), part(&v), &[len], 0.3);
        prop_assert_eq!(values(&all), values(&alone));

        let (hidden, head) = (leaf([tokens, 24], seed + 3), leaf([1500, 24], seed + 4));
        let targets: Vec<u32> = (0..tokens as u32).map(|t| t * 31 % 1500).collect();
        let all = ops::selected_logprob(hidden.clone(), head.clone(), &targets, 0.7, true);
        let alone = ops::selected_logprob(hidden.narrow(0, start, len), head, &targets[start..start + len], 0.7, true);
        prop_assert_eq!(values(&all.logp.narrow(0, start, len)), values(&alone.logp));
        prop_assert_eq!(values(&all.entropy.expect("asked for").narrow(0, start, len)), values(&alone.entropy.expect("asked for")));
    }
}

/// Central differences of a fused operator along one direction, in f64 arithmetic on its f32 outputs.
#[track_caller]
fn differences<const R: usize>(what: &str, x: &Tensor<R>, function: impl Fn(Tensor<R>) -> Tensor<1>) {
    let gradient = values(&x.grad(&function(x.clone()).backward()).expect("a gradient"));
    let direction = numbers(gradient.len(), 7);
    let step = 1e-2f32;
    let at = |sign: f32| {
        let moved: Vec<f32> = values(x).iter().zip(&direction).map(|(x, d)| x + sign * step * d).collect();
        let moved = Tensor::<R>::from_data(TensorData::new(moved, x.dims()), &Device::flex().autodiff());
        f64::from(values(&function(moved))[0])
    };
    let found: f64 = gradient.iter().zip(&direction).map(|(g, d)| f64::from(g * d)).sum();
    let wanted = (at(1.0) - at(-1.0)) / (2.0 * f64::from(step));
    assert!((found - wanted).abs() < 2e-3 * (1.0 + wanted.abs()), "{what}: {found} against {wanted}");
}

#[test]
fn gradients_equal_finite_differences() {
    let (q, k, v) = (leaf([37, 4, 8], 1), leaf([37, 2, 8], 2), leaf([37, 2, 8], 3));
    let attention = |q, k, v| weigh(&ops::causal_attention(q, k, v, &[20, 17], 0.35), 4);
    differences("attention, queries", &q, |q| attention(q, k.clone(), v.clone()));
    differences("attention, keys", &k, |k| attention(q.clone(), k, v.clone()));
    differences("attention, values", &v, |v| attention(q.clone(), k.clone(), v));
    let full = |q, k, v| weigh(&ops::full_attention(q, k, v, &[20, 17], 0.35), 4);
    differences("full attention, queries", &q, |q| full(q, k.clone(), v.clone()));
    differences("full attention, keys", &k, |k| full(q.clone(), k, v.clone()));
    differences("full attention, values", &v, |v| full(q.clone(), k.clone(), v));
    let (hidden, head) = (leaf([9, 12], 5), leaf([1100, 12], 6));
    let targets = [0, 1099, 1023, 1024, 5, 5, 600, 7, 8];
    let both = |hidden, head| {
        let out = ops::selected_logprob(hidden, head, &targets, 0.8, true);
        weigh(&out.logp, 8) + weigh(&out.entropy.expect("asked for"), 9)
    };
    differences("log-probability, hidden", &hidden, |hidden| both(hidden, head.clone()));
    differences("log-probability, head", &head, |head| both(hidden.clone(), head));
    let (x, weight) = (leaf([5, 33], 10), leaf([33], 11));
    differences("norm", &x, |x| weigh(&ops::rms_norm(x, weight.clone(), 1e-6), 12));
    differences("gate", &x, |x| weigh(&ops::gated_mlp(x.clone(), x), 13));
}

#[test]
fn threads_do_not_matter() {
    let work = || {
        let (q, k, v) = (leaf([300, 4, 16], 1), leaf([300, 2, 16], 2), leaf([300, 2, 16], 3));
        let y = ops::causal_attention(q.clone(), k.clone(), v.clone(), &[170, 130], 0.25);
        let (x, w, head) = (y.clone().reshape([300, 64]), leaf([64], 4), leaf([700, 64], 5));
        let x = ops::linear(ops::rms_norm(x, w.clone(), 1e-6), leaf([64, 64], 6), None);
        let targets: Vec<u32> = (0..300).collect();
        let loss = weigh(&ops::selected_logprob(x, head.clone(), &targets, 1.0, false).logp, 7);
        let gradients = loss.backward();
        [
            values(&q.grad(&gradients).unwrap()),
            values(&k.grad(&gradients).unwrap()),
            values(&w.grad(&gradients).unwrap()),
            values(&head.grad(&gradients).unwrap()),
            values(&loss),
        ]
    };
    let run = |threads: usize| {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool").install(work)
    };
    assert_eq!(run(1), run(3));
}

#[test]
fn extreme_logits_stay_finite() {
    let device = Device::flex();
    let hidden = Tensor::<2>::from_floats([[1.0], [-1.0]], &device);
    let head = Tensor::<2>::from_floats([[1000.0], [0.0], [-1000.0]], &device);
    let out = ops::selected_logprob(hidden, head, &[0, 0], 1.0, true);
    assert_eq!(values(&out.logp), [0.0, -2000.0]);
    assert_eq!(values(&out.entropy.expect("asked for")), [0.0, 0.0]);
}

#[test]
fn nan_is_not_hidden() {
    let device = Device::flex();
    let hidden = Tensor::<2>::from_floats([[f32::NAN]], &device);
    let head = Tensor::<2>::from_floats([[1.0], [2.0]], &device);
    assert!(values(&ops::selected_logprob(hidden, head, &[0], 1.0, false).logp)[0].is_nan());
    let q = Tensor::<3>::from_floats([[[f32::NAN]], [[1.0]]], &device);
    let y = values(&ops::causal_attention(q.clone(), q.clone().zeros_like(), q.ones_like(), &[2], 1.0));
    assert!(y[0].is_nan() && y[1] == 1.0, "{y:?}");
}

#[test]
fn half_width_scores_and_gradients_are_near_the_wide_ones() {
    let narrow = |tensor: Tensor<2>| tensor.inner().cast(FloatDType::BF16);
    let (hidden, head) = (narrow(leaf([5, 16], 1)), narrow(leaf([30, 16], 2)));
    let targets = [3u32, 29, 0, 7, 7];
    let run = |dtype| {
        let leaf = |tensor: &Tensor<2>| tensor.clone().cast(dtype).autodiff().require_grad();
        let (hidden, head) = (leaf(&hidden), leaf(&head));
        let scored = ops::selected_logprob(hidden.clone(), head.clone(), &targets, 0.8, true);
        let mut gradients = (weigh(&scored.logp, 3) + weigh(&scored.entropy.unwrap(), 4)).backward();
        let gradient = |leaf: &Tensor<2>, gradients: &mut _| leaf.grad_remove(gradients).expect("a gradient");
        let found = [gradient(&hidden, &mut gradients), gradient(&head, &mut gradients)];
        assert!(found.iter().all(|gradient| gradient.dtype() == DType::from(dtype)));
        let wide = found.map(|gradient| values(&gradient.cast(FloatDType::F32)));
        (values(&scored.logp), wide)
    };
    let ((logp, gradients), (wanted, wide)) = (run(FloatDType::BF16), run(FloatDType::F32));
    close(&logp, &wanted, 0.02, "logp");
    for (found, wanted) in gradients.iter().zip(&wide) {
        close(found, wanted, 0.03, "gradient");
    }
}

#[test]
fn a_constant_head_gets_no_gradient_in_chunks() {
    let (hidden, head) = (leaf([5, 4], 1), leaf([7, 4], 2).inner().autodiff());
    let scored = chunked::selected_logprob(hidden.clone(), head.clone(), &[0, 6, 1, 1, 2], 1.0, false, 2);
    let gradients = scored.logp.sum().backward();
    assert!(hidden.grad(&gradients).is_some() && head.grad(&gradients).is_none());
}
