//! Policy-gradient losses: the clipped surrogate with asymmetric bounds and dual clip, and its sequence form GSPO.

use burn::tensor::{IndexingUpdateOp, Int, Tensor, TensorData};

use crate::error::{InputError, setting};
use crate::rows::{Cleaner, LOG_RATIO_LIMIT, TokenRows, constant, loss_precision};

/// Cap of GSPO's sequence log-ratio; capped tokens have no gradient.
const GSPO_LOG_RATIO_CAP: f64 = 10.0;

/// Bounds of the importance ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClipConfig {
    /// Ratios below 1 − this are clipped, in [0, 1].
    pub low: f64,
    /// Ratios above 1 + this are clipped, ≥ 0.
    pub high: f64,
    /// Dual clip: with a negative advantage the loss is at most −A · this, > 1. `None` switches it off. Not used by GSPO.
    pub dual: Option<f64>,
}

impl Default for ClipConfig {
    fn default() -> Self {
        Self { low: 0.2, high: 0.2, dual: Some(3.0) }
    }
}

impl ClipConfig {
    pub(crate) fn validate(&self) -> Result<(), InputError> {
        setting("clip.low", self.low, (0.0..=1.0).contains(&self.low), "a number in [0, 1]")?;
        setting("clip.high", self.high, self.high >= 0.0 && self.high.is_finite(), "a number >= 0")?;
        match self.dual {
            Some(dual) => setting("clip.dual", dual, dual > 1.0 && dual.is_finite(), "a number > 1"),
            None => Ok(()),
        }
    }
}

/// A policy loss before aggregation. Every tensor has one entry per token, 0 at masked places; only `loss` carries gradient.
#[derive(Debug, Clone)]
pub struct PolicyTokens {
    /// Token losses.
    pub loss: Tensor<1>,
    /// Importance ratios.
    pub ratio: Tensor<1>,
    /// 1 where the clipped loss is the larger one.
    pub clipped: Tensor<1>,
    /// 1 where the dual clip bounds the loss.
    pub clipped_lower: Tensor<1>,
    /// ℓ_old − ℓ, whose mean is the trainer's approximate KL divergence.
    pub approx_kl: Tensor<1>,
}

/// L = max(−A r, −A clip(r, 1 − ε_lo, 1 + ε_hi)) with r = exp(ℓ − ℓ_old); for A < 0 at most −A c.
///
/// `logp`, `old_logp` and `advantage` have one entry per token of `rows`; gradient flows through `logp` only. Clipped tokens have
/// no gradient. Reduce `loss` with [`aggregate`](crate::aggregate()).
pub fn clipped_policy_loss(
    logp: Tensor<1>,
    old_logp: Tensor<1>,
    advantage: Tensor<1>,
    rows: &TokenRows,
    clip: &ClipConfig,
) -> Result<PolicyTokens, InputError> {
    clip.validate()?;
    let logp = loss_precision(logp);
    let cleaner = rows.cleaner(&logp);
    let logp = cleaner.keep("logp", logp)?;
    let old_logp = cleaner.constant("old_logp", old_logp)?;
    let advantage = cleaner.constant("advantage", advantage)?;
    Ok(clipped(logp, old_logp, advantage, clip, &cleaner))
}

/// GSPO: the ratio is that of the whole row, exp(mean of ℓ − ℓ_old over its counted tokens), its gradient that of each token
/// (straight-through).
///
/// Returns the tokens and the sequence ratio of each row (1 for a row without counted tokens). The log-ratio is capped at 10. GSPO
/// is aggregated by [`Aggregation::SeqMeanTokenMean`](crate::Aggregation); it has no dual clip.
pub fn gspo_policy_loss(
    logp: Tensor<1>,
    old_logp: Tensor<1>,
    advantage: Tensor<1>,
    rows: &TokenRows,
    clip: &ClipConfig,
) -> Result<(PolicyTokens, Tensor<1>), InputError> {
    clip.validate()?;
    let logp = loss_precision(logp);
    let cleaner = rows.cleaner(&logp);
    let logp = cleaner.keep("logp", logp)?;
    let old_logp = cleaner.constant("old_logp", old_logp)?;
    let advantage = cleaner.constant("advantage", advantage)?;
    Ok(gspo(logp, old_logp, advantage, rows, clip, &cleaner))
}

/// All inputs clean.
pub(crate) fn clipped(
    logp: Tensor<1>,
    old_logp: Tensor<1>,
    advantage: Tensor<1>,
    clip: &ClipConfig,
    cleaner: &Cleaner,
) -> PolicyTokens {
    let approx_kl = old_logp.clone() - logp.clone().inner();
    surrogate((logp - old_logp).clamp_max(LOG_RATIO_LIMIT), approx_kl, advantage, clip, cleaner)
}

/// All inputs clean.
pub(crate) fn gspo(
    logp: Tensor<1>,
    old_logp: Tensor<1>,
    advantage: Tensor<1>,
    rows: &TokenRows,
    clip: &ClipConfig,
    cleaner: &Cleaner,
) -> (PolicyTokens, Tensor<1>) {
    let current = logp.clone().inner();
    let approx_kl = old_logp - current.clone();
    let per_row: Vec<f64> = rows
        .counted_per_row()
        .iter()
        .map(|&count| if count == 0 { 0.0 } else { 1.0 / count as f64 })
        .collect();
    let row_index =
        Tensor::<1, Int>::from_data(TensorData::new(rows.row_index(), [rows.token_count()]), &cleaner.device);
    let sums = Tensor::zeros([rows.row_count()], (&cleaner.device, cleaner.dtype)).select_assign(
        0,
        row_index.clone(),
        -approx_kl.clone(),
        IndexingUpdateOp::Add,
    );
    let mean_log_ratio = sums * constant(&per_row, &cleaner.device, cleaner.dtype);
    let sequence_ratio = mean_log_ratio.clone().clamp_max(GSPO_LOG_RATIO_CAP).exp();
    let log_ratio = (mean_log_ratio.select(0, row_index) + (logp - current)).clamp_max(GSPO_LOG_RATIO_CAP);
    let clip = ClipConfig { dual: None, ..*clip };
    (surrogate(log_ratio, approx_kl, advantage, &clip, cleaner), sequence_ratio)
}

fn surrogate(
    log_ratio: Tensor<1>,
    approx_kl: Tensor<1>,
    advantage: Tensor<1>,
    clip: &ClipConfig,
    cleaner: &Cleaner,
) -> PolicyTokens {
    let ratio = log_ratio.exp();
    let cost = -advantage.clone();
    let unclipped = ratio.clone() * cost.clone();
    let ratio = ratio.inner();
    // Where the clipped loss is larger the ratio lies outside its bounds, so that loss is a constant.
    let bounded = ratio.clone().clamp(1.0 - clip.low, 1.0 + clip.high) * cost.clone();
    let is_clipped = bounded.clone().greater(unclipped.clone().inner());
    let mut loss = unclipped.mask_where(is_clipped.clone(), bounded);
    let clipped_lower = match clip.dual {
        Some(dual) => {
            let largest = cost * dual;
            let is_lower =
                loss.clone().inner().greater(largest.clone()).bool_and(advantage.lower_scalar(0.0));
            loss = loss.mask_where(is_lower.clone(), largest);
            cleaner.indicator(is_lower)
        }
        None => ratio.zeros_like(),
    };
    PolicyTokens {
        // The advantage is zero at masked places, and a negative zero is one too.
        loss,
        ratio: cleaner.mask(ratio),
        clipped: cleaner.indicator(is_clipped),
        clipped_lower,
        approx_kl,
    }
}
