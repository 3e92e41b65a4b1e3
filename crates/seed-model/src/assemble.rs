//! Layers from named tensors.

use crate::causal_lm::TensorSource;
use crate::decoder::{Linear, RmsNorm};
use burn::module::Param;
use burn::tensor::{Device, FloatDType, Tensor};

/// Asks a source for the tensors of a model, one after the other.
pub(crate) struct Build<'a, S> {
    pub(crate) source: &'a mut S,
    pub(crate) device: &'a Device,
    pub(crate) dtype: FloatDType,
}

impl<S: TensorSource> Build<'_, S> {
    pub(crate) fn param<const R: usize>(
        &mut self,
        name: &str,
        shape: [usize; R],
    ) -> Result<Param<Tensor<R>>, S::Error> {
        let data = self.source.tensor(name, &shape)?;
        Ok(Param::from_tensor(Tensor::from_data(data, (self.device, burn::tensor::DType::from(self.dtype)))))
    }

    pub(crate) fn linear(
        &mut self,
        name: &str,
        from: usize,
        to: usize,
        bias: bool,
    ) -> Result<Linear, S::Error> {
        let weight = self.param(&format!("{name}.weight"), [to, from])?;
        let bias = if bias { Some(self.param(&format!("{name}.bias"), [to])?) } else { None };
        Ok(Linear { weight, bias, adapter: None })
    }

    pub(crate) fn norm(&mut self, name: &str, size: usize, epsilon: f64) -> Result<RmsNorm, S::Error> {
        Ok(RmsNorm { weight: self.param(&format!("{name}.weight"), [size])?, epsilon })
    }
}
