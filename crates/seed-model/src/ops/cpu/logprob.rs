//! Log-probability of given tokens from hidden states and the head, a slice of the vocabulary at a time.
#![allow(unsafe_code)]

use super::gemm::{Init, Matrix, Shared, gemm};
use super::simd::{Kernel, LANES, Simd, dispatch};
use rayon::prelude::*;

/// Rows of the vocabulary worked on at a time, and tokens: 8 MiB of logits at most.
const VOCABULARY: usize = 1024;
const TOKENS: usize = 2048;

/// The running softmax of one token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Softmax {
    /// Largest scaled logit so far.
    top: f32,
    /// Sum of `exp(logit - top)`, and of `exp(logit - top) * (logit - top)`.
    sum: f32,
    weighted: f32,
    /// Scaled logit of the target.
    target: f32,
}

impl Softmax {
    const NEW: Softmax = Softmax { top: f32::NEG_INFINITY, sum: 0.0, weighted: 0.0, target: f32::NAN };

    pub(crate) fn lse(&self) -> f32 {
        self.top + self.sum.ln()
    }
    pub(crate) fn logp(&self) -> f32 {
        // The difference to the top first: it is exact where the two are close.
        (self.target - self.top) - self.sum.ln()
    }
    /// `ln sum - weighted / sum`, in nats.
    pub(crate) fn entropy(&self) -> f32 {
        self.sum.ln() - self.weighted / self.sum
    }
}

/// Adds one slice of a token's logits to its softmax; scales the logits in place.
struct Update<'a> {
    logits: &'a mut [f32],
    inverse_temperature: f32,
    entropy: bool,
    softmax: &'a mut Softmax,
}

impl Kernel for Update<'_> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let n = self.logits.len();
        let x = self.logits.as_mut_ptr();
        // SAFETY: all accesses stay inside `logits`; lanes behind its end are filled with -inf, whose exponential is 0.
        unsafe {
            let whole = n / LANES * LANES;
            let scale = S::splat(self.inverse_temperature);
            let mut top = S::splat(f32::NEG_INFINITY);
            for i in (0..whole).step_by(LANES) {
                let v = S::mul(S::load(x.add(i)), scale);
                S::store(x.add(i), v);
                top = S::max(top, v);
            }
            let mut rest = [f32::NEG_INFINITY; LANES];
            for i in whole..n {
                *x.add(i) *= self.inverse_temperature;
                rest[i - whole] = *x.add(i);
            }
            let rest = S::load(rest.as_ptr());
            let top = S::largest(S::max(top, rest));
            let state = self.softmax;
            if top > state.top {
                let shift = top - state.top;
                let shrink = (-shift).exp();
                if state.sum > 0.0 {
                    state.weighted = shrink * (state.weighted - shift * state.sum);
                }
                state.sum *= shrink;
                state.top = top;
            }
            let (top, mut sum, mut weighted) = (S::splat(state.top), S::splat(0.0), S::splat(0.0));
            if self.entropy {
                // a floor keeps 0 * -inf out of the sum
                let floor = S::splat(-1e30);
                for i in (0..whole).step_by(LANES) {
                    let d = S::sub(S::load(x.add(i)), top);
                    let e = S::exp(d);
                    sum = S::add(sum, e);
                    weighted = S::fma(e, S::max(floor, d), weighted);
                }
                let d = S::sub(rest, top);
                let e = S::exp(d);
                sum = S::add(sum, e);
                weighted = S::fma(e, S::max(floor, d), weighted);
            } else {
                for i in (0..whole).step_by(LANES) {
                    sum = S::add(sum, S::exp(S::sub(S::load(x.add(i)), top)));
                }
                sum = S::add(sum, S::exp(S::sub(rest, top)));
            }
            state.sum += S::sum(sum);
            state.weighted += S::sum(weighted);
        }
    }
}

