//! Sokoban as an environment: tasks by seed or from a level file.

use super::game::Game;
use super::generate::{GenerateError, RoomConfig};
use super::level::{self, Level};
use super::room::{Move, Room};
use super::solvable::solvable;
use super::solve::{Solution, solve};
use super::tiles::Tiles;
use crate::environment::{EnvError, Environment, Image, LastStep, Observation, Step, StepInfo, Suite, Task};
use crate::pyrandom::NumpyRandomState;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// What the agent sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// Rows of symbols.
    #[default]
    Text,
    /// A picture, and no text.
    Rgb,
    /// Both, for people.
    Both,
}

/// Which rooms, how they are shown, how long an episode is.
#[derive(Debug, Clone, PartialEq)]
pub struct SokobanOptions {
    /// What rooms are like.
    pub room: RoomConfig,
    /// Steps of an episode. Standing still and senseless actions count here, unlike in the reference's own counter.
    pub max_steps: usize,
    /// What the agent sees.
    pub view: View,
    /// Tasks in `train`: the seeds from 0. The reference draws from all 65,535.
    pub train: usize,
    /// Tasks in `valid`: seeds as the reference's first validation batch draws them (of 2³² − 65,537, base seed 0).
    pub valid: usize,
    /// A level file; its rooms are then the only split, `levels`.
    pub levels: Option<PathBuf>,
    /// Pictures of the cells ([`Tiles::read`]); left out, our own.
    pub tiles: Option<PathBuf>,
}

impl Default for SokobanOptions {
    /// The published training setting in text mode.
    fn default() -> Self {
        Self {
            room: RoomConfig::default(),
            max_steps: 15,
            view: View::Text,
            train: TRAIN_SEEDS,
            valid: 128,
            levels: None,
            tiles: None,
        }
    }
}

/// Seeds that the reference trains on: those below this number.
pub const TRAIN_SEEDS: usize = 65_535;

/// The seeds of the reference's first validation batch: NumPy's legacy generator, seeded with the environment's base
/// seed plus 1000, in [65536, 2³² − 1). Doubles are left out.
pub fn validation_seeds(base_seed: u32, count: usize) -> Vec<u32> {
    let mut random = NumpyRandomState::new(base_seed.wrapping_add(1000));
    let mut seeds: Vec<u32> = Vec::with_capacity(count);
    let mut seen = std::collections::HashSet::with_capacity(count);
    while seeds.len() < count {
        let seed = random.randint(65_536, i64::from(u32::MAX)) as u32;
        if seen.insert(seed) {
            seeds.push(seed);
        }
    }
    seeds
}

/// The suite `sokoban` (`sokoban_visual` where pictures are all that is shown).
#[derive(Debug, Clone)]
pub struct Sokoban {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: SokobanOptions,
    tiles: Tiles,
    levels: Vec<Level>,
    tasks: [OnceLock<Arc<[Task]>>; 2],
}

const SPLITS: [&str; 2] = ["train", "valid"];
const LEVELS: &str = "levels";
/// States that are looked at to say whether a lost episode ended in a dead end.
const LAST_LOOK: usize = 200_000;

impl Sokoban {
    /// The name of the suite in text mode.
    pub const NAME: &str = "sokoban";
    /// The name of the suite where only pictures are shown.
    pub const VISUAL_NAME: &str = "sokoban_visual";

    /// Opens the suite; level file and tiles are read here, rooms are made when they are asked for.
    ///
    /// # Errors
    /// When a setting is out of range or a file cannot be used.
    pub fn open(options: SokobanOptions) -> Result<Self, EnvError> {
        options.room.check().map_err(|error| setting(&error))?;
        for (name, found, high) in
            [("train", options.train, TRAIN_SEEDS), ("valid", options.valid, 1_000_000)]
        {
            if found == 0 || found > high {
                return Err(setting(&GenerateError::Range { name, found, low: 1, high }));
            }
        }
        let tiles = options.tiles.as_deref().map_or_else(|| Ok(Tiles::own()), Tiles::read)?;
        let levels = options.levels.as_deref().map_or_else(|| Ok(Vec::new()), level::read)?;
        Ok(Self { shared: Arc::new(Shared { options, tiles, levels, tasks: Default::default() }) })
    }

