//! PNG files.

use crate::environment::{EnvError, Image};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

/// Pictures beyond this number of pixels are refused.
const MAX_PIXELS: usize = 1 << 26;

/// Reads a PNG file; palettes and grey levels become colours, transparency is dropped.
///
/// # Errors
/// [`EnvError::Read`] when the file cannot be opened, [`EnvError::Data`] when it is no PNG file that fits.
pub fn read_png(path: &Path) -> Result<Image, EnvError> {
    let file = File::open(path).map_err(|source| EnvError::Read { path: path.to_owned(), source })?;
    let refuse = |found: String| EnvError::Data {
        path: path.to_owned(),
        place: String::new(),
        found,
        expected: "a PNG picture of at most 64 million pixels".to_owned(),
    };
    let mut decoder = png::Decoder::new(BufReader::new(file));
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(|error| refuse(error.to_string()))?;
    let (width, height) = (reader.info().width as usize, reader.info().height as usize);
    if width.saturating_mul(height) > MAX_PIXELS {
        return Err(refuse(format!("{width} x {height} pixels")));
    }
    let size = reader.output_buffer_size().ok_or_else(|| refuse("too many pixels".into()))?;
    let mut bytes = vec![0; size];
    let frame = reader.next_frame(&mut bytes).map_err(|error| refuse(error.to_string()))?;
    let pixels = &bytes[..frame.buffer_size()];
    let rgb = match frame.color_type {
        png::ColorType::Rgb => pixels.to_vec(),
        png::ColorType::Rgba => pixels.chunks_exact(4).flat_map(|p| [p[0], p[1], p[2]]).collect(),
        png::ColorType::Grayscale => pixels.iter().flat_map(|&grey| [grey; 3]).collect(),
        png::ColorType::GrayscaleAlpha => pixels.chunks_exact(2).flat_map(|p| [p[0]; 3]).collect(),
        png::ColorType::Indexed => return Err(refuse("a palette that was not resolved".into())),
    };
    Ok(Image { width, height, rgb })
}

/// The bytes of a PNG file.
///
/// # Errors
/// When the picture is empty, or has another number of bytes than its size says.
pub fn encode_png(image: &Image) -> std::io::Result<Vec<u8>> {
    let size = |side: usize| u32::try_from(side).map_err(std::io::Error::other);
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, size(image.width)?, size(image.height)?);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(std::io::Error::other)?;
    writer.write_image_data(&image.rgb).map_err(std::io::Error::other)?;
    writer.finish().map_err(std::io::Error::other)?;
    Ok(bytes)
}

/// Writes a PNG file.
///
/// # Errors
/// As [`encode_png`], and when the file cannot be written.
pub fn write_png(path: &Path, image: &Image) -> std::io::Result<()> {
    let bytes = encode_png(image)?;
    let mut file = BufWriter::new(File::create(path)?);
    file.write_all(&bytes)?;
    file.flush()
}
