//! Prompt templates: plain files with named slots, and how each environment fills them.
//!
//! A template is a folder `configs/prompts/<environment>/` with up to three files:
//!
//! | file | used for | slots it must have |
//! |---|---|---|
//! | `first.txt` | the first step, or every step without history | `skill`, and what the environment needs |
//! | `history.txt` | later steps of step rows (a window of past steps in the prompt); may be left out | `skill`, `history`, … |
//! | `turn.txt` | later user turns of transcript rows (the conversation itself is the history) | what the environment needs |
//!
//! A slot is written `{{name}}`. Values are put in as they are and never read again as a template. The slot `skill`
//! stands alone on its line; without a skill that line is not there, so that the plain prompt has no trace of it.
//! The files of this repository are compiled in; a folder given by path replaces them file by file.

use crate::history::{History, PastStep};
use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

#[cfg(test)]
mod tests;

/// The mark that stands for the picture in the text of a visual prompt, before a model's own image tokens replace it.
pub const IMAGE_MARK: &str = "<image>";

/// The slots that a template may have, in the order of [`Slot`].
const SLOT_NAMES: [&str; 9] = [
    "task",
    "observation",
    "admissible",
    "history",
    "step_count",
    "history_length",
    "current_step",
    "image",
    "skill",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Task,
    Observation,
    Admissible,
    History,
    StepCount,
    HistoryLength,
    CurrentStep,
    Image,
    Skill,
}

impl Slot {
    const ALL: [Slot; 9] = [
        Slot::Task,
        Slot::Observation,
        Slot::Admissible,
        Slot::History,
        Slot::StepCount,
        Slot::HistoryLength,
        Slot::CurrentStep,
        Slot::Image,
        Slot::Skill,
    ];

    fn name(self) -> &'static str {
        SLOT_NAMES[self as usize]
    }

    fn by_name(name: &str) -> Option<Slot> {
        Slot::ALL.into_iter().find(|slot| slot.name() == name)
    }
}

/// How past steps are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HistoryStyle {
    /// `[Observation 3: '…', Action 3: '…']`, one a line.
    Bracketed,
    /// The same; Sokoban's moves are written by their names.
    BracketedMoves,
    /// `Step 3:` + action + blank + what came back + line break; an empty line between steps.
    Search,
    /// Observation and action on lines of their own, nothing else.
    Bare,
}

/// How the list of commands is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListStyle {
    /// In single quotes, each further one on a new line behind a blank; the command `help` is not shown.
    Quoted,
    /// In single quotes with a comma, one a line.
    QuotedComma,
}

/// What an environment's name stands for.
#[derive(Debug)]
struct Style {
    name: &'static str,
    files: [Option<&'static str>; 3],
    history: HistoryStyle,
    list: ListStyle,
    /// The observation is a page of parts joined by ` [SEP] `, which starts with the instruction.
    page: bool,
    /// Slots that `first.txt`, `history.txt` and `turn.txt` must have.
    required: [&'static [Slot]; 3],
    /// Characters beyond which the prompt with history gives way to the one without.
    char_limit: Option<usize>,
}

const FILE_NAMES: [&str; 3] = ["first.txt", "history.txt", "turn.txt"];

/// The embedded files of an environment with all three of them.
macro_rules! embedded {
    ($name:literal) => {
        [
            Some(include_str!(concat!("../../../configs/prompts/", $name, "/first.txt"))),
            Some(include_str!(concat!("../../../configs/prompts/", $name, "/history.txt"))),
            Some(include_str!(concat!("../../../configs/prompts/", $name, "/turn.txt"))),
        ]
    };
    ($name:literal without history) => {
        [
            Some(include_str!(concat!("../../../configs/prompts/", $name, "/first.txt"))),
            None,
            Some(include_str!(concat!("../../../configs/prompts/", $name, "/turn.txt"))),
        ]
    };
}

/// A card game that is shown in words.
const fn cards_in_words(name: &'static str, files: [Option<&'static str>; 3]) -> Style {
    Style {
        name,
        files,
        history: HistoryStyle::Bracketed,
        list: ListStyle::Quoted,
        page: false,
        required: [
            &[Slot::Observation, Slot::Skill],
            &[Slot::Observation, Slot::Skill],
            &[Slot::Observation],
        ],
        char_limit: None,
    }
}

/// A card game that is shown as a picture; with a formula, which stands in the observation.
const fn cards_in_pictures(name: &'static str, files: [Option<&'static str>; 3], formula: bool) -> Style {
    Style {
        name,
        files,
        history: HistoryStyle::Bracketed,
        list: ListStyle::Quoted,
        page: false,
        required: if formula {
            [
                &[Slot::Image, Slot::Observation, Slot::Skill],
                &[Slot::Image, Slot::Observation, Slot::Skill],
                &[Slot::Image, Slot::Observation],
            ]
        } else {
            [&[Slot::Image, Slot::Skill], &[Slot::Image, Slot::Skill], &[Slot::Image]]
        },
        char_limit: None,
    }
}

