//! RLSD: the teacher changes the size of a token's advantage, never its sign.

use crate::error::{InputError, same_length, setting};
use crate::rows::TokenRows;

/// Settings of [`rlsd_advantage`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RlsdConfig {
    /// Share of the reweighted advantage, in [0, 1]; see [`Schedule::WarmDown`](crate::Schedule::WarmDown) for its decay.
    pub lambda: f64,
    /// Token weights stay within 1 ± this, in [0, 1].
    pub clip_eps: f64,
}

impl Default for RlsdConfig {
    fn default() -> Self {
        Self { lambda: 0.5, clip_eps: 0.2 }
    }
}

/// What [`rlsd_advantage`] computes, one entry per token, 0 at masked places.
#[derive(Debug, Clone, PartialEq)]
pub struct RlsdAdvantage {
    /// w = clip(exp(sign(A) (ℓT − ℓ_old)), 1 − ε, 1 + ε).
    pub token_weight: Vec<f64>,
    /// A ((1 − λ) + λ w).
    pub advantage: Vec<f64>,
}

/// Token advantages A ((1 − λ) + λ w) from one advantage per row.
///
/// `old_logp` and `teacher_logp` have one entry per token of `rows`. `teacher_rows` says which rows have a teacher (all, when
/// `None`); the tokens of the others get weight 1.
pub fn rlsd_advantage(
    sequence_advantage: &[f64],
    old_logp: &[f64],
    teacher_logp: &[f64],
    rows: &TokenRows,
    teacher_rows: Option<&[bool]>,
    config: &RlsdConfig,
) -> Result<RlsdAdvantage, InputError> {
    same_length("sequence_advantage", sequence_advantage.len(), rows.row_count(), "row")?;
    same_length("old_logp", old_logp.len(), rows.token_count(), "token")?;
    same_length("teacher_logp", teacher_logp.len(), rows.token_count(), "token")?;
    if let Some(teacher_rows) = teacher_rows {
        same_length("teacher_rows", teacher_rows.len(), rows.row_count(), "row")?;
    }
    setting("lambda", config.lambda, (0.0..=1.0).contains(&config.lambda), "a number in [0, 1]")?;
    setting("clip_eps", config.clip_eps, (0.0..=1.0).contains(&config.clip_eps), "a number in [0, 1]")?;
    let mut token_weight = vec![0.0; rows.token_count()];
    let mut advantage = vec![0.0; rows.token_count()];
    for (row, range) in rows.ranges().enumerate() {
        let sequence = sequence_advantage[row];
        // `f64::signum` is ±1 at zero.
        let sign = if sequence == 0.0 { 0.0 } else { sequence.signum() };
        let has_teacher = teacher_rows.is_none_or(|teacher_rows| teacher_rows[row]);
        for token in range.filter(|&token| rows.counted()[token]) {
            let weight = if has_teacher {
                (sign * (teacher_logp[token] - old_logp[token]))
                    .exp()
                    .clamp(1.0 - config.clip_eps, 1.0 + config.clip_eps)
            } else {
                1.0
            };
            token_weight[token] = weight;
            advantage[token] = sequence * ((1.0 - config.lambda) + config.lambda * weight);
        }
    }
    Ok(RlsdAdvantage { token_weight, advantage })
}
