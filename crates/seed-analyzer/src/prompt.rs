//! The analyzer's prompt: one user message, made from files with slots.
//!
//! The files stand in `configs/prompts/analyzer/`; an environment may have its own in a folder of its name, and a
//! folder given by path replaces them one by one. The same prompt serves stage 1 (annotation and training) and stage 2.

use crate::insert::{self, Fit, Overflow};
use crate::serialize::{self, Layout, OutcomeLabel, SerializeError};
use crate::slots::{SlotError, SlotText};
use seed_envs::Trajectory;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Which skills are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkillMode {
    /// One skill for the whole episode (the paper's method).
    #[default]
    EpisodeOnly,
    /// One for the episode, and one for each of a few critical steps.
    EpisodeStep,
    /// Only those for critical steps.
    StepOnly,
}

impl SkillMode {
    /// An episode skill is asked for.
    pub fn has_episode(self) -> bool {
        self != SkillMode::StepOnly
    }

    /// Step skills are asked for.
    pub fn has_steps(self) -> bool {
        self != SkillMode::EpisodeOnly
    }
}

/// What is asked for and how the episode is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PromptOptions {
    /// Which skills.
    pub mode: SkillMode,
    /// Ask for a summary as well (`include_episode_summary`).
    pub summary: bool,
    /// At most so many critical steps are to be chosen (step modes).
    pub max_step_skills: usize,
    /// How the steps are written.
    pub layout: Layout,
    /// Show image marks in place of observations.
    pub visual: bool,
}

impl Default for PromptOptions {
    fn default() -> Self {
        Self {
            mode: SkillMode::EpisodeOnly,
            summary: true,
            max_step_skills: 5,
            layout: Layout::Full,
            visual: false,
        }
    }
}

/// The files of an analyzer prompt.
#[derive(Debug, Clone)]
pub struct AnalyzerPrompt {
    texts: [SlotText; FILES.len()],
    brief: bool,
}

struct File {
    name: &'static str,
    embedded: &'static str,
    slots: &'static [&'static str],
    required: &'static [&'static str],
}

macro_rules! file {
    ($name:literal, $slots:expr, $required:expr) => {
        File {
            name: $name,
            embedded: include_str!(concat!("../../../configs/prompts/analyzer/", $name)),
            slots: $slots,
            required: $required,
        }
    };
}

const PROMPT: usize = 0;
const SUMMARY: usize = 1;
const SUCCESS: usize = 2;
const FAILURE: usize = 3;
const UNKNOWN: usize = 4;
const STEPS: usize = 5;
const RULES: usize = 6;
const STEP_RULES: usize = 7;

static FILES: [File; 8] = [
    file!(
        "prompt.txt",
        &["fields", "rules", "form", "task", "outcome", "candidates", "episode"],
        // Without these two there is nothing to analyse; the rest may be worded into the file itself.
        &["outcome", "episode"]
    ),
    file!("field_summary.txt", &[], &[]),
    file!("field_skill_success.txt", &[], &[]),
    file!("field_skill_failure.txt", &[], &[]),
    file!("field_skill_unknown.txt", &[], &[]),
    file!("field_steps.txt", &["max_steps"], &["max_steps"]),
    file!("rules.txt", &[], &[]),
    file!("rules_steps.txt", &[], &[]),
];

/// Environments with files of their own, and whether their episodes are written briefly.
const OWN_FILES: [(&str, &str, &str, bool); 1] = [(
    "household",
    "prompt.txt",
    include_str!("../../../configs/prompts/analyzer/household/prompt.txt"),
    true,
)];

/// What stands in place of a task that nobody knows.
pub const NO_TASK: &str = "(not available)";

impl AnalyzerPrompt {
    /// The prompt that is compiled in, in the wording of an environment that has its own.
    pub fn embedded(environment: &str) -> Self {
        let own = OWN_FILES.iter().find(|own| own.0 == environment);
        let texts = std::array::from_fn(|at| {
            let file = &FILES[at];
            let (path, source) = match own {
                Some((_, name, source, _)) if *name == file.name => {
                    (format!("{environment}/{name}"), *source)
                }
                _ => (file.name.to_owned(), file.embedded),
            };
            SlotText::parse(Path::new(&path), source, file.slots, file.required)
                .expect("embedded prompts are checked by the tests")
        });
        Self { texts, brief: own.is_some_and(|own| own.3) }
    }

