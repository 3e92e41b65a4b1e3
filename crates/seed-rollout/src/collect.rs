//! Grouped multi-turn collection: tasks go in, finished episodes with their token rows come out.
//!
//! While the token source works on the responses of some episodes, a pool of threads steps the environments of
//! others, reads their actions and writes their next prompts. Every random draw has its own named stream and every
//! result is sorted by place, so the episodes are the same whatever the threads do.

use crate::dialogue::{Dialogue, DialogueError, PromptOverflow};
pub use crate::episode::{Ending, Episode};
use crate::episode::{Next, Running, Stage};
use crate::row::{Finish, Layout, Row};
use crate::sampler::{Purpose, Sampling, SamplingError, StreamKey};
use crate::source::{Completion, Context, Request, SessionId, SourceError, SourceStats, TokenSource};
use seed_envs::projection::Projection;
use seed_envs::{EnvError, Suite, Task};
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// One group: a task that several episodes play, and the seed of its environments.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupPlan {
    /// What is to be done.
    pub task: Task,
    /// The environment's seed; equal for all episodes of the group.
    pub seed: u64,
}

/// How episodes are collected.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectOptions {
    /// How episodes become rows.
    pub layout: Layout,
    /// Episodes of each group.
    pub group_size: usize,
    /// How tokens are picked.
    pub sampling: Sampling,
    /// The rows will train a policy: filtered and greedy sampling are refused.
    pub training: bool,
    /// Environment steps of an episode; the environment's own limit may be lower.
    pub max_steps: usize,
    /// Tokens of a prompt; in the transcript layout, of the first prompt.
    pub max_prompt_tokens: usize,
    /// Tokens of one response.
    pub max_response_tokens: usize,
    /// Tokens of a whole row in the transcript layout; the step layout does not look at it.
    pub max_row_tokens: usize,
    /// What happens to prompts that are too long.
    pub prompt_overflow: PromptOverflow,
    /// Threads that step environments, for each token source.
    pub environment_threads: usize,
    /// The run's seed.
    pub run_seed: u64,
    /// What the random draws are for.
    pub purpose: Purpose,
    /// The trainer's update; part of every random stream.
    pub update: u64,
}

impl Default for CollectOptions {
    /// Step rows as the paper samples them: groups of 8, 30 steps, prompts of 2048 and responses of 512 tokens.
    fn default() -> Self {
        Self {
            layout: Layout::Step,
            group_size: 8,
            sampling: Sampling::default(),
            training: true,
            max_steps: 30,
            max_prompt_tokens: 2048,
            max_response_tokens: 512,
            max_row_tokens: 8192,
            prompt_overflow: PromptOverflow::default(),
            environment_threads: 1,
            run_seed: 0,
            purpose: Purpose::Rollout,
            update: 0,
        }
    }
}

/// How far a collection is; handed to the progress callback after each finished episode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Finished episodes.
    pub episodes: usize,
    /// Episodes in all.
    pub total: usize,
    /// Environment steps of the finished episodes.
    pub steps: usize,
    /// Sampled tokens of the finished episodes.
    pub tokens: usize,
    /// Finished episodes that reached their goal.
    pub won: usize,
}

/// What a collection was like. Everything but the two times is the same in every run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CollectStats {
    /// Episodes.
    pub episodes: usize,
    /// Episodes that reached their goal.
    pub won: usize,
    /// Token rows.
    pub rows: usize,
    /// Environment steps, each with one response.
    pub steps: usize,
    /// Sampled tokens.
    pub sampled_tokens: usize,
    /// Prompt tokens and masked tokens of all rows.
    pub context_tokens: usize,
    /// Responses without the required form.
    pub invalid_responses: usize,
    /// Responses cut by the limit of a response.
    pub cut_by_length: usize,
    /// Responses cut since the row was full.
    pub cut_by_context: usize,
    /// Prompts from which history was dropped.
    pub history_dropped: usize,
    /// Prompts cut from the left (only where allowed).
    pub prompts_cut: usize,
    /// Episodes that ended by their step limit.
    pub ended_by_steps: usize,
    /// Episodes that ended since no further prompt fitted.
    pub ended_by_tokens: usize,
    /// Episodes whose environment can tell whether the goal was still within reach at the end.
    pub dead_end_known: usize,
    /// Those of them whose goal was out of reach.
    pub dead_ends: usize,
    /// What the token sources did in this collection.
    pub source: SourceStats,
    /// Wall clock of the whole collection.
    pub elapsed: Duration,
    /// Wall clock inside the token sources, summed over them.
    pub generating: Duration,
}

