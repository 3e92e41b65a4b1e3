//! The token row: what travels from roll-out to loss.
//!
//! Ids that were sampled are never derived again from text; mask and log-probabilities are made in the same
//! breath as the ids. A row is never padded.

use crate::source::Context;
use seed_envs::Task;
use seed_model::PlacedPicture;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// How an episode becomes rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// One row an environment step; the prompt is rendered anew with a window of history. The paper's protocol.
    Step,
    /// One row an episode: every turn is appended, what the environment says is masked.
    Transcript,
}

/// Why a response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// An end token was sampled; it is the last of the response.
    End,
    /// The limit of new tokens of the turn was reached.
    Length,
    /// The context is full: the model or the row budget holds no further token.
    Context,
}

impl Finish {
    /// The response was cut before the policy ended it.
    pub fn is_cut(self) -> bool {
        self != Self::End
    }
}

/// One response inside a row: which environment step it answered and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Environment step, from 0.
    pub step: usize,
    /// First sampled token, as an index into the row's response.
    pub start: usize,
    /// One past the last sampled token.
    pub end: usize,
    /// Why sampling stopped.
    pub finish: Finish,
    /// Reward of the step.
    pub reward: f64,
    /// Whether the response had the form that the projection asks for.
    pub valid: bool,
}

impl Turn {
    /// The sampled tokens of this turn as a range of the row's response.
    pub fn tokens(&self) -> Range<usize> {
        self.start..self.end
    }
}

/// What a teacher said about the tokens of a row; present in files written after scoring.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TokenSignals {
    /// Log-probability of each response token under the prompt with the skill; 0 where the mask is off.
    pub teacher_logp: Vec<f32>,
    /// Teacher minus student log-probability.
    pub gap: Vec<f32>,
    /// The gate, in (0, 1).
    pub gate: Vec<f32>,
}

/// A picture of a row, by reference: the pixels are with the episode, once for each distinct frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowPicture {
    /// Its first place holder, counted over prompt and response.
    pub start: usize,
    /// The place holders that it takes.
    pub tokens: usize,
    /// Index into the frames of the episode.
    pub frame: usize,
}

/// One training sample.
///
/// `response_ids`, `response_mask` and `logp` have one length. In the transcript layout the response holds the
/// environment's turns as well, masked; in the step layout the mask is on everywhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Tokens of the prompt, as they went through the model.
    pub prompt_ids: Vec<u32>,
    /// Tokens after the prompt.
    pub response_ids: Vec<u32>,
    /// On exactly where the policy sampled the token.
    #[serde(with = "mask_text")]
    pub response_mask: Vec<bool>,
    /// Natural log-probability of each sampled token as the engine computed it, under the sampling temperature and
    /// over the whole vocabulary of the model; 0 where the mask is off.
    pub logp: Vec<f32>,
    /// Pictures in the order of their places; none for text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pictures: Vec<RowPicture>,
    /// The responses inside, in time order; exactly one in the step layout.
    pub turns: Vec<Turn>,
    /// Group: episodes of one task that are compared with each other. Assigned by the collector.
    pub group: usize,
    /// Episode, unique in its collection.
    pub trajectory: usize,
    /// First environment step that the row covers.
    pub step: usize,
    /// Sum of the rewards of the steps that the row covers.
    pub reward: f64,
    /// Sum of the rewards of the whole episode.
    pub episode_return: f64,
    /// Environment steps of the whole episode.
    pub episode_steps: usize,
    /// The goal held at the end of the episode, as the environment says.
    pub won: bool,
    /// Every response in the row had the required form.
    pub valid: bool,
    /// Tokens cut from the left of the prompt; 0 unless the configuration allows that.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub prompt_cut: usize,
    /// What was to be done.
    pub task: Task,
    /// What a teacher said about the tokens, where it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signals: Option<TokenSignals>,
}

impl Row {
    /// Tokens of prompt and response.
    pub fn len(&self) -> usize {
        self.prompt_ids.len() + self.response_ids.len()
    }

    /// No token at all; never true of a collected row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many tokens the policy sampled.
    pub fn sampled(&self) -> usize {
        self.turns.iter().map(|turn| turn.end - turn.start).sum()
    }

    /// How many of its responses lack the required form.
    pub fn invalid_turns(&self) -> usize {
        self.turns.iter().filter(|turn| !turn.valid).count()
    }

