//! The skill itself: its schema, how it is read from a model's answer, and when it is accepted.
//!
//! Reading is as tolerant as the reference implementation, no more and no less, so that parse rates compare:
//!
//! 1. Candidates are the inside of every fenced block, then the whole text; each is tried as it is and with trailing
//!    commas removed.
//! 2. In each candidate a JSON object is decoded at *every* opening brace (control characters may stand in strings).
//! 3. Only if not a single object was found, Python-style literals (`{'a': True}`) are tried at every brace.
//! 4. Of all objects the first one that has the wanted field is chosen, else the first one.
//! 5. Values become strings; step keys that are no integers are skipped.

use crate::prompt::SkillMode;
use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::LazyLock;

mod json;
mod python;

/// What an analyzer learnt from one episode.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skill {
    /// What happened, in a sentence or two; empty where it was not asked for. Never shown to the policy.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub episode_summary: String,
    /// The lesson of the whole episode, addressed to the policy; empty in [`SkillMode::StepOnly`].
    #[serde(default)]
    pub episode_skill: String,
    /// Lessons for single steps by 0-based index; empty in [`SkillMode::EpisodeOnly`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub step_skills: BTreeMap<usize, String>,
}

impl Skill {
    /// The JSON text that a model is trained to answer with: one line, the fields in the order of the prompt, a blank
    /// behind each comma and colon as in the prompt's form.
    ///
    /// The summary is left out when it is empty, the step skills when there are none. Reading it back gives the
    /// skill again (with its texts trimmed).
    pub fn to_json(&self) -> String {
        let mut fields = Vec::new();
        let mut add = |name: &str, value: String| fields.push(format!("{}: {value}", quoted(name)));
        if !self.episode_summary.is_empty() {
            add("episode_summary", quoted(&self.episode_summary));
        }
        if !self.episode_skill.is_empty() || self.step_skills.is_empty() {
            add("episode_skill", quoted(&self.episode_skill));
        }
        if !self.step_skills.is_empty() {
            let steps = self.step_skills.iter().map(|(step, skill)| format!("\"{step}\": {}", quoted(skill)));
            add("step_skills", format!("{{{}}}", steps.collect::<Vec<_>>().join(", ")));
        }
        format!("{{{}}}", fields.join(", "))
    }
}

/// A text as a JSON string.
fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

/// How many bytes reading one answer may look at, all attempts together. An honest answer needs a few times its own
/// length; text made of nothing but braces would need its square.
const WORK_LIMIT: usize = 32 << 20;

