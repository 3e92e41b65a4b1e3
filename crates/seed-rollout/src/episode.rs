//! One episode: the finished record, and the state machine that plays it.
//!
//! `Running` is the half of the work that needs no model: environment, projection, prompts. It moves from thread
//! to thread as a whole, so that nothing is shared and nothing depends on timing.

use crate::collect::{CollectError, CollectOptions, GroupPlan};
use crate::dialogue::{Dialogue, Played, Scene, frame};
use crate::eyes::{Eyes, SightError};
use crate::history::History;
use crate::row::{EpisodeFacts, Finish, Layout, Row, RowBuilder};
use crate::source::{Completion, Context};
use seed_envs::picture::FrameStore;
use seed_envs::projection::Projection;
use seed_envs::{Environment, Image, Observation, Outcome, StepInfo, Suite, Trajectory, TrajectoryStep};
use seed_model::PlacedPicture;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// Why an episode ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The environment said so for a reason of its own.
    Done,
    /// The step limit of the environment or of the collection.
    StepLimit,
    /// The next prompt would not have fitted.
    TokenBudget,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "the environment",
            Self::StepLimit => "the step limit",
            Self::TokenBudget => "the token budget",
        })
    }
}

/// A finished episode: text and tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Episode {
    /// The group that it is compared with.
    pub group: usize,
    /// Its place in the group.
    pub episode: usize,
    /// Why it ended.
    pub ending: Ending,
    /// Prompts from which history was dropped to make them fit (step layout).
    #[serde(default)]
    pub history_dropped: usize,
    /// The goal was out of reach at the end; `None` where the environment does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_end: Option<bool>,
    /// What was seen, said and done.
    pub trajectory: Trajectory,
    /// Distinct frames in the order in which they were first seen; steps and rows name them by index.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "crate::frames")]
    pub frames: Vec<Arc<Image>>,
    /// The same as tokens: one row a step, or one for all, by layout.
    pub rows: Vec<Row>,
}

impl Episode {
    /// Its text and frames: what prompts are written from.
    pub fn played(&self) -> Played<'_> {
        Played { trajectory: &self.trajectory, frames: &self.frames }
    }

    /// The pictures of one of its rows, at their places over prompt and response. Equal frames give the same `Arc`.
    ///
    /// # Errors
    /// [`SightError`] when the row names a frame that the episode does not have, or a picture takes another number of tokens than
    /// recorded (other eyes than those that collected it).
    pub fn pictures(&self, row: &Row, eyes: Option<&Eyes>) -> Result<Vec<PlacedPicture>, SightError> {
        let placed = row.pictures.iter().enumerate().map(|(index, reference)| {
            let picture = eyes.ok_or(SightError::Blind)?.look(frame(&self.frames, reference.frame)?)?;
            let (found, needed) = (reference.tokens, picture.tokens());
            if found != needed {
                let start = reference.start;
                return Err(
                    seed_model::vision::PictureError::Short { picture: index, start, found, needed }.into()
                );
            }
            Ok(PlacedPicture { start: reference.start, picture })
        });
        placed.collect()
    }
}

/// Everything that the episodes of a collection have in common.
#[derive(Clone, Copy)]
pub(crate) struct Stage<'a> {
    pub(crate) suite: &'a dyn Suite,
    pub(crate) dialogue: &'a Dialogue,
    pub(crate) projection: Projection,
    pub(crate) options: &'a CollectOptions,
    pub(crate) plan: &'a [GroupPlan],
    /// Longest context plus response that the token source can hold.
    pub(crate) max_context: usize,
}

impl Stage<'_> {
    /// Longest row: prompt and everything after it.
    pub(crate) fn row_budget(&self) -> usize {
        match self.options.layout {
            Layout::Step => self.options.max_prompt_tokens + self.options.max_response_tokens,
            Layout::Transcript => self.options.max_row_tokens.min(self.max_context),
        }
    }
}

/// What an episode wants next.
#[derive(Debug)]
pub(crate) enum Next {
    /// A response to this context of at most so many tokens.
    Ask { context: Context, max_new_tokens: usize },
    /// Nothing more.
    Over,
}

/// An episode that is being played.
pub(crate) struct Running {
    group: usize,
    episode: usize,
    environment: Box<dyn Environment>,
    trajectory: Trajectory,
    observation: Observation,
    /// Distinct frames so far; the current one, where there is one.
    frames: FrameStore,
    frame: Option<usize>,
    history: History,
    info: StepInfo,
    rows: Vec<RowBuilder>,
    history_dropped: usize,
    /// Limit of the response under way.
    max_new_tokens: usize,
    ending: Option<Ending>,
}

impl Running {
    /// Resets an environment and writes the first prompt.
    pub(crate) fn open(stage: Stage, group: usize, episode: usize) -> Result<(Self, Next), CollectError> {
        let GroupPlan { task, seed } = &stage.plan[group];
        let mut environment = stage.suite.environment();
        let observation = environment.reset(task, *seed).map_err(|source| CollectError::Environment {
            task: task.id.clone(),
            step: 0,
            source: Box::new(source),
        })?;
        let task_description = stage.suite.task_description(task).unwrap_or_default();
        let trajectory = Trajectory {
            environment: stage.suite.name().to_string(),
            task: task.clone(),
            task_description,
            seed: *seed,
            steps: Vec::new(),
            final_observation: String::new(),
            outcome: Outcome::default(),
        };
        let mut running = Self {
            group,
            episode,
            environment,
            trajectory,
            history: History::new(observation.text.clone()),
            observation,
            frames: FrameStore::default(),
            frame: None,
            info: StepInfo::default(),
            rows: Vec::new(),
            history_dropped: 0,
            max_new_tokens: 0,
            ending: None,
        };
        let next = running.ask(stage)?;
        Ok((running, next))
    }

