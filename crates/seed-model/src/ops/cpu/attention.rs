//! Attention over pages of keys and values: the same code for packed training rows and for the decoding cache.
//!
//! A page holds [`PAGE`] positions of one key-value head: the keys transposed (`[D][PAGE]`, so that a vector holds sixteen
//! positions) and the values in rows (`[PAGE][width]`, `width` = `D` rounded up to whole vectors, zeros behind). Scores, maximum,
//! sum and weighted values are taken in the order of the positions, so a token gets the same bits in a packed row, alone, and
//! from the cache.
#![allow(unsafe_code)]

use super::gemm::Shared;
use super::simd::{Kernel, LANES, Simd, Start, Tile, dispatch};
use rayon::prelude::*;

/// Positions in a page.
pub(crate) const PAGE: usize = 32;
/// Query rows worked on at a time.
const ROWS: usize = 48;

/// Head layout of an attention layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Heads {
    pub(crate) query: usize,
    pub(crate) key: usize,
    pub(crate) dim: usize,
}

impl Heads {
    fn group(&self) -> usize {
        self.query / self.key
    }
    /// Length of a value row in a page.
    pub(crate) fn width(&self) -> usize {
        self.dim.next_multiple_of(LANES)
    }
    /// Floats in a page of one key-value head.
    pub(crate) fn page_len(&self) -> usize {
        PAGE * (self.dim + self.width())
    }
    /// Positions in a block of query rows.
    fn block(&self) -> usize {
        (ROWS / self.group()).max(1)
    }
}

/// Queries of one sequence and where its pages are.
pub(crate) struct Sequence<'a> {
    /// First query token in the packed tensor, and how many.
    pub(crate) start: usize,
    pub(crate) count: usize,
    /// Position of the first query in its sequence: it sees this many positions before its own.
    pub(crate) position: usize,
    /// Pages in the order of positions; each holds every key-value head, `page_len` floats a head, from `offset` on.
    pub(crate) pages: &'a [&'a [f32]],
    pub(crate) offset: usize,
    /// A query sees no position after its own; else it sees all of them.
    pub(crate) causal: bool,
}

impl Sequence<'_> {
    /// Positions that the queries `first .. first + count` see together.
    fn seen(&self, first: usize, count: usize) -> usize {
        self.position + if self.causal { first + count } else { self.count }
    }
}

/// Writes `k` and `v` of one token (`[kv_heads, D]`) to its place in a page.
pub(crate) fn write_page(page: &mut [f32], slot: usize, heads: Heads, k: &[f32], v: &[f32]) {
    let (dim, width) = (heads.dim, heads.width());
    for head in 0..heads.key {
        let page = &mut page[head * heads.page_len()..(head + 1) * heads.page_len()];
        let (keys, values) = page.split_at_mut(dim * PAGE);
        for (i, x) in k[head * dim..(head + 1) * dim].iter().enumerate() {
            keys[i * PAGE + slot] = *x;
        }
        values[slot * width..slot * width + dim].copy_from_slice(&v[head * dim..(head + 1) * dim]);
    }
}

/// Pages of whole packed rows, built for one call.
pub(crate) fn pages_of_rows(k: &[f32], v: &[f32], heads: Heads, lengths: &[usize]) -> Vec<Vec<f32>> {
    let token = heads.key * heads.dim;
    let mut jobs = Vec::new();
    let mut start = 0;
    for &len in lengths {
        for first in (0..len).step_by(PAGE) {
            jobs.push((start + first, PAGE.min(len - first)));
        }
        start += len;
    }
    jobs.into_par_iter()
        .map(|(first, count)| {
            let mut page = vec![0.0; heads.key * heads.page_len()];
            for slot in 0..count {
                let at = (first + slot) * token;
                write_page(&mut page, slot, heads, &k[at..at + token], &v[at..at + token]);
            }
            page
        })
        .collect()
}