    /// The options that it was opened with.
    pub fn options(&self) -> &SokobanOptions {
        &self.shared.options
    }

    /// The pictures of the cells.
    pub fn tiles(&self) -> &Tiles {
        &self.shared.tiles
    }

    /// The room that a task starts with. Any seed will do, also beyond those that the splits list.
    ///
    /// # Errors
    /// [`EnvError::UnknownTask`], and [`EnvError::Data`] when the seed gives no room with these settings.
    pub fn room(&self, task: &Task) -> Result<Room, EnvError> {
        let unknown = || EnvError::UnknownTask { suite: self.name().to_owned(), id: task.id.clone() };
        let (split, name) = task.id.split_once('/').ok_or_else(unknown)?;
        if !self.shared.levels.is_empty() {
            let number: usize = name.parse().map_err(|_| unknown())?;
            let level =
                self.shared.levels.get(number.wrapping_sub(1)).filter(|_| level_id(number) == task.id);
            return level.map(|level| level.room.clone()).ok_or_else(unknown);
        }
        let seed = name.strip_prefix("seed_").filter(|_| SPLITS.contains(&split)).ok_or_else(unknown)?;
        let seed: u32 = seed.parse().map_err(|_| unknown())?;
        // `+7` and `007` are no names of ours.
        if seed_id(split, seed) != task.id {
            return Err(unknown());
        }
        let generated = self.shared.options.room.generate(seed);
        Ok(generated.map_err(|error| setting(&error))?.room)
    }

    fn list(&self, split: &str) -> Option<Arc<[Task]>> {
        let SokobanOptions { room, train, valid, .. } = &self.shared.options;
        if !self.shared.levels.is_empty() {
            let make = || {
                let task = |(number, level): (usize, &Level)| Task {
                    id: level_id(number + 1),
                    split: LEVELS.to_owned(),
                    kind: kind(level.room.rows(), level.room.columns(), level.room.targets()),
                };
                self.shared.levels.iter().enumerate().map(task).collect()
            };
            return (split == LEVELS).then(|| self.shared.tasks[0].get_or_init(make).clone());
        }
        let place = SPLITS.iter().position(|name| *name == split)?;
        let make = || {
            let kind = kind(room.rows, room.columns, room.boxes);
            let task =
                |seed: u32| Task { id: seed_id(split, seed), split: split.to_owned(), kind: kind.clone() };
            match place {
                0 => (0..*train as u32).map(task).collect(),
                _ => validation_seeds(0, *valid).into_iter().map(task).collect(),
            }
        };
        Some(self.shared.tasks[place].get_or_init(make).clone())
    }
}

fn level_id(number: usize) -> String {
    format!("{LEVELS}/{number:05}")
}

fn seed_id(split: &str, seed: u32) -> String {
    format!("{split}/seed_{seed}")
}

fn kind(rows: usize, columns: usize, boxes: usize) -> String {
    format!("{rows}x{columns}_{boxes}_{}", if boxes == 1 { "box" } else { "boxes" })
}

fn setting(error: &GenerateError) -> EnvError {
    EnvError::Data {
        path: PathBuf::from("settings of sokoban"),
        place: String::new(),
        found: error.to_string(),
        expected: "settings that give rooms".to_owned(),
    }
}

impl Suite for Sokoban {
    fn name(&self) -> &str {
        if self.shared.options.view == View::Rgb { Self::VISUAL_NAME } else { Self::NAME }
    }

