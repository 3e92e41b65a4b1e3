//! Log-probabilities a few rows at a time, on every backend and in every element type.
//!
//! The backward pass is this file's own: it computes the logits of each chunk of rows again, so that neither pass ever holds those
//! of the whole batch.

use super::SelectedLogprob;
use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Dispatch, Slice, TensorMetadata, backend_extension};
use burn::tensor::{FloatDType, IndexingUpdateOp, Int, Tensor, TensorData, s};

/// Logits that exist at a time: 128 MiB in f32, a few hundred rows of a large vocabulary.
const LOGITS: usize = 1 << 25;

/// What a call fixes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Settings {
    temperature: f64,
    entropy: bool,
    /// Rows of a chunk.
    rows: usize,
}

/// The operation on each backend; the default is the definition for all of them.
#[backend_extension(Flex: cfg(feature = "cpu"), Cube: cfg(any(feature = "cuda", feature = "wgpu")), Autodiff)]
pub(crate) trait ChunkedOps: Backend {
    /// `[T, 3]` in f32: log-probability, entropy (0 where not asked for), logarithm of the sum of exponentials.
    fn chunked_logprob(
        hidden: FloatTensor<Self>,
        head: FloatTensor<Self>,
        targets: IntTensor<Self>,
        settings: Settings,
    ) -> FloatTensor<Self> {
        forward::<Self>(hidden, head, targets, settings)
    }
}

#[cfg(feature = "cpu")]
impl ChunkedOps for burn::backend::Flex {}
#[cfg(any(feature = "cuda", feature = "wgpu"))]
impl ChunkedOps for burn::backend::Cube {}

/// First and last row of each chunk.
fn chunks(tokens: usize, rows: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..tokens).step_by(rows).map(move |first| (first, (first + rows).min(tokens)))
}

fn rows<B: Backend>(tensor: &FloatTensor<B>, (first, end): (usize, usize)) -> FloatTensor<B> {
    B::float_slice(tensor.clone(), &[Slice::from(first..end)])
}

/// One column of some rows of `[T, columns]`: `[rows, 1]`.
fn column<B: Backend>(
    tensor: &FloatTensor<B>,
    (first, end): (usize, usize),
    column: usize,
) -> FloatTensor<B> {
    B::float_slice(tensor.clone(), &[Slice::from(first..end), Slice::from(column..column + 1)])
}

fn targets_of<B: Backend>(targets: &IntTensor<B>, (first, end): (usize, usize)) -> IntTensor<B> {
    B::int_slice(targets.clone(), &[Slice::from(first..end)])
}

/// Scaled logits of some rows, in f32.
fn logits<B: Backend>(hidden: FloatTensor<B>, head: FloatTensor<B>, temperature: f64) -> FloatTensor<B> {
    let logits = B::float_matmul(hidden, B::float_transpose(head));
    B::float_div_scalar(B::float_cast(logits, FloatDType::F32), temperature.into())
}

fn forward<B: Backend>(
    hidden: FloatTensor<B>,
    head: FloatTensor<B>,
    targets: IntTensor<B>,
    settings: Settings,
) -> FloatTensor<B> {
    let mut out = Vec::new();
    for chunk in chunks(hidden.shape()[0], settings.rows) {
        let logits = logits::<B>(rows::<B>(&hidden, chunk), head.clone(), settings.temperature);
        let top = B::float_max_dim(logits.clone(), 1);
        // The difference to the top first: it is exact where the two are close.
        let below = B::float_sub(logits, top.clone());
        let target = B::float_gather(1, below.clone(), targets_of::<B>(&targets, chunk));
        let weights = B::float_exp(below.clone());
        let sum = B::float_sum_dim(weights.clone(), 1);
        let log_sum = B::float_log(sum.clone());
        let entropy = if settings.entropy {
            let weighted = B::float_sum_dim(B::float_mul(weights, below), 1);
            B::float_sub(log_sum.clone(), B::float_div(weighted, sum))
        } else {
            B::float_mul_scalar(log_sum.clone(), 0.0.into())
        };
        let logp = B::float_sub(target, log_sum.clone());
        out.push(B::float_cat(vec![logp, entropy, B::float_add(top, log_sum)], 1));
    }
    B::float_cat(out, 0)
}

/// What the backward pass reads.
#[derive(Debug, Clone)]
struct State<B: Backend> {
    hidden: FloatTensor<B>,
    head: FloatTensor<B>,
    targets: IntTensor<B>,
    out: FloatTensor<B>,
    settings: Settings,
}

