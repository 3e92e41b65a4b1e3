//! Norm, rotary embedding, gate and their backward passes, one pass over memory each.
#![allow(unsafe_code)]

use super::simd::{Kernel, LANES, Simd, dispatch};
use rayon::prelude::*;

/// Values that one task works on.
const CHUNK: usize = 16 * 1024;

/// Runs a block for each vector of a row, with its first index and its lanes. A macro, because a closure that is not inlined
/// is compiled without the kernel's instruction set: every vector instruction then becomes a call.
macro_rules! vectors {
    ($len:expr, |$i:ident, $n:ident| $body:block) => {{
        let len = $len;
        let whole = len / LANES * LANES;
        let mut at = 0;
        while at < whole {
            let ($i, $n) = (at, LANES);
            $body
            at += LANES;
        }
        if whole < len {
            let ($i, $n) = (whole, len - whole);
            $body
        }
    }};
}

#[inline(always)]
unsafe fn load<S: Simd>(x: &[f32], i: usize, n: usize) -> S::V {
    debug_assert!(i + n <= x.len());
    // SAFETY: the caller passes a range inside the slice.
    unsafe { if n == LANES { S::load(x.as_ptr().add(i)) } else { S::load_part(x.as_ptr().add(i), n) } }
}

#[inline(always)]
unsafe fn store<S: Simd>(x: &mut [f32], i: usize, n: usize, v: S::V) {
    debug_assert!(i + n <= x.len());
    // SAFETY: the caller passes a range inside the slice.
    unsafe {
        if n == LANES {
            S::store(x.as_mut_ptr().add(i), v)
        } else {
            S::store_part(x.as_mut_ptr().add(i), n, v)
        }
    }
}

/// `1 / (1 + e^-x)`
#[inline(always)]
unsafe fn sigmoid<S: Simd>(x: S::V) -> S::V {
    // SAFETY: inside a kernel.
    unsafe {
        let one = S::splat(1.0);
        S::div(one, S::add(one, S::exp(S::sub(S::splat(0.0), x))))
    }
}

struct Gate<'a> {
    y: &'a mut [f32],
    gate: &'a [f32],
    up: &'a [f32],
}

impl Kernel for Gate<'_> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: inside a kernel; the indices stay below the common length.
        vectors!(self.y.len(), |i, n| {
            unsafe {
                let g = load::<S>(self.gate, i, n);
                store::<S>(self.y, i, n, S::mul(S::mul(g, sigmoid::<S>(g)), load::<S>(self.up, i, n)));
            }
        });
    }
}

/// `silu(gate) * up`.
pub(crate) fn gate(gate: &[f32], up: &[f32]) -> Vec<f32> {
    assert_eq!(gate.len(), up.len());
    let mut y = vec![0.0; gate.len()];
    y.par_chunks_mut(CHUNK)
        .zip(gate.par_chunks(CHUNK))
        .zip(up.par_chunks(CHUNK))
        .for_each(|((y, gate), up)| dispatch(Gate { y, gate, up }));
    y
}

struct GateBackward<'a> {
    dgate: &'a mut [f32],
    dup: &'a mut [f32],
    gate: &'a [f32],
    up: &'a [f32],
    grad: &'a [f32],
}

impl Kernel for GateBackward<'_> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: inside a kernel; the indices stay below the common length.
        vectors!(self.gate.len(), |i, n| {
            unsafe {
                let (g, u, d) =
                    (load::<S>(self.gate, i, n), load::<S>(self.up, i, n), load::<S>(self.grad, i, n));
                let s = sigmoid::<S>(g);
                let one = S::splat(1.0);
                store::<S>(self.dup, i, n, S::mul(d, S::mul(g, s)));
                let slope = S::mul(s, S::fma(g, S::sub(one, s), one));
                store::<S>(self.dgate, i, n, S::mul(S::mul(d, u), slope));
            }
        });
    }
}

/// Gradients of [`gate`] with respect to its two inputs.
pub(crate) fn gate_backward(gate: &[f32], up: &[f32], grad: &[f32]) -> (Vec<f32>, Vec<f32>) {
    assert!(gate.len() == up.len() && gate.len() == grad.len());
    let (mut dgate, mut dup) = (vec![0.0; gate.len()], vec![0.0; gate.len()]);
    dgate
        .par_chunks_mut(CHUNK)
        .zip(dup.par_chunks_mut(CHUNK))
        .zip(gate.par_chunks(CHUNK).zip(up.par_chunks(CHUNK)).zip(grad.par_chunks(CHUNK)))
        .for_each(|((dgate, dup), ((gate, up), grad))| dispatch(GateBackward { dgate, dup, gate, up, grad }));
    (dgate, dup)
}

struct Norm<'a> {
    y: &'a mut [f32],
    x: &'a [f32],
    weight: &'a [f32],
    eps: f32,
}

#[inline(always)]
unsafe fn inverse_rms<S: Simd>(x: &[f32], eps: f32) -> f32 {
    // SAFETY: inside a kernel.
    unsafe {
        let mut sum = S::splat(0.0);
        vectors!(x.len(), |i, n| {
            let v = load::<S>(x, i, n);
            sum = S::fma(v, v, sum);
        });
        1.0 / (S::sum(sum) / x.len() as f32 + eps).sqrt()
    }
}

