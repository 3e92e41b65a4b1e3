//! Passages in JSON lines: `{"id": …, "contents": …}`, memory-mapped, read when they are asked for.

use super::Document;
use super::mapped::Bytes;
use crate::environment::EnvError;
use rayon::prelude::*;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// One or more files of passages, counted through from 0.
#[derive(Debug)]
pub struct Corpus {
    parts: Vec<Part>,
    passages: usize,
}

#[derive(Debug)]
struct Part {
    path: PathBuf,
    bytes: Bytes,
    /// Number of the first passage.
    first: usize,
    /// Start and line number of each passage; empty lines are left out.
    lines: Vec<(u64, u32)>,
}

impl Corpus {
    /// Maps files and looks for their lines. Rows are read when they are asked for.
    ///
    /// # Errors
    /// [`EnvError::Read`] when a file cannot be mapped.
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Result<Self, EnvError> {
        let parts = paths.iter().map(|path| Ok((path.as_ref().to_owned(), Bytes::open(path.as_ref())?)));
        Ok(Self::new(parts.collect::<Result<_, EnvError>>()?))
    }

    /// Passages that are in memory already.
    pub fn from_documents(documents: &[Document]) -> Self {
        let mut text = Vec::new();
        for document in documents {
            // A document is strings and JSON values, which always can be written.
            text.extend(serde_json::to_vec(document).unwrap_or_default());
            text.push(b'\n');
        }
        Self::new(vec![(PathBuf::from("(in memory)"), Bytes::Owned(text))])
    }

    fn new(files: Vec<(PathBuf, Bytes)>) -> Self {
        let mut passages = 0;
        let parts = files.into_iter().map(|(path, bytes)| {
            let lines = lines(&bytes);
            let first = passages;
            passages += lines.len();
            Part { path, bytes, first, lines }
        });
        let parts = parts.collect();
        Self { parts, passages }
    }

    /// How many passages there are.
    pub fn len(&self) -> usize {
        self.passages
    }

    /// Whether there is no passage at all.
    pub fn is_empty(&self) -> bool {
        self.passages == 0
    }

    /// Bytes of the files.
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.bytes.len()).sum()
    }

    /// A number that differs for other corpora (length, count, some of the text), to notice an index of another one.
    pub fn fingerprint(&self) -> u64 {
        let mut state = 0xcbf2_9ce4_8422_2325_u64 ^ self.passages as u64;
        let mut add = |bytes: &[u8]| {
            for &byte in bytes {
                state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        };
        for part in &self.parts {
            let length = part.bytes.len();
            add(&(length as u64).to_le_bytes());
            // A sample of windows is enough to tell corpora apart, and takes no time on gigabytes.
            for window in 0..64 {
                let start = length / 64 * window;
                add(&part.bytes[start..length.min(start + 256)]);
            }
        }
        state
    }

    /// A passage by its number.
    ///
    /// # Errors
    /// [`EnvError::Data`] with file and line when the row is not what it must be.
    ///
    /// # Panics
    /// When there is no such number.
    pub fn document(&self, number: usize) -> Result<Document, EnvError> {
        let at = self.parts.partition_point(|part| part.first <= number) - 1;
        let part = &self.parts[at];
        let (start, line) = part.lines[number - part.first];
        let end = part.lines.get(number - part.first + 1).map_or(part.bytes.len(), |next| next.0 as usize);
        let row = part.bytes.get(start as usize..end).unwrap_or_default();
        parse(row).map_err(|(field, found, expected)| EnvError::Data {
            path: part.path.clone(),
            place: if field.is_empty() { format!(":{line}") } else { format!(":{line} field `{field}`") },
            found,
            expected: expected.to_owned(),
        })
    }
}

/// Start and line number of every line with something on it.
fn lines(bytes: &[u8]) -> Vec<(u64, u32)> {
    const CHUNK: usize = 1 << 22;
    let ends: Vec<Vec<u64>> = bytes
        .par_chunks(CHUNK)
        .enumerate()
        .map(|(chunk, bytes)| {
            let start = (chunk * CHUNK) as u64;
            bytes
                .iter()
                .enumerate()
                .filter(|(_, byte)| **byte == b'\n')
                .map(|(at, _)| start + at as u64)
                .collect()
        })
        .collect();
    let mut found = Vec::with_capacity(ends.iter().map(Vec::len).sum::<usize>() + 1);
    let mut start = 0;
    for (number, end) in ends.into_iter().flatten().chain([bytes.len() as u64]).enumerate() {
        let line = bytes.get(start as usize..end as usize).unwrap_or_default();
        if line.iter().any(|byte| !byte.is_ascii_whitespace()) {
            found.push((start, u32::try_from(number + 1).unwrap_or(u32::MAX)));
        }
        start = end + 1;
    }
    found
}

type Fault = (&'static str, String, &'static str);

/// Reads one row.
fn parse(row: &[u8]) -> Result<Document, Fault> {
    let mut row: Map<String, Value> =
        serde_json::from_slice(row).map_err(|error| ("", error.to_string(), "a JSON object on one line"))?;
    let mut take = |name: &'static str| match row.shift_remove(name) {
        Some(Value::String(text)) => Ok(text),
        Some(Value::Number(number)) if name == "id" => Ok(number.to_string()),
        Some(other) => Err((name, kind(&other).to_owned(), "a text")),
        None => Err((name, "nothing".to_owned(), "a text")),
    };
    let (id, contents) = (take("id")?, take("contents")?);
    Ok(Document { id, contents, other: row })
}

/// What a JSON value is, for messages.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
