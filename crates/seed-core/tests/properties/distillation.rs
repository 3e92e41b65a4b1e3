//! The distillation loss and its relatives.

use crate::batch::{Batch, aggregations, all_close, batches, close, config, host, tensor, within};
use proptest::prelude::*;
use seed_core::aggregate::token_weights;
use seed_core::distill::{
    Gate, GateLogprob, OpdConfig, OpdForm, OpdImportance, OpdInputs, OpdNormalizer, opd_loss,
};
use seed_core::theory::sigmoid;
use seed_core::{Aggregation, InputError, Normalizer};

fn gates() -> impl Strategy<Value = Gate> {
    prop_oneof![
        (0.0f64..10.0).prop_map(|beta| Gate::SigmoidGap { beta }),
        (0.0f64..=1.0).prop_map(|value| Gate::Constant { value }),
        (0.0f64..3.0).prop_map(|beta| Gate::Entropy { beta }),
        (0.0f64..3.0).prop_map(|beta| Gate::SoftOr { beta }),
        (-0.5f64..0.5).prop_map(|threshold| Gate::Hard { threshold }),
    ]
}

fn gated() -> impl Strategy<Value = OpdConfig> {
    (
        prop::sample::select(vec![OpdForm::GatedGap, OpdForm::GatedNll]),
        gates(),
        prop::sample::select(GateLogprob::ALL),
        prop::sample::select(OpdNormalizer::ALL),
        prop::sample::select(OpdImportance::ALL),
        prop_oneof![Just(None), (0.0f64..2.0).prop_map(Some)],
    )
        .prop_map(|(form, gate, gate_logprob, normalizer, importance, delta_clip)| OpdConfig {
            form,
            gate,
            gate_logprob,
            normalizer,
            importance,
            delta_clip,
            ..OpdConfig::default()
        })
}