impl CollectStats {
    /// Of finished episodes, wherever they come from; without times.
    pub fn of<'a>(episodes: impl IntoIterator<Item = &'a Episode>) -> Self {
        let mut stats = Self::default();
        episodes.into_iter().for_each(|episode| stats.add(episode));
        stats
    }

    fn add(&mut self, episode: &Episode) {
        self.episodes += 1;
        self.won += usize::from(episode.trajectory.outcome.won);
        self.rows += episode.rows.len();
        self.steps += episode.trajectory.steps.len();
        self.history_dropped += episode.history_dropped;
        self.ended_by_steps += usize::from(episode.ending == Ending::StepLimit);
        self.ended_by_tokens += usize::from(episode.ending == Ending::TokenBudget);
        self.dead_end_known += usize::from(episode.dead_end.is_some());
        self.dead_ends += usize::from(episode.dead_end == Some(true));
        for row in &episode.rows {
            let sampled = row.sampled();
            self.sampled_tokens += sampled;
            self.context_tokens += row.len() - sampled;
            self.invalid_responses += row.invalid_turns();
            self.prompts_cut += usize::from(row.prompt_cut > 0);
            let cut = |finish| row.turns.iter().filter(|turn| turn.finish == finish).count();
            self.cut_by_length += cut(Finish::Length);
            self.cut_by_context += cut(Finish::Context);
        }
    }
}

/// Finished episodes in order of group and place.
#[derive(Debug, Clone, Default)]
pub struct Collection {
    /// The episodes, sorted by group, then by place in the group.
    pub episodes: Vec<Episode>,
    /// What it was like.
    pub stats: CollectStats,
}

impl Collection {
    /// All rows in order of episode and time.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.episodes.iter().flat_map(|episode| &episode.rows)
    }

    /// All rows in order of episode and time, without a copy.
    pub fn into_rows(self) -> Vec<Row> {
        self.episodes.into_iter().flat_map(|episode| episode.rows).collect()
    }
}

/// Plays groups of episodes.
#[derive(Clone, Copy)]
pub struct Collector<'a> {
    /// Tasks and environments.
    pub suite: &'a dyn Suite,
    /// How text becomes tokens and back.
    pub dialogue: &'a Dialogue,
    /// How a response becomes an action.
    pub projection: Projection,
    /// Limits, sampling, seeds.
    pub options: &'a CollectOptions,
}

impl Collector<'_> {
    /// Plays `group_size` episodes of every group of `plan`, spread over `sources` (one for each worker or device).
    ///
    /// The episodes depend on the options, the plan and the policy, not on the number of sources, their capacity
    /// or the number of threads. `progress` is called after each episode, from any thread.
    ///
    /// # Errors
    /// The first [`CollectError`] that came up; work under way is dropped. A failing environment is an error and is
    /// not tried again.
    pub fn collect<S: TokenSource>(
        &self,
        sources: &mut [S],
        plan: &[GroupPlan],
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Collection, CollectError> {
        let started = Instant::now();
        let max_context = self.check(sources)?;
        let (suite, dialogue, projection, options) =
            (self.suite, self.dialogue, self.projection, self.options);
        let stage = Stage { suite, dialogue, projection, options, plan, max_context };
        let total = plan.len() * options.group_size;
        let hall = Hall {
            stage,
            fair_share: total.div_ceil(sources.len()),
            next_group: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            progress,
            so_far: Mutex::new(Progress { total, ..Progress::default() }),
        };
        let results: Vec<Result<Served, CollectError>> = thread::scope(|scope| {
            let workers: Vec<_> =
                sources.iter_mut().map(|source| scope.spawn(|| hall.serve(source))).collect();
            workers
                .into_iter()
                .map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)))
                .collect()
        });

        // what stopped one worker stops the others; the cause is the error to report
        if let Some(cause) =
            results.iter().position(|result| matches!(result, Err(error) if !error.is_echo()))
        {
            return Err(results.into_iter().nth(cause).and_then(Result::err).expect("it is an error"));
        }
        let mut collection = Collection::default();
        for result in results {
            let served = result?;
            collection.episodes.extend(served.episodes);
            collection.stats.source.merge(&served.source);
            collection.stats.generating += served.generating;
        }
        collection.episodes.sort_by_key(|episode| (episode.group, episode.episode));
        for episode in &collection.episodes {
            collection.stats.add(episode);
        }
        collection.stats.elapsed = started.elapsed();
        Ok(collection)
    }

    fn check<S: TokenSource>(&self, sources: &[S]) -> Result<usize, CollectError> {
        let options = self.options;
        if options.training {
            options.sampling.check_for_training()?;
        } else {
            options.sampling.check()?;
        }
        let counts = [
            ("group_size", options.group_size),
            ("max_steps", options.max_steps),
            ("max_prompt_tokens", options.max_prompt_tokens),
            ("max_response_tokens", options.max_response_tokens),
            ("environment_threads", options.environment_threads),
        ];
        if let Some((key, _)) = counts.into_iter().find(|&(_, count)| count == 0) {
            return Err(CollectError::Zero { key });
        }
        let max_context = sources.iter().map(TokenSource::max_context).min();
        let max_context = max_context.ok_or(CollectError::Zero { key: "sources" })?;
        let wanted = match options.layout {
            Layout::Step => options.max_prompt_tokens + options.max_response_tokens,
            Layout::Transcript => options.max_prompt_tokens + 1,
        };
        let limit = match options.layout {
            Layout::Step => max_context,
            Layout::Transcript => max_context.min(options.max_row_tokens),
        };
        if wanted > limit {
            return Err(CollectError::Budget { wanted, limit });
        }
        Ok(max_context)
    }
}

