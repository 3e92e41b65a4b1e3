//! The joint objective L = c_pg · pg − c_H · H + λ · opd + c_KL · kl, all with one aggregation.

use burn::tensor::Tensor;

use crate::aggregate::{Aggregation, Averager, Normalizer};
use crate::diagnostics::{Diagnostics, Recorder};
use crate::distill::{
    OpdConfig, OpdForm, OpdNormalizer, OpdTokenInputs, clipped_old_gap, opd_rows, opd_tokens, record_opd,
};
use crate::error::{InputError, same_length, setting};
use crate::kl::{self, KlConfig, KlEstimator};
use crate::policy_loss::{self, ClipConfig};
use crate::rows::{TokenRows, loss_precision};
use crate::switch::switch;

switch! {
    /// Where the means of a loss are taken when a mini-batch is processed in parts.
    LossScope ("loss scope") {
        /// Inside each micro-batch, then over the number of parts: what the reference trainers do. The result depends on how rows
        /// fall into parts.
        Microbatch = "microbatch",
        /// Over the whole mini-batch: the parts add up to exactly one big batch.
        Minibatch = "minibatch",
    }
}

switch! {
    /// The ratio of the policy loss.
    PolicyRatio ("policy ratio") {
        /// One ratio per token (PPO, GRPO).
        Token = "token",
        /// One ratio per row (GSPO), always aggregated by `seq-mean-token-mean`, without dual clip.
        Sequence = "sequence",
    }
}

/// The divergence term.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KlTerm {
    /// c_KL ≥ 0.
    pub coef: f64,
    /// The estimator.
    pub config: KlConfig,
}

/// The distillation term.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OpdTerm {
    /// λ ≥ 0; multiply by [`Schedule::factor`](crate::Schedule::factor) for a schedule.
    pub coef: f64,
    /// The loss.
    pub config: OpdConfig,
}

/// Settings of [`joint_objective`]; the constructors in [`recipe`](crate::recipe) hold the published numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ObjectiveConfig {
    /// c_pg ≥ 0; 0 is pure distillation (OPSD).
    pub pg_coef: f64,
    /// Per token or per row.
    pub ratio: PolicyRatio,
    /// Bounds of the ratio.
    pub clip: ClipConfig,
    /// c_H ≥ 0.
    pub entropy_coef: f64,
    /// The divergence from the reference, if any.
    pub kl: Option<KlTerm>,
    /// The distillation, if any.
    pub opd: Option<OpdTerm>,
    /// How token losses become one loss.
    pub aggregation: Aggregation,
    /// Where the means are taken when the mini-batch comes in parts.
    pub scope: LossScope,
}

impl ObjectiveConfig {
    /// Refuses coefficients and bounds outside their ranges.
    pub fn validate(&self) -> Result<(), InputError> {
        let coefficient =
            |what, value: f64| setting(what, value, value >= 0.0 && value.is_finite(), "a number >= 0");
        coefficient("pg_coef", self.pg_coef)?;
        coefficient("entropy_coef", self.entropy_coef)?;
        self.clip.validate()?;
        if let Some(kl) = &self.kl {
            coefficient("kl.coef", kl.coef)?;
            kl.config.validate()?;
        }
        if let Some(opd) = &self.opd {
            coefficient("opd.coef", opd.coef)?;
            opd.config.validate()?;
        }
        Ok(())
    }

    fn policy_aggregation(&self) -> Aggregation {
        match self.ratio {
            PolicyRatio::Token => self.aggregation,
            PolicyRatio::Sequence => Aggregation::SeqMeanTokenMean,
        }
    }
}

/// What is to be distilled.
#[derive(Debug, Clone)]
pub struct Teacher<'a> {
    /// Log-probability of the sampled tokens with the skill in the prompt; one entry per token, anything where there is no skill.
    pub logp: Tensor<1>,
    /// Which rows have a usable skill; all when `None`.
    pub row_mask: Option<&'a [bool]>,
    /// Which tokens are distilled; all when `None`.
    pub token_mask: Option<&'a [bool]>,
}

