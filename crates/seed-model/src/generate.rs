//! Sampling text from a model.
//!
//! [`generate()`] runs a list of prompts to their ends. [`Decoder`] is the layer below, for engines that schedule sequences
//! themselves: add, extend, choose, fork, free.
//!
//! A choice depends on the sequence's own logits, seed and position alone. Since the kernels give a row the same bits in any
//! company, so does a whole generation.

mod choose;
mod decoder;

pub use choose::{Choice, Decoding, Draw, Filter, TrainingSampling};
pub use decoder::{Decoder, Logits};

use crate::cache::{CacheError, CacheLayout, SlotId};
use crate::causal_lm::CausalLm;
use crate::vision::Prompt;

/// Why a generation cannot run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// A prompt without tokens.
    #[error("prompt {index} has no tokens; begin it with at least one, for example the model's first token")]
    EmptyPrompt {
        /// Which prompt.
        index: usize,
    },
    /// Not one seed for each prompt.
    #[error("{found} seeds for {needed} prompts; give one each, or one for all")]
    Seeds {
        /// Seeds given.
        found: usize,
        /// Prompts.
        needed: usize,
    },
    /// An option outside its range.
    #[error("option `{name}` is {found}, needed: {needed}")]
    Option {
        /// The option.
        name: &'static str,
        /// Its value.
        found: String,
        /// What it can be.
        needed: &'static str,
    },
    /// The cache has no room, or an id is unknown.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

/// Where the random numbers of sequences come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seeds {
    /// One seed; each prompt has its own stream by its index.
    Shared(u64),
    /// A seed for each prompt, in their order.
    Each(Vec<u64>),
}

/// How to run a list of prompts.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerateOptions {
    /// Greedy, sampled, or filtered for evaluation.
    pub decoding: Decoding,
    /// Seeds of the draws.
    pub seeds: Seeds,
    /// Most tokens of a response.
    pub max_tokens: usize,
    /// Ids that end a response; the id that did is its last token.
    pub stop_ids: Vec<u32>,
    /// Ids from here on are never chosen: rows of the head without a token. `None`: all ids can be.
    pub vocab_limit: Option<usize>,
    /// Most sequences at a time; the rest wait until others end.
    pub max_batch: usize,
    /// Layout of the cache.
    pub layout: CacheLayout,
}

impl Default for GenerateOptions {
    /// Temperature 1, seed 0, 512 tokens, no stop ids, 128 sequences at a time, pages without limit.
    fn default() -> Self {
        Self {
            decoding: Decoding::Sample(TrainingSampling { temperature: 1.0 }),
            seeds: Seeds::Shared(0),
            max_tokens: 512,
            stop_ids: Vec::new(),
            vocab_limit: None,
            max_batch: 128,
            layout: CacheLayout::Paged { max_tokens: None },
        }
    }
}

/// Why a response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Finish {
    /// Its last token is a stop id.
    Stop,
    /// It has `max_tokens` tokens.
    Length,
}

/// A response.
#[derive(Debug, Clone, PartialEq)]
pub struct Generation {
    /// Chosen ids, the stop id included.
    pub ids: Vec<u32>,
    /// Log-probability of each id under the whole softmax at the decoding's temperature (1 for greedy): what
    /// [`score`](crate::score()) gives.
    pub logp: Vec<f32>,
    /// Why it ended.
    pub finish: Finish,
}

/// A sequence that is being generated.
struct Running {
    prompt: usize,
    slot: SlotId,
    ids: Vec<u32>,
    logp: Vec<f32>,
}

/// Most prompt tokens in one forward pass.
const PREFILL: usize = 4096;

/// Generates a response for every prompt, in their order.
///
/// Equal prompts are computed once. A sequence leaves the batch when it ends, and the next prompt takes its place.
///
/// # Errors
/// [`GenerateError`] for empty prompts, unknown ids, wrong options, or a cache without room.
pub fn generate(
    model: &CausalLm,
    prompts: &[Vec<u32>],
    options: &GenerateOptions,
) -> Result<Vec<Generation>, GenerateError> {
    generate_from(model, &prompts.iter().map(|ids| Prompt::text(ids)).collect::<Vec<_>>(), options)
}

