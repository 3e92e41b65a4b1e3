//! Frames of an environment as pictures of a model.

use seed_envs::Image;
use seed_model::vision::{PictureError, ProcessorError, expand_place_holders};
use seed_model::{ImageProcessor, Picture, PlacedPicture, RgbImage, VisionConfig};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

/// Turns frames into pictures, each distinct frame once: as long as somebody holds a picture, an equal frame gives the same `Arc`.
///
/// Clones share what is known.
#[derive(Debug, Clone)]
pub struct Eyes {
    processor: Arc<ImageProcessor>,
    image_token: u32,
    known: Arc<Mutex<HashMap<[u8; 32], Weak<Picture>>>>,
}

/// Why a frame cannot be seen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SightError {
    /// The processor refused the frame.
    #[error(transparent)]
    Processor(#[from] ProcessorError),
    /// Pictures and place holders differ.
    #[error(transparent)]
    Place(#[from] PictureError),
    /// The bytes are not a picture.
    #[error(
        "a frame of {width} × {height} pixels with {bytes} bytes, needed: 3 bytes a pixel and no side of 0"
    )]
    Frame {
        /// Pixels in a row.
        width: usize,
        /// Rows.
        height: usize,
        /// Bytes.
        bytes: usize,
    },
    /// The policy is text only.
    #[error(
        "the environment shows pictures, and the policy cannot see; use a Qwen2.5-VL folder, or the environment's text form"
    )]
    Blind,
    /// The prompt has no place for the frame.
    #[error(
        "the environment shows pictures, and the prompt template has no `{{{{image}}}}`; add the slot, or use the environment's text form"
    )]
    NoSlot,
    /// A frame that the episode does not have.
    #[error("the row looks at frame {frame}, the episode has {frames}")]
    Missing {
        /// The frame.
        frame: usize,
        /// Frames of the episode.
        frames: usize,
    },
}

impl Eyes {
    /// Eyes of a model: its image processor, and the place holder of its configuration.
    pub fn new(processor: ImageProcessor, vision: &VisionConfig) -> Self {
        Self { processor: Arc::new(processor), image_token: vision.image_token_id, known: Arc::default() }
    }

    /// How pictures are prepared.
    pub fn processor(&self) -> &ImageProcessor {
        &self.processor
    }

    /// The picture of a frame, after the resizing that the reference does on the environment's side.
    ///
    /// # Errors
    /// [`SightError`] when the frame is no picture, or too long and thin.
    pub fn look(&self, frame: &Image) -> Result<Arc<Picture>, SightError> {
        let mut hash = Sha256::new();
        hash.update((frame.width as u64).to_le_bytes());
        hash.update(&frame.rgb);
        let key: [u8; 32] = hash.finalize().into();
        let lock = || self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(picture) = lock().get(&key).and_then(Weak::upgrade) {
            return Ok(picture);
        }
        let (width, height, bytes) = (frame.width, frame.height, frame.rgb.len());
        let image = RgbImage::new(width, height, frame.rgb.clone());
        let image = image.ok_or(SightError::Frame { width, height, bytes })?;
        let picture = Arc::new(self.processor.prepare_frame(&image)?);
        let mut known = lock();
        known.retain(|_, picture| picture.strong_count() > 0);
        // Another thread may have been faster.
        if let Some(first) = known.get(&key).and_then(Weak::upgrade) {
            return Ok(first);
        }
        known.insert(key, Arc::downgrade(&picture));
        Ok(picture)
    }

    /// Makes the one place holder of each picture in `ids` into as many as it takes.
    ///
    /// # Errors
    /// [`SightError::Place`] when `ids` has not one place holder a picture.
    pub fn place(
        &self,
        ids: &[u32],
        pictures: &[Arc<Picture>],
    ) -> Result<(Vec<u32>, Vec<PlacedPicture>), SightError> {
        Ok(expand_place_holders(ids, pictures, self.image_token)?)
    }

    /// Distinct frames that somebody still holds.
    pub fn distinct(&self) -> usize {
        let known = self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        known.values().filter(|picture| picture.strong_count() > 0).count()
    }
}
