//! Estimators of the divergence from a reference policy, on sampled tokens.

use burn::tensor::Tensor;

use crate::error::{InputError, setting};
use crate::rows::{Cleaner, LOG_RATIO_LIMIT, TokenRows, loss_precision};
use crate::switch::switch;

switch! {
    /// An estimator of KL(π ‖ π_ref) from one sampled token, with d = ℓ_ref − ℓ.
    KlEstimator ("KL estimator") {
        /// −d: unbiased, may be negative.
        K1 = "k1",
        /// |d|; its sub-gradient at 0 is 0.
        Abs = "abs",
        /// d² / 2.
        K2 = "k2",
        /// e^d − d − 1, clamped: the low-variance estimator of the reference trainers.
        K3 = "k3",
    }
}

/// Settings of [`kl_tokens`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KlConfig {
    /// The estimator.
    pub estimator: KlEstimator,
    /// Values of k3 outside these bounds become the bound and have no gradient.
    pub k3_clamp: (f64, f64),
}

impl KlConfig {
    /// An estimator with the reference clamp, [−10, 10].
    pub const fn new(estimator: KlEstimator) -> Self {
        Self { estimator, k3_clamp: (-10.0, 10.0) }
    }

    pub(crate) fn validate(&self) -> Result<(), InputError> {
        let (low, high) = self.k3_clamp;
        setting("kl.k3_clamp", high, low <= high, "bounds in ascending order")
    }
}

/// The estimate at each token, 0 at masked places; gradient flows through `logp` only.
///
/// The gradient of k3 through samples of π is not the gradient of the KL divergence; it is what the reference trainers descend.
pub fn kl_tokens(
    logp: Tensor<1>,
    ref_logp: Tensor<1>,
    rows: &TokenRows,
    config: &KlConfig,
) -> Result<Tensor<1>, InputError> {
    config.validate()?;
    let logp = loss_precision(logp);
    let cleaner = rows.cleaner(&logp);
    let logp = cleaner.keep("logp", logp)?;
    let ref_logp = cleaner.constant("ref_logp", ref_logp)?;
    Ok(estimate(logp, ref_logp, config, &cleaner))
}

/// Inputs clean.
pub(crate) fn estimate(
    logp: Tensor<1>,
    ref_logp: Tensor<1>,
    config: &KlConfig,
    cleaner: &Cleaner,
) -> Tensor<1> {
    match config.estimator {
        KlEstimator::K1 => logp - ref_logp,
        KlEstimator::Abs => (logp - ref_logp).abs(),
        KlEstimator::K2 => {
            let d = ref_logp - logp;
            d.clone() * d * 0.5
        }
        KlEstimator::K3 => {
            let d = ref_logp - logp;
            let k3 = d.clone().clamp_max(LOG_RATIO_LIMIT).exp() - d - 1.0;
            // The bounds may exclude the zero of masked places.
            cleaner.mask(k3.clamp(config.k3_clamp.0, config.k3_clamp.1))
        }
    }
}
