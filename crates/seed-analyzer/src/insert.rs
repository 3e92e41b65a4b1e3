//! How a skill gets into a prompt: the wording around it, the place, and what happens when it does not fit.

use crate::slots::{SlotError, SlotText};
use regex::Regex;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// What a skill speaks about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkillKind {
    /// The whole episode.
    Episode,
    /// One step of it.
    Step,
}

/// The wording around a skill: a title, an instruction and the skill in brackets, from `configs/prompts/skill/`.
#[derive(Debug, Clone)]
pub struct SkillBlock {
    episode: SlotText,
    step: SlotText,
}

const SLOTS: &[&str] = &["skill"];

impl SkillBlock {
    /// The wording that is compiled in; `household` has a very short one.
    pub fn embedded(environment: &str) -> Self {
        let (episode, step) = match environment {
            "household" => (
                include_str!("../../../configs/prompts/skill/household/episode.txt"),
                include_str!("../../../configs/prompts/skill/household/step.txt"),
            ),
            _ => (
                include_str!("../../../configs/prompts/skill/episode.txt"),
                include_str!("../../../configs/prompts/skill/step.txt"),
            ),
        };
        let parse = |name, source| {
            SlotText::parse(Path::new(name), source, SLOTS, SLOTS)
                .expect("embedded wordings are checked by the tests")
        };
        Self { episode: parse("episode.txt", episode), step: parse("step.txt", step) }
    }

    /// The embedded wording with `episode.txt` or `step.txt` replaced where `folder` has them.
    ///
    /// # Errors
    /// When a file cannot be read, has an unknown slot or lacks `{{skill}}`, or when the folder has neither file.
    pub fn load(environment: &str, folder: &Path) -> Result<Self, BlockError> {
        let mut block = Self::embedded(environment);
        let mut found = false;
        for (name, text) in [("episode.txt", &mut block.episode), ("step.txt", &mut block.step)] {
            let path = folder.join(name);
            match std::fs::read_to_string(&path) {
                Ok(source) => *text = SlotText::parse(&path, &source, SLOTS, SLOTS)?,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(source) => return Err(BlockError::Read { path, source }),
            }
            found = true;
        }
        if !found {
            return Err(BlockError::EmptyFolder { path: folder.to_owned() });
        }
        Ok(block)
    }

    /// The block for a skill. White space around the skill is dropped.
    pub fn render(&self, skill: &str, kind: SkillKind) -> String {
        let text = match kind {
            SkillKind::Episode => &self.episode,
            SkillKind::Step => &self.step,
        };
        text.fill(&[("skill", skill.trim())])
    }
}

/// Why a wording cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlockError {
    /// A file cannot be read.
    #[error("{}: cannot read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The folder has neither file.
    #[error("{}: neither episode.txt nor step.txt is here", path.display())]
    EmptyFolder {
        /// The folder.
        path: PathBuf,
    },
    /// A file has an unknown slot or lacks one.
    #[error(transparent)]
    Slots(#[from] SlotError),
}

/// Puts a block on its own line at a prompt's explicit slot, given as a byte offset at the start of a line or the end.
///
/// Everything else stays as it was. An offset that is not on a character's edge is moved back to one.
pub fn at_slot(prompt: &str, at: usize, block: &str) -> String {
    let at = prompt.floor_char_boundary(at);
    match at == prompt.len() {
        true => format!("{prompt}\n{block}"),
        false => format!("{}{block}\n{}", &prompt[..at], &prompt[at..]),
    }
}

/// Where a block landed in a prompt without an explicit slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Behind the line that states the task.
    AfterTaskLine,
    /// Before the closing paragraph that hands over the turn.
    BeforeClosing,
    /// At the end.
    End,
}

// The first line with a task, question or goal, whatever else stands on it.
static TASK_LINE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?im)^.*(?:\byour\s+(?:current\s+)?(?:task|goal|question)\s+is\b|\b(?:task|question|goal)\s*:).*$",
    )
});
static CLOSING: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?im)^[^\n]*\b(?:now\s+)?it(?:'s|\s+is)\s+your\s+turn\b"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is a literal of this file")
}

