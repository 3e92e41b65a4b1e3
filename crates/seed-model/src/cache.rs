//! Keys and values of running sequences.
//!
//! A sequence has a slot. Tokens are appended to slots in packed batches of any composition: whole prompts, one token each,
//! or both at once ([`CausalLm::extend`]). A slot can be forked (both continue from a shared prefix), cut back and freed.
//!
//! On the CPU in f32 the cache is made of pages of 32 positions that attention reads in place. A fork shares pages; the first
//! write to a shared page copies that page alone. On other devices each slot has its own tensors, and burn's copy-on-write
//! makes a fork cheap.

use crate::batch::PackedBatch;
use crate::causal_lm::CausalLm;
use crate::config::ModelConfig;
use crate::ops;
#[cfg(feature = "cpu")]
use crate::ops::cpu::attention::write_page;
use crate::ops::cpu::attention::{Heads, PAGE};
use crate::vision::{PictureError, Prompt, Span, check_places};
use burn::module::Module;
use burn::tensor::{Device, FloatDType, Tensor, s};
use std::sync::Arc;

/// How the memory of a cache is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheLayout {
    /// Every slot owns memory for `max_len` positions from its start; a fork copies.
    Static {
        /// Most positions of a sequence.
        max_len: usize,
    },
    /// Slots take pages as they grow; a fork shares them until one side writes.
    Paged {
        /// Most positions of all slots together, shared pages counted once; rounded up to whole pages. `None`: no limit.
        max_tokens: Option<usize>,
    },
}

/// Why tokens cannot be appended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// A slot of the static layout is full.
    #[error(
        "a sequence of {len} positions gets {added} more, its slot holds {max}; raise `max_len` or shorten the sequence"
    )]
    SlotFull {
        /// Positions it has.
        len: usize,
        /// Positions to add.
        added: usize,
        /// Positions it can hold.
        max: usize,
    },
    /// The pages of the paged layout are used up.
    #[error(
        "the cache needs {needed} more pages of 32 positions, {left} are left; free slots or raise `max_tokens`"
    )]
    OutOfPages {
        /// Pages needed.
        needed: usize,
        /// Pages left.
        left: usize,
    },
    /// An id outside the vocabulary.
    #[error("id {found} is not below the vocabulary size {vocab_size}")]
    UnknownId {
        /// The id.
        found: u32,
        /// The vocabulary size.
        vocab_size: usize,
    },
    /// Pictures fit neither the tokens nor the model.
    #[error(transparent)]
    Picture(#[from] PictureError),
}

/// A sequence in a [`KvCache`]. Valid until it is freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId(usize);

/// Tokens that a forward pass appends to a slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Append {
    pub(crate) slot: SlotId,
    pub(crate) count: usize,
    /// Positions that the slot had before.
    pub(crate) position: usize,
}

/// Keys and values of all layers for a set of sequences.
#[derive(Debug)]
pub struct KvCache {
    layout: CacheLayout,
    heads: Heads,
    layers: usize,
    device: Device,
    dtype: FloatDType,
    host: bool,
    slots: Vec<Option<Slot>>,
    /// Pages that nobody uses, kept for the next ones.
    spare: Vec<Arc<Page>>,
    /// Pages in use, shared ones once.
    used: usize,
}

type Page = Vec<f32>;

#[derive(Debug, Clone, Default)]
struct Slot {
    len: usize,
    /// For each picture: its tokens, and the position of the token after it.
    pictures: Vec<(std::ops::Range<usize>, u32)>,
    /// All layers of [`PAGE`] positions each; on the host only.
    pages: Vec<Arc<Page>>,
    /// Keys and values of each layer, `[capacity, kv_heads, D]`; elsewhere only. `None` while a layer is written.
    tensors: Vec<Option<(Tensor<3>, Tensor<3>)>>,
}

impl KvCache {
    /// An empty cache for models of this configuration, on the device and in the type of the model's weights.
    pub fn new(model: &CausalLm, layout: CacheLayout) -> Self {
        let config: &ModelConfig = model.config();
        let device = model.device().inner();
        Self {
            layout,
            heads: Heads {
                query: config.num_attention_heads,
                key: config.num_key_value_heads,
                dim: config.head_dim,
            },
            layers: config.num_hidden_layers,
            host: ops::on_cpu(&model.lm_head()),
            device,
            dtype: model.dtype(),
            slots: Vec::new(),
            spare: Vec::new(),
            used: 0,
        }
    }

