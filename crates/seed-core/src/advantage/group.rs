//! The group-relative advantage of GRPO, and its form without the standard deviation (Dr.GRPO).

use std::hash::Hash;

use super::{Across, Std, group_scores, moments};
use crate::error::{InputError, finite, same_length, setting};

/// Settings of [`group_advantage`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroupAdvantage {
    /// Over what mean and standard deviation are taken.
    pub across: Across,
    /// The divisor of the variance.
    pub std: Std,
    /// Divide by the standard deviation; false is the Dr.GRPO form.
    pub std_norm: bool,
    /// Added to the standard deviation, > 0.
    pub eps: f64,
    /// No smaller standard deviation is divided by; 0 is the reference. A floor keeps a small penalty in an otherwise tied
    /// group from being blown up to order one.
    pub std_floor: f64,
}

impl GroupAdvantage {
    /// The reference trainers' form: all rows, unbiased, ε = 1e-6, no floor.
    pub const fn grpo() -> Self {
        Self { across: Across::Rows, std: Std::Unbiased, std_norm: true, eps: 1e-6, std_floor: 0.0 }
    }

    /// Only the mean is removed (`mean_norm`, Dr.GRPO).
    pub const fn dr_grpo() -> Self {
        Self { std_norm: false, ..Self::grpo() }
    }

    pub(crate) fn validate(&self) -> Result<(), InputError> {
        setting("eps", self.eps, self.eps > 0.0 && self.eps.is_finite(), "a number > 0")?;
        setting(
            "std_floor",
            self.std_floor,
            self.std_floor >= 0.0 && self.std_floor.is_finite(),
            "a number >= 0",
        )
    }
}

/// One advantage per row: (score − mean) / (max(std, floor) + ε) inside the row's group.
///
/// `scores`, `groups` and `trajectories` have one entry per row. A group with a single value has mean 0 and std 1, so the score
/// itself remains. A group whose values are all equal gives exactly 0.
///
/// ```
/// use seed_core::advantage::{GroupAdvantage, group_advantage};
///
/// let advantage =
///     group_advantage(&[1.0, 0.0, 3.0, 3.0], &["a", "a", "b", "b"], &[0, 1, 2, 3], &GroupAdvantage::dr_grpo())?;
/// assert_eq!(advantage, [0.5, -0.5, 0.0, 0.0]);
/// # Ok::<(), seed_core::InputError>(())
/// ```
pub fn group_advantage<G: Eq + Hash, T: Eq + Hash>(
    scores: &[f64],
    groups: &[G],
    trajectories: &[T],
    config: &GroupAdvantage,
) -> Result<Vec<f64>, InputError> {
    same_length("groups", groups.len(), scores.len(), "row")?;
    same_length("trajectories", trajectories.len(), scores.len(), "row")?;
    finite("scores", scores)?;
    config.validate()?;
    let (parts, per_group) = group_scores(scores, groups, trajectories, config.across);
    let centre_and_scale: Vec<(f64, f64)> = per_group
        .iter()
        .map(|values| {
            let (mean, std) = if values.len() == 1 { (0.0, 1.0) } else { moments(values, config.std) };
            let scale = if config.std_norm { std.max(config.std_floor) + config.eps } else { 1.0 };
            (mean, scale)
        })
        .collect();
    Ok(scores
        .iter()
        .zip(&parts.part_of)
        .map(|(score, &group)| (score - centre_and_scale[group].0) / centre_and_scale[group].1)
        .collect())
}