/// The softmax of one token over complete logits, in the same steps as [`selected`]; scales the logits in place.
pub(crate) fn softmax_of(logits: &mut [f32], target: usize, temperature: f32) -> Softmax {
    let mut softmax = Softmax::NEW;
    for part in logits.chunks_mut(VOCABULARY) {
        dispatch(Update {
            logits: part,
            inverse_temperature: 1.0 / temperature,
            entropy: false,
            softmax: &mut softmax,
        });
    }
    softmax.target = logits[target];
    softmax
}

/// Hidden states, head and targets of one call.
#[derive(Clone, Copy)]
pub(crate) struct Scoring<'a> {
    /// `[T, H]`
    pub(crate) hidden: &'a [f32],
    /// `[V, H]` with any strides.
    pub(crate) head: Matrix<'a>,
    pub(crate) vocabulary: usize,
    pub(crate) width: usize,
    pub(crate) targets: &'a [u32],
    pub(crate) temperature: f32,
}

/// The softmax of every token.
pub(crate) fn selected(s: &Scoring, entropy: bool) -> Vec<Softmax> {
    let tokens = s.targets.len();
    let mut all = vec![Softmax::NEW; tokens];
    let mut logits = vec![0.0; tokens.min(TOKENS) * s.vocabulary.min(VOCABULARY)];
    for first in (0..tokens).step_by(TOKENS) {
        let count = TOKENS.min(tokens - first);
        let hidden = &s.hidden[first * s.width..(first + count) * s.width];
        for from in (0..s.vocabulary).step_by(VOCABULARY) {
            let n = VOCABULARY.min(s.vocabulary - from);
            let logits = &mut logits[..count * n];
            gemm(
                count,
                n,
                s.width,
                Matrix::rows(hidden, s.width),
                s.slice(from).transposed(),
                logits,
                n,
                Init::Zero,
            );
            logits
                .par_chunks_mut(n)
                .zip(all[first..first + count].par_iter_mut())
                .enumerate()
                .with_min_len(8)
                .for_each(|(t, (logits, softmax))| {
                    dispatch(Update { logits, inverse_temperature: 1.0 / s.temperature, entropy, softmax });
                    let target = (s.targets[first + t] as usize).wrapping_sub(from);
                    if target < n {
                        softmax.target = logits[target];
                    }
                });
        }
    }
    all
}

impl<'a> Scoring<'a> {
    /// The head from row `from` on.
    fn slice(&self, from: usize) -> Matrix<'a> {
        Matrix { data: &self.head.data[from * self.head.row..], ..self.head }
    }
}

/// Turns logits into their gradients.
struct Gradient<'a> {
    logits: &'a mut [f32],
    inverse_temperature: f32,
    lse: f32,
    /// Gradient of the log-probability, and of the entropy with the entropy itself.
    grad: f32,
    entropy: Option<(f32, f32)>,
}

impl Kernel for Gradient<'_> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let n = self.logits.len();
        let x = self.logits.as_mut_ptr();
        // SAFETY: all accesses stay inside `logits`.
        unsafe {
            let (scale, lse) = (S::splat(self.inverse_temperature), S::splat(self.lse));
            let grad = S::splat(-self.grad * self.inverse_temperature);
            let (entropy_grad, entropy) = self.entropy.unwrap_or((0.0, 0.0));
            let (entropy_grad, entropy) =
                (S::splat(-entropy_grad * self.inverse_temperature), S::splat(entropy));
            let floor = S::splat(-1e30);
            // d logp_t / d logit_j = [j = t] - p_j;  d entropy / d logit_j = -p_j (ln p_j + entropy)
            macro_rules! step {
                ($logit:expr) => {{
                    let logp = S::sub(S::mul($logit, scale), lse);
                    let both = match self.entropy {
                        Some(_) => S::fma(S::add(S::max(floor, logp), entropy), entropy_grad, grad),
                        None => grad,
                    };
                    S::mul(S::exp(logp), both)
                }};
            }
            let whole = n / LANES * LANES;
            for i in (0..whole).step_by(LANES) {
                S::store(x.add(i), step!(S::load(x.add(i))));
            }
            if whole < n {
                S::store_part(x.add(whole), n - whole, step!(S::load_part(x.add(whole), n - whole)));
            }
        }
    }
}

