//! Multiplication by a weight stored as checkpoints store it.

use burn::tensor::Tensor;

/// `x · weightᵀ + bias`: `x` is `[T, in]`, `weight` `[out, in]` (the layout of published files), `bias` `[out]`.
pub fn linear(x: Tensor<2>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<2> {
    let y = x.matmul(weight.transpose());
    match bias {
        Some(bias) => y + bias.unsqueeze(),
        None => y,
    }
}
