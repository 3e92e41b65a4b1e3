//! The index as a file: a header in JSON, then the parts one after the other.

use super::index::{Bm25Index, Header, PARTS};
use crate::environment::EnvError;
use crate::search_qa::retriever::corpus::Corpus;
use crate::search_qa::retriever::mapped::{Bytes, header, parts, write_header, write_whole};
use std::path::Path;
use std::sync::Mutex;

/// Changes when older files can no longer be read.
pub(super) const VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"SEEDBM25";

/// The lengths of the parts; `None` where they cannot be.
fn lengths(header: &Header) -> [Option<usize>; PARTS] {
    let times = |count: usize, size: usize| count.checked_mul(size);
    [
        times(header.passages, 4),
        times(header.terms, 8),
        Some(header.term_bytes),
        times(header.terms, 8),
        times(header.terms, 8),
        times(header.postings, 4),
        times(header.postings, 2),
    ]
}

/// Bytes of all parts.
pub(super) fn length(header: &Header) -> Option<usize> {
    lengths(header).into_iter().try_fold(0_usize, |sum, length| sum.checked_add(length?))
}

impl Bm25Index {
    pub(super) fn new(header: Header, bytes: Bytes, start: usize, path: &Path) -> Result<Self, EnvError> {
        let parts = parts(path, &bytes, start, lengths(&header))?;
        Ok(Self { header, bytes, parts, scratch: Mutex::default() })
    }
}

pub(super) fn save(index: &Bm25Index, path: &Path) -> Result<(), EnvError> {
    write_whole(path, |out| {
        write_header(out, MAGIC, &index.header)?;
        (0..PARTS).try_for_each(|part| out.write_all(index.part(part)))
    })
}

pub(super) fn open(path: &Path, corpus: &Corpus) -> Result<Bm25Index, EnvError> {
    let bytes = Bytes::open(path)?;
    let (header, start): (Header, usize) = header(path, &bytes, MAGIC)?;
    let wrong = |place: &str, found: String, expected: String| EnvError::Data {
        path: path.to_owned(),
        place: place.to_owned(),
        found,
        expected,
    };
    if header.version != VERSION {
        let expected = format!("version {VERSION}; build the index anew");
        return Err(wrong(" header `version`", header.version.to_string(), expected));
    }
    if header.passages != corpus.len() || header.fingerprint != corpus.fingerprint() {
        let found = format!("an index over {} passages", header.passages);
        let expected = format!("an index of this corpus of {} passages; build it anew", corpus.len());
        return Err(wrong("", found, expected));
    }
    Bm25Index::new(header, bytes, start, path)
}
