//! The token loss of Skill-SD.

use burn::tensor::Tensor;

use crate::error::{InputError, setting};

/// Bounds that keep the exponentials of Skill-SD finite; capped places have no gradient through that exponential.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SkillSdCaps {
    /// Cap of ℓS − ℓ_old, the log of the importance ratio, in [0, 80].
    pub log_ratio: f64,
    /// Cap of ℓT − ℓS, the exponent in k3, in [0, 80].
    pub gap: f64,
}

impl Default for SkillSdCaps {
    /// The reference: 10 and 20.
    fn default() -> Self {
        Self { log_ratio: 10.0, gap: 20.0 }
    }
}

impl SkillSdCaps {
    pub(crate) fn validate(&self) -> Result<(), InputError> {
        let range = 0.0..=80.0;
        setting(
            "skill_sd_caps.log_ratio",
            self.log_ratio,
            range.contains(&self.log_ratio),
            "a number in [0, 80]",
        )?;
        setting("skill_sd_caps.gap", self.gap, range.contains(&self.gap), "a number in [0, 80]")
    }
}

/// ρ · k3 with e = ℓS − ℓT, k3 = exp(min(−e, cap)) − 1 + e and ρ = exp(min(ℓS − ℓ_old, cap)). All inputs clean.
///
/// ρ carries gradient, so that the derivative by ℓS is ρ e: descent lowers the tokens that the teacher likes less.
pub(crate) fn skill_sd_tokens(
    logp: Tensor<1>,
    old_logp: Tensor<1>,
    teacher_logp: Tensor<1>,
    caps: &SkillSdCaps,
) -> Tensor<1> {
    let e = logp.clone() - teacher_logp;
    let k3 = (-e.clone()).clamp_max(caps.gap).exp() - 1.0 + e;
    (logp - old_logp).clamp_max(caps.log_ratio).exp() * k3
}
