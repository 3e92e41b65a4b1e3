//! The card games as environments: tasks by seed.

use super::Turn;
use super::blackjack::{Blackjack, total};
use super::card::deal_ezpoints;
use super::frame::Painter;
use super::number_line::NumberLine;
use super::points::Points;
use crate::environment::{EnvError, Environment, Image, LastStep, Observation, Step, StepInfo, Suite, Task};
use crate::projection::CardGame;
use crate::sokoban::suite::{TRAIN_SEEDS, validation_seeds};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// What the agent sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CardView {
    /// Cards in words.
    #[default]
    Text,
    /// The picture; the text is the formula so far, without blanks (empty for NumberLine and Blackjack).
    Rgb,
    /// The picture and the cards in words, for people.
    Both,
}

/// Which game, how it is shown, how long an episode is.
#[derive(Debug, Clone, PartialEq)]
pub struct CardOptions {
    /// The game.
    pub game: CardGame,
    /// What the agent sees.
    pub view: CardView,
    /// Steps of an episode; whatever was said counts.
    pub max_steps: usize,
    /// Ends an episode where the game's own limit is reached (5 tokens, 20 tokens, 10 steps). The reference drops that
    /// flag and lets the episode idle on.
    pub stop_at_game_limit: bool,
    /// Tasks in `train`: the seeds from 0. The reference draws from all 65,535.
    pub train: usize,
    /// Tasks in `valid`: seeds as the reference's first validation batch draws them.
    pub valid: usize,
    /// Folder with the public cards and font, EZPoints only ([`Painter::read`]); left out, our own.
    pub assets: Option<PathBuf>,
}

impl CardOptions {
    /// The published setting of a game, in text.
    pub fn new(game: CardGame) -> Self {
        let max_steps = match game {
            CardGame::EzPoints => 8,
            CardGame::NumberLine | CardGame::Blackjack => 10,
            CardGame::Points24 => 24,
        };
        Self {
            game,
            view: CardView::Text,
            max_steps,
            stop_at_game_limit: false,
            train: TRAIN_SEEDS,
            valid: 128,
            assets: None,
        }
    }
}

/// The suites `ezpoints`, `number_line`, `blackjack` and `points24`, with `_text` behind the name where no picture is
/// shown.
#[derive(Debug, Clone)]
pub struct CardGames {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: CardOptions,
    painter: Painter,
    tasks: [OnceLock<Arc<[Task]>>; 2],
}

const SPLITS: [&str; 2] = ["train", "valid"];

impl CardGames {
    /// Opens a game; public assets are read here.
    ///
    /// # Errors
    /// When a setting is out of range or a file cannot be used.
    pub fn open(options: CardOptions) -> Result<Self, EnvError> {
        let refuse = |found: String, expected: &str| EnvError::Data {
            path: PathBuf::from(format!("settings of {}", name(&options))),
            place: String::new(),
            found,
            expected: expected.to_owned(),
        };
        if options.max_steps == 0 || options.valid == 0 || !(1..=TRAIN_SEEDS).contains(&options.train) {
            let found = format!(
                "`max_steps` {}, `train` {}, `valid` {}",
                options.max_steps, options.train, options.valid
            );
            return Err(refuse(found, "numbers from 1, and at most 65535 for `train`"));
        }
        let painter = match &options.assets {
            None => Painter::own(options.game),
            Some(folder) if options.game == CardGame::EzPoints => Painter::read(folder)?,
            Some(folder) => {
                let found = format!("`assets` {}", folder.display());
                return Err(refuse(found, "no public assets: they are of EZPoints alone"));
            }
        };
        Ok(Self { shared: Arc::new(Shared { options, painter, tasks: Default::default() }) })
    }

    /// The options that it was opened with.
    pub fn options(&self) -> &CardOptions {
        &self.shared.options
    }

    /// The seed of a task. Any seed will do, also beyond those that the splits list.
    ///
    /// # Errors
    /// [`EnvError::UnknownTask`].
    pub fn seed(&self, task: &Task) -> Result<u32, EnvError> {
        let seed = task.id.split_once("/seed_").and_then(|(split, seed)| {
            let seed: u32 = seed.parse().ok()?;
            (SPLITS.contains(&split) && id(split, seed) == task.id).then_some(seed)
        });
        seed.ok_or_else(|| EnvError::UnknownTask { suite: self.name().to_owned(), id: task.id.clone() })
    }

