//! What every environment must keep, as a test suite that anybody can run on theirs.
//!
//! ```no_run
//! # fn suite() -> impl seed_envs::Suite { seed_envs::alfworld::AlfWorld::from_env(Default::default()).unwrap() }
//! use seed_envs::conformance::{Conformance, check};
//! let report = check(&suite(), &Conformance { max_steps: 50, ..Conformance::default() })?;
//! println!("{report}");
//! # Ok::<(), seed_envs::conformance::Violation>(())
//! ```

use crate::environment::{EnvError, Environment, Observation, Step, Suite, Task};
use std::collections::HashSet;
use std::fmt;

/// How a suite is checked.
#[derive(Debug, Clone)]
pub struct Conformance {
    /// Tasks of each split that are played.
    pub tasks_per_split: usize,
    /// Steps after which every episode must have ended.
    pub max_steps: usize,
    /// Actions that make sense in this environment, for suites that do not list admissible ones.
    pub actions: Vec<String>,
    /// Whether observations of later steps may be empty, as the protocol of Search-QA wants it after senseless text and
    /// after the last step.
    pub empty_observations: bool,
    /// Seed of the played episodes and of the choice of actions.
    pub seed: u64,
}

impl Default for Conformance {
    fn default() -> Self {
        Self { tasks_per_split: 2, max_steps: 100, actions: Vec::new(), empty_observations: false, seed: 0 }
    }
}

/// How much was checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// Splits looked at.
    pub splits: usize,
    /// Tasks listed.
    pub tasks: usize,
    /// Episodes played.
    pub episodes: usize,
    /// Steps played.
    pub steps: usize,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { splits, tasks, episodes, steps } = self;
        write!(f, "{splits} splits, {tasks} tasks, {episodes} episodes, {steps} steps")
    }
}

/// A rule that a suite breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{rule}: {what}")]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// Where and how.
    pub what: String,
}

/// What every environment keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// There are splits; each lists at least one task, the same ones each time, and says its own name.
    Listing,
    /// Task ids are unique over all splits.
    UniqueIds,
    /// An unknown split and an unknown task are errors of their own kind.
    UnknownNames,
    /// `step` before `reset`, or after one that failed, is [`EnvError::NotReset`].
    StepBeforeReset,
    /// Task, seed and actions decide everything, whatever was played before.
    Determinism,
    /// No action text is an error.
    AnyText,
    /// What is listed as admissible is carried out.
    Admissible,
    /// A copy goes its own way and leaves the original alone.
    Snapshot,
    /// Every episode ends within the limit, and says how.
    StepLimit,
    /// After the last step nothing changes and nothing is earned.
    Frozen,
    /// Observations are not empty, numbers are finite.
    Values,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Listing => "splits list their tasks",
            Self::UniqueIds => "task ids are unique",
            Self::UnknownNames => "unknown names are errors",
            Self::StepBeforeReset => "stepping needs a reset",
            Self::Determinism => "episodes can be repeated",
            Self::AnyText => "no action text is an error",
            Self::Admissible => "admissible actions are carried out",
            Self::Snapshot => "snapshots are independent",
            Self::StepLimit => "episodes end within the limit",
            Self::Frozen => "finished episodes are frozen",
            Self::Values => "observations and numbers make sense",
        })
    }
}

fn broken<T>(rule: Rule, what: impl Into<String>) -> Result<T, Violation> {
    Err(Violation { rule, what: what.into() })
}

/// A name that no suite has.
const NOWHERE: &str = "no such name \u{1}";

/// Texts that a model may come up with.
fn strange_texts() -> Vec<String> {
    vec![
        String::new(),
        " \t\n".into(),
        "\u{0}\u{1b}[31m\u{7f}".into(),
        "ÄÖÜ 漢字 🤖 \u{202e}\u{feff}".into(),
        "search[".into(),
        "click[]".into(),
        "{\"action\": null}".into(),
        "-99999999999999999999999999".into(),
        "<action></action>".into(),
        "((((((((((".repeat(1000),
        "go to ".repeat(20_000),
    ]
}

/// A small generator for the choice of actions (SplitMix64).
struct Choice(u64);

impl Choice {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % count.max(1) as u64) as usize
    }
}

/// An episode's record: first observation, and for each step the action and the answer.
struct Record {
    first: Observation,
    steps: Vec<(String, Step)>,
}

struct Checker<'a> {
    suite: &'a dyn Suite,
    options: &'a Conformance,
    report: Report,
}

/// Checks a suite; the first broken rule is returned.
///
/// # Errors
/// The first [`Violation`].
pub fn check(suite: &dyn Suite, options: &Conformance) -> Result<Report, Violation> {
    let mut checker = Checker { suite, options, report: Report::default() };
    let tasks = checker.listing()?;
    checker.unknown_names()?;
    for task in &tasks {
        checker.task(task, &tasks)?;
    }
    Ok(checker.report)
}