/// What the workers of a collection share.
struct Hall<'a> {
    stage: Stage<'a>,
    /// Most episodes that one worker keeps open, so that none is left without work.
    fair_share: usize,
    next_group: AtomicUsize,
    failed: AtomicBool,
    progress: &'a (dyn Fn(Progress) + Sync),
    so_far: Mutex<Progress>,
}

/// What one worker brings home.
struct Served {
    episodes: Vec<Episode>,
    source: SourceStats,
    generating: Duration,
}

/// Work for the environment threads.
enum Job {
    Open { group: usize, episode: usize },
    Answer { running: Box<Running>, completion: Completion },
}

type Done = Result<(Box<Running>, Next), CollectError>;

impl Hall<'_> {
    /// One worker: drives a token source and a pool of environment threads until no group is left.
    fn serve<S: TokenSource>(&self, source: &mut S) -> Result<Served, CollectError> {
        let (jobs, inbox) = mpsc::channel::<Job>();
        let (outbox, done) = mpsc::channel::<Done>();
        let inbox = Mutex::new(inbox);
        let inbox = &inbox;
        let stage = self.stage;
        thread::scope(|scope| {
            for _ in 0..stage.options.environment_threads {
                let outbox = outbox.clone();
                scope.spawn(move || {
                    // the lock is held while waiting, not while working
                    while let Some(job) = { inbox.lock().ok().and_then(|inbox| inbox.recv().ok()) } {
                        let played = catch_unwind(AssertUnwindSafe(|| play(stage, job)));
                        let (result, panic) = match played {
                            Ok(result) => (result, None),
                            // the driver must not wait for an answer that never comes
                            Err(panic) => (Err(CollectError::Interrupted), Some(panic)),
                        };
                        let heard = outbox.send(result).is_ok();
                        if let Some(panic) = panic {
                            resume_unwind(panic);
                        }
                        if !heard {
                            return;
                        }
                    }
                });
            }
            drop(outbox);
            let result = self.drive(source, jobs, &done);
            if result.is_err() {
                self.failed.store(true, Ordering::Relaxed);
            }
            result
        })
    }

    fn drive<S: TokenSource>(
        &self,
        source: &mut S,
        jobs: mpsc::Sender<Job>,
        done: &mpsc::Receiver<Done>,
    ) -> Result<Served, CollectError> {
        let before = source.stats();
        let mut served =
            Served { episodes: Vec::new(), source: SourceStats::default(), generating: Duration::ZERO };
        let seats = source.capacity().min(self.fair_share).max(1);
        let mut waiting: VecDeque<(usize, usize)> = VecDeque::new();
        let mut asked: HashMap<SessionId, Box<Running>> = HashMap::new();
        let mut open = 0;
        let send = |job| jobs.send(job).map_err(|_| CollectError::Interrupted);
        loop {
            if self.failed.load(Ordering::Relaxed) {
                return Err(CollectError::Interrupted);
            }
            while open < seats {
                if waiting.is_empty() {
                    waiting.extend(self.take_group());
                }
                let Some((group, episode)) = waiting.pop_front() else { break };
                send(Job::Open { group, episode })?;
                open += 1;
            }
            if open == 0 {
                break;
            }
            // nothing to compute: wait for an environment; otherwise take what is ready and go on
            let mut ready = match source.pending() {
                0 => Some(done.recv().map_err(|_| CollectError::Interrupted)?),
                _ => done.try_recv().ok(),
            };
            while let Some(result) = ready {
                let (running, next) = result?;
                match next {
                    Next::Ask { context, max_new_tokens } => {
                        let request = self.request(&running, context, max_new_tokens);
                        asked.insert(request.session, running);
                        source.submit(request)?;
                    }
                    Next::Over => {
                        source.close(self.session(running.place()));
                        open -= 1;
                        served.episodes.push(running.finish(self.stage));
                        self.report(served.episodes.last().expect("just pushed"));
                    }
                }
                ready = done.try_recv().ok();
            }
            if source.pending() > 0 {
                let started = Instant::now();
                let completions = source.advance()?;
                served.generating += started.elapsed();
                for completion in completions {
                    let running =
                        asked.remove(&completion.session).expect("only asked sessions are answered");
                    send(Job::Answer { running, completion })?;
                }
            }
        }
        served.source = source.stats().since(&before);
        Ok(served)
    }

    fn take_group(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let group = self.next_group.fetch_add(1, Ordering::Relaxed);
        let size = if group < self.stage.plan.len() { self.stage.options.group_size } else { 0 };
        (0..size).map(move |episode| (group, episode))
    }

    fn session(&self, (group, episode): (usize, usize)) -> SessionId {
        SessionId((group * self.stage.options.group_size + episode) as u64)
    }

    fn request(&self, running: &Running, context: Context, max_new_tokens: usize) -> Request {
        let options = self.stage.options;
        let (group, episode) = running.place();
        let turn = running.turn();
        Request {
            session: self.session((group, episode)),
            context,
            sampling: options.sampling,
            max_new_tokens,
            stream: StreamKey {
                run_seed: options.run_seed,
                purpose: options.purpose,
                update: options.update,
                group: group as u64,
                episode: episode as u64,
                turn: turn as u64,
            },
            shared_by: if turn == 0 { options.group_size } else { 1 },
        }
    }

    fn report(&self, episode: &Episode) {
        let mut so_far = self.so_far.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        so_far.episodes += 1;
        so_far.steps += episode.trajectory.steps.len();
        so_far.tokens += episode.rows.iter().map(Row::sampled).sum::<usize>();
        so_far.won += usize::from(episode.trajectory.outcome.won);
        (self.progress)(*so_far);
    }
}

