//! What can be wrong with a game.

use std::fmt;

/// The three texts of a game file, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// `pddl_domain`.
    Domain,
    /// `pddl_problem`.
    Problem,
    /// `grammar`.
    Grammar,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Domain => "pddl_domain",
            Self::Problem => "pddl_problem",
            Self::Grammar => "grammar",
        })
    }
}

/// Why a game cannot be played.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GameError {
    /// A text does not say what its language asks for.
    #[error("{part} line {line}: found {found}, expected {expected}")]
    Syntax {
        /// The text.
        part: Part,
        /// Line in that text, from 1.
        line: usize,
        /// What stands there, shortened.
        found: String,
        /// What should stand there.
        expected: String,
    },
    /// A text uses a language feature that no household game needs and this engine leaves out.
    #[error("{part} line {line}: {feature} is not supported")]
    Unsupported {
        /// The text.
        part: Part,
        /// Line in that text, from 1.
        line: usize,
        /// The feature.
        feature: String,
    },
    /// A game is larger than any that this engine takes.
    #[error("{found} {what}, at most {limit} are supported")]
    TooLarge {
        /// What was counted.
        what: &'static str,
        /// How many there are (or the first number above the limit).
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// No sequence of actions can reach the goal, even if nothing were ever undone.
    #[error("the goal can never be reached")]
    GoalUnreachable,
    /// Domain and grammar do not belong together.
    #[error("grammar: {problem}")]
    Grammar {
        /// Which rule or action, and what is wrong with it.
        problem: String,
    },
}

/// At most 40 characters of `text`, quoted, for messages.
pub(super) fn excerpt(text: &str) -> String {
    let mut chars = text.chars();
    let head: String = chars.by_ref().take(40).collect();
    if chars.next().is_some() { format!("`{head}…`") } else { format!("`{head}`") }
}
