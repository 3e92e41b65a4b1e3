//! What the schema knows about one key, and the macro that writes a section and its keys from one list.

use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::Value;

/// One configuration key: where it lives, what it takes, what it means.
#[derive(Clone, Copy)]
pub struct Key {
    /// The dotted path, e.g. `opd.beta`.
    pub path: &'static str,
    /// The lines of its documentation.
    pub doc: &'static [&'static str],
    /// What a value looks like, e.g. `number` or `"rows" | "trajectories"`.
    pub takes: fn() -> String,
    /// The built-in default.
    pub default: fn() -> Value,
    /// Whether a value fits; says what was expected if not.
    pub check: fn(&Value) -> Result<(), String>,
}

impl Key {
    /// The section, `opd` for `opd.beta`; empty for a top-level key.
    pub fn section(&self) -> &'static str {
        self.path.rsplit_once('.').map_or("", |(section, _)| section)
    }

    /// The name inside its section.
    pub fn name(&self) -> &'static str {
        self.path.rsplit_once('.').map_or(self.path, |(_, name)| name)
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A type that a key can have.
pub(super) trait Takes {
    /// What a value looks like, for messages and the reference page.
    fn takes() -> String;
}

macro_rules! takes {
    ($($ty:ty => $text:literal),* $(,)?) => { $(impl Takes for $ty { fn takes() -> String { $text.into() } })* };
}
takes! {
    bool => "true or false", u64 => "whole number", usize => "whole number", f64 => "number", String => "text",
    Vec<String> => "list of texts",
}

pub(super) fn value<T: Serialize>(default: T) -> Value {
    Value::try_from(default).expect("a default is a plain TOML value")
}

pub(super) fn check<T: DeserializeOwned + Takes>(value: &Value) -> Result<(), String> {
    value.clone().try_into::<T>().map(drop).map_err(|_| T::takes())
}

/// Writes a section: the struct, its defaults and its list of [`Key`]s.
macro_rules! section {
    ($(#[doc = $about:literal])* $name:ident $prefix:literal {
        $($(#[doc = $doc:literal])* $field:ident: $ty:ty = $default:expr),* $(,)?
    }) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name { $($(#[doc = $doc])* pub $field: $ty),* }

        impl Default for $name {
            fn default() -> Self { Self { $($field: $default),* } }
        }

        impl $name {
            /// The keys of this section in the order of the reference page.
            pub const KEYS: &'static [crate::config::Key] = &[$(crate::config::Key {
                path: concat!($prefix, stringify!($field)),
                doc: &[$($doc),*],
                takes: <$ty as crate::config::key::Takes>::takes,
                default: || { let default: $ty = $default; crate::config::key::value(default) },
                check: crate::config::key::check::<$ty>,
            }),*];
        }
    };
}

/// Writes an enum whose values stand in configuration files in `snake_case`.
macro_rules! choice {
    ($(#[doc = $about:literal])* $name:ident { $($(#[doc = $doc:literal])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[doc = $doc])* #[serde(rename = $text)] $variant),* }

        impl $name {
            /// Every value, in the order of the reference page.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The value as it stands in a file.
            pub fn as_str(self) -> &'static str { match self { $(Self::$variant => $text),* } }
        }

        impl crate::config::key::Takes for $name {
            fn takes() -> String { [$(concat!("\"", $text, "\"")),*].join(" | ") }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str(self.as_str()) }
        }
    };
}

pub(super) use {choice, section};
