//! Hindsight-SFT records: what stage 1 trains on. Filter, split, JSONL in and out.

use crate::skill::Skill;
use seed_envs::Trajectory;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

/// One example: an analyzer prompt and the answer to train on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SkillRecord {
    /// The analyzer prompt; becomes the user message.
    pub prompt: String,
    /// The JSON of the skill; the only text with a loss, its end token included.
    pub response: String,
    /// `task:rollout`, unique in a file.
    pub skill_id: String,
    /// The task.
    pub task_id: String,
    /// The family of the task.
    pub task_type: String,
    /// The episode reached its goal.
    pub source_success: bool,
    /// The environment's own score of the episode.
    #[serde(default)]
    pub source_score: f64,
    /// How many steps the episode had.
    pub source_num_steps: usize,
    /// The annotator's answer was read and accepted. Records without this are kept on file and never trained on.
    pub parse_ok: bool,
}

impl SkillRecord {
    /// The record of an annotated episode; `rollout` numbers the episodes of one task.
    ///
    /// Without a skill the response is empty and `parse_ok` false.
    pub fn new(trajectory: &Trajectory, rollout: usize, prompt: String, skill: Option<&Skill>) -> Self {
        Self {
            prompt,
            response: skill.map(Skill::to_json).unwrap_or_default(),
            skill_id: skill_id(trajectory, rollout),
            task_id: trajectory.task.id.clone(),
            task_type: trajectory.task.kind.clone(),
            source_success: trajectory.outcome.won,
            source_score: trajectory.outcome.score,
            source_num_steps: trajectory.steps.len(),
            parse_ok: skill
                .is_some_and(|skill| !skill.episode_skill.is_empty() || !skill.step_skills.is_empty()),
        }
    }
}

/// The name of an episode in files: `task:rollout`.
pub fn skill_id(trajectory: &Trajectory, rollout: usize) -> String {
    format!("{}:{rollout}", trajectory.task.id)
}

/// Which records are trained on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordFilter {
    /// At most so many failures with score 0 (WebShop has many of them that teach little).
    pub max_zero_score_failures: Option<usize>,
    /// At most so many records in all.
    pub max_records: Option<usize>,
}

/// How many records a filter left out, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// Not parsed, or an empty response.
    pub unparsed: usize,
    /// A `skill_id` that was there before.
    pub repeated: usize,
    /// Over the limit of failures with score 0.
    pub zero_score_failures: usize,
    /// Over the limit of records.
    pub over_limit: usize,
}

impl RecordFilter {
    /// Keeps what passes, in order; the first ones win where a limit cuts.
    pub fn apply(&self, records: Vec<SkillRecord>) -> (Vec<SkillRecord>, Dropped) {
        let mut dropped = Dropped::default();
        let mut seen = std::collections::HashSet::new();
        let mut zero = 0;
        let mut kept = Vec::new();
        for record in records {
            let failure = !record.source_success && record.source_score == 0.0;
            if !record.parse_ok || record.response.trim().is_empty() {
                dropped.unparsed += 1;
            } else if !seen.insert(record.skill_id.clone()) {
                dropped.repeated += 1;
            } else if failure && self.max_zero_score_failures.is_some_and(|most| zero >= most) {
                dropped.zero_score_failures += 1;
            } else if self.max_records.is_some_and(|most| kept.len() >= most) {
                dropped.over_limit += 1;
            } else {
                zero += usize::from(failure);
                kept.push(record);
            }
        }
        (kept, dropped)
    }
}

/// What stays together when records are split.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SplitBy {
    /// All records of a task: validation tasks are never trained on.
    #[default]
    Task,
    /// Nothing: the same task may be on both sides (the reference implementation).
    Record,
}

/// Splits records into training and validation; both keep their order.
///
/// `validation_share` (0..=1, 0.1 in the paper) is a share of records. By task, whole tasks are taken, in an order drawn
/// from `seed`, until that many records are reached. As long as the share is above 0 and there is more than one unit,
/// both sides get at least one. The draw depends on names and seed, not on the order of the records.
pub fn split(
    records: Vec<SkillRecord>,
    by: SplitBy,
    validation_share: f64,
    seed: u64,
) -> (Vec<SkillRecord>, Vec<SkillRecord>) {
    let unit = |record: &SkillRecord| match by {
        SplitBy::Task => record.task_id.clone(),
        SplitBy::Record => record.skill_id.clone(),
    };
    let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
    for record in &records {
        *sizes.entry(unit(record)).or_default() += 1;
    }
    let mut units: Vec<(u64, String, usize)> =
        sizes.into_iter().map(|(name, size)| (draw(&name, seed), name, size)).collect();
    units.sort();
    let wanted = (records.len() as f64 * validation_share.clamp(0.0, 1.0)).round() as usize;
    let wanted = if validation_share > 0.0 { wanted.max(1) } else { 0 };
    let most = units.len().saturating_sub(usize::from(validation_share < 1.0));
    let mut held = std::collections::HashSet::new();
    let mut count = 0;
    for (_, name, size) in units.into_iter().take(most) {
        if count >= wanted {
            break;
        }
        count += size;
        held.insert(name);
    }
    let (validation, train) = records.into_iter().partition(|record| held.contains(&unit(record)));
    (train, validation)
}

/// FNV-1a over seed and name, mixed once more: a fixed order that differs by seed.
fn draw(name: &str, seed: u64) -> u64 {
    let bytes = seed.to_le_bytes().into_iter().chain(name.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ (mixed >> 32)
}

/// A line that is no record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: String,
}

/// Reads records, one JSON object a line. Bad lines are reported beside the good ones; empty lines are skipped.
///
/// # Errors
/// [`RecordError::Read`] when the file cannot be read at all. A line that is not UTF-8 is a bad line.
pub fn read(path: &Path) -> Result<(Vec<SkillRecord>, Vec<BadLine>), RecordError> {
    let failed = |source| RecordError::Read { path: path.to_owned(), source };
    let mut reader = BufReader::new(std::fs::File::open(path).map_err(failed)?);
    let (mut records, mut bad) = (Vec::new(), Vec::new());
    let mut bytes = Vec::new();
    for line in 1.. {
        bytes.clear();
        if reader.read_until(b'\n', &mut bytes).map_err(failed)? == 0 {
            break;
        }
        if bytes.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice(&bytes) {
            Ok(record) => records.push(record),
            Err(error) => bad.push(BadLine { line, problem: error.to_string() }),
        }
    }
    Ok((records, bad))
}

/// Writes records, one JSON object a line, to a temporary file that then takes the place of `path`.
///
/// # Errors
/// [`RecordError::Write`]; an older file at `path` is then still whole.
pub fn write(path: &Path, records: &[SkillRecord]) -> Result<(), RecordError> {
    let failed = |source| RecordError::Write { path: path.to_owned(), source };
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    let partial = path.with_file_name(name);
    let write = || -> std::io::Result<()> {
        let mut file = std::io::BufWriter::new(std::fs::File::create(&partial)?);
        for record in records {
            serde_json::to_writer(&mut file, record)?;
            file.write_all(b"\n")?;
        }
        file.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
        std::fs::rename(&partial, path)
    };
    write().map_err(|source| {
        // Nothing is lost when this fails too: the partial file has another name.
        _ = std::fs::remove_file(&partial);
        failed(source)
    })
}

/// Why a file of records cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The file cannot be read.
    #[error("{}: cannot read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file cannot be written.
    #[error("{}: cannot write", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}