    fn splits(&self) -> Vec<String> {
        let names: &[&str] = if self.shared.levels.is_empty() { &SPLITS } else { &[LEVELS] };
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn tasks(&self, split: &str) -> Result<Arc<[Task]>, EnvError> {
        self.list(split).ok_or_else(|| EnvError::UnknownSplit {
            suite: self.name().to_owned(),
            split: split.to_owned(),
            known: self.splits().join(", "),
        })
    }

    fn environment(&self) -> Box<dyn Environment> {
        Box::new(SokobanEnvironment { suite: self.clone(), episode: None })
    }

    fn task_description(&self, _task: &Task) -> Option<String> {
        Some("push every box onto a target".to_owned())
    }
}

/// Takes the words of the moves in any case, `still`, and the reference's numbers; anything else stands still.
fn parse(action: &str) -> (Option<Move>, bool) {
    let action = action.trim();
    if let Some(direction) = Move::ALL.into_iter().find(|direction| action == direction.name()) {
        return (Some(direction), true);
    }
    let number: Option<usize> = action.parse().ok();
    let named = Move::ALL.into_iter().enumerate().find(|(place, direction)| {
        action.eq_ignore_ascii_case(direction.name()) || number == Some(place + 1)
    });
    match named {
        Some((_, direction)) => (Some(direction), true),
        None => (None, action.eq_ignore_ascii_case("still") || action == "0"),
    }
}

#[derive(Debug, Clone)]
struct SokobanEnvironment {
    suite: Sokoban,
    episode: Option<Episode>,
}

#[derive(Debug, Clone)]
struct Episode {
    game: Game,
    turns: usize,
    /// The frame of the room as it stands, shared until something moves.
    frame: Option<Arc<Image>>,
    last: LastStep,
}

impl Episode {
    fn observe(&mut self, suite: &Sokoban, moved: bool) -> Observation {
        let view = suite.shared.options.view;
        let room = self.game.room();
        if view != View::Text && (moved || self.frame.is_none()) {
            self.frame = Some(Arc::new(suite.shared.tiles.frame(room)));
        }
        let text = if view == View::Rgb { String::new() } else { room.text() };
        Observation { image: self.frame.clone(), ..Observation::text(text) }
    }
}

impl Environment for SokobanEnvironment {
    fn reset(&mut self, task: &Task, _seed: u64) -> Result<Observation, EnvError> {
        self.episode = None;
        let room = self.suite.room(task)?;
        let game = Game::new(room, self.suite.shared.options.max_steps);
        let mut episode = Episode { game, turns: 0, frame: None, last: LastStep::default() };
        let observation = episode.observe(&self.suite, true);
        self.episode = Some(episode);
        Ok(observation)
    }

    /// The last step of an episode that was not won says in `info.details["dead_end"]` whether the room had become
    /// unsolvable; the key is missing where that is not known.
    fn step(&mut self, action: &str) -> Result<Step, EnvError> {
        let episode = self.episode.as_mut().ok_or(EnvError::NotReset)?;
        if let Some(last) = episode.last.again() {
            return Ok(last);
        }
        let (direction, known) = parse(action);
        let turn = episode.game.step(direction);
        episode.turns += 1;
        let observation = episode.observe(&self.suite, turn.effective);
        let room = episode.game.room();
        let mut step = Step {
            observation,
            reward: turn.reward,
            done: turn.won,
            truncated: !turn.won && episode.turns >= self.suite.shared.options.max_steps,
            info: StepInfo {
                won: turn.won,
                score: room.on_target() as f64 / room.targets() as f64,
                action_valid: Some(known && (turn.effective || direction.is_none())),
                ..StepInfo::default()
            },
        };
        if step.is_last()
            && let Some(solvable) = solvable(room, LAST_LOOK)
        {
            step.info.details.insert("dead_end".to_owned(), Value::Bool(!solvable));
        }
        Ok(episode.last.keep(step))
    }

    fn snapshot(&self) -> Box<dyn Environment> {
        Box::new(self.clone())
    }

    /// The next move of a shortest plan; none from a dead state.
    fn expert_action(&self) -> Option<String> {
        let episode = self.episode.as_ref().filter(|episode| !episode.last.is_over())?;
        match solve(episode.game.room()) {
            Solution::Plan(moves) => moves.first().map(|direction| direction.name().to_owned()),
            _ => None,
        }
    }
}
