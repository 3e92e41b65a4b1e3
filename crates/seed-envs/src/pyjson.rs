//! JSON text as Python's `json` module writes it.

use std::fmt::Write as _;

/// A text as `json.dumps` writes it: ASCII only where `ascii`, else as it is but for what JSON must escape.
pub(crate) fn dumps(text: &str, ascii: bool) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(c),
            c if ascii || c < ' ' => {
                // Writing to a string cannot fail.
                c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| _ = write!(out, "\\u{unit:04x}"));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::dumps;

    #[test]
    fn texts_as_python_writes_them() {
        assert_eq!(dumps("é\u{7f}\u{1}🙂\"\\/\n", true), r#""\u00e9\u007f\u0001\ud83d\ude42\"\\/\n""#);
        assert_eq!(dumps("é🙂\u{1}", false), "\"é🙂\\u0001\"");
    }
}
