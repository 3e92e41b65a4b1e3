//! Stage 1: the policy's own episodes, annotated in hindsight, teach it to write skills.
//!
//! Roll-outs of the base policy → annotation → filter → split → fine-tuning on the answers → parse-rate gate. What costs
//! most stays on disk under `sft/` and is taken up again by a resume: `rollouts.jsonl.zst`, `annotations.jsonl`.

pub mod fit;
pub mod records;
pub mod transcript;

use crate::config::{OverLong, SftSplit};
use crate::learner::Learner;
use crate::metrics::{JsonLines, Record};
use crate::observer::{Event, Observer};
use crate::rl::skills::{Analyst, SkillSourceError};
use crate::run_folder::{RunFolder, StorageError};
use crate::schedule::Schedule;
use crate::streams::{derive, shuffle, stream};
use crate::tasks::TaskOrder;
use crate::train::Setup;
use fit::{FitError, FitOptions, Lesson, fit, loss_of};
use records::{AnyAnnotator, annotate};
use seed_analyzer::annotator::openai::OpenaiError;
use seed_analyzer::annotator::run::RunError;
use seed_analyzer::records::{SkillRecord, SplitBy, skill_id, split};
use seed_envs::Trajectory;
use seed_model::ScoreError;
use seed_rollout::collect::{CollectError, CollectOptions, Collector, Episode};
use seed_rollout::dialogue::DialogueError;
use seed_rollout::engine::Engine;
use seed_rollout::record::{Header, Reader, RecordError, Writer};
use seed_rollout::row::Row;
use seed_rollout::sampler::{Purpose, Sampling, StreamKey};
use std::collections::HashMap;

