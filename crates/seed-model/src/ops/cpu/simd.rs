//! Sixteen-lane f32 arithmetic for the kernels, in three versions: AVX-512, AVX2 with FMA, and plain Rust.
//!
//! Every version works on the same sixteen lanes and reduces them in the same order, so a kernel gives the same bits on
//! AVX-512 and on AVX2. A kernel is a type that implements [`Kernel`]; [`dispatch`] runs it with the best version the
//! processor has.
#![allow(unsafe_code)]
// Tiles index arrays of registers; constants are given in full.
#![allow(clippy::needless_range_loop, clippy::excessive_precision)]

/// Lanes of one vector, whatever the instruction set.
pub(crate) const LANES: usize = 16;

/// What a micro tile of a matrix product needs: `c[rows × n] (+)= a[rows × depth] · b[depth × n]`.
#[derive(Clone, Copy)]
pub(crate) struct Tile {
    pub(crate) depth: usize,
    pub(crate) a: *const f32,
    /// Distance between two rows of `a`, and between two steps of the depth.
    pub(crate) a_row: usize,
    pub(crate) a_step: usize,
    pub(crate) b: *const f32,
    /// Distance between two steps of the depth in `b`; the columns are adjacent.
    pub(crate) b_step: usize,
    pub(crate) c: *mut f32,
    pub(crate) c_row: usize,
    /// Columns to compute, at most [`Simd::NR`].
    pub(crate) n: usize,
    pub(crate) start: Start,
}

/// Most rows of a product that reads the other matrix in place.
pub(crate) const FEW: usize = 4;

/// A few rows times sixteen columns that lie as files store weights: `c[rows × 16] (+)= a[rows × depth] · b[depth × 16]`.
#[derive(Clone, Copy)]
pub(crate) struct Few {
    pub(crate) depth: usize,
    pub(crate) a: *const f32,
    /// Distance between two rows of `a`, and between two steps of the depth.
    pub(crate) a_row: usize,
    pub(crate) a_step: usize,
    pub(crate) b: *const f32,
    /// Distance between two columns of `b`; its steps of the depth are adjacent.
    pub(crate) b_column: usize,
    pub(crate) c: *mut f32,
    pub(crate) c_row: usize,
    pub(crate) start: Start,
}

/// What the sums of a tile start from.
#[derive(Clone, Copy)]
pub(crate) enum Start {
    /// Nothing.
    Zero,
    /// The values already in `c`.
    Sum,
    /// One row of values for all rows: a bias.
    Row(*const f32),
}

/// Sixteen f32 lanes of one instruction set.
///
/// # Safety
/// Every method may only be called where the processor has the instruction set; pointers must be valid for the lanes read or
/// written. Inside [`Kernel::run`] the first holds.
pub(crate) trait Simd: Copy {
    type V: Copy;
    /// Rows and columns of the largest tile.
    const MR: usize;
    const NR: usize;
    unsafe fn load(p: *const f32) -> Self::V;
    /// Loads `n` < 16 lanes, zeros behind.
    unsafe fn load_part(p: *const f32, n: usize) -> Self::V;
    unsafe fn store(p: *mut f32, v: Self::V);
    unsafe fn store_part(p: *mut f32, n: usize, v: Self::V);
    unsafe fn splat(x: f32) -> Self::V;
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V;
    /// The larger; the second operand where either is NaN.
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once where the processor can.
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `x * 2^k` for a whole `k` in [-126, 127].
    unsafe fn scale(x: Self::V, k: Self::V) -> Self::V;
    /// Lane-wise `if a < b { 0 } else { x }`.
    unsafe fn zero_where_less(a: Self::V, b: Self::V, x: Self::V) -> Self::V;
    /// Computes `rows` (at most [`Simd::MR`]) rows of a tile.
    unsafe fn tile(rows: usize, t: &Tile);
    /// Computes `rows` (at most [`FEW`]) rows against columns that are read once, without a packed copy. The sums are the same
    /// chains as those of [`tile`](Self::tile).
    unsafe fn few(rows: usize, t: &Few);
    /// Writes the transpose of `src` (16 rows of `depth` values, rows `ld` apart) to `dst`, whose rows of 16 lie `step` apart.
    unsafe fn transpose(src: *const f32, ld: usize, depth: usize, dst: *mut f32, step: usize);

