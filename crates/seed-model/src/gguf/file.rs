//! The container: metadata and a table of tensors, memory-mapped.

use super::GgufError;
use super::blocks::Kind;
use crate::checkpoint::map_file;
use memmap2::Mmap;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

/// A value in the metadata of a GGUF file.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum MetadataValue {
    /// Any whole number.
    Integer(i64),
    /// Any floating-point number.
    Float(f64),
    /// True or false.
    Flag(bool),
    /// A text.
    Text(String),
    /// A list of one type.
    List(Vec<MetadataValue>),
}

impl MetadataValue {
    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The whole number, if it is one.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// The list, if it is one.
    pub fn list(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::Integer(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
            Self::Flag(value) => value.to_string(),
            Self::Text(value) => format!("\"{value}\""),
            Self::List(items) => format!("a list of {}", items.len()),
        }
    }
}

#[derive(Debug)]
struct TensorEntry {
    /// Outermost first.
    shape: Vec<usize>,
    kind: u32,
    offset: usize,
}

/// An open GGUF file.
#[derive(Debug)]
pub struct GgufFile {
    map: Mmap,
    metadata: BTreeMap<String, MetadataValue>,
    tensors: BTreeMap<String, TensorEntry>,
    /// Where tensor data starts.
    start: usize,
}

impl GgufFile {
    /// Opens a file of format version 2 or 3, little-endian.
    ///
    /// # Errors
    /// [`GgufError`] when it cannot be read, is damaged or of another version.
    pub fn open(path: &Path) -> Result<Self, GgufError> {
        let read = |source| GgufError::Read { path: path.to_path_buf(), source };
        let map = map_file(&File::open(path).map_err(read)?).map_err(read)?;
        let mut cursor = Cursor { bytes: &map, at: 0 };
        let magic = cursor.take(4)?;
        if magic != b"GGUF" {
            return Err(GgufError::Damaged {
                offset: 0,
                reason: format!("found {magic:?}, expected \"GGUF\""),
            });
        }
        let version = cursor.u32()?;
        if !(2..=3).contains(&version) {
            let what = "the version of the format".to_owned();
            return Err(GgufError::Unsupported { what, found: version.to_string(), supported: "2 and 3" });
        }
        let (tensor_count, key_count) = (cursor.u64()?, cursor.u64()?);
        let mut metadata = BTreeMap::new();
        for _ in 0..key_count {
            let key = cursor.text()?;
            let kind = cursor.u32()?;
            metadata.insert(key, cursor.value(kind, 0)?);
        }
        let mut tensors = BTreeMap::new();
        for _ in 0..tensor_count {
            let name = cursor.text()?;
            let rank = cursor.u32()?;
            if rank > 4 {
                return Err(
                    cursor.damaged(format!("tensor `{name}` has {rank} dimensions, expected at most 4"))
                );
            }
            let mut shape = (0..rank).map(|_| cursor.size()).collect::<Result<Vec<_>, _>>()?;
            shape.reverse();
            let (kind, offset) = (cursor.u32()?, cursor.size()?);
            tensors.insert(name, TensorEntry { shape, kind, offset });
        }
        let alignment = match metadata.get("general.alignment") {
            None => 32,
            Some(value) => match value.integer() {
                Some(bytes @ 1..=65536) => bytes as usize,
                _ => return Err(cursor.damaged(format!("general.alignment is {}", value.describe()))),
            },
        };
        let start = cursor.at.next_multiple_of(alignment);
        Ok(Self { map, metadata, tensors, start })
    }

    /// A value of the metadata.
    pub fn get(&self, key: &str) -> Option<&MetadataValue> {
        self.metadata.get(key)
    }

