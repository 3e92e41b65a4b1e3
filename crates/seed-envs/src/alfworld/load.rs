//! Game files on disk: the folders of `$ALFWORLD_DATA` and the compact form.

use super::error::GameError;
use super::grammar::Grammar;
use super::logic::Logic;
use super::pddl::{Domain, Problem};
use crate::environment::{EnvError, Task};
use rayon::prelude::*;
use serde::Deserialize;
use std::borrow::Cow;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};

/// Bytes of one game or task file, at most; the largest published ones have about 0.5 MB.
const MAX_FILE: u64 = 16 << 20;
/// Lines that wait between unpacking and parsing.
const BATCH: usize = 64;
/// Folders below a split down to its games, at most; the published layout has two.
pub(super) const TRIAL_DEPTH: usize = 4;

/// What the task's generator was asked for; the handcoded expert reads it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TaskParameters {
    /// Class of the object, e.g. `Mug`.
    pub object_target: String,
    /// Class of the receptacle that it belongs in; empty for looking under a lamp.
    pub parent_target: String,
    /// Class of a movable receptacle; empty in all games that are used.
    pub mrecep_target: String,
    /// Class of the lamp, e.g. `DeskLamp`; empty elsewhere.
    pub toggle_target: String,
    /// Whether the object is to be sliced first.
    pub object_sliced: bool,
}

/// A game that was read but not yet compiled: a few kilobytes.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) task: Task,
    pub(super) path: PathBuf,
    pub(super) parameters: TaskParameters,
    pub(super) logic: Arc<Logic>,
    pub(super) grammar_texts: Vec<Box<str>>,
    pub(super) problem: Arc<Problem>,
}

/// What was found in a split.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) entries: Vec<Entry>,
    pub(super) broken: Vec<EnvError>,
    pub(super) unsolvable: usize,
}

impl Found {
    fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Game(entry) => self.entries.push(*entry),
            Outcome::Unsolvable => self.unsolvable += 1,
            Outcome::Broken(error) => self.broken.push(error),
            Outcome::Nothing => {}
        }
    }
}

enum Outcome {
    Game(Box<Entry>),
    Unsolvable,
    Broken(EnvError),
    Nothing,
}

/// Logics by their texts: games of one form share one.
#[derive(Debug, Default)]
pub(super) struct LogicPool {
    known: Mutex<Vec<(Box<str>, Arc<Logic>)>>,
}

impl LogicPool {
    fn get(&self, domain: &str, grammar: &Grammar) -> Result<Arc<Logic>, GameError> {
        let mut known = self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let found = known.iter().find(|(text, logic)| **text == *domain && logic.fits(grammar));
        if let Some((_, logic)) = found {
            return Ok(logic.clone());
        }
        let logic = Logic::new(Domain::parse(domain)?, grammar)?;
        known.push((domain.into(), logic.clone()));
        Ok(logic)
    }

    fn entry(
        &self,
        task: Task,
        path: &Path,
        parameters: TaskParameters,
        texts: [&str; 3],
    ) -> Result<Entry, GameError> {
        let [domain, grammar, problem] = texts;
        let grammar = Grammar::parse(grammar)?;
        let logic = self.get(domain, &grammar)?;
        let problem = Arc::new(Problem::parse(problem, logic.domain())?);
        Ok(Entry { task, path: path.into(), parameters, logic, grammar_texts: grammar.texts, problem })
    }
}

/// Names the file and the place of a game's error.
pub(super) fn located(path: &Path, place: &str, error: GameError) -> EnvError {
    let path = path.to_path_buf();
    match error {
        GameError::Syntax { part, line, found, expected } => {
            EnvError::Data { path, place: format!("{place} {part} line {line}"), found, expected }
        }
        other => EnvError::Data {
            path,
            place: place.into(),
            found: other.to_string(),
            expected: "a game that can be played".into(),
        },
    }
}

fn json_error(path: &Path, place: &str, error: &serde_json::Error) -> EnvError {
    let place = if place.is_empty() {
        format!(":{}:{}", error.line(), error.column())
    } else {
        format!("{place} column {}", error.column())
    };
    let expected = "JSON of a game, as ALFWorld writes it".into();
    EnvError::Data { path: path.into(), place, found: error.to_string(), expected }
}

/// Reads a regular file of bounded size.
fn read(path: &Path) -> Result<String, EnvError> {
    let unreadable = |source| EnvError::Read { path: path.into(), source };
    let wrong = |place: String, found: String, expected: &str| EnvError::Data {
        path: path.into(),
        place,
        found,
        expected: expected.into(),
    };
    // Asked before it is opened: opening a pipe waits for its writer.
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(wrong(String::new(), "a folder or a device".into(), "a file"));
    }
    if metadata.len() > MAX_FILE {
        return Err(wrong(String::new(), format!("{} bytes", metadata.len()), "at most 16 MiB"));
    }
    let bytes = std::fs::read(path).map_err(unreadable)?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let before = &error.as_bytes()[..at];
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        wrong(format!(":{line}"), format!("byte {:#04x} at offset {at}", error.as_bytes()[at]), "UTF-8")
    })
}

