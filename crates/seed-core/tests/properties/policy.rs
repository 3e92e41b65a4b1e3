//! Policy losses and divergences.

use crate::batch::{Batch, aggregations, all_close, batches, close, config, host, tensor, within};
use burn::tensor::Tensor;
use proptest::prelude::*;
use seed_core::kl::{KlConfig, KlEstimator, kl_tokens};
use seed_core::policy_loss::{ClipConfig, PolicyTokens, clipped_policy_loss, gspo_policy_loss};
use seed_core::{InputError, aggregate};

fn clips() -> impl Strategy<Value = ClipConfig> {
    (0.05f64..0.5, 0.05f64..0.5, prop_oneof![Just(None), (1.2f64..4.0).prop_map(Some)])
        .prop_map(|(low, high, dual)| ClipConfig { low, high, dual })
}

fn policy(batch: &Batch, logp: Tensor<1>, clip: &ClipConfig) -> PolicyTokens {
    clipped_policy_loss(logp, tensor(&batch.old_logp), tensor(&batch.advantage), &batch.rows(), clip).unwrap()
}

/// The gradient of the sum of token losses.
fn slopes(loss: Tensor<1>, logp: &Tensor<1>) -> Vec<f64> {
    host(logp.grad(&loss.sum().backward()).unwrap())
}

/// The definition, one token at a time: loss and derivative by the current log-probability.
fn slow(ratio: f64, advantage: f64, clip: &ClipConfig) -> (f64, f64) {
    let (l1, l2) = (-advantage * ratio, -advantage * ratio.clamp(1.0 - clip.low, 1.0 + clip.high));
    let (mut loss, mut slope) = if l2 > l1 { (l2, 0.0) } else { (l1, l1) };
    if let Some(dual) = clip.dual
        && advantage < 0.0
        && loss > -advantage * dual
    {
        (loss, slope) = (-advantage * dual, 0.0);
    }
    (loss, slope)
}

