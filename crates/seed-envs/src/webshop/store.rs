//! Columns of bytes, built in memory or mapped from a file with checksums.
//!
//! A file is a header (magic, version, what it was made from, the table of sections, a checksum of all that) and the
//! sections, each with its own checksum. Numbers are little-endian. Nothing is decoded when a file is opened: what is
//! asked for is read where it lies, so many processes share one copy in the page cache.

use crate::environment::EnvError;
use memmap2::Mmap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"SEEDSHOP";
const VERSION: u32 = 1;
/// Magic, version, number of sections, length of the description.
const FIXED: usize = 8 + 4 + 4 + 8;
/// Offset, length and checksum of a section.
const ENTRY: usize = 24;
/// Sections start at multiples of this.
const ALIGN: usize = 64;

#[derive(Debug, Clone)]
enum Bytes {
    Owned(Arc<Vec<u8>>),
    Mapped(Arc<Mmap>, Range<usize>),
}

/// A fixed number of byte columns. Cloning shares them.
#[derive(Debug, Clone)]
pub struct Store {
    description: String,
    sections: Vec<Bytes>,
}

impl Store {
    /// A store in memory. `description` says what it was made from.
    pub fn new(description: String, sections: Vec<Vec<u8>>) -> Self {
        Self {
            description,
            sections: sections.into_iter().map(|bytes| Bytes::Owned(Arc::new(bytes))).collect(),
        }
    }

    /// What it was made from.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The bytes of a section; empty where there is no such section.
    pub fn section(&self, number: usize) -> &[u8] {
        match self.sections.get(number) {
            Some(Bytes::Owned(bytes)) => bytes,
            Some(Bytes::Mapped(map, range)) => &map[range.clone()],
            None => &[],
        }
    }

    /// Bytes of all sections.
    pub fn len(&self) -> usize {
        (0..self.sections.len()).map(|number| self.section(number).len()).sum()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the store beside `path` and renames it into place, so that a half-written file is never seen.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), EnvError> {
        let temporary = path.with_extension(format!("tmp{}", std::process::id()));
        let write = || -> std::io::Result<()> {
            let mut out = BufWriter::new(File::create(&temporary)?);
            let mut header = MAGIC.to_vec();
            header.extend(VERSION.to_le_bytes());
            header.extend((self.sections.len() as u32).to_le_bytes());
            header.extend((self.description.len() as u64).to_le_bytes());
            header.extend(self.description.as_bytes());
            let mut offset = header.len() + self.sections.len() * ENTRY + 8;
            let mut places = Vec::new();
            for number in 0..self.sections.len() {
                let bytes = self.section(number);
                offset = offset.next_multiple_of(ALIGN);
                places.push(offset);
                header.extend((offset as u64).to_le_bytes());
                header.extend((bytes.len() as u64).to_le_bytes());
                header.extend(checksum(bytes).to_le_bytes());
                offset += bytes.len();
            }
            header.extend(checksum(&header).to_le_bytes());
            out.write_all(&header)?;
            let mut written = header.len();
            for (number, place) in places.into_iter().enumerate() {
                out.write_all(&vec![0; place - written])?;
                let bytes = self.section(number);
                out.write_all(bytes)?;
                written = place + bytes.len();
            }
            out.into_inner()?.sync_all()?;
            std::fs::rename(&temporary, path)
        };
        write().map_err(|source| {
            // The half-written file is of no use; if it cannot be removed either, the first error says why.
            drop(std::fs::remove_file(&temporary));
            EnvError::Read { path: path.into(), source }
        })
    }

    /// Maps a file and compares all checksums.
    ///
    /// # Errors
    /// When the file cannot be read, is no such file, or is damaged.
    pub fn open(path: &Path) -> Result<Self, EnvError> {
        let map = map_file(path)?;
        let damaged = |found: &str| EnvError::Data {
            path: path.into(),
            place: String::new(),
            found: found.into(),
            expected: format!(
                "a shop index of version {VERSION} that is whole; remove the file, and it is built again"
            ),
        };
        let number = |at: usize| -> Option<usize> {
            let bytes = map.get(at..at.checked_add(8)?)?;
            usize::try_from(u64::from_le_bytes(bytes.try_into().ok()?)).ok()
        };
        let short =
            |at: usize| -> Option<u32> { Some(u32::from_le_bytes(map.get(at..at + 4)?.try_into().ok()?)) };
        if map.get(..8) != Some(MAGIC) {
            return Err(damaged("another kind of file"));
        }
        if short(8) != Some(VERSION) {
            return Err(damaged("another version"));
        }
        let read = || -> Option<Self> {
            let count = short(12)? as usize;
            let table = FIXED.checked_add(number(16)?)?;
            let description = std::str::from_utf8(map.get(FIXED..table)?).ok()?.to_owned();
            let end = table.checked_add(count.checked_mul(ENTRY)?)?;
            let header = map.get(..end)?;
            if number(end)? as u64 != checksum(header) {
                return None;
            }
            let mut sections = Vec::new();
            for entry in (table..end).step_by(ENTRY) {
                let (offset, length, sum) = (number(entry)?, number(entry + 8)?, number(entry + 16)? as u64);
                let range = offset..offset.checked_add(length)?;
                if checksum(map.get(range.clone())?) != sum {
                    return None;
                }
                sections.push(Bytes::Mapped(map.clone(), range));
            }
            Some(Self { description, sections })
        };
        read().ok_or_else(|| damaged("bytes that do not fit their checksum"))
    }
}

