//! Picking a token from logits, with a named random stream for every response.
//!
//! Temperature divides the logits. The log-probability that is kept is that of the whole softmax over the model's
//! vocabulary, exactly what [`seed_model::score`] computes, so that both sides of a ratio mean the same.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What a random stream is for. Streams of different purposes never meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Training roll-outs.
    Rollout,
    /// Roll-outs of an evaluation panel.
    Evaluation,
    /// Skills written by the analyzer.
    Analysis,
    /// Whatever is random inside the environments of training.
    Environment,
    /// Which tasks come next.
    Tasks,
}

impl Purpose {
    /// The name that enters the key of the stream.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rollout => "rollout",
            Self::Evaluation => "evaluation",
            Self::Analysis => "analysis",
            Self::Environment => "environment",
            Self::Tasks => "tasks",
        }
    }
}

/// The place of a random stream: every response of a run has its own.
///
/// The ChaCha key is the SHA-256 of all fields, hence draws in one place never depend on how many draws another
/// place made, on batching or on threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamKey {
    /// The run's seed.
    pub run_seed: u64,
    /// What the draws are for.
    pub purpose: Purpose,
    /// Update of the trainer; 0 outside of training.
    pub update: u64,
    /// Group inside the update.
    pub group: u64,
    /// Episode inside the group.
    pub episode: u64,
    /// Turn inside the episode.
    pub turn: u64,
}

impl StreamKey {
    /// The first stream of a purpose: all counters 0.
    pub fn new(run_seed: u64, purpose: Purpose) -> Self {
        Self { run_seed, purpose, update: 0, group: 0, episode: 0, turn: 0 }
    }

    /// The generator at the start of this stream.
    pub fn stream(self) -> ChaCha8Rng {
        let mut hash = Sha256::new();
        hash.update(b"seed stream 1\0");
        hash.update(self.purpose.name());
        for number in [self.run_seed, self.update, self.group, self.episode, self.turn] {
            hash.update(number.to_le_bytes());
        }
        ChaCha8Rng::from_seed(hash.finalize().into())
    }

    /// One number of this stream, for whoever needs a seed instead of a generator.
    pub fn seed(self) -> u64 {
        self.stream().next_u64()
    }
}

/// How tokens are picked.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sampling {
    /// Divides the logits; 0 picks the most probable token.
    pub temperature: f64,
    /// Keeps the smallest set of most probable tokens whose mass reaches this; 1 keeps all.
    pub top_p: f64,
    /// Keeps this many most probable tokens; `None` keeps all.
    pub top_k: Option<usize>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { temperature: 1.0, top_p: 1.0, top_k: None }
    }
}

impl Sampling {
    /// Always the most probable token.
    pub fn greedy() -> Self {
        Self { temperature: 0.0, ..Self::default() }
    }

    /// Plain sampling at a temperature.
    pub fn at(temperature: f64) -> Self {
        Self { temperature, ..Self::default() }
    }

    /// The temperature under which log-probabilities are reported: 1 for greedy sampling.
    pub fn scoring_temperature(&self) -> f64 {
        if self.temperature == 0.0 { 1.0 } else { self.temperature }
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// [`SamplingError::Range`] with the key, what was found and what is allowed.
    pub fn check(&self) -> Result<(), SamplingError> {
        if !(self.temperature.is_finite() && self.temperature >= 0.0) {
            return Err(SamplingError::Range {
                key: "temperature",
                found: self.temperature,
                expected: "0 (greedy) or more",
            });
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return Err(SamplingError::Range {
                key: "top_p",
                found: self.top_p,
                expected: "above 0, at most 1",
            });
        }
        if self.top_k == Some(0) {
            return Err(SamplingError::Range { key: "top_k", found: 0.0, expected: "at least 1, or none" });
        }
        Ok(())
    }

    /// Checks that roll-outs sampled like this may train a policy: every token has a chance, none was filtered.
    ///
    /// # Errors
    /// As [`Sampling::check`]; [`SamplingError::Filtered`] for `top_k`, `top_p` or greedy sampling.
    pub fn check_for_training(&self) -> Result<(), SamplingError> {
        self.check()?;
        let key = if self.temperature == 0.0 {
            "temperature = 0"
        } else if self.top_p < 1.0 {
            "top_p"
        } else if self.top_k.is_some() {
            "top_k"
        } else {
            return Ok(());
        };
        Err(SamplingError::Filtered { key })
    }
}

/// Why a way of sampling is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SamplingError {
    /// A number outside of its range.
    #[error("`{key}` is {found}, expected {expected}")]
    Range {
        /// The setting.
        key: &'static str,
        /// Its value.
        found: f64,
        /// What is allowed.
        expected: &'static str,
    },
    /// The sampler would draw from another distribution than the one that is trained.
    #[error(
        "`{key}` draws from another distribution than the one that is trained; remove it for training (evaluation may use it)"
    )]
    Filtered {
        /// The setting.
        key: &'static str,
    },
}

/// A picked token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pick {
    /// The token.
    pub id: u32,
    /// Its natural log-probability in softmax(logits / temperature) over *all* logits.
    pub logp: f32,
    /// The probability of ids that no tokenizer entry stands behind; the sampler never picks them.
    pub outside_mass: f32,
}