fn kl_values(batch: &Batch, logp: Tensor<1>, config: &KlConfig) -> Tensor<1> {
    kl_tokens(logp, tensor(&batch.ref_logp), &batch.rows(), config).unwrap()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn clipped_loss_agrees_with_its_definition(batch in batches(), clip in clips()) {
        let logp = tensor(&batch.logp).require_grad();
        let found = policy(&batch, logp.clone(), &clip);
        let (losses, slopes) = (host(found.loss.clone()), slopes(found.loss, &logp));
        for token in 0..losses.len() {
            let (loss, slope) =
                if batch.counted[token] { slow(batch.ratio(token), batch.advantage[token], &clip) } else { (0.0, 0.0) };
            prop_assert!(close(losses[token], loss) && close(slopes[token], slope));
        }
    }

    #[test]
    fn masked_places_are_zero_whatever_the_bounds_of_k3(batch in batches(), low in -1.0f64..1.0, width in 0.0f64..2.0) {
        let config = KlConfig { estimator: KlEstimator::K3, k3_clamp: (low, low + width) };
        for (value, counted) in host(kl_values(&batch, tensor(&batch.logp), &config)).iter().zip(&batch.counted) {
            let bounds = if *counted { low - 1e-6..=low + width + 1e-6 } else { 0.0..=0.0 };
            prop_assert!(bounds.contains(value));
        }
    }

    #[test]
    fn on_policy_the_loss_is_minus_the_advantage(batch in batches(), clip in clips()) {
        let mut batch = batch;
        batch.old_logp = batch.logp.clone();
        let logp = tensor(&batch.logp).require_grad();
        let found = policy(&batch, logp.clone(), &clip);
        let expected: Vec<f64> = (0..batch.logp.len())
            .map(|token| if batch.counted[token] { -batch.advantage[token] } else { 0.0 }).collect();
        prop_assert!(all_close(&host(found.loss.clone()), &expected));
        prop_assert!(host(found.clipped).iter().chain(&host(found.clipped_lower)).all(|&x| x == 0.0));
        prop_assert!(host(found.approx_kl).iter().all(|&x| x == 0.0));
        prop_assert!(all_close(&slopes(found.loss, &logp), &expected));
    }

    #[test]
    fn clipped_tokens_have_no_gradient(batch in batches(), clip in clips()) {
        let logp = tensor(&batch.logp).require_grad();
        let found = policy(&batch, logp.clone(), &clip);
        let (clipped, lower) = (host(found.clipped), host(found.clipped_lower));
        let slopes = slopes(found.loss, &logp);
        for token in 0..slopes.len() {
            prop_assert!((clipped[token] == 0.0 && lower[token] == 0.0) || slopes[token] == 0.0);
        }
    }

    #[test]
    fn descent_raises_good_tokens_and_lowers_bad_ones(batch in batches(), clip in clips()) {
        let logp = tensor(&batch.logp).require_grad();
        let slopes = slopes(policy(&batch, logp.clone(), &clip).loss, &logp);
        for token in 0..slopes.len() {
            prop_assert!(slopes[token] * batch.advantage[token] <= 0.0);
        }
    }

    #[test]
    fn dual_clip_bounds_the_loss(batch in batches(), clip in clips(), dual in 1.1f64..3.0) {
        let clip = ClipConfig { dual: Some(dual), ..clip };
        let losses = host(policy(&batch, tensor(&batch.logp), &clip).loss);
        for token in (0..losses.len()).filter(|&token| batch.advantage[token] < 0.0) {
            prop_assert!(losses[token] <= -batch.advantage[token] * dual + 1e-12);
        }
    }

    #[test]
    fn wider_bounds_never_raise_the_loss(batch in batches(), clip in clips(), more in 0.0f64..0.4) {
        let wide = ClipConfig { low: clip.low + more, high: clip.high + more, dual: clip.dual };
        let losses = |clip| host(policy(&batch, tensor(&batch.logp), &clip).loss);
        for (wide, narrow) in losses(wide).iter().zip(losses(clip)) {
            prop_assert!(*wide <= narrow + 1e-12);
        }
    }

    #[test]
    fn extreme_ratios_stay_finite(advantage in prop::sample::select(vec![-1.0, 0.0, 1.0]), gap in -400.0f64..400.0) {
        let batch = Batch {
            lengths: vec![1], counted: vec![true], row_mask: vec![true], token_mask: vec![true],
            logp: vec![gap.min(0.0)], old_logp: vec![gap.min(0.0) - gap], ref_logp: vec![0.0],
            teacher_logp: vec![0.0], entropy: vec![0.0], advantage: vec![advantage],
        };
        let logp = tensor(&batch.logp).require_grad();
        let found = policy(&batch, logp.clone(), &ClipConfig::default());
        prop_assert!(host(found.loss.clone())[0].is_finite());
        prop_assert!(slopes(found.loss, &logp)[0].is_finite());
        for &estimator in KlEstimator::ALL {
            let logp = tensor(&batch.logp).require_grad();
            let kl = kl_tokens(logp.clone(), tensor(&batch.old_logp), &batch.rows(), &KlConfig::new(estimator)).unwrap();
            prop_assert!(host(kl.clone())[0].is_finite());
            prop_assert!(slopes(kl, &logp)[0].is_finite());
        }
    }

    #[test]
    fn gspo_has_one_ratio_per_row_and_equals_ppo_on_rows_of_one_token(batch in batches(), clip in clips()) {
        let gspo = |batch: &Batch, logp: Tensor<1>| {
            gspo_policy_loss(logp, tensor(&batch.old_logp), tensor(&batch.advantage), &batch.rows(), &clip).unwrap()
        };
        let rows = batch.rows();
        let (found, sequence) = gspo(&batch, tensor(&batch.logp));
        let (ratio, sequence) = (host(found.ratio), host(sequence));
        for (row, range) in rows.ranges().enumerate() {
            let logs: Vec<f64> = range.clone().filter(|&t| rows.counted()[t])
                .map(|t| batch.logp[t] - batch.old_logp[t]).collect();
            let mean = if logs.is_empty() { 0.0 } else { logs.iter().sum::<f64>() / logs.len() as f64 };
            prop_assert!(close(sequence[row], mean.exp()));
            for token in range.filter(|&token| rows.counted()[token]) {
                prop_assert!(close(ratio[token], mean.exp()));
            }
        }
        let mut single = batch.clone();
        single.lengths = vec![1; batch.logp.len()];
        single.row_mask = vec![true; batch.logp.len()];
        let (a, b) = (tensor(&batch.logp).require_grad(), tensor(&batch.logp).require_grad());
        let token = policy(&single, a.clone(), &ClipConfig { dual: None, ..clip }).loss;
        let sequence = gspo(&single, b.clone()).0.loss;
        prop_assert!(all_close(&host(sequence.clone()), &host(token.clone())));
        prop_assert!(all_close(&slopes(sequence, &b), &slopes(token, &a)));
    }

    #[test]
    fn divergences_vanish_at_equality_and_are_positive_elsewhere(batch in batches()) {
        let mut equal = batch.clone();
        equal.ref_logp = batch.logp.clone();
        for &estimator in KlEstimator::ALL {
            let config = KlConfig::new(estimator);
            prop_assert!(host(kl_values(&equal, tensor(&equal.logp), &config)).iter().all(|&x| x == 0.0));
            if estimator != KlEstimator::K1 {
                prop_assert!(host(kl_values(&batch, tensor(&batch.logp), &config)).iter().all(|&x| x >= -1e-12));
            }
        }
    }

    #[test]
    fn k3_stays_in_its_bounds_and_is_flat_beyond(batch in batches(), bound in 0.01f64..3.0) {
        let config = KlConfig { estimator: KlEstimator::K3, k3_clamp: (-bound, bound) };
        let logp = tensor(&batch.logp).require_grad();
        let found = kl_values(&batch, logp.clone(), &config);
        let (values, slopes) = (host(found.clone()), slopes(found, &logp));
        for token in 0..values.len() {
            prop_assert!(values[token] <= bound);
            prop_assert!(values[token] < bound || slopes[token] == 0.0);
        }
    }

    #[test]
    fn gradients_of_divergences_are_finite_differences(batch in batches(), aggregation in aggregations()) {
        const STEP: f64 = 1e-6;
        let rows = batch.rows();
        for &estimator in KlEstimator::ALL {
            let config = KlConfig::new(estimator);
            let value = |logp: Tensor<1>| aggregate(kl_values(&batch, logp, &config), &rows, aggregation).unwrap();
            let logp = tensor(&batch.logp).require_grad();
            let gradient = host(logp.grad(&value(logp.clone()).backward()).unwrap());
            for token in 0..batch.logp.len() {
                let d = batch.ref_logp[token] - batch.logp[token];
                let kink = d.abs() < 1e-3 || (d.exp() - d - 11.0).abs() < 1e-3;
                let at = |shift: f64| {
                    let mut logp = batch.logp.clone();
                    logp[token] += shift;
                    host(value(tensor(&logp)))[0]
                };
                let difference = (at(STEP) - at(-STEP)) / (2.0 * STEP);
                prop_assert!(kink || within(gradient[token], difference, 1e-5), "{} {difference}", gradient[token]);
            }
        }
    }

    #[test]
    fn bounds_outside_their_range_are_errors(low in prop_oneof![-1.0f64..-0.01, 1.01f64..3.0], dual in -1.0f64..1.0) {
        let call = |clip| clipped_policy_loss(
            tensor(&[0.0]), tensor(&[0.0]), tensor(&[1.0]), &seed_core::TokenRows::full(&[1]), &clip,
        );
        for clip in [
            ClipConfig { low, ..ClipConfig::default() },
            ClipConfig { dual: Some(dual), ..ClipConfig::default() },
            ClipConfig { high: f64::NAN, ..ClipConfig::default() },
        ] {
            prop_assert!(matches!(call(clip), Err(InputError::Setting { .. })), "{clip:?}");
        }
    }
}