static STYLES: [Style; 14] = [
    Style {
        name: "alfworld",
        files: embedded!("alfworld"),
        history: HistoryStyle::Bracketed,
        list: ListStyle::Quoted,
        page: false,
        // The game can be played without its list of commands, which costs most of a prompt.
        required: [
            &[Slot::Observation, Slot::Skill],
            &[Slot::Task, Slot::History, Slot::Observation, Slot::Skill],
            &[Slot::Observation],
        ],
        char_limit: None,
    },
    Style {
        name: "household",
        files: embedded!("household"),
        history: HistoryStyle::Bare,
        list: ListStyle::Quoted,
        page: false,
        required: [
            &[Slot::Observation, Slot::Skill],
            &[Slot::Task, Slot::History, Slot::Observation, Slot::Skill],
            &[Slot::Observation],
        ],
        char_limit: None,
    },
    Style {
        name: "webshop",
        files: embedded!("webshop"),
        history: HistoryStyle::Bracketed,
        list: ListStyle::QuotedComma,
        page: true,
        required: [
            &[Slot::Task, Slot::Observation, Slot::Admissible, Slot::Skill],
            &[Slot::Task, Slot::History, Slot::Observation, Slot::Admissible, Slot::Skill],
            &[Slot::Observation],
        ],
        // As in SEED and OPID; verl-agent has 13,000.
        char_limit: Some(20_000),
    },
    Style {
        name: "search_qa",
        files: embedded!("search_qa"),
        history: HistoryStyle::Search,
        list: ListStyle::Quoted,
        page: false,
        required: [
            &[Slot::Task, Slot::Skill],
            &[Slot::Task, Slot::History, Slot::Skill],
            &[Slot::Observation],
        ],
        char_limit: None,
    },
    Style {
        name: "sokoban",
        files: embedded!("sokoban"),
        history: HistoryStyle::BracketedMoves,
        list: ListStyle::Quoted,
        page: false,
        required: [
            &[Slot::Observation, Slot::Skill],
            &[Slot::History, Slot::Observation, Slot::Skill],
            &[Slot::Observation],
        ],
        char_limit: None,
    },
    Style {
        name: "sokoban_visual",
        files: embedded!("sokoban_visual" without history),
        history: HistoryStyle::BracketedMoves,
        list: ListStyle::Quoted,
        page: false,
        required: [&[Slot::Image, Slot::Skill], &[Slot::Image, Slot::Skill], &[Slot::Image]],
        char_limit: None,
    },
    cards_in_words("ezpoints_text", embedded!("ezpoints_text" without history)),
    cards_in_pictures("ezpoints", embedded!("ezpoints" without history), true),
    cards_in_words("number_line_text", embedded!("number_line_text" without history)),
    cards_in_pictures("number_line", embedded!("number_line" without history), false),
    cards_in_words("blackjack_text", embedded!("blackjack_text" without history)),
    cards_in_pictures("blackjack", embedded!("blackjack" without history), false),
    cards_in_words("points24_text", embedded!("points24_text" without history)),
    cards_in_pictures("points24", embedded!("points24" without history), true),
];

/// What a prompt is made from.
#[derive(Debug, Clone, Copy)]
pub struct StepContext<'a> {
    /// The task in words. Templates whose first observation holds it (ALFWorld, household) use it later only.
    pub task: &'a str,
    /// The episode so far; its last observation is the current one.
    pub history: &'a History,
    /// The commands that work now, where the environment lists them.
    pub admissible: Option<&'a [String]>,
    /// How many past steps a prompt of step rows may quote. 0 gives the prompt without history.
    pub history_length: usize,
}

