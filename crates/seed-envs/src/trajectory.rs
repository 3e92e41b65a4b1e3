//! The finished episode at the level of text: what analyzers read and files keep.

use crate::environment::{Step, Task};
use serde::{Deserialize, Serialize};

/// One exchange: what was seen, what the policy said, what was done with it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TrajectoryStep {
    /// The raw observation *before* the action (not the templated prompt).
    pub observation: String,
    /// Commands that were admissible then; empty where the environment does not list them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub admissible: Vec<String>,
    /// The whole response, reasoning included, without special tokens.
    pub response: String,
    /// The action that the projection took from the response.
    pub action: String,
    /// Whether the response had the required form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_valid: Option<bool>,
    /// The reward of the step.
    pub reward: f64,
    /// Index of the frame in the episode's frame store, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<usize>,
}

/// How an episode ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The goal held at the end, as the environment says.
    pub won: bool,
    /// The environment's final score in its own unit.
    pub score: f64,
    /// The episode was cut by its step limit.
    pub truncated: bool,
}

impl Outcome {
    /// How an episode ended with this step.
    pub(crate) fn of(last: &Step) -> Self {
        Self { won: last.info.won, score: last.info.score, truncated: last.truncated }
    }
}

/// A whole episode of one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trajectory {
    /// The environment's name, e.g. `alfworld`.
    pub environment: String,
    /// What was to be done.
    pub task: Task,
    /// The task in the agent's words, e.g. `put a clean mug in the coffeemachine`.
    pub task_description: String,
    /// The environment's seed.
    pub seed: u64,
    /// The steps in time order.
    pub steps: Vec<TrajectoryStep>,
    /// What stood there after the last action.
    pub final_observation: String,
    /// How it ended.
    pub outcome: Outcome,
}

impl Trajectory {
    /// The sum of the steps' rewards.
    pub fn episode_return(&self) -> f64 {
        self.steps.iter().map(|step| step.reward).sum()
    }
}
