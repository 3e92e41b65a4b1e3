//! Fresh weights from a seed.

use crate::causal_lm::TensorSource;
use burn::tensor::TensorData;
use std::convert::Infallible;

/// Normal values for matrices, 0 for biases, 1 for norms; each tensor has its own stream, named by the tensor.
pub(crate) struct FreshWeights {
    seed: u64,
    std: f64,
}

impl FreshWeights {
    pub(crate) fn new(seed: u64, std: f64) -> Self {
        Self { seed, std }
    }
}

impl TensorSource for FreshWeights {
    type Error = Infallible;

    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<TensorData, Infallible> {
        let count = shape.iter().product();
        let values = if name.ends_with("bias") {
            vec![0.0; count]
        } else if shape.len() == 1 {
            vec![1.0; count]
        } else {
            normal(&mut Stream::named(self.seed, name), count, self.std)
        };
        Ok(TensorData::new(values, shape.to_vec()))
    }
}

/// `count` normal values with standard deviation `std` (Box–Muller).
pub(crate) fn normal(stream: &mut Stream, count: usize, std: f64) -> Vec<f32> {
    let mut values = Vec::with_capacity(count + 1);
    while values.len() < count {
        // 1 - u lies in (0, 1]: its logarithm is finite.
        let radius = (-2.0 * (1.0 - stream.uniform()).ln()).sqrt() * std;
        let (sin, cos) = (std::f64::consts::TAU * stream.uniform()).sin_cos();
        values.extend([(radius * cos) as f32, (radius * sin) as f32]);
    }
    values.truncate(count);
    values
}

/// SplitMix64, seeded by a number and a name.
pub(crate) struct Stream(u64);

impl Stream {
    pub(crate) fn named(seed: u64, name: &str) -> Self {
        // FNV-1a spreads the name; one round of mixing separates neighbouring seeds.
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        let mut stream = Self(seed);
        Self(stream.next() ^ hash)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `[0, 1)` with 53 bits.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_depend_on_seed_and_name_and_have_the_right_spread() {
        let draw = |seed, name| normal(&mut Stream::named(seed, name), 20_000, 0.02);
        assert_eq!(draw(1, "a"), draw(1, "a"));
        assert_ne!(draw(1, "a"), draw(2, "a"));
        assert_ne!(draw(1, "a"), draw(1, "b"));
        let values = draw(3, "x");
        let mean = values.iter().sum::<f32>() / 20_000.0;
        let std = (values.iter().map(|v| v * v).sum::<f32>() / 20_000.0).sqrt();
        assert!(mean.abs() < 5e-4 && (std - 0.02).abs() < 5e-4, "mean {mean} std {std}");
    }
}
