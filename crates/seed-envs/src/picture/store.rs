//! Frames by number, equal ones once.

use crate::environment::Image;
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The frames that episodes showed. Rows keep numbers; pixels lie here once for each distinct frame.
#[derive(Debug, Clone, Default)]
pub struct FrameStore {
    frames: Vec<Arc<Image>>,
    /// Numbers of the frames that share a hash.
    by_hash: HashMap<u64, Vec<usize>>,
    /// The number that was given last.
    last: Option<usize>,
}

impl FrameStore {
    /// The number of a frame; an equal one that is there already gives its number.
    pub fn insert(&mut self, frame: &Arc<Image>) -> usize {
        // An environment in which nothing moved shows the very same frame again.
        if let Some(last) = self.last.filter(|&last| Arc::ptr_eq(&self.frames[last], frame)) {
            return last;
        }
        let number = self.number_of(frame);
        self.last = Some(number);
        number
    }

    fn number_of(&mut self, frame: &Arc<Image>) -> usize {
        let mut hasher = DefaultHasher::new();
        (frame.width, frame.height, &frame.rgb).hash(&mut hasher);
        let numbers = self.by_hash.entry(hasher.finish()).or_default();
        let known = numbers.iter().find(|&&number| {
            let there = &self.frames[number];
            Arc::ptr_eq(there, frame) || there == frame
        });
        if let Some(&number) = known {
            return number;
        }
        let number = self.frames.len();
        numbers.push(number);
        self.frames.push(Arc::clone(frame));
        number
    }

    /// The frame of a number.
    pub fn get(&self, number: usize) -> Option<&Arc<Image>> {
        self.frames.get(number)
    }

    /// The frames in the order of their numbers.
    pub fn into_frames(self) -> Vec<Arc<Image>> {
        self.frames
    }

    /// Distinct frames.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// There is no frame.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Bytes of pixels.
    pub fn bytes(&self) -> usize {
        self.frames.iter().map(|frame| frame.rgb.len()).sum()
    }
}
