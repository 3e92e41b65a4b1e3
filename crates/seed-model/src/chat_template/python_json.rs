//! JSON as Python prints it: `", "` and `": "` between items, non-ASCII kept, floats as `repr` writes them.

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;
use std::io::{self, Write};

/// The value on one line, or with `indent` blanks a level.
pub(super) fn to_string<T: Serialize>(value: &T, indent: Option<usize>) -> Result<String, serde_json::Error> {
    let mut text = Vec::new();
    let formatter = Python { indent, depth: 0, has_items: false };
    value.serialize(&mut Serializer::with_formatter(&mut text, formatter))?;
    String::from_utf8(text).map_err(|error| serde::ser::Error::custom(error.to_string()))
}

struct Python {
    indent: Option<usize>,
    depth: usize,
    has_items: bool,
}

impl Python {
    fn separate<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        match self.indent {
            None if first => Ok(()),
            None => out.write_all(b", "),
            Some(_) => {
                out.write_all(if first { b"" } else { b"," })?;
                self.new_line(out)
            }
        }
    }

    fn new_line<W: ?Sized + Write>(&self, out: &mut W) -> io::Result<()> {
        write!(out, "\n{:1$}", "", self.indent.unwrap_or(0) * self.depth)
    }

    fn open<W: ?Sized + Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.has_items = false;
        out.write_all(bracket)
    }

    fn close<W: ?Sized + Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if self.indent.is_some() && self.has_items {
            self.new_line(out)?;
        }
        out.write_all(bracket)
    }
}

impl Formatter for Python {
    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.separate(out, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, _out: &mut W) -> io::Result<()> {
        self.has_items = true;
        Ok(())
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.separate(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _out: &mut W) -> io::Result<()> {
        self.has_items = true;
        Ok(())
    }

    fn write_f64<W: ?Sized + Write>(&mut self, out: &mut W, value: f64) -> io::Result<()> {
        out.write_all(repr(value).as_bytes())
    }
}

/// Python's `repr` of a float: the shortest digits, with an exponent of at least two digits below 1e-4 and from 1e16 on.
fn repr(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e16).contains(&size) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    let text = format!("{value}");
    if text.contains('.') { text } else { format!("{text}.0") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn prints_as_python_does() {
        let value = json!({"b": [1, 2.0, "é<&'\"\n"], "a": {}, "c": [], "d": null, "e": true});
        assert_eq!(
            to_string(&value, None).unwrap(),
            r#"{"b": [1, 2.0, "é<&'\"\n"], "a": {}, "c": [], "d": null, "e": true}"#
        );
        assert_eq!(
            to_string(&json!({"a": [1, {"b": 2}], "c": []}), Some(2)).unwrap(),
            "{\n  \"a\": [\n    1,\n    {\n      \"b\": 2\n    }\n  ],\n  \"c\": []\n}"
        );
    }

    #[test]
    fn floats_are_those_of_repr() {
        for (value, text) in [
            (0.1, "0.1"),
            (3.0, "3.0"),
            (-0.0, "-0.0"),
            (1e16, "1e+16"),
            (1.5e-7, "1.5e-07"),
            (1e-4, "0.0001"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (1e100, "1e+100"),
            (1e15, "1000000000000000.0"),
        ] {
            assert_eq!(repr(value), text);
        }
    }
}
