//! Single-precision matrix product with strides, threads and a fixed order of summation.
//!
//! Each element of the result is one chain of multiply-adds over the depth, from the first to the last. A row of the result
//! therefore has the same bits whatever rows stand beside it, however the work was cut and however many threads did it:
//! a token scored in a batch, alone, or decoded step by step gives the same numbers.
#![allow(unsafe_code)]

use super::simd::{FEW, Few, Kernel, LANES, Simd, Start, Tile, dispatch};
use rayon::prelude::*;
use std::cell::RefCell;

/// A matrix somewhere in a slice: element `(i, j)` is `data[i * row + j * column]`.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) row: usize,
    pub(crate) column: usize,
}

impl<'a> Matrix<'a> {
    /// Rows of `width` adjacent values.
    pub(crate) fn rows(data: &'a [f32], width: usize) -> Self {
        Matrix { data, row: width, column: 1 }
    }

    /// The transpose, without moving anything.
    pub(crate) fn transposed(self) -> Self {
        Matrix { data: self.data, row: self.column, column: self.row }
    }

    fn check(&self, rows: usize, columns: usize, name: &str) {
        if rows > 0 && columns > 0 {
            let last = (rows - 1) * self.row + (columns - 1) * self.column;
            assert!(
                last < self.data.len(),
                "matrix {name} of {rows} × {columns} needs {} values, has {}",
                last + 1,
                self.data.len()
            );
        }
    }
}

/// What the result starts from.
#[derive(Clone, Copy)]
pub(crate) enum Init<'a> {
    /// The product alone.
    Zero,
    /// The product is added to what is there.
    Sum,
    /// Every row starts from these values.
    Bias(&'a [f32]),
}

/// A pointer that tasks with disjoint regions share.
#[derive(Clone, Copy)]
pub(crate) struct Shared<T>(pub(crate) *mut T);
// SAFETY: every user writes its own region only.
unsafe impl<T> Send for Shared<T> {}
unsafe impl<T> Sync for Shared<T> {}
impl<T> Shared<T> {
    pub(crate) fn get(&self) -> *mut T {
        self.0
    }
}

/// Steps of the depth and columns of `b` packed at a time: 256 KiB, a part of the second-level cache.
const DEPTH: usize = 256;
const COLUMNS: usize = 256;
/// Products smaller than this many multiply-adds are not worth waking a thread for.
const SERIAL: usize = 1 << 17;

/// `c[m × n] (+)= a[m × k] · b[k × n]`; rows of `c` lie `c_row` apart, its columns are adjacent.
///
/// # Panics
/// If a matrix is smaller than its shape.
#[allow(clippy::too_many_arguments)]
pub(crate) fn gemm(
    m: usize,
    n: usize,
    k: usize,
    a: Matrix,
    b: Matrix,
    c: &mut [f32],
    c_row: usize,
    init: Init,
) {
    if m == 0 || n == 0 {
        return;
    }
    a.check(m, k, "a");
    b.check(k, n, "b");
    assert!((m - 1) * c_row + n <= c.len(), "the result of {m} × {n} does not fit");
    if let Init::Bias(bias) = init {
        assert!(bias.len() >= n, "a bias of {} for {n} columns", bias.len());
    }
    let threads = rayon::current_num_threads();
    let c = Shared(c.as_mut_ptr());
    let block = move |rows: (usize, usize), columns: (usize, usize)| {
        let c = c;
        // The buffer is borrowed out here: a closure inside a kernel would be compiled without its instruction set.
        PACKED.with_borrow_mut(|packed| {
            packed.resize(DEPTH * COLUMNS, 0.0);
            dispatch(Block { rows, columns, k, a, b, c: c.get(), c_row, init, packed });
        });
    };
    if threads == 1 || m * n * k < SERIAL {
        return block((0, m), (0, n));
    }
    // Cut the rows first, each piece tall enough to pay for packing `b`; then the columns.
    let wanted = threads * 2;
    let row_pieces = (m / 192).clamp(1, wanted);
    let column_pieces = (n / 64).clamp(1, wanted.div_ceil(row_pieces));
    let row_piece = m.div_ceil(row_pieces).next_multiple_of(12);
    let column_piece = n.div_ceil(column_pieces).next_multiple_of(32);
    let tasks: Vec<_> = (0..n)
        .step_by(column_piece)
        .flat_map(|j| {
            (0..m)
                .step_by(row_piece)
                .map(move |i| ((i, (i + row_piece).min(m)), (j, (j + column_piece).min(n))))
        })
        .collect();
    tasks.into_par_iter().with_max_len(1).for_each(|(rows, columns)| block(rows, columns));
}

thread_local! {
    static PACKED: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// One rectangle of the result, the work of one task.
struct Block<'a> {
    rows: (usize, usize),
    columns: (usize, usize),
    k: usize,
    a: Matrix<'a>,
    b: Matrix<'a>,
    c: *mut f32,
    c_row: usize,
    init: Init<'a>,
    packed: &'a mut [f32],
}

