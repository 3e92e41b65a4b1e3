//! The fused kernels as burn operations with their own backward passes.

mod inference;

pub(super) use inference::{gelu, layer_norm};

use super::SelectedLogprob;
use super::cpu::attention::{Heads, PAGE, Saved, Sequence, attend, attend_backward, pages_of_rows};
use super::cpu::elementwise;
use super::cpu::gemm::{Init, Matrix, gemm};
use super::cpu::logprob::{Scoring, Softmax, scatter_rows, selected, selected_backward};
use crate::cache::{Append, KvCache};
use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::{FlexTensor, Layout};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::{Bytes, DType, Shape, Tensor, s};
use std::sync::Arc;

/// Operations that only the CPU backend has.
#[backend_extension(Flex, Autodiff)]
pub(crate) trait FusedOps: Backend {
    fn fused_linear(x: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self>;
    fn fused_linear_bias(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self>;
    fn fused_embedding(table: FloatTensor<Self>, ids: Arc<[u32]>) -> FloatTensor<Self>;
    fn fused_gate(gate: FloatTensor<Self>, up: FloatTensor<Self>) -> FloatTensor<Self>;
    fn fused_norm(x: FloatTensor<Self>, weight: FloatTensor<Self>, eps: f32) -> FloatTensor<Self>;
    fn fused_rotary(
        x: FloatTensor<Self>,
        cos: FloatTensor<Self>,
        sin: FloatTensor<Self>,
    ) -> FloatTensor<Self>;
    fn fused_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        lengths: Arc<[usize]>,
        scale: f32,
        causal: bool,
    ) -> FloatTensor<Self>;
    /// `[2, T]`: log-probabilities, entropies (zero where not asked for).
    fn fused_logprob(
        hidden: FloatTensor<Self>,
        head: FloatTensor<Self>,
        targets: Arc<[u32]>,
        temperature: f32,
        entropy: bool,
    ) -> FloatTensor<Self>;
}

fn tensor(values: Vec<f32>, shape: Shape) -> FlexTensor {
    FlexTensor::new(Bytes::from_elems(values), Layout::contiguous(shape), DType::F32)
}

fn shape(t: &FlexTensor) -> Shape {
    t.layout().shape().clone()
}

/// The values of a tensor that is contiguous.
fn values(t: &FlexTensor) -> &[f32] {
    t.as_slice::<f32>().expect("made contiguous before")
}

/// A two-dimensional tensor with its strides, transposed views included; copied only where strides are not positive.
fn strided(t: &FlexTensor) -> FlexTensor {
    let dense = t
        .layout()
        .strides()
        .iter()
        .zip(t.layout().shape().iter())
        .all(|(stride, size)| *stride > 0 || *size <= 1);
    if dense { t.clone() } else { t.to_contiguous() }
}

fn matrix(t: &FlexTensor) -> Matrix<'_> {
    let stride = |i: usize| t.layout().strides()[i].max(0) as usize;
    Matrix { data: &t.storage::<f32>()[t.layout().start_offset()..], row: stride(0), column: stride(1) }
}

fn linear_forward(x: &FlexTensor, weight: &FlexTensor, bias: Option<&FlexTensor>) -> FlexTensor {
    let (m, k, n) = (shape(x)[0], shape(x)[1], shape(weight)[0]);
    let mut y = vec![0.0; m * n];
    let init = bias.map_or(Init::Zero, |bias| Init::Bias(values(bias)));
    gemm(m, n, k, matrix(x), matrix(weight).transposed(), &mut y, n, init);
    tensor(y, Shape::new([m, n]))
}

fn heads(q: &FlexTensor, k: &FlexTensor) -> Heads {
    Heads { query: shape(q)[1], key: shape(k)[1], dim: shape(q)[2] }
}

/// Output and logarithms of the sums.
fn attention_forward(
    q: &FlexTensor,
    k: &FlexTensor,
    v: &FlexTensor,
    lengths: &[usize],
    scale: f32,
    causal: bool,
) -> (FlexTensor, Vec<f32>) {
    let heads = heads(q, k);
    let pages = pages_of_rows(values(k), values(v), heads, lengths);
    let pages: Vec<&[f32]> = pages.iter().map(Vec::as_slice).collect();
    let mut sequences = Vec::with_capacity(lengths.len());
    let (mut start, mut page) = (0, 0);
    for &count in lengths {
        let used = count.div_ceil(PAGE);
        let pages = &pages[page..page + used];
        sequences.push(Sequence { start, count, position: 0, pages, offset: 0, causal });
        start += count;
        page += used;
    }
    let (out, lse) = attend(values(q), heads, scale, &sequences);
    (tensor(out, shape(q)), lse)
}

