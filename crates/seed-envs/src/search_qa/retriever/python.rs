//! What Python's `json` module and its data types say about bad answers.
//!
//! The agent environment shows the client's complaint to the model, so it belongs to the protocol: a model that was
//! trained with the Python client has seen these words.

use serde_json::Value;

/// The complaint of `json.loads` about a text, e.g. `Expecting value: line 1 column 1 (char 0)`; `None` where it has
/// none, or where the text is nested too deeply to tell.
pub fn json_complaint(text: &str) -> Option<String> {
    let chars: Vec<char> = text.chars().collect();
    if chars.first() == Some(&'\u{feff}') {
        return Some(at(&chars, "Unexpected UTF-8 BOM (decode using utf-8-sig)", 0));
    }
    let scanner = Scanner { text: &chars };
    let result = scanner.value(scanner.blank(0), 0).and_then(|end| match scanner.blank(end) {
        end if end == chars.len() => Ok(end),
        end => Err(Fault::At("Extra data", end)),
    });
    match result {
        Err(Fault::At(what, place)) => Some(at(&chars, what, place)),
        Ok(_) | Err(Fault::TooDeep) => None,
    }
}

fn at(text: &[char], what: &str, place: usize) -> String {
    let before = &text[..place];
    let line = before.iter().filter(|c| **c == '\n').count() + 1;
    let column = place + 1 - before.iter().rposition(|c| *c == '\n').map_or(0, |newline| newline + 1);
    format!("{what}: line {line} column {column} (char {place})")
}

enum Fault {
    At(&'static str, usize),
    TooDeep,
}

/// Follows CPython's scanner; each function returns the place behind what it read.
struct Scanner<'a> {
    text: &'a [char],
}

impl Scanner<'_> {
    fn get(&self, place: usize) -> Option<char> {
        self.text.get(place).copied()
    }

    fn blank(&self, mut place: usize) -> usize {
        while matches!(self.get(place), Some(' ' | '\t' | '\n' | '\r')) {
            place += 1;
        }
        place
    }

    fn value(&self, place: usize, depth: usize) -> Result<usize, Fault> {
        // Python itself goes to about a thousand.
        if depth > 256 {
            return Err(Fault::TooDeep);
        }
        match self.get(place) {
            Some('"') => self.string(place),
            Some('{') => self.object(place + 1, depth),
            Some('[') => self.array(place + 1, depth),
            Some('-' | '0'..='9') if self.number(place).is_some() => Ok(self.number(place).unwrap_or(place)),
            Some(_) => ["null", "true", "false", "NaN", "Infinity", "-Infinity"]
                .iter()
                .find(|word| self.text[place..].iter().copied().take(word.len()).eq(word.chars()))
                .map(|word| place + word.len())
                .ok_or(Fault::At("Expecting value", place)),
            None => Err(Fault::At("Expecting value", place)),
        }
    }

    fn number(&self, place: usize) -> Option<usize> {
        let digits = |mut place: usize| {
            while matches!(self.get(place), Some('0'..='9')) {
                place += 1;
            }
            place
        };
        let start = place + usize::from(self.get(place) == Some('-'));
        let mut end = match self.get(start)? {
            '0' => start + 1,
            '1'..='9' => digits(start),
            _ => return None,
        };
        if self.get(end) == Some('.') && digits(end + 1) > end + 1 {
            end = digits(end + 1);
        }
        if matches!(self.get(end), Some('e' | 'E')) {
            let exponent = end + 1 + usize::from(matches!(self.get(end + 1), Some('+' | '-')));
            if digits(exponent) > exponent {
                end = digits(exponent);
            }
        }
        Some(end)
    }

    fn string(&self, quote: usize) -> Result<usize, Fault> {
        let unterminated = Fault::At("Unterminated string starting at", quote);
        let mut place = quote + 1;
        loop {
            match self.get(place) {
                None => return Err(unterminated),
                Some('"') => return Ok(place + 1),
                Some('\\') => match self.get(place + 1) {
                    None => return Err(unterminated),
                    Some('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't') => place += 2,
                    Some('u') => {
                        let digits = self.text.get(place + 2..place + 6).unwrap_or_default();
                        // The closing quote must come behind, or it is the escape that is broken.
                        let whole = digits.len() == 4 && place + 6 < self.text.len();
                        if !(whole && digits.iter().all(char::is_ascii_hexdigit)) {
                            return Err(Fault::At("Invalid \\uXXXX escape", place + 1));
                        }
                        place += 6;
                    }
                    Some(_) => return Err(Fault::At("Invalid \\escape", place)),
                },
                Some(c) if c < ' ' => return Err(Fault::At("Invalid control character at", place)),
                Some(_) => place += 1,
            }
        }
    }

    fn object(&self, place: usize, depth: usize) -> Result<usize, Fault> {
        let mut place = self.blank(place);
        if self.get(place) == Some('}') {
            return Ok(place + 1);
        }
        loop {
            if self.get(place) != Some('"') {
                return Err(Fault::At("Expecting property name enclosed in double quotes", place));
            }
            place = self.blank(self.string(place)?);
            if self.get(place) != Some(':') {
                return Err(Fault::At("Expecting ':' delimiter", place));
            }
            place = self.blank(self.value(self.blank(place + 1), depth + 1)?);
            match self.get(place) {
                Some('}') => return Ok(place + 1),
                Some(',') => place = self.blank(place + 1),
                _ => return Err(Fault::At("Expecting ',' delimiter", place)),
            }
        }
    }

    fn array(&self, place: usize, depth: usize) -> Result<usize, Fault> {
        let mut place = self.blank(place);
        if self.get(place) == Some(']') {
            return Ok(place + 1);
        }
        loop {
            place = self.blank(self.value(place, depth + 1)?);
            match self.get(place) {
                Some(']') => return Ok(place + 1),
                Some(',') => place = self.blank(place + 1),
                _ => return Err(Fault::At("Expecting ',' delimiter", place)),
            }
        }
    }
}

