//! Stored tensor types, and their values as f32.

use half::{bf16, f16};

/// A tensor type that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    F32,
    F16,
    Bf16,
    /// Blocks of 32: f16 scale, 16 bytes of two 4-bit numbers; `d · (q - 8)`.
    Q4_0,
    /// Blocks of 32: f16 scale and minimum, 16 bytes of two 4-bit numbers; `d · q + m`.
    Q4_1,
    /// Blocks of 32: f16 scale, 32 signed bytes; `d · q`.
    Q8_0,
}

impl Kind {
    /// The type with this number in the file.
    pub(super) fn from_id(id: u32) -> Option<Self> {
        Some(match id {
            0 => Self::F32,
            1 => Self::F16,
            2 => Self::Q4_0,
            3 => Self::Q4_1,
            8 => Self::Q8_0,
            30 => Self::Bf16,
            _ => return None,
        })
    }

    /// Values and bytes of one block.
    pub(super) fn block(self) -> (usize, usize) {
        match self {
            Self::F32 => (1, 4),
            Self::F16 | Self::Bf16 => (1, 2),
            Self::Q4_0 => (32, 18),
            Self::Q4_1 => (32, 20),
            Self::Q8_0 => (32, 34),
        }
    }

    /// All values of whole blocks.
    pub(super) fn values(self, bytes: &[u8]) -> Vec<f32> {
        let half_at = |block: &[u8], at: usize| f16::from_le_bytes([block[at], block[at + 1]]).to_f32();
        let (count, size) = self.block();
        let blocks = bytes.chunks_exact(size);
        let mut out = Vec::with_capacity(blocks.len() * count);
        for block in blocks {
            match self {
                Self::F32 => out.push(f32::from_le_bytes([block[0], block[1], block[2], block[3]])),
                Self::F16 => out.push(half_at(block, 0)),
                Self::Bf16 => out.push(bf16::from_le_bytes([block[0], block[1]]).to_f32()),
                Self::Q4_0 => {
                    let d = half_at(block, 0);
                    out.extend(nibbles(&block[2..]).map(|q| d * (f32::from(q) - 8.0)));
                }
                Self::Q4_1 => {
                    let (d, m) = (half_at(block, 0), half_at(block, 2));
                    out.extend(nibbles(&block[4..]).map(|q| d * f32::from(q) + m));
                }
                Self::Q8_0 => {
                    let d = half_at(block, 0);
                    out.extend(block[2..].iter().map(|q| d * f32::from(q.cast_signed())));
                }
            }
        }
        out
    }
}

/// All low halves, then all high halves.
fn nibbles(bytes: &[u8]) -> impl Iterator<Item = u8> {
    bytes.iter().map(|b| b & 15).chain(bytes.iter().map(|b| b >> 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half(value: f32) -> [u8; 2] {
        f16::from_f32(value).to_le_bytes()
    }

    #[test]
    fn blocks_follow_their_formulas() {
        let packed: Vec<u8> = (0..16).map(|i| i | ((15 - i) << 4)).collect();
        let numbers: Vec<f32> = (0..16).chain((0..16).rev()).map(|q| q as f32).collect();

        let q4_0 = [&half(0.5)[..], &packed].concat();
        let expected: Vec<f32> = numbers.iter().map(|q| 0.5 * (q - 8.0)).collect();
        assert_eq!(Kind::Q4_0.values(&q4_0), expected);

        let q4_1 = [&half(0.25)[..], &half(-1.5), &packed].concat();
        let expected: Vec<f32> = numbers.iter().map(|q| 0.25 * q - 1.5).collect();
        assert_eq!(Kind::Q4_1.values(&q4_1), expected);

        let bytes: Vec<u8> = (0..32).map(|i| (i * 8 - 128i32) as i8 as u8).collect();
        let q8_0 = [&half(2.0)[..], &bytes].concat();
        let expected: Vec<f32> = (0..32).map(|i| 2.0 * (i * 8 - 128) as f32).collect();
        assert_eq!(Kind::Q8_0.values(&q8_0), expected);

        assert_eq!(Kind::F16.values(&half(-3.25)), [-3.25]);
    }
}
