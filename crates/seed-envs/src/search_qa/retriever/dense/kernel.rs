//! Inner products of stored rows with queries, as wide as the processor allows.
//!
//! Sums are kept in 32 lanes that are added up in a fixed order, with separate multiplications and additions: the
//! result is the same bit for bit on every machine, whatever its vectors.

/// Numbers that are worked on side by side.
const LANES: usize = 32;

/// The inner product of two slices of the same length.
#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    let (a_chunks, b_chunks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let (a_rest, b_rest) = (a_chunks.remainder(), b_chunks.remainder());
    for (a, b) in a_chunks.zip(b_chunks) {
        for lane in 0..LANES {
            lanes[lane] += a[lane] * b[lane];
        }
    }
    for (lane, (a, b)) in a_rest.iter().zip(b_rest).enumerate() {
        lanes[lane] += a * b;
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// A half-precision number; exact for every finite one.
#[inline(always)]
fn from_half(bits: u16) -> f32 {
    // Exponent and fraction are put in place and scaled by 2^112, which also sets subnormal numbers right.
    const SCALE: f32 = f32::from_bits(0x7780_0000);
    let magnitude = f32::from_bits(u32::from(bits & 0x7fff) << 13) * SCALE;
    f32::from_bits(magnitude.to_bits() | u32::from(bits & 0x8000) << 16)
}

#[inline(always)]
fn decode_f32(row: &[u8], out: &mut [f32]) {
    for (out, bytes) in out.iter_mut().zip(row.chunks_exact(4)) {
        *out = f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
}

#[inline(always)]
fn decode_f16(row: &[u8], out: &mut [f32]) {
    for (out, bytes) in out.iter_mut().zip(row.chunks_exact(2)) {
        *out = from_half(u16::from_le_bytes([bytes[0], bytes[1]]));
    }
}

#[inline(always)]
fn decode_i8(row: &[u8], out: &mut [f32]) {
    for (out, byte) in out.iter_mut().zip(row) {
        *out = f32::from(byte.cast_signed());
    }
}

/// How a row is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    F32,
    F16,
    /// A scale (`f32`), then one signed byte a number.
    I8,
}

/// Scores rows of `stride` bytes against the queries (joined, `dims` numbers each): `each(row, query, score)`.
#[inline(always)]
fn score_rows(
    kind: Kind,
    rows: &[u8],
    stride: usize,
    queries: &[f32],
    dims: usize,
    buffer: &mut [f32],
    each: &mut dyn FnMut(usize, usize, f32),
) {
    for (number, row) in rows.chunks_exact(stride).enumerate() {
        let scale = match kind {
            Kind::F32 => {
                decode_f32(row, buffer);
                1.0
            }
            Kind::F16 => {
                decode_f16(row, buffer);
                1.0
            }
            Kind::I8 => {
                decode_i8(&row[4..], buffer);
                f32::from_le_bytes([row[0], row[1], row[2], row[3]])
            }
        };
        for (query, vector) in queries.chunks_exact(dims).enumerate() {
            each(number, query, dot(buffer, vector) * scale);
        }
    }
}

macro_rules! wide {
    ($name:ident, $features:literal) => {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        fn $name(
            kind: Kind,
            rows: &[u8],
            stride: usize,
            queries: &[f32],
            dims: usize,
            buffer: &mut [f32],
            each: &mut dyn FnMut(usize, usize, f32),
        ) {
            score_rows(kind, rows, stride, queries, dims, buffer, each);
        }
    };
}

wide!(score_rows_avx2, "avx2");
wide!(score_rows_avx512, "avx512f,avx512bw");

/// As [`score_rows`], with the widest vectors that this processor has.
pub(super) fn score(
    kind: Kind,
    rows: &[u8],
    stride: usize,
    queries: &[f32],
    dims: usize,
    each: &mut dyn FnMut(usize, usize, f32),
) {
    let mut buffer = vec![0.0; dims];
    #[cfg(target_arch = "x86_64")]
    {
        if std::is_x86_feature_detected!("avx512f") && std::is_x86_feature_detected!("avx512bw") {
            // SAFETY: the processor has the features that the function is compiled for, as just checked.
            #[expect(
                unsafe_code,
                reason = "calling code compiled for wider vectors, behind the check for them"
            )]
            return unsafe { score_rows_avx512(kind, rows, stride, queries, dims, &mut buffer, each) };
        }
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has the feature that the function is compiled for, as just checked.
            #[expect(
                unsafe_code,
                reason = "calling code compiled for wider vectors, behind the check for them"
            )]
            return unsafe { score_rows_avx2(kind, rows, stride, queries, dims, &mut buffer, each) };
        }
    }
    score_rows(kind, rows, stride, queries, dims, &mut buffer, each);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_read_exactly() {
        for (bits, value) in [
            (0x0000, 0.0),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0001, 2.0_f32.powi(-24)),
            (0x03ff, 1023.0 * 2.0_f32.powi(-24)),
            (0x0400, 2.0_f32.powi(-14)),
            (0x3555, 0.333_251_95),
        ] {
            assert_eq!(from_half(bits), value, "{bits:04x}");
        }
    }

    /// Wide vectors give the very bits of narrow ones.
    #[test]
    fn every_width_gives_the_same_bits() {
        let dims = 77;
        let row: Vec<u8> = (0..4 + dims).map(|n| (n * 37 % 251) as u8).collect();
        let queries: Vec<f32> = (0..2 * dims).map(|n| (n as f32 * 0.37).sin()).collect();
        let (mut narrow, mut wide) = (vec![], vec![]);
        score_rows(
            Kind::I8,
            &row,
            row.len(),
            &queries,
            dims,
            &mut vec![0.0; dims],
            &mut |row, query, score: f32| {
                narrow.push((row, query, score.to_bits()));
            },
        );
        score(Kind::I8, &row, row.len(), &queries, dims, &mut |row, query, score: f32| {
            wide.push((row, query, score.to_bits()));
        });
        assert_eq!(narrow, wide);
        assert_eq!(wide.len(), 2);
    }
}
