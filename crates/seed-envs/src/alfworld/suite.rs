//! ALFWorld as a suite of tasks.

use super::error::GameError;
use super::game::Game;
use super::load::{
    CompactLogic, Entry, Found, LogicPool, TRIAL_DEPTH, TaskParameters, compact_split, folder_split,
    game_file, has_games, located,
};
use super::state::GameState;
use crate::environment::{EnvError, Environment, LastStep, Observation, Step, StepInfo, Suite, Task};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The splits in their usual order.
const SPLITS: [&str; 4] = ["train", "valid_seen", "valid_unseen", "valid_train"];
/// What stands before the task in the first observation.
const TASK_MARK: &str = "Your task is to: ";

/// How ALFWorld is played.
#[derive(Debug, Clone, PartialEq)]
pub struct AlfWorldOptions {
    /// Steps after which an episode is truncated; invalid commands count. The official configurations say 50.
    pub max_steps: usize,
    /// The reward of the winning step; every other step has 0. The trainer of the reference uses 10; 1 is the
    /// environment's own score, which [`StepInfo::score`] always holds.
    pub win_reward: f64,
    /// Task types to keep, e.g. `pick_and_place_simple`; empty keeps all. A split with none of them is an error.
    pub task_types: Vec<String>,
    /// The form of games whose domain and grammar lie apart (the compact layout): a folder of `logic/`.
    pub form: String,
    /// Numbers of names are dealt out anew for each episode, by its seed (official: `domain_randomization`, for
    /// training only).
    pub domain_randomization: bool,
}

impl Default for AlfWorldOptions {
    fn default() -> Self {
        Self {
            max_steps: 50,
            win_reward: 10.0,
            task_types: Vec::new(),
            form: "2.1.2".into(),
            domain_randomization: false,
        }
    }
}

/// A split in memory.
#[derive(Debug)]
struct Split {
    tasks: Arc<[Task]>,
    games: Vec<Cached>,
    by_id: HashMap<String, usize>,
    report: LoadReport,
}

/// A game and, while somebody plays it, its compiled form.
#[derive(Debug)]
struct Cached {
    entry: Entry,
    compiled: Mutex<Weak<Game>>,
}

/// What was left out when a split was loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadReport {
    /// Games that can be played.
    pub games: usize,
    /// Games whose file does not say `"solvable": true`.
    pub unsolvable: usize,
    /// Games of other types than those asked for.
    pub other_types: usize,
    /// One message for each broken file, with file and place.
    pub broken: Vec<String>,
}

#[derive(Debug)]
enum Layout {
    /// `<root>/<split>/<task>/<trial>/game.tw-pddl`.
    Folders(PathBuf),
    /// `<root>/full/<split>.jsonl.xz` and `<root>/logic/<form>/`.
    Compact(PathBuf),
}

impl Layout {
    fn root(&self) -> &Path {
        let (Self::Folders(root) | Self::Compact(root)) = self;
        root
    }
}

#[derive(Debug)]
struct Inner {
    layout: Layout,
    splits: Vec<String>,
    options: AlfWorldOptions,
    pool: LogicPool,
    loaded: Mutex<HashMap<String, Arc<Split>>>,
}

/// ALFWorld's games. Cloning shares the data.
///
/// A split is read when it is first asked for; its games stay in memory at a few kilobytes each and are compiled
/// when they are played.
#[derive(Debug, Clone)]
pub struct AlfWorld {
    inner: Arc<Inner>,
}