/// Inputs of [`selected`], owned.
#[derive(Debug, Clone)]
struct Scored {
    hidden: FlexTensor,
    head: FlexTensor,
    targets: Arc<[u32]>,
    temperature: f32,
}

impl Scored {
    fn new(hidden: &FlexTensor, head: &FlexTensor, targets: Arc<[u32]>, temperature: f32) -> Self {
        Self { hidden: hidden.to_contiguous(), head: strided(head), targets, temperature }
    }

    fn view(&self) -> Scoring<'_> {
        Scoring {
            hidden: values(&self.hidden),
            head: matrix(&self.head),
            vocabulary: shape(&self.head)[0],
            width: shape(&self.head)[1],
            targets: &self.targets,
            temperature: self.temperature,
        }
    }

    fn forward(&self, entropy: bool) -> (FlexTensor, Vec<Softmax>) {
        let softmax = selected(&self.view(), entropy);
        let mut out: Vec<f32> = softmax.iter().map(Softmax::logp).collect();
        if entropy {
            out.extend(softmax.iter().map(Softmax::entropy));
        } else {
            out.resize(2 * softmax.len(), 0.0);
        }
        (tensor(out, Shape::new([2, softmax.len()])), softmax)
    }
}

impl FusedOps for Flex {
    fn fused_linear(x: FlexTensor, weight: FlexTensor) -> FlexTensor {
        linear_forward(&strided(&x), &strided(&weight), None)
    }
    fn fused_linear_bias(x: FlexTensor, weight: FlexTensor, bias: FlexTensor) -> FlexTensor {
        linear_forward(&strided(&x), &strided(&weight), Some(&bias.to_contiguous()))
    }
    fn fused_embedding(table: FlexTensor, ids: Arc<[u32]>) -> FlexTensor {
        let table = table.to_contiguous();
        let width = shape(&table)[1];
        let rows = values(&table);
        let mut out = Vec::with_capacity(ids.len() * width);
        for id in ids.iter() {
            let from = *id as usize * width;
            out.extend_from_slice(&rows[from..from + width]);
        }
        tensor(out, Shape::new([ids.len(), width]))
    }
    fn fused_gate(gate: FlexTensor, up: FlexTensor) -> FlexTensor {
        let (gate, up) = (gate.to_contiguous(), up.to_contiguous());
        tensor(elementwise::gate(values(&gate), values(&up)), shape(&gate))
    }
    fn fused_norm(x: FlexTensor, weight: FlexTensor, eps: f32) -> FlexTensor {
        let (x, weight) = (x.to_contiguous(), weight.to_contiguous());
        tensor(elementwise::rms_norm(values(&x), values(&weight), eps), shape(&x))
    }
    fn fused_rotary(x: FlexTensor, cos: FlexTensor, sin: FlexTensor) -> FlexTensor {
        turn(&x, &cos, &sin, 1.0)
    }
    fn fused_attention(
        q: FlexTensor,
        k: FlexTensor,
        v: FlexTensor,
        lengths: Arc<[usize]>,
        scale: f32,
        causal: bool,
    ) -> FlexTensor {
        let (q, k, v) = (q.to_contiguous(), k.to_contiguous(), v.to_contiguous());
        attention_forward(&q, &k, &v, &lengths, scale, causal).0
    }
    fn fused_logprob(
        hidden: FlexTensor,
        head: FlexTensor,
        targets: Arc<[u32]>,
        temperature: f32,
        entropy: bool,
    ) -> FlexTensor {
        Scored::new(&hidden, &head, targets, temperature).forward(entropy).0
    }
}

fn turn(x: &FlexTensor, cos: &FlexTensor, sin: &FlexTensor, sign: f32) -> FlexTensor {
    let (x, cos, sin) = (x.to_contiguous(), cos.to_contiguous(), sin.to_contiguous());
    let (heads, dim) = (shape(&x)[1], shape(&x)[2]);
    tensor(elementwise::rotary(values(&x), values(&cos), values(&sin), heads, dim, sign), shape(&x))
}

/// Runs an operation on the tape: `$forward` gives the state and the output, `$backward` is the step back.
macro_rules! on_tape {
    ($back:expr, [$($input:ident),+], $forward:expr) => {{
        let nodes = [$($input.node()),+];
        let prep = $back.prepare::<C>(nodes).compute_bound().stateful();
        $(let $input = $input.into_primitive();)+
        let (state, output) = $forward;
        match prep {
            OpsKind::Tracked(prep) => prep.finish(state, output),
            OpsKind::UnTracked(prep) => prep.finish(output),
        }
    }};
}