    /// The embedded prompt with those files replaced that `folder` has.
    ///
    /// # Errors
    /// When the folder cannot be read, has a `.txt` file with another name or none at all, or a file has an unknown
    /// slot or lacks one.
    pub fn load(environment: &str, folder: &Path) -> Result<Self, PromptError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| PromptError::Read { path, source }
        };
        let mut prompt = Self::embedded(environment);
        let mut found = 0;
        for entry in std::fs::read_dir(folder).map_err(failed(folder))? {
            let path = entry.map_err(failed(folder))?.path();
            if path.extension().is_none_or(|extension| extension != "txt") {
                continue;
            }
            let at = FILES.iter().position(|file| path.file_name().is_some_and(|name| name == file.name));
            let Some(at) = at else {
                let known = FILES.iter().map(|file| file.name).collect::<Vec<_>>().join(", ");
                return Err(PromptError::UnknownFile { path, known });
            };
            let source = std::fs::read_to_string(&path).map_err(failed(&path))?;
            prompt.texts[at] = SlotText::parse(&path, &source, FILES[at].slots, FILES[at].required)?;
            found += 1;
        }
        if found == 0 {
            return Err(PromptError::EmptyFolder { path: folder.to_owned() });
        }
        Ok(prompt)
    }

    /// How this prompt's episodes are written unless somebody decides otherwise: briefly for tiny policies.
    pub fn layout(&self) -> Layout {
        if self.brief { Layout::Brief } else { Layout::Full }
    }

    /// The user message that asks for the skills of an episode.
    ///
    /// `candidates` are the 0-based steps that may get a skill; only the step modes show them. `None` means all.
    ///
    /// # Errors
    /// [`SerializeError`] when a visual episode lacks a picture.
    pub fn render(
        &self,
        trajectory: &Trajectory,
        outcome: OutcomeLabel,
        candidates: Option<&[usize]>,
        options: &PromptOptions,
    ) -> Result<String, SerializeError> {
        self.render_from(0, trajectory, outcome, candidates, options)
    }

    /// A message of at most `budget` tokens, as `count` counts them. A cut that nobody sees gives lessons from half an
    /// episode, so that everything but [`Fit::Whole`] is to be counted.
    ///
    /// [`Overflow::DropHistory`] leaves out the oldest steps ([`Fit::HistoryDropped`] says how many are kept, at least
    /// one), [`Overflow::Left`] leaves the cut to the caller as the reference implementation does.
    ///
    /// # Errors
    /// As [`AnalyzerPrompt::render`].
    pub fn fit(
        &self,
        trajectory: &Trajectory,
        outcome: OutcomeLabel,
        options: &PromptOptions,
        overflow: Overflow,
        budget: usize,
        count: impl FnMut(&String) -> usize,
    ) -> Result<Fit<String>, SerializeError> {
        let steps = trajectory.steps.len();
        let whole = self.render(trajectory, outcome, None, options)?;
        // The last step always stays; `older` counts those before it.
        let render = |older: usize| {
            let first = steps.saturating_sub(1).saturating_sub(older);
            // The whole episode could be written, so a part of it can.
            if first == 0 {
                Ok(whole.clone())
            } else {
                self.render_from(first, trajectory, outcome, None, options)
            }
            .unwrap_or_default()
        };
        Ok(match insert::fit(overflow, budget, steps.saturating_sub(1), render, count) {
            Fit::HistoryDropped { prompt, kept } => Fit::HistoryDropped { prompt, kept: kept + 1 },
            other => other,
        })
    }

    fn render_from(
        &self,
        first: usize,
        trajectory: &Trajectory,
        outcome: OutcomeLabel,
        candidates: Option<&[usize]>,
        options: &PromptOptions,
    ) -> Result<String, SerializeError> {
        let episode = serialize::serialize_from(trajectory, first, options.layout, options.visual)?;
        let task = serialize::task_of(trajectory).unwrap_or_else(|| NO_TASK.to_owned());
        let all: Vec<usize>;
        let candidates = match candidates {
            Some(candidates) => candidates,
            None => {
                all = (first..trajectory.steps.len()).collect();
                &all
            }
        };
        let candidates = match options.mode.has_steps() {
            true => {
                let list = candidates.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
                format!("Candidate steps: {list}")
            }
            false => String::new(),
        };
        Ok(self.texts[PROMPT].fill(&[
            ("fields", &self.fields(outcome, options)),
            ("rules", &self.rules(options)),
            ("form", &form(options)),
            ("task", &task),
            ("outcome", outcome.name()),
            ("candidates", &candidates),
            ("episode", &episode),
        ]))
    }

    fn fields(&self, outcome: OutcomeLabel, options: &PromptOptions) -> String {
        let max_steps = options.max_step_skills.to_string();
        let mut fields = Vec::new();
        if options.summary {
            fields.push(self.texts[SUMMARY].fill(&[]));
        }
        if options.mode.has_episode() {
            let skill = match outcome {
                OutcomeLabel::Success => SUCCESS,
                OutcomeLabel::Failure => FAILURE,
                OutcomeLabel::Unknown => UNKNOWN,
            };
            fields.push(self.texts[skill].fill(&[]));
        }
        if options.mode.has_steps() {
            fields.push(self.texts[STEPS].fill(&[("max_steps", &max_steps)]));
        }
        let numbered = fields.iter().enumerate().map(|(at, field)| format!("{}. {field}", at + 1));
        numbered.collect::<Vec<_>>().join("\n")
    }

    fn rules(&self, options: &PromptOptions) -> String {
        let mut rules = self.texts[RULES].fill(&[]);
        if options.mode.has_steps() {
            rules.push('\n');
            rules.push_str(&self.texts[STEP_RULES].fill(&[]));
        }
        rules.lines().map(|rule| format!("- {rule}")).collect::<Vec<_>>().join("\n")
    }
}

/// The JSON skeleton of the answer.
pub fn form(options: &PromptOptions) -> String {
    let mut fields = Vec::new();
    if options.summary {
        fields.push("\"episode_summary\": \"...\"");
    }
    if options.mode.has_episode() {
        fields.push("\"episode_skill\": \"...\"");
    }
    if options.mode.has_steps() {
        fields.push("\"step_skills\": {\"<step>\": \"...\"}");
    }
    format!("{{{}}}", fields.join(", "))
}

/// Why prompt files cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PromptError {
    /// A file or folder cannot be read.
    #[error("{}: cannot read", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The folder has a text file that no prompt file is called.
    #[error("{}: no prompt file has this name; they are {known}", path.display())]
    UnknownFile {
        /// The file.
        path: PathBuf,
        /// The names there are.
        known: String,
    },
    /// The folder has none of the files.
    #[error("{}: no prompt file is here", path.display())]
    EmptyFolder {
        /// The folder.
        path: PathBuf,
    },
    /// A file has an unknown slot or lacks one.
    #[error(transparent)]
    Slots(#[from] SlotError),
}