    fn list(&self, split: &str) -> Option<Arc<[Task]>> {
        let CardOptions { game, train, valid, .. } = self.shared.options;
        let place = SPLITS.iter().position(|name| *name == split)?;
        let task = |seed: u32| Task {
            id: id(split, seed),
            split: split.to_owned(),
            kind: kind(game, seed).to_owned(),
        };
        let make = || match place {
            0 => (0..train as u32).map(task).collect(),
            _ => validation_seeds(0, valid).into_iter().map(task).collect(),
        };
        Some(self.shared.tasks[place].get_or_init(make).clone())
    }
}

fn name(options: &CardOptions) -> &'static str {
    match (options.game, options.view) {
        (CardGame::EzPoints, CardView::Text) => "ezpoints_text",
        (CardGame::EzPoints, _) => "ezpoints",
        (CardGame::NumberLine, CardView::Text) => "number_line_text",
        (CardGame::NumberLine, _) => "number_line",
        (CardGame::Blackjack, CardView::Text) => "blackjack_text",
        (CardGame::Blackjack, _) => "blackjack",
        (CardGame::Points24, CardView::Text) => "points24_text",
        (CardGame::Points24, _) => "points24",
    }
}

fn id(split: &str, seed: u32) -> String {
    format!("{split}/seed_{seed}")
}

/// EZPoints' deals differ by the operator that solves them.
fn kind(game: CardGame, seed: u32) -> &'static str {
    match game {
        CardGame::EzPoints => {
            let [first, second] = deal_ezpoints(seed).map(|card| card.number());
            if first + second == 12 { "sum" } else { "product" }
        }
        CardGame::NumberLine => "number_line",
        CardGame::Blackjack => "blackjack",
        CardGame::Points24 => "points24",
    }
}

impl Suite for CardGames {
    fn name(&self) -> &str {
        name(&self.shared.options)
    }

    fn splits(&self) -> Vec<String> {
        SPLITS.map(str::to_owned).to_vec()
    }

    fn tasks(&self, split: &str) -> Result<Arc<[Task]>, EnvError> {
        self.list(split).ok_or_else(|| EnvError::UnknownSplit {
            suite: self.name().to_owned(),
            split: split.to_owned(),
            known: SPLITS.join(", "),
        })
    }

    fn environment(&self) -> Box<dyn Environment> {
        Box::new(CardEnvironment { suite: self.clone(), episode: None })
    }

    fn task_description(&self, _task: &Task) -> Option<String> {
        let words = match self.shared.options.game {
            CardGame::EzPoints => "write a formula from both cards that is worth 12",
            CardGame::NumberLine => "walk from the current number to the target",
            CardGame::Blackjack => "come nearer to 21 than the dealer, but not beyond",
            CardGame::Points24 => "write a formula from all four cards that is worth 24",
        };
        Some(words.to_owned())
    }
}

/// A game in play.
#[derive(Debug, Clone)]
enum Play {
    Points(Points),
    NumberLine(NumberLine),
    Blackjack(Blackjack),
}

impl Play {
    fn deal(game: CardGame, seed: u32) -> Self {
        match game {
            CardGame::EzPoints => Self::Points(Points::ezpoints(seed)),
            CardGame::Points24 => Self::Points(Points::points24(seed)),
            CardGame::NumberLine => Self::NumberLine(NumberLine::new(seed)),
            CardGame::Blackjack => Self::Blackjack(Blackjack::new(seed)),
        }
    }

    fn step(&mut self, action: Option<usize>) -> Turn {
        match self {
            Self::Points(game) => game.step(action),
            Self::NumberLine(game) => game.step(action),
            Self::Blackjack(game) => game.step(action),
        }
    }

    fn expert(&self) -> Option<usize> {
        match self {
            Self::Points(game) => game.expert(),
            Self::NumberLine(game) => game.expert(),
            Self::Blackjack(game) => game.expert(),
        }
    }

