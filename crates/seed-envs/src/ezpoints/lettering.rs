//! Text on pictures.

use crate::environment::EnvError;
use crate::picture::canvas::{Canvas, Colour};
use crate::picture::font;
use serde::Deserialize;
use std::collections::HashMap;
use std::path::Path;

/// Letters to write with.
#[derive(Debug, Clone, PartialEq)]
pub enum Lettering {
    /// The project's own letters; a letter's square has so many pixels a side.
    Own {
        /// Pixels a side.
        scale: usize,
    },
    /// Masks of a rendered font with its spacing.
    Recorded(Box<Recorded>),
}

/// Masks of letters as a font renderer made them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Recorded {
    glyphs: HashMap<char, Glyph>,
    /// Shifts between two letters, by the two of them.
    kerning: HashMap<String, f64>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Glyph {
    advance: f64,
    ox: i64,
    oy: i64,
    w: usize,
    h: usize,
    /// Rows of two hexadecimal digits a pixel.
    rows: Vec<String>,
}

impl Lettering {
    /// Reads masks from a JSON file with `glyphs` (by letter: `advance`, `ox`, `oy`, `w`, `h`, `rows` in hexadecimal) and
    /// `kerning` (by pair of letters).
    ///
    /// # Errors
    /// [`EnvError`] when the file cannot be read or is not of this form.
    pub fn read(path: &Path) -> Result<Self, EnvError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| EnvError::Read { path: path.to_owned(), source })?;
        let refuse = |place: String, found: String, expected: &str| EnvError::Data {
            path: path.to_owned(),
            place,
            found,
            expected: expected.to_owned(),
        };
        let recorded: Recorded = serde_json::from_str(&text).map_err(|error| {
            refuse(format!(":{}", error.line()), error.to_string(), "`glyphs` and `kerning`")
        })?;
        for (letter, glyph) in &recorded.glyphs {
            let hexadecimal =
                |row: &String| row.len() == 2 * glyph.w && row.bytes().all(|digit| digit.is_ascii_hexdigit());
            if glyph.rows.len() != glyph.h || !glyph.rows.iter().all(hexadecimal) {
                let place = format!(" glyph {letter:?}");
                return Err(refuse(
                    place,
                    "rows of another size".into(),
                    "`h` rows of `w` bytes in hexadecimal",
                ));
            }
        }
        Ok(Self::Recorded(Box::new(recorded)))
    }

    /// Writes a line; `(x, y)` is its left top corner. Recorded letters that are missing are left out.
    pub fn write(&self, canvas: &mut Canvas, (x, y): (i64, i64), colour: Colour, text: &str) {
        match self {
            // The recorded letters hang some pixels below the given corner; so do these.
            Self::Own { scale } => font::write(canvas, (x, y + 2 * *scale as i64), *scale, colour, text),
            Self::Recorded(letters) => letters.write(canvas, (x, y), colour, text),
        }
    }
}

impl Recorded {
    fn write(&self, canvas: &mut Canvas, (x, y): (i64, i64), colour: Colour, text: &str) {
        let mut pen = 0.0;
        let mut before = None;
        for letter in text.chars() {
            if let Some(before) = before {
                pen += self.kerning.get(&format!("{before}{letter}")).copied().unwrap_or(0.0);
            }
            before = Some(letter);
            let Some(glyph) = self.glyphs.get(&letter) else { continue };
            let left = x + (pen + 0.5f64).floor() as i64 + glyph.ox;
            for (row, bytes) in glyph.rows.iter().enumerate() {
                for column in 0..glyph.w {
                    let byte = bytes.get(2 * column..2 * column + 2);
                    let cover = byte.and_then(|byte| u8::from_str_radix(byte, 16).ok()).unwrap_or(0);
                    canvas.blend(left + column as i64, y + glyph.oy + row as i64, colour, cover);
                }
            }
            pen += glyph.advance;
        }
    }
}
