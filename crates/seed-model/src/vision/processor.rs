//! `preprocessor_config.json`, and what it makes of a picture.

use super::picture::{Grid, PatchForm, Picture};
use super::resize::RgbImage;
use crate::checkpoint::CheckpointError;
use crate::checkpoint::save::write_json;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why pictures cannot be prepared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessorError {
    /// A file cannot be read or written, or is not JSON.
    #[error(transparent)]
    File(#[from] CheckpointError),
    /// The folder has no image processor.
    #[error("{folder}: no image processor; needed: `preprocessor_config.json`")]
    None {
        /// The folder.
        folder: PathBuf,
    },
    /// A key has a value that cannot be used.
    #[error("preprocessor_config.json: key `{key}` is {found}, needed: {needed}")]
    Key {
        /// The key.
        key: String,
        /// Its value, as JSON.
        found: String,
        /// What is needed.
        needed: &'static str,
    },
    /// A picture is too long and thin.
    #[error("a picture of {height} × {width} pixels, needed: one side at most {limit} times the other")]
    Ratio {
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
        /// The largest ratio.
        limit: usize,
    },
    /// A side is too short.
    #[error("a picture of {height} × {width} pixels, needed: at least {smallest} on each side")]
    TooSmall {
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
        /// The shortest side.
        smallest: usize,
    },
}

/// Longest side over shortest side.
const LARGEST_RATIO: usize = 200;

/// Turns pictures into patches as Qwen2-VL's image processor does. Field names are the keys of `preprocessor_config.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageProcessor {
    /// Pixels of a patch's side.
    pub patch_size: usize,
    /// Copies of a still picture in a patch.
    pub temporal_patch_size: usize,
    /// Patches of a merged block's side.
    pub merge_size: usize,
    /// Smaller pictures are enlarged to at least this many pixels.
    pub min_pixels: usize,
    /// Larger pictures are shrunk to at most this many pixels.
    pub max_pixels: usize,
    /// Subtracted from each channel.
    pub image_mean: [f64; 3],
    /// Each channel is divided by it.
    pub image_std: [f64; 3],
    /// Multiplies bytes before normalisation.
    pub rescale_factor: f64,
    /// Refuse pictures with a side shorter than a merged block, as `transformers` 4.51 does; later versions enlarge them. Not in the
    /// file; false.
    pub refuse_short_sides: bool,
    /// Everything else in the file, written back as it is.
    pub other: Map<String, Value>,
}

impl Default for ImageProcessor {
    /// The published constants of Qwen2.5-VL.
    fn default() -> Self {
        Self {
            patch_size: 14,
            temporal_patch_size: 2,
            merge_size: 2,
            min_pixels: 56 * 56,
            max_pixels: 14 * 14 * 4 * 16384,
            image_mean: [0.48145466, 0.4578275, 0.40821073],
            image_std: [0.26862954, 0.26130258, 0.27577711],
            rescale_factor: 1.0 / 255.0,
            refuse_short_sides: false,
            other: Map::new(),
        }
    }
}

impl ImageProcessor {
    /// Reads `preprocessor_config.json` of a folder, else `image_processor` in its `processor_config.json`.
    ///
    /// # Errors
    /// [`ProcessorError`] when neither is there, or a key has a value that cannot be used.
    pub fn load(folder: impl AsRef<Path>) -> Result<Self, ProcessorError> {
        let folder = folder.as_ref();
        if let Some(value) = read(&folder.join("preprocessor_config.json"))? {
            return Self::from_json(value);
        }
        let nested =
            read(&folder.join("processor_config.json"))?.map(|mut value| value["image_processor"].take());
        match nested.filter(Value::is_object) {
            Some(value) => Self::from_json(value),
            None => Err(ProcessorError::None { folder: folder.to_path_buf() }),
        }
    }

