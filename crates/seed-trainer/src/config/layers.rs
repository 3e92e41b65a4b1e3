//! Layers of values and where each value came from.

use super::error::{ConfigError, Place};
use super::key::Key;
use super::presets;
use super::resolved::Resolved;
use super::schema::{Config, EnvName, Method, Preset};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Value;
use toml::de::{DeTable, DeValue};

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The built-in default.
    Default,
    /// A preset, for one environment.
    Preset(Preset, EnvName),
    /// What `method` stands for.
    Method(Method),
    /// A line of a file.
    File {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
    },
    /// An environment variable.
    Variable(String),
    /// The n-th `--set`, from 1.
    Set(usize),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => write!(f, "default"),
            Self::Preset(preset, env) => write!(f, "preset `{preset}` for `{env}`"),
            Self::Method(method) => write!(f, "method `{method}`"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => write!(f, "environment variable `{name}`"),
            Self::Set(n) => write!(f, "`--set` number {n}"),
        }
    }
}

struct Entry {
    key: &'static Key,
    value: Value,
    origin: Origin,
}

/// Collects what the user gave, layer by layer, then resolves it.
#[derive(Default)]
pub struct Layers {
    entries: Vec<Entry>,
}

impl Layers {
    /// No layers yet: the built-in defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file.
    ///
    /// # Errors
    /// When it cannot be read, is not TOML, has an unknown key or a value of the wrong kind.
    pub fn file(self, path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_path_buf(), source })?;
        self.text(path, &text)
    }

    /// Adds the text of a file; `path` is only named in messages.
    ///
    /// # Errors
    /// As [`Layers::file`].
    pub fn text(mut self, path: &Path, text: &str) -> Result<Self, ConfigError> {
        let place =
            |span: Range<usize>| Box::new(Place { path: path.to_path_buf(), text: text.into(), span });
        let table = DeTable::parse(text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            ConfigError::Syntax {
                line: line_of(text, span.start),
                place: place(span),
                message: error.message().to_string(),
            }
        })?;
        let mut found = Vec::new();
        flatten("", table.get_ref(), &mut found);
        for (path_text, span, value) in found {
            let origin = Origin::File { path: path.to_path_buf(), line: line_of(text, span.start) };
            let key = find(&path_text, &origin, Some(place(span.clone())))?;
            (key.check)(&value).map_err(|expected| ConfigError::Value {
                key: key.path,
                found: value.to_string(),
                expected,
                origin: origin.clone(),
                place: Some(place(span)),
            })?;
            self.entries.push(Entry { key, value, origin });
        }
        Ok(self)
    }

    /// Adds variables whose names start with `SEED__`: `SEED__OPD__BETA=5` sets `opd.beta`.
    ///
    /// # Errors
    /// As [`Layers::set`].
    pub fn variables(mut self, all: impl IntoIterator<Item = (String, String)>) -> Result<Self, ConfigError> {
        let mut ours: Vec<_> = all.into_iter().filter(|(name, _)| name.starts_with("SEED__")).collect();
        ours.sort();
        for (name, value) in ours {
            let path = name["SEED__".len()..].to_lowercase().replace("__", ".");
            self.assign(&path, &value, Origin::Variable(name))?;
        }
        Ok(self)
    }

    /// Adds `--set section.key=value` in the order given. A value is TOML; anything else is taken as text.
    ///
    /// # Errors
    /// For an unknown key, a value of the wrong kind, or a text without `=`.
    pub fn set<S: AsRef<str>>(
        mut self,
        assignments: impl IntoIterator<Item = S>,
    ) -> Result<Self, ConfigError> {
        for (index, text) in assignments.into_iter().enumerate() {
            let origin = Origin::Set(index + 1);
            match text.as_ref().split_once('=') {
                Some((key, value)) if !key.trim().is_empty() => {
                    self.assign(key.trim(), value.trim(), origin)?
                }
                _ => return Err(ConfigError::Assignment { found: text.as_ref().into(), origin }),
            }
        }
        Ok(self)
    }

    fn assign(&mut self, path: &str, text: &str, origin: Origin) -> Result<(), ConfigError> {
        let key = find(path, &origin, None)?;
        let parsed =
            toml::from_str::<toml::Table>(&format!("v = {text}")).ok().and_then(|mut t| t.remove("v"));
        let as_text = Value::String(text.into());
        let value = match parsed {
            Some(value) if (key.check)(&value).is_ok() => value,
            _ => match (key.check)(&as_text) {
                Ok(()) => as_text,
                Err(expected) => {
                    return Err(ConfigError::Value {
                        key: key.path,
                        found: parsed.unwrap_or(as_text).to_string(),
                        expected,
                        origin,
                        place: None,
                    });
                }
            },
        };
        self.entries.push(Entry { key, value, origin });
        Ok(())
    }

    /// Resolves every key and checks the rules between keys.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] lists every broken rule.
    pub fn resolve(self) -> Result<Resolved, ConfigError> {
        let resolved = self.resolve_unchecked();
        super::validate::check(&resolved)?;
        Ok(resolved)
    }

    /// Resolves every key without the rules between keys: for showing, not for running.
    pub fn resolve_unchecked(self) -> Resolved {
        let mut values: BTreeMap<&'static str, (Value, Origin)> =
            Config::keys().map(|key| (key.path, ((key.default)(), Origin::Default))).collect();
        // `preset`, `method` and `env.name` choose lower layers, so they are read from the upper ones first.
        let chosen = |path: &str| {
            let entry = self.entries.iter().rev().find(|entry| entry.key.path == path);
            entry.map_or_else(|| values[path].0.clone(), |entry| entry.value.clone())
        };
        let preset: Preset = chosen("preset").try_into().expect("checked");
        let method: Method = chosen("method").try_into().expect("checked");
        let env: EnvName = chosen("env.name").try_into().expect("checked");
        let method_given = self.entries.iter().any(|entry| entry.key.path == "method");
        for (path, value) in presets::overrides(preset, env) {
            values.insert(path, (value, Origin::Preset(preset, env)));
        }
        // A preset may choose a method of its own (`sdar_baseline`); a method that was asked for wins.
        let method = if method_given {
            method
        } else {
            values["method"].0.clone().try_into().expect("presets hold valid methods")
        };
        for (path, value) in presets::method_overrides(method) {
            values.insert(path, (value, Origin::Method(method)));
        }
        for entry in self.entries {
            values.insert(entry.key.path, (entry.value, entry.origin));
        }
        Resolved::new(values)
    }
}