/// Maps a file into memory.
///
/// # Errors
/// When it cannot be opened or mapped.
#[expect(unsafe_code, reason = "a memory map has no safe constructor")]
pub(crate) fn map_file(path: &Path) -> Result<Arc<Mmap>, EnvError> {
    let failed = |source| EnvError::Read { path: path.into(), source };
    let file = File::open(path).map_err(failed)?;
    // SAFETY: the map is only read, as bytes, and every use is checked against its length. Index files are replaced by
    // renaming and never written in place; whoever truncates a data file under a running program gets a bus error, as
    // with any mapped file.
    let map = unsafe { Mmap::map(&file) }.map_err(failed)?;
    Ok(Arc::new(map))
}

/// A 64-bit checksum: four lanes of multiply and rotate. It finds damage, not forgery.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    const PRIME: u64 = 0x9e37_79b1_85eb_ca87;
    let mut lanes = [1u64, 2, 3, 4];
    let (blocks, rest) = bytes.as_chunks::<32>();
    let mix = |lane: u64, word: u64| (lane ^ word).wrapping_mul(PRIME).rotate_left(29);
    for block in blocks {
        for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<8>().0) {
            *lane = mix(*lane, u64::from_le_bytes(*word));
        }
    }
    let mut sum = bytes.len() as u64;
    for lane in lanes {
        sum = mix(sum, lane);
    }
    for &byte in rest {
        sum = mix(sum, u64::from(byte));
    }
    sum ^ sum >> 32
}

/// Number `at` of a column of `u32`; 0 beyond its end.
pub(crate) fn u32_at(column: &[u8], at: usize) -> u32 {
    column.as_chunks::<4>().0.get(at).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Number `at` of a column of `u64`; 0 beyond its end.
pub(crate) fn u64_at(column: &[u8], at: usize) -> u64 {
    column.as_chunks::<8>().0.get(at).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Texts one after the other, while they are collected.
#[derive(Debug)]
pub(crate) struct TextsBuilder {
    offsets: Vec<u8>,
    bytes: Vec<u8>,
}

impl Default for TextsBuilder {
    fn default() -> Self {
        Self { offsets: 0u64.to_le_bytes().to_vec(), bytes: Vec::new() }
    }
}

impl TextsBuilder {
    /// Adds a text and returns its number.
    pub(crate) fn push(&mut self, text: &str) -> usize {
        self.bytes.extend(text.as_bytes());
        self.offsets.extend((self.bytes.len() as u64).to_le_bytes());
        self.len() - 1
    }

    pub(crate) fn len(&self) -> usize {
        self.offsets.len() / 8 - 1
    }

    /// The two sections: offsets and bytes.
    pub(crate) fn finish(self) -> [Vec<u8>; 2] {
        [self.offsets, self.bytes]
    }
}

/// Texts one after the other, as sections hold them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Texts<'s> {
    offsets: &'s [u8],
    bytes: &'s [u8],
}

impl<'s> Texts<'s> {
    /// Over two sections, offsets first.
    pub(crate) fn new(store: &'s Store, first: usize) -> Self {
        Self { offsets: store.section(first), bytes: store.section(first + 1) }
    }

    pub(crate) fn len(&self) -> usize {
        (self.offsets.len() / 8).saturating_sub(1)
    }

    /// Bytes of offsets and texts.
    pub(crate) fn bytes(&self) -> usize {
        self.offsets.len() + self.bytes.len()
    }

    /// Text `number`; empty where there is none.
    pub(crate) fn get(&self, number: usize) -> &'s str {
        std::str::from_utf8(self.bytes_of(number)).unwrap_or_default()
    }

    pub(crate) fn bytes_of(&self, number: usize) -> &'s [u8] {
        if number >= self.len() {
            return &[];
        }
        let range = u64_at(self.offsets, number) as usize..u64_at(self.offsets, number + 1) as usize;
        self.bytes.get(range).unwrap_or_default()
    }
}