/// Gradients with respect to the hidden states `[T, H]` and the head `[V, H]`, each only where asked for.
///
/// `grad` and `entropy_grad` are the gradients of the log-probabilities and entropies.
pub(crate) fn selected_backward(
    s: &Scoring,
    softmax: &[Softmax],
    grad: &[f32],
    entropy_grad: Option<&[f32]>,
    wants: (bool, bool),
) -> (Option<Vec<f32>>, Option<Vec<f32>>) {
    let tokens = s.targets.len();
    let h = s.width;
    let mut dhidden = wants.0.then(|| vec![0.0; tokens * h]);
    let mut dhead = wants.1.then(|| vec![0.0; s.vocabulary * h]);
    let mut logits = vec![0.0; tokens.min(TOKENS) * s.vocabulary.min(VOCABULARY)];
    for first in (0..tokens).step_by(TOKENS) {
        let count = TOKENS.min(tokens - first);
        let hidden = &s.hidden[first * h..(first + count) * h];
        for from in (0..s.vocabulary).step_by(VOCABULARY) {
            let n = VOCABULARY.min(s.vocabulary - from);
            let logits = &mut logits[..count * n];
            gemm(count, n, h, Matrix::rows(hidden, h), s.slice(from).transposed(), logits, n, Init::Zero);
            logits.par_chunks_mut(n).enumerate().with_min_len(8).for_each(|(t, logits)| {
                let t = first + t;
                let entropy = entropy_grad.map(|g| (g[t], softmax[t].entropy()));
                dispatch(Gradient {
                    logits,
                    inverse_temperature: 1.0 / s.temperature,
                    lse: softmax[t].lse(),
                    grad: grad[t],
                    entropy,
                });
                let target = (s.targets[t] as usize).wrapping_sub(from);
                if target < n {
                    logits[target] += grad[t] / s.temperature;
                }
            });
            if let Some(dhidden) = &mut dhidden {
                gemm(
                    count,
                    h,
                    n,
                    Matrix::rows(logits, n),
                    s.slice(from),
                    &mut dhidden[first * h..],
                    h,
                    Init::Sum,
                );
            }
            if let Some(dhead) = &mut dhead {
                gemm(
                    n,
                    h,
                    count,
                    Matrix::rows(logits, n).transposed(),
                    Matrix::rows(hidden, h),
                    &mut dhead[from * h..],
                    h,
                    Init::Sum,
                );
            }
        }
    }
    (dhidden, dhead)
}

/// Adds rows of gradients to the rows of a table that they came from, in the order of the tokens.
pub(crate) fn scatter_rows(ids: &[u32], grad: &[f32], rows: usize, width: usize) -> Vec<f32> {
    let mut table = vec![0.0f32; rows * width];
    let pointer = Shared(table.as_mut_ptr());
    let mut order: Vec<u32> = (0..ids.len() as u32).collect();
    order.sort_by_key(|t| ids[*t as usize]);
    // Each run of one id belongs to one task.
    order.par_chunk_by(|a, b| ids[*a as usize] == ids[*b as usize]).for_each(|run| {
        let id = ids[run[0] as usize] as usize;
        assert!(id < rows, "id {id} of {rows}");
        // SAFETY: this task alone has this row, which lies inside the table.
        let row = unsafe { std::slice::from_raw_parts_mut({ pointer }.get().add(id * width), width) };
        for t in run {
            let from = *t as usize * width;
            row.iter_mut().zip(&grad[from..from + width]).for_each(|(sum, x)| *sum += x);
        }
    });
    table
}
