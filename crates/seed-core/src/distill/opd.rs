//! On-policy distillation of the sampled tokens, with every switch of its public variants.

use burn::tensor::Tensor;

use super::gate::Gate;
use super::skill_sd::{SkillSdCaps, skill_sd_tokens};
use crate::aggregate::{Aggregation, Averager, Normalizer};
use crate::diagnostics::{Diagnostics, Recorder};
use crate::error::{InputError, setting};
use crate::rows::{Cleaner, LOG_RATIO_LIMIT, TokenRows, loss_precision};
use crate::switch::switch;

switch! {
    /// The loss of one token, with ℓS the current, ℓ_old the sampling and ℓT the teacher's log-probability.
    OpdForm ("OPD form") {
        /// g (ℓT − ℓS): SEED, SDAR, OPSD. The gradient by ℓS is −g.
        GatedGap = "gated_gap",
        /// −g ℓS: the same gradient.
        GatedNll = "gated_nll",
        /// −Δ_old ℓS with Δ_old = ℓT − ℓ_old: OPID's `delta` loss.
        Delta = "delta",
        /// −Δ_old exp(ℓS − ℓ_old): OPID's `importance` loss; clipped products have no gradient.
        Importance = "importance",
        /// No loss of its own: λ Δ_old joins the advantage and goes through the policy loss (OPID's default).
        Advantage = "advantage",
        /// Skill-SD: exp(min(ℓS − ℓ_old, cap)) · k3, the ratio carrying gradient.
        K3 = "k3",
    }
}

switch! {
    /// Which student log-probability the gate compares with the teacher's.
    GateLogprob ("gate log-probability") {
        /// The current one, detached: the gate closes by itself as the student catches up.
        Current = "current",
        /// The sampling policy's: the gate is constant within a step.
        Old = "old",
    }
}

switch! {
    /// Which tokens the distillation loss is averaged over.
    OpdNormalizer ("OPD normalizer") {
        /// Those with a teacher.
        OpdTokens = "opd_tokens",
        /// All response tokens.
        ResponseTokens = "response_tokens",
    }
}

switch! {
    /// Correction for tokens sampled by an older policy.
    OpdImportance ("OPD importance") {
        /// None, as in the reference.
        None = "none",
        /// Token losses are multiplied by exp(ℓS − ℓ_old), a constant for the gradient.
        PpoRatioDetached = "ppo_ratio_detached",
    }
}

/// Settings of the distillation loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OpdConfig {
    /// The loss of one token.
    pub form: OpdForm,
    /// The weight of a token; only for the gated forms.
    pub gate: Gate,
    /// Bounds ± of Δ where it is a weight: in the gate, in `delta`, in `advantage`, and of the product in `importance`. The gap of
    /// `gated_gap` itself is not clipped, so the gradient stays −g.
    pub delta_clip: Option<f64>,
    /// Which student log-probability enters the gate.
    pub gate_logprob: GateLogprob,
    /// Which tokens are averaged over.
    pub normalizer: OpdNormalizer,
    /// Correction for older samples; only for the gated forms.
    pub importance: OpdImportance,
    /// Subtract the mean gate of the batch at hand: less variance, same expectation at θ = θ_old.
    pub gate_center: bool,
    /// Caps of the form `k3`.
    pub skill_sd_caps: SkillSdCaps,
}

impl Default for OpdConfig {
    /// SEED: gated gap, σ(5 Δ), current log-probability, averaged over tokens with a teacher.
    fn default() -> Self {
        Self {
            form: OpdForm::GatedGap,
            gate: Gate::SigmoidGap { beta: 5.0 },
            delta_clip: None,
            gate_logprob: GateLogprob::Current,
            normalizer: OpdNormalizer::OpdTokens,
            importance: OpdImportance::None,
            gate_center: false,
            skill_sd_caps: SkillSdCaps::default(),
        }
    }
}

impl OpdConfig {
    pub(crate) fn validate(&self) -> Result<(), InputError> {
        self.gate.validate()?;
        self.skill_sd_caps.validate()?;
        if let Some(clip) = self.delta_clip {
            setting("delta_clip", clip, clip >= 0.0, "a number >= 0")?;
        }
        if !self.is_gated() && self.importance != OpdImportance::None {
            return Err(InputError::Conflict {
                first: "opd.importance",
                second: "opd.form",
                reason: "only the forms `gated_gap` and `gated_nll` take a separate ratio",
            });
        }
        Ok(())
    }

    fn is_gated(&self) -> bool {
        matches!(self.form, OpdForm::GatedGap | OpdForm::GatedNll)
    }

    /// Does the loss read the sampling policy's log-probabilities?
    pub fn needs_old_logp(&self) -> bool {
        !self.is_gated() || self.gate_logprob == GateLogprob::Old || self.importance != OpdImportance::None
    }