/// What each token's loss weighs in the aggregate.
fn weights(batch: &Batch, config: &OpdConfig, aggregation: Aggregation) -> Vec<f64> {
    let counted = batch.distilled();
    let averaged = if config.normalizer == OpdNormalizer::OpdTokens { counted.clone() } else { batch.rows() };
    token_weights(aggregation, &counted, &averaged, &Normalizer::of(&averaged)).unwrap()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_gradient_is_minus_the_gate(batch in batches(), config in gated(), aggregation in aggregations()) {
        let found = batch.opd(&config, aggregation);
        let gate = host(found.output.weight.clone());
        let weights = weights(&batch, &config, aggregation);
        for token in 0..gate.len() {
            let ratio = if config.importance == OpdImportance::None { 1.0 } else { batch.ratio(token) };
            prop_assert!(close(found.by_logp[token], -gate[token] * ratio * weights[token]));
        }
    }

    #[test]
    fn gates_agree_with_their_definition(batch in batches(), config in gated()) {
        let found = host(batch.opd(&config, Aggregation::TokenMean).output.weight);
        let counted = batch.distilled();
        for token in 0..found.len() {
            let student = match config.gate_logprob {
                GateLogprob::Current => batch.logp[token],
                GateLogprob::Old => batch.old_logp[token],
            };
            let gap = batch.teacher_logp[token] - student;
            let gap = config.delta_clip.map_or(gap, |clip| gap.clamp(-clip, clip));
            let entropy = batch.entropy[token];
            let expected = match config.gate {
                Gate::SigmoidGap { beta } => sigmoid(beta * gap),
                Gate::Constant { value } => value,
                Gate::Entropy { beta } => sigmoid(beta * entropy),
                Gate::SoftOr { beta } => 1.0 - (1.0 - sigmoid(beta * gap)) * (1.0 - sigmoid(beta * entropy)),
                Gate::Hard { threshold } => f64::from(u8::from(gap > threshold)),
            };
            let expected = if counted.counted()[token] { expected } else { 0.0 };
            prop_assert!(close(found[token], expected));
        }
    }

    #[test]
    fn the_teacher_only_shifts_the_value(batch in batches(), config in gated(), aggregation in aggregations()) {
        let gap = batch.opd(&OpdConfig { form: OpdForm::GatedGap, ..config }, aggregation);
        let nll = batch.opd(&OpdConfig { form: OpdForm::GatedNll, ..config }, aggregation);
        prop_assert!(all_close(&gap.by_logp, &nll.by_logp));
    }

    #[test]
    fn nothing_but_the_student_carries_gradient(batch in batches(), form in prop::sample::select(OpdForm::ALL), gate in gates()) {
        prop_assume!(form != OpdForm::Advantage && batch.distilled().counted_tokens() > 0);
        let leaves: Vec<_> = [&batch.logp, &batch.teacher_logp, &batch.old_logp, &batch.entropy]
            .into_iter().map(|values| tensor(values).require_grad()).collect();
        let output = opd_loss(
            OpdInputs {
                logp: leaves[0].clone(), teacher_logp: leaves[1].clone(), old_logp: Some(leaves[2].clone()),
                entropy: Some(leaves[3].clone()), rows: &batch.rows(), row_mask: Some(&batch.row_mask),
                token_mask: Some(&batch.token_mask),
            },
            &OpdConfig { form, gate, ..OpdConfig::default() },
            Aggregation::TokenMean,
        ).unwrap();
        prop_assert!(!output.gap.is_autodiff() && !output.weight.is_autodiff());
        let gradients = output.loss.backward();
        prop_assert!(leaves[0].grad(&gradients).is_some());
        prop_assert!(leaves[1..].iter().all(|leaf| leaf.grad(&gradients).is_none()));
    }

    #[test]
    fn beta_to_zero_is_the_constant_half_gate(batch in batches(), aggregation in aggregations()) {
        let with = |gate| batch.opd(&OpdConfig { gate, ..OpdConfig::default() }, aggregation);
        let half = with(Gate::Constant { value: 0.5 });
        let zero = with(Gate::SigmoidGap { beta: 0.0 });
        let small = with(Gate::SigmoidGap { beta: 1e-6 });
        prop_assert!(close(zero.loss, half.loss) && all_close(&zero.by_logp, &half.by_logp));
        prop_assert!(within(small.loss, half.loss, 1e-4));
    }

    #[test]
    fn large_beta_is_the_hard_gate(batch in batches()) {
        let with = |gate| host(batch.opd(&OpdConfig { gate, ..OpdConfig::default() }, Aggregation::TokenMean).output.weight);
        let (soft, hard) = (with(Gate::SigmoidGap { beta: 1e9 }), with(Gate::Hard { threshold: 0.0 }));
        for token in 0..soft.len() {
            let gap = batch.teacher_logp[token] - batch.logp[token];
            prop_assert!(gap.abs() < 1e-6 || close(soft[token], hard[token]));
        }
    }

    #[test]
    fn a_more_confident_teacher_opens_the_gate(batch in batches(), beta in 0.0f64..20.0, more in 0.0f64..3.0) {
        let config = OpdConfig { gate: Gate::SigmoidGap { beta }, ..OpdConfig::default() };
        let before = host(batch.opd(&config, Aggregation::TokenMean).output.weight);
        let mut surer = batch.clone();
        surer.teacher_logp.iter_mut().for_each(|logp| *logp += more);
        let after = host(surer.opd(&config, Aggregation::TokenMean).output.weight);
        prop_assert!(before.iter().zip(&after).all(|(before, after)| after >= before && (0.0..=1.0).contains(after)));
    }

    #[test]
    fn a_skill_without_effect_costs_nothing(batch in batches(), beta in 0.0f64..20.0, aggregation in aggregations()) {
        let mut batch = batch;
        batch.teacher_logp = batch.logp.clone();
        let found = batch.opd(&OpdConfig { gate: Gate::SigmoidGap { beta }, ..OpdConfig::default() }, aggregation);
        prop_assert_eq!(found.loss, 0.0);
        let metrics = found.output.diagnostics.read();
        let any = batch.distilled().counted_tokens() > 0;
        prop_assert_eq!(metrics.get("opd/gate_mean").unwrap(), if any { 0.5 } else { 0.0 });
        prop_assert_eq!(metrics.get("opd/gate_active_ratio").unwrap(), 0.0);
        prop_assert_eq!(metrics.get("opd/gate_variance").unwrap(), 0.0);
    }

    #[test]
    fn the_response_normaliser_divides_by_more(batch in batches(), config in gated()) {
        let with = |normalizer| batch.opd(&OpdConfig { normalizer, ..config }, Aggregation::TokenMean).loss;
        let (opd, response) = (batch.distilled().counted_tokens() as f64, batch.rows().counted_tokens() as f64);
        prop_assert!(close(with(OpdNormalizer::ResponseTokens) * response, with(OpdNormalizer::OpdTokens) * opd));
    }

    #[test]
    fn no_teacher_means_exactly_nothing(batch in batches(), form in prop::sample::select(OpdForm::ALL), aggregation in aggregations()) {
        prop_assume!(form != OpdForm::Advantage);
        let mut batch = batch;
        batch.row_mask = vec![false; batch.lengths.len()];
        let batch = batch.with_junk(f64::NAN);
        let found = batch.opd(&OpdConfig { form, ..OpdConfig::default() }, aggregation);
        prop_assert_eq!(found.loss, 0.0);
        prop_assert!(found.by_logp.iter().all(|&x| x == 0.0));
        let metrics = found.output.diagnostics.read();
        prop_assert!(metrics.iter().all(|(_, value)| value == 0.0));
    }

    #[test]
    fn masked_places_never_matter(
        batch in batches(), form in prop::sample::select(OpdForm::ALL), gate in gates(), aggregation in aggregations(),
        normalizer in prop::sample::select(OpdNormalizer::ALL),
        junk in prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300]),
    ) {
        prop_assume!(form != OpdForm::Advantage);
        let config = OpdConfig { form, gate, normalizer, ..OpdConfig::default() };
        let (clean, dirty) = (batch.opd(&config, aggregation), batch.with_junk(junk).opd(&config, aggregation));
        prop_assert_eq!(clean.loss, dirty.loss);
        prop_assert_eq!(clean.by_logp, dirty.by_logp);
        prop_assert_eq!(clean.output.diagnostics.read(), dirty.output.diagnostics.read());
    }

    #[test]
    fn clips_wider_than_every_gap_do_nothing(
        batch in batches(), form in prop::sample::select(vec![OpdForm::GatedGap, OpdForm::Delta]),
    ) {
        let with = |delta_clip| batch.opd(&OpdConfig { form, delta_clip, ..OpdConfig::default() }, Aggregation::TokenMean);
        prop_assert_eq!(with(None).by_logp, with(Some(100.0)).by_logp);
    }

    #[test]
    fn centred_gates_have_mean_zero(batch in batches(), config in gated()) {
        let found = batch.opd(&OpdConfig { gate_center: true, ..config }, Aggregation::TokenMean);
        prop_assert!(host(found.output.weight).iter().sum::<f64>().abs() < 1e-9);
    }

    #[test]
    fn the_ratio_is_one_on_policy(batch in batches(), config in gated(), aggregation in aggregations()) {
        let mut batch = batch;
        batch.old_logp = batch.logp.clone();
        let with = |importance| batch.opd(&OpdConfig { importance, ..config }, aggregation);
        prop_assert_eq!(with(OpdImportance::None).by_logp, with(OpdImportance::PpoRatioDetached).by_logp);
    }

    #[test]
    fn the_delta_form_is_linear_in_the_student(batch in batches(), clip in 0.0f64..3.0, aggregation in aggregations()) {
        let config = OpdConfig { form: OpdForm::Delta, delta_clip: Some(clip), ..OpdConfig::default() };
        let found = batch.opd(&config, aggregation);
        let weights = weights(&batch, &config, aggregation);
        for token in 0..weights.len() {
            let gap = (batch.teacher_logp[token] - batch.old_logp[token]).clamp(-clip, clip);
            prop_assert!(close(found.by_logp[token], -gap * weights[token]));
        }
    }

    #[test]
    fn importance_and_delta_agree_on_policy(batch in batches()) {
        let mut batch = batch;
        batch.old_logp = batch.logp.clone();
        let with = |form| batch.opd(&OpdConfig { form, ..OpdConfig::default() }, Aggregation::TokenMean).by_logp;
        prop_assert!(all_close(&with(OpdForm::Importance), &with(OpdForm::Delta)));
    }

    #[test]
    fn skill_sd_descends_the_ratio_weighted_gap(batch in batches(), aggregation in aggregations()) {
        let config = OpdConfig { form: OpdForm::K3, ..OpdConfig::default() };
        let found = batch.opd(&config, aggregation);
        let weights = weights(&batch, &config, aggregation);
        for token in 0..weights.len() {
            let slope = batch.ratio(token) * (batch.logp[token] - batch.teacher_logp[token]);
            prop_assert!(within(found.by_logp[token], slope * weights[token], 1e-7));
        }
        prop_assert!(host(found.output.token_loss).iter().all(|&loss| loss >= -1e-12));
    }

    #[test]
    fn the_advantage_form_has_no_loss_of_its_own(batch in batches()) {
        let logp = tensor(&batch.logp);
        let inputs = OpdInputs {
            teacher_logp: logp.clone(), old_logp: Some(logp.clone()), logp, entropy: None, rows: &batch.rows(),
            row_mask: None, token_mask: None,
        };
        let config = OpdConfig { form: OpdForm::Advantage, ..OpdConfig::default() };
        let found = opd_loss(inputs, &config, Aggregation::TokenMean);
        prop_assert!(matches!(found, Err(InputError::Conflict { .. })), "{found:?}");
    }

    #[test]
    fn inputs_that_a_switch_needs_are_asked_for(batch in batches()) {
        let call = |config: OpdConfig| {
            let logp = tensor(&batch.logp);
            let inputs = OpdInputs {
                teacher_logp: logp.clone(), logp, old_logp: None, entropy: None, rows: &batch.rows(), row_mask: None,
                token_mask: None,
            };
            opd_loss(inputs, &config, Aggregation::TokenMean).err()
        };
        let missing = |config, name| matches!(call(config), Some(InputError::Missing { what, .. }) if what == name);
        let default = OpdConfig::default();
        prop_assert!(call(default).is_none());
        let by_entropy = OpdConfig { gate: Gate::Entropy { beta: 1.0 }, ..default };
        let by_old_gap = OpdConfig { gate_logprob: GateLogprob::Old, ..default };
        let skill_sd = OpdConfig { form: OpdForm::K3, ..default };
        prop_assert!(missing(by_entropy, "entropy") && missing(by_old_gap, "old_logp") && missing(skill_sd, "old_logp"));
    }
}
