//! The matrix of passage vectors as a file, and the search over it.

use super::kernel::{Kind, score};
use crate::environment::EnvError;
use crate::search_qa::retriever::mapped::{Bytes, header, parts, write_header};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"SEEDVECS";
const VERSION: u32 = 1;
/// Rows that one piece of work looks at.
const CHUNK_BYTES: usize = 4 << 20;

/// How the numbers of a matrix are stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// Four bytes a number, as computed.
    F32,
    /// Two bytes a number; scores of unit vectors move by some 0.0005.
    #[default]
    F16,
    /// One byte a number and one scale a row; scores of unit vectors move by some 0.005.
    Int8,
}

impl Precision {
    /// Bytes of a row of `dims` numbers.
    pub fn row_bytes(self, dims: usize) -> usize {
        match self {
            Precision::F32 => dims * 4,
            Precision::F16 => dims * 2,
            Precision::Int8 => dims + 4,
        }
    }

    /// A precision by its name.
    pub fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "f32" => Self::F32,
            "f16" => Self::F16,
            "int8" => Self::Int8,
            _ => return None,
        })
    }

    fn kind(self) -> Kind {
        match self {
            Precision::F32 => Kind::F32,
            Precision::F16 => Kind::F16,
            Precision::Int8 => Kind::I8,
        }
    }

    /// Writes a row; not a finite number, and what `f16` cannot hold, is refused with its place.
    fn write(self, row: &[f32], out: &mut Vec<u8>) -> Result<(), (usize, f32)> {
        let limit = if self == Precision::F16 { 65504.0 } else { f32::MAX };
        if let Some(at) = row.iter().position(|value| !value.is_finite() || value.abs() > limit) {
            return Err((at, row[at]));
        }
        match self {
            Precision::F32 => row.iter().for_each(|value| out.extend(value.to_le_bytes())),
            Precision::F16 => row.iter().for_each(|value| out.extend(to_half(*value).to_le_bytes())),
            Precision::Int8 => {
                let largest = row.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
                let scale = if largest > 0.0 { largest / 127.0 } else { 1.0 };
                out.extend(scale.to_le_bytes());
                // At most 127 by construction.
                out.extend(row.iter().map(|value| ((value / scale).round() as i8).cast_unsigned()));
            }
        }
        Ok(())
    }
}

/// The nearest half-precision number, ties to even; the value lies in their range.
fn to_half(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    let half = if magnitude < 0x3880_0000 {
        // Below the smallest normal one: whole multiples of 2^-24. Adding 2^23 of them rounds.
        let shifted = f32::from_bits(magnitude) * f32::from_bits(0x4b80_0000);
        (shifted.round_ties_even()) as u32
    } else {
        let odd = magnitude >> 13 & 1;
        (magnitude - 0x3800_0000 + 0xfff + odd) >> 13
    };
    sign | half.min(0x7bff) as u16
}

/// What is known about a matrix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MatrixInfo {
    version: u32,
    /// Rows.
    pub rows: usize,
    /// Numbers of a row.
    pub dims: usize,
    /// How they are stored.
    pub precision: Precision,
    /// [`Corpus::fingerprint`](super::super::corpus::Corpus::fingerprint) of the passages.
    pub fingerprint: u64,
    /// What made the vectors, e.g. the folder of the encoder.
    pub encoder: String,
}

impl MatrixInfo {
    /// A matrix that is to be written.
    pub fn new(rows: usize, dims: usize, precision: Precision, fingerprint: u64, encoder: &str) -> Self {
        Self { version: VERSION, rows, dims, precision, fingerprint, encoder: encoder.to_owned() }
    }

    /// Bytes of the rows: what a search reads for every batch of queries. `None` where no machine could hold them.
    pub fn bytes(&self) -> Option<usize> {
        self.rows.checked_mul(self.precision.row_bytes(self.dims))
    }
}

/// Writes a matrix row by row. The file appears under its name when it is whole.
pub struct MatrixWriter {
    path: PathBuf,
    beside: PathBuf,
    file: BufWriter<File>,
    info: MatrixInfo,
    written: usize,
    row: Vec<u8>,
}