    /// Checks what every row promises: equal lengths, turns in order that cover the mask exactly, finite numbers,
    /// log-probabilities of at most 0 and exactly 0 where nothing was sampled, ids below `vocabulary`.
    ///
    /// # Errors
    /// The first [`RowError`].
    pub fn check(&self, vocabulary: Option<usize>) -> Result<(), RowError> {
        let tokens = self.response_ids.len();
        let mut columns = vec![("response_mask", self.response_mask.len()), ("logp", self.logp.len())];
        if let Some(signals) = &self.signals {
            columns.push(("signals.teacher_logp", signals.teacher_logp.len()));
            columns.push(("signals.gap", signals.gap.len()));
            columns.push(("signals.gate", signals.gate.len()));
        }
        for (column, found) in columns {
            if found != tokens {
                return Err(RowError::Length { column, found, expected: tokens });
            }
        }
        if self.prompt_ids.is_empty() || self.turns.is_empty() {
            return Err(RowError::Empty { what: if self.turns.is_empty() { "turns" } else { "prompt_ids" } });
        }
        let mut mask = vec![false; tokens];
        let mut position = 0;
        for (index, turn) in self.turns.iter().enumerate() {
            if turn.start < position || turn.end <= turn.start || turn.end > tokens {
                return Err(RowError::Turn { index, start: turn.start, end: turn.end, tokens });
            }
            mask[turn.tokens()].fill(true);
            position = turn.end;
        }
        if let Some(position) = (0..tokens).find(|&position| mask[position] != self.response_mask[position]) {
            return Err(RowError::Mask { position });
        }
        for (position, (&logp, &sampled)) in self.logp.iter().zip(&mask).enumerate() {
            if !logp.is_finite() || logp > 0.0 || (!sampled && logp != 0.0) {
                return Err(RowError::Logp { position, found: logp, sampled });
            }
        }
        let mut free = 0;
        for (index, picture) in self.pictures.iter().enumerate() {
            let RowPicture { start, tokens, .. } = *picture;
            let end = start + tokens;
            let sampled = (start.max(self.prompt_ids.len())..end.min(self.len()))
                .any(|at| self.response_mask[at - self.prompt_ids.len()]);
            if start < free || tokens == 0 || end > self.len() || sampled {
                return Err(RowError::Picture { index, start, end, tokens: self.len() });
            }
            free = end;
        }
        if let Some(vocabulary) = vocabulary {
            let ids = self.prompt_ids.iter().chain(&self.response_ids);
            if let Some((position, &id)) = ids.enumerate().find(|&(_, &id)| id as usize >= vocabulary) {
                return Err(RowError::Id { position, id, vocabulary });
            }
        }
        Ok(())
    }
}

/// What is wrong with a row.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RowError {
    /// A column differs in length from the response.
    #[error("`{column}` has {found} entries, `response_ids` has {expected}")]
    Length {
        /// The column.
        column: &'static str,
        /// Its entries.
        found: usize,
        /// Tokens of the response.
        expected: usize,
    },
    /// A part that every row has is missing.
    #[error("`{what}` is empty")]
    Empty {
        /// The part.
        what: &'static str,
    },
    /// A turn lies outside of the response or overlaps the one before.
    #[error(
        "turn {index} covers tokens {start}..{end} of {tokens}; turns are ordered, not empty and do not overlap"
    )]
    Turn {
        /// Which turn.
        index: usize,
        /// Its first token.
        start: usize,
        /// One past its last.
        end: usize,
        /// Tokens of the response.
        tokens: usize,
    },
    /// The mask says something else than the turns.
    #[error("`response_mask` disagrees with `turns` at token {position}")]
    Mask {
        /// The token.
        position: usize,
    },
    /// A log-probability that cannot be one.
    #[error(
        "`logp` is {found} at token {position} (sampled: {sampled}); expected a finite number of at most 0, and 0 where nothing was sampled"
    )]
    Logp {
        /// The token.
        position: usize,
        /// What stands there.
        found: f32,
        /// Whether the policy sampled this token.
        sampled: bool,
    },
    /// A picture outside of the row, over sampled tokens or over the one before.
    #[error(
        "picture {index} takes tokens {start}..{end} of {tokens}; pictures are ordered, do not overlap and cover no sampled token"
    )]
    Picture {
        /// Which picture.
        index: usize,
        /// Its first token.
        start: usize,
        /// One past its last.
        end: usize,
        /// Tokens of prompt and response.
        tokens: usize,
    },
    /// An id that the tokenizer does not have.
    #[error("token {position} of the row is id {id}; the vocabulary has {vocabulary}")]
    Id {
        /// Index over prompt and response.
        position: usize,
        /// The id.
        id: u32,
        /// Size of the vocabulary.
        vocabulary: usize,
    },
}

/// A row in the making: ids, mask and log-probabilities grow together.
#[derive(Debug, Clone, Default)]
pub struct RowBuilder {
    prompt_ids: Vec<u32>,
    response_ids: Vec<u32>,
    response_mask: Vec<bool>,
    logp: Vec<f32>,
    turns: Vec<Turn>,
    prompt_cut: usize,
    /// Pictures with the index of their frame.
    pictures: Vec<(PlacedPicture, usize)>,
}

