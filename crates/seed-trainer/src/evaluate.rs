//! Evaluation on fixed panels: the same tasks, environment seeds and sampling streams every time.

use crate::config::Config;
use crate::metrics::Record;
use crate::observer::{Event, Observer};
use crate::world::World;
use seed_envs::{EnvError, Suite, Task};
use seed_rollout::collect::{CollectError, CollectOptions, Collection, Collector, GroupPlan};
use seed_rollout::sampler::{Purpose, Sampling, StreamKey};
use seed_rollout::source::TokenSource;
use std::collections::BTreeMap;

/// The tasks of a split that are played, always the same ones.
#[derive(Debug, Clone)]
pub struct Panel {
    /// The split.
    pub split: String,
    /// Its tasks, with the seed of each environment.
    pub groups: Vec<GroupPlan>,
}

impl Panel {
    /// `games` tasks, evenly spaced over the split; all of them for 0 or when there are fewer.
    ///
    /// Neither the tasks nor their seeds depend on the run's seed, so that runs can be compared game by game.
    ///
    /// # Errors
    /// [`EnvError::UnknownSplit`] names the splits that exist.
    pub fn new(suite: &dyn Suite, split: &str, games: usize) -> Result<Self, EnvError> {
        let tasks = suite.tasks(split)?;
        let count = if games == 0 { tasks.len() } else { games.min(tasks.len()) };
        let groups = (0..count)
            .map(|index| {
                let task: &Task = &tasks[index * tasks.len() / count];
                let key =
                    StreamKey { group: index as u64, ..StreamKey::new(PANEL_SEED, Purpose::Environment) };
                GroupPlan { task: task.clone(), seed: key.seed() }
            })
            .collect();
        Ok(Self { split: split.into(), groups })
    }
}

/// Training environments use the run's seed; panels use this one in every run.
const PANEL_SEED: u64 = 1000;

/// Plays a panel and returns its `eval/…` numbers with the episodes.
///
/// # Errors
/// [`CollectError`] when an environment or generation fails.
pub fn evaluate<S: TokenSource>(
    world: &World,
    sources: &mut [S],
    panel: &Panel,
    config: &Config,
    observer: &dyn Observer,
) -> Result<(Record, Collection), CollectError> {
    let options = CollectOptions {
        group_size: config.eval.rollouts,
        sampling: Sampling { temperature: config.eval.temperature, ..Sampling::default() },
        training: false,
        purpose: Purpose::Evaluation,
        update: 0,
        ..world.collect_options(config)
    };
    let what = format!("eval {}", panel.split);
    let total = (panel.groups.len() * options.group_size) as u64;
    observer.event(Event::Started { what: &what, total: Some(total) });
    let collector = Collector {
        suite: world.suite.as_ref(),
        dialogue: &world.dialogue,
        projection: world.projection,
        options: &options,
    };
    let collection = collector.collect(sources, &panel.groups, &|_| observer.event(Event::Advanced(1)));
    observer.event(Event::Finished);
    let collection = collection?;
    Ok((summary(&panel.split, &collection), collection))
}

/// The `eval/{split}/…` numbers of played episodes.
pub fn summary(split: &str, collection: &Collection) -> Record {
    let mut record = Record::new();
    let episodes = &collection.episodes;
    let count = episodes.len().max(1) as f64;
    let mean = |value: &dyn Fn(&seed_rollout::collect::Episode) -> f64| {
        episodes.iter().map(value).sum::<f64>() / count
    };
    let mut set = |name: &str, value: f64| record.set(format!("eval/{split}/{name}"), value);
    set("success", mean(&|e| f64::from(u8::from(e.trajectory.outcome.won))));
    set("reward", mean(&|e| e.trajectory.episode_return()));
    set("score", mean(&|e| e.trajectory.outcome.score));
    set("length", mean(&|e| e.trajectory.steps.len() as f64));
    set("games", episodes.len() as f64);
    let stats = &collection.stats;
    set("valid_action_ratio", 1.0 - stats.invalid_responses as f64 / stats.steps.max(1) as f64);
    let mut kinds: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for episode in episodes {
        let kind = kinds.entry(episode.trajectory.task.kind.as_str()).or_default();
        kind.0 += usize::from(episode.trajectory.outcome.won);
        kind.1 += 1;
    }
    let shares: Vec<f64> = kinds.values().map(|(won, all)| *won as f64 / *all as f64).collect();
    set("success_by_kind", shares.iter().sum::<f64>() / shares.len().max(1) as f64);
    for (kind, share) in kinds.keys().zip(shares) {
        set(&format!("success/{kind}"), share);
    }
    record
}