    #[inline(always)]
    unsafe fn lanes(v: Self::V) -> [f32; LANES] {
        let mut lanes = [0.0; LANES];
        unsafe { Self::store(lanes.as_mut_ptr(), v) };
        lanes
    }

    /// The sum of the lanes, halves added to halves.
    #[inline(always)]
    unsafe fn sum(v: Self::V) -> f32 {
        let mut lanes = unsafe { Self::lanes(v) };
        let mut half = LANES / 2;
        while half > 0 {
            for i in 0..half {
                lanes[i] += lanes[i + half];
            }
            half /= 2;
        }
        lanes[0]
    }

    /// The largest lane.
    #[inline(always)]
    unsafe fn largest(v: Self::V) -> f32 {
        let lanes = unsafe { Self::lanes(v) };
        lanes.iter().copied().fold(f32::NEG_INFINITY, |a, b| if b > a || b.is_nan() { b } else { a })
    }

    /// e^x within 2 units in the last place; 0 below the smallest normal number, NaN for NaN, infinite above 88.72.
    #[inline(always)]
    unsafe fn exp(x: Self::V) -> Self::V {
        unsafe {
            const ROUND: f32 = 12_582_912.0;
            let low = Self::splat(-87.336_54);
            let bounded = Self::min(Self::splat(89.0), Self::max(low, x));
            let k = Self::sub(
                Self::fma(bounded, Self::splat(std::f32::consts::LOG2_E), Self::splat(ROUND)),
                Self::splat(ROUND),
            );
            // ln 2 in two parts: the first has so few bits that `k` times it is exact.
            let r = Self::fma(k, Self::splat(-0.693_359_375), bounded);
            let r = Self::fma(k, Self::splat(2.121_944_4e-4), r);
            let mut p = Self::splat(1.987_569_1e-4);
            for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 5.000_000_1e-1] {
                p = Self::fma(p, r, Self::splat(c));
            }
            let p = Self::add(Self::fma(p, Self::mul(r, r), r), Self::splat(1.0));
            // two steps, since 2^128 is out of range while e^88.7 is not
            let y = Self::mul(
                Self::scale(p, Self::min(Self::splat(127.0), k)),
                Self::scale(Self::splat(1.0), Self::max(Self::splat(0.0), Self::sub(k, Self::splat(127.0)))),
            );
            Self::zero_where_less(x, low, y)
        }
    }
}

/// A computation that is compiled once per instruction set.
pub(crate) trait Kernel {
    type Out;
    /// # Safety
    /// Only [`dispatch`] calls it, after it has looked at the processor. Implementations carry `#[inline(always)]`.
    unsafe fn run<S: Simd>(self) -> Self::Out;
}

/// Runs a kernel with the widest instruction set of this processor.
#[inline]
pub(crate) fn dispatch<K: Kernel>(kernel: K) -> K::Out {
    #[cfg(target_arch = "x86_64")]
    {
        if std::is_x86_feature_detected!("avx512f") && std::is_x86_feature_detected!("fma") {
            // SAFETY: the features were just detected.
            return unsafe { x86::avx512(kernel) };
        }
        if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
            // SAFETY: the features were just detected.
            return unsafe { x86::avx2(kernel) };
        }
    }
    // SAFETY: plain Rust needs no feature.
    unsafe { kernel.run::<Plain>() }
}

/// Repeats a block for each row below a constant bound. Written out, because the optimiser gives up on unrolling large tiles
/// and then keeps the sums in memory.
macro_rules! each_row {
    ($bound:expr, $i:ident, $body:block) => { each_row!(@ $bound, $i, $body, 0 1 2 3 4 5 6 7 8 9 10 11) };
    (@ $bound:expr, $i:ident, $body:block, $($n:literal)+) => {
        {
            $(if $n < $bound {
                const $i: usize = $n;
                $body
            })+
        }
    };
}