/// Finds the place for a block by looking at the words of the prompt, as the reference implementation does.
///
/// An episode block goes behind the first line with a task, question or goal; without one before the closing
/// "your turn" paragraph, else to the end. A step block goes before the closing paragraph, else to the end. An empty
/// line is put around the block; everything else stays as it was.
///
/// The reference's known flaw stays in this mode: a prompt with neither (EZPoints) gets the block *behind* its output
/// format. An explicit slot ([`at_slot`]) has no such surprise.
pub fn by_words(prompt: &str, block: &str, kind: SkillKind) -> (String, Place) {
    let task_line = match kind {
        SkillKind::Episode => TASK_LINE.find(prompt).map(|line| line.end()),
        SkillKind::Step => None,
    };
    let (at, place) = match task_line {
        Some(at) => (at, Place::AfterTaskLine),
        None => match CLOSING.find(prompt) {
            Some(closing) => (closing.start(), Place::BeforeClosing),
            None => (prompt.len(), Place::End),
        },
    };
    let (before, after) = prompt.split_at(at);
    let mut text = before.to_owned();
    if !before.is_empty() {
        text.push_str(missing_breaks(before.len() - before.trim_end_matches('\n').len()));
    }
    text.push_str(block.trim_matches('\n'));
    if !after.is_empty() {
        text.push_str(missing_breaks(after.len() - after.trim_start_matches('\n').len()));
    }
    text.push_str(after);
    (text, place)
}

/// The line breaks that an empty line still needs.
fn missing_breaks(there: usize) -> &'static str {
    match there {
        0 => "\n\n",
        1 => "\n",
        _ => "",
    }
}

/// What happens to a teacher prompt that is longer than its budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overflow {
    /// Past steps are left out, the oldest first; if that is not enough, the row gives no signal.
    #[default]
    DropHistory,
    /// The row gives no signal.
    MaskRow,
    /// The beginning is cut off, the skill possibly with it (the reference implementation).
    Left,
}

/// How a teacher prompt was made to fit. Everything but [`Fit::Whole`] is to be counted by whoever calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fit<P> {
    /// It fitted as it was.
    Whole(P),
    /// It fits with a shorter history.
    HistoryDropped {
        /// The prompt.
        prompt: P,
        /// How many past steps are still quoted.
        kept: usize,
    },
    /// So many tokens are to be cut from its beginning.
    CutLeft {
        /// The whole prompt.
        prompt: P,
        /// How many tokens are too many.
        tokens: usize,
    },
    /// It cannot be used: mask the row.
    Masked {
        /// The tokens of the shortest prompt that was tried.
        tokens: usize,
    },
}

/// Makes a teacher prompt fit into `budget` tokens (the prompt's budget plus the skill's).
///
/// `render` makes the prompt with a number of past steps, `history_length` first; `count` says how many tokens it has.
/// History is dropped one step at a time, since each prompt is rendered at most once per step.
pub fn fit<P>(
    overflow: Overflow,
    budget: usize,
    history_length: usize,
    mut render: impl FnMut(usize) -> P,
    mut count: impl FnMut(&P) -> usize,
) -> Fit<P> {
    let prompt = render(history_length);
    let mut tokens = count(&prompt);
    if tokens <= budget {
        return Fit::Whole(prompt);
    }
    match overflow {
        Overflow::Left => Fit::CutLeft { prompt, tokens: tokens - budget },
        Overflow::MaskRow => Fit::Masked { tokens },
        Overflow::DropHistory => {
            for kept in (0..history_length).rev() {
                let prompt = render(kept);
                tokens = count(&prompt);
                if tokens <= budget {
                    return Fit::HistoryDropped { prompt, kept };
                }
            }
            Fit::Masked { tokens }
        }
    }
}