impl Kernel for Norm<'_> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let h = self.weight.len();
        for (y, x) in self.y.chunks_exact_mut(h).zip(self.x.chunks_exact(h)) {
            // SAFETY: inside a kernel.
            let r = unsafe { S::splat(inverse_rms::<S>(x, self.eps)) };
            vectors!(h, |i, n| {
                // SAFETY: inside a kernel; the indices stay below the width.
                unsafe {
                    store::<S>(y, i, n, S::mul(S::mul(load::<S>(x, i, n), r), load::<S>(self.weight, i, n)))
                }
            });
        }
    }
}

/// `x / sqrt(mean(x²) + eps) * weight` for rows as wide as `weight`.
pub(crate) fn rms_norm(x: &[f32], weight: &[f32], eps: f32) -> Vec<f32> {
    let mut y = vec![0.0; x.len()];
    let chunk = rows_of_chunk(weight.len()) * weight.len();
    y.par_chunks_mut(chunk).zip(x.par_chunks(chunk)).for_each(|(y, x)| dispatch(Norm { y, x, weight, eps }));
    y
}

struct LayerNorm<'a> {
    y: &'a mut [f32],
    x: &'a [f32],
    weight: &'a [f32],
    bias: &'a [f32],
    eps: f32,
}

impl Kernel for LayerNorm<'_> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let h = self.weight.len();
        for (y, x) in self.y.chunks_exact_mut(h).zip(self.x.chunks_exact(h)) {
            // SAFETY: inside a kernel; the indices stay below the width.
            unsafe {
                let mut sum = S::splat(0.0);
                vectors!(h, |i, n| {
                    sum = S::add(sum, load::<S>(x, i, n));
                });
                let mean = S::sum(sum) / h as f32;
                let centre = [mean; LANES];
                let mut squares = S::splat(0.0);
                vectors!(h, |i, n| {
                    // Lanes behind the end of the row get no mean either: they must stay 0.
                    let d = S::sub(load::<S>(x, i, n), load::<S>(&centre, 0, n));
                    squares = S::fma(d, d, squares);
                });
                let variance = S::sum(squares) / h as f32;
                let centre = S::splat(mean);
                let r = S::splat(1.0 / (variance + self.eps).sqrt());
                vectors!(h, |i, n| {
                    let d = S::mul(S::sub(load::<S>(x, i, n), centre), r);
                    store::<S>(y, i, n, S::fma(d, load::<S>(self.weight, i, n), load::<S>(self.bias, i, n)));
                });
            }
        }
    }
}

/// `(x - mean) / sqrt(variance + eps) * weight + bias` for rows as wide as `weight`.
pub(crate) fn layer_norm(x: &[f32], weight: &[f32], bias: &[f32], eps: f32) -> Vec<f32> {
    assert_eq!(weight.len(), bias.len());
    let mut y = vec![0.0; x.len()];
    let chunk = rows_of_chunk(weight.len()) * weight.len();
    y.par_chunks_mut(chunk)
        .zip(x.par_chunks(chunk))
        .for_each(|(y, x)| dispatch(LayerNorm { y, x, weight, bias, eps }));
    y
}

struct Gelu<'a> {
    y: &'a mut [f32],
    x: &'a [f32],
}

/// `t`, as in `t · P(t) · e^(-z²) = erfc(z)` with `t = 1 / (1 + SLOPE · z)`, z ≥ 0. The polynomial was fitted to erfc(z) e^(z²) / t at
/// Chebyshev nodes; the relative error in f32 is below 2e-7 for z up to 10.
const SLOPE: f32 = 0.45;
const ERFC: [f32; 10] = [
    -0.031_067_785,
    0.135_976_67,
    -0.175_851_64,
    -0.017_625_937,
    0.104_524_31,
    0.055_712_72,
    0.195_942_63,
    0.224_196_76,
    0.254_327_36,
    0.253_864_9,
];

impl Kernel for Gelu<'_> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: inside a kernel; the indices stay below the common length.
        vectors!(self.y.len(), |i, n| {
            unsafe {
                let x = load::<S>(self.x, i, n);
                let (zero, one) = (S::splat(0.0), S::splat(1.0));
                let size = S::max(S::sub(zero, x), x);
                let z = S::mul(size, S::splat(std::f32::consts::FRAC_1_SQRT_2));
                let t = S::div(one, S::fma(z, S::splat(SLOPE), one));
                let mut p = S::splat(ERFC[0]);
                for c in &ERFC[1..] {
                    p = S::fma(p, t, S::splat(*c));
                }
                let tail = S::mul(S::mul(p, t), S::exp(S::sub(zero, S::mul(z, z))));
                // x Φ(x): the smaller half is |x| erfc(|x| / √2) / 2; the larger is what is left of x.
                let half = S::mul(S::mul(size, S::splat(0.5)), tail);
                store::<S>(self.y, i, n, S::sub(S::max(zero, x), half));
            }
        });
    }
}

