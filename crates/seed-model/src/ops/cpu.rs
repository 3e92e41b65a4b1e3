//! Kernels for the CPU, on slices of f32. Nothing here knows tensors or gradients tapes.

pub(crate) mod attention;
pub(crate) mod elementwise;
pub(crate) mod gemm;
pub(crate) mod logprob;
pub(crate) mod simd;
