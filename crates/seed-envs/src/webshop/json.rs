//! JSON files with one big array or object, read record by record over a memory map.

use super::store::map_file;
use crate::environment::EnvError;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::path::Path;

/// A value of a record, before anybody knows what it should have been.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum Field {
    /// `null`.
    #[default]
    Null,
    /// `false`, `true`.
    Bool(bool),
    /// Any number.
    Number(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Field>),
    /// An object; a key that is there twice has its first place and its last value, as in Python.
    Object(Vec<(String, Field)>),
}

impl Field {
    /// What it is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a truth value",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }

    /// What Python takes for false: null, false, 0, and whatever is empty.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(value) => !value,
            Self::Number(value) => *value == 0.0,
            Self::Text(text) => text.is_empty(),
            Self::List(list) => list.is_empty(),
            Self::Object(entries) => entries.is_empty(),
        }
    }
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldVisitor;
        impl<'de> Visitor<'de> for FieldVisitor {
            type Value = Field;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }
            fn visit_unit<E>(self) -> Result<Field, E> {
                Ok(Field::Null)
            }
            fn visit_bool<E>(self, value: bool) -> Result<Field, E> {
                Ok(Field::Bool(value))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Field, E> {
                Ok(Field::Number(value as f64))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Field, E> {
                Ok(Field::Number(value as f64))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Field, E> {
                Ok(Field::Number(value))
            }
            fn visit_str<E>(self, text: &str) -> Result<Field, E> {
                Ok(Field::Text(text.to_owned()))
            }
            fn visit_string<E>(self, text: String) -> Result<Field, E> {
                Ok(Field::Text(text))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Field, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element()? {
                    list.push(item);
                }
                Ok(Field::List(list))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Field, A::Error> {
                let mut object = Vec::new();
                let mut places = HashMap::new();
                while let Some((key, value)) = entries.next_entry::<String, Field>()? {
                    match places.get(&key) {
                        Some(&place) => {
                            let (_, old): &mut (String, Field) = &mut object[place];
                            *old = value;
                        }
                        None => {
                            places.insert(key.clone(), object.len());
                            object.push((key, value));
                        }
                    }
                }
                Ok(Field::Object(object))
            }
        }
        deserializer.deserialize_any(FieldVisitor)
    }
}

/// The wanted fields of a record, in the order of their names as asked for; `None` where one is missing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record<const N: usize>(pub(crate) [Option<Field>; N]);

/// Reads an object and keeps the fields `names`.
#[derive(Debug)]
struct RecordSeed<'n, const N: usize>(&'n [&'static str; N]);

impl<'de, const N: usize> DeserializeSeed<'de> for RecordSeed<'_, N> {
    type Value = Result<Record<N>, Field>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(RecordVisitor(self.0))
    }
}

struct RecordVisitor<'n, const N: usize>(&'n [&'static str; N]);

impl<'de, const N: usize> Visitor<'de> for RecordVisitor<'_, N> {
    /// What stands there instead, where it is no object.
    type Value = Result<Record<N>, Field>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record")
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Err(Field::Null))
    }
    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Err(Field::Bool(value)))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Err(Field::Number(value as f64)))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Err(Field::Number(value as f64)))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Err(Field::Number(value)))
    }
    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Err(Field::Text(text.to_owned())))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Err(Field::List(Vec::new())))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut record = Record(std::array::from_fn(|_| None));
        while let Some(key) = entries.next_key::<String>()? {
            match self.0.iter().position(|name| *name == key) {
                Some(place) => record.0[place] = Some(entries.next_value()?),
                None => _ = entries.next_value::<IgnoredAny>()?,
            }
        }
        Ok(Ok(record))
    }
}

/// Where a record stands in its file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'p> {
    path: &'p Path,
    /// Number of the record, from 0.
    pub(crate) index: usize,
    key: Option<&'p str>,
}

impl<'p> Place<'p> {
    /// Record `index` of a file.
    pub(crate) fn new(path: &'p Path, index: usize) -> Self {
        Self { path, index, key: None }
    }

    /// Of a record that has a name too.
    pub(crate) fn named(self, key: &'p str) -> Self {
        Self { key: Some(key), ..self }
    }

    /// The error of a field.
    pub(crate) fn bad(&self, field: &str, found: impl Into<String>, expected: impl Into<String>) -> EnvError {
        let key = self.key.map(|key| format!(" (`{key}`)")).unwrap_or_default();
        let field = if field.is_empty() { String::new() } else { format!(" field \"{field}\"") };
        EnvError::Data {
            path: self.path.into(),
            place: format!(" record {}{key}{field}", self.index),
            found: found.into(),
            expected: expected.into(),
        }
    }

    /// A field that must be a text.
    pub(crate) fn text(&self, field: &str, value: Option<Field>) -> Result<String, EnvError> {
        match value {
            Some(Field::Text(text)) => Ok(text),
            other => Err(self.bad(field, found(other.as_ref()), "a text")),
        }
    }