fn flatten(prefix: &str, table: &DeTable<'_>, out: &mut Vec<(String, Range<usize>, Value)>) {
    for (key, value) in table.iter() {
        let path =
            if prefix.is_empty() { key.get_ref().to_string() } else { format!("{prefix}.{}", key.get_ref()) };
        match value.get_ref() {
            DeValue::Table(inner) => flatten(&path, inner, out),
            other => out.push((path, key.span().start..value.span().end, plain(other))),
        }
    }
}

fn plain(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| Value::String(number.as_str().into()), Value::Integer),
        DeValue::Float(number) => {
            number.as_str().parse().map_or_else(|_| Value::String(number.as_str().into()), Value::Float)
        }
        DeValue::Boolean(flag) => Value::Boolean(*flag),
        DeValue::Datetime(date) => Value::Datetime(*date),
        DeValue::Array(items) => Value::Array(items.iter().map(|item| plain(item.get_ref())).collect()),
        DeValue::Table(table) => {
            Value::Table(table.iter().map(|(k, v)| (k.get_ref().to_string(), plain(v.get_ref()))).collect())
        }
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

fn find(path: &str, origin: &Origin, place: Option<Box<Place>>) -> Result<&'static Key, ConfigError> {
    if let Some(key) = Config::keys().find(|key| key.path == path) {
        return Ok(key);
    }
    let section = path.split_once('.').map_or("", |(section, _)| section);
    let known_section = Config::keys().any(|key| key.section() == section);
    Err(ConfigError::UnknownKey {
        key: path.into(),
        origin: origin.clone(),
        suggestion: nearest(path),
        section: if known_section { section.into() } else { String::new() },
        place,
    })
}

/// The existing key that needs the fewest edits, if they are few; a right name in a wrong section counts as near.
fn nearest(path: &str) -> Option<&'static str> {
    let name = path.rsplit_once('.').map_or(path, |(_, name)| name);
    let scored = Config::keys().map(|key| {
        let moved = if key.name() == name { 1 } else { usize::MAX };
        (edits(path, key.path).min(moved), key.path)
    });
    let (distance, key) = scored.min()?;
    (distance <= 1 + path.len() / 4).then_some(key)
}

/// Levenshtein distance.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
