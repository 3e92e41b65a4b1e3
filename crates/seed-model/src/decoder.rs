//! The decoder that all families share. Module and field names are the paths of published checkpoints, so that a weight's
//! name in a file is its path in the module tree: `model.layers.0.self_attn.q_proj.weight`.

mod attention;
mod block;
mod linear;
mod mlp;
mod norm;
mod rotary;

pub use attention::Attention;
pub(crate) use block::id_tensor;
pub use block::{Block, Embedding, Trunk};
pub use linear::{Adapter, Linear};
pub use mlp::Mlp;
pub use norm::RmsNorm;
pub use rotary::{Rotary, axis_tables, rotary_tables};
