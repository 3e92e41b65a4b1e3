//! From the configuration to the objective of `seed-core`.

use crate::config::{
    Aggregation, Config, GateLogprob, KlKind, Normalizer, OpdForm, OpdGate, OpdImportance, PolicyLoss, Scope,
};
use seed_core::Schedule;
use seed_core::distill::{self, Gate, OpdConfig, OpdNormalizer};
use seed_core::kl::{KlConfig, KlEstimator};
use seed_core::objective::{KlTerm, LossScope, ObjectiveConfig, OpdTerm, PolicyRatio};
use seed_core::policy_loss::ClipConfig;

/// The objective after `completed` updates; without a distillation term where its schedule is off.
pub fn objective(config: &Config, completed: u64) -> ObjectiveConfig {
    let (loss, opd) = (&config.loss, &config.opd);
    let coef = opd.coef * opd_factor(config, completed);
    ObjectiveConfig {
        pg_coef: loss.pg_coef,
        ratio: match loss.policy {
            PolicyLoss::Ppo => PolicyRatio::Token,
            PolicyLoss::Gspo => PolicyRatio::Sequence,
        },
        clip: ClipConfig {
            low: loss.clip_low,
            high: loss.clip_high,
            dual: (loss.dual_clip > 0.0).then_some(loss.dual_clip),
        },
        entropy_coef: loss.entropy_coef,
        kl: (loss.kl_coef > 0.0).then(|| KlTerm {
            coef: loss.kl_coef,
            config: KlConfig::new(match loss.kl {
                KlKind::K1 => KlEstimator::K1,
                KlKind::K2 => KlEstimator::K2,
                KlKind::K3 => KlEstimator::K3,
                KlKind::Abs => KlEstimator::Abs,
            }),
        }),
        opd: (coef > 0.0).then(|| OpdTerm { coef, config: distillation(config) }),
        aggregation: match loss.aggregation {
            Aggregation::TokenMean => seed_core::Aggregation::TokenMean,
            Aggregation::SeqMeanTokenSum => seed_core::Aggregation::SeqMeanTokenSum,
            Aggregation::SeqMeanTokenMean => seed_core::Aggregation::SeqMeanTokenMean,
            Aggregation::SeqMeanTokenSumNorm => seed_core::Aggregation::SeqMeanTokenSumNorm,
        },
        scope: match loss.scope {
            Scope::Microbatch => LossScope::Microbatch,
            Scope::Minibatch => LossScope::Minibatch,
        },
    }
}

/// 1 while distillation is on, 0 before `opd.start_after` and from `opd.stop_after` on.
pub fn opd_factor(config: &Config, completed: u64) -> f64 {
    let stop = config.opd.stop_after as u64;
    let schedule = Schedule::Window {
        start_after: config.opd.start_after as u64,
        stop_after: (stop > 0).then_some(stop),
    };
    schedule.factor(completed)
}

fn distillation(config: &Config) -> OpdConfig {
    let opd = &config.opd;
    OpdConfig {
        form: match opd.form {
            OpdForm::GatedGap => distill::OpdForm::GatedGap,
            OpdForm::GatedNll => distill::OpdForm::GatedNll,
            OpdForm::Delta => distill::OpdForm::Delta,
            OpdForm::Importance => distill::OpdForm::Importance,
            OpdForm::Advantage => distill::OpdForm::Advantage,
            OpdForm::K3 => distill::OpdForm::K3,
        },
        gate: match opd.gate {
            OpdGate::SigmoidGap => Gate::SigmoidGap { beta: opd.beta },
            OpdGate::Constant => Gate::Constant { value: opd.gate_constant },
            OpdGate::Entropy => Gate::Entropy { beta: opd.beta },
            OpdGate::SoftOr => Gate::SoftOr { beta: opd.beta },
            OpdGate::Hard => Gate::Hard { threshold: opd.gate_threshold },
        },
        gate_logprob: match opd.gate_logprob {
            GateLogprob::Current => distill::GateLogprob::Current,
            GateLogprob::Old => distill::GateLogprob::Old,
        },
        delta_clip: (opd.delta_clip > 0.0).then_some(opd.delta_clip),
        normalizer: match opd.normalizer {
            Normalizer::OpdTokens => OpdNormalizer::OpdTokens,
            Normalizer::ResponseTokens => OpdNormalizer::ResponseTokens,
        },
        importance: match opd.importance {
            OpdImportance::None => distill::OpdImportance::None,
            OpdImportance::PpoRatioDetached => distill::OpdImportance::PpoRatioDetached,
        },
        gate_center: opd.gate_center,
        ..OpdConfig::default()
    }
}