/// Attends the queries `q` (`[T, heads, D]`) of the sequences. Returns the output `[T, heads, D]` and, for each query, the
/// logarithm of the sum of its exponentials `[T, heads]`.
pub(crate) fn attend(q: &[f32], heads: Heads, scale: f32, sequences: &[Sequence]) -> (Vec<f32>, Vec<f32>) {
    let mut out = vec![0.0; q.len()];
    let mut lse = vec![0.0; q.len() / heads.dim];
    let (o, l) = (Shared(out.as_mut_ptr()), Shared(lse.as_mut_ptr()));
    let mut jobs = Vec::new();
    for sequence in sequences {
        assert!(
            (sequence.start + sequence.count) * heads.query * heads.dim <= q.len(),
            "queries end before the sequence"
        );
        assert!(
            (sequence.position + sequence.count).div_ceil(PAGE) <= sequence.pages.len(),
            "pages end before the sequence"
        );
        for page in sequence.pages {
            assert!(sequence.offset + heads.key * heads.page_len() <= page.len(), "a page is too small");
        }
        for first in (0..sequence.count).step_by(heads.block()) {
            let count = heads.block().min(sequence.count - first);
            jobs.extend((0..heads.key).map(|head| (sequence, first, count, head)));
        }
    }
    let work = jobs
        .iter()
        .map(|(s, first, count, _)| count * heads.group() * s.seen(*first, *count) * heads.dim)
        .sum::<usize>();
    let run = |&(sequence, first, count, head): &(&Sequence, usize, usize, usize)| {
        let (o, l) = (o, l);
        let keys = sequence.seen(first, count).next_multiple_of(PAGE);
        let rows = count * heads.group();
        let mut scratch = vec![0.0; rows * (heads.dim + keys + heads.width())];
        dispatch(Forward {
            q,
            heads,
            scale,
            sequence,
            first,
            count,
            head,
            out: o.get(),
            lse: l.get(),
            scratch: &mut scratch,
        });
    };
    if work < 1 << 16 {
        jobs.iter().for_each(run);
    } else {
        jobs.par_iter().for_each(run);
    }
    (out, lse)
}

/// One block of query positions of one key-value head.
struct Forward<'a> {
    q: &'a [f32],
    heads: Heads,
    scale: f32,
    sequence: &'a Sequence<'a>,
    first: usize,
    count: usize,
    head: usize,
    out: *mut f32,
    lse: *mut f32,
    scratch: &'a mut [f32],
}

impl Kernel for Forward<'_> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Heads { query, dim, .. } = self.heads;
        let (group, width) = (self.heads.group(), self.heads.width());
        let rows = self.count * group;
        let keys = self.sequence.seen(self.first, self.count).next_multiple_of(PAGE);
        let (queries, rest) = self.scratch.split_at_mut(rows * dim);
        let (scores, sums) = rest.split_at_mut(rows * keys);
        // The rows of a position are its query heads of this group: adjacent in the packed tensor.
        for i in 0..self.count {
            let from = ((self.sequence.start + self.first + i) * query + self.head * group) * dim;
            queries[i * group * dim..(i + 1) * group * dim]
                .copy_from_slice(&self.q[from..from + group * dim]);
        }
        // SAFETY: `attend` checked the pages; scratch parts have the sizes used; each job writes its own rows of the outputs.
        unsafe {
            for (p, page) in self.sequence.pages[..keys / PAGE].iter().enumerate() {
                let page = page.as_ptr().add(self.sequence.offset + self.head * self.heads.page_len());
                let c = scores.as_mut_ptr().add(p * PAGE);
                product::<S>(rows, PAGE, dim, queries.as_ptr(), (dim, 1), page, PAGE, c, keys, Start::Zero);
            }
            for r in 0..rows {
                let row = scores.as_mut_ptr().add(r * keys);
                let seen = self.sequence.seen(self.first + r / group, 1);
                let (top, sum) = softmax::<S>(row, seen, keys, self.scale);
                let to =
                    ((self.sequence.start + self.first + r / group) * query) + self.head * group + r % group;
                *self.lse.add(to) = top + sum.ln();
                let inverse = S::splat(1.0 / sum);
                for j in (0..keys).step_by(LANES) {
                    S::store(row.add(j), S::mul(S::load(row.add(j)), inverse));
                }
            }
            for (p, page) in self.sequence.pages[..keys / PAGE].iter().enumerate() {
                let page =
                    page.as_ptr().add(self.sequence.offset + self.head * self.heads.page_len() + dim * PAGE);
                let start = if p == 0 { Start::Zero } else { Start::Sum };
                product::<S>(
                    rows,
                    width,
                    PAGE,
                    scores.as_ptr().add(p * PAGE),
                    (keys, 1),
                    page,
                    width,
                    sums.as_mut_ptr(),
                    width,
                    start,
                );
            }
            for r in 0..rows {
                let to = (((self.sequence.start + self.first + r / group) * query)
                    + self.head * group
                    + r % group)
                    * dim;
                std::ptr::copy_nonoverlapping(sums.as_ptr().add(r * width), self.out.add(to), dim);
            }
        }
    }
}

/// Turns scores into exponentials of `scale * score - maximum`, zeros from `seen` on. Returns the maximum and the sum.
#[inline(always)]
unsafe fn softmax<S: Simd>(row: *mut f32, seen: usize, keys: usize, scale: f32) -> (f32, f32) {
    // SAFETY: the row has `keys` values, a multiple of the lanes.
    unsafe {
        for j in seen..keys {
            *row.add(j) = f32::NEG_INFINITY;
        }
        let scale = S::splat(scale);
        let mut top = S::splat(f32::NEG_INFINITY);
        for j in (0..keys).step_by(LANES) {
            let x = S::mul(S::load(row.add(j)), scale);
            S::store(row.add(j), x);
            top = S::max(top, x);
        }
        let top = S::largest(top);
        let shift = S::splat(top);
        let mut sum = S::splat(0.0);
        for j in (0..keys).step_by(LANES) {
            let e = S::exp(S::sub(S::load(row.add(j)), shift));
            S::store(row.add(j), e);
            sum = S::add(sum, e);
        }
        (top, S::sum(sum))
    }
}

