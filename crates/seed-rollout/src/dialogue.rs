//! Text becomes tokens and tokens become text: the one place where a prompt is encoded.
//!
//! Sampled ids are never made here again from text. What stands between two responses of a transcript (end of the
//! assistant's turn, the user's turn, the head of the next response) is derived from the model's own chat template.

use crate::history::History;
use crate::row::Layout;
use crate::template::{PromptTemplate, StepContext};
use seed_envs::Trajectory;
use seed_model::{ChatTemplate, Message, RenderOptions, Tokenizer, TokenizerError};
use serde::{Deserialize, Serialize};

/// What happens to a prompt that is too long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptOverflow {
    /// The oldest past steps are left out until it fits; when it still does not, the episode ends (counted).
    #[default]
    DropHistory,
    /// Tokens are cut from the left, as the reference implementation does: the head of the chat goes first.
    Left,
}

/// The conversation between environment and policy: templates, chat format and tokenizer in one.
#[derive(Debug, Clone)]
pub struct Dialogue {
    /// Ids to text and back.
    pub tokenizer: Tokenizer,
    /// The model's chat format.
    pub chat: ChatTemplate,
    /// Switches of the chat format, e.g. thinking. The generation prompt is always added.
    pub render: RenderOptions,
    /// The words around what the environment says.
    pub template: PromptTemplate,
    /// Past steps that a prompt of step rows quotes.
    pub history_length: usize,
}

/// A prompt as tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EncodedPrompt {
    /// The ids, generation prompt included. May exceed the limit when nothing was left to drop.
    pub ids: Vec<u32>,
    /// Past steps left out to make it fit.
    pub history_dropped: usize,
    /// Tokens cut from the left.
    pub cut: usize,
}

/// What a prompt is about: the state of an episode, and a skill for the teacher's view of it.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// The task in words.
    pub task: &'a str,
    /// The episode so far.
    pub history: &'a History,
    /// Commands that work now, where the environment lists them.
    pub admissible: Option<&'a [String]>,
    /// The worded skill block; `None` for the policy's own view.
    pub skill: Option<&'a str>,
}

impl Dialogue {
    /// The text of sampled ids without special tokens: what projections and analyzers read.
    ///
    /// # Errors
    /// [`DialogueError::Tokenizer`] when an id is unknown.
    pub fn decode(&self, ids: &[u32]) -> Result<String, DialogueError> {
        Ok(self.tokenizer.decode_skipping_special(ids)?)
    }

    /// The text of ids, special tokens included.
    ///
    /// # Errors
    /// [`DialogueError::Tokenizer`] when an id is unknown.
    pub fn text(&self, ids: &[u32]) -> Result<String, DialogueError> {
        Ok(self.tokenizer.decode(ids)?)
    }

    /// The ids of a conversation with the head of the next response.
    ///
    /// # Errors
    /// [`DialogueError`] when the chat template or the tokenizer refuses the messages.
    pub fn encode(&self, messages: &[Message]) -> Result<Vec<u32>, DialogueError> {
        Ok(self.tokenizer.encode(&self.rendered(messages)?)?)
    }

    /// The prompt of a row: a step with its window of history, or the opening of a transcript.
    ///
    /// Student and teacher prompts both come from here; they differ in the skill alone. A prompt that is longer than
    /// `limit` is shortened as `overflow` says; if nothing more can be dropped it comes back too long.
    ///
    /// # Errors
    /// [`DialogueError`] when the chat template or the tokenizer refuses the text.
    pub fn prompt(
        &self,
        scene: &Scene<'_>,
        layout: Layout,
        limit: usize,
        overflow: PromptOverflow,
    ) -> Result<EncodedPrompt, DialogueError> {
        let full = match layout {
            Layout::Step => self.history_length.min(scene.history.steps()),
            Layout::Transcript => 0,
        };
        let mut length = full;
        loop {
            let prompt = self.template.step(&scene.context(length));
            let text = scene.skill.map_or_else(|| prompt.text.clone(), |block| prompt.with_skill(block));
            let mut ids = self.encode(&[Message::user(text)])?;
            let fits = ids.len() <= limit;
            if !fits && overflow == PromptOverflow::DropHistory && prompt.history_length > 0 {
                length = prompt.history_length - 1;
                continue;
            }
            let mut cut = 0;
            if !fits && overflow == PromptOverflow::Left {
                cut = ids.len() - limit;
                ids.drain(..cut);
            }
            return Ok(EncodedPrompt { ids, history_dropped: full - prompt.history_length, cut });
        }
    }

    /// The prompt of a finished episode's row that starts at `step`, with a skill block where the teacher is meant.
    ///
    /// # Errors
    /// As [`Dialogue::prompt`].
    pub fn prompt_of(
        &self,
        trajectory: &Trajectory,
        step: usize,
        skill: Option<&str>,
        layout: Layout,
        limit: usize,
        overflow: PromptOverflow,
    ) -> Result<EncodedPrompt, DialogueError> {
        let history = History::before_step(trajectory, step);
        let admissible = trajectory.steps.get(step).map(|step| step.admissible.as_slice());
        let scene = Scene { task: &trajectory.task_description, history: &history, admissible, skill };
        self.prompt(&scene, layout, limit, overflow)
    }

    /// What stands between the response `sampled` and the next one in a transcript: the end of the assistant's turn
    /// as far as it was not sampled, the user's turn with the current observation, the head of the next response.
    ///
    /// # Errors
    /// [`DialogueError`]; [`DialogueError::Separator`] when the chat template does not show the assistant's text as
    /// it is.
    pub fn between(&self, sampled: &[u32], scene: &Scene<'_>) -> Result<Vec<u32>, DialogueError> {
        // any words will do in place of the response: what matters is what the template puts behind them
        const RESPONSE: &str = "the response stands here";
        let observation = self.template.turn(&scene.context(0)).text;
        let messages = [Message::user("go on"), Message::assistant(RESPONSE), Message::user(observation)];
        let rendered = self.rendered(&messages)?;
        let start = rendered.find(RESPONSE).ok_or(DialogueError::Separator)? + RESPONSE.len();
        let ids = self.tokenizer.encode(&rendered[start..])?;
        // the template ends the turn with the token that the policy usually samples itself
        let ended = sampled.last().is_some() && sampled.last() == ids.first();
        let ended = ended && self.tokenizer.end_ids().contains(&ids[0]);
        Ok(if ended { ids[1..].to_vec() } else { ids })
    }

    fn rendered(&self, messages: &[Message]) -> Result<String, DialogueError> {
        let options = RenderOptions { add_generation_prompt: true, ..self.render.clone() };
        Ok(self.chat.render(messages, &options)?)
    }
}

impl<'a> Scene<'a> {
    fn context(&self, history_length: usize) -> StepContext<'a> {
        StepContext { task: self.task, history: self.history, admissible: self.admissible, history_length }
    }
}

/// Why text and tokens cannot be turned into each other.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialogueError {
    /// The tokenizer refused.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The chat template refused.
    #[error(transparent)]
    Chat(#[from] seed_model::TemplateError),
    /// No separator between turns can be derived.
    #[error(
        "the chat template changes the assistant's text, so no separator of turns can be derived from it; use the step layout"
    )]
    Separator,
}
