//! Continuous batching: finished sessions leave, waiting ones enter, nobody is padded.

use super::prefix::Prefixes;
use crate::row::Finish;
use crate::sampler::Sampler;
use crate::source::{Completion, Context, Request, SessionId, SourceError, SourceStats, TokenSource};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use seed_model::generate::Decoder;
use seed_model::{CacheLayout, CausalLm, Prompt, SlotId};
use std::collections::{HashMap, HashSet, VecDeque};

/// How much an engine does at once. None of it changes what it computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineOptions {
    /// Sessions that are open at once; each keeps its keys and values until it is closed.
    pub sessions: usize,
    /// Context tokens that enter the model in one pass (more only where a single context is longer).
    pub prefill_tokens: usize,
    /// Longest context plus response; the model's own limit may be lower.
    pub max_context: usize,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self { sessions: 64, prefill_tokens: 4096, max_context: usize::MAX }
    }
}

/// Generates responses with a model in this process.
///
/// It works on the weights as they are when it is made, without autodiff; after an update, [`Engine::set_model`].
pub struct Engine {
    decoder: Decoder,
    options: EngineOptions,
    max_context: usize,
    end_ids: HashSet<u32>,
    sampler: Sampler,
    /// Sessions without a request under way: the tokens that are cached for them.
    idle: HashMap<SessionId, Cached>,
    waiting: VecDeque<Request>,
    running: Vec<Running>,
    prefixes: Prefixes,
    stats: SourceStats,
}

/// The tokens whose keys and values a slot holds.
struct Cached {
    slot: SlotId,
    context: Context,
}

/// A response under way.
struct Running {
    request: Request,
    stream: ChaCha8Rng,
    slot: SlotId,
    ids: Vec<u32>,
    logp: Vec<f32>,
    /// Tokens that go through the model next: what the slot lacks of the context, later the last sampled one.
    next: Context,
}

impl Running {
    fn finish(&self, end_ids: &HashSet<u32>) -> Option<Finish> {
        if self.ids.last().is_some_and(|id| end_ids.contains(id)) {
            return Some(Finish::End);
        }
        (self.ids.len() >= self.request.max_new_tokens).then_some(Finish::Length)
    }

    fn sample(&mut self, sampler: &mut Sampler, logits: &[f32]) -> Result<f32, SourceError> {
        let pick = sampler.pick(logits, &self.request.sampling, &mut self.stream).map_err(|source| {
            SourceError::Pick { session: self.request.session, position: self.ids.len(), source }
        })?;
        self.ids.push(pick.id);
        self.logp.push(pick.logp);
        self.next = vec![pick.id].into();
        Ok(pick.outside_mass)
    }

    /// The tokens in its slot when it leaves: all but the last sampled one.
    fn cached(self) -> (Cached, Vec<u32>, Vec<f32>) {
        let mut context = self.request.context;
        context.ids.extend_from_slice(&self.ids[..self.ids.len() - 1]);
        (Cached { slot: self.slot, context }, self.ids, self.logp)
    }
}

impl Engine {
    /// An engine for a model and its tokenizer: `vocabulary` is the number of ids that may be sampled, `end_ids` end a
    /// response.
    pub fn new(
        model: CausalLm,
        vocabulary: usize,
        end_ids: impl IntoIterator<Item = u32>,
        options: EngineOptions,
    ) -> Self {
        // A place holder without a picture is nothing that a model can be asked about.
        let place_holders = model.config().vision.iter().flat_map(|v| [v.image_token_id, v.video_token_id]);
        let sampler = Sampler::new(vocabulary).never(place_holders);
        Self {
            decoder: Decoder::new(&model, CacheLayout::Paged { max_tokens: None }),
            max_context: options.max_context.min(model.config().max_position_embeddings),
            options,
            end_ids: end_ids.into_iter().collect(),
            sampler,
            idle: HashMap::new(),
            waiting: VecDeque::new(),
            running: Vec::new(),
            prefixes: Prefixes::default(),
            stats: SourceStats::default(),
        }
    }

    /// Goes on with other weights of the same shape; everything computed with the old ones is forgotten.
    ///
    /// Call it between collections: requests under way would mix two policies and are dropped.
    pub fn set_model(&mut self, model: CausalLm) {
        self.decoder = Decoder::new(&model, CacheLayout::Paged { max_tokens: None });
        self.idle.clear();
        self.waiting.clear();
        self.running.clear();
        self.prefixes = Prefixes::default();
    }

    /// Bytes of cached keys and values now, shared ones counted once.
    pub fn cache_bytes(&self) -> usize {
        self.decoder.cache().bytes()
    }

    fn is_busy(&self, session: SessionId) -> bool {
        self.running.iter().any(|running| running.request.session == session)
            || self.waiting.iter().any(|request| request.session == session)
    }