    /// The processor in a parsed `preprocessor_config.json`. Limits are `min_pixels` and `max_pixels`, or `size` with
    /// `shortest_edge` and `longest_edge`. Absent keys have the published values.
    ///
    /// # Errors
    /// [`ProcessorError::Key`].
    pub fn from_json(value: Value) -> Result<Self, ProcessorError> {
        let Value::Object(mut map) = value else {
            return Err(wrong("", &value, "an object"));
        };
        let known = Self::default();
        for (key, needed) in
            [("do_resize", true), ("do_rescale", true), ("do_normalize", true), ("do_convert_rgb", true)]
        {
            if map.get(key).is_some_and(|found| !found.is_null() && *found != needed) {
                return Err(wrong(key, &map[key], "true"));
            }
        }
        if map.get("resample").is_some_and(|found| !found.is_null() && *found != 3) {
            return Err(wrong("resample", &map["resample"], "3 (bicubic)"));
        }
        let size = take(&mut map, "size");
        let mut limit = |key: &str, edge: &str, default: usize| match take(&mut map, key) {
            Some(value) => whole(key, &value),
            None => match size.as_ref().map(|size| &size[edge]).filter(|value| !value.is_null()) {
                Some(value) => whole(&format!("size.{edge}"), value),
                None => Ok(default),
            },
        };
        let min_pixels = limit("min_pixels", "shortest_edge", known.min_pixels)?;
        let max_pixels = limit("max_pixels", "longest_edge", known.max_pixels)?;
        let mut side =
            |key: &str, default| take(&mut map, key).map_or(Ok(default), |value| whole(key, &value));
        let (patch_size, temporal_patch_size, merge_size) = (
            side("patch_size", known.patch_size)?,
            side("temporal_patch_size", known.temporal_patch_size)?,
            side("merge_size", known.merge_size)?,
        );
        if max_pixels < min_pixels {
            return Err(wrong("max_pixels", &json!(max_pixels), "at least `min_pixels`"));
        }
        let mut channels = |key: &str, default, positive: bool| {
            let Some(value) = take(&mut map, key) else { return Ok(default) };
            let numbers: Vec<f64> =
                value.as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
            let numbers: Option<[f64; 3]> = numbers.try_into().ok();
            let fits = |all: &[f64; 3]| !positive || all.iter().all(|x| *x > 0.0);
            numbers.filter(fits).ok_or_else(|| wrong(key, &value, "three numbers (deviations positive)"))
        };
        let image_mean = channels("image_mean", known.image_mean, false)?;
        let image_std = channels("image_std", known.image_std, true)?;
        let rescale_factor = match take(&mut map, "rescale_factor") {
            None => known.rescale_factor,
            Some(value) => {
                let factor = value.as_f64().filter(|factor| factor.is_finite());
                factor.ok_or_else(|| wrong("rescale_factor", &value, "a number"))?
            }
        };
        Ok(Self {
            patch_size,
            temporal_patch_size,
            merge_size,
            min_pixels,
            max_pixels,
            image_mean,
            image_std,
            rescale_factor,
            refuse_short_sides: false,
            other: map,
        })
    }

    /// Writes `preprocessor_config.json` in the published form.
    ///
    /// # Errors
    /// [`ProcessorError::File`] when it cannot be written.
    pub fn save(&self, folder: impl AsRef<Path>) -> Result<(), ProcessorError> {
        let mut map = json!({
            "min_pixels": self.min_pixels,
            "max_pixels": self.max_pixels,
            "patch_size": self.patch_size,
            "temporal_patch_size": self.temporal_patch_size,
            "merge_size": self.merge_size,
            "image_mean": self.image_mean,
            "image_std": self.image_std,
            "image_processor_type": "Qwen2VLImageProcessor",
            "processor_class": "Qwen2_5_VLProcessor",
        });
        if self.rescale_factor != Self::default().rescale_factor {
            map["rescale_factor"] = json!(self.rescale_factor);
        }
        for (key, value) in &self.other {
            map[key] = value.clone();
        }
        Ok(write_json(&folder.as_ref().join("preprocessor_config.json"), &map)?)
    }

    /// Height and width of a picture of `height × width` pixels before it is cut into patches: multiples of a merged block's side,
    /// close to the shape, inside the limits.
    ///
    /// # Errors
    /// [`ProcessorError::Ratio`] above 200; [`ProcessorError::TooSmall`] for a side of 0, or a short one where those are refused.
    pub fn resized(&self, height: usize, width: usize) -> Result<(usize, usize), ProcessorError> {
        let side = self.patch_size * self.merge_size;
        let smallest = if self.refuse_short_sides { side } else { 1 };
        if height.min(width) < smallest {
            return Err(ProcessorError::TooSmall { height, width, smallest });
        }
        let (h, w, unit) = (height as f64, width as f64, side as f64);
        if h.max(w) / h.min(w) > LARGEST_RATIO as f64 {
            return Err(ProcessorError::Ratio { height, width, limit: LARGEST_RATIO });
        }
        let nearest = |x: f64| (x / unit).round_ties_even() * unit;
        let (mut to_h, mut to_w) = (nearest(h), nearest(w));
        if to_h * to_w > self.max_pixels as f64 {
            let shrink = ((h * w) / self.max_pixels as f64).sqrt();
            let below = |x: f64| ((x / shrink / unit).floor() * unit).max(unit);
            (to_h, to_w) = (below(h), below(w));
        } else if to_h * to_w < self.min_pixels as f64 {
            let grow = (self.min_pixels as f64 / (h * w)).sqrt();
            let above = |x: f64| (x * grow / unit).ceil() * unit;
            (to_h, to_w) = (above(h), above(w));
        }
        // Limits below one block would leave a side of 0.
        Ok((to_h.max(unit) as usize, to_w.max(unit) as usize))
    }

