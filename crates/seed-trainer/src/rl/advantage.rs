//! From rewards to one advantage a sampled token, by the configured estimator of `seed-core`.

use super::sample::Sample;
use crate::config::{self, AdvConfig, Estimator, Penalty, StdKind};
use crate::metrics::Record;
use seed_core::advantage::{
    Across, GigpoConfig, GigpoRows, GroupAdvantage, OpidAdvantage, RlsdConfig, SkillGap, Std,
    gigpo_advantage, group_advantage, opid_advantage, rloo_advantage, rlsd_advantage,
};
use seed_core::diagnostics::group_diagnostics;
use seed_core::{InputError, Schedule, TokenRows};

/// What [`assign`] needs beside the samples.
#[derive(Debug, Clone, Copy)]
pub struct AdvantageOptions<'a> {
    /// The `[adv]` section.
    pub config: &'a AdvConfig,
    /// Subtracted from a row's score or advantage for invalid actions.
    pub invalid_penalty: f64,
    /// Updates completed, for schedules.
    pub completed: u64,
    /// Raw observation that each row's first action answered; GiGPO only.
    pub anchors: &'a [String],
}

/// The score of a row: its episode's return, minus the penalty for the share of its responses without the right form.
///
/// A step row has one response, so that it loses all of the penalty or nothing.
pub fn row_score(sample: &Sample, invalid_penalty: f64) -> f64 {
    let turns = sample.row.turns.len().max(1) as f64;
    sample.row.episode_return - invalid_penalty * sample.row.invalid_turns() as f64 / turns
}

/// Gives every sample its advantages, and says what they were like.
///
/// # Errors
/// [`InputError`] for rewards that are not finite.
pub fn assign(samples: &mut [Sample], options: AdvantageOptions<'_>) -> Result<Record, InputError> {
    let config = options.config;
    let rewards: Vec<f64> = samples.iter().map(|sample| sample.row.episode_return).collect();
    let scores: Vec<f64> = samples.iter().map(|sample| row_score(sample, options.invalid_penalty)).collect();
    let groups: Vec<usize> = samples.iter().map(|sample| sample.row.group).collect();
    let trajectories: Vec<usize> = samples.iter().map(|sample| sample.row.trajectory).collect();
    let across = match config.across {
        config::Across::Rows => Across::Rows,
        config::Across::Trajectories => Across::Trajectories,
    };
    let std = match config.std {
        StdKind::Unbiased => Std::Unbiased,
        StdKind::Population => Std::Population,
    };
    let group = GroupAdvantage {
        across,
        std,
        std_norm: config.std_norm,
        std_floor: config.std_floor,
        ..GroupAdvantage::grpo()
    };
    let compared = match config.penalty {
        Penalty::Score => &scores,
        Penalty::Advantage => &rewards,
    };
    let mut per_row = match config.estimator {
        Estimator::Group | Estimator::Rlsd | Estimator::Opid => {
            group_advantage(compared, &groups, &trajectories, &group)?
        }
        Estimator::Rloo => rloo_advantage(compared, &groups, &trajectories, across)?,
        Estimator::Gigpo => {
            let step_reward: Vec<f64> = samples.iter().map(|sample| sample.row.reward).collect();
            let rows = GigpoRows {
                step_reward: &step_reward,
                episode_score: compared,
                groups: &groups,
                trajectories: &trajectories,
                anchors: options.anchors,
            };
            let settings = GigpoConfig {
                gamma: config.gamma,
                step_weight: config.step_weight,
                std_norm: config.std_norm,
                std,
                across,
                ..GigpoConfig::default()
            };
            gigpo_advantage(&rows, &settings)?.advantage
        }
    };
    if config.penalty == Penalty::Advantage {
        let lost = scores.iter().zip(&rewards).map(|(score, reward)| score - reward);
        per_row.iter_mut().zip(lost).for_each(|(advantage, lost)| *advantage += lost);
    }
    let per_token = per_token(samples, &per_row, options)?;
    let mut start = 0;
    for sample in samples.iter_mut() {
        let end = start + sample.old_logp.len();
        sample.advantage = per_token[start..end].to_vec();
        start = end;
    }

    let mut record = Record::new();
    for (name, value) in group_diagnostics(&rewards, &scores, &groups)?.metrics().iter() {
        record.set(name, value);
    }
    let count = per_row.len().max(1) as f64;
    record.set("advantage/mean", per_row.iter().sum::<f64>() / count);
    record.set("advantage/abs_mean", per_row.iter().map(|a| a.abs()).sum::<f64>() / count);
    record.set("advantage/max", per_row.iter().copied().fold(f64::NEG_INFINITY, f64::max));
    record.set("advantage/min", per_row.iter().copied().fold(f64::INFINITY, f64::min));
    Ok(record)
}

fn per_token(
    samples: &[Sample],
    per_row: &[f64],
    options: AdvantageOptions<'_>,
) -> Result<Vec<f64>, InputError> {
    let config = options.config;
    let lengths: Vec<usize> = samples.iter().map(|sample| sample.old_logp.len()).collect();
    let rows = TokenRows::full(&lengths);
    if !matches!(config.estimator, Estimator::Rlsd | Estimator::Opid) {
        return rows.spread(per_row);
    }
    let old: Vec<f64> = samples.iter().flat_map(|s| s.old_logp.iter().map(|x| f64::from(*x))).collect();
    let has_teacher: Vec<bool> = samples.iter().map(|sample| sample.teacher_prompt.is_some()).collect();
    let teacher: Vec<f64> = samples
        .iter()
        .flat_map(|s| {
            // Rows without a teacher are masked; their own values stand in.
            let source = if s.teacher_prompt.is_some() { &s.teacher_logp } else { &s.old_logp };
            source.iter().map(|x| f64::from(*x))
        })
        .collect();
    if config.estimator == Estimator::Rlsd {
        let schedule = Schedule::WarmDown { steps: config.rlsd_updates as u64 };
        let settings = RlsdConfig {
            lambda: config.rlsd_lambda * schedule.factor(options.completed),
            clip_eps: config.rlsd_clip,
        };
        return Ok(rlsd_advantage(per_row, &old, &teacher, &rows, Some(&has_teacher), &settings)?.advantage);
    }
    let settings = OpidAdvantage { episode_weight: config.opid_weight, ..OpidAdvantage::default() };
    let gap = SkillGap { teacher_logp: &teacher, row_mask: &has_teacher };
    opid_advantage(per_row, &old, Some(gap), None, &rows, &settings)
}