    /// A slot without positions.
    pub fn add(&mut self) -> SlotId {
        self.place(Slot::default())
    }

    /// A second slot with the same positions. Both go on independently; the paged layout shares pages until one side writes.
    ///
    /// # Panics
    /// If the slot was freed.
    pub fn fork(&mut self, slot: SlotId) -> SlotId {
        let mut copy = self.slot(slot).clone();
        if matches!(self.layout, CacheLayout::Static { .. }) {
            copy.pages = copy.pages.iter().map(|page| Arc::new(Page::clone(page))).collect();
            self.used += copy.pages.len();
        }
        self.place(copy)
    }

    /// Forgets the positions from `len` on; nothing happens where there are fewer.
    ///
    /// # Panics
    /// If the slot was freed, or `len` lies inside a picture.
    pub fn truncate(&mut self, slot: SlotId, len: usize) {
        let held = self.slot_mut(slot);
        if len >= held.len {
            return;
        }
        assert!(
            held.pictures.iter().all(|(tokens, _)| len <= tokens.start || len >= tokens.end),
            "a picture is not cut"
        );
        held.pictures.retain(|(tokens, _)| tokens.end <= len);
        held.len = len;
        let keep = len.div_ceil(PAGE);
        if keep < held.pages.len() && matches!(self.layout, CacheLayout::Paged { .. }) {
            let dropped = self.slot_mut(slot).pages.split_off(keep);
            self.recycle(dropped);
        }
    }

    /// Gives a slot back.
    ///
    /// # Panics
    /// If it was freed before.
    pub fn free(&mut self, slot: SlotId) {
        let held = self.slots[slot.0].take().expect("a slot is freed once");
        self.recycle(held.pages);
    }

    /// Positions in a slot.
    ///
    /// # Panics
    /// If the slot was freed.
    pub fn len(&self, slot: SlotId) -> usize {
        self.slot(slot).len
    }

