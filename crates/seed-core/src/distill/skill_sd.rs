//! The token loss of Skill-SD.

use burn::tensor::Tensor;

/// Cap of the exponent in k3.
const GAP_CAP: f64 = 20.0;

/// Cap of the log of the importance ratio.
const LOG_RATIO_CAP: f64 = 10.0;

/// ρ · k3 with e = ℓS − ℓT, k3 = exp(min(−e, 20)) − 1 + e and ρ = exp(min(ℓS − ℓ_old, 10)). All inputs clean.
///
/// ρ carries gradient, so that the derivative by ℓS is ρ e: descent lowers the tokens that the teacher likes less.
pub(crate) fn skill_sd_tokens(logp: Tensor<1>, old_logp: Tensor<1>, teacher_logp: Tensor<1>) -> Tensor<1> {
    let e = logp.clone() - teacher_logp;
    let k3 = (-e.clone()).clamp_max(GAP_CAP).exp() - 1.0 + e;
    (logp - old_logp).clamp_max(LOG_RATIO_CAP).exp() * k3
}
