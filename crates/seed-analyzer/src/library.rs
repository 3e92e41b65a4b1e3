//! Static skill libraries: lessons written once, found by task.
//!
//! Two published forms are read: a JSON file (SkillRL) and a folder of markdown files with `skill_mapping.json` (SDAR).
//! A lookup gives the general lessons and those of the task's type. Every lookup says how the type was found, since a
//! type that is silently never found (the task's file name did not reach the lookup) has spoiled published runs.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A library, ready to be asked.
#[derive(Debug, Clone, PartialEq)]
pub struct SkillLibrary {
    general: String,
    /// Lessons by type, in the order of the file.
    types: Vec<TypedLessons>,
    mistakes: String,
}

#[derive(Debug, Clone, PartialEq)]
struct TypedLessons {
    name: String,
    /// Parts of a task's id or game file that mean this type.
    task_marks: Vec<String>,
    keywords: Vec<String>,
    text: String,
}

/// What a lookup is told.
#[derive(Debug, Clone, Copy, Default)]
pub struct LibraryQuery<'a> {
    /// The task's id or game file, where it has one.
    pub game_file: Option<&'a str>,
    /// The data set of a question, e.g. `hotpotqa`.
    pub data_source: Option<&'a str>,
    /// The prompt or the task in words, for keywords.
    pub prompt: &'a str,
}

/// Which keywords have to be there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeywordMatch {
    /// One is enough (the reference's code; `put` then matches almost every ALFWorld task).
    #[default]
    Any,
    /// All of a type's keywords (what the reference's documentation says).
    All,
}

/// How lookups behave.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LookupOptions {
    /// Give everything, whatever the task (`skill_all`).
    pub everything: bool,
    /// Which keywords have to be there.
    pub keyword_match: KeywordMatch,
    /// Take the general lessons alone when no type is found; otherwise that is an error.
    pub general_only: bool,
}

/// How a type was found. Count these: they are the metric of a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FoundBy {
    /// The task's id or game file.
    GameFile,
    /// The data set and wording of a question.
    DataSource,
    /// Words of the prompt.
    Keywords,
    /// Not at all: the general lessons alone.
    Nothing,
    /// Everything was wanted.
    Everything,
}

/// The answer to a lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lookup {
    /// The lessons.
    pub text: String,
    /// How the types were found.
    pub found_by: FoundBy,
    /// The types whose lessons are in the text.
    pub types: Vec<String>,
}

/// How many lessons of a JSON library are given.
const GENERAL_LESSONS: usize = 6;
const MISTAKES: usize = 5;

