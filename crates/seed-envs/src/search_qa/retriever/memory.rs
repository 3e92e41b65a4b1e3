//! What memory retrieval needs, told before anything is loaded.

use crate::environment::EnvError;
use std::fmt;
use std::path::{Path, PathBuf};

/// What stands in memory while passages are searched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Need {
    /// What, how many bytes, and whether they are mapped from a file (and can be left out of memory, at the price of
    /// speed).
    pub parts: Vec<(String, u64, bool)>,
}

/// Bytes that a passage costs beside its file: where its line starts.
const LINE_BYTES: u64 = 16;
/// A usual length of a row of the corpus, for a guess of how many there are before they are counted.
const ROW_BYTES: u64 = 650;

impl Need {
    /// The need of a corpus with an index, a matrix, or an index that is built in memory.
    ///
    /// # Errors
    /// [`EnvError::Read`] when a file is not there.
    pub fn of(corpus: &[PathBuf], index: Option<&Path>, matrix: Option<&Path>) -> Result<Self, EnvError> {
        let size = |path: &Path| match std::fs::metadata(path) {
            Ok(found) => Ok(found.len()),
            Err(source) => Err(EnvError::Read { path: path.to_owned(), source }),
        };
        let mut need = Self::default();
        let mut text = 0;
        for path in corpus {
            text += size(path)?;
            need.parts.push((format!("passages {}", path.display()), size(path)?, true));
        }
        need.parts.push(("places of passages (about)".to_owned(), text / ROW_BYTES * LINE_BYTES, false));
        match (index, matrix) {
            (_, Some(path)) => need.parts.push((format!("vectors {}", path.display()), size(path)?, true)),
            (Some(path), None) => need.parts.push((format!("index {}", path.display()), size(path)?, true)),
            // Postings and words take about the size of the text, twice while they are brought in order.
            (None, None) => need.parts.push(("building an index (about)".to_owned(), text * 2, false)),
        }
        Ok(need)
    }

    /// All parts together.
    pub fn total(&self) -> u64 {
        self.parts.iter().map(|(_, bytes, _)| bytes).sum()
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, bytes, mapped) in &self.parts {
            let how = if *mapped { "mapped" } else { "own memory" };
            writeln!(f, "{:>10.1} MB  {how:<10}  {what}", *bytes as f64 / 1e6)?;
        }
        writeln!(f, "{:>10.1} MB  in all", self.total() as f64 / 1e6)
    }
}

/// Memory that is free or can be freed, where the system tells it.
pub fn available_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1024)
}
