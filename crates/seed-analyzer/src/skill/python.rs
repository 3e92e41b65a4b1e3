//! Python literals as `ast.literal_eval` reads them, one dictionary from the start of a text.
//!
//! Strings with all their quotes, escapes and prefixes (but no bytes), numbers, `True`, `False`, `None`, lists, tuples
//! and dictionaries with keys of any of these kinds. Sets and arithmetic are left out: no answer has them.

use serde_json::{Map, Number, Value};

const DEPTH_LIMIT: usize = 100;

/// Decodes the dictionary that starts at the first byte of `text`.
pub(super) fn object(text: &str, work: &mut usize) -> Option<Map<String, Value>> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0);
    *work = work.saturating_sub(reader.at + 1);
    match value? {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn eat(&mut self, token: &str) -> Option<()> {
        self.rest().starts_with(token).then(|| self.at += token.len())
    }

    /// Blanks, line breaks and comments: inside brackets they all separate tokens.
    fn space(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' | b'\x0c' => self.at += 1,
                b'#' => self.at += self.rest().find('\n').unwrap_or(self.rest().len()),
                _ => break,
            }
        }
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        if depth > DEPTH_LIMIT {
            return None;
        }
        match self.peek()? {
            b'{' => self.dictionary(depth),
            b'[' => self.sequence(depth, "[", "]"),
            b'(' => self.sequence(depth, "(", ")"),
            b'+' | b'-' | b'.' | b'0'..=b'9' => self.number(),
            _ => self.word().or_else(|| self.strings()),
        }
    }

    fn dictionary(&mut self, depth: usize) -> Option<Value> {
        self.eat("{")?;
        let mut object = Map::new();
        loop {
            self.space();
            if self.eat("}").is_some() {
                return Some(Value::Object(object));
            }
            let key = match self.value(depth + 1)? {
                Value::String(key) => key,
                // Python has no dictionaries or lists as keys.
                Value::Object(_) | Value::Array(_) => return None,
                other => other.to_string(),
            };
            self.space();
            self.eat(":")?;
            self.space();
            let value = self.value(depth + 1)?;
            object.insert(key, value);
            self.space();
            if self.eat(",").is_none() {
                self.eat("}")?;
                return Some(Value::Object(object));
            }
        }
    }

    fn sequence(&mut self, depth: usize, open: &str, close: &str) -> Option<Value> {
        self.eat(open)?;
        let mut items = Vec::new();
        let mut comma = false;
        loop {
            self.space();
            if self.eat(close).is_some() {
                break;
            }
            items.push(self.value(depth + 1)?);
            self.space();
            if self.eat(",").is_none() {
                self.eat(close)?;
                break;
            }
            comma = true;
        }
        // Round brackets around one value, without a comma, mean nothing.
        if open == "(" && items.len() == 1 && !comma {
            return items.pop();
        }
        Some(Value::Array(items))
    }

    fn word(&mut self) -> Option<Value> {
        for (word, value) in
            [("True", Value::Bool(true)), ("False", Value::Bool(false)), ("None", Value::Null)]
        {
            let follows = self.rest().strip_prefix(word).map(|rest| rest.chars().next());
            if let Some(next) = follows
                && !next.is_some_and(|c| c.is_alphanumeric() || c == '_')
            {
                self.at += word.len();
                return Some(value);
            }
        }
        None
    }

    fn number(&mut self) -> Option<Value> {
        let rest = self.rest();
        let signs = rest.len() - rest.trim_start_matches(['+', '-']).len();
        let negative = rest[..signs].matches('-').count() % 2 == 1;
        let body = &rest[signs..];
        let length = body
            .char_indices()
            .find(|&(at, c)| {
                let exponent_sign = matches!(c, '+' | '-') && body[..at].ends_with(['e', 'E']);
                !(c.is_ascii_alphanumeric() || c == '.' || c == '_' || exponent_sign)
            })
            .map_or(body.len(), |(at, _)| at);
        let digits = body[..length].replace('_', "");
        self.at += signs + length;
        let radix = [("0x", 16), ("0X", 16), ("0o", 8), ("0O", 8), ("0b", 2), ("0B", 2)];
        let whole =
            match radix.iter().find_map(|(prefix, radix)| Some((digits.strip_prefix(prefix)?, *radix))) {
                Some((digits, radix)) => Some(i64::from_str_radix(digits, radix).ok()?),
                // `007` is an error in Python, `000` is not.
                None if digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                    return digits.bytes().all(|byte| byte == b'0').then(|| Value::from(0));
                }
                None => digits.parse::<i64>().ok(),
            };
        if let Some(whole) = whole {
            return Some(Value::from(if negative { whole.checked_neg()? } else { whole }));
        }
        // `inf` and `nan` parse in Rust and are names in Python.
        if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return None;
        }
        let number: f64 = digits.parse().ok()?;
        Number::from_f64(if negative { -number } else { number }).map(Value::Number)
    }

    /// Neighbouring strings are one string.
    fn strings(&mut self) -> Option<Value> {
        let mut all = self.string()?;
        loop {
            let back = self.at;
            self.space();
            match self.peek() {
                Some(b'"' | b'\'' | b'u' | b'U' | b'r' | b'R') => all.push_str(&self.string()?),
                _ => {
                    self.at = back;
                    return Some(Value::String(all));
                }
            }
        }
    }

    fn string(&mut self) -> Option<String> {
        let mut raw = false;
        match self.peek()? {
            b'u' | b'U' => self.at += 1,
            b'r' | b'R' => {
                raw = true;
                self.at += 1;
            }
            _ => {}
        }
        let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| self.rest().starts_with(quote))?;
        self.at += quote.len();
        let mut string = String::new();
        loop {
            if self.eat(quote).is_some() {
                return Some(string);
            }
            let c = self.rest().chars().next()?;
            self.at += c.len_utf8();
            match c {
                '\n' if quote.len() == 1 => return None,
                '\\' if raw => {
                    string.push('\\');
                    let next = self.rest().chars().next()?;
                    self.at += next.len_utf8();
                    string.push(next);
                }
                '\\' => self.escape(&mut string)?,
                c => string.push(c),
            }
        }
    }

    fn escape(&mut self, string: &mut String) -> Option<()> {
        let c = self.rest().chars().next()?;
        self.at += c.len_utf8();
        let plain = match c {
            '\n' => return Some(()),
            '\\' | '\'' | '"' => c,
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            'x' => self.hex(2)?,
            'u' => self.hex(4)?,
            'U' => self.hex(8)?,
            '0'..='7' => {
                let mut value = c as u32 - '0' as u32;
                for _ in 0..2 {
                    match self.peek() {
                        Some(digit @ b'0'..=b'7') => {
                            value = value * 8 + u32::from(digit - b'0');
                            self.at += 1;
                        }
                        _ => break,
                    }
                }
                char::from_u32(value)?
            }
            // An unknown escape keeps its backslash.
            other => {
                string.push('\\');
                other
            }
        };
        string.push(plain);
        Some(())
    }

    fn hex(&mut self, count: usize) -> Option<char> {
        let digits = self.text.get(self.at..self.at + count)?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        self.at += count;
        let code = u32::from_str_radix(digits, 16).ok()?;
        // A lone surrogate is a character in Python; beyond the last code point it is an error there too.
        char::from_u32(code).or((code <= 0x10ffff).then_some('\u{fffd}'))
    }
}