    /// A picture made ready: resized and cut into a grid of patches.
    ///
    /// # Errors
    /// As [`resized`](Self::resized).
    pub fn prepare(&self, image: &RgbImage) -> Result<Picture, ProcessorError> {
        let (height, width) = self.resized(image.height(), image.width())?;
        let grid = Grid { height: height / self.patch_size, width: width / self.patch_size };
        Ok(Picture::new(grid, image.resize(width, height).into_pixels(), Arc::new(self.form())))
    }

    /// As [`prepare`](Self::prepare), after the resizing that agents' environments do first ([`environment_size`]).
    ///
    /// # Errors
    /// As [`resized`](Self::resized).
    pub fn prepare_frame(&self, image: &RgbImage) -> Result<Picture, ProcessorError> {
        let (width, height) = environment_size(image.width(), image.height());
        self.prepare(&image.resize(width, height))
    }

    fn form(&self) -> PatchForm {
        let values = std::array::from_fn(|channel| {
            // In the precision of the reference: the product in f64, the rest in f32.
            let (mean, std) = (self.image_mean[channel] as f32, self.image_std[channel] as f32);
            std::array::from_fn(|byte| ((byte as f64 * self.rescale_factor) as f32 - mean) / std)
        });
        PatchForm { patch: self.patch_size, frames: self.temporal_patch_size, merge: self.merge_size, values }
    }
}

/// Width and height that an environment's frame gets before anything else: at least 256² and at most 2048² pixels in all, sides
/// truncated.
pub fn environment_size(width: usize, height: usize) -> (usize, usize) {
    let scaled = |(width, height): (usize, usize), pixels: usize| {
        let factor = (pixels as f64 / (width * height) as f64).sqrt();
        ((width as f64 * factor) as usize, (height as f64 * factor) as usize)
    };
    let (least, most) = (256 * 256, 2048 * 2048);
    let mut size = (width, height);
    if size.0 * size.1 > most {
        size = scaled(size, most);
    }
    if size.0 * size.1 > 0 && size.0 * size.1 < least {
        size = scaled(size, least);
    }
    size
}

fn take(map: &mut Map<String, Value>, key: &str) -> Option<Value> {
    map.shift_remove(key).filter(|value| !value.is_null())
}

fn wrong(key: &str, found: &Value, needed: &'static str) -> ProcessorError {
    ProcessorError::Key { key: key.to_owned(), found: found.to_string(), needed }
}

fn whole(key: &str, value: &Value) -> Result<usize, ProcessorError> {
    let number = value.as_u64().filter(|number| *number > 0 && *number < 1 << 40);
    number.map(|number| number as usize).ok_or_else(|| wrong(key, value, "a positive whole number"))
}

fn read(path: &Path) -> Result<Option<Value>, CheckpointError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(CheckpointError::Read { path: path.to_path_buf(), source }),
    };
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|error| CheckpointError::Json { path: path.to_path_buf(), reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_generations_of_keys_are_read_and_other_keys_survive() {
        let old = json!({"min_pixels": 100, "max_pixels": 900, "patch_size": 14, "extra": [1]});
        let new =
            json!({"size": {"shortest_edge": 100, "longest_edge": 900}, "resample": 3, "do_resize": true});
        let (old, new) = (ImageProcessor::from_json(old).unwrap(), ImageProcessor::from_json(new).unwrap());
        assert_eq!((old.min_pixels, old.max_pixels), (new.min_pixels, new.max_pixels));
        let folder = tempfile::tempdir().unwrap();
        old.save(folder.path()).unwrap();
        let again = ImageProcessor::load(folder.path()).unwrap();
        assert_eq!((again.max_pixels, &again.other["extra"]), (900, &json!([1])));
        assert_eq!(ImageProcessor { other: old.other.clone(), ..again }, old);
    }

    #[test]
    fn wrong_keys_are_named() {
        let message = |value| ImageProcessor::from_json(value).unwrap_err().to_string();
        assert_eq!(
            message(json!({"image_std": [1, 0, 1]})),
            "preprocessor_config.json: key `image_std` is [1,0,1], needed: three numbers (deviations positive)"
        );
        assert!(message(json!({"resample": 2})).contains("`resample` is 2, needed: 3 (bicubic)"));
        assert!(message(json!({"do_resize": false})).contains("`do_resize` is false, needed: true"));
        assert!(message(json!({"size": {"longest_edge": -1}})).contains("`size.longest_edge` is -1"));
        let folder = tempfile::tempdir().unwrap();
        let error = ImageProcessor::load(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with("needed: `preprocessor_config.json`"), "{error}");
    }

    #[test]
    fn environment_frames_are_enlarged_and_shrunk() {
        assert_eq!(environment_size(96, 96), (256, 256));
        assert_eq!(environment_size(300, 300), (300, 300));
        assert_eq!(environment_size(4096, 2048), (2896, 1448));
        assert_eq!(environment_size(0, 9), (0, 9));
    }
}
