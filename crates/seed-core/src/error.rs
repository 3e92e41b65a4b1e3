//! What can be wrong with the inputs of a loss or an advantage.

/// Inputs that do not fit together, or a setting outside its range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// A slice or tensor has the wrong number of entries.
    #[error("`{what}` has {found} entries, expected {expected} (one per {unit})")]
    Length {
        /// Name of the input.
        what: &'static str,
        /// Entries found.
        found: usize,
        /// Entries expected.
        expected: usize,
        /// What one entry stands for.
        unit: &'static str,
    },
    /// An input that the chosen settings need was not given.
    #[error("`{needed_by}` needs `{what}`, which was not given")]
    Missing {
        /// Name of the input.
        what: &'static str,
        /// The setting that needs it.
        needed_by: &'static str,
    },
    /// A coefficient or bound lies outside its range.
    #[error("`{what}` is {found}, expected {expected}")]
    Setting {
        /// Name of the setting.
        what: &'static str,
        /// Its value.
        found: f64,
        /// The range, in words.
        expected: &'static str,
    },
    /// Two settings exclude each other.
    #[error("`{first}` does not go together with `{second}`: {reason}")]
    Conflict {
        /// One setting.
        first: &'static str,
        /// The other.
        second: &'static str,
        /// Why, and what to do.
        reason: &'static str,
    },
    /// A number that has to be finite is not.
    #[error("`{what}[{index}]` is {found}, expected a finite number")]
    NotFinite {
        /// Name of the input.
        what: &'static str,
        /// Position in it.
        index: usize,
        /// The value.
        found: f64,
    },
    /// A mask holds something else than 0 and 1.
    #[error("`{what}[{index}]` is {found}, expected 0 or 1")]
    MaskValue {
        /// Name of the mask.
        what: &'static str,
        /// Position in row-major order.
        index: usize,
        /// The value.
        found: f64,
    },
    /// A switch was given a name that it does not have.
    #[error("unknown {what} `{found}`, expected one of {expected}")]
    UnknownName {
        /// The switch.
        what: &'static str,
        /// The name found.
        found: String,
        /// All names, separated by commas.
        expected: String,
    },
}

pub(crate) fn same_length(
    what: &'static str,
    found: usize,
    expected: usize,
    unit: &'static str,
) -> Result<(), InputError> {
    if found == expected { Ok(()) } else { Err(InputError::Length { what, found, expected, unit }) }
}

pub(crate) fn finite(what: &'static str, values: &[f64]) -> Result<(), InputError> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(index) => Err(InputError::NotFinite { what, index, found: values[index] }),
        None => Ok(()),
    }
}

/// `NaN` fails every range, since a comparison with it is false.
pub(crate) fn setting(
    what: &'static str,
    value: f64,
    ok: bool,
    expected: &'static str,
) -> Result<(), InputError> {
    if ok { Ok(()) } else { Err(InputError::Setting { what, found: value, expected }) }
}
