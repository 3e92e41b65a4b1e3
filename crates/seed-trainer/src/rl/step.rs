//! One update of stage 2, in the order of the specification.

use super::advantage::{AdvantageOptions, assign};
use super::lift::lift;
use super::objective::{objective, opd_factor};
use super::recorded::{Recorded, RecordedError};
use super::sample::Sample;
use super::scoring::{SampledRow, score_rows};
use super::skills::{Analysis, SkillSourceError, Skills, skill_numbers};
use super::update::{UpdateError, UpdateOptions, update};
use crate::config::{Adjust, Config, Estimator, OpdTokens, SkillSource, TeacherRefresh, Truncation};
use crate::learner::Learner;
use crate::mesh::Mesh;
use crate::metrics::Record;
use crate::observer::{Event, Observer};
use crate::streams::{below, shuffle, stream};
use crate::tasks::TaskOrder;
use crate::world::World;
use seed_core::InputError;
use seed_model::{CausalLm, ScoreError};
use seed_rollout::collect::{CollectError, Collection, Collector, Episode};
use seed_rollout::dialogue::DialogueError;
use seed_rollout::row::{Row, TokenSignals};
use seed_rollout::source::TokenSource;
use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

/// Why an update cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// Collecting episodes failed.
    #[error(transparent)]
    Collect(Box<CollectError>),
    /// Recorded episodes cannot be used.
    #[error(transparent)]
    Recorded(#[from] RecordedError),
    /// Writing skills failed.
    #[error(transparent)]
    Skills(#[from] SkillSourceError),
    /// A teacher's prompt cannot be written.
    #[error(transparent)]
    Dialogue(#[from] DialogueError),
    /// A row cannot be scored.
    #[error(transparent)]
    Score(#[from] ScoreError),
    /// Advantages cannot be computed.
    #[error(transparent)]
    Advantage(#[from] InputError),
    /// The optimiser steps stopped.
    #[error(transparent)]
    Update(#[from] UpdateError),
    /// Prompts over the budget where that is an error.
    #[error("{prompts} prompts are over `rollout.max_prompt_tokens`; raise it, or set `rollout.truncation`")]
    Truncated {
        /// How many.
        prompts: usize,
    },
    /// `batch.adjust = "copy"` needs more rows than there are.
    #[error(
        "{needed} rows are to be copied, there are {rows}; lower `batch.mini_rows` or set `batch.adjust = \"pad\"`"
    )]
    Copy {
        /// Rows that are missing to a whole mini-batch.
        needed: usize,
        /// Rows of the update.
        rows: usize,
    },
}

impl From<CollectError> for StepError {
    fn from(error: CollectError) -> Self {
        Self::Collect(Box::new(error))
    }
}

/// What stands still during an update.
pub struct StepContext<'a> {
    /// Environment, prompts, tokens.
    pub world: &'a World,
    /// The whole configuration.
    pub config: &'a Config,
    /// The workers.
    pub mesh: &'a Mesh,
    /// The tasks of training.
    pub tasks: &'a TaskOrder<'a>,
    /// The model that stage 2 started from.
    pub reference: &'a CausalLm,
    /// The teacher's weights where they are neither the snapshot's nor the reference's.
    pub ema: Option<&'a CausalLm>,
    /// Episodes to train on; `None` to play.
    pub recorded: Option<&'a Recorded>,
    /// Measure what the skills of this update are worth.
    pub measure_lift: bool,
    /// Who watches.
    pub observer: &'a dyn Observer,
}

/// What an update leaves behind for the run folder.
pub struct StepOutcome {
    /// Its numbers.
    pub record: Record,
    /// Its episodes; rows carry the teacher's signals.
    pub episodes: Vec<Episode>,
    /// What the analyzer wrote, one entry an episode.
    pub analyses: Vec<Analysis>,
    /// The rows with everything that the loss saw.
    pub samples: Vec<Sample>,
}

/// An update that could not be made, and the rows it had.
#[derive(Debug)]
pub struct Stopped {
    /// Why.
    pub error: StepError,
    /// The rows as far as they were prepared, for a dump.
    pub samples: Vec<Sample>,
}

/// Update number `completed` (from 0).
///
/// `sources` sample with `snapshot`, the weights before the update; both are the actor of this update.
///
/// # Errors
/// [`Stopped`] with its [`StepError`].
pub fn step<S: TokenSource>(
    context: &StepContext<'_>,
    learner: &mut Learner,
    sources: &mut [S],
    skills: &mut Skills,
    completed: u64,
) -> Result<StepOutcome, Box<Stopped>> {
    let mut samples = vec![];
    let stepping = Stepping { context, completed };
    match stepping.run(learner, sources, skills, &mut samples) {
        Ok((record, episodes, analyses)) => Ok(StepOutcome { record, episodes, analyses, samples }),
        Err(error) => Err(Box::new(Stopped { error, samples })),
    }
}

struct Stepping<'a> {
    context: &'a StepContext<'a>,
    completed: u64,
}

impl Stepping<'_> {
    fn run<S: TokenSource>(
        &self,
        learner: &mut Learner,
        sources: &mut [S],
        skills: &mut Skills,
        samples: &mut Vec<Sample>,
    ) -> Result<(Record, Vec<Episode>, Vec<Analysis>), StepError> {
        let StepContext { config, mesh, observer, .. } = *self.context;
        let mut record = Record::new();
        let started = Instant::now();

        let mut collection = timed(&mut record, "time/rollout", || match self.context.recorded {
            Some(recorded) => Ok(recorded.collection(self.completed, config, self.context.world)?),
            None => self.collect(sources),
        })?;
        rollout_numbers(&mut record, &collection);
        let snapshot = learner.snapshot();

        let needs_teacher = (config.opd.coef > 0.0 && opd_factor(config, self.completed) > 0.0)
            || matches!(config.adv.estimator, Estimator::Rlsd | Estimator::Opid);
        let wants_skills = needs_teacher && config.opd.skills != SkillSource::None;
        let analyses = if wants_skills {
            timed(&mut record, "time/analysis", || {
                skills.write(self.context, sources, &collection.episodes, self.completed)
            })?
        } else {
            vec![]
        };
        if wants_skills {
            skill_numbers(&mut record, &analyses, &collection.episodes);
        }

        let eyes = self.context.world.dialogue.eyes.as_ref();
        samples.clear();
        for episode in &collection.episodes {
            for row in &episode.rows {
                let pictures = episode.pictures(row, eyes).map_err(DialogueError::from)?;
                samples.push(Sample::new(row.clone(), pictures));
            }
        }
        if wants_skills {
            self.teacher_prompts(samples, &collection.episodes, &analyses, &mut record)?;
        }
        self.adjust(samples)?;
        self.distilled(samples)?;

        timed(&mut record, "time/old_logprob", || self.old(samples, &snapshot))?;
        engine_gap(&mut record, samples);
        if config.loss.kl_coef > 0.0 {
            timed(&mut record, "time/reference", || self.reference(samples))?;
        }
        if wants_skills {
            timed(&mut record, "time/teacher", || self.teacher(samples, &snapshot))?;
            if self.context.measure_lift {
                record.merge(lift(self.context, &snapshot, &collection.episodes, &analyses, samples)?);
            }
        }

        let anchors = self.anchors(samples, &collection.episodes);
        let options = AdvantageOptions {
            config: &config.adv,
            invalid_penalty: config.rollout.invalid_penalty,
            completed: self.completed,
            anchors: &anchors,
        };
        record.merge(assign(samples, options)?);

        let total = samples.len() * config.batch.epochs;
        observer.event(Event::Started { what: "update", total: Some(total as u64) });
        let options = self.update_options();
        let numbers = timed(&mut record, "time/update", || {
            update(learner, mesh, samples, &options, |rows| observer.event(Event::Advanced(rows as u64)))
        });
        observer.event(Event::Finished);
        record.merge(numbers?);

        self.signals(&mut collection.episodes, samples);
        let seconds = started.elapsed().as_secs_f64();
        record.set("time/step", seconds);
        record.set("perf/tokens_per_second", record.get("rollout/tokens").unwrap_or(0.0) / seconds);
        Ok((record, collection.episodes, analyses))
    }

    fn update_options(&self) -> UpdateOptions {
        let config = self.context.config;
        let schedule = crate::schedule::Schedule::new(
            config.optim.schedule,
            config.optim.lr,
            config.optim.warmup_share,
            config.train.updates,
        );
        UpdateOptions {
            objective: objective(config, self.completed),
            mini_rows: config.batch.mini_rows,
            micro_tokens: config.batch.micro_tokens,
            epochs: config.batch.epochs,
            temperature: config.rollout.temperature,
            lr: schedule.at(self.completed as usize),
            max_grad_norm: config.optim.max_grad_norm,
            refresh_teacher: config.opd.teacher_refresh == TeacherRefresh::PerMinibatch,
        }
    }

    /// Plays the groups of this update; with `filter_groups`, again in place of groups without spread.
    fn collect<S: TokenSource>(&self, sources: &mut [S]) -> Result<Collection, StepError> {
        let StepContext { world, config, tasks, observer, .. } = *self.context;
        let wanted = config.rollout.tasks;
        let tries = if config.rollout.filter_groups { config.rollout.filter_tries.max(1) } else { 1 };
        let mut kept = Collection::default();
        for attempt in 0..tries as u64 {
            let missing = wanted - kept.episodes.len() / config.rollout.group;
            let mut plan = tasks.groups(self.completed, attempt, wanted);
            plan.truncate(missing);
            let mut options = world.collect_options(config);
            options.update = self.completed + (attempt << 32);
            let collector = Collector {
                suite: world.suite.as_ref(),
                dialogue: &world.dialogue,
                projection: world.projection,
                options: &options,
            };
            let total = (plan.len() * options.group_size) as u64;
            observer.event(Event::Started { what: "roll-out", total: Some(total) });
            let collected = collector.collect(sources, &plan, &|_| observer.event(Event::Advanced(1)));
            observer.event(Event::Finished);
            let collected = collected?;
            if config.rollout.truncation == Truncation::Error && collected.stats.history_dropped > 0 {
                return Err(StepError::Truncated { prompts: collected.stats.history_dropped });
            }
            let last = attempt + 1 == tries as u64;
            append(&mut kept, collected, config.rollout.group, !last && config.rollout.filter_groups);
            if kept.episodes.len() >= wanted * config.rollout.group {
                break;
            }
        }
        Ok(kept)
    }

    /// Writes the prompt with the skill for every row of an episode that has one.
    fn teacher_prompts(
        &self,
        samples: &mut [Sample],
        episodes: &[Episode],
        analyses: &[Analysis],
        record: &mut Record,
    ) -> Result<(), StepError> {
        let StepContext { world, config, .. } = *self.context;
        let mut overflow = 0;
        let mut next = samples.iter_mut();
        for (episode, analysis) in episodes.iter().zip(analyses) {
            for _ in &episode.rows {
                let sample = next.next().expect("a sample for each row");
                let Some(block) = &analysis.block else { continue };
                sample.teach(world.teacher_prompt(config, episode, sample.row.step, block)?);
                overflow += usize::from(sample.teacher_prompt.is_none());
            }
        }
        record.set("skill/overflow", overflow as f64);
        Ok(())
    }

    /// Makes the number of rows a whole number of mini-batches, where the configuration asks for it.
    fn adjust(&self, samples: &mut Vec<Sample>) -> Result<(), StepError> {
        let batch = &self.context.config.batch;
        if batch.mini_rows == 0 || samples.len().is_multiple_of(batch.mini_rows) {
            return Ok(());
        }
        let rows = samples.len();
        let mut rng = stream(self.context.config.run.seed, "adjust", &[self.completed]);
        match batch.adjust {
            // Mini-batches are ragged: what the reference fills with rows of weight zero is simply not there.
            Adjust::Pad => {}
            Adjust::Copy => {
                let needed = batch.mini_rows - rows % batch.mini_rows;
                if needed > rows {
                    return Err(StepError::Copy { needed, rows });
                }
                let mut order: Vec<usize> = (0..rows).collect();
                shuffle(&mut order, &mut rng);
                let copies: Vec<Sample> = order[..needed].iter().map(|row| samples[*row].clone()).collect();
                samples.extend(copies);
            }
            Adjust::Delete => {
                for _ in 0..rows % batch.mini_rows {
                    samples.remove(below(&mut rng, samples.len() as u64) as usize);
                }
            }
        }
        Ok(())
    }

    /// Marks the tokens that `opd.tokens` leaves to the distillation.
    fn distilled(&self, samples: &mut [Sample]) -> Result<(), StepError> {
        let StepContext { world, config, .. } = *self.context;
        if config.opd.tokens == OpdTokens::All {
            return Ok(());
        }
        let want_action = config.opd.tokens == OpdTokens::Action;
        for sample in samples {
            let mut marks = vec![];
            for turn in &sample.row.turns {
                let inside = world.action_tokens(&sample.row.response_ids[turn.tokens()])?;
                marks.extend(inside.into_iter().map(|inside| inside == want_action));
            }
            sample.distilled = marks;
        }
        Ok(())
    }

    fn score(
        &self,
        model: &CausalLm,
        rows: &[SampledRow<'_>],
    ) -> Result<impl Iterator<Item = Vec<f32>> + use<>, ScoreError> {
        let StepContext { config, mesh, .. } = *self.context;
        let tokens = config.batch.micro_tokens;
        let scores = score_rows(mesh, model, rows, tokens, config.rollout.temperature, false)?;
        Ok(scores.into_iter().map(|scores| scores.logp))
    }

    fn old(&self, samples: &mut [Sample], snapshot: &CausalLm) -> Result<(), ScoreError> {
        if self.context.recorded.is_some() {
            samples.iter_mut().for_each(|sample| sample.old_logp = sample.engine_logp().collect());
            return Ok(());
        }
        let rows: Vec<SampledRow<'_>> = samples.iter().map(Sample::student).collect();
        let scores = self.score(snapshot, &rows)?;
        samples.iter_mut().zip(scores).for_each(|(sample, logp)| sample.old_logp = logp);
        Ok(())
    }

    fn reference(&self, samples: &mut [Sample]) -> Result<(), ScoreError> {
        let rows: Vec<SampledRow<'_>> = samples.iter().map(Sample::student).collect();
        let scores = self.score(self.context.reference, &rows)?;
        samples.iter_mut().zip(scores).for_each(|(sample, logp)| sample.reference_logp = logp);
        Ok(())
    }

    fn teacher(&self, samples: &mut [Sample], snapshot: &CausalLm) -> Result<(), ScoreError> {
        use crate::config::TeacherWeights;
        let model = match self.context.config.opd.teacher_weights {
            TeacherWeights::CurrentSnapshot => snapshot,
            TeacherWeights::Reference => self.context.reference,
            TeacherWeights::Ema => self.context.ema.unwrap_or(snapshot),
        };
        let rows: Vec<SampledRow<'_>> = samples.iter().filter_map(Sample::teacher).collect();
        let scores = self.score(model, &rows)?;
        let with_teacher = samples.iter_mut().filter(|sample| sample.teacher_prompt.is_some());
        with_teacher.zip(scores).for_each(|(sample, logp)| sample.teacher_logp = logp);
        Ok(())
    }

    /// The raw observation that each row's first action answered.
    fn anchors(&self, samples: &[Sample], episodes: &[Episode]) -> Vec<String> {
        if self.context.config.adv.estimator != Estimator::Gigpo {
            return vec![];
        }
        let group = self.context.config.rollout.group;
        let by_number: HashMap<usize, &Episode> =
            episodes.iter().map(|episode| (episode.group * group + episode.episode, episode)).collect();
        let anchor = |row: &Row| by_number[&row.trajectory].trajectory.steps[row.step].observation.clone();
        samples.iter().map(|sample| anchor(&sample.row)).collect()
    }

    /// Writes teacher, gap and gate into the rows that go to disk.
    fn signals(&self, episodes: &mut [Episode], samples: &[Sample]) {
        let beta = self.context.config.opd.beta as f32;
        let with_teacher = samples.iter().filter(|sample| !sample.teacher_logp.is_empty());
        let by_place: HashMap<(usize, usize), &Sample> =
            with_teacher.map(|sample| ((sample.row.trajectory, sample.row.step), sample)).collect();
        for row in episodes.iter_mut().flat_map(|episode| episode.rows.iter_mut()) {
            let Some(sample) = by_place.get(&(row.trajectory, row.step)) else { continue };
            let gap: Vec<f32> =
                sample.teacher_logp.iter().zip(&sample.old_logp).map(|(t, s)| t - s).collect();
            let gate: Vec<f32> = gap.iter().map(|gap| 1.0 / (1.0 + (-beta * gap).exp())).collect();
            row.signals = Some(TokenSignals {
                teacher_logp: sample.spread(&sample.teacher_logp, 0.0),
                gap: sample.spread(&gap, 0.0),
                gate: sample.spread(&gate, 0.0),
            });
        }
    }
}

/// Appends whole groups, without those that have no spread where that is asked for; numbers them anew.
fn append(kept: &mut Collection, more: Collection, group_size: usize, drop_tied: bool) {
    let stats = more.stats;
    let offset = kept.episodes.len() / group_size;
    let mut place = 0;
    let mut episodes = more.episodes.into_iter().peekable();
    while episodes.peek().is_some() {
        let group: Vec<Episode> = episodes.by_ref().take(group_size).collect();
        let first = group[0].trajectory.episode_return();
        if drop_tied && group.iter().all(|episode| episode.trajectory.episode_return() == first) {
            continue;
        }
        let number = offset + place;
        place += 1;
        kept.episodes.extend(group.into_iter().map(|mut episode| {
            episode.group = number;
            for row in &mut episode.rows {
                row.group = number;
                row.trajectory = number * group_size + episode.episode;
            }
            episode
        }));
    }
    let sum = &mut kept.stats;
    sum.episodes += stats.episodes;
    sum.won += stats.won;
    sum.rows += stats.rows;
    sum.steps += stats.steps;
    sum.sampled_tokens += stats.sampled_tokens;
    sum.context_tokens += stats.context_tokens;
    sum.invalid_responses += stats.invalid_responses;
    sum.cut_by_length += stats.cut_by_length;
    sum.cut_by_context += stats.cut_by_context;
    sum.history_dropped += stats.history_dropped;
    sum.prompts_cut += stats.prompts_cut;
}

fn timed<T>(record: &mut Record, name: &str, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let value = work();
    record.set(name, started.elapsed().as_secs_f64());
    value
}

fn rollout_numbers(record: &mut Record, collection: &Collection) {
    let (stats, episodes) = (&collection.stats, &collection.episodes);
    let count = episodes.len().max(1) as f64;
    let steps = stats.steps.max(1) as f64;
    let mean = |value: &dyn Fn(&Episode) -> f64| episodes.iter().map(value).sum::<f64>() / count;
    record.set("episode/success", mean(&|e| f64::from(u8::from(e.trajectory.outcome.won))));
    record.set("episode/reward", mean(&|e| e.trajectory.episode_return()));
    record.set("episode/length", mean(&|e| e.trajectory.steps.len() as f64));
    record.set("episode/truncated_ratio", mean(&|e| f64::from(u8::from(e.trajectory.outcome.truncated))));
    record.set("episode/valid_action_ratio", 1.0 - stats.invalid_responses as f64 / steps);
    record.set("rollout/rows", stats.rows as f64);
    record.set("rollout/tokens", (stats.sampled_tokens + stats.context_tokens) as f64);
    record.set("rollout/response_tokens", stats.sampled_tokens as f64);
    record.set("rollout/response_length", stats.sampled_tokens as f64 / stats.rows.max(1) as f64);
    record.set("rollout/response_cut_ratio", (stats.cut_by_length + stats.cut_by_context) as f64 / steps);
    record.set("rollout/prompt_cut", (stats.prompts_cut + stats.history_dropped) as f64);
    if stats.dead_end_known > 0 {
        record.set("episode/dead_end_ratio", stats.dead_ends as f64 / stats.dead_end_known as f64);
    }
    let seconds = record.get("time/rollout").unwrap_or(0.0).max(1e-9);
    record.set("perf/decode_tokens_per_second", stats.sampled_tokens as f64 / seconds);
    let mut kinds: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for episode in episodes {
        let kind = kinds.entry(&episode.trajectory.task.kind).or_default();
        kind.0 += f64::from(u8::from(episode.trajectory.outcome.won));
        kind.1 += 1.0;
    }
    for (kind, (won, all)) in kinds {
        record.set(format!("episode/success/{kind}"), won / all);
    }
}

fn engine_gap(record: &mut Record, samples: &[Sample]) {
    let gaps =
        samples.iter().flat_map(|s| s.engine_logp().zip(&s.old_logp).map(|(e, t)| f64::from((e - t).abs())));
    let (mut sum, mut max, mut count) = (0.0, 0.0f64, 0usize);
    for gap in gaps {
        sum += gap;
        max = max.max(gap);
        count += 1;
    }
    record.set("rollout/logprob_diff_max", max);
    record.set("rollout/logprob_diff_mean", sum / count.max(1) as f64);
}
