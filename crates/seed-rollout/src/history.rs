//! What happened so far in an episode, as far as a prompt may quote it.

use seed_envs::Trajectory;

/// The observations and actions of a running episode; a template quotes the last few of them.
///
/// Steps are counted from 1 over the whole episode, whatever the window: the third action is number 3 in every prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// One more than `actions`: the last one is what stands there now.
    observations: Vec<String>,
    actions: Vec<String>,
}

/// One past step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PastStep<'a> {
    /// Its number in the episode, from 1.
    pub number: usize,
    /// What was seen before the action.
    pub before: &'a str,
    /// What was done (the projected action, not the response).
    pub action: &'a str,
    /// What came back.
    pub after: &'a str,
}

impl History {
    /// An episode that has just been reset.
    pub fn new(first_observation: impl Into<String>) -> Self {
        Self { observations: vec![first_observation.into()], actions: Vec::new() }
    }

    /// The history that the policy had before step `step` (from 0) of a finished episode.
    ///
    /// A step beyond the end gives the whole episode with its final observation.
    pub fn before_step(trajectory: &Trajectory, step: usize) -> Self {
        let steps = &trajectory.steps[..step.min(trajectory.steps.len())];
        let mut observations: Vec<String> = steps.iter().map(|step| step.observation.clone()).collect();
        observations.push(match trajectory.steps.get(step) {
            Some(step) => step.observation.clone(),
            None => trajectory.final_observation.clone(),
        });
        Self { observations, actions: steps.iter().map(|step| step.action.clone()).collect() }
    }

    /// Adds an action and what came back.
    pub fn push(&mut self, action: impl Into<String>, observation: impl Into<String>) {
        self.actions.push(action.into());
        self.observations.push(observation.into());
    }

    /// How many actions were taken.
    pub fn steps(&self) -> usize {
        self.actions.len()
    }

    /// What the agent sees now.
    pub fn current(&self) -> &str {
        self.observations.last().map_or("", String::as_str)
    }

    /// The last `length` steps in time order; fewer when the episode is younger, none for 0.
    pub fn window(&self, length: usize) -> impl ExactSizeIterator<Item = PastStep<'_>> {
        let start = self.steps().saturating_sub(length);
        (start..self.steps()).map(|at| PastStep {
            number: at + 1,
            before: &self.observations[at],
            action: &self.actions[at],
            after: &self.observations[at + 1],
        })
    }
}
