//! Drawing on a picture.

use crate::environment::Image;

/// Red, green, blue.
pub type Colour = [u8; 3];

/// A picture that is being drawn. Whatever lies outside is cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Canvas {
    image: Image,
}

impl Canvas {
    /// A picture of one colour.
    pub fn new(width: usize, height: usize, colour: Colour) -> Self {
        Self { image: Image { width, height, rgb: colour.repeat(width * height) } }
    }

    /// Draws on a copy of a picture.
    pub fn over(image: &Image) -> Self {
        Self { image: image.clone() }
    }

    /// The picture.
    pub fn into_image(self) -> Image {
        self.image
    }

    /// Pixels in a row.
    pub fn width(&self) -> usize {
        self.image.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.image.height
    }

    fn pixel(&mut self, x: i64, y: i64) -> Option<&mut [u8]> {
        let (x, y) = (usize::try_from(x).ok()?, usize::try_from(y).ok()?);
        if x >= self.image.width {
            return None;
        }
        let at = (y * self.image.width + x) * 3;
        self.image.rgb.get_mut(at..at + 3)
    }

    /// Sets one pixel.
    pub fn set(&mut self, x: i64, y: i64, colour: Colour) {
        if let Some(pixel) = self.pixel(x, y) {
            pixel.copy_from_slice(&colour);
        }
    }

    /// Mixes a colour into one pixel; `cover` runs from 0 (nothing) to 255 (all of it), rounded as Pillow does.
    pub fn blend(&mut self, x: i64, y: i64, colour: Colour, cover: u8) {
        if let Some(pixel) = self.pixel(x, y) {
            for (old, new) in pixel.iter_mut().zip(colour) {
                let cover = u32::from(cover);
                let sum = u32::from(new) * cover + u32::from(*old) * (255 - cover) + 128;
                *old = ((sum + (sum >> 8)) >> 8) as u8;
            }
        }
    }

    /// Fills a rectangle.
    pub fn fill(&mut self, x: i64, y: i64, width: usize, height: usize, colour: Colour) {
        for row in y..y.saturating_add(height as i64) {
            for column in x..x.saturating_add(width as i64) {
                self.set(column, row, colour);
            }
        }
    }

    /// Copies a picture to a place.
    pub fn paste(&mut self, picture: &Image, x: i64, y: i64) {
        let left = x.clamp(0, self.image.width as i64);
        let right = x.saturating_add(picture.width as i64).clamp(left, self.image.width as i64);
        let count = (right - left) as usize * 3;
        for row in 0..picture.height {
            let target = y.saturating_add(row as i64);
            if target < 0 || target >= self.image.height as i64 || count == 0 {
                continue;
            }
            let from = (row * picture.width + (left - x) as usize) * 3;
            let to = (target as usize * self.image.width + left as usize) * 3;
            self.image.rgb[to..to + count].copy_from_slice(&picture.rgb[from..from + count]);
        }
    }

    /// Colours every pixel whose centre a shape covers, with smooth edges: `inside(x, y)` says whether a point (in
    /// pixels from the left and top) belongs to it, asked at 16 points a pixel of the given rectangle.
    pub fn shape(
        &mut self,
        (x, y): (i64, i64),
        (width, height): (usize, usize),
        colour: Colour,
        inside: impl Fn(f64, f64) -> bool,
    ) {
        const POINTS: usize = 4;
        for row in 0..height {
            for column in 0..width {
                let offset = |point: usize| (point as f64 + 0.5) / POINTS as f64;
                let hits = (0..POINTS * POINTS)
                    .filter(|point| {
                        let dx = column as f64 + offset(point % POINTS);
                        let dy = row as f64 + offset(point / POINTS);
                        inside(dx, dy)
                    })
                    .count();
                if hits > 0 {
                    let cover = (hits * 255 / (POINTS * POINTS)) as u8;
                    self.blend(x + column as i64, y + row as i64, colour, cover);
                }
            }
        }
    }
}

impl Image {
    /// The picture with each pixel as a square of `factor` pixels.
    #[must_use]
    pub fn magnified(&self, factor: usize) -> Image {
        let mut rgb = Vec::with_capacity(self.rgb.len() * factor * factor);
        for row in self.rgb.chunks_exact((self.width * 3).max(1)) {
            let wide: Vec<u8> = row.chunks_exact(3).flat_map(|pixel| pixel.repeat(factor)).collect();
            (0..factor).for_each(|_| rgb.extend_from_slice(&wide));
        }
        Image { width: self.width * factor, height: self.height * factor, rgb }
    }

    /// A rectangle of the picture; `None` when it sticks out.
    pub fn part(&self, x: usize, y: usize, width: usize, height: usize) -> Option<Image> {
        if x.checked_add(width)? > self.width || y.checked_add(height)? > self.height {
            return None;
        }
        let rows = (y..y + height).flat_map(|row| {
            let at = (row * self.width + x) * 3;
            &self.rgb[at..at + width * 3]
        });
        Some(Image { width, height, rgb: rows.copied().collect() })
    }
}