#[derive(Debug, Clone, Default, Deserialize)]
struct JsonLibrary {
    #[serde(default)]
    general_skills: Vec<Lesson>,
    #[serde(default, alias = "query_type_skills")]
    task_specific_skills: serde_json::Map<String, serde_json::Value>,
    #[serde(default)]
    common_mistakes: Vec<Mistake>,
    /// Ours: words by which a type is found when nothing else tells it.
    #[serde(default)]
    task_keywords: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Lesson {
    skill_id: String,
    title: String,
    principle: String,
    when_to_apply: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Mistake {
    description: String,
    why_it_happens: String,
    how_to_avoid: String,
}

#[derive(Debug, Deserialize)]
struct Mapping {
    /// Name of a text → its file. `general` is given always; the others through the tables below.
    skill_files: serde_json::Map<String, serde_json::Value>,
    #[serde(default)]
    task_to_skill: serde_json::Map<String, serde_json::Value>,
    #[serde(default)]
    task_keywords: BTreeMap<String, Vec<String>>,
}

impl SkillLibrary {
    /// Reads a JSON library, or a folder with `skill_mapping.json` and the files that it names.
    ///
    /// # Errors
    /// When something cannot be read, is not of the form, names a file or type that is not there, or has no lesson.
    pub fn load(path: &Path) -> Result<Self, LibraryError> {
        if path.is_dir() { Self::load_folder(path) } else { Self::parse_json(path, &read(path)?) }
    }

    fn parse_json(path: &Path, source: &str) -> Result<Self, LibraryError> {
        let wrong = |problem: String| LibraryError::Form { path: path.to_owned(), problem };
        let library: JsonLibrary = serde_json::from_str(source).map_err(|error| wrong(error.to_string()))?;
        // Lessons that a run has added itself come first.
        let (mut general, fixed): (Vec<_>, Vec<_>) =
            library.general_skills.into_iter().partition(|lesson| lesson.skill_id.starts_with("dyn_"));
        let room = GENERAL_LESSONS.saturating_sub(general.len());
        general.extend(fixed.into_iter().take(room));
        let mut types = Vec::new();
        for (name, lessons) in library.task_specific_skills {
            let lessons: Vec<Lesson> = serde_json::from_value(lessons)
                .map_err(|error| wrong(format!("lessons of type `{name}`: {error}")))?;
            types.push(TypedLessons {
                text: bullets(
                    &format!("For tasks of the type {}", name.replace('_', " ")),
                    lessons.iter().map(lesson),
                ),
                keywords: library.task_keywords.get(&name).cloned().unwrap_or_default(),
                task_marks: vec![name.clone()],
                name,
            });
        }
        if let Some(name) =
            library.task_keywords.keys().find(|name| !types.iter().any(|kind| &kind.name == *name))
        {
            return Err(wrong(format!("`task_keywords` names the type `{name}`, which has no lessons")));
        }
        if general.is_empty() && types.is_empty() {
            return Err(wrong("neither `general_skills` nor `task_specific_skills` has a lesson".into()));
        }
        let mistakes = library.common_mistakes.iter().take(MISTAKES).map(mistake);
        Ok(Self {
            general: bullets("In general", general.iter().map(lesson)),
            types,
            mistakes: bullets("Mistakes to stay away from", mistakes),
        })
    }

    fn load_folder(folder: &Path) -> Result<Self, LibraryError> {
        let path = folder.join("skill_mapping.json");
        let wrong = |problem: String| LibraryError::Form { path: path.clone(), problem };
        let mapping: Mapping =
            serde_json::from_str(&read(&path)?).map_err(|error| wrong(error.to_string()))?;
        let mut general = String::new();
        let mut types: Vec<TypedLessons> = Vec::new();
        for (name, file) in &mapping.skill_files {
            let file =
                file.as_str().ok_or_else(|| wrong(format!("the file of `{name}` is {file}, not a name")))?;
            // A library is data: it must not reach out of its folder.
            if Path::new(file).components().any(|part| !matches!(part, std::path::Component::Normal(_))) {
                return Err(wrong(format!(
                    "the file of `{name}` is `{file}`; only names inside the folder are read"
                )));
            }
            let text = read(&folder.join(file))?.trim().to_owned();
            if name == "general" {
                general = text;
                continue;
            }
            let keywords = mapping.task_keywords.get(name).cloned().unwrap_or_default();
            types.push(TypedLessons { name: name.clone(), task_marks: Vec::new(), keywords, text });
        }
        for (mark, name) in &mapping.task_to_skill {
            let kind = types.iter_mut().find(|kind| Some(kind.name.as_str()) == name.as_str());
            let kind = kind.ok_or_else(|| {
                wrong(format!("`task_to_skill` sends `{mark}` to {name}, which is not in `skill_files`"))
            })?;
            kind.task_marks.push(mark.clone());
            // Keywords may be listed under the task's name as well.
            kind.keywords.extend(mapping.task_keywords.get(mark).into_iter().flatten().cloned());
        }
        if general.is_empty() && types.is_empty() {
            return Err(wrong("`skill_files` is empty".into()));
        }
        Ok(Self { general, types, mistakes: String::new() })
    }

    /// The lessons for a task: general ones, those of its type, common mistakes.
    ///
    /// The type is looked for in the game file first, then by data source, then by keywords (all matching types).
    ///
    /// # Errors
    /// [`NoType`] when no type is found and the options do not allow the general lessons alone.
    pub fn lookup(&self, query: &LibraryQuery<'_>, options: &LookupOptions) -> Result<Lookup, NoType> {
        let (found_by, found): (FoundBy, Vec<&TypedLessons>) = if options.everything {
            (FoundBy::Everything, self.types.iter().collect())
        } else if let Some(kind) = query.game_file.and_then(|file| self.by_game_file(file)) {
            (FoundBy::GameFile, vec![kind])
        } else if let Some(kind) = query.data_source.and_then(|source| self.by_source(source, query.prompt)) {
            (FoundBy::DataSource, vec![kind])
        } else {
            let found = self.by_keywords(query.prompt, options.keyword_match);
            (if found.is_empty() { FoundBy::Nothing } else { FoundBy::Keywords }, found)
        };
        if found_by == FoundBy::Nothing && !options.general_only {
            return Err(NoType {
                game_file: query.game_file.unwrap_or("none").to_owned(),
                data_source: query.data_source.unwrap_or("none").to_owned(),
                known: self.types.iter().map(|kind| kind.name.as_str()).collect::<Vec<_>>().join(", "),
            });
        }
        let parts = [self.general.as_str()].into_iter().chain(found.iter().map(|kind| kind.text.as_str()));
        let parts: Vec<&str> =
            parts.chain([self.mistakes.as_str()]).filter(|part| !part.is_empty()).collect();
        Ok(Lookup {
            text: parts.join("\n\n"),
            found_by,
            types: found.iter().map(|kind| kind.name.clone()).collect(),
        })
    }

    /// The first type one of whose marks is part of the name; longer marks are tried first inside a type only.
    fn by_game_file(&self, file: &str) -> Option<&TypedLessons> {
        self.types
            .iter()
            .find(|kind| kind.task_marks.iter().any(|mark| !mark.is_empty() && file.contains(mark.as_str())))
    }

    /// The type for a question, by its data set and, for two-sided questions, its wording.
    fn by_source(&self, source: &str, question: &str) -> Option<&TypedLessons> {
        let words: Vec<String> =
            question.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase).collect();
        let has = |word: &str| words.iter().any(|found| found == word);
        // The part of a type's name by which each kind of question is known.
        let mark = match source.to_lowercase().as_str() {
            "popqa" => "attribute",
            "nq" | "triviaqa" => "direct",
            "hotpotqa" => "multi",
            _ if has("which") && has("or") && !has("for") => "compar",
            "2wikimultihopqa" | "2wiki" | "musique" | "bamboogle" => "multi",
            _ => return None,
        };
        self.types.iter().find(|kind| kind.name.to_lowercase().contains(mark))
    }

    fn by_keywords(&self, prompt: &str, how: KeywordMatch) -> Vec<&TypedLessons> {
        let prompt = prompt.to_lowercase();
        let there = |keyword: &String| prompt.contains(&keyword.to_lowercase());
        let matches = |kind: &&TypedLessons| match how {
            KeywordMatch::Any => kind.keywords.iter().any(there),
            KeywordMatch::All => !kind.keywords.is_empty() && kind.keywords.iter().all(there),
        };
        self.types.iter().filter(matches).collect()
    }
}

fn read(path: &Path) -> Result<String, LibraryError> {
    std::fs::read_to_string(path).map_err(|source| LibraryError::Read { path: path.to_owned(), source })
}

fn bullets(title: &str, items: impl Iterator<Item = String>) -> String {
    let mut text = String::new();
    for item in items {
        // Writing to a string cannot fail.
        _ = write!(text, "\n- {item}");
    }
    if text.is_empty() { text } else { format!("{title}:{text}") }
}

fn lesson(lesson: &Lesson) -> String {
    let Lesson { title, principle, when_to_apply, .. } = lesson;
    let title = if title.is_empty() { String::new() } else { format!("{title}: ") };
    let when = if when_to_apply.is_empty() { String::new() } else { format!(" (when: {when_to_apply})") };
    format!("{title}{principle}{when}")
}

fn mistake(mistake: &Mistake) -> String {
    let Mistake { description, why_it_happens, how_to_avoid } = mistake;
    let why = if why_it_happens.is_empty() { String::new() } else { format!(" Why: {why_it_happens}") };
    let how = if how_to_avoid.is_empty() { String::new() } else { format!(" Instead: {how_to_avoid}") };
    format!("{description}{why}{how}")
}

/// No type of the library fits a task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no skill type fits (game file {game_file}, data source {data_source}); the library knows {known}; set `general_only` to go on without"
)]
pub struct NoType {
    /// The game file that was asked with.
    pub game_file: String,
    /// The data source that was asked with.
    pub data_source: String,
    /// The types there are.
    pub known: String,
}

/// Why a library cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// A file cannot be read.
    #[error("{}: cannot read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is not of the expected form.
    #[error("{}: {problem}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}
