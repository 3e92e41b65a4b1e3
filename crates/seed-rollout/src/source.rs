//! Where response tokens come from: the boundary between collection and generation.
//!
//! [`Engine`](crate::engine::Engine) implements it over a model in this process; an inference server or a scripted
//! player can stand in its place. A source works on many sessions at once and reports each response as it ends.

use crate::row::Finish;
use crate::sampler::{PickError, Sampling, SamplingError, StreamKey};
use seed_model::{PlacedPicture, Prompt};

/// One conversation with the policy: usually an episode. A source may keep what it computed for a session until
/// [`TokenSource::close`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u64);

/// Tokens before a response, with the pictures that stand among them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Context {
    /// Every token, earlier turns and place holders included.
    pub ids: Vec<u32>,
    /// Pictures in the order of their places; empty for text.
    pub pictures: Vec<PlacedPicture>,
}

impl Context {
    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// No token.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The same for the model.
    pub fn as_prompt(&self) -> Prompt<'_> {
        Prompt { ids: &self.ids, pictures: &self.pictures }
    }

    /// Length of the common beginning of two contexts; ends before a picture that they do not share.
    pub fn common(&self, other: &Self) -> usize {
        let ids = self.ids.iter().zip(&other.ids).take_while(|(a, b)| a == b).count();
        let shared = self.pictures.iter().zip(&other.pictures).take_while(|(a, b)| a == b).count();
        let next = [&self.pictures, &other.pictures].into_iter().filter_map(|pictures| pictures.get(shared));
        let end = next.map(|placed| placed.start).fold(ids, usize::min);
        self.before_picture(end)
    }

    /// `len`, or the start of the picture that `len` would cut.
    pub fn before_picture(&self, len: usize) -> usize {
        let cut = self.pictures.iter().map(PlacedPicture::tokens).find(|at| at.start < len && len < at.end);
        cut.map_or(len, |at| at.start)
    }

    /// The tokens from `start` on, which cuts no picture.
    pub fn tail(&self, start: usize) -> Self {
        let pictures = self.pictures.iter().filter(|placed| placed.start >= start);
        let moved = |placed: &PlacedPicture| PlacedPicture { start: placed.start - start, ..placed.clone() };
        Self { ids: self.ids[start..].to_vec(), pictures: pictures.map(moved).collect() }
    }
}

impl From<Vec<u32>> for Context {
    /// Text.
    fn from(ids: Vec<u32>) -> Self {
        Self { ids, pictures: Vec::new() }
    }
}

/// A response that is wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The conversation. It has at most one request under way.
    pub session: SessionId,
    /// Everything before the response, earlier turns included. What a source remembers of the session never
    /// changes the result, only the work.
    pub context: Context,
    /// How tokens are picked.
    pub sampling: Sampling,
    /// Limit of the response, end token included.
    pub max_new_tokens: usize,
    /// The random stream of this response.
    pub stream: StreamKey,
    /// How many sessions, this one included, open with exactly this context (the episodes of a group). The source
    /// may compute it once for all of them.
    pub shared_by: usize,
}

/// A finished response.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    /// The conversation.
    pub session: SessionId,
    /// The sampled ids, end token included where one was sampled. Never empty.
    pub ids: Vec<u32>,
    /// Their natural log-probabilities, see [`Row::logp`](crate::row::Row::logp).
    pub logp: Vec<f32>,
    /// Why it ended.
    pub finish: Finish,
}

/// Generates many responses side by side.
///
/// Results depend on nothing but the request: not on what else is under way, not on the order of requests.
pub trait TokenSource: Send {
    /// How many sessions may be open at once and still share a step. More may be opened; they wait.
    fn capacity(&self) -> usize;

    /// Longest context plus response in tokens.
    fn max_context(&self) -> usize;

    /// Takes a request; work begins with the next [`TokenSource::advance`].
    ///
    /// # Errors
    /// [`SourceError`] when the request can never be served.
    fn submit(&mut self, request: Request) -> Result<(), SourceError>;

    /// Does a bounded piece of work (for an engine: one token for each running session) and returns the responses
    /// that ended, in any order.
    ///
    /// # Errors
    /// [`SourceError`] when the computation failed; the source is of no further use then.
    fn advance(&mut self) -> Result<Vec<Completion>, SourceError>;

    /// Requests that were taken and are not yet answered.
    fn pending(&self) -> usize;

    /// The conversation is over; forgets what was kept for it.
    fn close(&mut self, session: SessionId);

    /// What the source has done since it was made.
    fn stats(&self) -> SourceStats {
        SourceStats::default()
    }
}

/// Work done by a token source.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SourceStats {
    /// Calls of the model.
    pub forwards: u64,
    /// Context tokens that went through the model.
    pub prefilled: u64,
    /// Context tokens that were already there: earlier turns of the session, or the prompt of the group.
    pub reused: u64,
    /// Sampled tokens.
    pub sampled: u64,
    /// Largest probability seen for ids that the tokenizer does not have (they are never sampled). Anything that is
    /// not tiny means that the policy's distribution and the sampler's differ.
    pub outside_mass_max: f32,
}

impl SourceStats {
    /// The work done after `earlier`, a reading of the same source. The largest mass is that of all its time.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            forwards: self.forwards - earlier.forwards,
            prefilled: self.prefilled - earlier.prefilled,
            reused: self.reused - earlier.reused,
            sampled: self.sampled - earlier.sampled,
            outside_mass_max: self.outside_mass_max,
        }
    }

    /// The work of several sources, or of several calls, together.
    pub fn merge(&mut self, other: &Self) {
        self.forwards += other.forwards;
        self.prefilled += other.prefilled;
        self.reused += other.reused;
        self.sampled += other.sampled;
        self.outside_mass_max = self.outside_mass_max.max(other.outside_mass_max);
    }
}

/// Why a source cannot answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The way of sampling is out of range.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// The model's output cannot be sampled from.
    #[error("session {}: token {position} of the response: {source}", session.0)]
    Pick {
        /// The conversation.
        session: SessionId,
        /// Tokens sampled before.
        position: usize,
        /// What is wrong.
        source: PickError,
    },
    /// Nothing to continue.
    #[error("session {}: the context is empty; a model needs at least one token", session.0)]
    EmptyContext {
        /// The conversation.
        session: SessionId,
    },
    /// No room for a single new token.
    #[error("session {}: a context of {tokens} tokens leaves no room for a response in {limit}", session.0)]
    ContextFull {
        /// The conversation.
        session: SessionId,
        /// Tokens of the context.
        tokens: usize,
        /// The most that the source can hold.
        limit: usize,
    },
    /// There is nobody to ask.
    #[error("no token source was given")]
    NoSource,
    /// The session has a request under way.
    #[error("session {}: a second request before the first was answered", session.0)]
    Busy {
        /// The conversation.
        session: SessionId,
    },
    /// The key-value cache refused.
    #[error(transparent)]
    Cache(#[from] seed_model::CacheError),
    /// A server or another outside part failed.
    #[error("{service}: {problem}")]
    Service {
        /// What was asked.
        service: String,
        /// What went wrong and what to do.
        problem: String,
    },
}
