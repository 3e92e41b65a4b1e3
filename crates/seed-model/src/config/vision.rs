//! `vision_config` and what else a configuration says about pictures.

use super::{ConfigError, Keys, invalid, unsupported};
use serde_json::{Map, Value, json};

/// Shape of the vision tower of Qwen2.5-VL, and the tokens and axes that pictures have in the decoder. Field names are those of
/// `config.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct VisionConfig {
    /// Number of blocks.
    pub depth: usize,
    /// Width of the tower.
    pub hidden_size: usize,
    /// Width of its gated MLP.
    pub intermediate_size: usize,
    /// Heads; a head's size is a multiple of 4.
    pub num_heads: usize,
    /// Colours; 3.
    pub in_channels: usize,
    /// Pixels of a patch's side.
    pub patch_size: usize,
    /// Patches of a merged block's side.
    pub spatial_merge_size: usize,
    /// Frames in a patch; a still picture is repeated.
    pub temporal_patch_size: usize,
    /// Pixels of a window's side.
    pub window_size: usize,
    /// Blocks that attend over the whole picture.
    pub fullatt_block_indexes: Vec<usize>,
    /// Width of the decoder.
    pub out_hidden_size: usize,
    /// Everything else in `vision_config`, written back as it is.
    pub other: Map<String, Value>,
    /// How many of a head's rotary pairs turn by time, height and width, in this order (`rope_scaling.mrope_section`).
    pub mrope_section: [usize; 3],
    /// Place holder of a picture.
    pub image_token_id: u32,
    /// Place holder of a video; never sampled.
    pub video_token_id: u32,
    /// Stands before a picture.
    pub vision_start_token_id: u32,
    /// Stands after a picture.
    pub vision_end_token_id: u32,
}

impl VisionConfig {
    /// A tower of `depth` blocks, `hidden_size` wide with `num_heads` heads, for a decoder of width `out_hidden_size` whose head size is
    /// `head_dim`; `first_token` and the four ids after it are the tokens: start, end, (an unused one), image, video.
    ///
    /// MLP of twice the width, published patch sizes and windows; every fourth block, and the last, attends over the whole picture.
    pub fn new(
        depth: usize,
        hidden_size: usize,
        num_heads: usize,
        out_hidden_size: usize,
        head_dim: usize,
        first_token: u32,
    ) -> Self {
        // As published: a quarter for time, the rest in halves.
        let (time, pairs) = (head_dim / 8, head_dim / 2);
        let height = (pairs - time) / 2;
        Self {
            depth,
            hidden_size,
            intermediate_size: 2 * hidden_size,
            num_heads,
            in_channels: 3,
            patch_size: 14,
            spatial_merge_size: 2,
            temporal_patch_size: 2,
            window_size: 112,
            fullatt_block_indexes: (0..depth).filter(|i| i % 4 == 3 || i + 1 == depth).collect(),
            out_hidden_size,
            other: Map::new(),
            mrope_section: [time, height, pairs - time - height],
            vision_start_token_id: first_token,
            vision_end_token_id: first_token + 1,
            image_token_id: first_token + 3,
            video_token_id: first_token + 4,
        }
    }

    /// Size of a head.
    pub fn head_dim(&self) -> usize {
        self.hidden_size / self.num_heads
    }

    /// Numbers of a patch.
    pub fn patch_len(&self) -> usize {
        self.in_channels * self.temporal_patch_size * self.patch_size * self.patch_size
    }

    /// Weights of the tower.
    pub fn parameters(&self) -> u64 {
        let n = |value: usize| value as u64;
        let (width, inner) = (n(self.hidden_size), n(self.intermediate_size));
        let merged = width * n(self.spatial_merge_size * self.spatial_merge_size);
        let block = 4 * width * width + 4 * width + 3 * width * inner + 2 * inner + width + 2 * width;
        let merger = width + merged * merged + merged + n(self.out_hidden_size) * (merged + 1);
        width * n(self.patch_len()) + n(self.depth) * block + merger
    }

