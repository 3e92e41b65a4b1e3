//! OPID: the log-probability shift of a skill, added to the advantage.

use super::{Std, moments};
use crate::error::{InputError, same_length, setting};
use crate::rows::TokenRows;
use crate::switch::switch;

switch! {
    /// Which skill speaks on a row that has both an episode skill and a step skill.
    SkillRouting ("skill routing") {
        /// Both.
        Additive = "additive",
        /// The step skill; the episode skill where there is none.
        StepPriority = "step_priority",
    }
}

/// Settings of [`opid_advantage`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OpidAdvantage {
    /// Weight of the episode skill's gap.
    pub episode_weight: f64,
    /// Weight of the step skill's gap.
    pub step_weight: f64,
    /// Standardise each kind of gap over its tokens (population std, ε = 1e-6).
    pub normalize: bool,
    /// Gaps are clipped to ± this, after normalising.
    pub clip: Option<f64>,
    /// Which skill speaks on rows with both.
    pub routing: SkillRouting,
}

impl Default for OpidAdvantage {
    fn default() -> Self {
        Self {
            episode_weight: 0.001,
            step_weight: 0.001,
            normalize: false,
            clip: None,
            routing: SkillRouting::Additive,
        }
    }
}

/// Log-probabilities of the sampled tokens under one kind of skill.
#[derive(Debug, Clone, Copy)]
pub struct SkillGap<'a> {
    /// Log-probability with the skill in the prompt, one entry per token.
    pub teacher_logp: &'a [f64],
    /// Which rows have this kind of skill.
    pub row_mask: &'a [bool],
}

/// Token advantages: that of the row plus the weighted gaps ℓT − ℓ_old of the skills it has; 0 at masked places.
pub fn opid_advantage(
    row_advantage: &[f64],
    old_logp: &[f64],
    episode: Option<SkillGap<'_>>,
    step: Option<SkillGap<'_>>,
    rows: &TokenRows,
    config: &OpidAdvantage,
) -> Result<Vec<f64>, InputError> {
    same_length("row_advantage", row_advantage.len(), rows.row_count(), "row")?;
    same_length("old_logp", old_logp.len(), rows.token_count(), "token")?;
    setting("episode_weight", config.episode_weight, config.episode_weight.is_finite(), "a finite number")?;
    setting("step_weight", config.step_weight, config.step_weight.is_finite(), "a finite number")?;
    if let Some(clip) = config.clip {
        setting("clip", clip, clip >= 0.0, "a number >= 0")?;
    }
    let mut advantage = rows.spread(row_advantage)?;
    for (skill, weight, yields) in [(episode, config.episode_weight, true), (step, config.step_weight, false)]
    {
        let Some(skill) = skill else { continue };
        let mut counted = rows.keep_rows(skill.row_mask)?;
        if let (true, SkillRouting::StepPriority, Some(step)) = (yields, config.routing, step) {
            same_length("row_mask", step.row_mask.len(), rows.row_count(), "row")?;
            counted =
                counted.keep_rows(&step.row_mask.iter().map(|has_step| !has_step).collect::<Vec<_>>())?;
        }
        for (token, gap) in gaps(skill.teacher_logp, old_logp, &counted, config)? {
            advantage[token] += weight * gap;
        }
    }
    Ok(advantage)
}

fn gaps(
    teacher_logp: &[f64],
    old_logp: &[f64],
    counted: &TokenRows,
    config: &OpidAdvantage,
) -> Result<Vec<(usize, f64)>, InputError> {
    same_length("teacher_logp", teacher_logp.len(), counted.token_count(), "token")?;
    let tokens: Vec<usize> = (0..counted.token_count()).filter(|&token| counted.counted()[token]).collect();
    let mut gaps: Vec<f64> = tokens.iter().map(|&token| teacher_logp[token] - old_logp[token]).collect();
    if config.normalize && !gaps.is_empty() {
        let (mean, std) = moments(&gaps, Std::Population);
        gaps.iter_mut().for_each(|gap| *gap = (*gap - mean) / (std + 1e-6));
    }
    if let Some(clip) = config.clip {
        gaps.iter_mut().for_each(|gap| *gap = gap.clamp(-clip, clip));
    }
    Ok(tokens.into_iter().zip(gaps).collect())
}
