//! Pictures in rows of tokens: place holders, and positions on three axes.

use super::picture::Picture;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

/// Why pictures and tokens do not fit together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PictureError {
    /// The model is text only.
    #[error("the row has pictures, but the model (`{model_type}`) has no vision tower; needed: qwen2_5_vl")]
    NoVision {
        /// The model's family.
        model_type: &'static str,
    },
    /// The picture was cut into other patches than the model reads.
    #[error(
        "picture {picture} was prepared with (patch_size, temporal_patch_size, merge_size) = {found:?}, the model needs {needed:?}; \
         load the model's own preprocessor_config.json"
    )]
    Form {
        /// Index of the picture in its row.
        picture: usize,
        /// How it was prepared.
        found: (usize, usize, usize),
        /// What the vision tower reads.
        needed: (usize, usize, usize),
    },
    /// Place holders and pictures differ in number.
    #[error("the row has {found} image place holders for {needed} pictures; write one for each picture")]
    Count {
        /// Place holders, or runs of them.
        found: usize,
        /// Pictures.
        needed: usize,
    },
    /// A picture has too few place holders.
    #[error("picture {picture} finds {found} place holders from token {start} on, needed: {needed}")]
    Short {
        /// Index of the picture in its row.
        picture: usize,
        /// Its first place holder.
        start: usize,
        /// Place holders there.
        found: usize,
        /// Place holders that it takes.
        needed: usize,
    },
    /// A picture is placed where it cannot be.
    #[error(
        "picture {picture} takes tokens {start}..{end}, needed: after the picture before it and inside the prompt of {len} tokens"
    )]
    Outside {
        /// Index of the picture in its row.
        picture: usize,
        /// Its first place holder.
        start: usize,
        /// One past its last place holder.
        end: usize,
        /// Tokens of the prompt.
        len: usize,
    },
}

/// A picture and where it stands in a row of tokens.
///
/// Only placed pictures are read: an image token that was sampled is a token like any other.
#[derive(Debug, Clone)]
pub struct PlacedPicture {
    /// Index of its first place holder.
    pub start: usize,
    /// The picture.
    pub picture: Arc<Picture>,
}

impl PlacedPicture {
    /// Its place holders.
    pub fn tokens(&self) -> Range<usize> {
        self.start..self.start + self.picture.tokens()
    }

    /// The same picture `by` tokens later.
    pub(crate) fn shifted(&self, by: usize) -> Self {
        Self { start: self.start + by, picture: Arc::clone(&self.picture) }
    }

    /// The same picture `by` tokens earlier.
    pub(crate) fn earlier(&self, by: usize) -> Self {
        Self { start: self.start - by, picture: Arc::clone(&self.picture) }
    }
}

impl PartialEq for PlacedPicture {
    /// Same place and same pixels.
    fn eq(&self, other: &Self) -> bool {
        self.start == other.start
            && (Arc::ptr_eq(&self.picture, &other.picture) || self.picture == other.picture)
    }
}

impl Eq for PlacedPicture {}

impl Hash for PlacedPicture {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.start, self.picture.grid()).hash(state);
    }
}

/// Tokens to continue from, with their pictures in the order of their places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prompt<'a> {
    /// The tokens, each picture's place holders among them.
    pub ids: &'a [u32],
    /// The pictures; empty for text.
    pub pictures: &'a [PlacedPicture],
}

impl<'a> Prompt<'a> {
    /// A prompt without pictures.
    pub fn text(ids: &'a [u32]) -> Self {
        Self { ids, pictures: &[] }
    }
}

/// Makes one place holder of each picture (the text of a chat template has one) into as many as the picture takes.
///
/// # Errors
/// [`PictureError::Count`] when `ids` has not one `image_token` a picture.
pub fn expand_place_holders(
    ids: &[u32],
    pictures: &[Arc<Picture>],
    image_token: u32,
) -> Result<(Vec<u32>, Vec<PlacedPicture>), PictureError> {
    let found = ids.iter().filter(|id| **id == image_token).count();
    if found != pictures.len() {
        return Err(PictureError::Count { found, needed: pictures.len() });
    }
    let mut rest = pictures.iter();
    let (mut out, mut placed) = (Vec::with_capacity(ids.len()), Vec::with_capacity(pictures.len()));
    for &id in ids {
        match (id == image_token).then(|| rest.next()).flatten() {
            None => out.push(id),
            Some(picture) => {
                placed.push(PlacedPicture { start: out.len(), picture: Arc::clone(picture) });
                out.resize(out.len() + picture.tokens(), image_token);
            }
        }
    }
    Ok((out, placed))
}

/// Finds the places of pictures in ids whose place holders are already as many as needed.
///
/// # Errors
/// [`PictureError`] when a picture finds too few place holders, or place holders or pictures are left.
pub fn place_pictures(
    ids: &[u32],
    pictures: &[Arc<Picture>],
    image_token: u32,
) -> Result<Vec<PlacedPicture>, PictureError> {
    let mut placed: Vec<PlacedPicture> = Vec::with_capacity(pictures.len());
    let mut at = 0;
    while let Some(next) = ids[at..].iter().position(|id| *id == image_token) {
        let (start, index) = (at + next, placed.len());
        let Some(picture) = pictures.get(index) else {
            return Err(PictureError::Count { found: index + 1, needed: pictures.len() });
        };
        let needed = picture.tokens();
        let found = ids[start..].iter().take(needed).take_while(|id| **id == image_token).count();
        if found < needed {
            return Err(PictureError::Short { picture: index, start, found, needed });
        }
        placed.push(PlacedPicture { start, picture: Arc::clone(picture) });
        at = start + needed;
    }
    if placed.len() < pictures.len() {
        return Err(PictureError::Count { found: placed.len(), needed: pictures.len() });
    }
    Ok(placed)
}

/// Checks that pictures stand one after the other inside the first `len` tokens.
pub(crate) fn check_places(pictures: &[PlacedPicture], len: usize) -> Result<(), PictureError> {
    let mut free = 0;
    for (index, placed) in pictures.iter().enumerate() {
        let Range { start, end } = placed.tokens();
        if start < free || end > len {
            return Err(PictureError::Outside { picture: index, start, end, len });
        }
        free = end;
    }
    Ok(())
}

/// Position of a token on the axes time, height and width; all equal for text.
pub type Axes = [u32; 3];

/// Positions of consecutive tokens, and what comes after a picture.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Span {
    /// Position of the next token.
    pub(crate) next: u32,
    /// Positions so far.
    pub(crate) axes: Vec<Axes>,
}

impl Span {
    /// Positions from `next` on.
    pub(crate) fn from(next: u32) -> Self {
        Self { next, axes: Vec::new() }
    }

    /// Appends `len` tokens with pictures at places relative to the first of them.
    ///
    /// Text counts on. A picture's place holders have one time, its rows and columns count from there; text goes on after the
    /// highest of them.
    pub(crate) fn push(&mut self, len: usize, pictures: &[PlacedPicture]) {
        let mut at = 0;
        for placed in pictures {
            self.text(placed.start - at);
            let merged = placed.picture.merged();
            let start = self.next;
            for row in 0..merged.height as u32 {
                self.axes.extend((0..merged.width as u32).map(|column| [start, start + row, start + column]));
            }
            self.next = start + merged.height.max(merged.width) as u32;
            at = placed.tokens().end;
        }
        self.text(len - at);
    }

    fn text(&mut self, len: usize) {
        self.axes.extend((self.next..self.next + len as u32).map(|at| [at; 3]));
        self.next += len as u32;
    }
}
