//! Bicubic resizing with the arithmetic of Pillow: 8-bit pixels, 22-bit fixed-point weights, rows before columns, rounding to
//! 8 bits between the two.

/// A picture of 8-bit red, green and blue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RgbImage {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

/// Bits behind the point of a weight.
const BITS: u32 = 22;

impl RgbImage {
    /// From rows of pixels, three bytes each; `None` where the number of bytes is not `width · height · 3` or a side is 0.
    pub fn new(width: usize, height: usize, pixels: Vec<u8>) -> Option<Self> {
        let bytes = width.checked_mul(height)?.checked_mul(3)?;
        (bytes > 0 && bytes == pixels.len()).then_some(Self { width, height, pixels })
    }

    /// Columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Rows of pixels, three bytes each.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    pub(crate) fn into_pixels(self) -> Vec<u8> {
        self.pixels
    }

    /// The picture in another size: Catmull–Rom cubic (a = -1/2), its support widened when shrinking. An axis that keeps its size is
    /// not filtered. A side of 0 gives a side of 1.
    pub fn resize(&self, width: usize, height: usize) -> Self {
        let (width, height) = (width.max(1), height.max(1));
        let mut image = self.clone();
        if width != image.width {
            let weights = Weights::new(image.width, width);
            let mut pixels = Vec::with_capacity(width * image.height * 3);
            for row in image.pixels.chunks_exact(image.width * 3) {
                for x in 0..width {
                    let (first, weights) = weights.of(x);
                    pixels.extend((0..3).map(|channel| {
                        let taps = row[first * 3 + channel..].iter().step_by(3);
                        mix(weights.iter().zip(taps))
                    }));
                }
            }
            image = Self { width, height: image.height, pixels };
        }
        if height != image.height {
            let weights = Weights::new(image.height, height);
            let stride = width * 3;
            let mut pixels = Vec::with_capacity(stride * height);
            for y in 0..height {
                let (first, weights) = weights.of(y);
                pixels.extend((0..stride).map(|at| {
                    let taps = image.pixels[first * stride + at..].iter().step_by(stride);
                    mix(weights.iter().zip(taps))
                }));
            }
            image = Self { width, height, pixels };
        }
        image
    }
}

fn mix<'a>(taps: impl Iterator<Item = (&'a i32, &'a u8)>) -> u8 {
    let sum = taps.fold(1i32 << (BITS - 1), |sum, (weight, pixel)| sum + weight * i32::from(*pixel));
    (sum >> BITS).clamp(0, 255) as u8
}

/// For each output position: the first input position, and fixed-point weights from there on.
struct Weights(Vec<(usize, Vec<i32>)>);

impl Weights {
    fn new(from: usize, to: usize) -> Self {
        let scale = from as f64 / to as f64;
        let widen = scale.max(1.0);
        let support = 2.0 * widen;
        let all = (0..to).map(|at| {
            let centre = (at as f64 + 0.5) * scale;
            let first = (centre - support + 0.5).max(0.0) as usize;
            let end = ((centre + support + 0.5) as usize).min(from);
            let raw: Vec<f64> =
                (first..end).map(|i| cubic((i as f64 - centre + 0.5) * (1.0 / widen))).collect();
            let sum: f64 = raw.iter().sum();
            let fixed = raw.iter().map(|weight| {
                let weight = if sum == 0.0 { *weight } else { weight / sum } * f64::from(1 << BITS);
                (if weight < 0.0 { weight - 0.5 } else { weight + 0.5 }) as i32
            });
            (first, fixed.collect())
        });
        Self(all.collect())
    }

    fn of(&self, at: usize) -> (usize, &[i32]) {
        let (first, weights) = &self.0[at];
        (*first, weights)
    }
}

fn cubic(x: f64) -> f64 {
    const A: f64 = -0.5;
    let x = x.abs();
    if x < 1.0 {
        ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        (((x - 5.0) * x + 8.0) * x - 4.0) * A
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_colour_stays_one_colour_in_every_size() {
        let image = RgbImage::new(7, 5, [17, 200, 255].repeat(35)).expect("35 pixels");
        for (width, height) in [(1, 1), (3, 11), (28, 2), (7, 5), (70, 50)] {
            let resized = image.resize(width, height);
            assert_eq!(resized.pixels(), [17, 200, 255].repeat(width * height), "{width}x{height}");
        }
    }

    #[test]
    fn the_number_of_bytes_must_fit() {
        assert!(RgbImage::new(2, 2, vec![0; 12]).is_some());
        assert!(RgbImage::new(2, 2, vec![0; 11]).is_none() && RgbImage::new(0, 2, vec![]).is_none());
        assert!(RgbImage::new(usize::MAX, 2, vec![]).is_none());
    }
}
