//! Coefficients that depend on the number of completed training steps.

use crate::error::{InputError, setting};

/// How a coefficient changes over a run.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Schedule {
    /// Constant.
    #[default]
    Always,
    /// Full from `start_after` completed steps on, and off once `stop_after` steps are completed.
    Window {
        /// Completed steps before the first step with the coefficient.
        start_after: u64,
        /// Completed steps after which it is off; `None` for never.
        stop_after: Option<u64>,
    },
    /// Linear decay from full to zero: max(0, 1 − step / steps).
    WarmDown {
        /// Completed steps at which zero is reached, ≥ 1.
        steps: u64,
    },
}

impl Schedule {
    /// The factor in [0, 1] after `completed_steps` steps.
    ///
    /// ```
    /// use seed_core::Schedule;
    ///
    /// assert_eq!(0.5 * Schedule::WarmDown { steps: 100 }.factor(25), 0.375);
    /// ```
    pub fn factor(&self, completed_steps: u64) -> f64 {
        match *self {
            Self::Always => 1.0,
            Self::Window { start_after, stop_after } => {
                let on =
                    completed_steps >= start_after && stop_after.is_none_or(|stop| completed_steps < stop);
                f64::from(u8::from(on))
            }
            // Without a single step of decay there is nothing left.
            Self::WarmDown { steps: 0 } => 0.0,
            Self::WarmDown { steps } => (1.0 - completed_steps as f64 / steps as f64).max(0.0),
        }
    }

    /// Refuses settings that switch the coefficient off everywhere by mistake.
    pub fn validate(&self) -> Result<(), InputError> {
        match *self {
            Self::Window { start_after, stop_after: Some(stop) } => {
                setting("stop_after", stop as f64, stop > start_after, "a number of steps > start_after")
            }
            Self::WarmDown { steps } => setting("steps", steps as f64, steps > 0, "a number of steps >= 1"),
            _ => Ok(()),
        }
    }
}