impl Checker<'_> {
    /// Checks the lists and returns the tasks to play.
    fn listing(&mut self) -> Result<Vec<Task>, Violation> {
        let splits = self.suite.splits();
        if splits.is_empty() {
            return broken(Rule::Listing, "there are no splits");
        }
        let mut ids = HashSet::new();
        let mut chosen = Vec::new();
        for split in &splits {
            let list = |suite: &dyn Suite| match suite.tasks(split) {
                Ok(tasks) => Ok(tasks),
                Err(error) => broken(Rule::Listing, format!("split `{split}`: {error}")),
            };
            let tasks = list(self.suite)?;
            if tasks.is_empty() {
                return broken(Rule::Listing, format!("split `{split}` is empty"));
            }
            if *tasks != *list(self.suite)? {
                return broken(Rule::Listing, format!("split `{split}` lists other tasks the second time"));
            }
            for task in tasks.iter() {
                if task.split != *split {
                    return broken(Rule::Listing, format!("`{}` is listed by `{split}`", task.id));
                }
                if !ids.insert(task.id.clone()) {
                    return broken(Rule::UniqueIds, format!("`{}` exists twice", task.id));
                }
            }
            let step = (tasks.len() / self.options.tasks_per_split.max(1)).max(1);
            chosen.extend(tasks.iter().step_by(step).take(self.options.tasks_per_split).cloned());
            self.report.tasks += tasks.len();
        }
        self.report.splits = splits.len();
        Ok(chosen)
    }

    fn unknown_names(&self) -> Result<(), Violation> {
        match self.suite.tasks(NOWHERE) {
            Err(EnvError::UnknownSplit { .. }) => {}
            other => return broken(Rule::UnknownNames, format!("an unknown split gave {other:?}")),
        }
        let split = self.suite.splits().swap_remove(0);
        let task = Task { id: NOWHERE.into(), split, kind: String::new() };
        match self.suite.environment().reset(&task, 0) {
            Err(EnvError::UnknownTask { .. }) => {}
            other => return broken(Rule::UnknownNames, format!("an unknown task gave {other:?}")),
        }
        match self.suite.environment().step("look") {
            Err(EnvError::NotReset) => Ok(()),
            other => broken(Rule::StepBeforeReset, format!("it gave {other:?}")),
        }
    }

    fn task(&mut self, task: &Task, all: &[Task]) -> Result<(), Violation> {
        let place = format!("task `{}`", task.id);
        if self.suite.task_description(task).is_some_and(|text| text.trim().is_empty()) {
            return broken(Rule::Values, format!("{place}: an empty description"));
        }
        let mut environment = self.suite.environment();
        let record = self.play(environment.as_mut(), task, None)?;
        self.frozen(environment.as_mut(), &record, &place)?;

        // Again in a fresh environment, and in one that has played something else.
        let actions: Vec<String> = record.steps.iter().map(|(action, _)| action.clone()).collect();
        let again = self.play(self.suite.environment().as_mut(), task, Some(&actions))?;
        self.same(&record, &again, &format!("{place}, played again"))?;
        let other = all.iter().find(|other| other.id != task.id).unwrap_or(task);
        self.play(environment.as_mut(), other, Some(&actions[..actions.len().min(5)]))?;
        let again = self.play(environment.as_mut(), task, Some(&actions))?;
        self.same(&record, &again, &format!("{place}, played after another task"))?;

        self.snapshot(task, &record, &place)?;
        self.strange(task, &place)?;
        self.failed_reset(task, &place)
    }

    fn failed_reset(&mut self, task: &Task, place: &str) -> Result<(), Violation> {
        let mut environment = self.suite.environment();
        self.play(environment.as_mut(), task, Some(&[]))?;
        let unknown = Task { id: NOWHERE.into(), ..task.clone() };
        if environment.reset(&unknown, self.options.seed).is_ok() {
            return broken(Rule::UnknownNames, format!("{place}: an unknown task was started"));
        }
        match environment.step("look") {
            Err(EnvError::NotReset) => Ok(()),
            other => {
                broken(Rule::StepBeforeReset, format!("{place}, after a failed reset: it gave {other:?}"))
            }
        }
    }

    fn play(
        &mut self,
        environment: &mut dyn Environment,
        task: &Task,
        actions: Option<&[String]>,
    ) -> Result<Record, Violation> {
        let place = format!("task `{}`", task.id);
        let first = match environment.reset(task, self.options.seed) {
            Ok(first) => first,
            Err(error) => return broken(Rule::Listing, format!("{place} cannot be reset: {error}")),
        };
        self.observation(&first, &place)?;
        let mut choice = Choice(self.options.seed);
        let mut admissible = first.admissible.clone();
        let mut record = Record { first, steps: Vec::new() };
        self.report.episodes += 1;
        loop {
            let number = record.steps.len();
            let (action, listed) = match (actions, &admissible) {
                (Some(actions), _) => match actions.get(number) {
                    Some(action) => (action.clone(), false),
                    None => return Ok(record),
                },
                (None, Some(list)) if !list.is_empty() => (list[choice.below(list.len())].clone(), true),
                (None, _) => match self.options.actions.as_slice() {
                    [] => ("look".into(), false),
                    list => (list[choice.below(list.len())].clone(), false),
                },
            };
            let place = format!("{place}, step {}", number + 1);
            let step = self.step(environment, &action, &place)?;
            if listed && step.info.action_valid == Some(false) {
                return broken(Rule::Admissible, format!("{place}: `{action}` was listed and refused"));
            }
            let last = step.is_last();
            admissible.clone_from(&step.observation.admissible);
            record.steps.push((action, step));
            if last {
                return Ok(record);
            }
            if record.steps.len() >= self.options.max_steps {
                let limit = self.options.max_steps;
                return broken(Rule::StepLimit, format!("{place}: still running after {limit} steps"));
            }
        }
    }

    fn step(
        &mut self,
        environment: &mut dyn Environment,
        action: &str,
        place: &str,
    ) -> Result<Step, Violation> {
        self.report.steps += 1;
        let shown: String = action.chars().take(60).collect();
        let step = match environment.step(action) {
            Ok(step) => step,
            Err(error) => return broken(Rule::AnyText, format!("{place}: `{shown}` gave {error}")),
        };
        if !(self.options.empty_observations && step.observation.text.is_empty()) {
            self.observation(&step.observation, place)?;
        }
        if !step.reward.is_finite() || !step.info.score.is_finite() {
            return broken(Rule::Values, format!("{place}: a reward or score that is no finite number"));
        }
        Ok(step)
    }

    fn observation(&self, observation: &Observation, place: &str) -> Result<(), Violation> {
        if observation.text.is_empty() && observation.image.is_none() {
            return broken(Rule::Values, format!("{place}: an empty observation"));
        }
        if let Some(image) = &observation.image
            && image.rgb.len() != image.width * image.height * 3
        {
            return broken(Rule::Values, format!("{place}: a picture whose bytes do not fit its size"));
        }
        Ok(())
    }

    fn same(&self, one: &Record, two: &Record, place: &str) -> Result<(), Violation> {
        if one.first != two.first {
            return broken(Rule::Determinism, format!("{place}: another first observation"));
        }
        if one.steps.len() != two.steps.len() {
            return broken(Rule::Determinism, format!("{place}: another length"));
        }
        match one.steps.iter().zip(&two.steps).position(|(one, two)| one != two) {
            Some(step) => broken(Rule::Determinism, format!("{place}: step {} differs", step + 1)),
            None => Ok(()),
        }
    }

    fn frozen(
        &mut self,
        environment: &mut dyn Environment,
        record: &Record,
        place: &str,
    ) -> Result<(), Violation> {
        let Some((action, last)) = record.steps.last() else { return Ok(()) };
        for action in [action.as_str(), "look", ""] {
            let step = self.step(environment, action, place)?;
            if step.reward != 0.0 {
                return broken(Rule::Frozen, format!("{place}: a reward after the end"));
            }
            if step != (Step { reward: 0.0, ..last.clone() }) {
                return broken(Rule::Frozen, format!("{place}: the last step is not repeated"));
            }
        }
        Ok(())
    }

    fn snapshot(&mut self, task: &Task, record: &Record, place: &str) -> Result<(), Violation> {
        let middle = record.steps.len() / 2;
        let (before, after) = record.steps.split_at(middle);
        let mut original = self.suite.environment();
        let actions: Vec<String> = before.iter().map(|(action, _)| action.clone()).collect();
        self.play(original.as_mut(), task, Some(&actions))?;
        let mut copy = original.snapshot();
        let mut astray = original.snapshot();
        for (action, _) in after.iter().rev() {
            self.step(astray.as_mut(), action, place)?;
        }
        for (name, environment) in [("the copy", &mut copy), ("the original", &mut original)] {
            for (number, (action, expected)) in after.iter().enumerate() {
                if self.step(environment.as_mut(), action, place)? != *expected {
                    let step = middle + number + 1;
                    return broken(Rule::Snapshot, format!("{place}: {name} differs at step {step}"));
                }
            }
        }
        Ok(())
    }

    fn strange(&mut self, task: &Task, place: &str) -> Result<(), Violation> {
        let mut environment = self.suite.environment();
        self.play(environment.as_mut(), task, Some(&[]))?;
        for text in strange_texts() {
            self.step(environment.as_mut(), &text, place)?;
        }
        Ok(())
    }
}
