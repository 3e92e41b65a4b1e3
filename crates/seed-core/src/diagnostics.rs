//! Named numbers beside a loss.
//!
//! | name | meaning |
//! |---|---|
//! | `loss` | the joint objective |
//! | `pg/loss` | policy loss, before its coefficient |
//! | `pg/clip_fraction` | share of tokens whose clipped loss is the larger one |
//! | `pg/clip_fraction_lower` | share of tokens bounded by the dual clip |
//! | `pg/approx_kl` | mean ℓ_old − ℓ |
//! | `entropy` | aggregated entropy |
//! | `kl/loss` | divergence from the reference, before its coefficient |
//! | `opd/loss` | distillation loss, before its coefficient |
//! | `opd/gate_mean` | mean gate; ½ means that the skill changed nothing |
//! | `opd/gate_variance` | variance of the gate; zero means that the expected update is |
//! | `opd/gate_active_ratio` | share of gates > ½ |
//! | `opd/gap_mean` | mean ℓT − ℓS |
//! | `opd/active_token_ratio` | tokens with a teacher / all tokens of the layout, masked ones included |
//! | `group/tied_ratio` | share of groups in which all scores are equal |
//! | `group/penalty_only_ratio` | share of groups whose rewards are equal and whose scores differ |
//!
//! Means are over counted tokens. A mean over nothing is 0.

use std::hash::Hash;

use burn::tensor::Tensor;

use crate::advantage::partition;
use crate::error::{InputError, same_length};

/// Diagnostics still on the device; [`Diagnostics::read`] transfers them in one go.
#[derive(Debug, Clone)]
pub struct Diagnostics {
    entries: Vec<(&'static str, Kind)>,
    sums: Option<Tensor<1>>,
}

/// How a number is formed and merged.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// Sum / weight.
    Mean { weight: f64 },
    /// E(x²) − E(x)², from two sums.
    Variance { weight: f64 },
    /// A summand of a total.
    Part,
}

/// Collects sums while a loss is computed.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    entries: Vec<(&'static str, Kind)>,
    sums: Vec<Tensor<1>>,
}

impl Recorder {
    pub(crate) fn mean(&mut self, name: &'static str, sum: Tensor<1>, weight: usize) {
        self.entries.push((name, Kind::Mean { weight: weight as f64 }));
        self.sums.push(sum.inner());
    }

    pub(crate) fn variance(
        &mut self,
        name: &'static str,
        sum: Tensor<1>,
        sum_of_squares: Tensor<1>,
        weight: usize,
    ) {
        self.entries.push((name, Kind::Variance { weight: weight as f64 }));
        self.sums.push(sum.inner());
        self.sums.push(sum_of_squares.inner());
    }

    pub(crate) fn part(&mut self, name: &'static str, value: Tensor<1>) {
        self.entries.push((name, Kind::Part));
        self.sums.push(value.inner());
    }

    pub(crate) fn extend(&mut self, other: Recorder) {
        self.entries.extend(other.entries);
        self.sums.extend(other.sums);
    }

    pub(crate) fn finish(self) -> Diagnostics {
        let sums = (!self.sums.is_empty()).then(|| Tensor::cat(self.sums, 0));
        Diagnostics { entries: self.entries, sums }
    }
}

impl Diagnostics {
    /// Transfers all numbers from the device, once.
    pub fn read(self) -> Metrics {
        let sums = self.sums.map(|sums| {
            sums.try_into_vec_as::<f64>().expect("the device delivers the numbers it has computed")
        });
        let mut sums = sums.into_iter().flatten();
        let mut next = || sums.next().expect("every entry pushed its sums");
        let entries = self
            .entries
            .into_iter()
            .map(|(name, kind)| {
                let sum = next();
                let sum_of_squares = if matches!(kind, Kind::Variance { .. }) { next() } else { 0.0 };
                Metric { name, kind, sum, sum_of_squares }
            })
            .collect();
        Metrics { entries }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Metric {
    name: &'static str,
    kind: Kind,
    sum: f64,
    sum_of_squares: f64,
}

impl Metric {
    fn value(&self) -> f64 {
        match self.kind {
            Kind::Part => self.sum,
            Kind::Mean { weight: 0.0 } | Kind::Variance { weight: 0.0 } => 0.0,
            Kind::Mean { weight } => self.sum / weight,
            Kind::Variance { weight } => {
                (self.sum_of_squares / weight - (self.sum / weight).powi(2)).max(0.0)
            }
        }
    }
}

/// Named numbers on the host, mergeable over the parts of a mini-batch.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Metrics {
    entries: Vec<Metric>,
}

impl Metrics {
    /// The number of this name, if it was recorded.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.entries.iter().find(|metric| metric.name == name).map(Metric::value)
    }

    /// Names and values, in the order of recording.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, f64)> + '_ {
        self.entries.iter().map(|metric| (metric.name, metric.value()))
    }

    /// Adds the numbers of another part of the same mini-batch: means are weighted by their tokens, losses add up.
    pub fn merge(&mut self, other: &Self) {
        for theirs in &other.entries {
            match self.entries.iter_mut().find(|ours| ours.name == theirs.name) {
                Some(ours) => {
                    ours.sum += theirs.sum;
                    ours.sum_of_squares += theirs.sum_of_squares;
                    match (&mut ours.kind, theirs.kind) {
                        (Kind::Mean { weight }, Kind::Mean { weight: more })
                        | (Kind::Variance { weight }, Kind::Variance { weight: more }) => *weight += more,
                        _ => {}
                    }
                }
                None => self.entries.push(*theirs),
            }
        }
    }

    fn push_mean(&mut self, name: &'static str, sum: usize, weight: usize) {
        let kind = Kind::Mean { weight: weight as f64 };
        self.entries.push(Metric { name, kind, sum: sum as f64, sum_of_squares: 0.0 });
    }
}

/// Where the advantages of a batch come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupDiagnostics {
    /// Groups.
    pub groups: usize,
    /// Groups in which all scores are equal: no policy gradient.
    pub tied: usize,
    /// Groups whose rewards are all equal while their scores differ: the spread comes from penalties only, and dividing by its
    /// standard deviation makes it large.
    pub penalty_only: usize,
}

impl GroupDiagnostics {
    /// `group/tied_ratio` and `group/penalty_only_ratio`.
    pub fn metrics(&self) -> Metrics {
        let mut metrics = Metrics::default();
        metrics.push_mean("group/tied_ratio", self.tied, self.groups);
        metrics.push_mean("group/penalty_only_ratio", self.penalty_only, self.groups);
        metrics
    }
}

/// Counts tied groups and groups whose spread comes only from penalties.
///
/// `rewards` are the rows' rewards before penalties, `scores` after them. A group with a single row is tied.
pub fn group_diagnostics<G: Eq + Hash>(
    rewards: &[f64],
    scores: &[f64],
    groups: &[G],
) -> Result<GroupDiagnostics, InputError> {
    same_length("scores", scores.len(), rewards.len(), "row")?;
    same_length("groups", groups.len(), rewards.len(), "row")?;
    let parts = partition(groups);
    let mut counts = GroupDiagnostics { groups: parts.members.len(), ..Default::default() };
    for members in &parts.members {
        let equal = |values: &[f64]| members.iter().all(|&row| values[row] == values[members[0]]);
        if equal(scores) {
            counts.tied += 1;
        } else if equal(rewards) {
            counts.penalty_only += 1;
        }
    }
    Ok(counts)
}