    fn words(&self, over: bool) -> String {
        let list =
            |cards: &[super::Card]| cards.iter().map(|card| card.words()).collect::<Vec<_>>().join(", ");
        match self {
            Self::Points(game) => {
                format!("Cards: {}\nFormula: {}", list(game.cards()), game.formula().join(" "))
            }
            Self::NumberLine(game) => format!("Target: {}\nCurrent: {}", game.target(), game.current()),
            Self::Blackjack(game) => {
                let shown = if over { game.dealer() } else { &game.dealer()[..1] };
                let player = game.player();
                format!("Dealer: {}\nPlayer: {} ({})", list(shown), list(player), total(player))
            }
        }
    }
}

#[derive(Debug, Clone)]
struct CardEnvironment {
    suite: CardGames,
    episode: Option<Episode>,
}

#[derive(Debug, Clone)]
struct Episode {
    play: Play,
    turns: usize,
    /// The cards of a game of points on the table.
    table: Option<Arc<Image>>,
    /// The frame of the game as it stands, shared until something changes.
    frame: Option<Arc<Image>>,
    last: LastStep,
}

impl Episode {
    fn observe(&mut self, shared: &Shared, changed: bool, over: bool) -> Observation {
        let view = shared.options.view;
        if view != CardView::Text && (changed || self.frame.is_none()) {
            self.frame = Some(Arc::new(match &self.play {
                Play::Points(game) => {
                    let table = self.table.get_or_insert_with(|| Arc::new(shared.painter.table(game)));
                    shared.painter.points(table, game)
                }
                Play::NumberLine(game) => shared.painter.number_line(game),
                Play::Blackjack(game) => shared.painter.blackjack(game),
            }));
        }
        let text = match (&self.play, view) {
            (Play::Points(game), CardView::Rgb) => game.formula().concat(),
            (_, CardView::Rgb) => String::new(),
            (play, _) => play.words(over),
        };
        Observation { image: self.frame.clone(), ..Observation::text(text) }
    }
}

impl Environment for CardEnvironment {
    fn reset(&mut self, task: &Task, _seed: u64) -> Result<Observation, EnvError> {
        self.episode = None;
        let play = Play::deal(self.suite.shared.options.game, self.suite.seed(task)?);
        let mut episode = Episode { play, turns: 0, table: None, frame: None, last: LastStep::default() };
        let observation = episode.observe(&self.suite.shared, true, false);
        self.episode = Some(episode);
        Ok(observation)
    }

    /// Takes the tokens of [`CardGame::actions`] as they are written; any other text does nothing.
    fn step(&mut self, action: &str) -> Result<Step, EnvError> {
        let shared = &self.suite.shared;
        let CardOptions { game, max_steps, stop_at_game_limit, .. } = shared.options;
        let episode = self.episode.as_mut().ok_or(EnvError::NotReset)?;
        if let Some(last) = episode.last.again() {
            return Ok(last);
        }
        let action = action.trim();
        let index = game.actions().iter().position(|token| *token == action);
        let turn = episode.play.step(index);
        episode.turns += 1;
        let stopped = stop_at_game_limit && turn.truncated;
        let step = Step {
            observation: episode.observe(shared, turn.accepted, turn.terminated),
            reward: turn.reward,
            done: turn.terminated,
            truncated: !turn.terminated && (stopped || episode.turns >= max_steps),
            info: StepInfo {
                won: turn.won(),
                score: f64::from(u8::from(turn.won())),
                action_valid: Some(turn.accepted),
                ..StepInfo::default()
            },
        };
        Ok(episode.last.keep(step))
    }

    fn snapshot(&self) -> Box<dyn Environment> {
        Box::new(self.clone())
    }

    /// The next token of a shortest formula; the step towards the target; a card below 17.
    fn expert_action(&self) -> Option<String> {
        let episode = self.episode.as_ref().filter(|episode| !episode.last.is_over())?;
        let index = episode.play.expert()?;
        self.suite.shared.options.game.actions().get(index).map(|&token| token.to_owned())
    }
}