    /// Slots in use.
    pub fn slots(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    /// Whether no slot is in use.
    pub fn is_empty(&self) -> bool {
        self.slots() == 0
    }

    /// Bytes of keys and values in use, shared pages counted once.
    pub fn bytes(&self) -> usize {
        if self.host {
            return self.used * self.page_len() * size_of::<f32>();
        }
        let tensors = self.slots.iter().flatten().flat_map(|slot| slot.tensors.iter().flatten());
        tensors.map(|(k, _)| 2 * k.dims().iter().product::<usize>() * k.dtype().size()).sum()
    }

    fn place(&mut self, slot: Slot) -> SlotId {
        match self.slots.iter().position(Option::is_none) {
            Some(free) => {
                self.slots[free] = Some(slot);
                SlotId(free)
            }
            None => {
                self.slots.push(Some(slot));
                SlotId(self.slots.len() - 1)
            }
        }
    }

    fn slot(&self, slot: SlotId) -> &Slot {
        self.slots[slot.0].as_ref().expect("a slot is used before it is freed")
    }

    fn slot_mut(&mut self, slot: SlotId) -> &mut Slot {
        self.slots[slot.0].as_mut().expect("a slot is used before it is freed")
    }

    fn page_len(&self) -> usize {
        self.layers * self.heads.key * self.heads.page_len()
    }

    fn recycle(&mut self, pages: Vec<Arc<Page>>) {
        for page in pages {
            if Arc::strong_count(&page) == 1 {
                self.used -= 1;
                self.spare.push(page);
            }
        }
    }

    /// Whether pages on the host hold the cache.
    #[cfg(feature = "cpu")]
    pub(crate) fn is_host(&self) -> bool {
        self.host
    }

    /// The pages of a slot, each with all layers.
    #[cfg(feature = "cpu")]
    pub(crate) fn pages(&self, slot: SlotId) -> Vec<&[f32]> {
        self.slot(slot).pages.iter().map(|page| page.as_slice()).collect()
    }

    /// Makes room for `count` more positions in each slot, with pages that it alone holds. Changes no length.
    fn reserve(&mut self, rows: &[(SlotId, usize)]) -> Result<Vec<Append>, CacheError> {
        let appends: Vec<Append> = rows
            .iter()
            .map(|(slot, count)| Append { slot: *slot, count: *count, position: self.slot(*slot).len })
            .collect();
        if let CacheLayout::Static { max_len } = self.layout
            && let Some(full) = appends.iter().find(|row| row.position + row.count > max_len)
        {
            return Err(CacheError::SlotFull { len: full.position, added: full.count, max: max_len });
        }
        if self.host {
            self.reserve_pages(&appends)?;
        }
        Ok(appends)
    }

    fn reserve_pages(&mut self, rows: &[Append]) -> Result<(), CacheError> {
        if let CacheLayout::Paged { max_tokens: Some(max) } = self.layout {
            let needed: usize = rows
                .iter()
                .map(|row| {
                    let slot = self.slot(row.slot);
                    let shared = slot
                        .pages
                        .iter()
                        .skip(row.position / PAGE)
                        .filter(|page| Arc::strong_count(page) > 1)
                        .count();
                    (row.position + row.count).div_ceil(PAGE).saturating_sub(slot.pages.len()) + shared
                })
                .sum();
            let left = max.div_ceil(PAGE).saturating_sub(self.used);
            if needed > left {
                return Err(CacheError::OutOfPages { needed, left });
            }
        }
        for row in rows {
            let wanted = match self.layout {
                CacheLayout::Static { max_len } => max_len,
                CacheLayout::Paged { .. } => row.position + row.count,
            };
            let mut pages = std::mem::take(&mut self.slot_mut(row.slot).pages);
            while pages.len() < wanted.div_ceil(PAGE) {
                pages.push(self.fresh());
            }
            if row.count > 0 {
                let (first, last) = (row.position / PAGE, (row.position + row.count - 1) / PAGE);
                for page in &mut pages[first..=last] {
                    if Arc::strong_count(page) > 1 {
                        let mut copy = self.fresh();
                        Arc::get_mut(&mut copy).expect("a fresh page has one holder").copy_from_slice(page);
                        *page = copy;
                    }
                }
            }
            self.slot_mut(row.slot).pages = pages;
        }
        Ok(())
    }

    fn fresh(&mut self) -> Arc<Page> {
        self.used += 1;
        self.spare.pop().unwrap_or_else(|| Arc::new(vec![0.0; self.page_len()]))
    }

    /// Writes keys and values of one layer, `[T, kv_heads, D]`, to the reserved places.
    #[cfg(feature = "cpu")]
    pub(crate) fn write_on_host(&mut self, layer: usize, rows: &[Append], k: &[f32], v: &[f32]) {
        let heads = self.heads;
        let (token, layer_len) = (heads.key * heads.dim, heads.key * heads.page_len());
        let mut from = 0;
        for row in rows {
            let pages = &mut self.slot_mut(row.slot).pages;
            for position in row.position..row.position + row.count {
                let page = Arc::get_mut(&mut pages[position / PAGE]).expect("pages to write have one holder");
                let page = &mut page[layer * layer_len..(layer + 1) * layer_len];
                write_page(page, position % PAGE, heads, &k[from..from + token], &v[from..from + token]);
                from += token;
            }
        }
    }

    /// The portable form of [`cached_attention`](crate::ops): slot by slot.
    pub(crate) fn attend_on_device(
        &mut self,
        layer: usize,
        rows: &[Append],
        q: Tensor<3>,
        k: Tensor<3>,
        v: Tensor<3>,
        scale: f64,
    ) -> Tensor<3> {
        let [_, kv_heads, dim] = k.dims();
        let mut out = Vec::with_capacity(rows.len());
        let mut start = 0;
        let capacity = |needed: usize| match self.layout {
            CacheLayout::Static { max_len } => max_len,
            CacheLayout::Paged { .. } => needed.next_power_of_two().max(64),
        };
        for row in rows.iter().filter(|row| row.count > 0) {
            let end = row.position + row.count;
            let wanted = capacity(end);
            let slot = self.slots[row.slot.0].as_mut().expect("a slot is used before it is freed");
            let options = (&self.device, burn::tensor::DType::from(self.dtype));
            if slot.tensors.len() <= layer {
                slot.tensors.resize_with(layer + 1, || None);
            }
            // Taken out, so that the write below is in place where no fork shares the tensor.
            let held = slot.tensors[layer].take().unwrap_or_else(|| {
                let empty = || Tensor::zeros([wanted, kv_heads, dim], options);
                (empty(), empty())
            });
            let put = |held: Tensor<3>, new: &Tensor<3>| {
                let missing = wanted.saturating_sub(held.dims()[0]);
                let held = if missing > 0 {
                    Tensor::cat(vec![held, Tensor::zeros([missing, kv_heads, dim], options)], 0)
                } else {
                    held
                };
                held.slice_assign(s![row.position..end, .., ..], new.clone().narrow(0, start, row.count))
            };
            let (keys, values) = (put(held.0, &k), put(held.1, &v));
            let seen = |x: &Tensor<3>| x.clone().narrow(0, 0, end);
            out.push(ops::portable::attend_row(
                q.clone().narrow(0, start, row.count),
                seen(&keys),
                seen(&values),
                scale,
                true,
            ));
            slot.tensors[layer] = Some((keys, values));
            start += row.count;
        }
        Tensor::cat(out, 0)
    }
}

impl Slot {
    /// Rotary position of the next token: behind pictures it lags the number of tokens.
    fn next(&self) -> u32 {
        self.pictures.last().map_or(self.len as u32, |(tokens, after)| after + (self.len - tokens.end) as u32)
    }