/// Inputs of [`joint_objective`]: tensors with one entry per token of `rows`.
///
/// Gradient flows through `logp` and `entropy` only.
#[derive(Debug, Clone)]
pub struct ObjectiveInputs<'a> {
    /// Current log-probability of the sampled token.
    pub logp: Tensor<1>,
    /// Log-probability under the sampling policy.
    pub old_logp: Tensor<1>,
    /// Advantage of the token (see [`TokenRows::spread`] for one per row).
    pub advantage: Tensor<1>,
    /// The response tokens.
    pub rows: &'a TokenRows,
    /// Log-probability under the reference, when there is a divergence term.
    pub ref_logp: Option<Tensor<1>>,
    /// Entropy of the current policy, when its coefficient is not 0 or a gate reads it. Given with a coefficient of 0, it is logged.
    pub entropy: Option<Tensor<1>>,
    /// The teacher, when λ is not 0. If no row of the batch has a skill, pass any tensor and an all-false `row_mask`.
    pub teacher: Option<Teacher<'a>>,
}

/// The counts of a mini-batch that is processed in parts: sum them first, then pass them with every part.
///
/// ```
/// use seed_core::{ObjectiveConfig, ObjectiveNormalizer, TokenRows};
///
/// let config = ObjectiveConfig::seed();
/// let parts = [TokenRows::full(&[3, 2]), TokenRows::full(&[7])];
/// let mut counts = ObjectiveNormalizer::default();
/// for rows in &parts {
///     counts.add_part(&config, rows, None, None)?;
/// }
/// assert_eq!((counts.parts, counts.response.tokens), (2, 12));
/// # Ok::<(), seed_core::InputError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ObjectiveNormalizer {
    /// Number of parts: the divisor in micro-batch scope.
    pub parts: usize,
    /// Counts of the response tokens.
    pub response: Normalizer,
    /// Counts that the distillation loss is divided by.
    pub opd: Normalizer,
}

impl ObjectiveNormalizer {
    /// Counts one part; the masks are those of its [`Teacher`].
    pub fn add_part(
        &mut self,
        config: &ObjectiveConfig,
        rows: &TokenRows,
        row_mask: Option<&[bool]>,
        token_mask: Option<&[bool]>,
    ) -> Result<(), InputError> {
        let response = Normalizer::of(rows);
        let opd = match config.opd {
            Some(OpdTerm { config: OpdConfig { normalizer: OpdNormalizer::OpdTokens, .. }, .. }) => {
                Normalizer::of(&opd_rows(rows, row_mask, token_mask)?)
            }
            _ => response,
        };
        self.parts += 1;
        self.response.merge(&response);
        self.opd.merge(&opd);
        Ok(())
    }
}

/// What a batch is a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope<'a>(Option<&'a ObjectiveNormalizer>);

impl<'a> Scope<'a> {
    /// The batch stands alone.
    pub const fn whole_batch() -> Self {
        Self(None)
    }

    /// The batch is one part of a mini-batch with these counts. [`ObjectiveConfig::scope`] decides how they are used; the
    /// gradients of the parts are to be added up, without another division.
    pub const fn part_of(counts: &'a ObjectiveNormalizer) -> Self {
        Self(Some(counts))
    }
}

/// What [`joint_objective`] returns.
#[derive(Debug, Clone)]
pub struct ObjectiveOutput {
    /// The loss to differentiate, shape `[1]`.
    pub loss: Tensor<1>,
    /// Named numbers, see [`diagnostics`](crate::diagnostics).
    pub diagnostics: Diagnostics,
}

