//! Sums, norms and clipping of gradients.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{FloatDType, Tensor, TensorData};
use std::collections::BTreeMap;

/// Why gradients cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClipError {
    /// Some gradient is NaN or infinite.
    #[error(
        "the gradient of `{name}` is not finite; nothing was changed: skip the step, or lower the learning rate"
    )]
    NotFinite {
        /// The first such parameter.
        name: String,
    },
}

/// The gradients of a model by tensor name (`model.layers.0.mlp.up_proj.weight`), each in the shape of its tensor.
///
/// Parameters without a gradient are absent. Copies to host memory: for inspection and tests.
pub fn named_gradients<M: Module>(model: &M, gradients: &GradientsParams) -> BTreeMap<String, TensorData> {
    struct Named<'a> {
        path: Vec<String>,
        gradients: &'a GradientsParams,
        found: BTreeMap<String, TensorData>,
    }
    impl ModuleVisitor for Named<'_> {
        fn enter_module(&mut self, name: &str, _container_type: &str) {
            self.path.push(name.to_owned());
        }
        fn exit_module(&mut self, _name: &str, _container_type: &str) {
            self.path.pop();
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(gradient) = self.gradients.get::<D>(param.id) {
                self.found.insert(self.path.join("."), gradient.into_data());
            }
        }
    }
    let mut visitor = Named { path: Vec::new(), gradients, found: BTreeMap::new() };
    model.visit(&mut visitor);
    visitor.found
}

/// Sums the gradients of several workers, always from first to last: the result does not depend on who finished when.
///
/// A parameter without a gradient in one part counts as zero there.
pub fn sum_gradients<M: Module>(model: &M, parts: Vec<GradientsParams>) -> GradientsParams {
    struct Sum {
        parts: Vec<GradientsParams>,
        total: GradientsParams,
    }
    impl ModuleVisitor for Sum {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let found = self.parts.iter_mut().filter_map(|part| part.remove::<D>(param.id));
            if let Some(sum) = found.reduce(|sum, next| sum + next) {
                self.total.register(param.id, sum);
            }
        }
    }
    let mut sum = Sum { parts, total: GradientsParams::new() };
    model.visit(&mut sum);
    sum.total
}

/// Replaces each gradient by a function of it.
fn map_gradients<M: Module>(model: &M, gradients: GradientsParams, map: impl FlatMap) -> GradientsParams {
    struct Mapped<F> {
        gradients: GradientsParams,
        map: F,
    }
    impl<F: FlatMap> ModuleVisitor for Mapped<F> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(gradient) = self.gradients.remove::<D>(param.id) {
                let gradient = self.map.call(gradient);
                self.gradients.register(param.id, gradient);
            }
        }
    }
    let mut mapped = Mapped { gradients, map };
    model.visit(&mut mapped);
    mapped.gradients
}

/// A function on tensors of any rank.
trait FlatMap {
    fn call<const D: usize>(&self, gradient: Tensor<D>) -> Tensor<D>;
}

/// To f32, times a factor.
struct Scaled(f64);

impl FlatMap for Scaled {
    fn call<const D: usize>(&self, gradient: Tensor<D>) -> Tensor<D> {
        let gradient = gradient.cast(FloatDType::F32);
        if self.0 == 1.0 { gradient } else { gradient.mul_scalar(self.0) }
    }
}

/// Sums gradients of micro-batches in f32, until they are taken for a step.
#[derive(Debug, Default)]
pub struct GradientAccumulator {
    sum: Option<GradientsParams>,
    count: usize,
}

impl GradientAccumulator {
    /// An empty sum.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `weight · gradients`. With losses that are sums over tokens divided by the count of the whole batch the weight is 1; with
    /// means of equal micro-batches it is one over their number.
    pub fn add<M: Module>(&mut self, model: &M, gradients: GradientsParams, weight: f64) {
        let gradients = map_gradients(model, gradients, Scaled(weight));
        self.count += 1;
        self.sum = Some(match self.sum.take() {
            None => gradients,
            Some(sum) => sum_gradients(model, vec![sum, gradients]),
        });
    }

    /// Number of micro-batches added since the last [`take`](Self::take).
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The sum; the accumulator is empty afterwards. `None` where nothing was added.
    pub fn take(&mut self) -> Option<GradientsParams> {
        self.count = 0;
        self.sum.take()
    }
}

/// Scales all gradients by `min(1, max_norm / (norm + 1e-6))` and returns them with their norm before.
///
/// The norm is the 2-norm over all gradients together. An infinite `max_norm` only measures.
///
/// # Errors
/// [`ClipError::NotFinite`] names the first parameter whose gradient is not finite.
pub fn clip_global_norm<M: Module>(
    model: &M,
    gradients: GradientsParams,
    max_norm: f64,
) -> Result<(GradientsParams, f64), ClipError> {
    struct Squares<'a> {
        path: Vec<String>,
        gradients: &'a GradientsParams,
        names: Vec<String>,
        sums: Vec<Tensor<1>>,
    }
    impl ModuleVisitor for Squares<'_> {
        fn enter_module(&mut self, name: &str, _container_type: &str) {
            self.path.push(name.to_owned());
        }
        fn exit_module(&mut self, _name: &str, _container_type: &str) {
            self.path.pop();
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(gradient) = self.gradients.get::<D>(param.id) {
                self.names.push(self.path.join("."));
                self.sums.push(gradient.cast(FloatDType::F32).square().sum());
            }
        }
    }
    let mut squares =
        Squares { path: Vec::new(), gradients: &gradients, names: Vec::new(), sums: Vec::new() };
    model.visit(&mut squares);
    if squares.sums.is_empty() {
        return Ok((gradients, 0.0));
    }
    // One transfer for all tensors.
    let sums: Vec<f32> = Tensor::cat(squares.sums, 0).into_data().iter::<f32>().collect();
    if let Some(bad) = sums.iter().position(|sum| !sum.is_finite()) {
        return Err(ClipError::NotFinite { name: squares.names.swap_remove(bad) });
    }
    let norm = sums.iter().map(|sum| f64::from(*sum)).sum::<f64>().sqrt();
    let factor = max_norm / (norm + 1e-6);
    let gradients = if factor < 1.0 { map_gradients(model, gradients, Scaled(factor)) } else { gradients };
    Ok((gradients, norm))
}
