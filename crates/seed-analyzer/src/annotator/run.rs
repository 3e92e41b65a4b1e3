//! Many episodes, several threads, one file that a second run goes on with.
//!
//! The file has one JSON line an episode, written as soon as it is finished and never rewritten. A run that was killed
//! leaves at most half a line at the end, which the next one cuts off. Finished episodes are not asked for again;
//! failed ones are.

use super::{AnnotateError, Annotator};
use crate::skill::Skill;
use seed_envs::Trajectory;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

/// One line of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnnotatedEpisode {
    /// The episode's id, as it was given.
    pub id: String,
    /// The analyzer prompt; empty after a failure.
    #[serde(default)]
    pub prompt: String,
    /// The raw answer, also of a failure where there was one.
    #[serde(default)]
    pub answer: String,
    /// The accepted skill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<Skill>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How far a run has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Episodes in all.
    pub total: usize,
    /// Those that the file had already.
    pub resumed: usize,
    /// Skills written by this run.
    pub written: usize,
    /// Failures of this run.
    pub failed: usize,
}

/// Annotates all episodes and returns one line for each, in their order.
///
/// `threads` is at least one. `report` is called after each episode, from the calling thread.
///
/// # Errors
/// Single failures are lines of the file. The run as a whole stops when the file cannot be read or written
/// ([`RunError::File`]), holds a broken line that is not the last ([`RunError::Line`]), when two episodes share an id,
/// or when the server says that it will refuse every request ([`RunError::Hopeless`]); what was finished stays on file.
pub fn annotate_all(
    annotator: &dyn Annotator,
    episodes: &[(String, &Trajectory)],
    threads: usize,
    path: &Path,
    mut report: impl FnMut(Progress),
) -> Result<Vec<AnnotatedEpisode>, RunError> {
    let failed = |source| RunError::File { path: path.to_owned(), source };
    let mut position = HashMap::new();
    for (at, (id, _)) in episodes.iter().enumerate() {
        if position.insert(id.as_str(), at).is_some() {
            return Err(RunError::RepeatedId { id: id.clone() });
        }
    }
    let mut file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(failed)?;
    let mut lines: Vec<Option<AnnotatedEpisode>> = vec![None; episodes.len()];
    for line in resume(&mut file, path)? {
        if let Some(&at) = position.get(line.id.as_str())
            && lines[at].as_ref().is_none_or(|known| known.skill.is_none())
        {
            lines[at] = Some(line);
        }
    }
    let todo: Vec<usize> = (0..episodes.len())
        .filter(|&at| lines[at].as_ref().is_none_or(|line| line.skill.is_none()))
        .collect();
    let mut progress =
        Progress { total: episodes.len(), resumed: episodes.len() - todo.len(), ..Progress::default() };

    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1).min(todo.len()) {
            let sender = sender.clone();
            let (todo, next, stop) = (&todo, &next, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let Some(&at) = todo.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                    if sender.send((at, annotator.annotate(episodes[at].1))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let result = (|| {
            for (at, result) in &receiver {
                let id = episodes[at].0.clone();
                let line = match result {
                    Ok(annotation) => {
                        progress.written += 1;
                        AnnotatedEpisode {
                            id,
                            prompt: annotation.prompt,
                            answer: annotation.answer,
                            skill: Some(annotation.skill),
                            error: None,
                        }
                    }
                    Err(error) if hopeless(&error) => return Err(RunError::Hopeless { source: error }),
                    Err(error) => {
                        progress.failed += 1;
                        let answer = error.answer().unwrap_or_default().to_owned();
                        AnnotatedEpisode {
                            id,
                            prompt: String::new(),
                            answer,
                            skill: None,
                            error: Some(error.to_string()),
                        }
                    }
                };
                let mut bytes = serde_json::to_vec(&line).map_err(|error| failed(error.into()))?;
                bytes.push(b'\n');
                file.write_all(&bytes).map_err(failed)?;
                lines[at] = Some(line);
                report(progress);
            }
            file.sync_all().map_err(failed)
        })();
        // The others finish what they have begun and take nothing new.
        stop.store(true, Ordering::Relaxed);
        result
    })?;
    Ok(lines.into_iter().flatten().collect())
}

/// Every further request would fail the same way.
fn hopeless(error: &AnnotateError) -> bool {
    matches!(error, AnnotateError::Refused { status: 401 | 403 | 404, .. })
}

/// Reads what an earlier run has finished and leaves the file ready for the next line.
fn resume(file: &mut std::fs::File, path: &Path) -> Result<Vec<AnnotatedEpisode>, RunError> {
    let failed = |source| RunError::File { path: path.to_owned(), source };
    // A pipe or a device has nothing to go on with, and may have no end.
    if !file.metadata().map_err(failed)?.is_file() {
        return Ok(Vec::new());
    }
    let mut text = Vec::new();
    std::io::Read::read_to_end(file, &mut text).map_err(failed)?;
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    file.set_len(whole as u64).map_err(failed)?;
    file.seek(SeekFrom::Start(whole as u64)).map_err(failed)?;
    let mut lines = Vec::new();
    for (at, line) in text[..whole].split(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let line = serde_json::from_slice(line).map_err(|source| RunError::Line {
            path: path.to_owned(),
            line: at + 1,
            source,
        })?;
        lines.push(line);
    }
    Ok(lines)
}

/// Why a run stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The file cannot be opened, read or written (a full disk, for example).
    #[error("{}: cannot write annotations; what is there is whole, run again to go on", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A line in the middle of the file is no annotation.
    #[error("{}:{line}: not an annotation; remove the line or choose another file", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// Two episodes have the same id.
    #[error("two episodes are called `{id}`; ids must differ for a run to be resumed")]
    RepeatedId {
        /// The id.
        id: String,
    },
    /// The server refuses everything: wrong key, wrong address, unknown model.
    #[error("stopped, since every request would be refused: {source}")]
    Hopeless {
        /// The first refusal.
        source: AnnotateError,
    },
}
