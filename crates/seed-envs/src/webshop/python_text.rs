//! Python's ways of writing values as text, which the pages, addresses and scores of the reference show.

use crate::pyjson::dumps;
use regex::Regex;
use std::fmt::Write as _;
use std::sync::LazyLock;

/// Everything that Python's `repr` escapes in a text, except the blank (CPython: `str.isprintable`).
static UNPRINTABLE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Zs}]$")
        .expect("the pattern is a literal of this file")
});

/// White space as `str.strip` and `str.split` see it: Unicode's and the separators U+001C–U+001F.
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// A number as `repr(float)` writes it: the shortest digits that round-trip, with at least one decimal.
pub(crate) fn float(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() {
            "nan".into()
        } else if value > 0.0 {
            "inf".into()
        } else {
            "-inf".into()
        };
    }
    let short = format!("{value:e}");
    let (digits, exponent) = short.split_once('e').unwrap_or((&short, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..16).contains(&exponent) {
        let plain = format!("{value}");
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// A text as `repr(str)` writes it.
pub(crate) fn repr(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            ' '..='~' => out.push(c),
            c if !UNPRINTABLE.is_match(c.encode_utf8(&mut [0; 4])) => out.push(c),
            // Writing to a string cannot fail.
            c if c <= '\u{ff}' => _ = write!(out, "\\x{:02x}", c as u32),
            c if c <= '\u{ffff}' => _ = write!(out, "\\u{:04x}", c as u32),
            c => _ = write!(out, "\\U{:08x}", c as u32),
        }
    }
    out.push(quote);
    out
}

/// A dictionary of texts as `str(dict)` writes it.
pub(crate) fn dict<'t>(entries: impl IntoIterator<Item = (&'t str, &'t str)>) -> String {
    let items: Vec<String> =
        entries.into_iter().map(|(key, value)| format!("{}: {}", repr(key), repr(value))).collect();
    format!("{{{}}}", items.join(", "))
}

/// A dictionary of texts as `json.dumps` writes it: ASCII, with blanks behind commas and colons.
pub(crate) fn json<'t>(entries: impl IntoIterator<Item = (&'t str, &'t str)>) -> String {
    let items: Vec<String> = entries
        .into_iter()
        .map(|(key, value)| format!("{}: {}", dumps(key, true), dumps(value, true)))
        .collect();
    format!("{{{}}}", items.join(", "))
}

/// The same inside a web page (Flask's filter `tojson`): keys sorted, and `<`, `>`, `&`, `'` escaped too.
pub(crate) fn html_json<'t>(entries: impl IntoIterator<Item = (&'t str, &'t str)>) -> String {
    let mut sorted: Vec<(&str, &str)> = entries.into_iter().collect();
    sorted.sort();
    json(sorted)
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\'', "\\u0027")
}

#[cfg(test)]
mod tests {
    use super::{dict, float, html_json, json, repr};

    // All expected values were printed by CPython 3.11.
    #[test]
    fn cpython_texts() {
        let floats = [
            (877.80, "877.8"),
            (20.0, "20.0"),
            (1e16, "1e+16"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (9_999_999_999_999_998.0, "9999999999999998.0"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (0.0, "0.0"),
            (2.0 / 3.0, "0.6666666666666666"),
        ];
        for (value, expected) in floats {
            assert_eq!(float(value), expected);
        }
        assert_eq!(repr("it's"), "\"it's\"");
        assert_eq!(repr("it's 5\""), "'it\\'s 5\"'");
        assert_eq!(
            repr("a\u{a0}b\u{200b}\n\u{3000}é\u{e000}\u{1f352}\u{f0000}"),
            "'a\\xa0b\\u200b\\n\\u3000é\\ue000🍒\\U000f0000'"
        );
        assert_eq!(dict([("größe", "🍒"), ("a", "it's")]), "{'größe': '🍒', 'a': \"it's\"}");
        assert_eq!(json([("größe", "🍒\u{7f}")]), r#"{"gr\u00f6\u00dfe": "\ud83c\udf52\u007f"}"#);
        assert_eq!(html_json([("b", "<&'>"), ("a", "1")]), r#"{"a": "1", "b": "\u003c\u0026\u0027\u003e"}"#);
    }
}