#[derive(Debug)]
struct LinearBack;

/// Shared by both forms: gradients for input and weight.
fn linear_back(
    x: &FlexTensor,
    weight: &FlexTensor,
    grad: &FlexTensor,
    wants: [bool; 2],
) -> [Option<FlexTensor>; 2] {
    let (m, k, n) = (shape(x)[0], shape(x)[1], shape(weight)[0]);
    let dy = Matrix::rows(values(grad), n);
    let dx = wants[0].then(|| {
        let mut dx = vec![0.0; m * k];
        gemm(m, k, n, dy, matrix(weight), &mut dx, k, Init::Zero);
        tensor(dx, Shape::new([m, k]))
    });
    let dweight = wants[1].then(|| {
        let mut dweight = vec![0.0; n * k];
        gemm(n, k, m, dy.transposed(), matrix(x), &mut dweight, k, Init::Zero);
        tensor(dweight, Shape::new([n, k]))
    });
    [dx, dweight]
}

impl Backward<Flex, 2> for LinearBack {
    type State = (FlexTensor, FlexTensor);
    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<Flex>(&ops.node).to_contiguous();
        let (x, weight) = ops.state;
        let wants = [ops.parents[0].is_some(), ops.parents[1].is_some()];
        let found = linear_back(&x, &weight, &grad, wants);
        for (parent, gradient) in ops.parents.into_iter().zip(found) {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                grads.register::<Flex>(parent.id, gradient);
            }
        }
    }
}

impl Backward<Flex, 3> for LinearBack {
    type State = (FlexTensor, FlexTensor);
    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<Flex>(&ops.node).to_contiguous();
        let (x, weight) = ops.state;
        let [px, pweight, pbias] = ops.parents;
        let [dx, dweight] = linear_back(&x, &weight, &grad, [px.is_some(), pweight.is_some()]);
        let dbias = pbias.is_some().then(|| {
            let n = shape(&weight)[0];
            let mut sum = vec![0.0; n];
            values(&grad)
                .chunks_exact(n)
                .for_each(|row| sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x));
            tensor(sum, Shape::new([n]))
        });
        for (parent, gradient) in [(px, dx), (pweight, dweight), (pbias, dbias)] {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                grads.register::<Flex>(parent.id, gradient);
            }
        }
    }
}

#[derive(Debug)]
struct EmbeddingBack;
impl Backward<Flex, 1> for EmbeddingBack {
    type State = (Arc<[u32]>, usize);
    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<Flex>(&ops.node).to_contiguous();
        let (ids, rows) = ops.state;
        let [parent] = ops.parents;
        if let Some(parent) = parent {
            let width = shape(&grad)[1];
            let table = scatter_rows(&ids, values(&grad), rows, width);
            grads.register::<Flex>(parent.id, tensor(table, Shape::new([rows, width])));
        }
    }
}

#[derive(Debug)]
struct GateBack;
impl Backward<Flex, 2> for GateBack {
    type State = (FlexTensor, FlexTensor);
    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<Flex>(&ops.node).to_contiguous();
        let (gate, up) = ops.state;
        let (dgate, dup) = elementwise::gate_backward(values(&gate), values(&up), values(&grad));
        for (parent, gradient) in ops.parents.into_iter().zip([dgate, dup]) {
            if let Some(parent) = parent {
                grads.register::<Flex>(parent.id, tensor(gradient, shape(&gate)));
            }
        }
    }
}

#[derive(Debug)]
struct NormBack;
impl Backward<Flex, 2> for NormBack {
    type State = (FlexTensor, FlexTensor, f32);
    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<Flex>(&ops.node).to_contiguous();
        let (x, weight, eps) = ops.state;
        let (dx, dweight) = elementwise::rms_norm_backward(values(&x), values(&weight), eps, values(&grad));
        let [px, pweight] = ops.parents;
        if let Some(parent) = px {
            grads.register::<Flex>(parent.id, tensor(dx, shape(&x)));
        }
        if let Some(parent) = pweight {
            grads.register::<Flex>(parent.id, tensor(dweight, shape(&weight)));
        }
    }
}

#[derive(Debug)]
struct RotaryBack;
impl Backward<Flex, 1> for RotaryBack {
    type State = (FlexTensor, FlexTensor);
    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<Flex>(&ops.node);
        let [parent] = ops.parents;
        if let Some(parent) = parent {
            grads.register::<Flex>(parent.id, turn(&grad, &ops.state.0, &ops.state.1, -1.0));
        }
    }
}