/// What Python calls the type of a value.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "NoneType",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        Value::String(_) => "str",
        Value::Array(_) => "list",
        Value::Object(_) => "dict",
    }
}

/// Whether Python takes a value for true.
pub fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

/// `value["key"]`.
///
/// # Errors
/// What the exception says.
pub fn subscript<'a>(value: &'a Value, key: &str) -> Result<&'a Value, String> {
    match value {
        Value::Object(fields) => fields.get(key).ok_or_else(|| format!("'{key}'")),
        Value::Array(_) => Err("list indices must be integers or slices, not str".to_owned()),
        Value::String(_) => Err("string indices must be integers, not 'str'".to_owned()),
        other => Err(format!("'{}' object is not subscriptable", type_name(other))),
    }
}

/// `for item in value`.
///
/// # Errors
/// What the exception says.
pub fn iterate(value: &Value) -> Result<Vec<Value>, String> {
    match value {
        Value::Array(items) => Ok(items.clone()),
        Value::Object(fields) => Ok(fields.keys().map(|key| Value::from(key.as_str())).collect()),
        Value::String(text) => Ok(text.chars().map(|c| Value::from(c.to_string())).collect()),
        other => Err(format!("'{}' object is not iterable", type_name(other))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_of_json() {
        for (text, expected) in [
            ("", "Expecting value: line 1 column 1 (char 0)"),
            ("<html>", "Expecting value: line 1 column 1 (char 0)"),
            ("{\"result\": [", "Expecting value: line 1 column 13 (char 12)"),
            ("{\"result\": [[{\"doc", "Unterminated string starting at: line 1 column 15 (char 14)"),
            ("{\"a\": 1", "Expecting ',' delimiter: line 1 column 8 (char 7)"),
            ("{\"a\"", "Expecting ':' delimiter: line 1 column 5 (char 4)"),
            (
                "{\n \"a\": 1,}",
                "Expecting property name enclosed in double quotes: line 2 column 9 (char 10)",
            ),
            ("{} x", "Extra data: line 1 column 4 (char 3)"),
            ("[1 2]", "Expecting ',' delimiter: line 1 column 4 (char 3)"),
            ("\"a\nb\"", "Invalid control character at: line 1 column 3 (char 2)"),
            ("\"\\x\"", "Invalid \\escape: line 1 column 2 (char 1)"),
            ("\"\\u12", "Invalid \\uXXXX escape: line 1 column 3 (char 2)"),
            ("-", "Expecting value: line 1 column 1 (char 0)"),
            ("1.", "Extra data: line 1 column 2 (char 1)"),
            ("\u{feff}{}", "Unexpected UTF-8 BOM (decode using utf-8-sig): line 1 column 1 (char 0)"),
        ] {
            assert_eq!(json_complaint(text).as_deref(), Some(expected), "{text:?}");
        }
        assert_eq!(json_complaint(" {\"a\": [1.5e3, -0, null, NaN]} "), None);
    }
}