    /// Which response comes next, from 0; part of its random stream.
    pub(crate) fn turn(&self) -> usize {
        self.trajectory.steps.len()
    }

    /// Group and place in the group.
    pub(crate) fn place(&self) -> (usize, usize) {
        (self.group, self.episode)
    }

    /// Takes a response: action, environment step, next prompt.
    pub(crate) fn answer(&mut self, stage: Stage, completion: &Completion) -> Result<Next, CollectError> {
        let options = stage.options;
        let step = self.turn();
        // a response that only the row's budget cut short is not one that was too long for its turn
        let finish = match completion.finish {
            Finish::Length if self.max_new_tokens < options.max_response_tokens => Finish::Context,
            finish => finish,
        };
        let row = self.rows.last_mut().expect("a response follows a prompt");
        row.push_sampled(step, &completion.ids, &completion.logp, finish);

        let response = stage.dialogue.decode(&completion.ids)?;
        let projected = stage.projection.project(&response);
        let action = stage.projection.command(&projected.action).into_owned();
        let answer = self.environment.step(&action).map_err(|source| CollectError::Environment {
            task: self.trajectory.task.id.clone(),
            step,
            source: Box::new(source),
        })?;
        row.settle(answer.reward, projected.is_valid());
        let seen = std::mem::replace(&mut self.observation, answer.observation);
        self.history.push(action.clone(), self.observation.text.clone());
        self.trajectory.steps.push(TrajectoryStep {
            observation: seen.text,
            admissible: seen.admissible.map(|list| list.to_vec()).unwrap_or_default(),
            response,
            action,
            action_valid: Some(projected.is_valid()),
            reward: answer.reward,
            image: self.frame.take(),
        });
        self.info = answer.info;
        if answer.done {
            return Ok(self.end(Ending::Done));
        }
        if answer.truncated || self.turn() >= options.max_steps {
            return Ok(self.end(Ending::StepLimit));
        }
        self.ask(stage)
    }

    fn end(&mut self, ending: Ending) -> Next {
        self.ending = Some(ending);
        Next::Over
    }

    fn ask(&mut self, stage: Stage) -> Result<Next, CollectError> {
        self.frame = self.observation.image.as_ref().map(|image| self.frames.insert(image));
        let frame = self.frame.unwrap_or(0);
        let options = stage.options;
        let budget = stage.row_budget();
        let scene = Scene {
            task: &self.trajectory.task_description,
            history: &self.history,
            admissible: self.observation.admissible.as_deref(),
            skill: None,
            image: self.observation.image.as_deref(),
        };
        match options.layout {
            Layout::Transcript if !self.rows.is_empty() => {
                let row = self.rows.last_mut().expect("not empty");
                let between = stage.dialogue.between(row.last_response(), &scene)?;
                if row.len() + between.len() >= budget {
                    return Ok(self.end(Ending::TokenBudget));
                }
                row.push_context(&between, frame);
            }
            _ => {
                let limit = options.max_prompt_tokens;
                let prompt = stage.dialogue.prompt(&scene, options.layout, limit, options.prompt_overflow)?;
                let tokens = prompt.context.len();
                if tokens > limit && self.rows.is_empty() {
                    let task = self.trajectory.task.id.clone();
                    return Err(CollectError::PromptTooLong { task, tokens, limit });
                }
                if tokens > limit {
                    return Ok(self.end(Ending::TokenBudget));
                }
                self.history_dropped += usize::from(prompt.history_dropped > 0);
                self.rows.push(RowBuilder::new(prompt.context, prompt.cut, frame));
            }
        }
        let row = self.rows.last().expect("pushed above");
        self.max_new_tokens = options.max_response_tokens.min(budget - row.len());
        Ok(Next::Ask { context: row.context(), max_new_tokens: self.max_new_tokens })
    }

    /// The finished episode.
    pub(crate) fn finish(mut self, stage: Stage) -> Episode {
        // Nobody answers the last frame, but whoever looks at the episode wants to see it.
        if let Some(image) = &self.observation.image {
            self.frames.insert(image);
        }
        let ending = self.ending.expect("only finished episodes are taken apart");
        let mut trajectory = self.trajectory;
        trajectory.final_observation = self.observation.text;
        trajectory.outcome =
            Outcome { won: self.info.won, score: self.info.score, truncated: ending != Ending::Done };
        let facts = EpisodeFacts {
            group: self.group,
            trajectory: self.group * stage.options.group_size + self.episode,
            episode_return: trajectory.episode_return(),
            steps: trajectory.steps.len(),
            won: self.info.won,
            task: trajectory.task.clone(),
        };
        Episode {
            group: self.group,
            episode: self.episode,
            ending,
            history_dropped: self.history_dropped,
            dead_end: self.info.details.get("dead_end").and_then(serde_json::Value::as_bool),
            frames: self.frames.into_frames(),
            rows: self.rows.into_iter().map(|row| row.finish(&facts)).collect(),
            trajectory,
        }
    }
}