/// The rows of a micro tile, unrolled at compile time. Each sum is one chain of fused multiply-adds in the order of the
/// depth: its bits depend neither on the shape of the tile nor on how a larger product was cut into tiles.
#[inline(always)]
unsafe fn tile<S: Simd, const MR: usize, const NV: usize>(t: &Tile) {
    // SAFETY: the caller's.
    unsafe { if t.n == NV * LANES { tile_of::<S, MR, NV, true>(t) } else { tile_of::<S, MR, NV, false>(t) } }
}

/// Vector `j` of a row of `n` values; `FULL` rows have all their lanes.
#[inline(always)]
unsafe fn load_at<S: Simd, const FULL: bool>(p: *const f32, j: usize, n: usize) -> S::V {
    let width = n.saturating_sub(j * LANES);
    // SAFETY: the caller's.
    unsafe {
        if FULL || width >= LANES {
            S::load(p.add(j * LANES))
        } else if width == 0 {
            S::splat(0.0)
        } else {
            S::load_part(p.add(j * LANES), width)
        }
    }
}

#[inline(always)]
unsafe fn store_at<S: Simd, const FULL: bool>(p: *mut f32, j: usize, n: usize, v: S::V) {
    let width = n.saturating_sub(j * LANES);
    // SAFETY: the caller's.
    unsafe {
        if FULL || width >= LANES {
            S::store(p.add(j * LANES), v);
        } else if width > 0 {
            S::store_part(p.add(j * LANES), width, v);
        }
    }
}

#[inline(always)]
unsafe fn tile_of<S: Simd, const MR: usize, const NV: usize, const FULL: bool>(t: &Tile) {
    // SAFETY: the caller's: `a`, `b` and `c` hold the tile.
    unsafe {
        let mut sums = [[S::splat(0.0); NV]; 12];
        match t.start {
            Start::Zero => {}
            Start::Sum => each_row!(MR, I, {
                for j in 0..NV {
                    sums[I][j] = load_at::<S, FULL>(t.c.add(I * t.c_row), j, t.n);
                }
            }),
            Start::Row(bias) => each_row!(MR, I, {
                for j in 0..NV {
                    sums[I][j] = load_at::<S, FULL>(bias, j, t.n);
                }
            }),
        }
        // Three rows share a pointer: base, base + row, base + 2 row are addressing modes.
        let mut bases = [
            t.a,
            t.a.wrapping_add(3 * t.a_row),
            t.a.wrapping_add(6 * t.a_row),
            t.a.wrapping_add(9 * t.a_row),
        ];
        let mut b = t.b;
        for _ in 0..t.depth {
            let mut columns = [S::splat(0.0); NV];
            for (j, column) in columns.iter_mut().enumerate() {
                *column = load_at::<S, FULL>(b, j, t.n);
            }
            each_row!(MR, I, {
                let x = S::splat(*bases[I / 3].add((I % 3) * t.a_row));
                for j in 0..NV {
                    sums[I][j] = S::fma(x, columns[j], sums[I][j]);
                }
            });
            for base in &mut bases {
                *base = base.wrapping_add(t.a_step);
            }
            b = b.wrapping_add(t.b_step);
        }
        each_row!(MR, I, {
            for j in 0..NV {
                store_at::<S, FULL>(t.c.add(I * t.c_row), j, t.n, sums[I][j]);
            }
        });
    }
}

macro_rules! tiles {
    ($simd:ident, $nv:literal, $rows:expr, $t:expr, $($mr:literal)+) => {
        match $rows {
            $($mr => unsafe { tile::<$simd, $mr, $nv>($t) },)+
            rows => unreachable!("a tile of {rows} rows"),
        }
    };
}