/// As [`generate()`], from prompts with pictures. Positions of the response go on after the pictures; their place holders are never
/// chosen.
///
/// # Errors
/// [`GenerateError`] as there, and for pictures that fit neither the prompt nor the model.
pub fn generate_from(
    model: &CausalLm,
    prompts: &[Prompt<'_>],
    options: &GenerateOptions,
) -> Result<Vec<Generation>, GenerateError> {
    check(model, prompts, options)?;
    let mut decoder = Decoder::new(model, options.layout);
    let mut done: Vec<Option<Generation>> = prompts.iter().map(|_| None).collect();
    let mut running: Vec<Running> = Vec::new();
    let mut next = 0;
    if options.max_tokens == 0 {
        return Ok(prompts
            .iter()
            .map(|_| Generation { ids: Vec::new(), logp: Vec::new(), finish: Finish::Length })
            .collect());
    }
    while next < prompts.len() || !running.is_empty() {
        let mut fresh = Vec::new();
        let mut tokens = 0;
        while next < prompts.len()
            && running.len() + fresh.len() < options.max_batch
            && (tokens == 0 || tokens + prompts[next].ids.len() <= PREFILL)
        {
            tokens += prompts[next].ids.len();
            fresh.push(next);
            next += 1;
        }
        let logits = if fresh.is_empty() {
            let rows: Vec<(SlotId, &[u32])> =
                running.iter().map(|r| (r.slot, &r.ids[r.ids.len() - 1..])).collect();
            decoder.extend(&rows)?
        } else {
            let (slots, logits) =
                decoder.add_prompts(&fresh.iter().map(|i| prompts[*i]).collect::<Vec<_>>())?;
            let started = fresh.iter().zip(slots).map(|(prompt, slot)| Running {
                prompt: *prompt,
                slot,
                ids: Vec::new(),
                logp: Vec::new(),
            });
            // The fresh ones go last; only they get a token this time.
            running.extend(started);
            logits
        };
        let old = running.len() - logits.rows();
        let draws: Vec<Draw> =
            running[old..].iter().map(|r| options.seeds.draw(r.prompt, r.ids.len())).collect();
        for (row, choice) in
            running[old..].iter_mut().zip(logits.choose(&options.decoding, options.vocab_limit, &draws))
        {
            row.ids.push(choice.id);
            row.logp.push(choice.logp);
        }
        running.retain_mut(|row| {
            let stopped = row.ids.last().is_some_and(|id| options.stop_ids.contains(id));
            if !stopped && row.ids.len() < options.max_tokens {
                return true;
            }
            decoder.free(row.slot);
            let finish = if stopped { Finish::Stop } else { Finish::Length };
            done[row.prompt] = Some(Generation {
                ids: std::mem::take(&mut row.ids),
                logp: std::mem::take(&mut row.logp),
                finish,
            });
            false
        });
    }
    Ok(done.into_iter().map(|generation| generation.expect("every prompt ran to its end")).collect())
}

impl Seeds {
    fn draw(&self, prompt: usize, index: usize) -> Draw {
        let (seed, stream) = match self {
            Seeds::Shared(seed) => (*seed, prompt as u64),
            Seeds::Each(seeds) => (seeds[prompt], 0),
        };
        Draw { seed, stream, index: index as u64 }
    }
}

fn check(model: &CausalLm, prompts: &[Prompt<'_>], options: &GenerateOptions) -> Result<(), GenerateError> {
    if let Some(index) = prompts.iter().position(|prompt| prompt.ids.is_empty()) {
        return Err(GenerateError::EmptyPrompt { index });
    }
    if let Seeds::Each(seeds) = &options.seeds
        && seeds.len() != prompts.len()
    {
        return Err(GenerateError::Seeds { found: seeds.len(), needed: prompts.len() });
    }
    if options.max_batch == 0 {
        return Err(GenerateError::Option { name: "max_batch", found: "0".into(), needed: "at least 1" });
    }
    let vocab_size = model.config().vocab_size;
    if options.vocab_limit.is_some_and(|limit| limit == 0 || limit > vocab_size) {
        let found = format!("{:?}", options.vocab_limit);
        return Err(GenerateError::Option {
            name: "vocab_limit",
            found,
            needed: "between 1 and the rows of the head",
        });
    }
    options.decoding.check()
}
