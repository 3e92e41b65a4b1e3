//! What a report is made from: the files of a run folder.

use seed_trainer::metrics::{Line, read_jsonl};
use seed_trainer::run_folder::{RunFolder, StorageError};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Everything the page shows.
pub(super) struct Source {
    pub(super) name: String,
    /// The resolved configuration as text.
    pub(super) config: String,
    /// The manifest as text; empty when the run was killed before it was written.
    pub(super) manifest: String,
    /// (step, value) by metric name, in step order.
    pub(super) series: BTreeMap<String, Vec<(f64, f64)>>,
    /// (step, records) of the skill files, oldest first.
    pub(super) skills: Vec<(u64, Vec<Value>)>,
    /// The newest episode with its tokens, see docs/run-folder.md.
    pub(super) tokens: Option<(u64, Value)>,
}

impl Source {
    pub(super) fn read(run: &Path) -> Result<Self, StorageError> {
        let folder = RunFolder::open(run)?;
        let text = |name: &str| {
            let path = run.join(name);
            fs::read_to_string(&path).map_err(|e| StorageError::read(&path, e))
        };
        let lines = |name: &str| {
            let path = run.join(name);
            if path.is_file() { read_jsonl(&path) } else { Ok(vec![]) }
        };
        // Stage 1 counts its own steps; its numbers have names of their own.
        let mut series = series(&lines("metrics.jsonl")?);
        series.extend(self::series(&lines("sft/metrics.jsonl")?));
        let skills = step_files(&run.join("skills"), ".jsonl")
            .into_iter()
            .map(|(step, text)| {
                (step, text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
            })
            .collect();
        let tokens = step_files(&run.join("rollouts"), ".tokens.json")
            .pop()
            .and_then(|(step, text)| Some((step, serde_json::from_str(&text).ok()?)));
        Ok(Self {
            name: folder.path().file_name().unwrap_or_default().to_string_lossy().into_owned(),
            config: text("config.toml")?,
            manifest: text("manifest.json").unwrap_or_default(),
            series,
            skills,
            tokens,
        })
    }

    /// The points of a metric; empty when it was never written.
    pub(super) fn points(&self, name: &str) -> &[(f64, f64)] {
        self.series.get(name).map_or(&[], Vec::as_slice)
    }

    /// Metric names with a prefix and a suffix, with what stands between.
    pub(super) fn family<'a>(&'a self, prefix: &'a str, suffix: &'a str) -> Vec<(&'a str, &'a [(f64, f64)])> {
        let middle = |name: &'a str| name.strip_prefix(prefix)?.strip_suffix(suffix);
        self.series
            .iter()
            .filter_map(|(name, points)| Some((middle(name)?, points.as_slice())))
            .filter(|(middle, _)| !middle.is_empty() && !middle.contains('/'))
            .collect()
    }
}

fn series(records: &[Line]) -> BTreeMap<String, Vec<(f64, f64)>> {
    let mut all: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for (step, record) in records {
        for (name, value) in record {
            if let Some(value) = value.as_f64() {
                all.entry(name.clone()).or_default().push((*step as f64, value));
            }
        }
    }
    all
}

/// Files `step-NNNNNN{suffix}` of a folder with their text, in step order.
fn step_files(folder: &Path, suffix: &str) -> Vec<(u64, String)> {
    let Ok(entries) = fs::read_dir(folder) else { return vec![] };
    let mut files: Vec<(u64, String)> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| {
            let name = entry.file_name();
            let step = name.to_str()?.strip_prefix("step-")?.strip_suffix(suffix)?.parse().ok()?;
            Some((step, fs::read_to_string(entry.path()).ok()?))
        })
        .collect();
    files.sort_by_key(|(step, _)| *step);
    files
}
