//! Stepping sequences through a model.

use super::choose::{Choice, Decoding, Draw, choose};
use crate::cache::{CacheError, CacheLayout, KvCache, SlotId};
use crate::causal_lm::CausalLm;
use crate::ops;
use crate::vision::Prompt;
use burn::module::Module;
use burn::tensor::{FloatDType, Int, Tensor, TensorData};
use rayon::prelude::*;
use std::collections::HashMap;

/// A model with the cache of its running sequences.
#[derive(Debug)]
pub struct Decoder {
    model: CausalLm,
    cache: KvCache,
}

/// Logits of the last token of some sequences, `[rows, vocab]` in f32 on the host.
#[derive(Debug, Clone)]
pub struct Logits {
    values: Vec<f32>,
    vocab_size: usize,
    /// Place holders of pictures and videos: never chosen.
    place_holders: Vec<u32>,
}

impl Decoder {
    /// A decoder without sequences. It shares the model's weights as they are now, without autodiff.
    pub fn new(model: &CausalLm, layout: CacheLayout) -> Self {
        let model = if model.device().is_autodiff() { model.valid() } else { model.clone() };
        let cache = KvCache::new(&model, layout);
        Self { model, cache }
    }

    /// Starts a sequence for each prompt; equal prompts are computed once and share their pages. Returns the slots and the
    /// logits of each prompt's last token, in the order of the prompts.
    ///
    /// # Errors
    /// [`CacheError`]; no sequence was started then.
    ///
    /// # Panics
    /// When a prompt is empty.
    pub fn add(&mut self, prompts: &[&[u32]]) -> Result<(Vec<SlotId>, Logits), CacheError> {
        self.add_prompts(&prompts.iter().map(|ids| Prompt::text(ids)).collect::<Vec<_>>())
    }

    /// As [`add`](Self::add), for prompts with pictures: equal ones have equal tokens and equal pictures.
    ///
    /// # Errors
    /// [`CacheError`]; no sequence was started then.
    ///
    /// # Panics
    /// When a prompt is empty.
    pub fn add_prompts(&mut self, prompts: &[Prompt<'_>]) -> Result<(Vec<SlotId>, Logits), CacheError> {
        let mut first: HashMap<Prompt, usize> = HashMap::new();
        let mut distinct: Vec<Prompt> = Vec::new();
        let of: Vec<usize> = prompts
            .iter()
            .map(|prompt| {
                *first.entry(*prompt).or_insert_with(|| {
                    distinct.push(*prompt);
                    distinct.len() - 1
                })
            })
            .collect();
        let slots: Vec<SlotId> = distinct.iter().map(|_| self.cache.add()).collect();
        let rows: Vec<(SlotId, Prompt)> = slots.iter().copied().zip(distinct).collect();
        let logits = match self.extend_prompts(&rows) {
            Ok(logits) => logits,
            Err(error) => {
                slots.into_iter().for_each(|slot| self.cache.free(slot));
                return Err(error);
            }
        };
        let mut taken = vec![false; slots.len()];
        let mut values = Vec::with_capacity(prompts.len() * logits.vocab_size);
        let slots = of
            .iter()
            .map(|&i| {
                values.extend_from_slice(logits.row(i));
                if std::mem::replace(&mut taken[i], true) { self.cache.fork(slots[i]) } else { slots[i] }
            })
            .collect();
        Ok((slots, Logits { values, ..logits }))
    }

    /// A sequence without tokens; [`extend`](Self::extend) fills it.
    pub fn open(&mut self) -> SlotId {
        self.cache.add()
    }

    /// Appends tokens to running sequences, any number each and at least one, and returns the logits of each row's last token.
    ///
    /// # Errors
    /// [`CacheError`]; nothing was appended then.
    ///
    /// # Panics
    /// As [`CausalLm::extend`].
    pub fn extend(&mut self, rows: &[(SlotId, &[u32])]) -> Result<Logits, CacheError> {
        self.extend_prompts(&rows.iter().map(|(slot, ids)| (*slot, Prompt::text(ids))).collect::<Vec<_>>())
    }

    /// As [`extend`](Self::extend), with pictures among the tokens.
    ///
    /// # Errors
    /// [`CacheError`]; nothing was appended then.
    ///
    /// # Panics
    /// As [`CausalLm::extend_prompts`].
    pub fn extend_prompts(&mut self, rows: &[(SlotId, Prompt<'_>)]) -> Result<Logits, CacheError> {
        let hidden = self.model.extend_prompts(&mut self.cache, rows)?;
        let mut end = 0;
        let last: Vec<i32> = rows
            .iter()
            .map(|(_, prompt)| {
                end += prompt.ids.len();
                end as i32 - 1
            })
            .collect();
        let hidden = if last.len() == end {
            hidden
        } else {
            let count = last.len();
            let last = Tensor::<1, Int>::from_data(TensorData::new(last, [count]), &hidden.device());
            hidden.select(0, last)
        };
        Ok(self.logits(hidden))
    }

    /// As [`extend`](Self::extend), with the logits of every token appended: for checking drafts.
    ///
    /// # Errors
    /// [`CacheError`]; nothing was appended then.
    pub fn extend_all(&mut self, rows: &[(SlotId, &[u32])]) -> Result<Logits, CacheError> {
        let hidden = self.model.extend(&mut self.cache, rows)?;
        Ok(self.logits(hidden))
    }

    fn logits(&self, hidden: Tensor<2>) -> Logits {
        let logits = ops::linear(hidden, self.model.lm_head(), None).cast(FloatDType::F32);
        let vocab_size = logits.dims()[1];
        let values = logits.into_data().try_into_vec::<f32>().expect("logits were cast to f32");
        let vision = self.model.config().vision.as_ref();
        let place_holders = vision.map_or_else(Vec::new, |v| vec![v.image_token_id, v.video_token_id]);
        Logits { values, vocab_size, place_holders }
    }

    /// A second sequence with the same tokens so far.
    pub fn fork(&mut self, slot: SlotId) -> SlotId {
        self.cache.fork(slot)
    }

    /// Ends a sequence.
    pub fn free(&mut self, slot: SlotId) {
        self.cache.free(slot);
    }

    /// Cuts a sequence back to `len` tokens.
    pub fn truncate(&mut self, slot: SlotId, len: usize) {
        self.cache.truncate(slot, len);
    }

    /// The cache: lengths, bytes.
    pub fn cache(&self) -> &KvCache {
        &self.cache
    }

    /// The model that decodes.
    pub fn model(&self) -> &CausalLm {
        &self.model
    }
}

impl Logits {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.values.len() / self.vocab_size
    }

    /// Logits of one row, temperature not applied.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.vocab_size..(row + 1) * self.vocab_size]
    }

    /// Chooses a token for each row; ids from `vocab_limit` on and place holders of pictures are never chosen. Log-probabilities are
    /// those of the whole softmax all the same.
    ///
    /// # Panics
    /// When there is not one draw for each row.
    pub fn choose(&self, decoding: &Decoding, vocab_limit: Option<usize>, draws: &[Draw]) -> Vec<Choice> {
        assert_eq!(draws.len(), self.rows(), "one draw for each row");
        let limit = vocab_limit.unwrap_or(self.vocab_size).min(self.vocab_size);
        let rows = self.values.par_chunks(self.vocab_size).zip(draws);
        let one =
            |(logits, draw): (&[f32], &Draw)| choose(logits, decoding, limit, &self.place_holders, *draw);
        rows.with_min_len(4).map(one).collect()
    }
}
