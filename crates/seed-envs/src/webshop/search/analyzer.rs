//! From a text to index terms, as Lucene's `EnglishAnalyzer` makes them.

use super::porter::stem;
use super::tokenizer::Tokenizer;
use std::collections::HashMap;

/// Lucene's English stop words.
const STOP_WORDS: [&str; 33] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no",
    "not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to",
    "was", "will", "with",
];

/// Words that are remembered at most, so that hostile texts cannot fill the memory.
const REMEMBERED: usize = 1 << 20;

/// Tokens, without possessive `'s`, in lower case, without stop words, stemmed.
///
/// It remembers the term of each word that it has seen, since a collection repeats its words.
#[derive(Debug, Default)]
pub struct Analyzer {
    tokenizer: Tokenizer,
    /// Word to term; `None` for a stop word.
    known: HashMap<Box<str>, Option<Box<str>>>,
    units: Vec<u16>,
}

impl Analyzer {
    /// Calls `found` with each term of the text, in order.
    pub fn terms(&mut self, text: &str, mut found: impl FnMut(&str)) {
        let Self { tokenizer, known, units } = self;
        tokenizer.tokenize(text, |range| {
            let word = &text[range];
            if let Some(term) = known.get(word) {
                if let Some(term) = term {
                    found(term);
                }
                return;
            }
            let term = term(word, units);
            if let Some(term) = &term {
                found(term);
            }
            if known.len() < REMEMBERED {
                known.insert(word.into(), term);
            }
        });
    }

    /// The terms of a text as a list.
    pub fn analyze(&mut self, text: &str) -> Vec<String> {
        let mut terms = Vec::new();
        self.terms(text, |term| terms.push(term.to_owned()));
        terms
    }
}

/// The term of one token.
fn term(word: &str, units: &mut Vec<u16>) -> Option<Box<str>> {
    let mut stripped = word;
    if let Some(rest) = word.strip_suffix(['s', 'S'])
        && let Some(rest) = rest.strip_suffix(['\'', '\u{2019}', '\u{ff07}'])
    {
        stripped = rest;
    }
    // One code point for one: only İ has a longer lower case, whose first code point is the simple mapping.
    let lower: String = stripped.chars().map(|c| c.to_lowercase().next().unwrap_or(c)).collect();
    if STOP_WORDS.contains(&lower.as_str()) {
        return None;
    }
    units.clear();
    units.extend(lower.encode_utf16());
    stem(units);
    Some(String::from_utf16_lossy(units).into())
}
