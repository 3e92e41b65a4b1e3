//! Bytes of a file, mapped into memory or owned, and numbers in them.

use crate::environment::EnvError;
use std::fs::File;
use std::io::Write;
use std::ops::{Deref, Range};
use std::path::Path;

/// Bytes that are mapped from a file or owned.
#[derive(Debug)]
pub(crate) enum Bytes {
    Owned(Vec<u8>),
    Mapped(memmap2::Mmap),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Owned(bytes) => bytes,
            Self::Mapped(map) => map,
        }
    }
}

impl Bytes {
    /// Maps a file.
    pub(crate) fn open(path: &Path) -> Result<Self, EnvError> {
        let failed = |source| EnvError::Read { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.len() == 0 {
            return Ok(Self::Owned(Vec::new()));
        }
        // SAFETY: the map is read-only, and every number in it is read by value and checked before it is used as a
        // place, so that a file which somebody changes meanwhile gives wrong results or an error, never a bad access.
        // A file that is cut short while it is open ends the process with a bus error; ours are replaced by renaming.
        #[expect(unsafe_code, reason = "mapping a file is unsafe by nature")]
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(failed)?;
        Ok(Self::Mapped(map))
    }
}

/// Writes a file beside its place and renames it, so that a reader sees the old one or the whole new one.
pub(crate) fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), EnvError> {
    let failed = |source| EnvError::Read { path: path.to_owned(), source };
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let beside = path.with_file_name(name);
    let result = (|| {
        let mut file = std::io::BufWriter::with_capacity(1 << 20, File::create(&beside)?);
        write(&mut file)?;
        file.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
        std::fs::rename(&beside, path)
    })();
    result.map_err(|source| {
        // What is left of it is of no use to anybody.
        let _ = std::fs::remove_file(&beside);
        failed(source)
    })
}

/// A number at a place of a slice of little-endian numbers; 0 beyond the end.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at * 4..at * 4 + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

/// As [`u32_at`].
#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let found = bytes.get(at * 8..at * 8 + 8).and_then(|bytes| bytes.try_into().ok());
    found.map_or(0, u64::from_le_bytes)
}

/// A header of the files of this module: eight bytes of name, a length, and that many bytes of JSON; the data begin at
/// the next multiple of 64.
pub(crate) fn header<T: serde::de::DeserializeOwned>(
    path: &Path,
    bytes: &[u8],
    magic: &[u8; 8],
) -> Result<(T, usize), EnvError> {
    let wrong = |place: &str, found: String, expected: &str| EnvError::Data {
        path: path.to_owned(),
        place: place.to_owned(),
        found,
        expected: expected.to_owned(),
    };
    let name = String::from_utf8_lossy(magic);
    let start = bytes.get(..8).unwrap_or_default();
    if start != magic {
        return Err(wrong(
            "",
            format!("{:?}", String::from_utf8_lossy(start)),
            &format!("a file that starts with {name:?}"),
        ));
    }
    let length =
        bytes.get(8..16).and_then(|bytes| bytes.try_into().ok()).map_or(u64::MAX, u64::from_le_bytes);
    let text = usize::try_from(length).ok().and_then(|length| bytes.get(16..16usize.checked_add(length)?));
    let text = text.ok_or_else(|| wrong("", format!("{} bytes", bytes.len()), "a whole header"))?;
    let header = serde_json::from_slice(text).map_err(|error| {
        wrong(" header", error.to_string(), "the header that this version writes; build the file anew")
    })?;
    Ok((header, (16 + text.len()).next_multiple_of(64)))
}

/// Writes what [`header`] reads.
pub(crate) fn write_header(
    out: &mut dyn Write,
    magic: &[u8; 8],
    header: &impl serde::Serialize,
) -> std::io::Result<usize> {
    let text = serde_json::to_vec(header)?;
    out.write_all(magic)?;
    out.write_all(&(text.len() as u64).to_le_bytes())?;
    out.write_all(&text)?;
    let length = 16 + text.len();
    out.write_all(&vec![0; length.next_multiple_of(64) - length])?;
    Ok(length.next_multiple_of(64))
}

/// Cuts the data of a file into parts of these lengths; the file must end with the last one.
pub(crate) fn parts<const N: usize>(
    path: &Path,
    bytes: &[u8],
    start: usize,
    lengths: [Option<usize>; N],
) -> Result<[Range<usize>; N], EnvError> {
    let mut at = start;
    let mut parts = [const { 0..0 }; N];
    let mut whole = true;
    for (part, length) in parts.iter_mut().zip(lengths) {
        let end = length.and_then(|length| at.checked_add(length)).filter(|&end| end <= bytes.len());
        whole &= end.is_some();
        *part = at..end.unwrap_or(at);
        at = part.end;
    }
    if whole && at == bytes.len() {
        return Ok(parts);
    }
    Err(EnvError::Data {
        path: path.to_owned(),
        place: String::new(),
        found: format!("{} bytes", bytes.len()),
        expected: "the length that its header tells; the file is cut or damaged, build it anew".to_owned(),
    })
}