/// What attention keeps for its backward pass.
#[derive(Debug, Clone)]
struct AttentionState {
    q: FlexTensor,
    k: FlexTensor,
    v: FlexTensor,
    out: FlexTensor,
    lse: Arc<Vec<f32>>,
    lengths: Arc<[usize]>,
    scale: f32,
    causal: bool,
}

#[derive(Debug)]
struct AttentionBack;
impl Backward<Flex, 3> for AttentionBack {
    type State = AttentionState;
    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<Flex>(&ops.node).to_contiguous();
        let AttentionState { q, k, v, out, lse, lengths, scale, causal } = ops.state;
        let saved = Saved {
            q: values(&q),
            k: values(&k),
            v: values(&v),
            out: values(&out),
            lse: &lse,
            grad: values(&grad),
        };
        let (dq, dk, dv) = attend_backward(&saved, heads(&q, &k), scale, &lengths, causal);
        for (parent, (gradient, like)) in ops.parents.into_iter().zip([(dq, &q), (dk, &k), (dv, &v)]) {
            if let Some(parent) = parent {
                grads.register::<Flex>(parent.id, tensor(gradient, shape(like)));
            }
        }
    }
}

#[derive(Debug)]
struct LogprobBack;
impl Backward<Flex, 2> for LogprobBack {
    type State = (Scored, Arc<Vec<Softmax>>, bool);
    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<Flex>(&ops.node).to_contiguous();
        let (scored, softmax, entropy) = ops.state;
        let (dlogp, dentropy) = values(&grad).split_at(softmax.len());
        let [phidden, phead] = ops.parents;
        let wants = (phidden.is_some(), phead.is_some());
        let (dhidden, dhead) =
            selected_backward(&scored.view(), &softmax, dlogp, entropy.then_some(dentropy), wants);
        if let (Some(parent), Some(gradient)) = (phidden, dhidden) {
            grads.register::<Flex>(parent.id, tensor(gradient, shape(&scored.hidden)));
        }
        if let (Some(parent), Some(gradient)) = (phead, dhead) {
            grads.register::<Flex>(parent.id, tensor(gradient, shape(&scored.head)));
        }
    }
}

impl<C: CheckpointStrategy> FusedOps for Autodiff<Flex, C> {
    fn fused_linear(x: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self> {
        on_tape!(LinearBack, [x, weight], {
            let (x, weight) = (strided(&x), strided(&weight));
            let y = linear_forward(&x, &weight, None);
            ((x, weight), y)
        })
    }
    fn fused_linear_bias(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        on_tape!(LinearBack, [x, weight, bias], {
            let (x, weight) = (strided(&x), strided(&weight));
            let y = linear_forward(&x, &weight, Some(&bias.to_contiguous()));
            ((x, weight), y)
        })
    }
    fn fused_embedding(table: FloatTensor<Self>, ids: Arc<[u32]>) -> FloatTensor<Self> {
        on_tape!(EmbeddingBack, [table], {
            let rows = shape(&table)[0];
            ((ids.clone(), rows), Flex::fused_embedding(table, ids))
        })
    }
    fn fused_gate(gate: FloatTensor<Self>, up: FloatTensor<Self>) -> FloatTensor<Self> {
        on_tape!(GateBack, [gate, up], {
            let (gate, up) = (gate.to_contiguous(), up.to_contiguous());
            ((gate.clone(), up.clone()), Flex::fused_gate(gate, up))
        })
    }
    fn fused_norm(x: FloatTensor<Self>, weight: FloatTensor<Self>, eps: f32) -> FloatTensor<Self> {
        on_tape!(NormBack, [x, weight], {
            let (x, weight) = (x.to_contiguous(), weight.to_contiguous());
            ((x.clone(), weight.clone(), eps), Flex::fused_norm(x, weight, eps))
        })
    }
    fn fused_rotary(
        x: FloatTensor<Self>,
        cos: FloatTensor<Self>,
        sin: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let (cos, sin) = (cos.into_primitive(), sin.into_primitive());
        on_tape!(RotaryBack, [x], { ((cos.clone(), sin.clone()), turn(&x, &cos, &sin, 1.0)) })
    }
    fn fused_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        lengths: Arc<[usize]>,
        scale: f32,
        causal: bool,
    ) -> FloatTensor<Self> {
        on_tape!(AttentionBack, [q, k, v], {
            let (q, k, v) = (q.to_contiguous(), k.to_contiguous(), v.to_contiguous());
            let (out, lse) = attention_forward(&q, &k, &v, &lengths, scale, causal);
            (AttentionState { q, k, v, out: out.clone(), lse: Arc::new(lse), lengths, scale, causal }, out)
        })
    }
    fn fused_logprob(
        hidden: FloatTensor<Self>,
        head: FloatTensor<Self>,
        targets: Arc<[u32]>,
        temperature: f32,
        entropy: bool,
    ) -> FloatTensor<Self> {
        on_tape!(LogprobBack, [hidden, head], {
            let scored = Scored::new(&hidden, &head, targets, temperature);
            let (out, softmax) = scored.forward(entropy);
            ((scored, Arc::new(softmax), entropy), out)
        })
    }
}