/// Picks tokens from logits; keeps its buffers between calls.
#[derive(Debug, Clone)]
pub struct Sampler {
    vocabulary: usize,
    never: Vec<u32>,
    weights: Vec<f32>,
    order: Vec<u32>,
}

impl Sampler {
    /// A sampler that picks ids below `vocabulary`, the size of the tokenizer. Embedding matrices often have more
    /// rows than that; no text stands behind those.
    pub fn new(vocabulary: usize) -> Self {
        Self { vocabulary, never: Vec::new(), weights: Vec::new(), order: Vec::new() }
    }

    /// Leaves out some ids below the vocabulary, too: place holders of pictures.
    pub fn never(mut self, ids: impl IntoIterator<Item = u32>) -> Self {
        self.never.extend(ids);
        self
    }

    /// Picks one token from the `logits` of one position, one draw of `stream` (none for greedy sampling).
    ///
    /// Ties in greedy sampling go to the smallest id.
    ///
    /// # Errors
    /// [`PickError`] when a logit is not a number or the vocabulary is empty.
    pub fn pick(
        &mut self,
        logits: &[f32],
        sampling: &Sampling,
        stream: &mut ChaCha8Rng,
    ) -> Result<Pick, PickError> {
        let allowed = self.vocabulary.min(logits.len());
        if allowed == 0 {
            return Err(PickError::NoVocabulary { logits: logits.len(), vocabulary: self.vocabulary });
        }
        let (mut best, mut top) = (None::<usize>, f32::NEG_INFINITY);
        for (id, &logit) in logits.iter().enumerate() {
            if logit.is_nan() || logit == f32::INFINITY {
                return Err(PickError::NotFinite);
            }
            top = top.max(logit);
            if id < allowed
                && best.is_none_or(|best| logit > logits[best])
                && !self.never.contains(&(id as u32))
            {
                best = Some(id);
            }
        }
        if top == f32::NEG_INFINITY {
            return Err(PickError::NotFinite);
        }
        let Some(best) = best else {
            return Err(PickError::NoVocabulary { logits: logits.len(), vocabulary: self.vocabulary });
        };
        let shifted = |logit: f32| (f64::from(logit) - f64::from(top)) / sampling.scoring_temperature();

        self.weights.clear();
        let scale = (1.0 / sampling.scoring_temperature()) as f32;
        self.weights.extend(logits.iter().map(|&logit| ((logit - top) * scale).exp()));
        let sum = |weights: &[f32]| weights.iter().map(|&weight| f64::from(weight)).sum::<f64>();
        let mut inside = sum(&self.weights[..allowed]);
        let total = inside + sum(&self.weights[allowed..]);
        for &id in self.never.iter().filter(|id| (**id as usize) < allowed) {
            inside -= f64::from(std::mem::take(&mut self.weights[id as usize]));
        }

        let id = if sampling.temperature == 0.0 {
            best
        } else if sampling.top_p < 1.0 || sampling.top_k.is_some() {
            self.draw_filtered(allowed, inside, sampling, uniform(stream))
        } else {
            draw(self.weights[..allowed].iter().copied(), inside * uniform(stream)).unwrap_or(best)
        };
        let logp = shifted(logits[id]) - total.ln();
        let outside_mass = ((total - inside) / total) as f32;
        Ok(Pick { id: id as u32, logp: logp.min(0.0) as f32, outside_mass })
    }

    fn draw_filtered(&mut self, allowed: usize, inside: f64, sampling: &Sampling, uniform: f64) -> usize {
        let weights = &self.weights;
        self.order.clear();
        self.order.extend(0..allowed as u32);
        // by falling weight, then by id, so that ties are the same everywhere
        self.order
            .sort_unstable_by(|&a, &b| weights[b as usize].total_cmp(&weights[a as usize]).then(a.cmp(&b)));
        self.order.truncate(sampling.top_k.unwrap_or(allowed));
        let mut mass = 0.0;
        let mut kept = 0;
        for &id in &self.order {
            mass += f64::from(weights[id as usize]);
            kept += 1;
            if mass >= sampling.top_p * inside {
                break;
            }
        }
        self.order.truncate(kept);
        let index = draw(self.order.iter().map(|&id| weights[id as usize]), mass * uniform);
        self.order[index.unwrap_or(0)] as usize
    }
}

/// Why no token can be picked.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PickError {
    /// The model computed something that is not a number.
    #[error("the logits are not finite; the weights are damaged or training has diverged")]
    NotFinite,
    /// There is nothing to pick from.
    #[error("nothing to sample from: {logits} logits, {vocabulary} tokens in the tokenizer")]
    NoVocabulary {
        /// Logits of the position.
        logits: usize,
        /// Tokens of the tokenizer.
        vocabulary: usize,
    },
}

/// The first index whose running sum exceeds `target`; rounding at the end falls back to the last positive weight.
fn draw(weights: impl Iterator<Item = f32>, target: f64) -> Option<usize> {
    let mut sum = 0.0;
    let mut last = None;
    for (index, weight) in weights.enumerate() {
        if weight > 0.0 {
            sum += f64::from(weight);
            last = Some(index);
            if sum > target {
                break;
            }
        }
    }
    last
}

/// A number in `[0, 1)` with 53 random bits.
fn uniform(stream: &mut ChaCha8Rng) -> f64 {
    (stream.next_u64() >> 11) as f64 * (-53f64).exp2()
}
