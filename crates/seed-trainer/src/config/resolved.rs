//! A resolved configuration: typed values, and the text with the origin of each.

use super::error::{ConfigError, Place};
use super::layers::{Layers, Origin};
use super::schema::Config;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use toml::Value;

/// Every key with its value and its origin.
#[derive(Debug, Clone)]
pub struct Resolved {
    values: BTreeMap<&'static str, (Value, Origin)>,
    config: Config,
}

impl Resolved {
    pub(super) fn new(values: BTreeMap<&'static str, (Value, Origin)>) -> Self {
        let config = Config::from_values(&values);
        Self { values, config }
    }

    /// The typed configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The value of a key as TOML, and where it came from. `None` for a key that does not exist.
    pub fn get(&self, path: &str) -> Option<(&Value, &Origin)> {
        self.values.get(path).map(|(value, origin)| (value, origin))
    }

    /// The whole configuration as a TOML file; every line ends with the origin of its value.
    ///
    /// Read again, it resolves to the same values.
    pub fn to_toml(&self) -> String {
        let mut text = String::from("# Resolved configuration; each line says where its value came from.\n");
        let mut section = "";
        for key in Config::keys() {
            if key.section() != section {
                section = key.section();
                write!(text, "\n[{section}]\n").expect("writing to a string");
            }
            let (value, origin) = &self.values[key.path];
            writeln!(text, "{} = {}  # {origin}", key.name(), inline(value)).expect("writing to a string");
        }
        text
    }

    /// Reads a file written by [`Resolved::to_toml`]; every origin is then that file.
    ///
    /// # Errors
    /// As [`Layers::file`].
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        Layers::new().file(path)?.resolve()
    }

    /// Keys whose values differ, with this one's value first.
    pub fn differences<'a>(&'a self, other: &'a Self) -> Vec<(&'static str, &'a Value, &'a Value)> {
        let pairs = self.values.iter().map(|(path, (value, _))| (*path, value, &other.values[path].0));
        pairs.filter(|(_, a, b)| a != b).collect()
    }
}

/// A float keeps a point or an exponent, so that it is read as a float again.
fn inline(value: &Value) -> String {
    value.to_string()
}

impl Place {
    /// Line of the place, from 1.
    pub fn line(&self) -> usize {
        self.text.as_bytes().iter().take(self.span.start).filter(|byte| **byte == b'\n').count() + 1
    }
}