static FENCE: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?s)```[A-Za-z0-9_+.-]*(.*?)```"));
static TRAILING_COMMA: LazyLock<Regex> = LazyLock::new(|| pattern(r",\s*([}\]])"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is a literal of this file")
}

/// Reads a skill from a model's answer. Never panics, and always ends soon, whatever the text.
///
/// `mode` decides which field the object is chosen by. The skill may still be empty: see [`accept`].
///
/// # Errors
/// [`ParseError::NoObject`] when nothing in the text reads as an object; [`ParseError::TooMuchWork`].
pub fn parse(answer: &str, mode: SkillMode) -> Result<Skill, ParseError> {
    let mut work = WORK_LIMIT;
    let mut candidates: Vec<String> = Vec::new();
    let fenced = FENCE.captures_iter(answer).filter_map(|block| block.get(1)).map(|block| block.as_str());
    for text in fenced.chain([answer]) {
        candidates.push(text.to_owned());
        let without = TRAILING_COMMA.replace_all(text, "$1");
        if without != text {
            candidates.push(without.into_owned());
        }
    }

    let wanted = match mode {
        SkillMode::EpisodeOnly | SkillMode::EpisodeStep => "episode_skill",
        SkillMode::StepOnly => "step_skills",
    };
    for decode in [json::object as Decoder, python::object as Decoder] {
        let mut first = None;
        for candidate in &candidates {
            for (at, _) in candidate.match_indices('{') {
                let before = work;
                let found = decode(&candidate[at..], &mut work);
                if work == 0 {
                    return Err(ParseError::TooMuchWork { bytes: answer.len() });
                }
                debug_assert!(work < before, "an attempt that costs nothing could be repeated for ever");
                match found {
                    Some(object) if object.contains_key(wanted) => return Ok(coerce(&object)),
                    Some(object) => _ = first.get_or_insert(object),
                    None => {}
                }
            }
        }
        if let Some(object) = first {
            return Ok(coerce(&object));
        }
    }
    Err(ParseError::NoObject { start: answer.chars().take(80).collect() })
}

/// Decodes one object at the start of a text; takes what it looked at from the work that is left.
type Decoder = fn(&str, &mut usize) -> Option<Map<String, Value>>;

fn coerce(object: &Map<String, Value>) -> Skill {
    let text = |key| object.get(key).map(as_text).unwrap_or_default();
    let step_skills = object.get("step_skills").and_then(Value::as_object).map(|steps| {
        let texts =
            steps.iter().filter_map(|(step, skill)| Some((step.trim().parse().ok()?, as_text(skill))));
        texts.filter(|(_, skill)| !skill.is_empty()).collect()
    });
    Skill {
        episode_summary: text("episode_summary"),
        episode_skill: text("episode_skill"),
        step_skills: step_skills.unwrap_or_default(),
    }
}

/// A value as a trimmed text: null is empty, a list or an object its JSON.
fn as_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    }
}

/// Who wrote the skill; outside annotators are held to a stricter rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// The policy itself: anything that is not empty.
    Policy,
    /// A server behind the OpenAI protocol: at least five words, and not only dots.
    Openai,
}

/// Decides whether a parsed skill may be used.
///
/// In [`SkillMode::StepOnly`] the step skills are judged, in the other modes the episode skill.
///
/// # Errors
/// [`Rejected`] says what is wrong; the trajectory then gives no distillation signal and is counted.
pub fn accept(skill: &Skill, mode: SkillMode, backend: Backend) -> Result<(), Rejected> {
    if mode == SkillMode::StepOnly {
        return match skill.step_skills.values().any(|skill| accept_text(skill, backend).is_ok()) {
            true => Ok(()),
            false if skill.step_skills.is_empty() => Err(Rejected::Empty),
            false => Err(Rejected::TooShort { words: 0 }),
        };
    }
    accept_text(&skill.episode_skill, backend)
}

fn accept_text(text: &str, backend: Backend) -> Result<(), Rejected> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Rejected::Empty);
    }
    if backend == Backend::Policy {
        return Ok(());
    }
    if text.chars().all(|c| c == '.' || c == '…' || c.is_whitespace()) {
        return Err(Rejected::OnlyDots);
    }
    match text.split_whitespace().count() {
        words @ 0..5 => Err(Rejected::TooShort { words }),
        _ => Ok(()),
    }
}

/// Why no skill could be read from an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// There is no JSON object and no Python-style one in the text.
    #[error("no JSON object in the answer, which starts with {start:?}")]
    NoObject {
        /// The first 80 characters of the answer.
        start: String,
    },
    /// The answer has so many nested or unfinished objects that reading it was given up.
    #[error("an answer of {bytes} bytes has too many unfinished objects to be read")]
    TooMuchWork {
        /// The length of the answer.
        bytes: usize,
    },
}

/// Why a parsed skill is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejected {
    /// The wanted field is missing or empty.
    #[error("the skill is empty")]
    Empty,
    /// A placeholder was copied instead of filled in.
    #[error("the skill holds only dots")]
    OnlyDots,
    /// Less than five words from an outside annotator.
    #[error("the skill has {words} words, at least 5 are expected")]
    TooShort {
        /// How many there are.
        words: usize,
    },
}
