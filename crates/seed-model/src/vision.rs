//! Pictures for Qwen2.5-VL: from pixels to the embeddings that stand in a row's place holders.
//!
//! | module | what it holds |
//! |---|---|
//! | `resize` | [`RgbImage`], bicubic resizing with Pillow's arithmetic |
//! | `processor` | [`ImageProcessor`]: `preprocessor_config.json`, sizes, normalisation; gives a [`Picture`] |
//! | `picture` | [`Picture`]: resized pixels, cut into patches when they are needed |
//! | `layout` | [`PlacedPicture`]: place holders in a row, positions on three axes |
//! | `windows` | order of patches, windows, their rotary angles |
//! | `tower` | [`VisionTower`]: patches to embeddings |
//!
//! Videos are not covered: a picture is one frame.

mod layout;
mod picture;
mod processor;
mod resize;
mod tower;
mod windows;

pub use layout::Axes;
pub use layout::{PictureError, PlacedPicture, Prompt, expand_place_holders, place_pictures};
pub(crate) use layout::{Span, check_places};
pub use picture::{Grid, Picture};
pub use processor::{ImageProcessor, ProcessorError, environment_size};
pub use resize::RgbImage;
pub use tower::{Merger, PatchEmbed, PatchProjection, VisionAttention, VisionBlock, VisionTower};
