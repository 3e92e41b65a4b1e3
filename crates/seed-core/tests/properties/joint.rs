//! The joint objective.

use crate::batch::{
    Batch, Joint, aggregations, all_close, batches, close, config, host, orders, tensor, within,
};
use burn::tensor::DType;
use proptest::prelude::*;
use seed_core::distill::{Gate, GateLogprob, OpdConfig, OpdForm, OpdNormalizer};
use seed_core::kl::{KlConfig, KlEstimator};
use seed_core::objective::{KlTerm, LossScope, OpdTerm, PolicyRatio};
use seed_core::policy_loss::ClipConfig;
use seed_core::{
    InputError, Method, Metrics, ObjectiveConfig, ObjectiveInputs, ObjectiveNormalizer, Preset, Recipe,
    Scope, Teacher, joint_objective,
};

fn configs() -> impl Strategy<Value = ObjectiveConfig> {
    (
        prop::sample::select(Method::ALL),
        aggregations(),
        prop::sample::select(KlEstimator::ALL),
        (0.1f64..2.0, 0.0f64..0.5, 0.0f64..0.5, 0.0f64..2.0),
        prop::sample::select(OpdNormalizer::ALL),
        prop::sample::select(LossScope::ALL),
    )
        .prop_map(|(method, aggregation, estimator, (pg, entropy, kl, opd), normalizer, scope)| {
            let base = ObjectiveConfig::of(method);
            ObjectiveConfig {
                pg_coef: if base.pg_coef == 0.0 { 0.0 } else { pg },
                entropy_coef: entropy,
                kl: Some(KlTerm { coef: kl, config: KlConfig::new(estimator) }),
                opd: base
                    .opd
                    .map(|term| OpdTerm { coef: opd, config: OpdConfig { normalizer, ..term.config } }),
                aggregation,
                scope,
                ..base
            }
        })
}

fn with_ratio(config: ObjectiveConfig, ratio: PolicyRatio) -> ObjectiveConfig {
    ObjectiveConfig { ratio, ..config }
}

fn metrics(joint: Joint) -> Metrics {
    joint.output.diagnostics.read()
}

fn counts(config: &ObjectiveConfig, parts: &[Batch]) -> ObjectiveNormalizer {
    let mut counts = ObjectiveNormalizer::default();
    for part in parts {
        counts.add_part(config, &part.rows(), Some(&part.row_mask), Some(&part.token_mask)).unwrap();
    }
    counts
}

