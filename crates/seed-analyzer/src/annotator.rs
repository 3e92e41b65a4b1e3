//! Whoever writes a skill for a finished episode without being the policy: a server, or a program.

use crate::serialize::SerializeError;
use crate::skill::{ParseError, Rejected, Skill};
use seed_envs::Trajectory;
use serde::{Deserialize, Serialize};

pub mod openai;
pub mod run;
pub mod scripted;

/// Writes a skill for a finished episode. Shared between threads.
pub trait Annotator: Sync {
    /// Reads an episode and writes its lesson.
    ///
    /// # Errors
    /// [`AnnotateError`] says why this episode gets none. Others may still succeed.
    fn annotate(&self, trajectory: &Trajectory) -> Result<Annotation, AnnotateError>;
}

/// A skill and how it came about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Annotation {
    /// The analyzer prompt that the skill answers.
    pub prompt: String,
    /// The answer as it was given.
    pub answer: String,
    /// What was read from it.
    pub skill: Skill,
}

/// Why an episode gets no skill.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnnotateError {
    /// The episode cannot be shown to an analyzer.
    #[error(transparent)]
    Serialize(#[from] SerializeError),
    /// There is nothing to learn from.
    #[error("task `{task}`: the episode has no steps")]
    NoSteps {
        /// The task's id.
        task: String,
    },
    /// The server could not be reached or did not answer, after all tries.
    #[error("{url}: {problem} (tried {tries} times)")]
    Transport {
        /// The address.
        url: String,
        /// The last failure.
        problem: String,
        /// How often it was tried.
        tries: u32,
    },
    /// The server refused the request; trying again would not help.
    #[error("{url}: status {status}: {message}")]
    Refused {
        /// The address.
        url: String,
        /// The HTTP status.
        status: u16,
        /// The beginning of what the server said.
        message: String,
    },
    /// The server's answer is not what the protocol says.
    #[error("{url}: {problem}")]
    Protocol {
        /// The address.
        url: String,
        /// What is missing or wrong.
        problem: String,
    },
    /// No skill could be read from the answer, after all attempts.
    #[error("no skill in the answer after {attempts} attempts: {source}")]
    Unreadable {
        /// How often the server was asked.
        attempts: u32,
        /// What was wrong with the last answer.
        source: ParseError,
        /// The last answer.
        answer: String,
    },
    /// The skill was read but does not pass, after all attempts.
    #[error("skill refused after {attempts} attempts: {source}")]
    Rejected {
        /// How often the server was asked.
        attempts: u32,
        /// What was wrong with the last skill.
        source: Rejected,
        /// The last answer.
        answer: String,
    },
}

impl AnnotateError {
    /// The answer that could not be used, where there was one.
    pub fn answer(&self) -> Option<&str> {
        match self {
            AnnotateError::Unreadable { answer, .. } | AnnotateError::Rejected { answer, .. } => Some(answer),
            _ => None,
        }
    }
}