/// `x Φ(x)` with the normal distribution function: the exact gelu, not the one through tanh.
pub(crate) fn gelu(x: &[f32]) -> Vec<f32> {
    let mut y = vec![0.0; x.len()];
    y.par_chunks_mut(CHUNK).zip(x.par_chunks(CHUNK)).for_each(|(y, x)| dispatch(Gelu { y, x }));
    y
}

fn rows_of_chunk(width: usize) -> usize {
    (CHUNK / width.max(1)).max(1)
}

struct NormBackward<'a> {
    dx: &'a mut [f32],
    dweight: &'a mut [f32],
    x: &'a [f32],
    weight: &'a [f32],
    grad: &'a [f32],
    eps: f32,
}

impl Kernel for NormBackward<'_> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let h = self.weight.len();
        for ((dx, x), grad) in
            self.dx.chunks_exact_mut(h).zip(self.x.chunks_exact(h)).zip(self.grad.chunks_exact(h))
        {
            // SAFETY: inside a kernel.
            unsafe {
                let r = inverse_rms::<S>(x, self.eps);
                let mut dot = S::splat(0.0);
                vectors!(h, |i, n| {
                    dot = S::fma(
                        S::mul(load::<S>(grad, i, n), load::<S>(self.weight, i, n)),
                        load::<S>(x, i, n),
                        dot,
                    );
                });
                let back = S::splat(-S::sum(dot) * r * r * r / h as f32);
                let r = S::splat(r);
                vectors!(h, |i, n| {
                    let (d, x) = (S::mul(load::<S>(grad, i, n), r), load::<S>(x, i, n));
                    store::<S>(dx, i, n, S::fma(x, back, S::mul(d, load::<S>(self.weight, i, n))));
                    let sum = S::fma(d, x, load::<S>(self.dweight, i, n));
                    store::<S>(self.dweight, i, n, sum);
                });
            }
        }
    }
}

/// Gradients of [`rms_norm`] with respect to `x` and `weight`; the sum over rows has a fixed order.
pub(crate) fn rms_norm_backward(x: &[f32], weight: &[f32], eps: f32, grad: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let h = weight.len();
    let chunk = rows_of_chunk(h) * h;
    let mut dx = vec![0.0; x.len()];
    let parts: Vec<Vec<f32>> = dx
        .par_chunks_mut(chunk)
        .zip(x.par_chunks(chunk))
        .zip(grad.par_chunks(chunk))
        .map(|((dx, x), grad)| {
            let mut dweight = vec![0.0; h];
            dispatch(NormBackward { dx, dweight: &mut dweight, x, weight, grad, eps });
            dweight
        })
        .collect();
    let mut dweight = vec![0.0; h];
    for part in parts {
        dweight.iter_mut().zip(part).for_each(|(sum, x)| *sum += x);
    }
    (dx, dweight)
}

struct Turn<'a> {
    y: &'a mut [f32],
    x: &'a [f32],
    cos: &'a [f32],
    sin: &'a [f32],
    /// Values of a token, and of a head.
    token: usize,
    dim: usize,
    /// 1 forward, -1 back.
    sign: f32,
}

impl Kernel for Turn<'_> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let half = self.dim / 2;
        let tokens = self.y.chunks_exact_mut(self.token).zip(self.x.chunks_exact(self.token));
        for ((y, x), (cos, sin)) in tokens.zip(self.cos.chunks_exact(half).zip(self.sin.chunks_exact(half))) {
            for (y, x) in y.chunks_exact_mut(self.dim).zip(x.chunks_exact(self.dim)) {
                let (y0, y1) = y.split_at_mut(half);
                let (x0, x1) = x.split_at(half);
                // SAFETY: inside a kernel; the indices stay below half a head.
                vectors!(half, |i, n| {
                    unsafe {
                        let (a, b) = (load::<S>(x0, i, n), load::<S>(x1, i, n));
                        let (c, s) =
                            (load::<S>(cos, i, n), S::mul(load::<S>(sin, i, n), S::splat(self.sign)));
                        store::<S>(y0, i, n, S::sub(S::mul(a, c), S::mul(b, s)));
                        store::<S>(y1, i, n, S::add(S::mul(b, c), S::mul(a, s)));
                    }
                });
            }
        }
    }
}

/// Turns every pair `(i, i + D/2)` of every head by its token's angle; `sign` -1 turns back.
pub(crate) fn rotary(x: &[f32], cos: &[f32], sin: &[f32], heads: usize, dim: usize, sign: f32) -> Vec<f32> {
    let (token, half) = (heads * dim, dim / 2);
    let mut y = vec![0.0; x.len()];
    if token == 0 {
        return y;
    }
    assert!(cos.len() * 2 * heads >= x.len() && sin.len() * 2 * heads >= x.len(), "an angle for each token");
    let tokens = rows_of_chunk(token);
    y.par_chunks_mut(tokens * token)
        .zip(x.par_chunks(tokens * token))
        .zip(cos.par_chunks(tokens * half).zip(sin.par_chunks(tokens * half)))
        .for_each(|((y, x), (cos, sin))| dispatch(Turn { y, x, cos, sin, token, dim, sign }));
    y
}