impl MatrixWriter {
    /// Starts a file.
    ///
    /// # Errors
    /// [`EnvError::Read`] when it cannot be written.
    pub fn create(path: &Path, info: MatrixInfo) -> Result<Self, EnvError> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.tmp", std::process::id()));
        let beside = path.with_file_name(name);
        let failed = |source| EnvError::Read { path: path.to_owned(), source };
        let mut file = BufWriter::with_capacity(1 << 20, File::create(&beside).map_err(failed)?);
        write_header(&mut file, MAGIC, &info).map_err(failed)?;
        Ok(Self { path: path.to_owned(), beside, file, info, written: 0, row: Vec::new() })
    }

    /// Appends the vector of the next passage.
    ///
    /// # Errors
    /// [`EnvError::Data`] when it has another size or holds a number that cannot be stored, [`EnvError::Read`] when it
    /// cannot be written.
    pub fn push(&mut self, row: &[f32]) -> Result<(), EnvError> {
        let wrong = |place: String, found: String, expected: String| EnvError::Data {
            path: self.path.clone(),
            place,
            found,
            expected,
        };
        if row.len() != self.info.dims {
            let expected = format!("{} numbers", self.info.dims);
            return Err(wrong(format!(" row {}", self.written), format!("{} numbers", row.len()), expected));
        }
        self.row.clear();
        if let Err((at, value)) = self.info.precision.write(row, &mut self.row) {
            let place = format!(" row {} number {at}", self.written);
            return Err(wrong(
                place,
                value.to_string(),
                "a finite number in the range of the precision".to_owned(),
            ));
        }
        let failed = |source| EnvError::Read { path: self.path.clone(), source };
        self.file.write_all(&self.row).map_err(failed)?;
        self.written += 1;
        Ok(())
    }

    /// Ends the file and gives it its name.
    ///
    /// # Errors
    /// [`EnvError::Data`] when there are fewer or more rows than were announced, [`EnvError::Read`] when it cannot be
    /// written.
    pub fn finish(mut self) -> Result<(), EnvError> {
        if self.written != self.info.rows {
            return Err(EnvError::Data {
                path: self.path.clone(),
                place: String::new(),
                found: format!("{} rows", self.written),
                expected: format!("{} rows", self.info.rows),
            });
        }
        let done = self.file.flush().and_then(|()| self.file.get_ref().sync_all());
        done.and_then(|()| std::fs::rename(&self.beside, &self.path))
            .map_err(|source| EnvError::Read { path: self.path.clone(), source })
    }
}

impl Drop for MatrixWriter {
    fn drop(&mut self) {
        // Gone already when the file was finished; of no use to anybody when it was not.
        let _ = std::fs::remove_file(&self.beside);
    }
}

/// A memory-mapped matrix of passage vectors.
#[derive(Debug)]
pub struct Matrix {
    path: PathBuf,
    info: MatrixInfo,
    bytes: Bytes,
    start: usize,
}

/// A row with its score; greater is better, and of equal scores the earlier row.
#[derive(PartialEq)]
struct Scored {
    score: f32,
    row: usize,
}

impl Eq for Scored {}

impl PartialOrd for Scored {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scored {
    /// The heap keeps its greatest on top, which is to be the worst.
    fn cmp(&self, other: &Self) -> Ordering {
        other.score.total_cmp(&self.score).then(self.row.cmp(&other.row))
    }
}

/// The best rows seen so far.
struct Best {
    limit: usize,
    heap: BinaryHeap<Scored>,
}

impl Best {
    fn new(limit: usize) -> Self {
        Self { limit, heap: BinaryHeap::with_capacity(limit.min(1024)) }
    }

    #[inline]
    fn add(&mut self, scored: Scored) {
        if self.heap.len() < self.limit {
            self.heap.push(scored);
        } else if let Some(mut worst) = self.heap.peek_mut()
            && scored < *worst
        {
            *worst = scored;
        }
    }

    fn merge(mut self, other: Self) -> Self {
        other.heap.into_iter().for_each(|scored| self.add(scored));
        self
    }

    fn list(self) -> Vec<(usize, f32)> {
        self.heap.into_sorted_vec().into_iter().map(|scored| (scored.row, scored.score)).collect()
    }
}

impl Matrix {
    /// Maps a file.
    ///
    /// # Errors
    /// [`EnvError`] when it cannot be read, is cut, or is no matrix.
    pub fn open(path: &Path) -> Result<Self, EnvError> {
        let bytes = Bytes::open(path)?;
        let (info, start): (MatrixInfo, usize) = header(path, &bytes, MAGIC)?;
        let wrong = |field: &str, found: String, expected: &str| EnvError::Data {
            path: path.to_owned(),
            place: format!(" header `{field}`"),
            found,
            expected: expected.to_owned(),
        };
        if info.version != VERSION {
            return Err(wrong("version", info.version.to_string(), "version 1; build the matrix anew"));
        }
        if info.dims == 0 || info.dims > 1 << 20 {
            return Err(wrong("dims", info.dims.to_string(), "a number from 1 to 1048576"));
        }
        parts(path, &bytes, start, [info.bytes()])?;
        Ok(Self { path: path.to_owned(), info, bytes, start })
    }

    /// What it holds.
    pub fn info(&self) -> &MatrixInfo {
        &self.info
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The best `top_k` rows for each query, best first, with their inner products; of equal ones the earlier row.
    ///
    /// # Panics
    /// When a query has another size than the rows.
    pub fn search(&self, queries: &[Vec<f32>], top_k: usize) -> Vec<Vec<(usize, f32)>> {
        let MatrixInfo { dims, precision, .. } = self.info;
        assert!(queries.iter().all(|query| query.len() == dims), "queries of {dims} numbers");
        if top_k == 0 || queries.is_empty() {
            return queries.iter().map(|_| Vec::new()).collect();
        }
        let joined = queries.concat();
        let stride = precision.row_bytes(dims);
        let rows = (CHUNK_BYTES / stride).max(1);
        let none = || queries.iter().map(|_| Best::new(top_k)).collect::<Vec<Best>>();
        let found = self.bytes[self.start..]
            .par_chunks(rows * stride)
            .enumerate()
            .fold(none, |mut best, (chunk, bytes)| {
                score(precision.kind(), bytes, stride, &joined, dims, &mut |row, query, score| {
                    best[query].add(Scored { score, row: chunk * rows + row });
                });
                best
            })
            .reduce(none, |one, two| one.into_iter().zip(two).map(|(one, two)| one.merge(two)).collect());
        found.into_iter().map(Best::list).collect()
    }
}