    /// A field that must be a list of texts.
    pub(crate) fn texts(&self, field: &str, value: Option<Field>) -> Result<Vec<String>, EnvError> {
        let Some(Field::List(items)) = value else {
            return Err(self.bad(field, found(value.as_ref()), "a list of texts"));
        };
        items
            .into_iter()
            .map(|item| match item {
                Field::Text(text) => Ok(text),
                other => Err(self.bad(field, format!("{} in the list", other.kind()), "a list of texts")),
            })
            .collect()
    }
}

/// What a field holds, for messages.
pub(crate) fn found(value: Option<&Field>) -> String {
    value.map_or("nothing", Field::kind).to_owned()
}

/// What a callback says about a record: whether to read on.
pub(crate) type Verdict = Result<ControlFlow<()>, EnvError>;

/// Reads a file that is a list of records. `each` gets the records' wanted fields, or what stands there instead.
pub(crate) fn read_list<const N: usize>(
    path: &Path,
    names: &[&'static str; N],
    each: impl FnMut(Place<'_>, Result<Record<N>, Field>) -> Verdict,
) -> Result<(), EnvError> {
    read(path, names, false, adapt_list(each))
}

fn adapt_list<const N: usize>(
    mut each: impl FnMut(Place<'_>, Result<Record<N>, Field>) -> Verdict,
) -> impl FnMut(Place<'_>, String, Result<Record<N>, Field>) -> Verdict {
    move |place, _, record| each(place, record)
}

/// Reads a file that is an object of records: key, then the record.
pub(crate) fn read_object<const N: usize>(
    path: &Path,
    names: &[&'static str; N],
    each: impl FnMut(Place<'_>, String, Result<Record<N>, Field>) -> Verdict,
) -> Result<(), EnvError> {
    read(path, names, true, each)
}

fn read<const N: usize>(
    path: &Path,
    names: &[&'static str; N],
    object: bool,
    each: impl FnMut(Place<'_>, String, Result<Record<N>, Field>) -> Verdict,
) -> Result<(), EnvError> {
    let map = map_or_empty(path)?;
    let bytes: &[u8] = map.as_deref().map_or(&[], |map| map);
    let mut stop = None;
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let reader = Reader { path, names, each, stop: &mut stop, records: PhantomData };
    let outcome =
        if object { deserializer.deserialize_map(reader) } else { deserializer.deserialize_seq(reader) };
    let outcome = outcome.and_then(|()| deserializer.end());
    match (stop, outcome) {
        (Some(verdict), _) => verdict,
        (None, Ok(())) => Ok(()),
        (None, Err(error)) => Err(EnvError::Data {
            path: path.into(),
            place: format!(":{}:{}", error.line(), error.column()),
            found: error.to_string(),
            expected: if object { "an object of records" } else { "a list of records" }.into(),
        }),
    }
}

/// An empty file cannot be mapped.
fn map_or_empty(path: &Path) -> Result<Option<std::sync::Arc<memmap2::Mmap>>, EnvError> {
    let length =
        std::fs::metadata(path).map_err(|source| EnvError::Read { path: path.into(), source })?.len();
    if length == 0 { Ok(None) } else { map_file(path).map(Some) }
}

struct Reader<'r, F, const N: usize> {
    path: &'r Path,
    names: &'r [&'static str; N],
    each: F,
    /// Why reading stopped before the end: nothing more is wanted, or an error.
    stop: &'r mut Option<Result<(), EnvError>>,
    records: PhantomData<Record<N>>,
}

impl<F, const N: usize> Reader<'_, F, N>
where
    F: FnMut(Place<'_>, String, Result<Record<N>, Field>) -> Verdict,
{
    fn take<E: serde::de::Error>(
        &mut self,
        index: usize,
        key: String,
        record: Result<Record<N>, Field>,
    ) -> Result<(), E> {
        let place = Place::new(self.path, index);
        *self.stop = match (self.each)(place, key, record) {
            Ok(ControlFlow::Continue(())) => return Ok(()),
            Ok(ControlFlow::Break(())) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        };
        Err(E::custom("stopped"))
    }
}

impl<'de, F, const N: usize> Visitor<'de> for Reader<'_, F, N>
where
    F: FnMut(Place<'_>, String, Result<Record<N>, Field>) -> Verdict,
{
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("records")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        let mut index = 0;
        while let Some(record) = items.next_element_seed(RecordSeed(self.names))? {
            self.take::<A::Error>(index, String::new(), record)?;
            index += 1;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        let mut index = 0;
        while let Some(key) = entries.next_key::<String>()? {
            let record = entries.next_value_seed(RecordSeed(self.names))?;
            self.take::<A::Error>(index, key, record)?;
            index += 1;
        }
        Ok(())
    }
}