/// `c[m × n] (+)= a[m × k] · b[k × n]` in tiles, for operands that are already in the cache.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn product<S: Simd>(
    m: usize,
    n: usize,
    k: usize,
    a: *const f32,
    a_strides: (usize, usize),
    b: *const f32,
    b_step: usize,
    c: *mut f32,
    c_row: usize,
    start: Start,
) {
    let mut i = 0;
    while i < m {
        let rows = S::MR.min(m - i);
        let mut j = 0;
        while j < n {
            // SAFETY: the caller's.
            unsafe {
                S::tile(
                    rows,
                    &Tile {
                        depth: k,
                        a: a.add(i * a_strides.0),
                        a_row: a_strides.0,
                        a_step: a_strides.1,
                        b: b.add(j),
                        b_step,
                        c: c.add(i * c_row + j),
                        c_row,
                        n: S::NR.min(n - j),
                        start,
                    },
                );
            }
            j += S::NR;
        }
        i += rows;
    }
}

/// What the backward pass reads: the inputs, the output and its logarithms, and the gradient of the output.
pub(crate) struct Saved<'a> {
    pub(crate) q: &'a [f32],
    pub(crate) k: &'a [f32],
    pub(crate) v: &'a [f32],
    pub(crate) out: &'a [f32],
    pub(crate) lse: &'a [f32],
    pub(crate) grad: &'a [f32],
}

/// Gradients of packed attention with respect to `q`, `k` and `v`.
pub(crate) fn attend_backward(
    saved: &Saved,
    heads: Heads,
    scale: f32,
    lengths: &[usize],
    causal: bool,
) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
    let (mut dq, mut dk, mut dv) =
        (vec![0.0; saved.q.len()], vec![0.0; saved.k.len()], vec![0.0; saved.v.len()]);
    assert_eq!(
        lengths.iter().sum::<usize>() * heads.query * heads.dim,
        saved.q.len(),
        "lengths sum to the tokens"
    );
    assert!(
        saved.grad.len() == saved.q.len()
            && saved.out.len() == saved.q.len()
            && saved.k.len() == saved.v.len()
    );
    let pointers = (Shared(dq.as_mut_ptr()), Shared(dk.as_mut_ptr()), Shared(dv.as_mut_ptr()));
    let mut jobs = Vec::new();
    let mut start = 0;
    for &len in lengths {
        jobs.extend((0..heads.key).map(|head| (start, len, head)));
        start += len;
    }
    // Longest first: the last job to end is then a short one.
    jobs.sort_by_key(|(_, len, _)| std::cmp::Reverse(*len));
    jobs.into_par_iter().with_max_len(1).for_each(|(start, len, head)| {
        if len == 0 {
            return;
        }
        let (dq, dk, dv) = pointers;
        let keys = len.next_multiple_of(PAGE);
        let rows = heads.block() * heads.group();
        let mut scratch = vec![
            0.0;
            keys * (2 * heads.dim + 3 * heads.width())
                + rows * (2 * keys + heads.dim + 3 * heads.width())
        ];
        dispatch(Backward {
            saved,
            heads,
            scale,
            start,
            len,
            head,
            causal,
            dq: dq.get(),
            dk: dk.get(),
            dv: dv.get(),
            scratch: &mut scratch,
        });
    });
    (dq, dk, dv)
}

/// One key-value head of one row.
struct Backward<'a> {
    saved: &'a Saved<'a>,
    heads: Heads,
    scale: f32,
    start: usize,
    len: usize,
    head: usize,
    causal: bool,
    dq: *mut f32,
    dk: *mut f32,
    dv: *mut f32,
    scratch: &'a mut [f32],
}

