//! Contexts that several sessions start from: the prompt of a group.

use crate::source::Context;
use seed_model::SlotId;
use seed_model::generate::Decoder;

/// A context that was computed once, with what its last position predicts.
struct Prefix {
    context: Context,
    slot: SlotId,
    logits: Vec<f32>,
    /// Sessions that are still to come.
    users: usize,
}

/// The contexts that are kept for sessions to come, oldest first.
#[derive(Default)]
pub(super) struct Prefixes {
    kept: Vec<Prefix>,
}

impl Prefixes {
    /// Keeps the context in `slot` for `users` further sessions. At most `limit` contexts are kept: the oldest goes, and
    /// whoever comes for it computes it again.
    pub(super) fn keep(
        &mut self,
        decoder: &mut Decoder,
        context: Context,
        slot: SlotId,
        logits: Vec<f32>,
        users: usize,
        limit: usize,
    ) {
        if self.kept.len() >= limit {
            decoder.free(self.kept.remove(0).slot);
        }
        let slot = decoder.fork(slot);
        self.kept.push(Prefix { context, slot, logits, users });
    }

    /// Whether a context is there.
    pub(super) fn has(&self, context: &Context) -> bool {
        self.kept.iter().any(|prefix| prefix.context == *context)
    }

    /// A slot with this context for one of its users, and the logits after it. The last user takes the kept slot itself.
    pub(super) fn take(&mut self, decoder: &mut Decoder, context: &Context) -> Option<(SlotId, Vec<f32>)> {
        let index = self.kept.iter().position(|prefix| prefix.context == *context)?;
        let prefix = &mut self.kept[index];
        prefix.users -= 1;
        if prefix.users == 0 {
            let prefix = self.kept.remove(index);
            return Some((prefix.slot, prefix.logits));
        }
        Some((decoder.fork(prefix.slot), prefix.logits.clone()))
    }
}
