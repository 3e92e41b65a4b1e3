//! Our own letters: five by seven squares each, for the printable characters of ASCII.

use super::canvas::{Canvas, Colour};

/// Squares from one letter to the next.
const ADVANCE: usize = 6;
/// Squares from the top of a capital to the bottom of a `g`.
pub const HEIGHT: usize = 9;

/// Rows of five bits, the top row first and the left square highest, for the characters from blank to `~`.
const GLYPHS: [u64; 95] = [
    0x000000000,
    0x108421004,
    0x294a00000,
    0x295f57d4a,
    0x11f4717c4,
    0x632222263,
    0x32544564d,
    0x108800000,
    0x088842082,
    0x208210888,
    0x009575480,
    0x0084f9080,
    0x000003088,
    0x0000f8000,
    0x00000018c,
    0x002222200,
    0x3a33ae62e,
    0x11842108e,
    0x3a211111f,
    0x7c441062e,
    0x08ca97c42,
    0x7e1e0862e,
    0x1910f462e,
    0x7c2222108,
    0x3a317462e,
    0x3a317844c,
    0x018c03180,
    0x018c03088,
    0x088882082,
    0x001f07c00,
    0x208208888,
    0x3a2111004,
    0x3a216d6ae,
    0x3a318fe31,
    0x7a31f463e,
    0x3a308422e,
    0x72518c65c,
    0x7e10f421f,
    0x7e10f4210,
    0x3a30bc62f,
    0x4631fc631,
    0x38842108e,
    0x1c4210a4c,
    0x4654c5251,
    0x42108421f,
    0x4775ac631,
    0x4639ace31,
    0x3a318c62e,
    0x7a31f4210,
    0x3a318d64d,
    0x7a31f5251,
    0x3e107043e,
    0x7c8421084,
    0x46318c62e,
    0x46318c544,
    0x4631ad6aa,
    0x462a22a31,
    0x463151084,
    0x7c222221f,
    0x39084210e,
    0x020820820,
    0x38421084e,
    0x115100000,
    0x00000001f,
    0x208200000,
    0x000e0be2f,
    0x4216cc63e,
    0x000e8422e,
    0x042d9c62f,
    0x000e8fe0e,
    0x1928e2108,
    0x3e318bc2e,
    0x4216cc631,
    0x100c2108e,
    0x080610a4c,
    0x4212a6292,
    0x30842108e,
    0x001aad631,
    0x0016cc631,
    0x000e8c62e,
    0x7a318fa10,
    0x36718bc21,
    0x0016cc210,
    0x000e8383e,
    0x211c42126,
    0x00118c66d,
    0x00118c544,
    0x00118d6aa,
    0x001151151,
    0x46318bc2e,
    0x001f1111f,
    0x088441082,
    0x108421084,
    0x208411088,
    0x0008a8800,
];

/// What stands for a character that has no letter: an empty box.
const UNKNOWN: u64 = 0x7e318c63f;

/// Pixels that a text is wide.
pub fn width(text: &str, scale: usize) -> usize {
    text.chars().count() * ADVANCE * scale
}

/// Writes a line of text; `(x, y)` is the left top corner of the first letter and `scale` the side of a square.
pub fn write(canvas: &mut Canvas, (x, y): (i64, i64), scale: usize, colour: Colour, text: &str) {
    for (place, letter) in text.chars().enumerate() {
        let index = (letter as usize).wrapping_sub(' ' as usize);
        let rows = GLYPHS.get(index).copied().unwrap_or(UNKNOWN);
        // Letters with a tail hang below the line.
        let drop = if matches!(letter, 'g' | 'p' | 'q' | 'y') { 2 } else { 0 };
        for square in (0..35).filter(|square| rows >> (34 - square) & 1 == 1) {
            let column = place * ADVANCE + square % 5;
            let row = square / 5 + drop;
            canvas.fill(x + (column * scale) as i64, y + (row * scale) as i64, scale, scale, colour);
        }
    }
}