/// A finished user message and the place for a skill in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The message without a skill.
    pub text: String,
    /// The byte offset in `text` where the line of a skill goes; `None` where the template has no such slot (`turn.txt`).
    pub skill_at: Option<usize>,
    /// How many past steps are quoted.
    pub history_length: usize,
    /// The history was left out since the prompt would have been longer than the environment's limit.
    pub history_dropped: bool,
}

impl Prompt {
    /// The message with a skill block (already worded, e.g. by `seed_analyzer::SkillBlock`) on its own line in the slot.
    ///
    /// Without a slot the message comes back unchanged.
    pub fn with_skill(&self, block: &str) -> String {
        match self.skill_at {
            None => self.text.clone(),
            Some(at) if at == self.text.len() => format!("{}\n{block}", self.text),
            Some(at) => format!("{}{block}\n{}", &self.text[..at], &self.text[at..]),
        }
    }
}

/// The templates of one environment.
#[derive(Debug, Clone)]
pub struct PromptTemplate {
    style: &'static Style,
    first: TemplateText,
    history: Option<TemplateText>,
    turn: TemplateText,
    char_limit: Option<usize>,
}

impl PromptTemplate {
    /// The environments that have embedded templates.
    pub fn environments() -> impl Iterator<Item = &'static str> {
        STYLES.iter().map(|style| style.name)
    }

    /// The templates that are compiled in.
    ///
    /// # Errors
    /// [`TemplateError::UnknownEnvironment`].
    pub fn embedded(environment: &str) -> Result<Self, TemplateError> {
        Self::load(environment, None)
    }

    /// The embedded templates with those files replaced that `folder` has.
    ///
    /// # Errors
    /// When the environment is unknown; when the folder cannot be read, has none of the three files or another
    /// `.txt` beside them (a misspelt name would otherwise go unseen); when a file has an unknown slot or lacks one.
    pub fn load(environment: &str, folder: Option<&Path>) -> Result<Self, TemplateError> {
        let style = STYLES.iter().find(|style| style.name == environment).ok_or_else(|| {
            TemplateError::UnknownEnvironment {
                name: environment.to_owned(),
                known: Self::environments().collect::<Vec<_>>().join(", "),
            }
        })?;
        let mut replaced = match folder {
            Some(folder) => read_folder(folder)?,
            None => [None, None, None],
        };
        let mut text = |at: usize| -> Result<Option<TemplateText>, TemplateError> {
            let (path, source) = match (replaced[at].take(), style.files[at]) {
                (Some((path, source)), _) => (path, Cow::Owned(source)),
                (None, Some(source)) => (
                    PathBuf::from(format!("configs/prompts/{environment}/{}", FILE_NAMES[at])),
                    Cow::Borrowed(source),
                ),
                (None, None) => return Ok(None),
            };
            TemplateText::parse(&path, &source, style.required[at]).map(Some)
        };
        let missing = |file| TemplateError::MissingFile { environment: environment.to_owned(), file };
        Ok(Self {
            style,
            first: text(0)?.ok_or(missing(FILE_NAMES[0]))?,
            history: text(1)?,
            turn: text(2)?.ok_or(missing(FILE_NAMES[2]))?,
            char_limit: style.char_limit,
        })
    }

    /// The prompts have a place for a picture.
    pub fn shows_images(&self) -> bool {
        self.style.required[0].contains(&Slot::Image)
    }

    /// Sets the number of characters beyond which a prompt with history gives way to the one without.
    #[must_use]
    pub fn with_char_limit(mut self, limit: Option<usize>) -> Self {
        self.char_limit = limit;
        self
    }

    /// The user message of a step row: task, window of past steps, current observation.
    ///
    /// The first step, `history_length` 0 and a template without `history.txt` use `first.txt`.
    pub fn step(&self, context: &StepContext<'_>) -> Prompt {
        let quoted = context.history.window(context.history_length).len();
        if let (Some(history), true) = (&self.history, quoted > 0) {
            let prompt = self.render(history, context, quoted);
            if self.char_limit.is_none_or(|limit| prompt.text.chars().count() <= limit) {
                return prompt;
            }
            return Prompt { history_dropped: true, ..self.render(&self.first, context, 0) };
        }
        self.render(&self.first, context, 0)
    }

    /// The first user turn of a transcript row. It holds the task; the context's history is not quoted.
    pub fn opening(&self, context: &StepContext<'_>) -> Prompt {
        self.render(&self.first, context, 0)
    }

    /// A later user turn of a transcript row: the current observation alone.
    pub fn turn(&self, context: &StepContext<'_>) -> Prompt {
        self.render(&self.turn, context, 0)
    }

    fn render(&self, template: &TemplateText, context: &StepContext<'_>, history_length: usize) -> Prompt {
        let history = context.history;
        let mut text = String::new();
        let mut skill_at = None;
        for piece in &template.pieces {
            let slot = match piece {
                Piece::Text(piece) => {
                    text.push_str(piece);
                    continue;
                }
                Piece::Slot(slot) => slot,
            };
            // Writing to a string cannot fail.
            match slot {
                Slot::Task => text.push_str(context.task),
                Slot::Observation => text.push_str(&self.observation(history.current(), context.task)),
                Slot::Admissible => self.write_list(&mut text, context.admissible.unwrap_or_default()),
                Slot::History => self.write_history(&mut text, history.window(history_length), context.task),
                Slot::StepCount => _ = write!(text, "{}", history.steps()),
                Slot::HistoryLength => _ = write!(text, "{history_length}"),
                Slot::CurrentStep => _ = write!(text, "{}", history.steps() + 1),
                Slot::Image => text.push_str(IMAGE_MARK),
                Slot::Skill => skill_at = Some(text.len()),
            }
        }
        Prompt { text, skill_at, history_length, history_dropped: false }
    }

    fn observation<'a>(&self, raw: &'a str, task: &str) -> Cow<'a, str> {
        if !self.style.page {
            return Cow::Borrowed(raw);
        }
        const JOINT: &str = " [SEP] ";
        let parts: Vec<&str> = raw.split(JOINT).collect();
        match parts.iter().position(|part| *part == task) {
            // The page after a purchase does not repeat the instruction and is shown whole.
            None => Cow::Borrowed(raw),
            Some(at) => {
                let quoted: Vec<String> = parts[at + 1..].iter().map(|part| format!("'{part}'")).collect();
                Cow::Owned(quoted.join(JOINT))
            }
        }
    }

    fn write_list(&self, text: &mut String, commands: &[String]) {
        match self.style.list {
            ListStyle::Quoted => {
                let mut between = "";
                for command in commands.iter().filter(|command| *command != "help") {
                    _ = write!(text, "{between}'{command}'");
                    between = "\n ";
                }
            }
            ListStyle::QuotedComma => {
                let mut between = "";
                for command in commands {
                    _ = write!(text, "{between}'{command}',");
                    between = "\n";
                }
            }
        }
    }

    fn write_history<'a>(&self, text: &mut String, steps: impl Iterator<Item = PastStep<'a>>, task: &str) {
        let mut between = "";
        for PastStep { number, before, action, after } in steps {
            text.push_str(between);
            between = "\n";
            let before = self.observation(before, task);
            _ = match self.style.history {
                HistoryStyle::Bracketed => {
                    write!(text, "[Observation {number}: '{before}', Action {number}: '{action}']")
                }
                HistoryStyle::BracketedMoves => {
                    let action = move_name(action);
                    write!(text, "[Observation {number}: '{before}', Action {number}: '{action}']")
                }
                HistoryStyle::Search => writeln!(text, "Step {number}:{action} {after}"),
                HistoryStyle::Bare => write!(text, "{before}\n{action}"),
            };
        }
    }
}

