//! Text files with named slots `{{name}}`: the analyzer's prompts and the block that carries a skill.

use std::path::{Path, PathBuf};

/// A text cut at its slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SlotText {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Slot(&'static str),
}

impl SlotText {
    /// Cuts `source`; its last line break is no part of it.
    pub(crate) fn parse(
        file: &Path,
        source: &str,
        known: &'static [&'static str],
        required: &[&'static str],
    ) -> Result<Self, SlotError> {
        let source = source.replace("\r\n", "\n");
        let mut rest = source.strip_suffix('\n').unwrap_or(&source);
        let mut line = 1;
        let mut pieces = Vec::new();
        while let Some(start) = rest.find("{{") {
            let (text, from) = rest.split_at(start);
            line += text.matches('\n').count();
            let end = from
                .find("}}")
                .filter(|end| !from[..*end].contains('\n'))
                .ok_or_else(|| SlotError::Open { file: file.to_owned(), line })?;
            let name = from[2..end].trim();
            let slot = known.iter().find(|known| **known == name).ok_or_else(|| SlotError::Unknown {
                file: file.to_owned(),
                line,
                slot: name.to_owned(),
                known: if known.is_empty() { "none".to_owned() } else { known.join(", ") },
            })?;
            pieces.push(Piece::Text(text.to_owned()));
            pieces.push(Piece::Slot(slot));
            rest = &from[end + 2..];
        }
        pieces.push(Piece::Text(rest.to_owned()));
        for slot in required {
            if !pieces.contains(&Piece::Slot(slot)) {
                return Err(SlotError::Missing { file: file.to_owned(), slot });
            }
        }
        Ok(Self { pieces })
    }

    /// Puts the values in; a slot without a value, and a line that holds nothing else, disappear.
    pub(crate) fn fill(&self, values: &[(&str, &str)]) -> String {
        let mut text = String::new();
        // The line break behind an empty slot that stood alone on its line goes with it.
        let mut swallow = false;
        for piece in &self.pieces {
            match piece {
                Piece::Text(piece) => {
                    let piece = match piece.strip_prefix('\n') {
                        Some(rest) if swallow => rest,
                        _ => piece,
                    };
                    text.push_str(piece);
                    swallow = false;
                }
                Piece::Slot(name) => {
                    let value = values.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value);
                    swallow = value.is_empty() && (text.is_empty() || text.ends_with('\n'));
                    text.push_str(value);
                }
            }
        }
        text
    }
}

/// Why a text with slots cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SlotError {
    /// A slot with a name that nothing fills.
    #[error("{}:{line}: unknown slot `{slot}`; known here: {known}", file.display())]
    Unknown {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The name found.
        slot: String,
        /// The names there are.
        known: String,
    },
    /// A slot that must be there is not.
    #[error("{}: slot `{slot}` is missing; write {{{{{slot}}}}} where it belongs", file.display())]
    Missing {
        /// The file.
        file: PathBuf,
        /// The slot.
        slot: &'static str,
    },
    /// Two opening braces without their end on the same line.
    #[error("{}:{line}: `{{{{` without `}}}}` on the same line", file.display())]
    Open {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
    },
}