impl RowBuilder {
    /// A row that starts with this prompt, of which `prompt_cut` tokens were cut from the left. Its pictures show `frame` of the episode.
    pub fn new(prompt: impl Into<Context>, prompt_cut: usize, frame: usize) -> Self {
        let Context { ids, pictures } = prompt.into();
        let pictures = pictures.into_iter().map(|placed| (placed, frame)).collect();
        Self { prompt_ids: ids, prompt_cut, pictures, ..Self::default() }
    }

    /// Appends a response: its ids, their log-probabilities, the step that it answers.
    pub fn push_sampled(&mut self, step: usize, ids: &[u32], logp: &[f32], finish: Finish) {
        assert_eq!(ids.len(), logp.len(), "a log-probability for each sampled token");
        let start = self.response_ids.len();
        self.response_ids.extend_from_slice(ids);
        self.logp.extend_from_slice(logp);
        self.response_mask.resize(self.response_ids.len(), true);
        let end = self.response_ids.len();
        self.turns.push(Turn { step, start, end, finish, reward: 0.0, valid: false });
    }

    /// Says what came of the last response.
    pub fn settle(&mut self, reward: f64, valid: bool) {
        let turn = self.turns.last_mut().expect("a response was pushed before it is settled");
        turn.reward = reward;
        turn.valid = valid;
    }

    /// Appends tokens that the policy did not sample; their pictures show `frame` of the episode.
    pub fn push_context(&mut self, context: &Context, frame: usize) {
        let start = self.len();
        let moved = |placed: &PlacedPicture| PlacedPicture { start: placed.start + start, ..placed.clone() };
        self.pictures.extend(context.pictures.iter().map(|placed| (moved(placed), frame)));
        self.response_ids.extend_from_slice(&context.ids);
        self.response_mask.resize(self.response_ids.len(), false);
        self.logp.resize(self.response_ids.len(), 0.0);
    }

    /// Prompt and response so far: the context of the next token.
    pub fn context(&self) -> Context {
        Context {
            ids: [self.prompt_ids.as_slice(), &self.response_ids].concat(),
            pictures: self.pictures.iter().map(|(placed, _)| placed.clone()).collect(),
        }
    }

    /// Tokens so far.
    pub fn len(&self) -> usize {
        self.prompt_ids.len() + self.response_ids.len()
    }

    /// Nothing yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ids of the last response; empty before the first.
    pub fn last_response(&self) -> &[u32] {
        self.turns.last().map_or(&[], |turn| &self.response_ids[turn.tokens()])
    }

    /// The finished row.
    pub fn finish(self, episode: &EpisodeFacts) -> Row {
        Row {
            step: self.turns.first().map_or(0, |turn| turn.step),
            reward: self.turns.iter().map(|turn| turn.reward).sum(),
            valid: self.turns.iter().all(|turn| turn.valid),
            prompt_ids: self.prompt_ids,
            response_ids: self.response_ids,
            response_mask: self.response_mask,
            logp: self.logp,
            pictures: self
                .pictures
                .iter()
                .map(|(placed, frame)| RowPicture {
                    start: placed.start,
                    tokens: placed.picture.tokens(),
                    frame: *frame,
                })
                .collect(),
            turns: self.turns,
            prompt_cut: self.prompt_cut,
            group: episode.group,
            trajectory: episode.trajectory,
            episode_return: episode.episode_return,
            episode_steps: episode.steps,
            won: episode.won,
            task: episode.task.clone(),
            signals: None,
        }
    }
}

/// What all rows of an episode say about it.
#[derive(Debug, Clone, PartialEq)]
pub struct EpisodeFacts {
    /// Group of the episode.
    pub group: usize,
    /// The episode, unique in its collection.
    pub trajectory: usize,
    /// Sum of all step rewards.
    pub episode_return: f64,
    /// Environment steps.
    pub steps: usize,
    /// The goal held at the end.
    pub won: bool,
    /// What was to be done.
    pub task: Task,
}

fn is_zero(value: &usize) -> bool {
    *value == 0
}

/// A mask as a text of `1` and `0`: one character a token instead of six.
mod mask_text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(mask: &[bool], serializer: S) -> Result<S::Ok, S::Error> {
        let text: String = mask.iter().map(|&on| if on { '1' } else { '0' }).collect();
        serializer.serialize_str(&text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<bool>, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.chars()
            .map(|mark| match mark {
                '1' => Ok(true),
                '0' => Ok(false),
                other => Err(D::Error::custom(format!("found `{other}` in a mask, expected `0` or `1`"))),
            })
            .collect()
    }
}