    /// Takes note of tokens that were appended.
    fn append(&mut self, tokens: Prompt<'_>) {
        let mut span = Span::from(self.next());
        let mut at = 0;
        for placed in tokens.pictures {
            let range = placed.tokens();
            span.push(range.end - at, &[placed.earlier(at)]);
            self.pictures.push((self.len + range.start..self.len + range.end, span.next));
            at = range.end;
        }
        self.len += tokens.ids.len();
    }
}

impl CausalLm {
    /// Appends tokens to slots and returns their final hidden states, `[T, hidden]`, rows in the order given.
    ///
    /// As [`extend_prompts`](Self::extend_prompts), without pictures.
    ///
    /// # Errors
    /// [`CacheError`] when an id is unknown or the cache has no room; nothing was appended then.
    ///
    /// # Panics
    /// As [`extend_prompts`](Self::extend_prompts).
    pub fn extend(&self, cache: &mut KvCache, rows: &[(SlotId, &[u32])]) -> Result<Tensor<2>, CacheError> {
        let rows: Vec<(SlotId, Prompt)> = rows.iter().map(|(slot, ids)| (*slot, Prompt::text(ids))).collect();
        self.extend_prompts(cache, &rows)
    }

    /// Appends tokens and pictures to slots and returns their final hidden states, `[T, hidden]`, rows in the order given.
    ///
    /// A row may be a whole prompt, a part of one that cuts no picture, or one token; rows of different lengths mix. A slot appears
    /// once, and no row is empty. The result equals [`hidden`](Self::hidden) of the complete sequences at the same positions. Weights are
    /// read without autodiff.
    ///
    /// # Errors
    /// [`CacheError`] when an id is unknown, pictures do not fit, or the cache has no room; nothing was appended then.
    ///
    /// # Panics
    /// When a row is empty, a slot appears twice or was freed, or the cache belongs to a model of another shape.
    pub fn extend_prompts(
        &self,
        cache: &mut KvCache,
        rows: &[(SlotId, Prompt<'_>)],
    ) -> Result<Tensor<2>, CacheError> {
        if self.device().is_autodiff() {
            return self.valid().extend_prompts(cache, rows);
        }
        let mut batch = PackedBatch::default();
        for (_, prompt) in rows {
            assert!(!prompt.ids.is_empty(), "a row has tokens");
            check_places(prompt.pictures, prompt.ids.len())?;
            batch.push_prompt(*prompt);
        }
        let vocab_size = self.config().vocab_size;
        if let Some(&found) = batch.ids.iter().find(|id| **id as usize >= vocab_size) {
            return Err(CacheError::UnknownId { found, vocab_size });
        }
        self.check_pictures(&batch)?;
        let mut seen: Vec<SlotId> = rows.iter().map(|(slot, _)| *slot).collect();
        seen.sort_unstable();
        assert!(seen.windows(2).all(|pair| pair[0] != pair[1]), "a slot appears once");
        let counts: Vec<(SlotId, usize)> =
            rows.iter().map(|(slot, prompt)| (*slot, prompt.ids.len())).collect();
        let appends = cache.reserve(&counts)?;
        let mut span = Span::default();
        for (slot, prompt) in rows {
            span.next = cache.slot(*slot).next();
            span.push(prompt.ids.len(), prompt.pictures);
        }
        let (embeddings, rotary) = (self.embed(&batch), self.rotary_at(&span.axes));
        let scale = self.config().attention_scale();
        let hidden = self.hidden_with(embeddings, &rotary, |layer, q, k, v| {
            ops::cached_attention(cache, layer, &appends, q, k, v, scale)
        });
        for (slot, prompt) in rows {
            cache.slot_mut(*slot).append(*prompt);
        }
        Ok(hidden)
    }
}
