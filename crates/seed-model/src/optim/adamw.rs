//! AdamW: Adam with decay that is decoupled from the gradient (Loshchilov and Hutter 2019).

use burn::module::{Module, ModuleMapper, Param};
use burn::optim::GradientsParams;
use burn::tensor::{DType, FloatDType, Tensor, TensorData};
use std::collections::BTreeMap;

/// Constants of [`AdamW`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamWOptions {
    /// Decay rates of the two moments.
    pub betas: (f64, f64),
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Each step multiplies weights by `1 - lr · weight_decay`.
    pub weight_decay: f64,
}

impl Default for AdamWOptions {
    /// Betas 0.9 and 0.999, eps 1e-8, decay 0.01.
    fn default() -> Self {
        Self { betas: (0.9, 0.999), eps: 1e-8, weight_decay: 0.01 }
    }
}

/// Parameters with settings of their own.
#[derive(Debug, Clone, PartialEq)]
pub struct ParameterGroup {
    /// A parameter belongs to the group when its name contains one of these, e.g. `norm.weight` or `lora_`.
    pub name_contains: Vec<String>,
    /// Multiplies the learning rate; 0 freezes.
    pub lr_scale: f64,
    /// In place of the optimiser's decay.
    pub weight_decay: f64,
}

impl ParameterGroup {
    /// Norm weights and biases, without decay.
    pub fn no_decay() -> Self {
        let name_contains = vec!["norm.weight".to_owned(), ".bias".to_owned()];
        Self { name_contains, lr_scale: 1.0, weight_decay: 0.0 }
    }
}

/// AdamW with f32 state whatever the weights are.
///
/// Weights in bf16 or f16 get an f32 master copy in the state: small updates add up there, and the model gets the rounded copy.
/// Decay applies to every parameter unless a group says otherwise; the first group that matches counts.
#[derive(Debug, Clone)]
pub struct AdamW {
    /// The constants.
    pub options: AdamWOptions,
    /// Exceptions, first match first.
    pub groups: Vec<ParameterGroup>,
    pub(super) state: BTreeMap<String, Moments>,
}

/// State of one parameter; all tensors flat, in f32.
#[derive(Debug, Clone)]
pub(super) struct Moments {
    pub(super) step: u64,
    pub(super) mean: Tensor<1>,
    pub(super) square: Tensor<1>,
    /// Only for weights that are not f32.
    pub(super) master: Option<Tensor<1>>,
}

/// The numbers of one update.
#[derive(Clone, Copy)]
struct Rates {
    beta1: f64,
    beta2: f64,
    /// `lr / (1 - beta1^t)`.
    step_size: f64,
    /// `sqrt(1 - beta2^t)`.
    correction: f64,
    eps: f64,
    /// `1 - lr · weight_decay`.
    keep: f64,
}

impl AdamW {
    /// An optimiser without state.
    pub fn new(options: AdamWOptions) -> Self {
        Self { options, groups: Vec::new(), state: BTreeMap::new() }
    }

    /// Adds groups.
    pub fn with_groups(mut self, groups: impl IntoIterator<Item = ParameterGroup>) -> Self {
        self.groups.extend(groups);
        self
    }

    /// Number of parameters that have state.
    pub fn len(&self) -> usize {
        self.state.len()
    }

    /// Whether no step was made yet.
    pub fn is_empty(&self) -> bool {
        self.state.is_empty()
    }

    /// The model after one step with learning rate `lr`. Parameters without a gradient stay as they are, decay included.
    ///
    /// Clones of the model taken before keep the old weights.
    ///
    /// `m = b1·m + (1-b1)·g`, `v = b2·v + (1-b2)·g²`, `w = (1 - lr·decay)·w - lr/(1-b1^t) · m / (sqrt(v)/sqrt(1-b2^t) + eps)`.
    pub fn step<M: Module>(&mut self, model: M, gradients: GradientsParams, lr: f64) -> M {
        model.map(&mut Step { optimiser: self, gradients, lr, path: Vec::new() })
    }
}

struct Step<'a> {
    optimiser: &'a mut AdamW,
    gradients: GradientsParams,
    lr: f64,
    path: Vec<String>,
}

impl ModuleMapper for Step<'_> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(gradient) = self.gradients.remove::<D>(param.id) else { return param };
        let name = self.path.join(".");
        let (id, weight, mapper) = param.consume();
        let (tracked, autodiff) = (weight.is_require_grad(), weight.is_autodiff());
        let weight = if autodiff { weight.inner() } else { weight };
        let updated = self.optimiser.update(&name, weight, gradient, self.lr);
        let updated = if autodiff { Tensor::from_inner(updated).set_require_grad(tracked) } else { updated };
        Param::from_mapped_value(id, updated, mapper)
    }
}