pub(super) fn linear(x: Tensor<2>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<2> {
    let (x, weight) = (x.into_dispatch(), weight.into_dispatch());
    Tensor::from_dispatch(match bias {
        Some(bias) => Dispatch::fused_linear_bias(x, weight, bias.into_dispatch()),
        None => Dispatch::fused_linear(x, weight),
    })
}

pub(super) fn embedding(table: Tensor<2>, ids: &[u32]) -> Tensor<2> {
    Tensor::from_dispatch(Dispatch::fused_embedding(table.into_dispatch(), ids.into()))
}

pub(super) fn gated_mlp(gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> {
    Tensor::from_dispatch(Dispatch::fused_gate(gate.into_dispatch(), up.into_dispatch()))
}

pub(super) fn rms_norm<const R: usize>(x: Tensor<R>, weight: Tensor<1>, eps: f64) -> Tensor<R> {
    Tensor::from_dispatch(Dispatch::fused_norm(x.into_dispatch(), weight.into_dispatch(), eps as f32))
}

pub(super) fn rotary(x: Tensor<3>, cos: Tensor<2>, sin: Tensor<2>) -> Tensor<3> {
    Tensor::from_dispatch(Dispatch::fused_rotary(x.into_dispatch(), cos.into_dispatch(), sin.into_dispatch()))
}

pub(super) fn attention(
    q: Tensor<3>,
    k: Tensor<3>,
    v: Tensor<3>,
    lengths: &[usize],
    scale: f64,
    causal: bool,
) -> Tensor<3> {
    let (q, k, v) = (q.into_dispatch(), k.into_dispatch(), v.into_dispatch());
    Tensor::from_dispatch(Dispatch::fused_attention(q, k, v, lengths.into(), scale as f32, causal))
}

pub(super) fn selected_logprob(
    hidden: Tensor<2>,
    head: Tensor<2>,
    targets: &[u32],
    temperature: f64,
    entropy: bool,
) -> SelectedLogprob {
    let (hidden, head) = (hidden.into_dispatch(), head.into_dispatch());
    let both = Tensor::<2>::from_dispatch(Dispatch::fused_logprob(
        hidden,
        head,
        targets.into(),
        temperature as f32,
        entropy,
    ));
    let row = |i: usize| both.clone().slice(s![i..i + 1, ..]).reshape([targets.len()]);
    SelectedLogprob { logp: row(0), entropy: entropy.then(|| row(1)) }
}

pub(super) fn cached_attention(
    cache: &mut KvCache,
    layer: usize,
    rows: &[Append],
    q: Tensor<3>,
    k: Tensor<3>,
    v: Tensor<3>,
    scale: f64,
) -> Tensor<3> {
    let flat = |x: Tensor<3>| {
        x.try_into_primitive::<Flex>()
            .expect("a cache on the CPU gets tensors without autodiff")
            .to_contiguous()
    };
    let (q, k, v) = (flat(q), flat(k), flat(v));
    let heads = heads(&q, &k);
    cache.write_on_host(layer, rows, values(&k), values(&v));
    let held: Vec<Vec<&[f32]>> = rows.iter().map(|row| cache.pages(row.slot)).collect();
    let mut start = 0;
    let sequences: Vec<Sequence> = rows
        .iter()
        .zip(&held)
        .map(|(row, pages)| {
            let sequence = Sequence {
                start,
                count: row.count,
                position: row.position,
                pages,
                offset: layer * heads.key * heads.page_len(),
                causal: true,
            };
            start += row.count;
            sequence
        })
        .collect();
    let (out, _) = attend(values(&q), heads, scale as f32, &sequences);
    Tensor::from_primitive::<Flex>(tensor(out, shape(&q)))
}