impl Kernel for Backward<'_> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Heads { query, key, dim } = self.heads;
        let (group, width, keys) = (self.heads.group(), self.heads.width(), self.len.next_multiple_of(PAGE));
        let block = self.heads.block();
        let mut rest = self.scratch;
        let mut take = |n: usize| {
            let (part, tail) = std::mem::take(&mut rest).split_at_mut(n);
            rest = tail;
            part
        };
        let (key_columns, value_columns) = (take(keys * dim), take(keys * dim));
        let (key_rows, dkeys, dvalues) = (take(keys * width), take(keys * width), take(keys * width));
        let most = block * group;
        let (weights, dscores) = (take(most * keys), take(most * keys));
        let queries = take(most * dim);
        let (query_rows, grads, dqueries) = (take(most * width), take(most * width), take(most * width));
        for t in 0..self.len {
            let from = ((self.start + t) * key + self.head) * dim;
            let (k, v) = (&self.saved.k[from..from + dim], &self.saved.v[from..from + dim]);
            key_rows[t * width..t * width + dim].copy_from_slice(k);
            let page = (t / PAGE) * PAGE * dim + t % PAGE;
            for i in 0..dim {
                key_columns[page + i * PAGE] = k[i];
                value_columns[page + i * PAGE] = v[i];
            }
        }
        for first in (0..self.len).step_by(block) {
            let count = block.min(self.len - first);
            let rows = count * group;
            let seen = |query: usize, count: usize| if self.causal { query + count } else { self.len };
            let keys = seen(first, count).next_multiple_of(PAGE);
            for i in 0..count {
                let from = ((self.start + first + i) * query + self.head * group) * dim;
                queries[i * group * dim..(i + 1) * group * dim]
                    .copy_from_slice(&self.saved.q[from..from + group * dim]);
                for g in 0..group {
                    let (from, to) = (from + g * dim, (i * group + g) * width);
                    query_rows[to..to + dim].copy_from_slice(&self.saved.q[from..from + dim]);
                    grads[to..to + dim].copy_from_slice(&self.saved.grad[from..from + dim]);
                }
            }
            // SAFETY: the parts of the scratch have the sizes used here; this job alone writes its head of its row.
            unsafe {
                for p in 0..keys / PAGE {
                    let (k, v) = (
                        key_columns.as_ptr().add(p * PAGE * dim),
                        value_columns.as_ptr().add(p * PAGE * dim),
                    );
                    product::<S>(
                        rows,
                        PAGE,
                        dim,
                        queries.as_ptr(),
                        (dim, 1),
                        k,
                        PAGE,
                        weights.as_mut_ptr().add(p * PAGE),
                        keys,
                        Start::Zero,
                    );
                    product::<S>(
                        rows,
                        PAGE,
                        dim,
                        grads.as_ptr(),
                        (width, 1),
                        v,
                        PAGE,
                        dscores.as_mut_ptr().add(p * PAGE),
                        keys,
                        Start::Zero,
                    );
                }
                for r in 0..rows {
                    let at = (self.start + first + r / group) * query + self.head * group + r % group;
                    let mut dot = 0.0;
                    for i in 0..dim {
                        dot += self.saved.out[at * dim + i] * self.saved.grad[at * dim + i];
                    }
                    let (w, d) = (weights.as_mut_ptr().add(r * keys), dscores.as_mut_ptr().add(r * keys));
                    for j in seen(first + r / group, 1)..keys {
                        *w.add(j) = f32::NEG_INFINITY;
                    }
                    let (scale, lse, dot) =
                        (S::splat(self.scale), S::splat(self.saved.lse[at]), S::splat(dot));
                    for j in (0..keys).step_by(LANES) {
                        let weight = S::exp(S::sub(S::mul(S::load(w.add(j)), scale), lse));
                        S::store(w.add(j), weight);
                        S::store(d.add(j), S::mul(S::mul(weight, S::sub(S::load(d.add(j)), dot)), scale));
                    }
                }
                product::<S>(
                    keys,
                    width,
                    rows,
                    weights.as_ptr(),
                    (1, keys),
                    grads.as_ptr(),
                    width,
                    dvalues.as_mut_ptr(),
                    width,
                    Start::Sum,
                );
                product::<S>(
                    keys,
                    width,
                    rows,
                    dscores.as_ptr(),
                    (1, keys),
                    query_rows.as_ptr(),
                    width,
                    dkeys.as_mut_ptr(),
                    width,
                    Start::Sum,
                );
                product::<S>(
                    rows,
                    width,
                    keys,
                    dscores.as_ptr(),
                    (keys, 1),
                    key_rows.as_ptr(),
                    width,
                    dqueries.as_mut_ptr(),
                    width,
                    Start::Zero,
                );
                for r in 0..rows {
                    let at = (self.start + first + r / group) * query + self.head * group + r % group;
                    std::ptr::copy_nonoverlapping(
                        dqueries.as_ptr().add(r * width),
                        self.dq.add(at * dim),
                        dim,
                    );
                }
            }
        }
        for t in 0..self.len {
            let to = ((self.start + t) * key + self.head) * dim;
            // SAFETY: as above.
            unsafe {
                std::ptr::copy_nonoverlapping(dkeys.as_ptr().add(t * width), self.dk.add(to), dim);
                std::ptr::copy_nonoverlapping(dvalues.as_ptr().add(t * width), self.dv.add(to), dim);
            }
        }
    }
}
