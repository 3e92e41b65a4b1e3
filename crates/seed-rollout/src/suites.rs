//! Environments by name, as a configuration file writes them.

use seed_envs::alfworld::{AlfWorld, AlfWorldOptions};
use seed_envs::household::{Difficulty, Household, HouseholdOptions};
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
