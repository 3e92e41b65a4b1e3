//! Rooms from level files.
//!
//! Two common forms are read by the same rules: XSB collections and the files of Boxoban. A level is a block of lines
//! that hold nothing but the marks below; lines that start with `;` are comments (the last one before a level is its
//! title), and blank lines or any other text end a level.
//!
//! | mark | meaning |
//! |---|---|
//! | `#` | wall |
//! | blank, `-`, `_` | floor |
//! | `.` | target |
//! | `$` | box |
//! | `*` | box on a target |
//! | `@` | player |
//! | `+` | player on a target |

use super::room::{Ground, Room};
use crate::environment::EnvError;
use std::path::Path;

/// A level of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    /// The last comment before it, else its number in the file from 1.
    pub title: String,
    /// The line of its first row, from 1.
    pub line: usize,
    /// The room.
    pub room: Room,
}

/// Files beyond this size are refused.
const MAX_BYTES: u64 = 64 << 20;

/// Reads a level file.
///
/// # Errors
/// [`EnvError::Read`] when the file cannot be read; [`EnvError::Data`] with the line of a level that is no room, and
/// when there is no level at all.
pub fn read(path: &Path) -> Result<Vec<Level>, EnvError> {
    let read = |source| EnvError::Read { path: path.to_owned(), source };
    let bytes = std::fs::metadata(path).map_err(read)?.len();
    let refused = |found: String, expected: &str| EnvError::Data {
        path: path.to_owned(),
        place: String::new(),
        found,
        expected: expected.to_owned(),
    };
    if bytes > MAX_BYTES {
        return Err(refused(format!("{bytes} bytes"), "a level file of at most 64 MiB"));
    }
    let text = std::fs::read_to_string(path).map_err(read)?;
    let levels = parse(&text).map_err(|problem| EnvError::Data {
        path: path.to_owned(),
        place: format!(":{}", problem.line),
        found: problem.found,
        expected: problem.expected.to_owned(),
    })?;
    if levels.is_empty() {
        return Err(refused("no level".into(), "rows of the marks `# .$*@+`"));
    }
    Ok(levels)
}

/// What is wrong with a level, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: found {found}, expected {expected}")]
pub struct LevelError {
    /// The line, from 1.
    pub line: usize,
    /// What stands there.
    pub found: String,
    /// What should stand there.
    pub expected: &'static str,
}

/// Reads the levels of a text; none is no error here.
///
/// # Errors
/// [`LevelError`] for a block of rows that is no room.
pub fn parse(text: &str) -> Result<Vec<Level>, LevelError> {
    let mut levels = Vec::new();
    let mut title = None;
    let mut rows: Vec<&str> = Vec::new();
    for (number, line) in text.lines().chain([""]).enumerate() {
        let row = line.trim_end();
        let is_row = row.contains('#') && row.chars().all(|mark| "# -_.$*@+".contains(mark));
        if is_row {
            rows.push(row);
            continue;
        }
        if !rows.is_empty() {
            let line = number + 1 - rows.len();
            let fallback = || format!("level {}", levels.len() + 1);
            let title = title.take().filter(|title: &String| !title.is_empty()).unwrap_or_else(fallback);
            levels.push(Level { title, line, room: room(&rows, line)? });
            rows.clear();
        }
        if let Some(comment) = row.strip_prefix(';') {
            title = Some(comment.trim().to_owned());
        }
    }
    Ok(levels)
}

fn room(rows: &[&str], line: usize) -> Result<Room, LevelError> {
    let columns = rows.iter().map(|row| row.len()).max().unwrap_or_default();
    let mut ground = Vec::with_capacity(rows.len() * columns);
    let mut boxes = Vec::with_capacity(rows.len() * columns);
    let mut player = None;
    for (number, row) in rows.iter().enumerate() {
        for mark in row.bytes().chain(std::iter::repeat_n(b' ', columns - row.len())) {
            if matches!(mark, b'@' | b'+') && player.replace(ground.len()).is_some() {
                let found = "a second player".to_owned();
                return Err(LevelError { line: line + number, found, expected: "one `@` or `+` in a level" });
            }
            ground.push(match mark {
                b'#' => Ground::Wall,
                b'.' | b'*' | b'+' => Ground::Target,
                _ => Ground::Floor,
            });
            boxes.push(matches!(mark, b'$' | b'*'));
        }
    }
    let bad = |found: String, expected| LevelError { line, found, expected };
    let player = player.ok_or_else(|| bad("a level without a player".into(), "one `@` or `+` in a level"))?;
    Room::new(rows.len(), columns, ground, boxes, player)
        .map_err(|error| bad(error.to_string(), "a closed room with one player and as many boxes as targets"))
}