impl AdamW {
    fn update<const D: usize>(
        &mut self,
        name: &str,
        weight: Tensor<D>,
        gradient: Tensor<D>,
        lr: f64,
    ) -> Tensor<D> {
        let AdamWOptions { betas: (beta1, beta2), eps, weight_decay } = self.options;
        let group =
            self.groups.iter().find(|group| group.name_contains.iter().any(|part| name.contains(part)));
        let lr = lr * group.map_or(1.0, |group| group.lr_scale);
        let decay = group.map_or(weight_decay, |group| group.weight_decay);

        let shape = weight.dims();
        let dtype = weight.dtype();
        let count = shape.iter().product::<usize>();
        let gradient = gradient.cast(FloatDType::F32).reshape([count]);
        let (mut moments, weight) = match self.state.remove(name) {
            Some(mut moments) => {
                let weight = moments.master.take().unwrap_or_else(|| weight.reshape([count]));
                (moments, weight)
            }
            None => {
                let zeros = gradient.zeros_like();
                let moments = Moments { step: 0, mean: zeros.clone(), square: zeros, master: None };
                (moments, weight.cast(FloatDType::F32).reshape([count]))
            }
        };
        moments.step += 1;
        let step = moments.step as f64;
        let rates = Rates {
            beta1,
            beta2,
            step_size: lr / (1.0 - beta1.powf(step)),
            correction: (1.0 - beta2.powf(step)).sqrt(),
            eps,
            keep: 1.0 - lr * decay,
        };
        let (weight, mean, square) = if is_host(&weight) {
            update_on_host(weight, gradient, moments.mean, moments.square, rates)
        } else {
            update_on_device(weight, gradient, moments.mean, moments.square, rates)
        };
        (moments.mean, moments.square) = (mean, square);
        let new = if dtype == DType::F32 {
            weight.reshape(shape)
        } else {
            let rounded = weight.clone().cast(FloatDType::from(dtype)).reshape(shape);
            moments.master = Some(weight);
            rounded
        };
        self.state.insert(name.to_owned(), moments);
        new
    }
}

#[cfg(feature = "cpu")]
fn is_host(tensor: &Tensor<1>) -> bool {
    tensor.device() == burn::tensor::Device::flex()
}

#[cfg(not(feature = "cpu"))]
fn is_host(_tensor: &Tensor<1>) -> bool {
    false
}

type Updated = (Tensor<1>, Tensor<1>, Tensor<1>);

/// The definition, in plain tensor operations.
fn update_on_device(
    weight: Tensor<1>,
    gradient: Tensor<1>,
    mean: Tensor<1>,
    square: Tensor<1>,
    r: Rates,
) -> Updated {
    let mean = mean.mul_scalar(r.beta1) + gradient.clone().mul_scalar(1.0 - r.beta1);
    let square = square.mul_scalar(r.beta2) + gradient.square().mul_scalar(1.0 - r.beta2);
    let denominator = square.clone().sqrt().div_scalar(r.correction).add_scalar(r.eps);
    let weight = weight.mul_scalar(r.keep) - (mean.clone() / denominator).mul_scalar(r.step_size);
    (weight, mean, square)
}

/// The same in one pass over host memory, in place where nobody else holds the tensors.
fn update_on_host(
    weight: Tensor<1>,
    gradient: Tensor<1>,
    mean: Tensor<1>,
    square: Tensor<1>,
    r: Rates,
) -> Updated {
    use rayon::prelude::*;
    const CHUNK: usize = 1 << 15;
    let device = weight.device();
    let mut data = [weight, mean, square].map(Tensor::into_data);
    let gradient = gradient.into_data();
    let [w, m, v] = &mut data;
    let (beta1, beta2) = (r.beta1 as f32, r.beta2 as f32);
    let (rest1, rest2) = ((1.0 - r.beta1) as f32, (1.0 - r.beta2) as f32);
    let (step_size, correction, eps, keep) =
        (r.step_size as f32, r.correction as f32, r.eps as f32, r.keep as f32);
    values_mut(w)
        .par_chunks_mut(CHUNK)
        .zip(values_mut(m).par_chunks_mut(CHUNK))
        .zip(values_mut(v).par_chunks_mut(CHUNK))
        .zip(values(&gradient).par_chunks(CHUNK))
        .for_each(|(((w, m), v), g)| {
            for (((w, m), v), g) in w.iter_mut().zip(m).zip(v).zip(g) {
                *m = *m * beta1 + g * rest1;
                *v = *v * beta2 + g * g * rest2;
                *w = *w * keep - *m / (v.sqrt() / correction + eps) * step_size;
            }
        });
    let [weight, mean, square] = data.map(|data| Tensor::from_data(data, (&device, DType::F32)));
    (weight, mean, square)
}

fn values(data: &TensorData) -> &[f32] {
    data.as_slice().expect("optimiser state is f32")
}

fn values_mut(data: &mut TensorData) -> &mut [f32] {
    data.as_mut_slice().expect("optimiser state is f32")
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn both_forms_agree_and_follow_the_formula() {
        let device = Device::flex();
        let rates =
            Rates { beta1: 0.9, beta2: 0.999, step_size: 0.01, correction: 0.1, eps: 1e-8, keep: 0.999 };
        let tensor = |values: &[f32]| Tensor::<1>::from_floats(values, &device);
        let run = |f: fn(Tensor<1>, Tensor<1>, Tensor<1>, Tensor<1>, Rates) -> Updated| {
            let (w, m, v) = f(
                tensor(&[1.0, -2.0]),
                tensor(&[0.5, 0.0]),
                tensor(&[0.1, 0.2]),
                tensor(&[0.04, 0.01]),
                rates,
            );
            [w, m, v].map(|t| t.into_data().try_into_vec::<f32>().unwrap())
        };
        let (host, device) = (run(update_on_host), run(update_on_device));
        for (a, b) in host.iter().flatten().zip(device.iter().flatten()) {
            assert!((a - b).abs() < 1e-6, "{a} {b}");
        }
        // By hand: m = 0.14, v = 0.04021, w = 0.999 - 0.01 * 0.14 / (sqrt(0.04021) / 0.1).
        assert!((host[0][0] - (0.999 - 0.01 * 0.14 / 2.005243)).abs() < 1e-6);
    }
}
