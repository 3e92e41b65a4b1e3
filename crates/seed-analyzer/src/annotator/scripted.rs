//! An annotator that needs no network: it replays the episode and reasons about it with the world's rules.
//!
//! In ALFWorld it follows every object and place, works out which part of the task was done and which was not, and says
//! so: a way of working after a success, the first thing that went wrong after a failure. The household world reads its
//! own episodes ([`seed_envs::household::lesson`]), and so does EZPoints ([`seed_envs::ezpoints::lesson`]). Every object, place and action that is named occurs in the episode or
//! in the world's rules. For other environments it falls back to what can be read from the steps alone.
//!
//! The same episode always gives the same words.

use super::{AnnotateError, Annotation, Annotator};
use crate::prompt::{AnalyzerPrompt, PromptOptions, SkillMode};
use crate::serialize::{self, OutcomeLabel};
use crate::skill::Skill;
use seed_envs::Trajectory;

mod general;
mod goal;
mod lesson;
mod rules;
mod walk;

/// The most words of a skill that this annotator words itself; the household world's own lessons are about as long.
pub const WORD_LIMIT: usize = 40;

/// Writes skills by analysing the episode itself.
#[derive(Debug, Clone)]
pub struct ScriptedAnnotator {
    prompt: AnalyzerPrompt,
    options: PromptOptions,
}

impl ScriptedAnnotator {
    /// An annotator whose records carry this prompt, as if it had been asked by it.
    ///
    /// It writes episode skills only; the options' mode is taken as [`SkillMode::EpisodeOnly`].
    pub fn new(prompt: AnalyzerPrompt, options: PromptOptions) -> Self {
        Self { prompt, options: PromptOptions { mode: SkillMode::EpisodeOnly, ..options } }
    }

    /// An annotator for an environment with its embedded prompt and layout.
    pub fn for_environment(environment: &str) -> Self {
        let prompt = AnalyzerPrompt::embedded(environment);
        let options = PromptOptions { layout: prompt.layout(), ..PromptOptions::default() };
        Self::new(prompt, options)
    }

    /// The skill of an episode; `None` when it has no steps.
    pub fn skill(trajectory: &Trajectory, outcome: OutcomeLabel) -> Option<Skill> {
        if trajectory.steps.is_empty() {
            return None;
        }
        let task = serialize::task_of(trajectory);
        // A task that is none of the world's families, or no command at all: only the steps are left to look at.
        let lesson = match trajectory.environment.as_str() {
            "alfworld" => {
                let goal = task.as_deref().and_then(goal::Goal::parse);
                goal.and_then(|goal| lesson::write(&goal, &walk::Walk::of(trajectory), outcome))
            }
            "household" => household(trajectory, outcome),
            "ezpoints" | "ezpoints_text" => ezpoints(trajectory, outcome),
            _ => None,
        };
        let (summary, skill) = lesson.unwrap_or_else(|| general::write(trajectory, task.as_deref(), outcome));
        Some(Skill { episode_summary: summary, episode_skill: skill, step_skills: Default::default() })
    }
}

impl Annotator for ScriptedAnnotator {
    fn annotate(&self, trajectory: &Trajectory) -> Result<Annotation, AnnotateError> {
        let outcome = OutcomeLabel::of(trajectory);
        let mut skill = Self::skill(trajectory, outcome)
            .ok_or_else(|| AnnotateError::NoSteps { task: trajectory.task.id.clone() })?;
        if !self.options.summary {
            skill.episode_summary.clear();
        }
        let prompt = self.prompt.render(trajectory, outcome, None, &self.options)?;
        Ok(Annotation { prompt, answer: skill.to_json(), skill })
    }
}

/// The household world's own reading of an episode, with a summary in its policy's vocabulary.
fn household(trajectory: &Trajectory, outcome: OutcomeLabel) -> Option<(String, String)> {
    let mut lesson = seed_envs::household::lesson::Lesson::from_trajectory(trajectory)?;
    match outcome {
        OutcomeLabel::Success => lesson.won = true,
        OutcomeLabel::Failure => lesson.won = false,
        OutcomeLabel::Unknown => {}
    }
    let skill = lesson.text();
    if skill.is_empty() {
        return None;
    }
    let object = lesson.task.object;
    let end = if lesson.won { "The task is done." } else { "The task is not done." };
    let summary = match lesson.found.first() {
        Some(find) => format!("{end} The {object} was at {}.", find.receptacle),
        None => format!("{end} The {object} was not found."),
    };
    Some((summary, skill))
}

/// EZPoints' own reading: the formula, or what is known of the cards.
fn ezpoints(trajectory: &Trajectory, outcome: OutcomeLabel) -> Option<(String, String)> {
    let skill = seed_envs::ezpoints::lesson::Lesson::from_trajectory(trajectory)?.text();
    let summary = match outcome {
        OutcomeLabel::Success => "The goal was reached.",
        OutcomeLabel::Failure => "The goal was not reached.",
        OutcomeLabel::Unknown => "It is not known how it ended.",
    };
    Some((summary.to_owned(), skill))
}

/// Capitalises sentences and joins them until the next one would go over the limit of words. The first one always stays.
fn within_limit(sentences: impl IntoIterator<Item = String>) -> String {
    let mut text = String::new();
    let mut words = 0;
    for sentence in sentences {
        let count = sentence.split_whitespace().count();
        if words > 0 && words + count > WORD_LIMIT {
            continue;
        }
        if words > 0 {
            text.push(' ');
        }
        let mut letters = sentence.chars();
        text.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        text.push_str(letters.as_str());
        words += count;
    }
    text
}

/// `a`, `a and b`, `a, b and c`, without repeats; at most `most` items.
fn list(items: impl IntoIterator<Item = String>, most: usize) -> String {
    let mut kept: Vec<String> = Vec::new();
    for item in items {
        if !kept.contains(&item) && kept.len() < most {
            kept.push(item);
        }
    }
    match kept.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
