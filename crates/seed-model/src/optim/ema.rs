//! A copy of a model that follows it slowly.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{DType, FloatDType, Tensor};
use std::collections::HashMap;

/// Exponential moving average of a model's weights, kept in f32.
///
/// Until the first [`update`](Self::update) it shares memory with the model it was made from.
#[derive(Debug, Clone)]
pub struct Ema<M> {
    /// Share of the old average that a step keeps, in `[0, 1]`.
    pub decay: f64,
    average: M,
    /// f32 averages of parameters that are stored in another type, by name.
    wide: HashMap<String, Tensor<1>>,
}

impl<M: Module> Ema<M> {
    /// Starts from `model`, without autodiff.
    pub fn new(model: &M, decay: f64) -> Self {
        Self { decay, average: model.valid(), wide: HashMap::new() }
    }

    /// `average = decay · average + (1 - decay) · model`.
    pub fn update(&mut self, model: &M) {
        let mut weights = Weights::default();
        model.visit(&mut weights);
        let average = self.average.clone();
        let mut blend =
            Blend { weights: weights.found, decay: self.decay, wide: &mut self.wide, path: Vec::new() };
        self.average = average.map(&mut blend);
    }

    /// The average as a model without autodiff.
    pub fn model(&self) -> &M {
        &self.average
    }
}

#[derive(Default)]
struct Weights {
    path: Vec<String>,
    found: HashMap<String, Tensor<1>>,
}

impl ModuleVisitor for Weights {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let weight = param.val();
        // What is never trained, such as the base under an adapter, keeps its bits.
        if !weight.is_autodiff() || weight.is_require_grad() {
            self.found.insert(self.path.join("."), flat(weight));
        }
    }
}

/// Flat, in f32, without autodiff.
fn flat<const D: usize>(tensor: Tensor<D>) -> Tensor<1> {
    let tensor = if tensor.is_autodiff() { tensor.inner() } else { tensor };
    let count = tensor.dims().iter().product::<usize>();
    tensor.cast(FloatDType::F32).reshape([count])
}

struct Blend<'a> {
    weights: HashMap<String, Tensor<1>>,
    decay: f64,
    wide: &'a mut HashMap<String, Tensor<1>>,
    path: Vec<String>,
}

impl ModuleMapper for Blend<'_> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let name = self.path.join(".");
        let Some(weight) = self.weights.remove(&name) else { return param };
        let (id, average, mapper) = param.consume();
        let (shape, dtype) = (average.dims(), average.dtype());
        let old = self.wide.remove(&name).unwrap_or_else(|| flat(average));
        let new = old.mul_scalar(self.decay) + weight.mul_scalar(1.0 - self.decay);
        if dtype != DType::F32 {
            self.wide.insert(name, new.clone());
        }
        Param::from_mapped_value(id, new.cast(FloatDType::from(dtype)).reshape(shape), mapper)
    }
}