    /// Takes what belongs to pictures out of a configuration. Absent keys have the values of the published library.
    pub(super) fn take(keys: &mut Keys) -> Result<Self, ConfigError> {
        let found = keys.take("vision_config").unwrap_or_else(|| json!({}));
        let Value::Object(map) = found else { return Err(invalid("vision_config", &found, "an object")) };
        let mut tower = Keys(map);
        for key in ["model_type", "dtype", "torch_dtype"] {
            tower.take(key);
        }
        if let Some(act) = tower.take("hidden_act").filter(|act| act != "silu") {
            return Err(unsupported("vision_config.hidden_act", &act, "\"silu\""));
        }
        let mut size = |key: &'static str, default: usize| {
            let found = tower.optional_size(key).map_err(|error| match error {
                ConfigError::Invalid { key, found, needed } => {
                    ConfigError::Invalid { key: format!("vision_config.{key}"), found, needed }
                }
                error => error,
            })?;
            Ok(found.unwrap_or(default))
        };
        let channels = size("in_chans", 3)?;
        let (depth, hidden_size, intermediate_size, num_heads, in_channels) = (
            size("depth", 32)?,
            size("hidden_size", 3584)?,
            size("intermediate_size", 3420)?,
            size("num_heads", 16)?,
            size("in_channels", channels)?,
        );
        let (patch_size, spatial_merge_size, temporal_patch_size, window_size, out_hidden_size) = (
            size("patch_size", 14)?,
            size("spatial_merge_size", 2)?,
            size("temporal_patch_size", 2)?,
            size("window_size", 112)?,
            size("out_hidden_size", 3584)?,
        );
        let fullatt_block_indexes = match tower.take("fullatt_block_indexes") {
            None => vec![7, 15, 23, 31],
            Some(value) => indexes(&value).ok_or_else(|| {
                invalid("vision_config.fullatt_block_indexes", &value, "a list of whole numbers")
            })?,
        };
        let mut token = |key: &'static str, default| {
            let ids = keys.ids(key)?;
            match ids.as_slice() {
                [] => Ok(default),
                [one] => Ok(*one),
                several => Err(invalid(key, &json!(several), "one token id")),
            }
        };
        Ok(Self {
            depth,
            hidden_size,
            intermediate_size,
            num_heads,
            in_channels,
            patch_size,
            spatial_merge_size,
            temporal_patch_size,
            window_size,
            fullatt_block_indexes,
            out_hidden_size,
            other: tower.0,
            image_token_id: token("image_token_id", 151_655)?,
            video_token_id: token("video_token_id", 151_656)?,
            vision_start_token_id: token("vision_start_token_id", 151_652)?,
            vision_end_token_id: token("vision_end_token_id", 151_653)?,
            mrope_section: mrope_section(keys)?,
        })
    }

    /// Checks that sizes fit together and to the decoder.
    pub(super) fn check(
        &self,
        head_dim: usize,
        hidden_size: usize,
        vocab_size: usize,
    ) -> Result<(), ConfigError> {
        let wrong = |key: &str, found: Value, needed: String| {
            Err(ConfigError::Invalid { key: key.to_owned(), found: found.to_string(), needed })
        };
        if self.depth == 0 || self.num_heads == 0 || self.patch_size == 0 || self.spatial_merge_size == 0 {
            return wrong("vision_config", json!(0), "sizes of at least 1".to_owned());
        }
        if !self.hidden_size.is_multiple_of(self.num_heads)
            || !self.head_dim().is_multiple_of(4)
            || self.head_dim() == 0
        {
            let needed = format!("`num_heads` ({}) heads whose size is a multiple of 4", self.num_heads);
            return wrong("vision_config.hidden_size", json!(self.hidden_size), needed);
        }
        if self.in_channels != 3 {
            return wrong(
                "vision_config.in_channels",
                json!(self.in_channels),
                "3 (red, green, blue)".to_owned(),
            );
        }
        if self.out_hidden_size != hidden_size {
            let needed = format!("the decoder's `hidden_size` ({hidden_size})");
            return wrong("vision_config.out_hidden_size", json!(self.out_hidden_size), needed);
        }
        if self.mrope_section.iter().sum::<usize>() * 2 != head_dim {
            let needed = format!("three numbers whose sum is half the head size ({})", head_dim / 2);
            return wrong("rope_scaling.mrope_section", json!(self.mrope_section), needed);
        }
        for (key, id) in [
            ("image_token_id", self.image_token_id),
            ("video_token_id", self.video_token_id),
            ("vision_start_token_id", self.vision_start_token_id),
            ("vision_end_token_id", self.vision_end_token_id),
        ] {
            if id as usize >= vocab_size {
                return wrong(key, json!(id), format!("below `vocab_size` ({vocab_size})"));
            }
        }
        Ok(())
    }

    /// The keys of the published form.
    pub(super) fn put(&self, put: &mut impl FnMut(&str, Value)) {
        put("image_token_id", json!(self.image_token_id));
        put("video_token_id", json!(self.video_token_id));
        put("vision_start_token_id", json!(self.vision_start_token_id));
        put("vision_end_token_id", json!(self.vision_end_token_id));
        put("rope_scaling", json!({"type": "mrope", "mrope_section": self.mrope_section}));
        let mut tower = json!({
            "depth": self.depth,
            "fullatt_block_indexes": self.fullatt_block_indexes,
            "hidden_act": "silu",
            "hidden_size": self.hidden_size,
            "in_channels": self.in_channels,
            "in_chans": self.in_channels,
            "intermediate_size": self.intermediate_size,
            "num_heads": self.num_heads,
            "out_hidden_size": self.out_hidden_size,
            "patch_size": self.patch_size,
            "spatial_merge_size": self.spatial_merge_size,
            "temporal_patch_size": self.temporal_patch_size,
            "window_size": self.window_size,
        });
        for (key, value) in &self.other {
            tower[key] = value.clone();
        }
        put("vision_config", tower);
    }
}

fn indexes(value: &Value) -> Option<Vec<usize>> {
    value.as_array()?.iter().map(|item| item.as_u64().and_then(|i| usize::try_from(i).ok())).collect()
}

fn mrope_section(keys: &Keys) -> Result<[usize; 3], ConfigError> {
    for key in ["rope_parameters", "rope_scaling"] {
        let Some(value) = keys.0.get(key).and_then(|rope| rope.get("mrope_section")).filter(|v| !v.is_null())
        else {
            continue;
        };
        let sections = indexes(value).and_then(|all| all.try_into().ok());
        return sections
            .ok_or_else(|| invalid(&format!("{key}.mrope_section"), value, "three whole numbers"));
    }
    Err(ConfigError::Missing {
        key: "rope_scaling.mrope_section",
        needed: "three whole numbers (rotary pairs of time, height, width)",
    })
}
