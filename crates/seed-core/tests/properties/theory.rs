//! The expected update at one context.

use crate::batch::{close, config, host, within};
use burn::tensor::activation::log_softmax;
use burn::tensor::{DType, Device, Tensor, TensorData};
use proptest::prelude::*;
use seed_core::distill::{Gate, OpdConfig, OpdInputs, opd_loss};
use seed_core::theory::{gate_deviation_bound, opd_expected_update, sigmoid, stale_skill_bound};
use seed_core::{Aggregation, TokenRows};

fn logits() -> impl Strategy<Value = (Vec<f64>, Vec<f64>)> {
    (2usize..8)
        .prop_flat_map(|n| (prop::collection::vec(-4.0f64..4.0, n), prop::collection::vec(-4.0f64..4.0, n)))
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_update_is_a_step_towards_the_reweighted_target((student, teacher) in logits(), beta in 0.0f64..10.0) {
        let found = opd_expected_update(&student, &teacher, beta).unwrap();
        prop_assert!(close(found.target.iter().sum(), 1.0) && close(found.policy.iter().sum(), 1.0));
        prop_assert!(found.gradient.iter().sum::<f64>().abs() < 1e-12);
        for v in 0..student.len() {
            let step = found.gate_mean * (found.policy[v] - found.target[v]);
            prop_assert!(close(found.gradient[v], step));
            // Promoted where the gate is above its mean, demoted where it is below.
            prop_assert!(found.gradient[v] * found.relative_credit[v] <= 0.0);
            prop_assert!((found.target[v] - found.policy[v]) * found.relative_credit[v] >= -1e-15);
        }
    }

    #[test]
    fn a_constant_gate_moves_nothing((student, teacher) in logits(), beta in 0.0f64..10.0, shift in -3.0f64..3.0) {
        let no_sharpness = opd_expected_update(&student, &teacher, 0.0).unwrap();
        let shifted: Vec<f64> = student.iter().map(|z| z + shift).collect();
        let no_effect = opd_expected_update(&student, &shifted, beta).unwrap();
        for found in [no_sharpness, no_effect] {
            prop_assert!(found.gradient_norm < 1e-12 && found.gate_variance < 1e-12);
        }
    }

    #[test]
    fn proposition_3_bounds_the_gate((student, teacher) in logits(), beta in 0.0f64..10.0) {
        let found = opd_expected_update(&student, &teacher, beta).unwrap();
        for gate in &found.gate {
            prop_assert!((gate - 0.5).abs() <= found.gate_deviation_bound + 1e-12);
        }
        let widest = found.gate_deviation_bound;
        prop_assert!(found.gradient_norm <= 2.0 * widest + 1e-12);
    }

    #[test]
    fn the_gate_is_beta_over_four_lipschitz(x in -30.0f64..30.0, y in -30.0f64..30.0, beta in 0.0f64..20.0) {
        let distance = (sigmoid(beta * x) - sigmoid(beta * y)).abs();
        prop_assert!(distance <= gate_deviation_bound(beta, &[x - y]) + 1e-12);
    }

    #[test]
    fn stale_skills_err_within_their_bound(
        gaps in prop::collection::vec((-5.0f64..5.0, -5.0f64..5.0), 1..20), beta in 0.0f64..10.0, norm in 0.0f64..3.0,
    ) {
        let (fresh, stale): (Vec<f64>, Vec<f64>) = gaps.into_iter().unzip();
        let error: f64 = fresh.iter().zip(&stale)
            .map(|(fresh, stale)| norm * (sigmoid(beta * fresh) - sigmoid(beta * stale)).abs()).sum::<f64>()
            / fresh.len() as f64;
        prop_assert!(error <= stale_skill_bound(norm, beta, &fresh, &stale).unwrap() + 1e-12);
    }

    #[test]
    fn enumerating_sampled_updates_gives_the_expected_one((student, teacher) in logits(), beta in 0.0f64..10.0) {
        let expected = opd_expected_update(&student, &teacher, beta).unwrap();
        let device = Device::flex().autodiff();
        let n = student.len();
        let make = |values: &[f64]| -> Tensor<2> {
            Tensor::from_data(TensorData::new(values.to_vec(), [1, n]), (&device, DType::F64))
        };
        let mut mean = vec![0.0; n];
        for v in 0..n {
            let z = make(&student).require_grad();
            let pick = |logits: Tensor<2>| log_softmax(logits, 1).reshape([-1]).narrow(0, v, 1);
            let inputs = OpdInputs {
                logp: pick(z.clone()), teacher_logp: pick(make(&teacher)), old_logp: None, entropy: None,
                rows: &TokenRows::full(&[1]), row_mask: None, token_mask: None,
            };
            let config = OpdConfig { gate: Gate::SigmoidGap { beta }, ..OpdConfig::default() };
            let loss = opd_loss(inputs, &config, Aggregation::TokenMean).unwrap().loss;
            let gradient = host(z.grad(&loss.backward()).unwrap().reshape([-1]));
            mean.iter_mut().zip(gradient).for_each(|(mean, g)| *mean += expected.policy[v] * g);
        }
        for v in 0..n {
            prop_assert!(within(mean[v], expected.gradient[v], 1e-9));
        }
    }
}