    /// Does the gate read the student's entropy?
    pub fn needs_entropy(&self) -> bool {
        self.is_gated() && self.gate.needs_entropy()
    }
}

/// Inputs of [`opd_loss`]: tensors with one entry per token of `rows`.
#[derive(Debug, Clone)]
pub struct OpdInputs<'a> {
    /// Current log-probability of the sampled token; the only input that carries gradient.
    pub logp: Tensor<1>,
    /// Log-probability of the same token with the skill in the prompt.
    pub teacher_logp: Tensor<1>,
    /// Log-probability under the sampling policy; see [`OpdConfig::needs_old_logp`].
    pub old_logp: Option<Tensor<1>>,
    /// Entropy of the student; see [`OpdConfig::needs_entropy`].
    pub entropy: Option<Tensor<1>>,
    /// The response tokens.
    pub rows: &'a TokenRows,
    /// Which rows have a usable skill; all when `None`.
    pub row_mask: Option<&'a [bool]>,
    /// Which tokens are distilled; all when `None`.
    pub token_mask: Option<&'a [bool]>,
}

/// What [`opd_loss`] returns.
#[derive(Debug, Clone)]
pub struct OpdOutput {
    /// The aggregated loss, shape `[1]`; 0 when no token has a teacher.
    pub loss: Tensor<1>,
    /// The loss of each token, 0 where it has no teacher.
    pub token_loss: Tensor<1>,
    /// ℓT − ℓS of each token (ℓT − ℓ_old where the form is built on it), constant; 0 where it has no teacher.
    pub gap: Tensor<1>,
    /// The weight that multiplies each token, constant: the gate, or the clipped gap of OPID's forms; 0 where it has no teacher.
    pub weight: Tensor<1>,
    /// `opd/…` numbers.
    pub diagnostics: Diagnostics,
}

/// The tokens that are distilled: counted tokens of rows with a skill.
pub fn opd_rows(
    rows: &TokenRows,
    row_mask: Option<&[bool]>,
    token_mask: Option<&[bool]>,
) -> Result<TokenRows, InputError> {
    let rows = match row_mask {
        Some(row_mask) => rows.keep_rows(row_mask)?,
        None => rows.clone(),
    };
    match token_mask {
        Some(token_mask) => rows.keep_tokens(token_mask),
        None => Ok(rows),
    }
}

/// The distillation loss of one batch, aggregated over its tokens with a teacher (or its response tokens).
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use seed_core::{Aggregation, TokenRows};
/// use seed_core::distill::{OpdConfig, OpdInputs, opd_loss};
///
/// let device = Device::flex();
/// let rows = TokenRows::full(&[2]);
/// let logp = Tensor::<1>::from_floats([-1.0, -2.0], &device);
/// // The skill changes nothing: the loss is zero and every gate half open.
/// let inputs = OpdInputs {
///     teacher_logp: logp.clone(), logp, old_logp: None, entropy: None, rows: &rows, row_mask: None, token_mask: None,
/// };
/// let output = opd_loss(inputs, &OpdConfig::default(), Aggregation::TokenMean)?;
/// assert_eq!(output.loss.into_scalar::<f32>(), 0.0);
/// assert_eq!(output.diagnostics.read().get("opd/gate_mean"), Some(0.5));
/// # Ok::<(), seed_core::InputError>(())
/// ```
pub fn opd_loss(
    inputs: OpdInputs<'_>,
    config: &OpdConfig,
    aggregation: Aggregation,
) -> Result<OpdOutput, InputError> {
    config.validate()?;
    if config.form == OpdForm::Advantage {
        return Err(InputError::Conflict {
            first: "opd.form = advantage",
            second: "opd_loss",
            reason: "this form has no loss of its own; call `joint_objective` or `advantage::opid_advantage`",
        });
    }
    let counted = opd_rows(inputs.rows, inputs.row_mask, inputs.token_mask)?;
    let averaged = match config.normalizer {
        OpdNormalizer::OpdTokens => &counted,
        OpdNormalizer::ResponseTokens => inputs.rows,
    };
    let logp = loss_precision(inputs.logp);
    let cleaner = counted.cleaner(&logp);
    let clean = OpdTokenInputs {
        logp: cleaner.keep("logp", logp)?,
        teacher_logp: cleaner.constant("teacher_logp", inputs.teacher_logp)?,
        old_logp: inputs.old_logp.map(|x| cleaner.constant("old_logp", x)).transpose()?,
        entropy: inputs.entropy.map(|x| cleaner.constant("entropy", x)).transpose()?,
    };
    let tokens = opd_tokens(clean, config, &counted, &cleaner)?;
    let averager = Averager::new(aggregation, &counted, averaged, &Normalizer::of(averaged), &cleaner)?;
    let loss = averager.average(tokens.loss.clone());
    let mut recorder = Recorder::default();
    recorder.part("opd/loss", loss.clone());
    record_opd(&mut recorder, &tokens, &counted, &cleaner);
    Ok(OpdOutput {
        loss,
        token_loss: tokens.loss,
        gap: tokens.gap,
        weight: tokens.weight,
        diagnostics: recorder.finish(),
    })
}