    /// Takes from the queue what fits into this step: sessions that hold a slot may always go on, new ones need a seat.
    /// Returns those whose context has to be computed, and those that find it in a prefix, with its logits.
    fn admit(&mut self) -> (Vec<Running>, Vec<(Running, Vec<f32>)>) {
        let mut seats = self.capacity().saturating_sub(self.idle.len() + self.running.len());
        let (mut computing, mut ready) = (Vec::new(), Vec::new());
        // contexts that are computed in this very step: the others of the group wait for the next one
        let mut pioneers: HashSet<Context> = HashSet::new();
        let mut tokens = 0;
        for request in std::mem::take(&mut self.waiting) {
            let known = self.idle.get(&request.session);
            let shared = known.is_none() && self.prefixes.has(&request.context);
            let common = known.map_or(0, |cached| cached.context.common(&request.context));
            // the last token is always computed: its logits are needed
            let common = request.context.before_picture(common.min(request.context.len() - 1));
            let work = if shared { 0 } else { request.context.len() - common };
            let full = tokens > 0 && tokens + work > self.options.prefill_tokens;
            let known = known.is_some();
            if full || pioneers.contains(&request.context) || (!known && seats == 0) {
                self.waiting.push_back(request);
                continue;
            }
            tokens += work;
            seats -= usize::from(!known);
            self.stats.prefilled += work as u64;
            self.stats.reused += (request.context.len() - work) as u64;
            let prefix = if shared { self.prefixes.take(&mut self.decoder, &request.context) } else { None };
            if let Some((slot, logits)) = prefix {
                ready.push((start(request, slot, Context::default()), logits));
                continue;
            }
            if request.shared_by > 1 {
                pioneers.insert(request.context.clone());
            }
            let (slot, missing) = match self.idle.remove(&request.session) {
                None => (self.decoder.open(), request.context.clone()),
                Some(cached) => {
                    self.decoder.truncate(cached.slot, common);
                    (cached.slot, request.context.tail(common))
                }
            };
            computing.push(start(request, slot, missing));
        }
        (computing, ready)
    }

    /// Samples the next token of each response from its logits.
    fn sample<'a>(
        &mut self,
        running: &mut [Running],
        logits: impl Fn(usize) -> &'a [f32] + Sync,
    ) -> Result<(), SourceError> {
        let sampler = &self.sampler;
        let masses: Vec<f32> = running
            .par_iter_mut()
            .enumerate()
            .map_init(|| sampler.clone(), |sampler, (index, running)| running.sample(sampler, logits(index)))
            .collect::<Result<_, SourceError>>()?;
        self.stats.sampled += masses.len() as u64;
        self.stats.outside_mass_max = masses.into_iter().fold(self.stats.outside_mass_max, f32::max);
        Ok(())
    }

    /// Those who are at the end leave; their keys and values stay for the next turn.
    fn leave(&mut self) -> Vec<Completion> {
        let mut completions = Vec::new();
        for running in std::mem::take(&mut self.running) {
            let Some(finish) = running.finish(&self.end_ids) else {
                self.running.push(running);
                continue;
            };
            let session = running.request.session;
            let (cached, ids, logp) = running.cached();
            self.idle.insert(session, cached);
            completions.push(Completion { session, ids, logp, finish });
        }
        completions
    }
}

impl TokenSource for Engine {
    fn capacity(&self) -> usize {
        self.options.sessions.max(1)
    }

    fn max_context(&self) -> usize {
        self.max_context
    }

    fn submit(&mut self, request: Request) -> Result<(), SourceError> {
        let session = request.session;
        request.sampling.check()?;
        if request.context.is_empty() {
            return Err(SourceError::EmptyContext { session });
        }
        let (tokens, limit) = (request.context.len(), self.max_context);
        if request.max_new_tokens == 0 || tokens + request.max_new_tokens > limit {
            return Err(SourceError::ContextFull { session, tokens, limit });
        }
        if self.is_busy(session) {
            return Err(SourceError::Busy { session });
        }
        self.waiting.push_back(request);
        Ok(())
    }

    /// One pass of the model: a token for everybody who is running, the contexts of those who enter, and their first
    /// tokens.
    fn advance(&mut self) -> Result<Vec<Completion>, SourceError> {
        let (mut entering, ready) = self.admit();
        // whose context is kept for the others of its group
        let pioneers = self.running.len()..self.running.len() + entering.len();
        self.running.append(&mut entering);
        let mut running = std::mem::take(&mut self.running);
        if !running.is_empty() {
            let rows: Vec<(SlotId, Prompt)> =
                running.iter().map(|running| (running.slot, running.next.as_prompt())).collect();
            let logits = self.decoder.extend_prompts(&rows)?;
            self.stats.forwards += 1;
            for (running, index) in running[pioneers.clone()].iter().zip(pioneers) {
                let (request, users) = (&running.request, running.request.shared_by.saturating_sub(1));
                if users > 0 {
                    let (context, limit) = (request.context.clone(), self.options.sessions.max(1));
                    let logits = logits.row(index).to_vec();
                    self.prefixes.keep(&mut self.decoder, context, running.slot, logits, users, limit);
                }
            }
            self.sample(&mut running, |index| logits.row(index))?;
        }
        if !ready.is_empty() {
            let (mut entered, logits): (Vec<Running>, Vec<Vec<f32>>) = ready.into_iter().unzip();
            self.sample(&mut entered, |index| &logits[index])?;
            running.append(&mut entered);
        }
        self.running = running;
        Ok(self.leave())
    }

    fn pending(&self) -> usize {
        self.waiting.len() + self.running.len()
    }

    fn close(&mut self, session: SessionId) {
        self.waiting.retain(|request| request.session != session);
        let running = self.running.iter().position(|running| running.request.session == session);
        let slot = running.map(|index| self.running.swap_remove(index).slot);
        if let Some(slot) = slot.or_else(|| self.idle.remove(&session).map(|cached| cached.slot)) {
            self.decoder.free(slot);
        }
    }

    fn stats(&self) -> SourceStats {
        self.stats
    }
}

fn start(request: Request, slot: SlotId, next: Context) -> Running {
    let stream = request.stream.stream();
    Running { request, stream, slot, ids: Vec::new(), logp: Vec::new(), next }
}
