//! Tests of the crate from outside: one binary, one module a concern.

mod annotators;
mod insertion;
mod parsing;
mod prompts;
mod quality;
mod records;
mod scripted;
mod static_library;

use seed_envs::{Outcome, Task, Trajectory, TrajectoryStep};

/// An episode from (observation, response, action) steps.
pub(crate) fn episode(
    environment: &str,
    task: &str,
    steps: &[(&str, &str, &str)],
    last: &str,
    won: bool,
) -> Trajectory {
    let step = |(observation, response, action): &(&str, &str, &str)| TrajectoryStep {
        observation: (*observation).into(),
        response: (*response).into(),
        action: (*action).into(),
        action_valid: Some(true),
        ..TrajectoryStep::default()
    };
    Trajectory {
        environment: environment.into(),
        task: Task { id: "train/game-1".into(), split: "train".into(), kind: "pick".into() },
        task_description: task.into(),
        seed: 0,
        steps: steps.iter().map(step).collect(),
        final_observation: last.into(),
        outcome: Outcome { won, score: f64::from(u8::from(won)), truncated: !won },
    }
}
