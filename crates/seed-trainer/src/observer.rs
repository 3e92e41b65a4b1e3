//! What the trainer tells whoever watches: a terminal, a test, another program.

use crate::metrics::Record;

/// One thing that happened.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A piece of work starts; `total` pieces if that is known.
    Started {
        /// What is done, e.g. `roll-out`.
        what: &'a str,
        /// How many pieces it has.
        total: Option<u64>,
    },
    /// So many pieces more are done.
    Advanced(u64),
    /// The piece of work is over.
    Finished,
    /// An optimiser-level step of a stage is complete.
    Step {
        /// `sft` or `rl`.
        stage: &'a str,
        /// Steps done.
        step: u64,
        /// Steps in all.
        total: u64,
        /// Its numbers.
        record: &'a Record,
    },
    /// Something that a person should read once.
    Note(&'a str),
}

/// Receives events; called from the training thread and from collecting threads.
pub trait Observer: Sync {
    /// Takes one event.
    fn event(&self, event: Event<'_>);
}

/// Ignores everything.
#[derive(Debug, Default, Clone, Copy)]
pub struct Silent;

impl Observer for Silent {
    fn event(&self, _event: Event<'_>) {}
}
