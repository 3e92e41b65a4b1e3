//! Advantages from rewards, on plain slices in `f64`.
//!
//! A *row* is one training sample (one step of an episode). Labels of groups and trajectories may be of any type that can be
//! hashed: strings, numbers, tuples. Groups may be ragged. Scores have to be finite; everything else has a defined value.

use std::collections::HashMap;
use std::hash::Hash;

use crate::switch::switch;

pub mod gigpo;
pub mod group;
pub mod opid;
pub mod penalty;
pub mod rloo;
pub mod rlsd;

pub use gigpo::{
    GigpoAdvantage, GigpoConfig, GigpoRows, gigpo_advantage, gigpo_advantage_with, step_returns,
};
pub use group::{GroupAdvantage, group_advantage};
pub use opid::{OpidAdvantage, SkillGap, SkillRouting, opid_advantage};
pub use penalty::invalid_action_penalty;
pub use rloo::rloo_advantage;
pub use rlsd::{RlsdAdvantage, RlsdConfig, rlsd_advantage};

switch! {
    /// Over what the statistics of a group are taken.
    Across ("statistics") {
        /// Every row counts, so long trajectories weigh more.
        Rows = "rows",
        /// One score per trajectory: that of its first row.
        Trajectories = "trajectories",
    }
}

switch! {
    /// The divisor of a variance.
    Std ("standard deviation") {
        /// n − 1.
        Unbiased = "unbiased",
        /// n.
        Population = "population",
    }
}

/// A partition of positions, numbered by first appearance.
pub(crate) struct Partition {
    /// The part of each position.
    pub(crate) part_of: Vec<usize>,
    /// The positions of each part, ascending.
    pub(crate) members: Vec<Vec<usize>>,
}

pub(crate) fn partition<K: Eq + Hash>(keys: impl IntoIterator<Item = K>) -> Partition {
    let mut number: HashMap<K, usize> = HashMap::new();
    let mut parts = Partition { part_of: Vec::new(), members: Vec::new() };
    for (position, key) in keys.into_iter().enumerate() {
        let next = parts.members.len();
        let part = *number.entry(key).or_insert(next);
        if part == next {
            parts.members.push(Vec::new());
        }
        parts.part_of.push(part);
        parts.members[part].push(position);
    }
    parts
}

/// Mean and standard deviation in two passes. Equal values give that value and exactly zero, whatever their rounding.
///
/// Needs at least one value, and two for the unbiased form.
pub(crate) fn moments(values: &[f64], std: Std) -> (f64, f64) {
    if values.iter().all(|&value| value == values[0]) {
        return (values[0], 0.0);
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let divisor = match std {
        Std::Unbiased => count - 1.0,
        Std::Population => count,
    };
    (mean, (squares / divisor).sqrt())
}

/// The scores that enter the statistics of each group.
pub(crate) fn group_scores<G: Eq + Hash, T: Eq + Hash>(
    scores: &[f64],
    groups: &[G],
    trajectories: &[T],
    across: Across,
) -> (Partition, Vec<Vec<f64>>) {
    let parts = partition(groups);
    let per_group = parts
        .members
        .iter()
        .map(|members| match across {
            Across::Rows => members.iter().map(|&row| scores[row]).collect(),
            Across::Trajectories => partition(members.iter().map(|&row| &trajectories[row]))
                .members
                .iter()
                .map(|rows| scores[members[rows[0]]])
                .collect(),
        })
        .collect();
    (parts, per_group)
}
