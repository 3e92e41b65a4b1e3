//! PDDL's outer shape: words and lists, read with the rules of the Fast Downward translator.

use super::error::{GameError, Part, excerpt};

/// Lists inside lists, at most; real domains need about ten.
const MAX_DEPTH: usize = 100;
/// Bytes of one text, at most; real problems have up to 0.1 MB.
pub(super) const MAX_TEXT: usize = 8 << 20;

/// A word or a list, with the line on which it starts.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Sexpr<'a> {
    Word(&'a str, usize),
    List(Vec<Sexpr<'a>>, usize),
}

impl<'a> Sexpr<'a> {
    pub(super) fn line(&self) -> usize {
        match self {
            Self::Word(_, line) | Self::List(_, line) => *line,
        }
    }

    pub(super) fn word(&self, part: Part, expected: &str) -> Result<&'a str, GameError> {
        match self {
            Self::Word(word, _) => Ok(word),
            Self::List(..) => Err(self.unexpected(part, expected)),
        }
    }

    pub(super) fn list(&self, part: Part, expected: &str) -> Result<&[Sexpr<'a>], GameError> {
        match self {
            Self::List(items, _) => Ok(items),
            Self::Word(..) => Err(self.unexpected(part, expected)),
        }
    }

    /// The list's first word and the rest; `None` for a word or a list that does not start with one.
    pub(super) fn headed(&self) -> Option<(&'a str, &[Sexpr<'a>])> {
        match self {
            Self::List(items, _) => match items.split_first() {
                Some((Self::Word(head, _), rest)) => Some((head, rest)),
                _ => None,
            },
            Self::Word(..) => None,
        }
    }

    pub(super) fn unexpected(&self, part: Part, expected: &str) -> GameError {
        let found = match self {
            Self::Word(word, _) => excerpt(word),
            Self::List(items, _) => match items.first() {
                None => "an empty list".into(),
                Some(Self::Word(word, _)) => format!("the list ({} …)", excerpt(word)),
                Some(Self::List(..)) => "a list of lists".into(),
            },
        };
        GameError::Syntax { part, line: self.line(), found, expected: expected.into() }
    }
}

/// `text` in lower case; refuses what is too long or has letters beyond ASCII outside comments.
pub(super) fn normalise(text: &str, part: Part) -> Result<String, GameError> {
    if text.len() > MAX_TEXT {
        return Err(GameError::TooLarge { what: "bytes of PDDL", found: text.len(), limit: MAX_TEXT });
    }
    if !text.is_ascii() {
        for (number, line) in text.lines().enumerate() {
            let code = line.split(';').next().unwrap_or_default();
            if let Some(strange) = code.chars().find(|c| !c.is_ascii()) {
                return Err(GameError::Syntax {
                    part,
                    line: number + 1,
                    found: format!("`{strange}`"),
                    expected: "ASCII outside comments".into(),
                });
            }
        }
    }
    Ok(text.to_ascii_lowercase())
}

/// Reads the one list that `text` (already normalised) consists of.
///
/// Only blanks, brackets, `?` and line ends separate words: a comma is an ordinary character, so the type in
/// `?l - location, ?r` is the word `location,`.
pub(super) fn read(text: &str, part: Part) -> Result<Sexpr<'_>, GameError> {
    let bytes = text.as_bytes();
    let mut line = 1;
    let mut at = 0;
    let mut open: Vec<(Vec<Sexpr<'_>>, usize)> = Vec::new();
    let mut whole = None;
    let syntax = |line: usize, found: &str, expected: &str| GameError::Syntax {
        part,
        line,
        found: found.into(),
        expected: expected.into(),
    };
    while at < bytes.len() {
        match bytes[at] {
            b'\n' => {
                line += 1;
                at += 1;
            }
            b' ' | b'\t' | b'\r' | 0x0b | 0x0c => at += 1,
            b';' => at += bytes[at..].iter().position(|&b| b == b'\n').unwrap_or(bytes.len() - at),
            _ if whole.is_some() => {
                return Err(syntax(line, "more text", "the end after the closing bracket"));
            }
            b'(' => {
                if open.len() == MAX_DEPTH {
                    return Err(syntax(line, "a list nested too deeply", "at most 100 levels"));
                }
                open.push((Vec::new(), line));
                at += 1;
            }
            b')' => {
                let Some((items, start)) = open.pop() else {
                    return Err(syntax(line, "`)`", "`(` before it"));
                };
                let list = Sexpr::List(items, start);
                match open.last_mut() {
                    Some((outer, _)) => outer.push(list),
                    None => whole = Some(list),
                }
                at += 1;
            }
            _ => {
                let ends = |b: u8| b.is_ascii_whitespace() || matches!(b, b'(' | b')' | b'?' | b';' | 0x0b);
                // `?` starts a word and never continues one.
                let length =
                    bytes[at + 1..].iter().position(|&b| ends(b)).unwrap_or(bytes.len() - at - 1) + 1;
                let word = &text[at..at + length];
                let Some((items, _)) = open.last_mut() else {
                    return Err(syntax(line, &excerpt(word), "`(`"));
                };
                items.push(Sexpr::Word(word, line));
                at += length;
            }
        }
    }
    match (whole, open.pop()) {
        (Some(list), _) => Ok(list),
        (None, Some((_, start))) => {
            Err(syntax(line, "the end", &format!("`)` for the list of line {start}")))
        }
        (None, None) => Err(syntax(line, "no text", "`(define …)`")),
    }
}
