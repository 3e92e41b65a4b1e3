//! Frames in recorded roll-outs: each a PNG file in hexadecimal digits, once for each distinct frame of an episode.

use seed_envs::Image;
use serde::de::Error as _;
use serde::ser::{Error as _, SerializeSeq};
use serde::{Deserialize, Deserializer, Serializer};
use std::fmt::Write;
use std::sync::Arc;

pub(crate) fn serialize<S: Serializer>(frames: &[Arc<Image>], serializer: S) -> Result<S::Ok, S::Error> {
    let mut list = serializer.serialize_seq(Some(frames.len()))?;
    for frame in frames {
        let file = to_png(frame).map_err(|error| S::Error::custom(format!("a frame as PNG: {error}")))?;
        let mut text = String::with_capacity(2 * file.len());
        for byte in file {
            write!(text, "{byte:02x}").map_err(S::Error::custom)?;
        }
        list.serialize_element(&text)?;
    }
    list.end()
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Arc<Image>>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let one = |(index, text): (usize, String)| {
        let bytes = from_hex(&text).ok_or_else(|| {
            D::Error::custom(format!("frame {index}: expected pairs of hexadecimal digits"))
        })?;
        let image = from_png(&bytes).map_err(|error| D::Error::custom(format!("frame {index}: {error}")))?;
        Ok(Arc::new(image))
    };
    texts.into_iter().enumerate().map(one).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
    bytes.collect::<Option<Vec<u8>>>().filter(|_| rest.is_empty())
}

fn to_png(frame: &Image) -> Result<Vec<u8>, png::EncodingError> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, frame.width as u32, frame.height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&frame.rgb)?;
    writer.finish()?;
    Ok(file)
}

fn from_png(file: &[u8]) -> Result<Image, String> {
    let mut reader =
        png::Decoder::new(std::io::Cursor::new(file)).read_info().map_err(|error| error.to_string())?;
    let size = reader.output_buffer_size().ok_or("a picture too large for memory")?;
    let mut rgb = vec![0; size];
    let info = reader.next_frame(&mut rgb).map_err(|error| error.to_string())?;
    if (info.color_type, info.bit_depth) != (png::ColorType::Rgb, png::BitDepth::Eight) {
        return Err(format!("found {:?} of {:?} bits, expected 8-bit RGB", info.color_type, info.bit_depth));
    }
    rgb.truncate(info.buffer_size());
    Ok(Image { width: info.width as usize, height: info.height as usize, rgb })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Serialize;

    #[derive(Serialize, Deserialize)]
    struct Held(#[serde(with = "super")] Vec<Arc<Image>>);

    #[test]
    fn frames_come_back_and_damage_is_named() {
        let rgb = (0..5 * 3 * 3).map(|byte| byte * 5).collect();
        let frames = vec![Arc::new(Image { width: 5, height: 3, rgb })];
        let text = serde_json::to_string(&Held(frames.clone())).unwrap();
        assert_eq!(serde_json::from_str::<Held>(&text).unwrap().0, frames);
        let error = |text: &str| serde_json::from_str::<Held>(text).err().unwrap().to_string();
        assert!(error(r#"["0g"]"#).contains("frame 0: expected pairs of hexadecimal digits"));
        assert!(error(&text.replacen("89504e", "89504f", 1)).contains("frame 0: "));
    }
}