/// No special instructions; the compiler vectorises what it can.
#[derive(Clone, Copy)]
pub(crate) struct Plain;

#[inline(always)]
fn each(f: impl Fn(usize) -> f32) -> [f32; LANES] {
    std::array::from_fn(f)
}

impl Simd for Plain {
    type V = [f32; LANES];
    const MR: usize = 4;
    const NR: usize = 16;
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self::V {
        unsafe { p.cast::<[f32; LANES]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn load_part(p: *const f32, n: usize) -> Self::V {
        each(|i| if i < n { unsafe { *p.add(i) } } else { 0.0 })
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: Self::V) {
        unsafe { p.cast::<[f32; LANES]>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn store_part(p: *mut f32, n: usize, v: Self::V) {
        for (i, x) in v.iter().enumerate().take(n) {
            unsafe { *p.add(i) = *x };
        }
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        [x; LANES]
    }
    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        each(|i| a[i] + b[i])
    }
    #[inline(always)]
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V {
        each(|i| a[i] - b[i])
    }
    #[inline(always)]
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
        each(|i| a[i] * b[i])
    }
    #[inline(always)]
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V {
        each(|i| a[i] / b[i])
    }
    #[inline(always)]
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
        each(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V {
        each(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        // A fused multiply-add without the instruction is a slow library call.
        if cfg!(any(target_arch = "aarch64", target_feature = "fma")) {
            each(|i| a[i].mul_add(b[i], c[i]))
        } else {
            each(|i| a[i] * b[i] + c[i])
        }
    }
    #[inline(always)]
    unsafe fn scale(x: Self::V, k: Self::V) -> Self::V {
        each(|i| x[i] * f32::from_bits(((k[i] as i32 + 127) as u32) << 23))
    }
    #[inline(always)]
    unsafe fn zero_where_less(a: Self::V, b: Self::V, x: Self::V) -> Self::V {
        each(|i| if a[i] < b[i] { 0.0 } else { x[i] })
    }
    // Not inlined, here and below: the unrolled tiles are large, and exist once.
    #[inline(never)]
    unsafe fn tile(rows: usize, t: &Tile) {
        tiles!(Plain, 1, rows, t, 1 2 3 4)
    }
    #[inline(never)]
    unsafe fn few(rows: usize, t: &Few) {
        for r in 0..rows {
            // SAFETY: the caller's.
            unsafe {
                let c = t.c.add(r * t.c_row);
                let mut sums = match t.start {
                    Start::Zero => [0.0; LANES],
                    Start::Sum => Self::load(c),
                    Start::Row(bias) => Self::load(bias),
                };
                for p in 0..t.depth {
                    let x = Self::splat(*t.a.add(r * t.a_row + p * t.a_step));
                    sums = Self::fma(x, each(|i| *t.b.add(i * t.b_column + p)), sums);
                }
                Self::store(c, sums);
            }
        }
    }
    #[inline(always)]
    unsafe fn transpose(src: *const f32, ld: usize, depth: usize, dst: *mut f32, step: usize) {
        for p in 0..depth {
            for i in 0..LANES {
                unsafe { *dst.add(p * step + i) = *src.add(i * ld + p) };
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Few, Kernel, LANES, Simd, Start, Tile, tile};
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx512f,avx2,fma")]
    pub(super) fn avx512<K: Kernel>(kernel: K) -> K::Out {
        // SAFETY: this function has the features.
        unsafe { kernel.run::<Avx512>() }
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn avx2<K: Kernel>(kernel: K) -> K::Out {
        // SAFETY: this function has the features.
        unsafe { kernel.run::<Avx2>() }
    }

    #[target_feature(enable = "avx512f,avx2,fma")]
    #[inline(never)]
    unsafe fn tile512(rows: usize, t: &Tile) {
        tiles!(Avx512, 2, rows, t, 12 1 2 3 4 5 6 7 8 9 10 11)
    }

    #[target_feature(enable = "avx2,fma")]
    #[inline(never)]
    unsafe fn tile256(rows: usize, t: &Tile) {
        tiles!(Avx2, 1, rows, t, 6 1 2 3 4 5)
    }

    // Half vectors serve both instruction sets: this product waits for memory, not for arithmetic.
    #[target_feature(enable = "avx2,fma")]
    #[inline(never)]
    unsafe fn few256(rows: usize, t: &Few) {
        // SAFETY: the caller's.
        unsafe {
            match rows {
                1 => few::<1>(t),
                2 => few::<2>(t),
                3 => few::<3>(t),
                4 => few::<4>(t),
                rows => unreachable!("{rows} rows are not few"),
            }
        }
    }

    #[inline(always)]
    unsafe fn few<const R: usize>(t: &Few) {
        // SAFETY: the caller's: `a` and `b` hold the depth, `c` the rows.
        unsafe {
            let mut sums = [[_mm256_setzero_ps(); 2]; R];
            for r in 0..R {
                for half in 0..2 {
                    sums[r][half] = match t.start {
                        Start::Zero => _mm256_setzero_ps(),
                        Start::Sum => _mm256_loadu_ps(t.c.add(r * t.c_row + 8 * half)),
                        Start::Row(bias) => _mm256_loadu_ps(bias.add(8 * half)),
                    };
                }
            }
            let whole = t.depth / 8 * 8;
            let mut p = 0;
            while p < whole {
                for half in 0..2 {
                    let columns = transposed8(t.b.add(8 * half * t.b_column + p), t.b_column);
                    for s in 0..8 {
                        for r in 0..R {
                            let x = _mm256_set1_ps(*t.a.add(r * t.a_row + (p + s) * t.a_step));
                            sums[r][half] = _mm256_fmadd_ps(x, columns[s], sums[r][half]);
                        }
                    }
                }
                p += 8;
            }
            for p in whole..t.depth {
                for half in 0..2 {
                    let at = |i: usize| *t.b.add((8 * half + i) * t.b_column + p);
                    let column = _mm256_setr_ps(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7));
                    for r in 0..R {
                        let x = _mm256_set1_ps(*t.a.add(r * t.a_row + p * t.a_step));
                        sums[r][half] = _mm256_fmadd_ps(x, column, sums[r][half]);
                    }
                }
            }
            for r in 0..R {
                for half in 0..2 {
                    _mm256_storeu_ps(t.c.add(r * t.c_row + 8 * half), sums[r][half]);
                }
            }
        }
    }

    #[derive(Clone, Copy)]
    pub(super) struct Avx512;

    impl Simd for Avx512 {
        type V = __m512;
        const MR: usize = 12;
        const NR: usize = 32;
        #[inline(always)]
        unsafe fn load(p: *const f32) -> __m512 {
            unsafe { _mm512_loadu_ps(p) }
        }
        #[inline(always)]
        unsafe fn load_part(p: *const f32, n: usize) -> __m512 {
            unsafe { _mm512_maskz_loadu_ps((1u16 << n) - 1, p) }
        }
        #[inline(always)]
        unsafe fn store(p: *mut f32, v: __m512) {
            unsafe { _mm512_storeu_ps(p, v) }
        }
        #[inline(always)]
        unsafe fn store_part(p: *mut f32, n: usize, v: __m512) {
            // full vectors come here too, from tiles that end in a partial one
            let mask = if n >= LANES { u16::MAX } else { (1u16 << n) - 1 };
            unsafe { _mm512_mask_storeu_ps(p, mask, v) }
        }
        #[inline(always)]
        unsafe fn splat(x: f32) -> __m512 {
            unsafe { _mm512_set1_ps(x) }
        }
        #[inline(always)]
        unsafe fn add(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_add_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn sub(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_sub_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn mul(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_mul_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn div(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_div_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn max(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_max_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn min(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_min_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
            unsafe { _mm512_fmadd_ps(a, b, c) }
        }
        #[inline(always)]
        unsafe fn scale(x: __m512, k: __m512) -> __m512 {
            unsafe { _mm512_scalef_ps(x, k) }
        }
        #[inline(always)]
        unsafe fn zero_where_less(a: __m512, b: __m512, x: __m512) -> __m512 {
            unsafe { _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b), _mm512_setzero_ps()) }
        }
        #[inline(always)]
        unsafe fn tile(rows: usize, t: &Tile) {
            // SAFETY: the caller's.
            unsafe { tile512(rows, t) }
        }
        #[inline(always)]
        unsafe fn few(rows: usize, t: &Few) {
            // SAFETY: the caller's; a processor with AVX-512 has AVX2 and FMA.
            unsafe { few256(rows, t) }
        }
        #[inline(always)]
        unsafe fn transpose(src: *const f32, ld: usize, depth: usize, dst: *mut f32, step: usize) {
            unsafe { transpose(src, ld, depth, dst, step) }
        }
    }

    #[derive(Clone, Copy)]
    pub(super) struct Avx2;

    /// Sixteen lanes are two registers.
    macro_rules! both {
        ($f:ident, $a:expr, $b:expr) => {
            unsafe { [$f($a[0], $b[0]), $f($a[1], $b[1])] }
        };
    }

    #[inline(always)]
    unsafe fn mask(n: usize, from: usize) -> __m256i {
        unsafe {
            let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32 - from as i32), lanes)
        }
    }

    impl Simd for Avx2 {
        type V = [__m256; 2];
        const MR: usize = 6;
        const NR: usize = 16;
        #[inline(always)]
        unsafe fn load(p: *const f32) -> Self::V {
            unsafe { [_mm256_loadu_ps(p), _mm256_loadu_ps(p.add(8))] }
        }
        #[inline(always)]
        unsafe fn load_part(p: *const f32, n: usize) -> Self::V {
            unsafe { [_mm256_maskload_ps(p, mask(n, 0)), _mm256_maskload_ps(p.wrapping_add(8), mask(n, 8))] }
        }
        #[inline(always)]
        unsafe fn store(p: *mut f32, v: Self::V) {
            unsafe {
                _mm256_storeu_ps(p, v[0]);
                _mm256_storeu_ps(p.add(8), v[1]);
            }
        }
        #[inline(always)]
        unsafe fn store_part(p: *mut f32, n: usize, v: Self::V) {
            unsafe {
                _mm256_maskstore_ps(p, mask(n, 0), v[0]);
                _mm256_maskstore_ps(p.wrapping_add(8), mask(n, 8), v[1]);
            }
        }
        #[inline(always)]
        unsafe fn splat(x: f32) -> Self::V {
            unsafe { [_mm256_set1_ps(x); 2] }
        }
        #[inline(always)]
        unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
            both!(_mm256_add_ps, a, b)
        }
        #[inline(always)]
        unsafe fn sub(a: Self::V, b: Self::V) -> Self::V {
            both!(_mm256_sub_ps, a, b)
        }
        #[inline(always)]
        unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
            both!(_mm256_mul_ps, a, b)
        }
        #[inline(always)]
        unsafe fn div(a: Self::V, b: Self::V) -> Self::V {
            both!(_mm256_div_ps, a, b)
        }
        #[inline(always)]
        unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
            both!(_mm256_max_ps, a, b)
        }
        #[inline(always)]
        unsafe fn min(a: Self::V, b: Self::V) -> Self::V {
            both!(_mm256_min_ps, a, b)
        }
        #[inline(always)]
        unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
            unsafe { [_mm256_fmadd_ps(a[0], b[0], c[0]), _mm256_fmadd_ps(a[1], b[1], c[1])] }
        }
        #[inline(always)]
        unsafe fn scale(x: Self::V, k: Self::V) -> Self::V {
            unsafe {
                let one = |x, k| {
                    let e = _mm256_add_epi32(_mm256_cvtps_epi32(k), _mm256_set1_epi32(127));
                    _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32::<23>(e)))
                };
                [one(x[0], k[0]), one(x[1], k[1])]
            }
        }
        #[inline(always)]
        unsafe fn zero_where_less(a: Self::V, b: Self::V, x: Self::V) -> Self::V {
            unsafe {
                let one = |a, b, x| _mm256_andnot_ps(_mm256_cmp_ps::<_CMP_LT_OQ>(a, b), x);
                [one(a[0], b[0], x[0]), one(a[1], b[1], x[1])]
            }
        }
        #[inline(always)]
        unsafe fn tile(rows: usize, t: &Tile) {
            // SAFETY: the caller's.
            unsafe { tile256(rows, t) }
        }
        #[inline(always)]
        unsafe fn few(rows: usize, t: &Few) {
            // SAFETY: the caller's.
            unsafe { few256(rows, t) }
        }
        #[inline(always)]
        unsafe fn transpose(src: *const f32, ld: usize, depth: usize, dst: *mut f32, step: usize) {
            unsafe { transpose(src, ld, depth, dst, step) }
        }
    }

    #[inline(always)]
    unsafe fn transpose(src: *const f32, ld: usize, depth: usize, dst: *mut f32, step: usize) {
        unsafe {
            let whole = depth / 8 * 8;
            for half in 0..LANES / 8 {
                let src = src.add(half * 8 * ld);
                let dst = dst.add(half * 8);
                let mut p = 0;
                while p < whole {
                    transpose8(src.add(p), ld, dst.add(p * step), step);
                    p += 8;
                }
                for p in whole..depth {
                    for i in 0..8 {
                        *dst.add(p * step + i) = *src.add(i * ld + p);
                    }
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn transpose8(src: *const f32, ld: usize, dst: *mut f32, step: usize) {
        unsafe {
            for (i, column) in transposed8(src, ld).into_iter().enumerate() {
                _mm256_storeu_ps(dst.add(i * step), column);
            }
        }
    }

    /// The columns of eight rows of eight.
    #[inline(always)]
    unsafe fn transposed8(src: *const f32, ld: usize) -> [__m256; 8] {
        unsafe {
            let row = |i: usize| _mm256_loadu_ps(src.add(i * ld));
            let (r0, r1, r2, r3, r4, r5, r6, r7) =
                (row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7));
            let (a0, a1) = (_mm256_unpacklo_ps(r0, r1), _mm256_unpackhi_ps(r0, r1));
            let (a2, a3) = (_mm256_unpacklo_ps(r2, r3), _mm256_unpackhi_ps(r2, r3));
            let (a4, a5) = (_mm256_unpacklo_ps(r4, r5), _mm256_unpackhi_ps(r4, r5));
            let (a6, a7) = (_mm256_unpacklo_ps(r6, r7), _mm256_unpackhi_ps(r6, r7));
            let b0 = _mm256_shuffle_ps::<0x44>(a0, a2);
            let b1 = _mm256_shuffle_ps::<0xEE>(a0, a2);
            let b2 = _mm256_shuffle_ps::<0x44>(a1, a3);
            let b3 = _mm256_shuffle_ps::<0xEE>(a1, a3);
            let b4 = _mm256_shuffle_ps::<0x44>(a4, a6);
            let b5 = _mm256_shuffle_ps::<0xEE>(a4, a6);
            let b6 = _mm256_shuffle_ps::<0x44>(a5, a7);
            let b7 = _mm256_shuffle_ps::<0xEE>(a5, a7);
            [
                _mm256_permute2f128_ps::<0x20>(b0, b4),
                _mm256_permute2f128_ps::<0x20>(b1, b5),
                _mm256_permute2f128_ps::<0x20>(b2, b6),
                _mm256_permute2f128_ps::<0x20>(b3, b7),
                _mm256_permute2f128_ps::<0x31>(b0, b4),
                _mm256_permute2f128_ps::<0x31>(b1, b5),
                _mm256_permute2f128_ps::<0x31>(b2, b6),
                _mm256_permute2f128_ps::<0x31>(b3, b7),
            ]
        }
    }
}
