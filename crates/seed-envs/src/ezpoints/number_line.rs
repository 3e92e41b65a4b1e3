//! NumberLine: from one number to another, one step at a time.

use super::Turn;
use crate::pyrandom::PythonRandom;

/// The largest number of the line.
const END: u8 = 5;

/// A game in play.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberLine {
    target: u8,
    current: u8,
    steps: usize,
}

impl NumberLine {
    /// Steps after which the game's own count is over.
    pub const STEPS: usize = 2 * END as usize;

    /// The game of a seed; where goal and start would be equal the goal is one further (and 0 and 5 count as one).
    pub fn new(seed: u32) -> Self {
        let mut random = PythonRandom::from_int(i128::from(seed));
        let mut draw = || random.below(u64::from(END) + 1) as u8;
        let (current, goal) = (draw(), draw());
        let target = if goal == current { (goal + 1) % END } else { goal };
        Self { target, current, steps: 0 }
    }

    /// Where to go.
    pub fn target(&self) -> u8 {
        self.target
    }

    /// Where the walker is.
    pub fn current(&self) -> u8 {
        self.current
    }

    /// `Some(0)` goes down, `Some(1)` up; anything else does nothing and does not count.
    ///
    /// +1 at the goal, −1 for a step that came no nearer, else 0.
    pub fn step(&mut self, action: Option<usize>) -> Turn {
        let before = self.current.abs_diff(self.target);
        match action {
            Some(0) => self.current = self.current.saturating_sub(1),
            Some(1) => self.current = (self.current + 1).min(END),
            _ => return Turn::default(),
        }
        self.steps += 1;
        let now = self.current.abs_diff(self.target);
        let reward = match now {
            0 => 1.0,
            _ if now >= before => -1.0,
            _ => 0.0,
        };
        let terminated = now == 0;
        let truncated = !terminated && self.steps >= Self::STEPS;
        Turn { reward, terminated, truncated, accepted: true }
    }

    /// The action towards the goal.
    pub fn expert(&self) -> Option<usize> {
        (self.current != self.target).then(|| usize::from(self.current < self.target))
    }
}