#[derive(Deserialize)]
struct GameFile<'a> {
    #[serde(borrow)]
    pddl_domain: Cow<'a, str>,
    #[serde(borrow)]
    grammar: Cow<'a, str>,
    #[serde(borrow)]
    pddl_problem: Cow<'a, str>,
    // `walkthrough` is left alone: the published ones are hints at best.
    #[serde(default)]
    solvable: Option<bool>,
}

#[derive(Deserialize)]
struct TrajectoryFile {
    task_type: String,
    #[serde(default)]
    pddl_params: TaskParameters,
}

/// Reads one game file, e.g. to play it alone.
pub(super) fn game_file(path: &Path) -> Result<Entry, EnvError> {
    let pool = LogicPool::default();
    let folder = path.parent().unwrap_or(Path::new(""));
    let task = Task { id: folder.display().to_string(), split: String::new(), kind: String::new() };
    match game_folder(folder, path, task, &pool, true) {
        Outcome::Game(entry) => Ok(*entry),
        Outcome::Broken(error) => Err(error),
        Outcome::Unsolvable | Outcome::Nothing => {
            let source = std::io::Error::from(std::io::ErrorKind::NotFound);
            Err(EnvError::Read { path: path.into(), source })
        }
    }
}

/// Reads the game of a trial's folder. `task` comes with id and split.
fn game_folder(folder: &Path, path: &Path, mut task: Task, pool: &LogicPool, any: bool) -> Outcome {
    let text = match read(path) {
        Ok(text) => text,
        Err(error) => return Outcome::Broken(error),
    };
    let game: GameFile<'_> = match serde_json::from_str(&text) {
        Ok(game) => game,
        Err(error) => return Outcome::Broken(json_error(path, "", &error)),
    };
    if game.solvable != Some(true) && !any {
        return Outcome::Unsolvable;
    }
    let described = folder.join("traj_data.json");
    let described = if described.is_file() || !any {
        let text = match read(&described) {
            Ok(text) => text,
            Err(error) => return Outcome::Broken(error),
        };
        match serde_json::from_str::<TrajectoryFile>(&text) {
            Ok(file) => Some(file),
            Err(error) => return Outcome::Broken(json_error(&described, "", &error)),
        }
    } else {
        None
    };
    let mut parameters = TaskParameters::default();
    if let Some(file) = described {
        task.kind = file.task_type;
        parameters = file.pddl_params;
    }
    let texts = [&*game.pddl_domain, &*game.grammar, &*game.pddl_problem];
    match pool.entry(task, path, parameters, texts) {
        Ok(entry) => Outcome::Game(Box::new(entry)),
        Err(error) => Outcome::Broken(located(path, "", error)),
    }
}

/// The trials below a split's folder: those with a game file, without movable receptacles and sliced objects.
///
/// A folder below it that cannot be read is noted, like a broken game; the rest is still found.
fn trials(
    folder: &Path,
    depth: usize,
    found: &mut Vec<PathBuf>,
    broken: &mut Vec<EnvError>,
) -> Result<(), EnvError> {
    let unreadable = |source| EnvError::Read { path: folder.into(), source };
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name == "game.tw-pddl" {
            found.push(folder.into());
        } else if depth > 0
            && entry.path().is_dir()
            && !name.contains("movable")
            && !name.contains("Sliced")
            && let Err(error) = trials(&entry.path(), depth - 1, found, broken)
        {
            broken.push(error);
        }
    }
    Ok(())
}

/// Whether a split's folder holds a game at all; stops at the first.
pub(super) fn has_games(folder: &Path, depth: usize) -> bool {
    folder.join("game.tw-pddl").is_file()
        || depth > 0
            && std::fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| {
                entry.file_type().is_ok_and(|kind| !kind.is_file()) && has_games(&entry.path(), depth - 1)
            })
}

/// Reads a split of the folder layout: `<split>/<task>/<trial>/game.tw-pddl`.
pub(super) fn folder_split(root: &Path, split: &str, pool: &LogicPool) -> Result<Found, EnvError> {
    let folder = root.join(split);
    let (mut folders, mut found) = (Vec::new(), Found::default());
    trials(&folder, TRIAL_DEPTH, &mut folders, &mut found.broken)?;
    folders.sort();
    let outcomes: Vec<Outcome> = folders
        .par_iter()
        .map(|trial| {
            let relative = trial.strip_prefix(root).unwrap_or(trial);
            let parts: Vec<Cow<'_, str>> = relative.iter().map(|part| part.to_string_lossy()).collect();
            let task = Task { id: parts.join("/"), split: split.into(), kind: String::new() };
            game_folder(trial, &trial.join("game.tw-pddl"), task, pool, false)
        })
        .collect();
    outcomes.into_iter().for_each(|outcome| found.add(outcome));
    Ok(found)
}

