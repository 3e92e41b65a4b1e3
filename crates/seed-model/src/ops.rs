//! The operators that a decoder spends its time in: one function each, portable definition first.
//!
//! Every function has a definition in plain burn operations, in the module `portable`, which runs on any device and element
//! type. Tensors in f32 on the CPU take a fused kernel with its own backward pass instead: the same numbers up to rounding,
//! several times faster. The kernels sum in a fixed order, so their results do not depend on the number of threads, on the
//! company of a row in its batch, nor on whether its keys come from the batch or from a cache.
//!
//! Shape letters: `T` packed tokens, `H` hidden width, `V` vocabulary, `D` head size.

mod attention;
pub mod chunked;
// The kernels need no backend; the host sampler uses some of them everywhere.
#[cfg_attr(not(feature = "cpu"), allow(dead_code))]
pub(crate) mod cpu;
mod embedding;
#[cfg(feature = "cpu")]
mod fused;
mod gelu;
mod linear;
mod mlp;
mod norm;
pub mod portable;
mod rotary;
mod selected_logprob;

pub(crate) use attention::cached_attention;
pub use attention::{causal_attention, full_attention};
pub use embedding::embedding;
pub use gelu::gelu;
pub use linear::linear;
pub use mlp::gated_mlp;
pub use norm::{layer_norm, rms_norm};
pub use rotary::rotary;
pub use selected_logprob::{SelectedLogprob, selected_logprob};

/// Whether the fused kernels can take these tensors: f32 on the CPU, with autodiff or without.
#[cfg(feature = "cpu")]
pub(crate) fn on_cpu<const R: usize>(tensor: &burn::tensor::Tensor<R>) -> bool {
    tensor.dtype() == burn::tensor::DType::F32 && tensor.device().inner() == burn::tensor::Device::flex()
}

/// Without the CPU backend there are no kernels for it.
#[cfg(not(feature = "cpu"))]
pub(crate) fn on_cpu<const R: usize>(_tensor: &burn::tensor::Tensor<R>) -> bool {
    false
}

/// Whether kernels without a backward pass can take this tensor: f32 on the CPU, no autodiff.
#[cfg(feature = "cpu")]
fn constant_on_cpu<const R: usize>(tensor: &burn::tensor::Tensor<R>) -> bool {
    on_cpu(tensor) && !tensor.device().is_autodiff()
}