    /// All tensor names, sorted.
    pub fn tensor_names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The shape of a tensor, outermost first.
    pub fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.tensors.get(name).map(|entry| entry.shape.clone())
    }

    /// The values of a tensor as f32, of exactly the shape `needed`.
    ///
    /// # Errors
    /// [`GgufError`] when it is missing, cut off, of another shape or of a type that is not supported.
    pub fn tensor(&self, name: &str, needed: &[usize]) -> Result<Vec<f32>, GgufError> {
        let entry = self.tensors.get(name);
        let entry =
            entry.ok_or_else(|| GgufError::Missing { name: name.to_owned(), needed: needed.to_vec() })?;
        if entry.shape != needed {
            let (found, needed) = (entry.shape.clone(), needed.to_vec());
            return Err(GgufError::Shape { name: name.to_owned(), found, needed });
        }
        let kind = Kind::from_id(entry.kind).ok_or_else(|| GgufError::Unsupported {
            what: format!("the type of tensor `{name}`"),
            found: format!("number {}", entry.kind),
            supported: "F32 (0), F16 (1), Q4_0 (2), Q4_1 (3), Q8_0 (8), BF16 (30)",
        })?;
        let (values, bytes) = kind.block();
        let count: usize = needed.iter().product();
        let row = needed.last().copied().unwrap_or(1);
        let start = self.start.saturating_add(entry.offset);
        let damaged = |reason| GgufError::Damaged { offset: start, reason };
        if !row.is_multiple_of(values) {
            return Err(damaged(format!(
                "rows of `{name}` have {row} values, expected a multiple of {values}"
            )));
        }
        let end = (count / values).checked_mul(bytes).and_then(|size| start.checked_add(size));
        let slice = end.and_then(|end| self.map.get(start..end));
        let slice =
            slice.ok_or_else(|| damaged(format!("tensor `{name}` ends behind the end of the file")))?;
        Ok(kind.values(slice))
    }

    pub(super) fn text(&self, key: &str) -> Result<&str, GgufError> {
        self.get(key).and_then(MetadataValue::text).ok_or_else(|| self.wrong(key, "a text"))
    }

    pub(super) fn size(&self, key: &str) -> Result<usize, GgufError> {
        let value =
            self.get(key).and_then(MetadataValue::integer).filter(|value| (1..1 << 40).contains(value));
        value.map(|value| value as usize).ok_or_else(|| self.wrong(key, "a positive whole number"))
    }

    pub(super) fn number(&self, key: &str) -> Result<f64, GgufError> {
        match self.get(key) {
            Some(MetadataValue::Float(value)) if value.is_finite() && *value > 0.0 => Ok(*value),
            _ => Err(self.wrong(key, "a positive number")),
        }
    }

    pub(super) fn wrong(&self, key: &str, needed: &'static str) -> GgufError {
        let found = self.get(key).map_or_else(|| "nothing".to_owned(), MetadataValue::describe);
        GgufError::Metadata { key: key.to_owned(), found, needed }
    }
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn damaged(&self, reason: String) -> GgufError {
        GgufError::Damaged { offset: self.at, reason }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], GgufError> {
        let slice = self.at.checked_add(count).and_then(|end| self.bytes.get(self.at..end));
        let slice =
            slice.ok_or_else(|| self.damaged(format!("the file ends, expected {count} more bytes")))?;
        self.at += count;
        Ok(slice)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], GgufError> {
        let slice = self.take(N)?;
        let mut array = [0; N];
        array.copy_from_slice(slice);
        Ok(array)
    }

    fn u32(&mut self) -> Result<u32, GgufError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, GgufError> {
        self.array().map(u64::from_le_bytes)
    }

    fn size(&mut self) -> Result<usize, GgufError> {
        let value = self.u64()?;
        usize::try_from(value).map_err(|_| self.damaged(format!("size {value} is too large")))
    }

    fn text(&mut self) -> Result<String, GgufError> {
        let count = self.size()?;
        let bytes = self.take(count)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| self.damaged("a text is not UTF-8".to_owned()))
    }

    fn value(&mut self, kind: u32, depth: usize) -> Result<MetadataValue, GgufError> {
        use MetadataValue::{Flag, Float, Integer, List, Text};
        Ok(match kind {
            0 => Integer(i64::from(self.array::<1>()?[0])),
            1 => Integer(i64::from(self.array::<1>()?[0].cast_signed())),
            2 => Integer(i64::from(u16::from_le_bytes(self.array()?))),
            3 => Integer(i64::from(i16::from_le_bytes(self.array()?))),
            4 => Integer(i64::from(self.u32()?)),
            5 => Integer(i64::from(i32::from_le_bytes(self.array()?))),
            6 => Float(f64::from(f32::from_le_bytes(self.array()?))),
            7 => Flag(self.array::<1>()?[0] != 0),
            8 => Text(self.text()?),
            9 if depth < 4 => {
                let (kind, count) = (self.u32()?, self.size()?);
                // Grown as it is read: a wrong count must not reserve memory.
                let mut items = Vec::new();
                for _ in 0..count {
                    items.push(self.value(kind, depth + 1)?);
                }
                List(items)
            }
            10 => Integer(self.u64()?.cast_signed()),
            11 => Integer(i64::from_le_bytes(self.array()?)),
            12 => Float(f64::from_le_bytes(self.array()?)),
            _ => return Err(self.damaged(format!("metadata type {kind} is unknown"))),
        })
    }
}
