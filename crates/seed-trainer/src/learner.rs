//! The trained model with its optimiser: gradients over a mesh, one step.

use crate::config::{ModelConfig, OptimConfig, SftConfig};
use crate::mesh::Mesh;
use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::Device;
use seed_model::optim::{AdamW, AdamWOptions, GradientAccumulator, StateError, clip_global_norm};
use seed_model::{Activations, CausalLm};
use std::path::Path;

/// A model that is trained and the state of its optimiser.
pub struct Learner {
    /// `None` only while an optimiser step replaces it.
    model: Option<CausalLm>,
    optimizer: AdamW,
    activations: Activations,
}

impl Learner {
    /// A learner without optimiser state; `model` is on a device with autodiff.
    pub fn new(model: CausalLm, options: AdamWOptions) -> Self {
        Self { model: Some(model), optimizer: AdamW::new(options), activations: Activations::Keep }
    }

    /// The same learner with another choice of what its backward passes remember.
    pub fn with_activations(mut self, activations: Activations) -> Self {
        self.activations = activations;
        self
    }

    /// What backward passes remember of the forward pass.
    pub fn activations(&self) -> Activations {
        self.activations
    }

    /// The model, with gradients.
    pub fn model(&self) -> &CausalLm {
        self.model.as_ref().expect("only a step takes the model, and puts it back")
    }

    /// The model, with gradients; the optimiser's state is dropped.
    pub fn into_model(self) -> CausalLm {
        self.model.expect("only a step takes the model, and puts it back")
    }

    /// The present weights without gradients; later steps do not change them.
    pub fn snapshot(&self) -> CausalLm {
        self.model().valid()
    }

    /// One optimiser step with gradients clipped to `max_grad_norm` (0: not clipped); returns their norm before.
    ///
    /// # Errors
    /// A norm that is not finite; weights and state are then unchanged.
    pub fn step(&mut self, gradients: GradientsParams, lr: f64, max_grad_norm: f64) -> Result<f64, f64> {
        let limit = if max_grad_norm > 0.0 { max_grad_norm } else { f64::INFINITY };
        let (gradients, norm) = clip_global_norm(self.model(), gradients, limit).map_err(|_| f64::NAN)?;
        let model = self.model.take().expect("put back below");
        self.model = Some(self.optimizer.step(model, gradients, lr));
        Ok(norm)
    }

    /// Forgets the optimiser's state.
    pub fn reset_optimizer(&mut self, options: AdamWOptions) {
        self.optimizer = AdamW::new(options);
    }

    /// Writes the optimiser's state.
    ///
    /// # Errors
    /// [`StateError`] when the file cannot be written.
    pub fn save_optimizer(&self, path: &Path) -> Result<(), StateError> {
        self.optimizer.save(path)
    }

    /// Reads what [`Learner::save_optimizer`] wrote.
    ///
    /// # Errors
    /// [`StateError`] when the file cannot be read or used.
    pub fn load_optimizer(
        &mut self,
        path: &Path,
        options: AdamWOptions,
        device: &Device,
    ) -> Result<(), StateError> {
        self.optimizer = AdamW::load(path, options, device)?;
        Ok(())
    }
}

impl From<&ModelConfig> for Activations {
    fn from(config: &ModelConfig) -> Self {
        if config.gradient_checkpointing { Self::Recompute } else { Self::Keep }
    }
}

impl From<&OptimConfig> for AdamWOptions {
    fn from(config: &OptimConfig) -> Self {
        Self { betas: (config.beta1, config.beta2), eps: config.epsilon, weight_decay: config.weight_decay }
    }
}

impl From<&SftConfig> for AdamWOptions {
    fn from(config: &SftConfig) -> Self {
        Self { betas: (config.beta1, config.beta2), weight_decay: config.weight_decay, ..Self::default() }
    }
}

/// Gradients of a mini-batch that was processed in parts, and what each part reports.
pub struct PartGradients<M> {
    /// The sum over the parts, in their order.
    pub gradients: GradientsParams,
    /// One report a part.
    pub reports: Vec<M>,
}

/// Computes the gradients of every part on the workers and adds them up in the order of the parts.
///
/// `gradients(model, part)` differentiates a loss that is already divided by what the whole mini-batch is divided by
/// ([`try_loss_and_gradients`](seed_model::try_loss_and_gradients)); `None` for a part without a token that counts. A report is
/// kept either way.
///
/// # Errors
/// The error of the earliest part that failed.
pub fn accumulate<M: Send, E: Send>(
    mesh: &Mesh,
    model: &CausalLm,
    parts: usize,
    gradients: impl Fn(&CausalLm, usize) -> Result<(Option<GradientsParams>, M), E> + Sync,
) -> Result<PartGradients<M>, E> {
    let replicas = mesh.replicas(model, parts);
    let home = model.device().inner();
    let mut sum = GradientAccumulator::new();
    let mut reports = Vec::with_capacity(parts);
    mesh.ordered(
        parts,
        |worker, part| {
            // A fork shares the weights and has leaves of its own, so that graphs of two threads never meet.
            let replica = &replicas[worker];
            gradients(&replica.clone().fork(&replica.device()), part)
        },
        |_, (gradients, report)| {
            if let Some(gradients) = gradients {
                sum.add(model, gradients.to_device(&home, model), 1.0);
            }
            reports.push(report);
            Ok(())
        },
    )?;
    Ok(PartGradients { gradients: sum.take().unwrap_or_default(), reports })
}
