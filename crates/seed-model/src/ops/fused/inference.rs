//! Kernels without a backward pass, for tensors that collect no gradients.

use super::super::cpu::elementwise;
use super::{shape, tensor, values};
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::tensor::Tensor;

/// The values of a tensor on the CPU without autodiff, contiguous.
fn flat<const R: usize>(x: Tensor<R>) -> FlexTensor {
    x.try_into_primitive::<Flex>().expect("the caller looked at the device").to_contiguous()
}

pub(in super::super) fn layer_norm(x: Tensor<2>, weight: Tensor<1>, bias: Tensor<1>, eps: f64) -> Tensor<2> {
    let (x, weight, bias) = (flat(x), flat(weight), flat(bias));
    let y = elementwise::layer_norm(values(&x), values(&weight), values(&bias), eps as f32);
    Tensor::from_primitive::<Flex>(tensor(y, shape(&x)))
}

pub(in super::super) fn gelu(x: Tensor<2>) -> Tensor<2> {
    let x = flat(x);
    Tensor::from_primitive::<Flex>(tensor(elementwise::gelu(values(&x)), shape(&x)))
}
