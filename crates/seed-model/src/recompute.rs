//! Loss and gradients, with activations kept or computed again layer by layer.

use crate::batch::PackedBatch;
use crate::causal_lm::CausalLm;
use crate::optim::sum_gradients;
use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use std::convert::Infallible;

/// What the backward pass remembers of the forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Activations {
    /// Everything: fastest.
    #[default]
    Keep,
    /// The input of each block; the rest is computed again. Memory of one block instead of all.
    Recompute,
}

/// The loss of `model` on `batch` (one value, detached) and the gradients of its parameters.
///
/// `loss` gets the final hidden states `[T, hidden]` and the head `[vocab, hidden]` and returns one value; see
/// [`ScoreBatch::scores`](crate::ScoreBatch::scores) for log-probabilities of responses. Gradients do not depend on `activations`
/// beyond rounding.
///
/// `model` must be on a device with autodiff and have a parameter that collects gradients.
pub fn loss_and_gradients(
    model: &CausalLm,
    batch: &PackedBatch,
    activations: Activations,
    loss: impl FnOnce(Tensor<2>, Tensor<2>) -> Tensor<1>,
) -> (Tensor<1>, GradientsParams) {
    let reported = try_loss_and_gradients(model, batch, activations, |hidden, head| {
        let loss = loss(hidden, head);
        Ok::<_, Infallible>((loss.clone().inner(), loss))
    });
    match reported {
        Ok(found) => found,
        Err(never) => match never {},
    }
}

/// As [`loss_and_gradients`], for a loss that may refuse its input and that reports something of its own.
///
/// `loss` returns the report and the value to differentiate.
///
/// # Errors
/// That of `loss`; nothing was differentiated then.
pub fn try_loss_and_gradients<R, E>(
    model: &CausalLm,
    batch: &PackedBatch,
    activations: Activations,
    loss: impl FnOnce(Tensor<2>, Tensor<2>) -> Result<(R, Tensor<1>), E>,
) -> Result<(R, GradientsParams), E> {
    match activations {
        Activations::Keep => {
            let (report, loss) = loss(model.hidden(batch), model.lm_head())?;
            Ok((report, GradientsParams::from_grads(loss.backward(), model)))
        }
        Activations::Recompute => recompute(model, batch, loss),
    }
}

/// One vector-Jacobian product a block, last to first: the graph of one block exists at a time.
fn recompute<R, E>(
    model: &CausalLm,
    batch: &PackedBatch,
    loss: impl FnOnce(Tensor<2>, Tensor<2>) -> Result<(R, Tensor<1>), E>,
) -> Result<(R, GradientsParams), E> {
    let rotary = model.rotary(batch);
    let forward = |model: &CausalLm, layer: usize, x: Tensor<2>| {
        model.model.layers[layer].forward(x, &rotary, |q, k, v| model.attend(q, k, v, &batch.lengths))
    };
    let constant = model.valid();
    let layers = constant.model.layers.len();
    let mut inputs = Vec::with_capacity(layers);
    let mut x = constant.embed(batch);
    for layer in 0..layers {
        inputs.push(x.clone());
        x = forward(&constant, layer, x);
    }

    let last = x.autodiff().require_grad();
    let (report, loss) = loss(model.model.norm.forward(last.clone()), model.lm_head())?;
    let mut graph = loss.backward();
    let mut upstream = last.grad_remove(&mut graph);
    let mut parts = vec![GradientsParams::from_grads(graph, model)];
    for layer in (0..layers).rev() {
        let (Some(gradient), Some(input)) = (upstream.take(), inputs.pop()) else { break };
        let input = input.autodiff().require_grad();
        let output = forward(model, layer, input.clone());
        let mut graph = (output * gradient.autodiff()).sum().backward();
        upstream = input.grad_remove(&mut graph);
        parts.push(GradientsParams::from_grads(graph, model));
    }
    if let Some(gradient) = upstream {
        let embeddings = model.embed(batch);
        if embeddings.is_tracked() {
            let graph = (embeddings * gradient.autodiff()).sum().backward();
            parts.push(GradientsParams::from_grads(graph, model));
        }
    }
    Ok((report, sum_gradients(model, parts)))
}
