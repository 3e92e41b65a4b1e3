//! The operators that a decoder spends its time in: one function each, portable definition first.
//!
//! Shape letters: `T` packed tokens, `H` hidden width, `V` vocabulary, `D` head size.

mod attention;
mod linear;
mod mlp;
mod norm;
mod rotary;
mod selected_logprob;

pub use attention::causal_attention;
pub use linear::linear;
pub use mlp::gated_mlp;
pub use norm::rms_norm;
pub use rotary::rotary;
pub use selected_logprob::{SelectedLogprob, selected_logprob};