#[derive(Deserialize)]
struct CompactLine<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    task: Cow<'a, str>,
    #[serde(borrow)]
    task_type: Cow<'a, str>,
    #[serde(default)]
    pddl_params: TaskParameters,
    #[serde(borrow)]
    pddl_problem: Cow<'a, str>,
}

/// Domain and grammar that a compact file leaves out.
pub(super) struct CompactLogic {
    domain: String,
    grammar: String,
}

impl CompactLogic {
    /// Reads `alfred.pddl` and `alfred.twl2` of a folder.
    pub(super) fn read(folder: &Path) -> Result<Self, EnvError> {
        Ok(Self { domain: read(&folder.join("alfred.pddl"))?, grammar: read(&folder.join("alfred.twl2"))? })
    }
}

/// Reads a split in the compact form: one game a line, unpacked and parsed at the same time.
pub(super) fn compact_split(
    path: &Path,
    split: &str,
    logic: &CompactLogic,
    pool: &LogicPool,
) -> Result<Found, EnvError> {
    let unreadable = |source| EnvError::Read { path: path.into(), source };
    let file = BufReader::with_capacity(1 << 16, std::fs::File::open(path).map_err(unreadable)?);
    let packed = path.extension().is_some_and(|extension| extension == "xz");
    let mut found = Found::default();
    let (sender, receiver) = mpsc::sync_channel::<Vec<(usize, Vec<u8>)>>(2);
    let unpacked = std::thread::scope(|scope| {
        let unpacking = scope.spawn(move || {
            let mut lines = LineBatches { sender, batch: Vec::new(), line: Vec::new(), number: 0 };
            let mut file = file;
            let outcome = if packed {
                lzma_rs::xz_decompress(&mut file, &mut lines).map_err(|error| match error {
                    lzma_rs::error::Error::IoError(error) => error,
                    other => std::io::Error::other(format!("{other:?}")),
                })
            } else {
                std::io::copy(&mut file, &mut lines).map(|_| ())
            };
            let rest = lines.finish();
            outcome.and(rest)
        });
        for batch in receiver {
            let outcomes: Vec<Outcome> = batch
                .into_par_iter()
                .map(|(number, line)| compact_line(path, split, number, &line, logic, pool))
                .collect();
            outcomes.into_iter().for_each(|outcome| found.add(outcome));
        }
        unpacking.join()
    });
    match unpacked {
        Ok(Ok(())) => {}
        // What came before the damage is kept.
        Ok(Err(source)) => found.broken.push(unreadable(source)),
        Err(_) => {
            found.broken.push(unreadable(std::io::Error::other("unpacking failed: the file is damaged")))
        }
    }
    found.entries.sort_by(|a, b| a.task.id.cmp(&b.task.id));
    Ok(found)
}

fn compact_line(
    path: &Path,
    split: &str,
    number: usize,
    line: &[u8],
    logic: &CompactLogic,
    pool: &LogicPool,
) -> Outcome {
    if line.iter().all(u8::is_ascii_whitespace) {
        return Outcome::Nothing;
    }
    let place = format!(":{number}");
    let game: CompactLine<'_> = match serde_json::from_slice(line) {
        Ok(game) => game,
        Err(error) => return Outcome::Broken(json_error(path, &place, &error)),
    };
    let task = Task {
        id: game.id.clone().into_owned(),
        split: split.into(),
        kind: game.task_type.clone().into_owned(),
    };
    // Inside JSON inside the grammar: the text must stay one string.
    let quoted = serde_json::Value::from(&*game.task).to_string();
    let grammar = logic.grammar.replace("UNKNOWN GOAL", &quoted[1..quoted.len() - 1]);
    match pool.entry(task, path, game.pddl_params, [&logic.domain, &grammar, &game.pddl_problem]) {
        Ok(entry) => Outcome::Game(Box::new(entry)),
        Err(error) => Outcome::Broken(located(path, &place, error)),
    }
}

/// Cuts a stream into lines and sends them in batches.
struct LineBatches {
    sender: mpsc::SyncSender<Vec<(usize, Vec<u8>)>>,
    batch: Vec<(usize, Vec<u8>)>,
    line: Vec<u8>,
    number: usize,
}

impl LineBatches {
    fn end_line(&mut self) -> std::io::Result<()> {
        self.number += 1;
        self.batch.push((self.number, std::mem::take(&mut self.line)));
        if self.batch.len() == BATCH { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> std::io::Result<()> {
        let batch = std::mem::take(&mut self.batch);
        self.sender.send(batch).map_err(|_| std::io::Error::other("nobody reads the lines"))
    }

    fn finish(mut self) -> std::io::Result<()> {
        if !self.line.is_empty() {
            self.end_line()?;
        }
        self.send()
    }
}

impl Write for LineBatches {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut parts = bytes.split(|&byte| byte == b'\n');
        if let Some(first) = parts.next() {
            self.line.extend_from_slice(first);
        }
        for part in parts {
            self.end_line()?;
            self.line.extend_from_slice(part);
        }
        if self.line.len() as u64 > MAX_FILE {
            return Err(std::io::Error::other(format!("line {} is longer than 16 MiB", self.number + 1)));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