fn play(stage: Stage, job: Job) -> Done {
    match job {
        Job::Open { group, episode } => {
            Running::open(stage, group, episode).map(|(running, next)| (Box::new(running), next))
        }
        Job::Answer { mut running, completion } => {
            running.answer(stage, &completion).map(|next| (running, next))
        }
    }
}

/// Why a collection failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    /// The way of sampling is out of range, or not fit for training.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// A setting that must be at least 1.
    #[error("`{key}` is 0, expected at least 1")]
    Zero {
        /// The setting.
        key: &'static str,
    },
    /// The limits do not fit together.
    #[error(
        "prompts and responses may take {wanted} tokens, but a row holds {limit}; lower `max_prompt_tokens` or `max_response_tokens`, or raise `max_row_tokens` (the model's own limit is part of it)"
    )]
    Budget {
        /// Tokens that the options ask for.
        wanted: usize,
        /// Tokens that fit.
        limit: usize,
    },
    /// The very first prompt of an episode does not fit.
    #[error("task `{task}`: the first prompt has {tokens} tokens, `max_prompt_tokens` is {limit}")]
    PromptTooLong {
        /// The task.
        task: String,
        /// Tokens of the prompt.
        tokens: usize,
        /// The limit.
        limit: usize,
    },
    /// An environment failed.
    #[error("task `{task}`, step {step}")]
    Environment {
        /// The task.
        task: String,
        /// The step, from 0.
        step: usize,
        /// What the environment said.
        source: Box<EnvError>,
    },
    /// Text and tokens could not be turned into each other.
    #[error(transparent)]
    Dialogue(#[from] DialogueError),
    /// Generation failed.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Another worker failed; its error is the one to read.
    #[error("stopped, since another worker of the collection failed")]
    Interrupted,
}

impl CollectError {
    /// It tells of an error that another worker reports.
    fn is_echo(&self) -> bool {
        matches!(self, Self::Interrupted)
    }
}
