//! `metrics.jsonl`: one JSON object a line, `step` first, then the numbers by name.

use super::Record;
use crate::run_folder::{StorageError, write_file};
use serde_json::{Map, Value};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The open file.
pub struct JsonLines {
    path: PathBuf,
    file: File,
}

impl JsonLines {
    /// Opens or creates the file. Lines up to `resume_step` stay; later ones, a torn last line, and without a
    /// `resume_step` all lines are removed: what they told will be told again.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn open(path: &Path, resume_step: Option<u64>) -> Result<Self, StorageError> {
        if path.is_file() {
            let text = std::fs::read_to_string(path).map_err(|e| StorageError::read(path, e))?;
            let keep =
                |line: &&str| step_of(line).is_some_and(|step| resume_step.is_some_and(|last| step <= last));
            let kept: String = text.lines().filter(keep).flat_map(|line| [line, "\n"]).collect();
            write_file(path, kept.as_bytes())?;
        }
        let file = OpenOptions::new().create(true).append(true).open(path);
        Ok(Self { path: path.to_path_buf(), file: file.map_err(|e| StorageError::write(path, e))? })
    }

    /// Appends a line in one write. A number that is not finite becomes `null`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&mut self, step: u64, record: &Record) -> Result<(), StorageError> {
        let mut line = Map::new();
        line.insert("step".into(), step.into());
        line.extend(record.iter().map(|(name, value)| (name.to_string(), Value::from(value))));
        let line = format!("{}\n", Value::Object(line));
        self.file.write_all(line.as_bytes()).map_err(|e| StorageError::write(&self.path, e))
    }
}

fn step_of(line: &str) -> Option<u64> {
    serde_json::from_str::<Value>(line).ok()?["step"].as_u64()
}

/// One line: its step and its numbers by name.
pub type Line = (u64, Map<String, Value>);

/// Reads a whole `metrics.jsonl`. A torn last line is left out.
///
/// # Errors
/// When the file cannot be read, or a line that is not the last one is not an object with a `step`.
pub fn read_jsonl(path: &Path) -> Result<Vec<Line>, StorageError> {
    let text = std::fs::read_to_string(path).map_err(|e| StorageError::read(path, e))?;
    let whole = text.ends_with('\n');
    let count = text.lines().count();
    let mut records = Vec::with_capacity(count);
    for (index, line) in text.lines().enumerate() {
        match serde_json::from_str::<Map<String, Value>>(line) {
            Ok(mut object) if object.get("step").is_some_and(Value::is_u64) => {
                let step = object.remove("step").and_then(|v| v.as_u64()).expect("just checked");
                records.push((step, object));
            }
            _ if index + 1 == count && !whole => {}
            _ => {
                return Err(StorageError::Content {
                    path: path.to_path_buf(),
                    place: format!("line {}", index + 1),
                    expected: "a JSON object with a whole number `step`",
                });
            }
        }
    }
    Ok(records)
}