/// Why stage 1 stops.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SftError {
    /// Collecting episodes failed.
    #[error(transparent)]
    Collect(Box<CollectError>),
    /// Recorded episodes cannot be written or read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Records cannot be written.
    #[error(transparent)]
    Records(#[from] seed_analyzer::records::RecordError),
    /// The annotator cannot be used.
    #[error(transparent)]
    Annotator(#[from] OpenaiError),
    /// Annotation failed.
    #[error(transparent)]
    Annotate(#[from] RunError),
    /// A prompt cannot be written.
    #[error(transparent)]
    Skills(#[from] SkillSourceError),
    /// An answer cannot be encoded.
    #[error(transparent)]
    Dialogue(#[from] DialogueError),
    /// Fine-tuning stopped.
    #[error(transparent)]
    Fit(#[from] FitError),
    /// A validation record cannot be scored.
    #[error(transparent)]
    Score(#[from] ScoreError),
    /// The run folder.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A record over the limit where that is an error.
    #[error(
        "record `{task}` has {tokens} tokens, `sft.max_tokens` is {limit}; raise it, or set `sft.over_long = \"skip\"`"
    )]
    OverLong {
        /// The task of the record.
        task: String,
        /// Its tokens.
        tokens: usize,
        /// The limit.
        limit: usize,
    },
    /// The analyzer does not write usable skills.
    #[error(
        "after stage 1 {:.0} % of {episodes} analyses can be used, `sft.min_parse_rate` is {:.0} %; train longer (`sft.epochs`, `sft.lr`, `sft.tasks`) or lower the gate; the weights are in {folder}", rate * 100.0, needed * 100.0
    )]
    ParseRate {
        /// The share.
        rate: f64,
        /// Analyses tried.
        episodes: usize,
        /// The share that is needed.
        needed: f64,
        /// Where the weights were saved.
        folder: String,
    },
}

impl From<CollectError> for SftError {
    fn from(error: CollectError) -> Self {
        Self::Collect(Box::new(error))
    }
}

/// Runs stage 1 and returns its summary.
///
/// # Errors
/// [`SftError`]; what is on disk is taken up by the next attempt.
pub fn run(
    setup: &Setup,
    folder: &RunFolder,
    learner: &mut Learner,
    engines: &mut [Engine],
    observer: &dyn Observer,
) -> Result<Record, SftError> {
    let config = &setup.config;
    let place = folder.path().join("sft");
    std::fs::create_dir_all(&place).map_err(|e| StorageError::write(&place, e))?;

    let episodes = episodes(setup, &place.join("rollouts.jsonl.zst"), engines, observer)?;
    let analyst = Analyst::new(&setup.world, config);
    let annotator = AnyAnnotator::new(&config.annotator, &analyst)?;
    let trajectories: Vec<&Trajectory> = episodes.iter().map(|episode| &episode.trajectory).collect();
    let threads = config.annotator.concurrency;
    let path = place.join("annotations.jsonl");
    let (records, rejected) =
        annotate(&annotator, &trajectories, config.sft.rollouts, threads, &path, observer)?;
    seed_analyzer::records::write(&place.join("records.jsonl"), &records)?;
    let by = match config.sft.split {
        SftSplit::Task => SplitBy::Task,
        SftSplit::Record => SplitBy::Record,
    };
    let (training, validation) =
        split(records, by, config.sft.validation_share, derive(config.run.seed, "sft split", &[]));
    let mut over_long = 0;
    let mut training = lessons(setup, &analyst, &training, &episodes, &mut over_long)?;
    let validation = lessons(setup, &analyst, &validation, &episodes, &mut over_long)?;

    let mut summary = Record::new();
    summary.set("sft/records", training.len() as f64);
    rehearse(&mut training, &episodes, setup)?;
    summary.set("sft/rejected", rejected as f64);
    summary.set("sft/over_long", over_long as f64);
    summary.set("sft/parse_rate_before", parse_rate(setup, &analyst, engines, &episodes, observer)?);

    let steps = FitOptions::steps(training.len(), config.sft.batch, config.sft.epochs);
    let options = FitOptions {
        epochs: config.sft.epochs,
        batch: config.sft.batch,
        micro_tokens: config.batch.micro_tokens,
        schedule: Schedule::new(config.sft.schedule, config.sft.lr, config.sft.warmup_share, steps),
        max_grad_norm: config.sft.max_grad_norm,
        seed: config.run.seed,
    };
    learner.reset_optimizer((&config.sft).into());
    let mut metrics = JsonLines::open(&place.join("metrics.jsonl"), Some(0))?;
    let mut written = Ok(());
    observer.event(Event::Started { what: "stage 1", total: Some(steps as u64) });
    let fitted = fit(learner, &setup.mesh, &training, &options, |step, _, record| {
        observer.event(Event::Advanced(1));
        if written.is_ok() {
            written = metrics.write(step as u64, &record);
        }
        if let Some(loss) = record.get("sft/loss") {
            summary.set("sft/loss", loss);
        }
    });
    observer.event(Event::Finished);
    fitted?;
    written?;
    summary
        .set("sft/validation_loss", loss_of(learner, &setup.mesh, &validation, config.batch.micro_tokens)?);

    let snapshot = learner.snapshot();
    setup.mesh.refresh(engines, &snapshot);
    let rate = parse_rate(setup, &analyst, engines, &episodes, observer)?;
    summary.set("sft/parse_rate", rate);
    if rate < config.sft.min_parse_rate {
        let to = place.join("rejected");
        let options = seed_model::checkpoint::SaveOptions::default();
        seed_model::checkpoint::save(&snapshot, &to, &options)
            .map_err(|error| StorageError::write(&to, std::io::Error::other(error)))?;
        return Err(SftError::ParseRate {
            rate,
            episodes: config.sft.gate_episodes.min(episodes.len()),
            needed: config.sft.min_parse_rate,
            folder: to.display().to_string(),
        });
    }
    Ok(summary)
}

/// The episodes of stage 1: recorded ones where they are whole, else new ones.
fn episodes(
    setup: &Setup,
    path: &std::path::Path,
    engines: &mut [Engine],
    observer: &dyn Observer,
) -> Result<Vec<Episode>, SftError> {
    let config = &setup.config;
    if path.is_file() {
        return Ok(Reader::open(path)?.collect::<Result<_, _>>()?);
    }
    let options = CollectOptions {
        group_size: config.sft.rollouts,
        sampling: Sampling { temperature: config.sft.temperature, ..Sampling::default() },
        training: false,
        // A purpose of stage 2 with an update that it never reaches: streams of their own.
        update: u64::MAX,
        ..setup.world.collect_options(config)
    };
    let tasks = TaskOrder::new(&setup.tasks, config.run.seed, "sft tasks");
    let plan = tasks.groups(0, 0, config.sft.tasks.min(setup.tasks.len()));
    observer
        .event(Event::Started { what: "roll-out", total: Some((plan.len() * options.group_size) as u64) });
    let collector = Collector {
        suite: setup.world.suite.as_ref(),
        dialogue: &setup.world.dialogue,
        projection: setup.world.projection,
        options: &options,
    };
    let collected = collector.collect(engines, &plan, &|_| observer.event(Event::Advanced(1)));
    observer.event(Event::Finished);
    let collected = collected?;
    let vocabulary = setup.world.dialogue.tokenizer.vocab_size();
    let (name, seed) = (setup.world.suite.name(), config.run.seed);
    let header = Header::new(name, options.layout, options.sampling, vocabulary, seed, 0);
    let mut writer = Writer::create(path, &header)?;
    collected.episodes.iter().try_for_each(|episode| writer.write(episode))?;
    writer.finish()?;
    Ok(collected.episodes)
}

/// Adds rows of the policy's own episodes, drawn without replacement in a seeded order.
fn rehearse(lessons: &mut Vec<Lesson>, episodes: &[Episode], setup: &Setup) -> Result<(), DialogueError> {
    let config = &setup.config;
    let rows = episodes.iter().flat_map(|episode| episode.rows.iter().map(move |row| (episode, row)));
    let mut rows: Vec<(&Episode, &Row)> = rows.collect();
    shuffle(&mut rows, &mut stream(config.run.seed, "sft rehearsal", &[]));
    let count = (config.sft.rehearsal * lessons.len() as f64).round() as usize;
    for (episode, row) in rows.into_iter().take(count) {
        lessons.push(Lesson {
            prompt: row.prompt_ids.clone(),
            response: row.response_ids.clone(),
            mask: row.response_mask.clone(),
            pictures: episode.pictures(row, setup.world.dialogue.eyes.as_ref())?,
        });
    }
    Ok(())
}

/// Records as rows: the analysis prompt as context, the answer with its end token to be learnt.
fn lessons(
    setup: &Setup,
    analyst: &Analyst,
    records: &[SkillRecord],
    episodes: &[Episode],
    over_long: &mut usize,
) -> Result<Vec<Lesson>, SftError> {
    let config = &setup.config;
    let rollouts = config.sft.rollouts;
    let id = |(place, episode): (usize, &Episode)| skill_id(&episode.trajectory, place % rollouts);
    let by_id: HashMap<String, &Episode> =
        episodes.iter().enumerate().map(|(place, episode)| (id((place, episode)), episode)).collect();
    let mut lessons = Vec::with_capacity(records.len());
    for record in records {
        let episode = by_id.get(&record.skill_id).expect("records are made from these episodes");
        let Episode { trajectory, frames, .. } = episode;
        let prompt = analyst.encode(&setup.world, &record.prompt, trajectory, frames)?;
        let lesson = Lesson::new(prompt, transcript::response(&setup.world.dialogue, &record.response)?);
        let tokens = lesson.row().tokens();
        match config.sft.over_long {
            _ if tokens <= config.sft.max_tokens => lessons.push(lesson),
            OverLong::Skip => *over_long += 1,
            OverLong::Error => {
                return Err(SftError::OverLong {
                    task: record.task_id.clone(),
                    tokens,
                    limit: config.sft.max_tokens,
                });
            }
        }
    }
    Ok(lessons)
}

/// Share of usable analyses of some episodes under the engines' weights.
fn parse_rate(
    setup: &Setup,
    analyst: &Analyst,
    engines: &mut [Engine],
    episodes: &[Episode],
    observer: &dyn Observer,
) -> Result<f64, SftError> {
    let count = setup.config.sft.gate_episodes.min(episodes.len()).max(1);
    // Evenly spaced, so that every kind of task takes part.
    let chosen: Vec<&Episode> = (0..count).filter_map(|i| episodes.get(i * episodes.len() / count)).collect();
    let stream = StreamKey::new(setup.config.run.seed, Purpose::Analysis);
    observer.event(Event::Started { what: "analysis", total: Some(chosen.len() as u64) });
    let progress = |_| observer.event(Event::Advanced(1));
    let analyses = analyst.analyse(&setup.world, engines, &chosen, |_| true, stream, &progress);
    observer.event(Event::Finished);
    let analyses = analyses?;
    Ok(analyses.iter().filter(|a| a.skill.is_some()).count() as f64 / analyses.len().max(1) as f64)
}
