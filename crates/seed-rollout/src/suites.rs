//! Environments by name, as a configuration file writes them.

use seed_envs::alfworld::{AlfWorld, AlfWorldOptions};
use seed_envs::ezpoints::{CardGames, CardOptions, CardView};
use seed_envs::household::{Difficulty, Household, HouseholdOptions};
use seed_envs::projection::CardGame;
use seed_envs::search_qa::{SearchQa, SearchQaOptions};
use seed_envs::sokoban::{RoomConfig, Sokoban, SokobanOptions, View};
use seed_envs::webshop::{GoalKind, PurchaseReward, ShopFiles, TaskOrder, TextMode, WebShop, WebShopOptions};
use seed_envs::{EnvError, Suite};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Which environment, with its options. In TOML: `name = "household"` beside the options, all of which have defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum SuiteConfig {
    /// The embedded household world; needs no data.
    Household(HouseholdConfig),
    /// ALFWorld; needs its data.
    #[serde(rename = "alfworld")]
    AlfWorld(AlfWorldConfig),
    /// WebShop: the embedded shop, or the public data.
    #[serde(rename = "webshop")]
    WebShop(WebShopConfig),
    /// Search-augmented question answering; embedded questions, or a folder of data.
    SearchQa(SearchQaConfig),
    /// Sokoban; needs no data.
    Sokoban(SokobanConfig),
    /// EZPoints: 12 from two cards; needs no data.
    #[serde(rename = "ezpoints")]
    EzPoints(CardConfig),
    /// NumberLine: walk to a number; needs no data.
    NumberLine(CardConfig),
    /// Blackjack; needs no data.
    Blackjack(CardConfig),
    /// Points24: 24 from four cards; needs no data.
    #[serde(rename = "points24")]
    Points24(CardConfig),
}

/// Sokoban.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SokobanConfig {
    /// Rows of a room, walls included.
    pub rows: usize,
    /// Columns of a room, walls included.
    pub columns: usize,
    /// Boxes.
    pub boxes: usize,
    /// Depth of the reverse search that makes rooms.
    pub search_depth: usize,
    /// `PYTHONHASHSEED` of the reference; it matters for seeds that need a retry.
    pub hash_seed: u32,
    /// Steps of an episode.
    pub max_steps: usize,
    /// `text`, `rgb`, or `both`.
    pub view: View,
    /// Tasks in `train`.
    pub train: usize,
    /// Tasks in `valid`.
    pub valid: usize,
    /// A level file in place of generated rooms; its split is `levels`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub levels: Option<PathBuf>,
    /// Pictures of the cells; left out, the project's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tiles: Option<PathBuf>,
}

impl Default for SokobanConfig {
    fn default() -> Self {
        let SokobanOptions { room, max_steps, view, train, valid, levels, tiles } = Default::default();
        let RoomConfig { rows, columns, boxes, search_depth, hash_seed } = room;
        Self { rows, columns, boxes, search_depth, hash_seed, max_steps, view, train, valid, levels, tiles }
    }
}

impl SokobanConfig {
    fn options(&self) -> SokobanOptions {
        let Self {
            rows,
            columns,
            boxes,
            search_depth,
            hash_seed,
            max_steps,
            view,
            train,
            valid,
            levels,
            tiles,
        } = self.clone();
        let room = RoomConfig { rows, columns, boxes, search_depth, hash_seed };
        SokobanOptions { room, max_steps, view, train, valid, levels, tiles }
    }
}

/// A card game.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CardConfig {
    /// `text`, `rgb`, or `both`.
    pub view: CardView,
    /// Steps of an episode; left out, what the game says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<usize>,
    /// Ends an episode where the game's own limit is reached.
    pub stop_at_game_limit: bool,
    /// Tasks in `train`; left out, all seeds of the reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub train: Option<usize>,
    /// Tasks in `valid`; left out, 128.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid: Option<usize>,
    /// Folder with the public cards and font, for EZPoints alone; left out, the project's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assets: Option<PathBuf>,
}

impl CardConfig {
    fn open(&self, game: CardGame) -> Result<Box<dyn Suite>, SuiteError> {
        let default = CardOptions::new(game);
        let options = CardOptions {
            game,
            view: self.view,
            max_steps: self.max_steps.unwrap_or(default.max_steps),
            stop_at_game_limit: self.stop_at_game_limit,
            train: self.train.unwrap_or(default.train),
            valid: self.valid.unwrap_or(default.valid),
            assets: self.assets.clone(),
        };
        Ok(Box::new(CardGames::open(options)?))
    }
}

/// Search-augmented question answering.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SearchQaConfig {
    /// Folder with `train` and `test` (`.parquet` or `.jsonl`), and `corpus.jsonl` where no server is asked; left out,
    /// the embedded world.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<PathBuf>,
    /// Addresses of retrieval servers; empty, BM25 in this process.
    pub retriever: Vec<String>,
    /// Protocol, limits, scoring, quirks.
    pub options: SearchQaOptions,
}

/// WebShop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebShopConfig {
    /// Folder with the public files and `nouns.jsonl`; left out, the embedded shop is played.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<PathBuf>,
    /// Takes the 1,000-product set where a folder holds both.
    pub small: bool,
    /// Takes only the first records of the products' file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_products: Option<usize>,
    /// Instructions by people instead of synthetic ones.
    pub human_goals: bool,
    /// Steps of an episode.
    pub max_steps: usize,
    /// The reward of a purchase with score 1.
    pub win_reward: f64,
    /// Other purchases earn their score times `win_reward`, not nothing.
    pub partial_reward: bool,
    /// Pages with a line for each part, for people, instead of parts joined by ` [SEP] `, for which prompts are made.
    pub rich_text: bool,
    /// Seed of prices within ranges and of price caps.
    pub seed: u32,
    /// Repeats verl-agent's habit with so many workers, each with a goal order of its own, so that test goals are also
    /// trained on; 0 for one fixed order without overlap.
    pub verl_workers: u32,
}

