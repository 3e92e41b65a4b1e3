//! JSON as Python's `json` module reads it with `strict=False`, one object from the start of a text.
//!
//! Differences to a strict reader: control characters may stand in strings, `NaN` and `Infinity` are numbers, a lone
//! surrogate escape is kept (here as U+FFFD), and whatever follows the object does not matter.

use serde_json::{Map, Number, Value};

/// Python gives up near this depth as well.
const DEPTH_LIMIT: usize = 200;

/// Decodes the object that starts at the first byte of `text`.
pub(super) fn object(text: &str, work: &mut usize) -> Option<Map<String, Value>> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0);
    // One byte more than was read, so that no attempt is free.
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
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        if depth > DEPTH_LIMIT {
            return None;
        }
        match self.peek()? {
            b'{' => self.members(depth),
            b'[' => self.items(depth),
            b'"' => self.string().map(Value::String),
            _ => self.word().or_else(|| self.number()),
        }
    }

    fn members(&mut self, depth: usize) -> Option<Value> {
        self.eat(b'{')?;
        let mut object = Map::new();
        self.space();
        if self.eat(b'}').is_some() {
            return Some(Value::Object(object));
        }
        loop {
            self.space();
            let key = self.string()?;
            self.space();
            self.eat(b':')?;
            self.space();
            let value = self.value(depth + 1)?;
            object.insert(key, value);
            self.space();
            if self.eat(b'}').is_some() {
                return Some(Value::Object(object));
            }
            self.eat(b',')?;
        }
    }

    fn items(&mut self, depth: usize) -> Option<Value> {
        self.eat(b'[')?;
        let mut items = Vec::new();
        self.space();
        if self.eat(b']').is_some() {
            return Some(Value::Array(items));
        }
        loop {
            self.space();
            items.push(self.value(depth + 1)?);
            self.space();
            if self.eat(b']').is_some() {
                return Some(Value::Array(items));
            }
            self.eat(b',')?;
        }
    }

    fn string(&mut self) -> Option<String> {
        self.eat(b'"')?;
        let mut string = String::new();
        loop {
            let rest = &self.text[self.at..];
            let stop = rest.find(['"', '\\']);
            string.push_str(&rest[..stop.unwrap_or(rest.len())]);
            self.at += stop.unwrap_or(rest.len());
            stop?;
            if self.eat(b'"').is_some() {
                return Some(string);
            }
            self.at += 1;
            let escape = self.peek()?;
            self.at += 1;
            string.push(match escape {
                b'"' => '"',
                b'\\' => '\\',
                b'/' => '/',
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                b'n' => '\n',
                b'r' => '\r',
                b't' => '\t',
                b'u' => self.unicode_escape()?,
                _ => {
                    // The byte may be the first of a longer character: no reading goes on after this.
                    self.at -= 1;
                    return None;
                }
            });
        }
    }

    fn unicode_escape(&mut self) -> Option<char> {
        let first = self.hex4()?;
        if (0xd800..0xdc00).contains(&first) && self.text[self.at..].starts_with("\\u") {
            let back = self.at;
            self.at += 2;
            match self.hex4() {
                Some(second) if (0xdc00..0xe000).contains(&second) => {
                    return char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00));
                }
                _ => self.at = back,
            }
        }
        Some(char::from_u32(first).unwrap_or('\u{fffd}'))
    }

    fn hex4(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        self.at += 4;
        u32::from_str_radix(digits, 16).ok()
    }

    fn word(&mut self) -> Option<Value> {
        const WORDS: [(&str, Value); 3] =
            [("true", Value::Bool(true)), ("false", Value::Bool(false)), ("null", Value::Null)];
        let rest = &self.text[self.at..];
        for (word, value) in WORDS {
            if rest.starts_with(word) {
                self.at += word.len();
                return Some(value);
            }
        }
        // serde_json has no such numbers; they only matter as texts.
        for (word, text) in [("NaN", "nan"), ("Infinity", "inf"), ("-Infinity", "-inf")] {
            if rest.starts_with(word) {
                self.at += word.len();
                return Some(Value::String(text.into()));
            }
        }
        None
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Option<Value> {
        let start = self.at;
        _ = self.eat(b'-');
        // A leading zero ends the whole part: `01` is the number 0 and a rest that fits nowhere.
        if self.eat(b'0').is_none() && self.digits() == 0 {
            return None;
        }
        let mut whole = true;
        let after = self.at;
        if self.eat(b'.').is_some() && self.digits() > 0 {
            whole = false;
        } else {
            self.at = after;
        }
        let after = self.at;
        if self.eat(b'e').or_else(|| self.eat(b'E')).is_some() {
            _ = self.eat(b'+').or_else(|| self.eat(b'-'));
            if self.digits() > 0 {
                whole = false;
            } else {
                self.at = after;
            }
        }
        let text = &self.text[start..self.at];
        let number = match whole {
            true => text.parse::<i64>().ok().map(Number::from),
            false => text.parse().ok().and_then(Number::from_f64),
        };
        // Larger numbers than the types hold are kept as they are written.
        Some(number.map_or_else(|| Value::String(text.to_owned()), Value::Number))
    }
}
