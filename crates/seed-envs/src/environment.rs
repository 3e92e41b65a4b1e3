//! What an environment is: a task goes in, observations come out, actions go back.
//!
//! Text, tool and image environments share one small trait. Whatever a model says is an *action*; a senseless
//! action is answered by an observation, never by a panic and never by an error.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::Arc;

/// One thing to do: a game, a shopping goal, a question, a level.
///
/// It travels to every token row of its episodes, so that results can be read per kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Task {
    /// Unique inside its suite and stable over runs and machines, e.g. `valid_seen/pick_…/trial_…`.
    pub id: String,
    /// The split it belongs to, e.g. `train`, `valid_seen`.
    pub split: String,
    /// The family for tables per type, e.g. `pick_and_place_simple`.
    pub kind: String,
}

/// A picture, row by row, three bytes (red, green, blue) a pixel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// `width * height * 3` bytes.
    pub rgb: Vec<u8>,
}

/// What the agent sees.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observation {
    /// The raw text of the environment, before any prompt template.
    pub text: String,
    /// Commands that the environment would accept now, in its own order; `None` where it does not list them.
    /// Shared, so that an unchanged list costs nothing.
    pub admissible: Option<Arc<[String]>>,
    /// The frame, where the environment shows pictures. Shared, so that a frame is stored once.
    pub image: Option<Arc<Image>>,
}

impl Observation {
    /// An observation of text alone.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// What a step reports beside its reward.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepInfo {
    /// The goal holds. Success is read from here alone: `done` may also mean that time ran out.
    pub won: bool,
    /// The environment's own score in its own unit (ALFWorld 0 or 1, WebShop's task score in 0..=1).
    pub score: f64,
    /// Whether the environment could carry the action out; `None` where it cannot tell.
    pub action_valid: Option<bool>,
    /// Whatever else an environment reports, by name (reward parts, retrieved documents, …).
    pub details: Map<String, Value>,
}

/// The answer to one action.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// What the agent sees now.
    pub observation: Observation,
    /// The reward of this step alone.
    pub reward: f64,
    /// The episode is over for a reason of its own: goal reached, item bought, answer given.
    pub done: bool,
    /// The episode is over since its step limit was reached.
    pub truncated: bool,
    /// Typed facts about the step.
    pub info: StepInfo,
}

impl Step {
    /// No further step will change anything.
    pub fn is_last(&self) -> bool {
        self.done || self.truncated
    }
}

/// The step that ended an episode, once there is one: what [`Environment::step`] goes on returning, with reward 0.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastStep(Option<Step>);

impl LastStep {
    /// The answer to a further action; `None` while the episode runs.
    pub(crate) fn again(&self) -> Option<Step> {
        self.0.as_ref().map(|last| Step { reward: 0.0, ..last.clone() })
    }

    /// Keeps the step if it ends the episode, and hands it on.
    pub(crate) fn keep(&mut self, step: Step) -> Step {
        if step.is_last() {
            self.0 = Some(step.clone());
        }
        step
    }

    /// Whether the episode is over.
    pub(crate) fn is_over(&self) -> bool {
        self.0.is_some()
    }
}

/// A running episode factory: reset it with a task, then step it with actions.
///
/// Between episodes an environment keeps nothing that could change the next one: `reset` with the same task and
/// seed gives the same observations for the same actions, whatever was played before.
pub trait Environment: Send {
    /// Starts an episode. `seed` drives whatever is random in the environment itself.
    ///
    /// # Errors
    /// When the task is unknown or its data cannot be read; there is no episode then, and `step` says
    /// [`EnvError::NotReset`].
    fn reset(&mut self, task: &Task, seed: u64) -> Result<Observation, EnvError>;

    /// Carries out one action, exactly as the model said it (after projection).
    ///
    /// After the last step the state is frozen: further steps return that last step with reward 0.
    ///
    /// # Errors
    /// [`EnvError::NotReset`] before the first `reset` and after one that failed. Never because of the action's text.
    fn step(&mut self, action: &str) -> Result<Step, EnvError>;

    /// A copy of the running episode that goes its own way from here (branching, replay, search).
    fn snapshot(&self) -> Box<dyn Environment>;

    /// What a built-in expert would do now; `None` where there is none, or when the episode is over.
    fn expert_action(&self) -> Option<String> {
        None
    }
}

/// A family of tasks and the environments that play them, e.g. ALFWorld with its data loaded once.
///
/// Everything that can be shared between episodes lives here; [`Suite::environment`] is cheap.
pub trait Suite: Send + Sync {
    /// The name used in configuration files, e.g. `alfworld`.
    fn name(&self) -> &str;

    /// The splits in their usual order.
    fn splits(&self) -> Vec<String>;

    /// The tasks of a split in a fixed, machine-independent order.
    ///
    /// # Errors
    /// [`EnvError::UnknownSplit`] names the splits that exist.
    fn tasks(&self, split: &str) -> Result<Arc<[Task]>, EnvError>;

    /// A fresh environment over the shared data.
    fn environment(&self) -> Box<dyn Environment>;

    /// The sentence that tells the agent what to do in this task, where it is known before a reset.
    fn task_description(&self, task: &Task) -> Option<String>;
}

/// Why an environment cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvError {
    /// `step` came before `reset`.
    #[error("`step` was called before `reset`")]
    NotReset,
    /// The task is not in this suite.
    #[error("no task `{id}` in `{suite}`")]
    UnknownTask {
        /// The suite that was asked.
        suite: String,
        /// The id that was asked for.
        id: String,
    },
    /// The split is not in this suite.
    #[error("no split `{split}` in `{suite}`; it has {known}")]
    UnknownSplit {
        /// The suite that was asked.
        suite: String,
        /// The split that was asked for.
        split: String,
        /// The splits it has, comma-separated.
        known: String,
    },
    /// A data file cannot be read.
    #[error("{}: cannot read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A data file says something that it must not.
    #[error("{}{place}: found {found}, expected {expected}", path.display())]
    Data {
        /// The file.
        path: PathBuf,
        /// Where in the file: `:12`, ` record 3 field "name"`, or empty.
        place: String,
        /// What stands there.
        found: String,
        /// What should stand there.
        expected: String,
    },
    /// Another process or server that the environment depends on failed.
    #[error("{service}: {problem}")]
    Service {
        /// What was asked, e.g. a retriever's address.
        service: String,
        /// What went wrong and what to do about it.
        problem: String,
    },
}