/// The name of a Sokoban move, given by its number or its word, as the reference writes it; anything else is left as it
/// is.
fn move_name(action: &str) -> &str {
    match action {
        "0" | "still" => "Still",
        "1" | "up" => "Up",
        "2" | "down" => "Down",
        "3" | "left" => "Left",
        "4" | "right" => "Right",
        other => other,
    }
}

/// A file of a template, cut into text and slots.
#[derive(Debug, Clone)]
struct TemplateText {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone)]
enum Piece {
    Text(String),
    Slot(Slot),
}

impl TemplateText {
    /// Cuts `source` into pieces; the line break at its end is no part of the prompt.
    fn parse(file: &Path, source: &str, required: &[Slot]) -> Result<Self, TemplateError> {
        let source = source.replace("\r\n", "\n");
        let mut pieces: Vec<Piece> = Vec::new();
        let mut rest = source.trim_end_matches('\n');
        let mut line = 1;
        while let Some(start) = rest.find("{{") {
            let (text, from) = rest.split_at(start);
            line += text.matches('\n').count();
            let end = from
                .find("}}")
                .filter(|end| !from[..*end].contains('\n'))
                .ok_or_else(|| TemplateError::OpenSlot { file: file.to_owned(), line })?;
            let name = from[2..end].trim();
            let slot = Slot::by_name(name).ok_or_else(|| TemplateError::UnknownSlot {
                file: file.to_owned(),
                line,
                slot: name.to_owned(),
                known: SLOT_NAMES.join(", "),
            })?;
            rest = &from[end + 2..];
            let mut text = text;
            if slot == Slot::Skill {
                if pieces.iter().any(|piece| matches!(piece, Piece::Slot(Slot::Skill))) {
                    return Err(TemplateError::SkillTwice { file: file.to_owned(), line });
                }
                // The slot is a line of its own and takes its line break with it.
                let line_starts = match pieces.last() {
                    Some(_) => text.ends_with('\n'),
                    None => text.is_empty() || text.ends_with('\n'),
                };
                match rest.strip_prefix('\n') {
                    Some(after) if line_starts => {
                        rest = after;
                        line += 1;
                    }
                    None if line_starts && rest.is_empty() => text = text.strip_suffix('\n').unwrap_or(text),
                    _ => return Err(TemplateError::SkillNotAlone { file: file.to_owned(), line }),
                }
            }
            if !text.is_empty() {
                pieces.push(Piece::Text(text.to_owned()));
            }
            pieces.push(Piece::Slot(slot));
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        for slot in required {
            if !pieces.iter().any(|piece| matches!(piece, Piece::Slot(found) if found == slot)) {
                return Err(TemplateError::MissingSlot { file: file.to_owned(), slot: slot.name() });
            }
        }
        Ok(Self { pieces })
    }
}

type Replacement = Option<(PathBuf, String)>;

fn read_folder(folder: &Path) -> Result<[Replacement; 3], TemplateError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| TemplateError::Read { path, source }
    };
    let mut files = [None, None, None];
    for entry in std::fs::read_dir(folder).map_err(failed(folder))? {
        let path = entry.map_err(failed(folder))?.path();
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        let known = FILE_NAMES.iter().position(|name| path.file_name().is_some_and(|found| found == *name));
        let Some(at) = known else { return Err(TemplateError::UnknownFile { path }) };
        let text = std::fs::read_to_string(&path).map_err(failed(&path))?;
        files[at] = Some((path, text));
    }
    if files.iter().all(Option::is_none) {
        return Err(TemplateError::EmptyFolder { path: folder.to_owned() });
    }
    Ok(files)
}

