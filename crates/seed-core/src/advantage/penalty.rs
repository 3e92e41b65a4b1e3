//! The penalty on actions that the environment could not parse.

use crate::error::{InputError, finite, same_length, setting};

/// The score of each row: its episode's reward, minus `coef` where the row's own action was invalid.
///
/// Rows of one trajectory may therefore have different scores.
pub fn invalid_action_penalty(
    episode_reward: &[f64],
    is_action_valid: &[bool],
    coef: f64,
) -> Result<Vec<f64>, InputError> {
    same_length("is_action_valid", is_action_valid.len(), episode_reward.len(), "row")?;
    finite("episode_reward", episode_reward)?;
    setting("coef", coef, coef.is_finite(), "a finite number")?;
    Ok(episode_reward
        .iter()
        .zip(is_action_valid)
        .map(|(reward, &valid)| if valid { *reward } else { reward - coef })
        .collect())
}