/// Gradients for hidden states and head, each only where asked for; that of the head is summed in f32.
fn backward<B: Backend>(
    state: State<B>,
    grad: FloatTensor<B>,
    wants: [bool; 2],
) -> [Option<FloatTensor<B>>; 2] {
    let State { hidden, head, targets, out, settings: Settings { temperature, entropy, rows: size } } = state;
    let (mut dhidden, mut dhead) = (Vec::new(), None);
    for chunk in chunks(hidden.shape()[0], size) {
        let part = rows::<B>(&hidden, chunk);
        let logits = logits::<B>(part.clone(), head.clone(), temperature);
        let logp = B::float_sub(logits, column::<B>(&out, chunk, 2));
        let grad_logp = column::<B>(&grad, chunk, 0);
        // d logp_t / d logit_j = [j = t] - p_j;  d entropy / d logit_j = -p_j (ln p_j + entropy)
        let weights = B::float_exp(logp.clone());
        let mut slope = grad_logp.clone();
        if entropy {
            let spread = B::float_add(logp, column::<B>(&out, chunk, 1));
            slope = B::float_add(B::float_mul(spread, column::<B>(&grad, chunk, 1)), slope);
        }
        let slope = B::float_neg(B::float_mul(weights, slope));
        let targets = targets_of::<B>(&targets, chunk);
        let slope = B::float_scatter(1, slope, targets, grad_logp, IndexingUpdateOp::Add);
        let slope = B::float_div_scalar(slope, temperature.into());
        let slope = B::float_cast(slope, part.dtype().into());
        if wants[1] {
            let part = B::float_matmul(B::float_transpose(slope.clone()), part);
            let part = B::float_cast(part, FloatDType::F32);
            dhead = Some(match dhead {
                Some(sum) => B::float_add(sum, part),
                None => part,
            });
        }
        if wants[0] {
            dhidden.push(B::float_matmul(slope, head.clone()));
        }
    }
    let dhidden = wants[0].then(|| B::float_cat(dhidden, 0));
    [dhidden, dhead.map(|sum| B::float_cast(sum, head.dtype().into()))]
}

#[derive(Debug)]
struct ChunkedBack;

impl<B: Backend> Backward<B, 2> for ChunkedBack {
    type State = State<B>;
    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        let wants = [ops.parents[0].is_some(), ops.parents[1].is_some()];
        let found = backward::<B>(ops.state, grad, wants);
        for (parent, gradient) in ops.parents.into_iter().zip(found) {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                grads.register::<B>(parent.id, gradient);
            }
        }
    }
}

impl<B: ChunkedOps, C: CheckpointStrategy> ChunkedOps for Autodiff<B, C> {
    fn chunked_logprob(
        hidden: FloatTensor<Self>,
        head: FloatTensor<Self>,
        targets: IntTensor<Self>,
        settings: Settings,
    ) -> FloatTensor<Self> {
        let prep = ChunkedBack.prepare::<C>([hidden.node(), head.node()]).compute_bound().stateful();
        let (hidden, head) = (hidden.into_primitive(), head.into_primitive());
        let out = B::chunked_logprob(hidden.clone(), head.clone(), targets.clone(), settings);
        match prep {
            OpsKind::Tracked(prep) => {
                prep.finish(State { hidden, head, targets, out: out.clone(), settings }, out)
            }
            OpsKind::UnTracked(prep) => prep.finish(out),
        }
    }
}

/// As [`selected_logprob`](super::selected_logprob), in chunks of as many rows as keep 128 MiB of logits.
pub(super) fn within_budget(
    hidden: Tensor<2>,
    lm_head: Tensor<2>,
    targets: &[u32],
    temperature: f64,
    entropy: bool,
) -> SelectedLogprob {
    let rows = (LOGITS / lm_head.dims()[0].max(1)).max(1);
    selected_logprob(hidden, lm_head, targets, temperature, entropy, rows)
}

/// As [`selected_logprob`](super::selected_logprob), `rows` tokens at a time. Any number of rows gives the same values up to rounding.
///
/// # Panics
/// When `rows` is 0, a target is not below the vocabulary, or the shapes do not fit.
pub fn selected_logprob(
    hidden: Tensor<2>,
    lm_head: Tensor<2>,
    targets: &[u32],
    temperature: f64,
    entropy: bool,
    rows: usize,
) -> SelectedLogprob {
    let tokens = targets.len();
    if tokens == 0 {
        return super::portable::selected_logprob(hidden, lm_head, targets, temperature, entropy);
    }
    let ids: Vec<i32> = targets.iter().map(|id| *id as i32).collect();
    let ids = Tensor::<2, Int>::from_data(TensorData::new(ids, [tokens, 1]), &hidden.device().inner());
    let (hidden, head) = (hidden.into_dispatch(), lm_head.into_dispatch());
    let settings = Settings { temperature, entropy, rows };
    let out =
        Tensor::<2>::from_dispatch(Dispatch::chunked_logprob(hidden, head, ids.into_dispatch(), settings));
    let column = |i: usize| out.clone().slice(s![.., i..i + 1]).reshape([tokens]);
    SelectedLogprob { logp: column(0), entropy: entropy.then(|| column(1)) }
}