fn halves(batch: &Batch, cut: usize) -> [Batch; 2] {
    let cut = cut.min(batch.lengths.len());
    [batch.part(0..cut), batch.part(cut..batch.lengths.len())]
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn masked_places_never_matter(
        batch in batches(), config in configs(), ratio in prop::sample::select(PolicyRatio::ALL),
        junk in prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1e300]),
    ) {
        let config = with_ratio(config, ratio);
        let (clean, dirty) = (batch.joint(&config, None), batch.with_junk(junk).joint(&config, None));
        prop_assert_eq!(clean.loss, dirty.loss);
        prop_assert_eq!(&clean.by_logp, &dirty.by_logp);
        prop_assert_eq!(&clean.by_entropy, &dirty.by_entropy);
        prop_assert_eq!(metrics(clean), metrics(dirty));
    }

    #[test]
    fn padding_never_matters(batch in batches(), config in configs(), ratio in prop::sample::select(PolicyRatio::ALL)) {
        let config = with_ratio(config, ratio);
        let width = batch.rows().width();
        let (packed, padded) = (batch.joint(&config, None), batch.rectangle(width, f64::NAN).joint(&config, None));
        prop_assert!(close(packed.loss, padded.loss));
        let ranges: Vec<_> = batch.rows().ranges().collect();
        let unpadded: Vec<f64> = ranges.iter().enumerate()
            .flat_map(|(row, range)| padded.by_logp[row * width..row * width + range.len()].to_vec()).collect();
        prop_assert!(all_close(&packed.by_logp, &unpadded));
    }

    #[test]
    fn the_order_of_rows_never_matters(
        (batch, order) in batches().prop_flat_map(|batch| { let n = batch.lengths.len(); (Just(batch), orders(n)) }),
        config in configs(), ratio in prop::sample::select(PolicyRatio::ALL),
    ) {
        let config = with_ratio(config, ratio);
        let (before, after) = (batch.joint(&config, None), batch.permuted(&order).joint(&config, None));
        prop_assert!(close(before.loss, after.loss));
        let mut moved = batch.clone();
        moved.logp = before.by_logp.clone();
        prop_assert!(all_close(&moved.permuted(&order).logp, &after.by_logp));
    }

    #[test]
    fn accumulation_equals_one_big_batch_in_mini_batch_scope(
        batch in batches(), config in configs(), ratio in prop::sample::select(PolicyRatio::ALL), cut in 0usize..6,
    ) {
        let config = ObjectiveConfig { scope: LossScope::Minibatch, ..with_ratio(config, ratio) };
        let whole = batch.joint(&config, None);
        let parts = halves(&batch, cut);
        let counts = counts(&config, &parts);
        let outputs: Vec<Joint> = parts.iter().map(|part| part.joint(&config, Some(&counts))).collect();
        prop_assert!(close(outputs.iter().map(|part| part.loss).sum(), whole.loss));
        let joined = |f: fn(&Joint) -> &Vec<f64>| outputs.iter().flat_map(|part| f(part).clone()).collect::<Vec<_>>();
        prop_assert!(all_close(&joined(|part| &part.by_logp), &whole.by_logp));
        prop_assert!(all_close(&joined(|part| &part.by_entropy), &whole.by_entropy));
        let mut merged = Metrics::default();
        outputs.into_iter().for_each(|part| merged.merge(&metrics(part)));
        for (name, value) in metrics(whole).iter() {
            prop_assert!(close(merged.get(name).unwrap(), value), "{name}: {:?} {value}", merged.get(name));
        }
    }

    #[test]
    fn micro_batch_scope_is_the_mean_of_the_parts(batch in batches(), config in configs(), cut in 0usize..6) {
        let config = ObjectiveConfig { scope: LossScope::Microbatch, ..config };
        let parts = halves(&batch, cut);
        let counts = counts(&config, &parts);
        for part in &parts {
            let (alone, within) = (part.joint(&config, None), part.joint(&config, Some(&counts)));
            prop_assert!(close(within.loss, alone.loss / 2.0));
        }
    }

    #[test]
    fn counts_that_leave_out_distilled_tokens_are_refused(batch in batches()) {
        let config = ObjectiveConfig { scope: LossScope::Minibatch, ..ObjectiveConfig::seed() };
        let mut counts = ObjectiveNormalizer::default();
        let nobody = vec![false; batch.lengths.len()];
        counts.add_part(&config, &batch.rows(), Some(&nobody), None).unwrap();
        let (rows, logp) = (batch.rows(), tensor(&batch.logp));
        let inputs = ObjectiveInputs {
            logp: logp.clone(),
            old_logp: logp.clone(),
            advantage: logp.clone(),
            rows: &rows,
            ref_logp: Some(logp.clone()),
            entropy: Some(logp.clone()),
            teacher: Some(Teacher { logp, row_mask: Some(&batch.row_mask), token_mask: Some(&batch.token_mask) }),
        };
        let refused = matches!(
            joint_objective(&config, inputs, Scope::part_of(&counts)),
            Err(InputError::Setting { what: "counts.opd.tokens", .. })
        );
        prop_assert_eq!(refused, batch.distilled().counted_tokens() > 0);
    }

    #[test]
    fn the_loss_is_the_weighted_sum_of_its_parts(batch in batches(), config in configs()) {
        let found = batch.joint(&config, None);
        let loss = found.loss;
        let metrics = metrics(found);
        let get = |name| metrics.get(name).unwrap_or(0.0);
        let expected = config.pg_coef * get("pg/loss") - config.entropy_coef * get("entropy")
            + config.opd.map_or(0.0, |term| term.coef) * get("opd/loss")
            + config.kl.map_or(0.0, |term| term.coef) * get("kl/loss");
        prop_assert!(close(loss, expected));
        prop_assert_eq!(get("loss"), loss);
    }

    #[test]
    fn gradients_are_finite_differences(batch in batches(), config in configs()) {
        const STEP: f64 = 1e-6;
        // The gate is a constant for the gradient; built on the old policy it is one for the value as well.
        let config = ObjectiveConfig {
            opd: config.opd.map(|term| OpdTerm {
                config: OpdConfig { gate_logprob: GateLogprob::Old, ..term.config }, ..term
            }),
            ..config
        };
        let found = batch.joint(&config, None);
        for token in 0..batch.logp.len() {
            let (ratio, d) = (batch.ratio(token), batch.ref_logp[token] - batch.logp[token]);
            let kinks = [ratio - 0.8, ratio - 1.2, ratio - 3.0, d, d.exp() - d - 11.0];
            if kinks.iter().any(|kink| kink.abs() < 1e-3) {
                continue;
            }
            let at = |shift: f64| {
                let mut moved = batch.clone();
                moved.logp[token] += shift;
                moved.joint(&config, None).loss
            };
            let difference = (at(STEP) - at(-STEP)) / (2.0 * STEP);
            prop_assert!(within(found.by_logp[token], difference, 1e-5), "{} {difference}", found.by_logp[token]);
        }
    }

    #[test]
    fn single_precision_agrees_with_double(batch in batches(), config in configs()) {
        let (double, single) = (batch.joint(&config, None), batch.joint_in(DType::F32, &config, None));
        prop_assert!(within(single.loss, double.loss, 1e-4));
        for token in 0..batch.logp.len() {
            let near = [0.8, 1.2, 3.0].iter().any(|bound| (batch.ratio(token) - bound).abs() < 1e-4);
            prop_assert!(near || within(single.by_logp[token], double.by_logp[token], 1e-4));
        }
    }

    #[test]
    fn half_precision_inputs_are_computed_in_single(batch in batches(), config in configs()) {
        // Against the same numbers rounded to bf16 first.
        let rounded = |values: &[f64]| host(tensor(values).cast(DType::BF16).cast(DType::F64));
        let mut exact = batch.clone();
        for values in [&mut exact.logp, &mut exact.old_logp, &mut exact.ref_logp, &mut exact.teacher_logp,
            &mut exact.entropy, &mut exact.advantage] {
            *values = rounded(values);
        }
        let (half, single) = (exact.joint_in(DType::BF16, &config, None), exact.joint_in(DType::F32, &config, None));
        prop_assert_eq!(half.output.loss.dtype(), DType::F32);
        prop_assert_eq!(half.loss, single.loss);
    }

    #[test]
    fn an_empty_batch_gives_zero_and_no_gradient(batch in batches(), config in configs()) {
        let mut batch = batch;
        batch.counted = vec![false; batch.counted.len()];
        let found = batch.with_junk(f64::NAN).joint(&config, None);
        prop_assert_eq!(found.loss, 0.0);
        prop_assert!(found.by_logp.iter().chain(&found.by_entropy).all(|&x| x == 0.0));
        prop_assert!(metrics(found).iter().all(|(_, value)| value == 0.0));
    }

    #[test]
    fn only_the_current_policy_carries_gradient(batch in batches(), config in configs()) {
        let leaf = |values: &[f64]| tensor(values).require_grad();
        let (logp, old_logp, ref_logp) = (leaf(&batch.logp), leaf(&batch.old_logp), leaf(&batch.ref_logp));
        let (teacher, advantage) = (leaf(&batch.teacher_logp), leaf(&batch.advantage));
        let output = joint_objective(
            &config,
            ObjectiveInputs {
                logp: logp.clone(), old_logp: old_logp.clone(), advantage: advantage.clone(), rows: &batch.rows(),
                ref_logp: Some(ref_logp.clone()), entropy: Some(tensor(&batch.entropy)),
                teacher: Some(Teacher { logp: teacher.clone(), row_mask: None, token_mask: None }),
            },
            Scope::whole_batch(),
        ).unwrap();
        let gradients = output.loss.backward();
        for constant in [old_logp, ref_logp, teacher, advantage] {
            prop_assert!(constant.grad(&gradients).is_none());
        }
    }

    #[test]
    fn the_advantage_form_goes_through_the_clip(batch in batches(), coef in 0.0f64..1.0) {
        let config = OpdConfig { form: OpdForm::Advantage, ..OpdConfig::default() };
        let form = ObjectiveConfig { opd: Some(OpdTerm { coef, config }), ..ObjectiveConfig::grpo() };
        let mut by_hand = batch.clone();
        let distilled = batch.distilled();
        for token in (0..batch.logp.len()).filter(|&token| distilled.counted()[token]) {
            by_hand.advantage[token] += coef * (batch.teacher_logp[token] - batch.old_logp[token]);
        }
        let (found, expected) = (batch.joint(&form, None), by_hand.joint(&ObjectiveConfig::grpo(), None));
        prop_assert!(close(found.loss, expected.loss));
        prop_assert!(all_close(&found.by_logp, &expected.by_logp));
    }

    #[test]
    fn without_lambda_seed_is_grpo(batch in batches(), aggregation in aggregations()) {
        let off = ObjectiveConfig {
            opd: Some(OpdTerm { coef: 0.0, config: OpdConfig::default() }), aggregation, ..ObjectiveConfig::seed()
        };
        let grpo = ObjectiveConfig { aggregation, ..ObjectiveConfig::seed_without_opd() };
        let (off, grpo) = (batch.joint(&off, None), batch.joint(&grpo, None));
        prop_assert_eq!(off.loss, grpo.loss);
        prop_assert_eq!(off.by_logp, grpo.by_logp);
    }

    #[test]
    fn tied_rewards_leave_distillation_as_the_only_task_signal(batch in batches()) {
        let mut batch = batch;
        batch.advantage = vec![0.0; batch.logp.len()];
        let seed = ObjectiveConfig { kl: None, entropy_coef: 0.0, ..ObjectiveConfig::seed() };
        let found = batch.joint(&seed, None);
        let opd = batch.opd(&OpdConfig::default(), seed.aggregation);
        let expected: Vec<f64> = opd.by_logp.iter().map(|slope| 0.01 * slope).collect();
        prop_assert!(all_close(&found.by_logp, &expected));
    }

    #[test]
    fn every_recipe_runs(
        batch in batches(), method in prop::sample::select(Method::ALL), preset in prop::sample::select(Preset::ALL),
    ) {
        let recipe = Recipe::new(method, preset);
        prop_assert!(recipe.objective.validate().is_ok());
        prop_assert!(batch.joint(&recipe.objective, None).loss.is_finite());
    }

    #[test]
    fn a_negative_coefficient_is_an_error(coef in -2.0f64..-0.001) {
        let wrong = [
            ObjectiveConfig { pg_coef: coef, ..ObjectiveConfig::seed() },
            ObjectiveConfig { entropy_coef: coef, ..ObjectiveConfig::seed() },
            ObjectiveConfig { kl: Some(KlTerm { coef, ..KlTerm::default() }), ..ObjectiveConfig::seed() },
            ObjectiveConfig { opd: Some(OpdTerm { coef, ..OpdTerm::default() }), ..ObjectiveConfig::seed() },
            ObjectiveConfig { clip: ClipConfig { high: coef, ..ClipConfig::default() }, ..ObjectiveConfig::seed() },
            ObjectiveConfig {
                opd: Some(OpdTerm {
                    config: OpdConfig { gate: Gate::SigmoidGap { beta: coef }, ..OpdConfig::default() },
                    ..OpdTerm::default()
                }),
                ..ObjectiveConfig::seed()
            },
        ];
        for config in wrong {
            prop_assert!(matches!(config.validate(), Err(InputError::Setting { .. })), "{config:?}");
        }
    }

    #[test]
    fn counts_of_another_mini_batch_are_refused(batch in batches()) {
        prop_assume!(batch.rows().counted_tokens() > 0);
        let config = ObjectiveConfig { scope: LossScope::Minibatch, ..ObjectiveConfig::grpo() };
        let logp = tensor(&batch.logp);
        let inputs = ObjectiveInputs {
            old_logp: logp.clone(), advantage: logp.clone(), rows: &batch.rows(), ref_logp: Some(logp.clone()),
            entropy: Some(logp.clone()), teacher: None, logp,
        };
        let empty = ObjectiveNormalizer::default();
        prop_assert!(joint_objective(&config, inputs, Scope::part_of(&empty)).is_err());
    }
}
