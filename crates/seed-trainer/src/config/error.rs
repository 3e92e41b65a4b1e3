//! What can be wrong with a configuration, with the place where it stands.

use super::layers::Origin;
use std::ops::Range;
use std::path::PathBuf;

/// A place in a configuration file, for messages with the line shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub path: PathBuf,
    /// Its whole text.
    pub text: String,
    /// Bytes of the text.
    pub span: Range<usize>,
}

/// One broken rule between keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key to change.
    pub key: &'static str,
    /// What is wrong, with the values found.
    pub message: String,
    /// What to do.
    pub hint: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}`: {}; {}", self.key, self.message, self.hint)
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A configuration file cannot be read.
    #[error("{}: cannot read the configuration", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A configuration file is not TOML.
    #[error("{}:{line}: {message}", place.path.display())]
    Syntax {
        /// Where.
        place: Box<Place>,
        /// Line, from 1.
        line: usize,
        /// What the parser expected.
        message: String,
    },
    /// A key that does not exist.
    #[error("unknown key `{key}` ({origin})")]
    UnknownKey {
        /// The key found.
        key: String,
        /// Which layer it came from.
        origin: Origin,
        /// The nearest existing key.
        suggestion: Option<&'static str>,
        /// The section whose keys `seed config keys` can list.
        section: String,
        /// Where in a file, if it came from one.
        place: Option<Box<Place>>,
    },
    /// A value of the wrong kind.
    #[error("`{key}` is {found}, expected {expected} ({origin})")]
    Value {
        /// The key.
        key: &'static str,
        /// The value found, as TOML.
        found: String,
        /// What it takes.
        expected: String,
        /// Which layer it came from.
        origin: Origin,
        /// Where in a file, if it came from one.
        place: Option<Box<Place>>,
    },
    /// `--set` or a variable without `=`, or with an empty key.
    #[error("`{found}` sets nothing, expected `section.key=value` ({origin})")]
    Assignment {
        /// The text found.
        found: String,
        /// Which layer it came from.
        origin: Origin,
    },
    /// Values that do not go together.
    #[error("{}", join(.0))]
    Invalid(
        /// Every broken rule, not only the first.
        Vec<(Problem, Origin)>,
    ),
}

impl ConfigError {
    /// What to do about it, in one line.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownKey { suggestion, section, .. } => {
                let list = if section.is_empty() { String::new() } else { format!(" {section}") };
                Some(match suggestion {
                    Some(key) => format!("did you mean `{key}`? `seed config keys{list}` lists them"),
                    None => format!("`seed config keys{list}` lists them"),
                })
            }
            Self::Value { key, .. } => Some(format!("`seed config keys {key}` says what it means")),
            _ => None,
        }
    }

    /// Where it stands in a file, if it came from one.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::Syntax { place, .. } => Some(place),
            Self::UnknownKey { place, .. } | Self::Value { place, .. } => place.as_deref(),
            _ => None,
        }
    }
}

fn join(problems: &[(Problem, Origin)]) -> String {
    let lines: Vec<String> =
        problems.iter().map(|(problem, origin)| format!("{problem} ({origin})")).collect();
    lines.join("\n")
}