/// Why a template cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// There are no templates and no rules for this environment.
    #[error("no prompt templates for environment `{name}`; known are {known}")]
    UnknownEnvironment {
        /// The name that was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A file or folder cannot be read.
    #[error("{}: cannot read", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The folder has a text file that no template is called.
    #[error("{}: a template is called first.txt, history.txt or turn.txt; rename or remove this file", path.display())]
    UnknownFile {
        /// The file.
        path: PathBuf,
    },
    /// The folder has none of the three files.
    #[error("{}: none of first.txt, history.txt, turn.txt is here", path.display())]
    EmptyFolder {
        /// The folder.
        path: PathBuf,
    },
    /// A file that must be there is not.
    #[error("environment `{environment}` needs a template `{file}`")]
    MissingFile {
        /// The environment.
        environment: String,
        /// The file's name.
        file: &'static str,
    },
    /// A slot with a name that nothing fills.
    #[error("{}:{line}: unknown slot `{slot}`; known are {known}", file.display())]
    UnknownSlot {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The name found.
        slot: String,
        /// The names there are.
        known: String,
    },
    /// A slot that the environment cannot do without is not in the file.
    #[error("{}: slot `{slot}` is missing; write {{{{{slot}}}}} where it belongs", file.display())]
    MissingSlot {
        /// The file.
        file: PathBuf,
        /// The slot.
        slot: &'static str,
    },
    /// Two opening braces without their end on the same line.
    #[error("{}:{line}: `{{{{` without `}}}}` on the same line", file.display())]
    OpenSlot {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// The skill's slot shares its line with other text.
    #[error("{}:{line}: the slot `skill` must stand alone on its line", file.display())]
    SkillNotAlone {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// The skill's slot is there twice.
    #[error("{}:{line}: a second slot `skill`; a prompt has one place for a skill", file.display())]
    SkillTwice {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
    },
}
