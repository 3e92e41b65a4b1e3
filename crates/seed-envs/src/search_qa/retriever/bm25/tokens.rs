//! From text to words.

use super::stemmer::stem;
use crate::search_qa::scoring::words;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// How text becomes words: lower case (full Unicode mapping), runs of Python's word characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Shorter runs are left out.
    pub min_chars: usize,
    /// Leaves out the 33 English words of [`STOP_WORDS`].
    pub stop_words: bool,
    /// Replaces words by their English stems.
    pub stem: bool,
}

/// The classic English stop words of Lucene.
pub const STOP_WORDS: [&str; 33] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no",
    "not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to",
    "was", "will", "with",
];

impl Tokens {
    /// Every word as it is.
    pub const PLAIN: Self = Self { min_chars: 1, stop_words: false, stem: false };
    /// Words of two characters and more, no stop words, stems.
    pub const STEMMED: Self = Self { min_chars: 2, stop_words: true, stem: true };

    /// Calls `each` with every kept word, not yet stemmed, in order.
    pub(crate) fn raw(&self, text: &str, mut each: impl FnMut(&str)) {
        let mut keep = |word: &str| {
            let long = word.len() >= self.min_chars
                && (self.min_chars < 2 || word.chars().take(self.min_chars).count() == self.min_chars);
            // Sorted, and checked by a test.
            if long && !(self.stop_words && STOP_WORDS.binary_search(&word).is_ok()) {
                each(word);
            }
        };
        if text.is_ascii() {
            let lower = text.to_ascii_lowercase();
            let apart = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
            lower.split(apart).filter(|word| !word.is_empty()).for_each(&mut keep);
        } else {
            let lower = text.to_lowercase();
            words(&lower).for_each(|word| keep(&lower[word]));
        }
    }

    /// What a raw word is indexed as.
    pub(crate) fn term<'a>(&self, raw: &'a str) -> Cow<'a, str> {
        if self.stem { Cow::Owned(stem(raw)) } else { Cow::Borrowed(raw) }
    }

    /// The words of a text, repeats included.
    pub fn of(&self, text: &str) -> Vec<String> {
        let mut terms = Vec::new();
        self.raw(text, |raw| terms.push(self.term(raw).into_owned()));
        terms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_words_are_sorted() {
        assert!(STOP_WORDS.is_sorted());
    }

    #[test]
    fn words_as_python_sees_them() {
        assert_eq!(
            Tokens::PLAIN.of("The U.S._x It's 3.5 naïve İ the\u{301}"),
            ["the", "u", "s", "_x", "it", "s", "3", "5", "naïve", "i", "the"]
        );
        assert_eq!(Tokens::STEMMED.of("The 5 running é of ponies"), ["run", "poni"]);
    }
}
