//! The household world as an environment: tasks by seed, played on the ALFWorld engine.

use super::file::{DOMAIN, GameFile};
use super::generate::{Difficulty, Game, Split};
use crate::alfworld::{Domain, Game as Compiled, GameError, GameState, Grammar, Logic, Problem};
use crate::environment::{EnvError, Environment, LastStep, Observation, Step, StepInfo, Suite, Task};
use std::sync::{Arc, OnceLock};

/// What a won episode is worth, as in ALFWorld's training set-up.
const REWARD: f64 = 10.0;

/// How big the world is and how many games each split lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HouseholdOptions {
    /// The dial.
    pub difficulty: Difficulty,
    /// Games in `train`.
    pub train: usize,
    /// Games in `valid_seen`.
    pub valid_seen: usize,
    /// Games in `valid_unseen`.
    pub valid_unseen: usize,
    /// Steps of an episode; `None` takes what the difficulty says.
    pub step_limit: Option<usize>,
}

impl Default for HouseholdOptions {
    /// The quick start's world: 1,800 games to train on, two panels of 120.
    fn default() -> Self {
        Self {
            difficulty: Difficulty::default(),
            train: 1800,
            valid_seen: 120,
            valid_unseen: 120,
            step_limit: None,
        }
    }
}

/// The suite `household`: no data files, every game made from its seed when it is asked for.
#[derive(Debug, Clone)]
pub struct Household {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: HouseholdOptions,
    tasks: [OnceLock<Arc<[Task]>>; 3],
    logic: OnceLock<Arc<Logic>>,
}

impl Household {
    /// The name of the suite.
    pub const NAME: &str = "household";

    /// A world with these options. Cheap: nothing is generated yet.
    pub fn new(options: HouseholdOptions) -> Self {
        Self { shared: Arc::new(Shared { options, tasks: Default::default(), logic: OnceLock::new() }) }
    }

    /// The options that it was made with.
    pub fn options(&self) -> &HouseholdOptions {
        &self.shared.options
    }

    /// Steps after which an episode is cut.
    pub fn step_limit(&self) -> usize {
        let HouseholdOptions { difficulty, step_limit, .. } = self.shared.options;
        step_limit.unwrap_or_else(|| difficulty.step_limit())
    }

    /// The game of a task. Any seed will do, also beyond the number of games that the split lists.
    ///
    /// # Errors
    /// [`EnvError::UnknownTask`] when the id is none that this world gives out.
    pub fn game(&self, task: &Task) -> Result<Game, EnvError> {
        let unknown = || EnvError::UnknownTask { suite: Self::NAME.to_owned(), id: task.id.clone() };
        let split = Split::from_name(task.id.split('/').next().unwrap_or_default()).ok_or_else(unknown)?;
        let (_, seed) = task.id.rsplit_once("/seed_").ok_or_else(unknown)?;
        let seed = seed.parse().map_err(|_| unknown())?;
        let game = Game::generate(split, self.shared.options.difficulty, seed);
        if game.id() == task.id { Ok(game) } else { Err(unknown()) }
    }

    /// The task of a seed in a split.
    pub fn task(&self, split: Split, seed: u64) -> Task {
        let game = Game::generate(split, self.shared.options.difficulty, seed);
        Task { id: game.id(), split: split.name().to_owned(), kind: game.goal.kind.name().to_owned() }
    }

    /// Compiles a game for the engine; domain and rules are read once for all games.
    fn compile(&self, game: &Game) -> Result<Arc<Compiled>, GameError> {
        let file = GameFile::new(game);
        let grammar = Grammar::parse(&file.grammar)?;
        let logic = match self.shared.logic.get() {
            Some(logic) => logic.clone(),
            None => {
                let made = Logic::new(Domain::parse(DOMAIN)?, &grammar)?;
                self.shared.logic.get_or_init(|| made).clone()
            }
        };
        let problem = Problem::parse(&file.pddl_problem, logic.domain())?;
        Compiled::new(&logic, &grammar, Arc::new(problem))
    }
}

impl Default for Household {
    fn default() -> Self {
        Self::new(HouseholdOptions::default())
    }
}

impl Suite for Household {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn splits(&self) -> Vec<String> {
        Split::ALL.map(|split| split.name().to_owned()).to_vec()
    }

    fn tasks(&self, split: &str) -> Result<Arc<[Task]>, EnvError> {
        let unknown = || EnvError::UnknownSplit {
            suite: Self::NAME.to_owned(),
            split: split.to_owned(),
            known: self.splits().join(", "),
        };
        let split = Split::from_name(split).ok_or_else(unknown)?;
        let count = match split {
            Split::Train => self.shared.options.train,
            Split::ValidSeen => self.shared.options.valid_seen,
            Split::ValidUnseen => self.shared.options.valid_unseen,
        };
        let make = || (0..count as u64).map(|seed| self.task(split, seed)).collect();
        Ok(self.shared.tasks[split as usize].get_or_init(make).clone())
    }

    fn environment(&self) -> Box<dyn Environment> {
        Box::new(HouseholdEnvironment { suite: self.clone(), episode: None })
    }

    fn task_description(&self, task: &Task) -> Option<String> {
        self.game(task).ok().map(|game| game.goal.text())
    }
}

/// One player's place in the household world.
#[derive(Debug, Clone)]
struct HouseholdEnvironment {
    suite: Household,
    episode: Option<Episode>,
}

#[derive(Debug, Clone)]
struct Episode {
    state: GameState,
    steps: usize,
    last: LastStep,
}

impl Environment for HouseholdEnvironment {
    fn reset(&mut self, task: &Task, _seed: u64) -> Result<Observation, EnvError> {
        self.episode = None;
        let game = self.suite.game(task)?;
        // Our own files: an error here is a fault of the generator, and says in which game.
        let compiled = self.suite.compile(&game).map_err(|error| EnvError::Data {
            path: task.id.clone().into(),
            place: String::new(),
            found: error.to_string(),
            expected: "a game that the engine can play".to_owned(),
        })?;
        let state = compiled.start();
        let observation = observe(state.introduction(), &state);
        self.episode = Some(Episode { state, steps: 0, last: LastStep::default() });
        Ok(observation)
    }

    fn step(&mut self, action: &str) -> Result<Step, EnvError> {
        let limit = self.suite.step_limit();
        let episode = self.episode.as_mut().ok_or(EnvError::NotReset)?;
        if let Some(last) = episode.last.again() {
            return Ok(last);
        }
        let turn = episode.state.step(action);
        episode.steps += 1;
        let won = episode.state.won();
        let step = Step {
            observation: observe(turn.text, &episode.state),
            reward: if won { REWARD } else { 0.0 },
            done: won,
            truncated: !won && episode.steps >= limit,
            info: StepInfo {
                won,
                score: f64::from(u8::from(won)),
                action_valid: Some(turn.accepted),
                ..StepInfo::default()
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
        episode.state.plan().ok()?.commands.into_iter().next()
    }
}

fn observe(text: String, state: &GameState) -> Observation {
    Observation { admissible: Some(state.admissible().clone()), ..Observation::text(text) }
}
