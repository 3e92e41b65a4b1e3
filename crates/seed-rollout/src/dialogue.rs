//! Text becomes tokens and tokens become text: the one place where a prompt is encoded.
//!
//! Sampled ids are never made here again from text. What stands between two responses of a transcript (end of the
//! assistant's turn, the user's turn, the head of the next response) is derived from the model's own chat template.

use crate::eyes::{Eyes, SightError};
use crate::history::History;
use crate::row::Layout;
use crate::source::Context;
use crate::template::{IMAGE_MARK, PromptTemplate, StepContext};
use seed_envs::{Image, Trajectory};
use seed_model::{ChatTemplate, Message, Part, Picture, RenderOptions, Tokenizer, TokenizerError};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

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
    /// How frames become pictures; `None` for a policy of text.
    pub eyes: Option<Eyes>,
}

/// A prompt as tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EncodedPrompt {
    /// The tokens, generation prompt included, and the pictures among them. May exceed the limit when nothing was left to drop.
    pub context: Context,
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
    /// The frame that the agent sees now, where the environment shows pictures.
    pub image: Option<&'a Image>,
}

/// A finished episode as its text and its frames.
#[derive(Debug, Clone, Copy)]
pub struct Played<'a> {
    /// What was seen, said and done.
    pub trajectory: &'a Trajectory,
    /// Frames that the steps name; empty for text.
    pub frames: &'a [Arc<Image>],
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

    /// The context of a conversation whose texts show pictures, each at an [`IMAGE_MARK`], in their order.
    ///
    /// # Errors
    /// [`DialogueError`] when the chat template or the tokenizer refuses the messages, or there is not one mark a picture.
    pub fn encode_with_pictures(
        &self,
        messages: &[Message],
        pictures: &[Arc<Picture>],
    ) -> Result<Context, DialogueError> {
        if pictures.is_empty() {
            return Ok(self.encode(messages)?.into());
        }
        let messages: Vec<Message> = messages.iter().map(with_images).collect();
        self.place(self.tokenizer.encode(&self.rendered(&messages)?)?, pictures)
    }

    fn place(&self, ids: Vec<u32>, pictures: &[Arc<Picture>]) -> Result<Context, DialogueError> {
        if pictures.is_empty() {
            return Ok(ids.into());
        }
        let eyes = self.eyes.as_ref().ok_or(SightError::Blind)?;
        let (ids, pictures) = eyes.place(&ids, pictures)?;
        Ok(Context { ids, pictures })
    }

    /// The picture of the current frame, where the environment shows one and `text` has a place for it.
    fn look(&self, scene: &Scene<'_>, text: &str) -> Result<Vec<Arc<Picture>>, DialogueError> {
        let Some(image) = scene.image else { return Ok(Vec::new()) };
        let eyes = self.eyes.as_ref().ok_or(SightError::Blind)?;
        if !text.contains(IMAGE_MARK) {
            return Err(SightError::NoSlot.into());
        }
        Ok(vec![eyes.look(image)?])
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
            // What a policy wrote is never a picture.
            let block = scene.skill.map(|block| block.replace(IMAGE_MARK, "[image]"));
            let text = block.map_or_else(|| prompt.text.clone(), |block| prompt.with_skill(&block));
            let pictures = self.look(scene, &text)?;
            let mut context = self.encode_with_pictures(&[Message::user(text)], &pictures)?;
            let fits = context.len() <= limit;
            if !fits && overflow == PromptOverflow::DropHistory && prompt.history_length > 0 {
                length = prompt.history_length - 1;
                continue;
            }
            let mut cut = 0;
            // A picture is never cut: such a prompt comes back too long.
            if !fits && overflow == PromptOverflow::Left && context.pictures.is_empty() {
                cut = context.len() - limit;
                context.ids.drain(..cut);
            }
            return Ok(EncodedPrompt { context, history_dropped: full - prompt.history_length, cut });
        }
    }

    /// The prompt of a finished episode's row that starts at `step`, with a skill block where the teacher is meant.
    ///
    /// # Errors
    /// As [`Dialogue::prompt`].
    pub fn prompt_of(
        &self,
        played: Played<'_>,
        step: usize,
        skill: Option<&str>,
        layout: Layout,
        limit: usize,
        overflow: PromptOverflow,
    ) -> Result<EncodedPrompt, DialogueError> {
        let Played { trajectory, frames } = played;
        let history = History::before_step(trajectory, step);
        let now = trajectory.steps.get(step);
        let admissible = now.map(|step| step.admissible.as_slice());
        let image = now.and_then(|step| step.image).map(|at| frame(frames, at)).transpose()?;
        let scene = Scene { task: &trajectory.task_description, history: &history, admissible, skill, image };
        self.prompt(&scene, layout, limit, overflow)
    }

    /// What stands between the response `sampled` and the next one in a transcript: the end of the assistant's turn
    /// as far as it was not sampled, the user's turn with the current observation, the head of the next response.
    ///
    /// # Errors
    /// [`DialogueError`]; [`DialogueError::Separator`] when the chat template does not show the assistant's text as
    /// it is.
    pub fn between(&self, sampled: &[u32], scene: &Scene<'_>) -> Result<Context, DialogueError> {
        // any words will do in place of the response: what matters is what the template puts behind them
        const RESPONSE: &str = "the response stands here";
        let observation = self.template.turn(&scene.context(0)).text;
        let pictures = self.look(scene, &observation)?;
        let observed = Message::user(observation);
        let observed = if pictures.is_empty() { observed } else { with_images(&observed) };
        let messages = [Message::user("go on"), Message::assistant(RESPONSE), observed];
        let rendered = self.rendered(&messages)?;
        let start = rendered.find(RESPONSE).ok_or(DialogueError::Separator)? + RESPONSE.len();
        let ids = self.tokenizer.encode(&rendered[start..])?;
        // the template ends the turn with the token that the policy usually samples itself
        let ended = sampled.last().is_some() && sampled.last() == ids.first();
        let ended = ended && self.tokenizer.end_ids().contains(&ids[0]);
        self.place(if ended { ids[1..].to_vec() } else { ids }, &pictures)
    }

    fn rendered(&self, messages: &[Message]) -> Result<String, DialogueError> {
        let options = RenderOptions { add_generation_prompt: true, ..self.render.clone() };
        Ok(self.chat.render(messages, &options)?)
    }
}

/// A message whose text shows pictures at its marks.
fn with_images(message: &Message) -> Message {
    let mut parts = Vec::new();
    for (index, text) in message.content.split(IMAGE_MARK).enumerate() {
        if index > 0 {
            parts.push(Part::Image);
        }
        if !text.is_empty() {
            parts.push(Part::text(text));
        }
    }
    Message { parts, ..message.clone() }
}

/// A frame of an episode.
pub(crate) fn frame(frames: &[Arc<Image>], at: usize) -> Result<&Image, SightError> {
    let missing = SightError::Missing { frame: at, frames: frames.len() };
    frames.get(at).map(AsRef::as_ref).ok_or(missing)
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
    /// A frame cannot be seen.
    #[error(transparent)]
    Sight(#[from] SightError),
    /// No separator between turns can be derived.
    #[error(
        "the chat template changes the assistant's text, so no separator of turns can be derived from it; use the step layout"
    )]
    Separator,
}
