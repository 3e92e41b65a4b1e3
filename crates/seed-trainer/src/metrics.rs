//! Named numbers: a registry that says what each means, `metrics.jsonl`, TensorBoard event files.
//!
//! Every name is registered; setting an unknown one is an error, so that the reference page is complete.

mod jsonl;
mod registry;
mod tensorboard;

pub use jsonl::{JsonLines, Line, read_jsonl};
pub use registry::{METRICS, Metric, definition};
pub use tensorboard::EventWriter;

use crate::run_folder::StorageError;
use std::collections::BTreeMap;
use std::path::Path;

/// The numbers of one step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Record {
    values: BTreeMap<String, f64>,
}

impl Record {
    /// An empty record.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a number. The name is registered, or matches a registered pattern such as `eval/{split}/success`.
    ///
    /// # Panics
    /// For a name that is not registered: a mistake of the caller, found by any test that runs the line.
    pub fn set(&mut self, name: impl Into<String>, value: f64) {
        let name = name.into();
        assert!(definition(&name).is_some(), "metric `{name}` is not in the registry (metrics/registry.rs)");
        self.values.insert(name, value);
    }

    /// A number, if it was set.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.values.get(name).copied()
    }

    /// All numbers by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.values.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// Takes over every number of another record.
    pub fn merge(&mut self, other: Self) {
        self.values.extend(other.values);
    }
}

/// Writes every record to `metrics.jsonl` and to TensorBoard.
pub struct MetricsWriter {
    jsonl: JsonLines,
    events: EventWriter,
}

impl MetricsWriter {
    /// Opens the files of a run folder. Records after `resume_step` are dropped, and all without one: they
    /// will be made again.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn open(run: &Path, resume_step: Option<u64>) -> Result<Self, StorageError> {
        let jsonl = JsonLines::open(&run.join("metrics.jsonl"), resume_step)?;
        let events = EventWriter::create(&run.join("tensorboard"), resume_step)?;
        Ok(Self { jsonl, events })
    }

    /// Writes one record; it is on its way to the disk when this returns.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&mut self, step: u64, record: &Record) -> Result<(), StorageError> {
        self.jsonl.write(step, record)?;
        self.events.write(step, record)
    }
}