/// L = c_pg · pg − c_H · H + λ · opd + c_KL · kl over one batch, or one part of a mini-batch.
///
/// Terms whose coefficient is 0 do not enter the loss; where their inputs are given they are still measured. A batch without any
/// counted token gives 0 and a zero gradient.
pub fn joint_objective(
    config: &ObjectiveConfig,
    inputs: ObjectiveInputs<'_>,
    scope: Scope<'_>,
) -> Result<ObjectiveOutput, InputError> {
    config.validate()?;
    let rows = inputs.rows;
    let raw_logp = loss_precision(inputs.logp);
    let cleaner = rows.cleaner(&raw_logp);
    let logp = cleaner.keep("logp", raw_logp.clone())?;
    let old_logp = cleaner.constant("old_logp", inputs.old_logp.clone())?;
    let mut advantage = cleaner.constant("advantage", inputs.advantage)?;

    let divisors = Divisors::new(config, rows, scope)?;
    let mut total: Option<Tensor<1>> = None;
    let mut add = |coef: f64, term: &Tensor<1>| {
        if coef != 0.0 {
            let term = term.clone() * coef;
            total = Some(match total.take() {
                Some(total) => total + term,
                None => term,
            });
        }
    };
    let mut recorder = Recorder::default();

    // The distillation comes first, because one of its forms joins the advantage.
    let mut opd_recorder = Recorder::default();
    let mut opd_loss = None;
    if let Some(term) = &config.opd {
        match inputs.teacher {
            Some(teacher) => {
                let counted = opd_rows(rows, teacher.row_mask, teacher.token_mask)?;
                let opd_cleaner = counted.cleaner(&raw_logp);
                let clean = OpdTokenInputs {
                    logp: opd_cleaner.keep("logp", raw_logp)?,
                    teacher_logp: opd_cleaner.constant("teacher.logp", teacher.logp)?,
                    old_logp: Some(opd_cleaner.constant("old_logp", inputs.old_logp)?),
                    entropy: match &inputs.entropy {
                        Some(entropy) => Some(opd_cleaner.constant("entropy", entropy.clone())?),
                        None => None,
                    },
                };
                if term.config.form == OpdForm::Advantage {
                    let gap = clipped_old_gap(clean.teacher_logp.clone(), old_logp.clone(), &term.config);
                    advantage = advantage + opd_cleaner.mask(gap) * term.coef;
                }
                let tokens = opd_tokens(clean, &term.config, &counted, &opd_cleaner)?;
                record_opd(&mut opd_recorder, &tokens, &counted, &opd_cleaner);
                if term.config.form != OpdForm::Advantage {
                    let averaged = match term.config.normalizer {
                        OpdNormalizer::OpdTokens => &counted,
                        OpdNormalizer::ResponseTokens => rows,
                    };
                    let averager =
                        divisors.averager(config.aggregation, &counted, averaged, Part::Opd, &opd_cleaner)?;
                    opd_loss = Some(averager.average(tokens.loss));
                }
            }
            None if term.coef != 0.0 => {
                return Err(InputError::Missing { what: "teacher", needed_by: "opd.coef != 0" });
            }
            None => {}
        }
    }

    let averager = divisors.averager(config.aggregation, rows, rows, Part::Response, &cleaner)?;
    let counted = rows.counted_tokens();

    let policy = match config.ratio {
        PolicyRatio::Token => policy_loss::clipped(logp.clone(), old_logp, advantage, &config.clip, &cleaner),
        PolicyRatio::Sequence => {
            policy_loss::gspo(logp.clone(), old_logp, advantage, rows, &config.clip, &cleaner).0
        }
    };
    let pg = match config.ratio {
        PolicyRatio::Token => averager.average(policy.loss),
        PolicyRatio::Sequence => divisors
            .averager(config.policy_aggregation(), rows, rows, Part::Response, &cleaner)?
            .average(policy.loss),
    };
    add(config.pg_coef, &pg);
    recorder.part("pg/loss", pg);
    recorder.mean("pg/clip_fraction", policy.clipped.sum(), counted);
    recorder.mean("pg/clip_fraction_lower", policy.clipped_lower.sum(), counted);
    recorder.mean("pg/approx_kl", policy.approx_kl.sum(), counted);

    match inputs.entropy {
        Some(entropy) => {
            let entropy = averager.average(cleaner.keep("entropy", entropy)?);
            add(-config.entropy_coef, &entropy);
            recorder.part("entropy", entropy);
        }
        None if config.entropy_coef != 0.0 => {
            return Err(InputError::Missing { what: "entropy", needed_by: "entropy_coef != 0" });
        }
        None => {}
    }

    if let Some(opd) = opd_loss {
        add(config.opd.map_or(0.0, |term| term.coef), &opd);
        recorder.part("opd/loss", opd);
    }
    recorder.extend(opd_recorder);

    if let Some(term) = &config.kl {
        match inputs.ref_logp {
            Some(ref_logp) => {
                let ref_logp = cleaner.constant("ref_logp", ref_logp)?;
                let kl = averager.average(kl::estimate(logp.clone(), ref_logp, &term.config, &cleaner));
                add(term.coef, &kl);
                recorder.part("kl/loss", kl);
            }
            None if term.coef != 0.0 => {
                return Err(InputError::Missing { what: "ref_logp", needed_by: "kl.coef != 0" });
            }
            None => {}
        }
    }

    // With every coefficient at zero (a schedule may get there) the loss is still a function of `logp`.
    let loss = total.unwrap_or_else(|| logp.sum() * 0.0);
    recorder.part("loss", loss.clone());
    Ok(ObjectiveOutput { loss, diagnostics: recorder.finish() })
}

