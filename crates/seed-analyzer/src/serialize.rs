//! The episode as text for an analyzer: steps, outcome label, task.

use regex::Regex;
use seed_envs::Trajectory;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::sync::LazyLock;

/// The mark that stands for the picture of a step in a visual episode.
pub const IMAGE_MARK: &str = "<image>";

/// Texts that a processor would take for a picture. In what a policy said they are made harmless.
const IMAGE_MARKS: [&str; 7] = [
    IMAGE_MARK,
    "<video>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
];

/// Whether an episode reached its goal, as far as anybody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeLabel {
    /// The goal was reached: a workflow is distilled.
    Success,
    /// It was not: an avoidance rule is distilled.
    Failure,
    /// Nothing says so: either.
    Unknown,
}

impl OutcomeLabel {
    /// The label from an environment's own success value, else from the episode's return.
    ///
    /// Success counts from 1.0 on. Only when it is absent does the return decide, against `threshold` (1.0 in the
    /// reference). With neither the label is unknown. NaN is absent.
    pub fn from_signals(success: Option<f64>, episode_return: Option<f64>, threshold: f64) -> Self {
        let label = |good| if good { OutcomeLabel::Success } else { OutcomeLabel::Failure };
        match (success.filter(|x| !x.is_nan()), episode_return.filter(|x| !x.is_nan())) {
            (Some(success), _) => label(success >= 1.0),
            (None, Some(episode_return)) => label(episode_return >= threshold),
            (None, None) => OutcomeLabel::Unknown,
        }
    }

    /// The label of an episode of ours: the environment always says whether the goal held.
    pub fn of(trajectory: &Trajectory) -> Self {
        Self::from_signals(Some(f64::from(u8::from(trajectory.outcome.won))), None, 1.0)
    }

    /// The word in prompts and files.
    pub fn name(self) -> &'static str {
        match self {
            OutcomeLabel::Success => "success",
            OutcomeLabel::Failure => "failure",
            OutcomeLabel::Unknown => "unknown",
        }
    }
}

/// How the steps are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Per step its 0-based index, the raw observation, the whole response and, where known, its validity.
    #[default]
    Full,
    /// Observation and response on lines of their own, nothing else: for tiny policies with a small vocabulary.
    Brief,
}

/// Writes the steps of an episode. No rewards are shown.
///
/// With `visual` each observation is replaced by [`IMAGE_MARK`], and image marks that a policy wrote itself are made
/// harmless, so that the text has exactly one mark a step.
///
/// # Errors
/// [`SerializeError::NoImage`] when `visual` is set and a step has no picture.
pub fn serialize(trajectory: &Trajectory, layout: Layout, visual: bool) -> Result<String, SerializeError> {
    serialize_from(trajectory, 0, layout, visual)
}

/// As [`serialize`], without the steps before `first`. The others keep their numbers.
///
/// # Errors
/// As [`serialize`]; only the written steps are looked at.
pub fn serialize_from(
    trajectory: &Trajectory,
    first: usize,
    layout: Layout,
    visual: bool,
) -> Result<String, SerializeError> {
    let mut text = String::new();
    for (index, step) in trajectory.steps.iter().enumerate().skip(first) {
        if visual && step.image.is_none() {
            return Err(SerializeError::NoImage { task: trajectory.task.id.clone(), step: index });
        }
        let observation = if visual { IMAGE_MARK } else { step.observation.trim() };
        let response = step.response.trim();
        let response = if visual { neutralise(response) } else { response.to_owned() };
        if index > first {
            text.push('\n');
        }
        // Writing to a string cannot fail.
        _ = match layout {
            Layout::Full => {
                let valid = match step.action_valid {
                    Some(true) => "\nAction valid: true",
                    Some(false) => "\nAction valid: false",
                    None => "",
                };
                writeln!(text, "Step {index}\nObservation: {observation}\nResponse: {response}{valid}")
            }
            Layout::Brief => write!(text, "{observation}\n{response}"),
        };
    }
    text.truncate(text.trim_end().len());
    Ok(text)
}

/// Breaks the image marks in a text, so that no processor takes them for a picture: `<image>` becomes `[image]`.
pub fn neutralise(text: &str) -> String {
    let mut text = text.to_owned();
    // Removing one mark never makes another: brackets replace what every mark starts and ends with.
    for mark in IMAGE_MARKS {
        if text.contains(mark) {
            let name = mark.trim_matches(['<', '>', '|']);
            text = text.replace(mark, &format!("[{name}]"));
        }
    }
    text
}

/// Why an episode cannot be written for an analyzer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SerializeError {
    /// A visual episode has a step without a picture.
    #[error("task `{task}`, step {step}: no picture, but every step of a visual episode needs one")]
    NoImage {
        /// The task's id.
        task: String,
        /// The step, from 0.
        step: usize,
    },
}

static TASK_PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    // In this order. A line ends the task; a full stop stays, since some environments count it as part of the text.
    [
        r"(?im)\byour\s+(?:current\s+)?task\s+is(?:\s+to)?\s*:\s*(\S.*)$",
        r"(?im)\byour\s+(?:current\s+)?task\s+is\s+to\s+(\S.*)$",
        r"(?im)^\W*(?:task|instruction)\s*:[\s*_]*(\S.*)$",
        r"(?im)^\W*question\s*:[\s*_]*(\S.*)$",
        r"(?im)\byour\s+(?:current\s+)?goal\s+is(?:\s+to)?\s*:?\s*(\S.*)$",
        r"(?im)^\W*goal\s*:[\s*_]*(\S.*)$",
    ]
    .iter()
    .map(|pattern| Regex::new(pattern).expect("the pattern is a literal of this file"))
    .collect()
});

/// The task as it is stated in the first of the texts that states one (prompt first, then raw observation), with its
/// white space collapsed; `None` when no text has a task, question or goal line.
pub fn task_description<'a>(texts: impl IntoIterator<Item = &'a str>) -> Option<String> {
    texts.into_iter().find_map(|text| {
        let task = TASK_PATTERNS.iter().find_map(|pattern| pattern.captures(text)?.get(1))?;
        Some(task.as_str().split_whitespace().collect::<Vec<_>>().join(" "))
    })
}

/// The task of an episode: its own description, else what its first observation says.
pub fn task_of(trajectory: &Trajectory) -> Option<String> {
    let described = trajectory.task_description.split_whitespace().collect::<Vec<_>>().join(" ");
    match described.is_empty() {
        false => Some(described),
        true => task_description(trajectory.steps.first().map(|step| step.observation.as_str())),
    }
}