/// Clean inputs; everything but `logp` is a constant.
pub(crate) struct OpdTokenInputs {
    pub(crate) logp: Tensor<1>,
    pub(crate) teacher_logp: Tensor<1>,
    pub(crate) old_logp: Option<Tensor<1>>,
    pub(crate) entropy: Option<Tensor<1>>,
}

pub(crate) struct OpdTokens {
    pub(crate) loss: Tensor<1>,
    pub(crate) gap: Tensor<1>,
    pub(crate) weight: Tensor<1>,
}

/// ℓT − ℓ_old within the bounds of `delta_clip`: the weight of OPID.
pub(crate) fn clipped_old_gap(teacher_logp: Tensor<1>, old_logp: Tensor<1>, config: &OpdConfig) -> Tensor<1> {
    clip(teacher_logp - old_logp, config.delta_clip)
}

fn clip(gap: Tensor<1>, bound: Option<f64>) -> Tensor<1> {
    match bound {
        Some(bound) => gap.clamp(-bound, bound),
        None => gap,
    }
}

pub(crate) fn opd_tokens(
    inputs: OpdTokenInputs,
    config: &OpdConfig,
    counted: &TokenRows,
    cleaner: &Cleaner,
) -> Result<OpdTokens, InputError> {
    let OpdTokenInputs { logp, teacher_logp, old_logp, entropy } = inputs;
    let old_logp = || old_logp.clone().ok_or(InputError::Missing { what: "old_logp", needed_by: "opd" });
    let current = logp.clone().inner();
    let current_gap = teacher_logp.clone() - current.clone();
    let tokens = match config.form {
        OpdForm::GatedGap | OpdForm::GatedNll => {
            let gap = match config.gate_logprob {
                GateLogprob::Current => current_gap.clone(),
                GateLogprob::Old => teacher_logp.clone() - old_logp()?,
            };
            let mut gate = config.gate.open(clip(gap, config.delta_clip), entropy, cleaner)?;
            if config.gate_center {
                let mean = gate.clone().sum() / counted.counted_tokens().max(1) as f64;
                gate = cleaner.mask(gate - mean);
            }
            let mut factor = gate.clone();
            if config.importance == OpdImportance::PpoRatioDetached {
                factor = factor * (current - old_logp()?).clamp_max(LOG_RATIO_LIMIT).exp();
            }
            let loss = match config.form {
                OpdForm::GatedGap => (-logp + teacher_logp) * factor,
                _ => -logp * factor,
            };
            OpdTokens { loss, gap: current_gap, weight: gate }
        }
        OpdForm::Delta => {
            let gap = teacher_logp - old_logp()?;
            let weight = clip(gap.clone(), config.delta_clip);
            OpdTokens { loss: -logp * weight.clone(), gap, weight }
        }
        OpdForm::Importance => {
            let old = old_logp()?;
            let gap = teacher_logp - old.clone();
            let product = (logp - old).clamp_max(LOG_RATIO_LIMIT).exp() * gap.clone();
            let product = clip(product, config.delta_clip);
            OpdTokens { weight: product.clone().inner(), loss: -product, gap }
        }
        OpdForm::Advantage => {
            let gap = teacher_logp - old_logp()?;
            let weight = clip(gap.clone(), config.delta_clip);
            OpdTokens { loss: logp * 0.0, gap, weight }
        }
        OpdForm::K3 => {
            let loss = skill_sd_tokens(logp, old_logp()?, teacher_logp, &config.skill_sd_caps);
            OpdTokens { loss, weight: cleaner.mask(current_gap.ones_like()), gap: current_gap }
        }
    };
    Ok(tokens)
}

/// Everything but the loss itself.
pub(crate) fn record_opd(
    recorder: &mut Recorder,
    tokens: &OpdTokens,
    counted: &TokenRows,
    cleaner: &Cleaner,
) {
    let count = counted.counted_tokens();
    // Around ½, so that the variance of nearly constant gates survives single precision.
    let around_half = cleaner.mask(tokens.weight.clone() - 0.5);
    recorder.mean("opd/gate_mean", tokens.weight.clone().sum(), count);
    recorder.variance(
        "opd/gate_variance",
        around_half.clone().sum(),
        (around_half.clone() * around_half).sum(),
        count,
    );
    recorder.mean(
        "opd/gate_active_ratio",
        cleaner.indicator(tokens.weight.clone().greater_scalar(0.5)).sum(),
        count,
    );
    recorder.mean("opd/gap_mean", tokens.gap.clone().sum(), count);
    let active = Tensor::full([1], count as f64, (&cleaner.device, cleaner.dtype));
    recorder.mean("opd/active_token_ratio", active, counted.token_count());
}
