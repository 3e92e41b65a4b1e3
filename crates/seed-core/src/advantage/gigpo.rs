//! GiGPO: the episode advantage plus a step advantage among rows that stood in the same place.

use std::collections::HashMap;
use std::hash::Hash;

use super::{Across, GroupAdvantage, Std, group_advantage, moments, partition};
use crate::error::{InputError, finite, same_length, setting};

/// Settings of [`gigpo_advantage`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GigpoConfig {
    /// Discount of later rewards of the same trajectory, in [0, 1].
    pub gamma: f64,
    /// Weight of the step advantage.
    pub step_weight: f64,
    /// Divide both parts by their standard deviation (`mean_std_norm`); false is `mean_norm`.
    pub std_norm: bool,
    /// The divisor of the variances.
    pub std: Std,
    /// Added to the standard deviations, > 0.
    pub eps: f64,
    /// Over what the episode statistics are taken.
    pub across: Across,
}

impl Default for GigpoConfig {
    fn default() -> Self {
        Self {
            gamma: 0.95,
            step_weight: 1.0,
            std_norm: true,
            std: Std::Unbiased,
            eps: 1e-6,
            across: Across::Rows,
        }
    }
}

/// The rows of a batch, those of one trajectory in time order (trajectories may interleave).
#[derive(Debug, Clone, Copy)]
pub struct GigpoRows<'a, G, T, O> {
    /// Reward of each step.
    pub step_reward: &'a [f64],
    /// Score of the episode that the row belongs to.
    pub episode_score: &'a [f64],
    /// Group label of each row.
    pub groups: &'a [G],
    /// Trajectory label of each row.
    pub trajectories: &'a [T],
    /// Raw observation that the row's action answered.
    pub anchors: &'a [O],
}

/// What [`gigpo_advantage`] computes, one entry per row.
#[derive(Debug, Clone, PartialEq)]
pub struct GigpoAdvantage {
    /// Discounted sum of the rewards from this step to the end of the trajectory.
    pub step_return: Vec<f64>,
    /// Rows with the same number stood in the same place; numbered by first appearance.
    pub anchor_group: Vec<usize>,
    /// Group-relative advantage of the episode score.
    pub episode_advantage: Vec<f64>,
    /// Advantage of the step return inside the anchor group; exactly 0 for a row alone in its place.
    pub step_advantage: Vec<f64>,
    /// episode + weight · step.
    pub advantage: Vec<f64>,
}

/// R_t = r_t + γ R_{t+1} inside each trajectory, rows in time order.
pub fn step_returns<T: Eq + Hash>(
    step_reward: &[f64],
    trajectories: &[T],
    gamma: f64,
) -> Result<Vec<f64>, InputError> {
    same_length("trajectories", trajectories.len(), step_reward.len(), "row")?;
    finite("step_reward", step_reward)?;
    setting("gamma", gamma, (0.0..=1.0).contains(&gamma), "a number in [0, 1]")?;
    let mut later: HashMap<&T, f64> = HashMap::new();
    let mut returns = vec![0.0; step_reward.len()];
    for row in (0..step_reward.len()).rev() {
        let following = later.entry(&trajectories[row]).or_insert(0.0);
        *following = step_reward[row] + gamma * *following;
        returns[row] = *following;
    }
    Ok(returns)
}

/// GiGPO with anchors compared for equality: rows of one group with the same observation form an anchor group.
pub fn gigpo_advantage<G: Eq + Hash, T: Eq + Hash, O: Eq + Hash>(
    rows: &GigpoRows<'_, G, T, O>,
    config: &GigpoConfig,
) -> Result<GigpoAdvantage, InputError> {
    check_lengths(rows)?;
    let anchor_group = partition(rows.groups.iter().zip(rows.anchors)).part_of;
    from_anchor_groups(rows, config, anchor_group)
}

/// GiGPO with anchors compared by `same_place`, e.g. a text similarity above a threshold.
///
/// Greedy: a row joins the first anchor group of its group whose *first* member it matches, else it founds one.
pub fn gigpo_advantage_with<G: Eq + Hash, T: Eq + Hash, O>(
    rows: &GigpoRows<'_, G, T, O>,
    config: &GigpoConfig,
    same_place: impl Fn(&O, &O) -> bool,
) -> Result<GigpoAdvantage, InputError> {
    check_lengths(rows)?;
    let groups = partition(rows.groups);
    let mut founders: Vec<Vec<(usize, usize)>> = vec![Vec::new(); groups.members.len()];
    let mut anchor_group = Vec::with_capacity(rows.anchors.len());
    let mut next = 0;
    for (row, &group) in groups.part_of.iter().enumerate() {
        let found = founders[group]
            .iter()
            .find(|(founder, _)| same_place(&rows.anchors[*founder], &rows.anchors[row]))
            .map(|&(_, number)| number);
        anchor_group.push(found.unwrap_or_else(|| {
            founders[group].push((row, next));
            next += 1;
            next - 1
        }));
    }
    from_anchor_groups(rows, config, anchor_group)
}

fn check_lengths<G, T, O>(rows: &GigpoRows<'_, G, T, O>) -> Result<(), InputError> {
    let count = rows.episode_score.len();
    same_length("step_reward", rows.step_reward.len(), count, "row")?;
    same_length("groups", rows.groups.len(), count, "row")?;
    same_length("trajectories", rows.trajectories.len(), count, "row")?;
    same_length("anchors", rows.anchors.len(), count, "row")
}

fn from_anchor_groups<G: Eq + Hash, T: Eq + Hash, O>(
    rows: &GigpoRows<'_, G, T, O>,
    config: &GigpoConfig,
    anchor_group: Vec<usize>,
) -> Result<GigpoAdvantage, InputError> {
    setting("step_weight", config.step_weight, config.step_weight.is_finite(), "a finite number")?;
    let episode = GroupAdvantage {
        across: config.across,
        std: config.std,
        std_norm: config.std_norm,
        eps: config.eps,
        std_floor: 0.0,
    };
    let episode_advantage = group_advantage(rows.episode_score, rows.groups, rows.trajectories, &episode)?;
    let step_return = step_returns(rows.step_reward, rows.trajectories, config.gamma)?;
    let mut step_advantage = vec![0.0; step_return.len()];
    for members in partition(&anchor_group).members {
        // A row alone in its place is its own mean.
        if members.len() == 1 {
            continue;
        }
        let values: Vec<f64> = members.iter().map(|&row| step_return[row]).collect();
        let (mean, std) = moments(&values, config.std);
        let scale = if config.std_norm { std + config.eps } else { 1.0 };
        for row in members {
            step_advantage[row] = (step_return[row] - mean) / scale;
        }
    }
    let advantage = episode_advantage
        .iter()
        .zip(&step_advantage)
        .map(|(episode, step)| episode + config.step_weight * step)
        .collect();
    Ok(GigpoAdvantage { step_return, anchor_group, episode_advantage, step_advantage, advantage })
}