#[derive(Clone, Copy)]
enum Part {
    Response,
    Opd,
}

/// What the terms are divided by, as scope and configuration say.
struct Divisors {
    /// `None`: the counts of the batch at hand.
    counts: Option<(Normalizer, Normalizer)>,
    /// Divisor on top.
    parts: usize,
}

impl Divisors {
    fn new(config: &ObjectiveConfig, rows: &TokenRows, scope: Scope<'_>) -> Result<Self, InputError> {
        let Some(counts) = scope.0 else { return Ok(Self { counts: None, parts: 1 }) };
        let tokens = rows.counted_tokens();
        setting(
            "counts.parts",
            counts.parts as f64,
            counts.parts >= 1,
            "at least one part (call `add_part`)",
        )?;
        setting(
            "counts.response.tokens",
            counts.response.tokens as f64,
            counts.response.tokens >= tokens,
            "at least the tokens of this part (call `add_part` for every part)",
        )?;
        Ok(match config.scope {
            LossScope::Microbatch => Self { counts: None, parts: counts.parts },
            LossScope::Minibatch => Self { counts: Some((counts.response, counts.opd)), parts: 1 },
        })
    }

    fn averager(
        &self,
        aggregation: Aggregation,
        counted: &TokenRows,
        averaged: &TokenRows,
        part: Part,
        cleaner: &crate::rows::Cleaner,
    ) -> Result<Averager, InputError> {
        same_length("teacher", counted.token_count(), averaged.token_count(), "token")?;
        let over = match (self.counts, part) {
            (Some((response, _)), Part::Response) => response,
            (Some((_, opd)), Part::Opd) => {
                setting(
                    "counts.opd.tokens",
                    opd.tokens as f64,
                    opd.tokens >= averaged.counted_tokens(),
                    "at least the distilled tokens of this part (call `add_part` with the masks of its teacher)",
                )?;
                opd
            }
            (None, _) => Normalizer::of(averaged),
        };
        Ok(Averager::new(aggregation, counted, averaged, &over, cleaner)?.over_parts(self.parts))
    }
}

impl Default for KlTerm {
    /// k3 with coefficient 0.01, as in the reference.
    fn default() -> Self {
        Self { coef: 0.01, config: KlConfig::new(KlEstimator::K3) }
    }
}

impl Default for OpdTerm {
    /// SEED: λ = 0.01, β = 5.
    fn default() -> Self {
        Self { coef: 0.01, config: OpdConfig::default() }
    }
}
