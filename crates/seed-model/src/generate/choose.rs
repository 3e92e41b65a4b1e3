//! Choosing a token from its logits.

use super::GenerateError;
use crate::ops::cpu::logprob::softmax_of;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::borrow::Cow;

/// How tokens are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Decoding {
    /// The largest logit, the lowest id among equals.
    Greedy,
    /// The distribution that the model is trained on: nothing but a temperature.
    Sample(TrainingSampling),
    /// For evaluation only: part of the distribution. The log-probabilities are still those of the whole.
    Filtered(Filter),
}

/// Sampling for training roll-outs. It has a temperature and no filter, so that the probability of every token is the one that
/// the trainer computes: a roll-out engine that takes this type cannot be given top-k or top-p.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainingSampling {
    /// Divides the logits; positive.
    pub temperature: f64,
}

/// A temperature and what is left of the distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Filter {
    /// Divides the logits; positive.
    pub temperature: f64,
    /// Only the `k` most probable tokens.
    pub top_k: Option<usize>,
    /// Only the most probable tokens that together reach this probability; the one that reaches it is kept.
    pub top_p: Option<f64>,
}

/// A random number by its place: a sequence's seed and stream, and the index of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw {
    /// Seed of the ChaCha generator.
    pub seed: u64,
    /// Stream of the generator.
    pub stream: u64,
    /// Index of the token in its response.
    pub index: u64,
}

/// A chosen token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// The id.
    pub id: u32,
    /// Its log-probability under the whole softmax at the decoding's temperature (1 for greedy).
    pub logp: f32,
}

impl Draw {
    /// A number in [0, 1) with 53 random bits.
    pub fn uniform(&self) -> f64 {
        let mut generator = ChaCha8Rng::seed_from_u64(self.seed);
        generator.set_stream(self.stream);
        generator.set_word_pos(u128::from(self.index) * 2);
        (generator.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl Decoding {
    /// Divides the logits of the log-probabilities.
    pub fn temperature(&self) -> f64 {
        match self {
            Decoding::Greedy => 1.0,
            Decoding::Sample(sampling) => sampling.temperature,
            Decoding::Filtered(filter) => filter.temperature,
        }
    }

    /// Checks the ranges of the options.
    pub(super) fn check(&self) -> Result<(), GenerateError> {
        let temperature = self.temperature();
        if !(temperature > 0.0 && temperature.is_finite()) {
            let found = temperature.to_string();
            return Err(GenerateError::Option {
                name: "temperature",
                found,
                needed: "a positive number; use greedy decoding for 0",
            });
        }
        if let Decoding::Filtered(filter) = self {
            if filter.top_k == Some(0) {
                return Err(GenerateError::Option { name: "top_k", found: "0".into(), needed: "at least 1" });
            }
            if filter.top_p.is_some_and(|p| !(p > 0.0 && p <= 1.0)) {
                return Err(GenerateError::Option {
                    name: "top_p",
                    found: format!("{:?}", filter.top_p),
                    needed: "in (0, 1]",
                });
            }
        }
        Ok(())
    }
}

/// Chooses among the first `limit` ids, `never` left out.
pub(super) fn choose(logits: &[f32], decoding: &Decoding, limit: usize, never: &[u32], draw: Draw) -> Choice {
    let temperature = decoding.temperature() as f32;
    let mut allowed = Cow::Borrowed(&logits[..limit]);
    for &id in never.iter().filter(|id| (**id as usize) < limit) {
        allowed.to_mut()[id as usize] = f32::NEG_INFINITY;
    }
    let allowed = &allowed;
    let id = match decoding {
        Decoding::Greedy => largest(allowed),
        Decoding::Sample(_) => sample(allowed, temperature, draw),
        Decoding::Filtered(filter) => filtered(allowed, filter, draw),
    };
    let mut scaled = logits.to_vec();
    Choice { id: id as u32, logp: softmax_of(&mut scaled, id, temperature).logp() }
}

fn largest(logits: &[f32]) -> usize {
    logits.iter().enumerate().fold(0, |best, (i, x)| if *x > logits[best] { i } else { best })
}

/// Unnormalised probabilities at a temperature; the largest is 1.
fn weights(logits: &[f32], temperature: f32) -> impl Iterator<Item = f64> {
    let top = logits[largest(logits)];
    logits.iter().map(move |x| f64::from((x - top) / temperature).exp())
}

/// The first id at which the running sum passes the drawn share.
fn pick(weights: &[f64], draw: Draw) -> usize {
    let goal = draw.uniform() * weights.iter().sum::<f64>();
    let mut sum = 0.0;
    let mut last = 0;
    for (i, weight) in weights.iter().enumerate() {
        if *weight > 0.0 {
            sum += weight;
            last = i;
            if sum > goal {
                return i;
            }
        }
    }
    last
}

fn sample(logits: &[f32], temperature: f32, draw: Draw) -> usize {
    pick(&weights(logits, temperature).collect::<Vec<_>>(), draw)
}

fn filtered(logits: &[f32], filter: &Filter, draw: Draw) -> usize {
    let mut weights: Vec<f64> = weights(logits, filter.temperature as f32).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    // Equal weights in the order of their ids.
    order.sort_by(|a, b| weights[*b].total_cmp(&weights[*a]));
    let mut keep = filter.top_k.unwrap_or(weights.len()).min(weights.len());
    if let Some(p) = filter.top_p {
        let goal = p * order[..keep].iter().map(|i| weights[*i]).sum::<f64>();
        let mut sum = 0.0;
        let needed = order[..keep].iter().take_while(|i| {
            let open = sum < goal;
            sum += weights[**i];
            open
        });
        keep = needed.count().max(1);
    }
    order[keep..].iter().for_each(|i| weights[*i] = 0.0);
    pick(&weights, draw)
}