impl AlfWorld {
    /// Opens the data under `root`: `$ALFWORLD_DATA` itself, its `json_2.1.1` (or another folder of splits), or a
    /// folder in the compact form (`full/*.jsonl.xz` beside `logic/`).
    ///
    /// # Errors
    /// When there is no such data.
    pub fn open(root: impl AsRef<Path>, options: AlfWorldOptions) -> Result<Self, EnvError> {
        let root = root.as_ref();
        let listing = |folder: &Path| -> Vec<String> {
            let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
            let mut names: Vec<String> =
                names.map(|entry| entry.file_name().to_string_lossy().into()).collect();
            names.sort();
            names
        };
        std::fs::read_dir(root).map_err(|source| EnvError::Read { path: root.into(), source })?;
        let compact = |folder: &Path| {
            let names = listing(folder);
            let mut splits: Vec<String> = names
                .iter()
                .filter_map(|name| name.strip_suffix(".jsonl.xz").or_else(|| name.strip_suffix(".jsonl")))
                .map(str::to_owned)
                .collect();
            splits.dedup();
            splits
        };
        let in_order = |mut splits: Vec<String>| {
            splits
                .sort_by_key(|split| SPLITS.iter().position(|known| known == split).unwrap_or(SPLITS.len()));
            splits
        };
        let packed = compact(&root.join("full"));
        let (layout, splits) = if packed.is_empty() {
            let splits_in = |folder: &Path| -> Vec<String> {
                let is_split = |name: &String| SPLITS.contains(&name.as_str()) && folder.join(name).is_dir();
                listing(folder).into_iter().filter(is_split).collect()
            };
            // The newest release that has games; else the folder itself. Other data may lie beside it: ALFRED's
            // `json_feat_2.1.0` has the same splits, without games.
            let releases = listing(root).into_iter().rev().filter(|name| name.starts_with("json_"));
            let bases: Vec<PathBuf> = releases.map(|name| root.join(name)).collect();
            let playable = |base: &&PathBuf| {
                splits_in(base).iter().any(|split| has_games(&base.join(split), TRIAL_DEPTH))
            };
            let base = bases.iter().find(playable).cloned().unwrap_or_else(|| root.to_path_buf());
            let splits = splits_in(&base);
            (Layout::Folders(base.clone()), splits)
        } else {
            (Layout::Compact(root.into()), packed)
        };
        if splits.is_empty() {
            return Err(EnvError::Data {
                path: root.into(),
                place: String::new(),
                found: "no ALFWorld data".into(),
                expected: "a folder `json_2.1.1` or the folders `train`, `valid_seen`, `valid_unseen`, or `full` with \
                           `.jsonl.xz` files; point ALFWORLD_DATA to it"
                    .into(),
            });
        }
        let inner = Inner {
            layout,
            splits: in_order(splits),
            options,
            pool: LogicPool::default(),
            loaded: Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Opens the folder that `ALFWORLD_DATA` names, else `~/.cache/alfworld`.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn from_env(options: AlfWorldOptions) -> Result<Self, EnvError> {
        let root = std::env::var_os("ALFWORLD_DATA")
            .map(PathBuf::from)
            .or_else(|| std::env::home_dir().map(|home| home.join(".cache/alfworld")));
        Self::open(root.unwrap_or_default(), options)
    }

    /// Where the data lies.
    pub(super) fn root(&self) -> &Path {
        self.inner.layout.root()
    }

    /// What was left out of a split, which is loaded for it.
    ///
    /// # Errors
    /// As [`Suite::tasks`].
    pub fn report(&self, split: &str) -> Result<LoadReport, EnvError> {
        Ok(self.inner.split(split)?.report.clone())
    }

    /// The compiled game of a task.
    ///
    /// # Errors
    /// When the task is unknown or its goal can never be reached.
    pub fn game(&self, task: &Task) -> Result<Arc<Game>, EnvError> {
        self.inner.game(task)
    }

    /// What the task's generator was asked for.
    ///
    /// # Errors
    /// When the task is unknown.
    pub fn parameters(&self, task: &Task) -> Result<TaskParameters, EnvError> {
        let split = self.inner.split(&task.split)?;
        Ok(split.cached(task)?.entry.parameters.clone())
    }

    /// Bytes that the games of a split occupy while nobody plays them.
    ///
    /// # Errors
    /// As [`Suite::tasks`].
    pub fn memory(&self, split: &str) -> Result<usize, EnvError> {
        let split = self.inner.split(split)?;
        let texts = |entry: &Entry| entry.grammar_texts.iter().map(|text| 16 + text.len()).sum::<usize>();
        let of = |cached: &Cached| size_of::<Cached>() + cached.entry.problem.memory() + texts(&cached.entry);
        Ok(split.games.iter().map(of).sum())
    }
}

/// Reads and compiles one `game.tw-pddl`, with the parameters of the `traj_data.json` beside it (if there is one).
///
/// # Errors
/// With file and place when the file cannot be read or played.
pub fn open_game(path: impl AsRef<Path>) -> Result<(Arc<Game>, TaskParameters), EnvError> {
    let path = path.as_ref();
    let entry = game_file(path)?;
    let game = compile(&entry, None).map_err(|error| located(path, "", error))?;
    Ok((game, entry.parameters))
}

fn compile(entry: &Entry, shuffle: Option<u64>) -> Result<Arc<Game>, GameError> {
    super::compile::compile(&entry.logic, entry.grammar_texts.clone(), entry.problem.clone(), shuffle)
        .map(Arc::new)
}

/// An error with what the system said, for reports that keep only text.
fn with_cause(error: &EnvError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

impl Split {
    fn new(found: Found, options: &AlfWorldOptions) -> Self {
        let wanted =
            |entry: &Entry| options.task_types.is_empty() || options.task_types.contains(&entry.task.kind);
        let (entries, others): (Vec<Entry>, Vec<Entry>) = found.entries.into_iter().partition(wanted);
        let report = LoadReport {
            games: entries.len(),
            unsolvable: found.unsolvable,
            other_types: others.len(),
            broken: found.broken.iter().map(with_cause).collect(),
        };
        Self {
            tasks: entries.iter().map(|entry| entry.task.clone()).collect(),
            by_id: entries.iter().enumerate().map(|(index, entry)| (entry.task.id.clone(), index)).collect(),
            games: entries.into_iter().map(|entry| Cached { entry, compiled: Mutex::default() }).collect(),
            report,
        }
    }

    fn cached(&self, task: &Task) -> Result<&Cached, EnvError> {
        let unknown = || EnvError::UnknownTask { suite: "alfworld".into(), id: task.id.clone() };
        self.by_id.get(&task.id).map(|&index| &self.games[index]).ok_or_else(unknown)
    }
}

impl Inner {
    fn split(&self, name: &str) -> Result<Arc<Split>, EnvError> {
        if !self.splits.iter().any(|known| known == name) {
            let known = self.splits.join(", ");
            return Err(EnvError::UnknownSplit { suite: "alfworld".into(), split: name.into(), known });
        }
        // Held while loading: whoever asks for the same split meanwhile waits for it.
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(split) = loaded.get(name) {
            return Ok(split.clone());
        }
        let found = match &self.layout {
            Layout::Folders(root) => folder_split(root, name, &self.pool)?,
            Layout::Compact(root) => {
                let logic = CompactLogic::read(&root.join("logic").join(&self.options.form))?;
                let packed = root.join("full").join(format!("{name}.jsonl.xz"));
                let path = if packed.is_file() { packed } else { packed.with_extension("") };
                compact_split(&path, name, &logic, &self.pool)?
            }
        };
        let kinds: BTreeSet<String> = found.entries.iter().map(|entry| entry.task.kind.clone()).collect();
        let split = Arc::new(Split::new(found, &self.options));
        // Nor must a file that cannot be read look like one.
        if let ([], 0, Some(broken)) =
            (&split.games[..], split.report.other_types, split.report.broken.first())
        {
            return Err(EnvError::Data {
                path: self.layout.root().into(),
                place: format!(" split `{name}`"),
                found: format!("no game, since {broken}"),
                expected: "whole files; fetch the data again".into(),
            });
        }
        // A misspelt type must not look like a split without games.
        if split.games.is_empty() && split.report.other_types > 0 {
            return Err(EnvError::Data {
                path: self.layout.root().into(),
                place: format!(" split `{name}`"),
                found: format!("no game of the types {}", self.options.task_types.join(", ")),
                expected: format!("some of {}", Vec::from_iter(kinds).join(", ")),
            });
        }
        loaded.insert(name.into(), split.clone());
        Ok(split)
    }

    fn game(&self, task: &Task) -> Result<Arc<Game>, EnvError> {
        let split = self.split(&task.split)?;
        let cached = split.cached(task)?;
        let mut compiled = cached.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(game) = compiled.upgrade() {
            return Ok(game);
        }
        let game = compile(&cached.entry, None).map_err(|error| located(&cached.entry.path, "", error))?;
        *compiled = Arc::downgrade(&game);
        Ok(game)
    }

    fn shuffled_game(&self, task: &Task, seed: u64) -> Result<Arc<Game>, EnvError> {
        let split = self.split(&task.split)?;
        let entry = &split.cached(task)?.entry;
        compile(entry, Some(seed)).map_err(|error| located(&entry.path, "", error))
    }
}

impl Suite for AlfWorld {
    fn name(&self) -> &str {
        "alfworld"
    }

    fn splits(&self) -> Vec<String> {
        self.inner.splits.clone()
    }

    fn tasks(&self, split: &str) -> Result<Arc<[Task]>, EnvError> {
        Ok(self.inner.split(split)?.tasks.clone())
    }

    fn environment(&self) -> Box<dyn Environment> {
        Box::new(AlfWorldEnvironment { inner: self.inner.clone(), episode: None })
    }

    /// The text after `Your task is to: `, with its full stop.
    fn task_description(&self, task: &Task) -> Option<String> {
        let introduction = self.game(task).ok()?.start().introduction();
        introduction.rsplit_once(TASK_MARK).map(|(_, task)| task.trim().to_owned())
    }
}

/// An environment over the games of an [`AlfWorld`].
#[derive(Debug, Clone)]
struct AlfWorldEnvironment {
    inner: Arc<Inner>,
    episode: Option<Episode>,
}

#[derive(Debug, Clone)]
struct Episode {
    play: GameState,
    steps: usize,
    last: LastStep,
}

impl Environment for AlfWorldEnvironment {
    fn reset(&mut self, task: &Task, seed: u64) -> Result<Observation, EnvError> {
        // A failed reset must not leave the episode before it to be played on.
        self.episode = None;
        let game = if self.inner.options.domain_randomization {
            self.inner.shuffled_game(task, seed)?
        } else {
            self.inner.game(task)?
        };
        let play = game.start();
        let text = play.introduction();
        let admissible = Some(play.admissible().clone());
        self.episode = Some(Episode { play, steps: 0, last: LastStep::default() });
        Ok(Observation { text, admissible, image: None })
    }

    fn step(&mut self, action: &str) -> Result<Step, EnvError> {
        let episode = self.episode.as_mut().ok_or(EnvError::NotReset)?;
        if let Some(last) = episode.last.again() {
            return Ok(last);
        }
        let turn = episode.play.step(action);
        episode.steps += 1;
        let won = episode.play.won();
        let options = &self.inner.options;
        let step = Step {
            observation: Observation {
                text: turn.text,
                admissible: Some(episode.play.admissible().clone()),
                image: None,
            },
            reward: if won { options.win_reward } else { 0.0 },
            done: won,
            truncated: !won && episode.steps >= options.max_steps,
            info: StepInfo {
                won,
                score: f64::from(u8::from(won)),
                action_valid: Some(turn.accepted),
                details: serde_json::Map::new(),
            },
        };
        Ok(episode.last.keep(step))
    }

    fn snapshot(&self) -> Box<dyn Environment> {
        Box::new(self.clone())
    }

    /// The next command of a shortest plan.
    fn expert_action(&self) -> Option<String> {
        let episode = self.episode.as_ref().filter(|episode| !episode.last.is_over())?;
        episode.play.plan().ok()?.commands.into_iter().next()
    }
}