impl Default for WebShopConfig {
    fn default() -> Self {
        let WebShopOptions { max_steps, win_reward, .. } = WebShopOptions::default();
        Self {
            data: None,
            small: true,
            num_products: None,
            human_goals: false,
            max_steps,
            win_reward,
            partial_reward: false,
            rich_text: false,
            seed: 0,
            verl_workers: 0,
        }
    }
}

impl WebShopConfig {
    fn open(&self) -> Result<WebShop, EnvError> {
        let options = WebShopOptions {
            goals: if self.human_goals { GoalKind::Human } else { GoalKind::Synthetic },
            num_products: self.num_products,
            max_steps: self.max_steps,
            win_reward: self.win_reward,
            purchase_reward: if self.partial_reward {
                PurchaseReward::Score
            } else {
                PurchaseReward::Success
            },
            mode: if self.rich_text { TextMode::Rich } else { TextMode::Text },
            seed: self.seed.into(),
            order: match self.verl_workers {
                0 => TaskOrder::Fixed,
                workers => TaskOrder::VerlAgent { seed: self.seed, workers },
            },
            ..WebShopOptions::default()
        };
        match &self.data {
            None => WebShop::embedded(options),
            Some(folder) => {
                let mut shown = 0;
                WebShop::open(&ShopFiles::find(folder, self.small)?, options, &mut |progress| {
                    // The first 10,000 take no time.
                    if progress.records >= shown + 10_000 {
                        shown = progress.records;
                        eprintln!("webshop: {shown} products read");
                    }
                })
            }
        }
    }
}

/// ALFWorld.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AlfWorldConfig {
    /// Folder of the data; left out, `$ALFWORLD_DATA`, else `~/.cache/alfworld`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<PathBuf>,
    /// Steps of an episode.
    pub max_steps: usize,
    /// The reward of the winning step.
    pub win_reward: f64,
    /// Task types to keep; empty keeps all.
    pub task_types: Vec<String>,
    /// Form of games in the compact layout.
    pub form: String,
    /// Deals the numbers in names out anew for each episode.
    pub domain_randomization: bool,
}

impl Default for AlfWorldConfig {
    fn default() -> Self {
        let AlfWorldOptions { max_steps, win_reward, task_types, form, domain_randomization } =
            Default::default();
        Self { data: None, max_steps, win_reward, task_types, form, domain_randomization }
    }
}

/// The embedded household world.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HouseholdConfig {
    /// Size of the houses, from 0 to 1.
    pub difficulty: f64,
    /// Games in `train`.
    pub train: usize,
    /// Games in `valid_seen`.
    pub valid_seen: usize,
    /// Games in `valid_unseen`.
    pub valid_unseen: usize,
    /// Steps of an episode; left out, what the difficulty says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_limit: Option<usize>,
}

impl Default for HouseholdConfig {
    fn default() -> Self {
        let HouseholdOptions { difficulty, train, valid_seen, valid_unseen, step_limit } = Default::default();
        Self {
            difficulty: f64::from(difficulty.percent()) / 100.0,
            train,
            valid_seen,
            valid_unseen,
            step_limit,
        }
    }
}

impl Default for SuiteConfig {
    /// The household world as the quick start plays it.
    fn default() -> Self {
        Self::Household(HouseholdConfig::default())
    }
}

impl SuiteConfig {
    /// Loads what all episodes share.
    ///
    /// # Errors
    /// [`SuiteError`] when an option is out of range or the data are not what the environment needs.
    pub fn open(&self) -> Result<Box<dyn Suite>, SuiteError> {
        match self {
            Self::Household(config) => {
                let HouseholdConfig { difficulty, train, valid_seen, valid_unseen, step_limit } = *config;
                let difficulty =
                    Difficulty::new(difficulty).ok_or(SuiteError::Difficulty { found: difficulty })?;
                let options = HouseholdOptions { difficulty, train, valid_seen, valid_unseen, step_limit };
                Ok(Box::new(Household::new(options)))
            }
            Self::WebShop(config) => Ok(Box::new(config.open()?)),
            Self::AlfWorld(config) => {
                let AlfWorldConfig { data, max_steps, win_reward, task_types, form, domain_randomization } =
                    config.clone();
                let options =
                    AlfWorldOptions { max_steps, win_reward, task_types, form, domain_randomization };
                Ok(Box::new(match data {
                    Some(folder) => AlfWorld::open(folder, options)?,
                    None => AlfWorld::from_env(options)?,
                }))
            }
            Self::Sokoban(config) => Ok(Box::new(Sokoban::open(config.options())?)),
            Self::EzPoints(config) => config.open(CardGame::EzPoints),
            Self::NumberLine(config) => config.open(CardGame::NumberLine),
            Self::Blackjack(config) => config.open(CardGame::Blackjack),
            Self::Points24(config) => config.open(CardGame::Points24),
            Self::SearchQa(config) => {
                let SearchQaConfig { data, retriever, options } = config;
                Ok(Box::new(SearchQa::open(data.as_deref(), retriever, options.clone())?))
            }
        }
    }
}

/// Why an environment cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuiteError {
    /// The difficulty is out of range.
    #[error("`difficulty` is {found}, expected a number from 0 to 1")]
    Difficulty {
        /// What was asked for.
        found: f64,
    },
    /// The data cannot be read.
    #[error(transparent)]
    Environment(#[from] EnvError),
}
