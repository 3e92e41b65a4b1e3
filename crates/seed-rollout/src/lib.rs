//! Episodes as token rows: sampling engine, grouped multi-turn collection, recorded roll-outs.
//!
//! | module | what it holds |
//! |---|---|
//! | [`row`] | the token row: ids, mask, log-probabilities, where they come from |
//! | [`template`], [`history`] | the words around what an environment says |
//! | [`dialogue`] | text to prompt ids and back; what stands between turns |
//! | [`eyes`] | frames of an environment as pictures of a model |
//! | [`sampler`] | a token from logits; named random streams |
//! | [`source`] | the boundary between collection and generation |
//! | [`engine`] | a token source over a model in this process |
//! | [`batch`] | one response each for many prompts |
//! | [`collect`] | grouped multi-turn episodes; start at [`collect::Collector`] |
//! | [`record`], [`replay`] | episodes on disk, and how to look at them |
//! | [`suites`] | environments by name |
//!
//! No losses and no training types: the crate works on a model without autodiff.

#![forbid(unsafe_code)]

pub mod batch;
pub mod collect;
pub mod dialogue;
pub mod engine;
mod episode;
pub mod eyes;
mod frames;
pub mod history;
pub mod record;
pub mod replay;
pub mod row;
pub mod sampler;
pub mod source;
pub mod suites;
pub mod template;

pub use history::{History, PastStep};
pub use template::{Prompt, PromptTemplate, StepContext, TemplateError};