impl Kernel for Block<'_> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: `gemm` checked that the matrices hold their shapes, and the rectangle lies inside them.
        unsafe {
            if self.k == 0 {
                return self.fill();
            }
            // Few rows: packing would cost more than it saves.
            if self.rows.1 - self.rows.0 <= 4 && self.b.column == 1 {
                let width = self.columns.1 - self.columns.0;
                for depth in (0..self.k).step_by(DEPTH) {
                    let steps = DEPTH.min(self.k - depth);
                    for j in (0..width).step_by(S::NR) {
                        let b = self.b.data.as_ptr().add(depth * self.b.row + self.columns.0 + j);
                        self.stripe::<S>(
                            depth,
                            steps,
                            self.columns.0 + j,
                            S::NR.min(width - j),
                            b,
                            self.b.row,
                            self.rows,
                        );
                    }
                }
                return;
            }
            let mut first = self.columns.0;
            if self.rows.1 - self.rows.0 <= FEW && self.b.row == 1 {
                while first + LANES <= self.columns.1 {
                    self.few::<S>(first);
                    first += LANES;
                }
            }
            let packed = self.packed.as_mut_ptr();
            for from in (first..self.columns.1).step_by(COLUMNS) {
                let width = COLUMNS.min(self.columns.1 - from);
                for depth in (0..self.k).step_by(DEPTH) {
                    let steps = DEPTH.min(self.k - depth);
                    self.pack::<S>(packed, depth, steps, from, width);
                    for i in (self.rows.0..self.rows.1).step_by(S::MR) {
                        let rows = (i, (i + S::MR).min(self.rows.1));
                        for j in (0..width).step_by(S::NR) {
                            let panel = packed.add(j * steps);
                            self.stripe::<S>(
                                depth,
                                steps,
                                from + j,
                                S::NR.min(width - j),
                                panel,
                                S::NR,
                                rows,
                            );
                        }
                    }
                }
            }
        }
    }
}

impl Block<'_> {
    /// An empty sum: the start values alone.
    fn fill(&self) {
        for i in self.rows.0..self.rows.1 {
            for j in self.columns.0..self.columns.1 {
                // SAFETY: inside the result.
                let c = unsafe { &mut *self.c.add(i * self.c_row + j) };
                match self.init {
                    Init::Zero => *c = 0.0,
                    Init::Sum => {}
                    Init::Bias(bias) => *c = bias[j],
                }
            }
        }
    }

    /// All rows, of which there are few, times sixteen columns over the whole depth.
    #[inline(always)]
    unsafe fn few<S: Simd>(&self, column: usize) {
        let start = match self.init {
            Init::Zero => Start::Zero,
            Init::Bias(bias) => Start::Row(bias[column..].as_ptr()),
            Init::Sum => Start::Sum,
        };
        // SAFETY: the caller's.
        unsafe {
            S::few(
                self.rows.1 - self.rows.0,
                &Few {
                    depth: self.k,
                    a: self.a.data.as_ptr().add(self.rows.0 * self.a.row),
                    a_row: self.a.row,
                    a_step: self.a.column,
                    b: self.b.data.as_ptr().add(column * self.b.column),
                    b_column: self.b.column,
                    c: self.c.add(self.rows.0 * self.c_row + column),
                    c_row: self.c_row,
                    start,
                },
            );
        }
    }

    /// At most `S::MR` rows times at most `S::NR` columns over `steps` of the depth.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    unsafe fn stripe<S: Simd>(
        &self,
        depth: usize,
        steps: usize,
        column: usize,
        n: usize,
        b: *const f32,
        b_step: usize,
        rows: (usize, usize),
    ) {
        let start = match (depth, self.init) {
            (0, Init::Zero) => Start::Zero,
            (0, Init::Bias(bias)) => Start::Row(bias[column..].as_ptr()),
            _ => Start::Sum,
        };
        // SAFETY: the caller's.
        unsafe {
            S::tile(
                rows.1 - rows.0,
                &Tile {
                    depth: steps,
                    a: self.a.data.as_ptr().add(rows.0 * self.a.row + depth * self.a.column),
                    a_row: self.a.row,
                    a_step: self.a.column,
                    b,
                    b_step,
                    c: self.c.add(rows.0 * self.c_row + column),
                    c_row: self.c_row,
                    n,
                    start,
                },
            );
        }
    }

    /// Copies a part of `b` into panels of `S::NR` columns, each panel `steps` rows, the last filled with zeros.
    #[inline(always)]
    unsafe fn pack<S: Simd>(&self, packed: *mut f32, depth: usize, steps: usize, from: usize, width: usize) {
        // SAFETY: reads stay inside `b`, which the caller checked; `packed` holds DEPTH × COLUMNS values.
        unsafe {
            for j in (0..width).step_by(S::NR) {
                let panel = packed.add(j * steps);
                for v in (0..S::NR).step_by(LANES) {
                    let n = width.saturating_sub(j + v).min(LANES);
                    let to = panel.add(v);
                    let source = self
                        .b
                        .data
                        .as_ptr()
                        .wrapping_add(depth * self.b.row + (from + j + v) * self.b.column);
                    if n == LANES && self.b.column == 1 {
                        for p in 0..steps {
                            S::store(to.add(p * S::NR), S::load(source.add(p * self.b.row)));
                        }
                    } else if n == LANES && self.b.row == 1 {
                        S::transpose(source, self.b.column, steps, to, S::NR);
                    } else {
                        for p in 0..steps {
                            for i in 0..LANES {
                                *to.add(p * S::NR + i) =
                                    if i < n { *source.add(p * self.b.row + i * self.b.column) } else { 0.0 };
                            }
                        }
                    }
                }
            }
        }
    }
}
