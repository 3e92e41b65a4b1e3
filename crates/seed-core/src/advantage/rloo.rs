//! The leave-one-out advantage (RLOO).

use std::hash::Hash;

use super::{Across, Std, group_scores, moments};
use crate::error::{InputError, finite, same_length};

/// One advantage per row: its score minus the mean of the others in its group, i.e. (score − mean) · n / (n − 1).
///
/// n counts rows or trajectories, as `across` says. Where n = 1 there is nothing to compare with and the score itself remains.
pub fn rloo_advantage<G: Eq + Hash, T: Eq + Hash>(
    scores: &[f64],
    groups: &[G],
    trajectories: &[T],
    across: Across,
) -> Result<Vec<f64>, InputError> {
    same_length("groups", groups.len(), scores.len(), "row")?;
    same_length("trajectories", trajectories.len(), scores.len(), "row")?;
    finite("scores", scores)?;
    let (parts, per_group) = group_scores(scores, groups, trajectories, across);
    let centre_and_scale: Vec<(f64, f64)> = per_group
        .iter()
        .map(|values| match values.len() {
            1 => (0.0, 1.0),
            count => (moments(values, Std::Population).0, count as f64 / (count - 1) as f64),
        })
        .collect();
    Ok(scores
        .iter()
        .zip(&parts.part_of)
        .map(|(score, &group)| (score - centre_and_scale[group].0) * centre_and_scale[group].1)
        .collect())
}
