//! Generation over a model in this process: continuous batching, prompts shared inside a group, turns of an episode
//! continued from where they ended.
//!
//! | module | what it holds |
//! |---|---|
//! | `scheduler` | [`Engine`]: who enters, who leaves, one pass of the model for everybody |
//! | `prefix` | contexts that several sessions start from, computed once |
//!
//! Keys and values live in [`seed_model::generate::Decoder`], whose kernels give a token the same bits in any company.

mod prefix;
mod scheduler;

pub use scheduler::{Engine, EngineOptions};
