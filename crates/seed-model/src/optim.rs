//! Gradients to new weights: accumulation, clipping, AdamW, and a slowly moving copy.
//!
//! Parameters are known by the names of published files, so that state survives saving, loading and rebuilding of a model.

mod accumulate;
mod adamw;
mod ema;
mod state_file;

pub use accumulate::{ClipError, GradientAccumulator, clip_global_norm, named_gradients, sum_gradients};
pub use adamw::{AdamW, AdamWOptions, ParameterGroup};
pub use ema::Ema;
pub use state_file::StateError;
