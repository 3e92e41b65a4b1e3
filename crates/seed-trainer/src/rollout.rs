//! Roll-outs without training: episodes of a model go to a file.

use crate::observer::{Event, Observer};
use crate::tasks::TaskOrder;
use crate::train::{Setup, TrainError};
use seed_rollout::collect::{CollectStats, Collector};
use seed_rollout::record::{Header, Writer};
use std::path::Path;

/// Plays the groups that training would play in update `update` and records them.
///
/// # Errors
/// [`TrainError`] when collecting or writing fails.
pub fn record(
    setup: &Setup,
    update: u64,
    tasks: usize,
    to: &Path,
    observer: &dyn Observer,
) -> Result<CollectStats, TrainError> {
    let config = &setup.config;
    let options = setup.world.collect_options(config);
    let plan = TaskOrder::new(&setup.tasks, config.run.seed, "tasks").groups(update, 0, tasks);
    observer
        .event(Event::Started { what: "roll-out", total: Some((plan.len() * options.group_size) as u64) });
    let collector = Collector {
        suite: setup.world.suite.as_ref(),
        dialogue: &setup.world.dialogue,
        projection: setup.world.projection,
        options: &options,
    };
    let mut engines = setup.engines(&setup.snapshot());
    let collected = collector.collect(&mut engines, &plan, &|_| observer.event(Event::Advanced(1)));
    observer.event(Event::Finished);
    let collected = collected?;
    let vocabulary = setup.world.dialogue.tokenizer.vocab_size();
    let name = setup.world.suite.name();
    let header = Header::new(name, options.layout, options.sampling, vocabulary, config.run.seed, update);
    let mut writer = Writer::create(to, &header)?;
    collected.episodes.iter().try_for_each(|episode| writer.write(episode))?;
    writer.finish()?;
    Ok(collected.stats)
}
