//! How an answer is scored: exact match, substring match, token F1 and the rules that take the answer from a text.
//!
//! The normal form and the rules are those of the two public trainers (specification, A7). They were written in Python,
//! so white space, letters and lower-casing are Python's: U+001C–U+001F are white space, combining marks end a word,
//! and lower-casing uses the full Unicode mapping.

use crate::projection::trim;
use regex::Regex;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

/// Python's `\w`: letters, numbers, underscore; no combining marks.
static WORDS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[\p{L}\p{N}_]+").expect("the pattern is a literal of this file"));

/// The runs of Python's word characters in a text.
pub(crate) fn words(text: &str) -> impl Iterator<Item = std::ops::Range<usize>> {
    WORDS.find_iter(text).map(|found| found.range())
}

fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// The form in which answers are compared: lower case, no ASCII punctuation, no articles, single blanks.
///
/// Punctuation goes first, so `a-b` becomes `ab` and is no article.
pub fn normalize(text: &str) -> String {
    let plain: String = text.to_lowercase().chars().filter(|c| !c.is_ascii_punctuation()).collect();
    let mut kept = String::with_capacity(plain.len());
    let mut end = 0;
    for word in words(&plain) {
        if matches!(&plain[word.clone()], "a" | "an" | "the") {
            kept.push_str(&plain[end..word.start]);
            kept.push(' ');
            end = word.end;
        }
    }
    kept.push_str(&plain[end..]);
    let mut normal = String::with_capacity(kept.len());
    for part in kept.split(is_space).filter(|part| !part.is_empty()) {
        if !normal.is_empty() {
            normal.push(' ');
        }
        normal.push_str(part);
    }
    normal
}

/// Whether the prediction equals one of the golden answers in normal form.
pub fn exact_match<S: AsRef<str>>(prediction: &str, golden: &[S]) -> bool {
    let prediction = normalize(prediction);
    golden.iter().any(|answer| normalize(answer.as_ref()) == prediction)
}

/// Whether the normal form of one of the golden answers stands somewhere in the prediction's.
pub fn substring_match<S: AsRef<str>>(prediction: &str, golden: &[S]) -> bool {
    let prediction = normalize(prediction);
    golden.iter().any(|answer| prediction.contains(&normalize(answer.as_ref())))
}

/// The token F1 of SQuAD 1.1 over normal forms, best over the golden answers; 0 where nothing is shared.
pub fn token_f1<S: AsRef<str>>(prediction: &str, golden: &[S]) -> f64 {
    let prediction = normalize(prediction);
    let count = |text: &str| {
        let mut counts: HashMap<String, usize> = HashMap::new();
        text.split(' ').filter(|token| !token.is_empty()).for_each(|token| {
            *counts.entry(token.to_owned()).or_default() += 1;
        });
        counts
    };
    let ours = count(&prediction);
    let of = |answer: &S| {
        let theirs = count(&normalize(answer.as_ref()));
        let shared: usize =
            theirs.iter().map(|(token, &n)| n.min(ours.get(token).copied().unwrap_or(0))).sum();
        if shared == 0 {
            return 0.0;
        }
        let total = |counts: &HashMap<String, usize>| counts.values().sum::<usize>() as f64;
        let (precision, recall) = (shared as f64 / total(&ours), shared as f64 / total(&theirs));
        2.0 * precision * recall / (precision + recall)
    };
    golden.iter().map(of).fold(0.0, f64::max)
}

/// What an answer is compared by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// [`exact_match`].
    #[default]
    Exact,
    /// [`substring_match`].
    Substring,
    /// [`token_f1`].
    F1,
}

impl Metric {
    /// The value in 0..=1.
    pub fn of<S: AsRef<str>>(self, prediction: &str, golden: &[S]) -> f64 {
        match self {
            Metric::Exact => f64::from(u8::from(exact_match(prediction, golden))),
            Metric::Substring => f64::from(u8::from(substring_match(prediction, golden))),
            Metric::F1 => token_f1(prediction, golden),
        }
    }
}

/// The insides of the complete `<tag>…</tag>` blocks (exact lower case), trimmed, in order.
pub(crate) fn blocks<'a>(text: &'a str, tag: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(&open) {
        let inside = &rest[start + open.len()..];
        let Some(end) = inside.find(&close) else { break };
        found.push(trim(&inside[..end]));
        rest = &inside[end + close.len()..];
    }
    found
}

/// The last answer of a text, where it has at least `min_pairs` complete answer blocks.
///
/// The agent environment wants one; Search-R1 wants two over prompt and response, since its prompt holds an example.
pub fn last_answer(text: &str, min_pairs: usize) -> Option<&str> {
    let answers = blocks(text, "answer");
    if answers.len() < min_pairs.max(1) { None } else { answers.last().copied() }
}

/// Scores the answer of a whole text.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AnswerRule {
    /// What the answer is compared by.
    pub metric: Metric,
    /// Complete answer blocks that the text must have.
    pub min_pairs: usize,
    /// What an answer is worth that scores 0.
    pub format_score: f64,
}

impl AnswerRule {
    /// One block is enough and a wrong answer is worth nothing: the rule of the agent environment.
    pub const AGENT: Self = Self { metric: Metric::Exact, min_pairs: 1, format_score: 0.0 };
    /// Two blocks over prompt and response: the rule of Search-R1.
    pub const SEARCH_R1: Self = Self { metric: Metric::Exact, min_pairs: 2, format_score: 0.0 };

    /// The score of a text; 0 without an answer.
    pub fn score<S: AsRef<str>>(&self, text: &str, golden: &[S]) -> f64 {
        last_answer(text, self.min_pairs).map_or(0.0, |answer| self.score_of(answer, golden))
    }

    /// The score of an answer that was already taken from its text.
    pub fn score_of<S: AsRef<str>>(&self, answer: &str, golden: &[S]) -> f64 {
        let value = self.metric.of(answer, golden);
        if value > 0.0 { value } else { self.format_score }
    }
}

/// The structured-format score of Search-R1: what form and retrieval are worth beside the right answer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FormatScore {
    /// A wrong answer in the right form; taken off a right answer in the wrong form.
    pub structure: f64,
    /// A wrong answer in the wrong form.
    pub final_format: f64,
    /// Added to `structure` where a golden answer stands in a retrieved passage.
    pub retrieval: f64,
}

impl Default for FormatScore {
    fn default() -> Self {
        Self { structure: 0.2, final_format: 0.1, retrieval: 0.0 }
    }
}

impl FormatScore {
    /// The score of prompt and response together, as chat text.
    pub fn score<S: AsRef<str>>(&self, text: &str, golden: &[S]) -> f64 {
        self.judge(last_answer(text, 2), check_sequence(text).is_ok(), text, golden)
    }

    /// The score of a response alone (a transcript of everything after the prompt); `prompt_pairs` counts the complete
    /// answer blocks of the prompt.
    pub fn score_response<S: AsRef<str>>(&self, response: &str, prompt_pairs: usize, golden: &[S]) -> f64 {
        let answer = last_answer(response, 2usize.saturating_sub(prompt_pairs));
        self.judge(answer, check_response(response).is_ok(), response, golden)
    }

    fn judge<S: AsRef<str>>(&self, answer: Option<&str>, formed: bool, text: &str, golden: &[S]) -> f64 {
        let well_formed = || {
            if retrieval_hit(text, golden) { self.structure + self.retrieval } else { self.structure }
        };
        match answer {
            // A prompt without the example: the form alone counts, even where the answer is right.
            None if formed => well_formed(),
            None => 0.0,
            Some(answer) if exact_match(answer, golden) => {
                if formed {
                    1.0
                } else {
                    1.0 - self.structure
                }
            }
            Some(_) if formed => well_formed(),
            Some(_) => self.final_format,
        }
    }
}

/// Whether a golden answer stands, in normal form, in one of the text's information blocks.
pub fn retrieval_hit<S: AsRef<str>>(text: &str, golden: &[S]) -> bool {
    blocks(text, "information").into_iter().any(|passages| substring_match(passages, golden))
}

/// A place in the form *think, (search, information, think)\*, answer*.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// Nothing yet.
    Start,
    /// Inside a think block.
    InThink,
    /// Behind a think block.
    AfterThink,
    /// Inside a search block.
    InSearch,
    /// Behind a search block.
    AfterSearch,
    /// Inside an information block.
    InInformation,
    /// Behind an information block.
    AfterInformation,
    /// Inside the answer.
    InAnswer,
    /// Behind the answer.
    End,
}

/// Why a text does not have the structured form. The order is the order in which it is looked at.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatFault {
    /// The chat has no assistant turn.
    #[error("no `<|im_start|>assistant` in the text")]
    NoAssistant,
    /// As many opening as closing tags are needed.
    #[error("{open} opening and {close} closing `{tag}` tags")]
    Unbalanced {
        /// The tag's name.
        tag: &'static str,
        /// Opening tags.
        open: usize,
        /// Closing tags.
        close: usize,
    },
    /// A tag stands where it must not.
    #[error("`{tag}` {place}")]
    Tag {
        /// The tag as written.
        tag: String,
        /// Where.
        place: Place,
    },
    /// Words stand outside of the blocks.
    #[error("`{text}` {place}, outside of any block")]
    Text {
        /// The words, trimmed.
        text: String,
        /// Where.
        place: Place,
    },
    /// The text ends before the answer does.
    #[error("the text ends {place}")]
    Unfinished {
        /// Where.
        place: Place,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Place::Start => "at the start",
            Place::InThink => "inside a think block",
            Place::AfterThink => "behind a think block",
            Place::InSearch => "inside a search block",
            Place::AfterSearch => "behind a search block",
            Place::InInformation => "inside an information block",
            Place::AfterInformation => "behind an information block",
            Place::InAnswer => "inside the answer",
            Place::End => "behind the answer",
        })
    }
}

const TAGS: [&str; 4] = ["think", "search", "information", "answer"];

/// Checks the form of a chat text: what follows the first assistant marker must be well formed.
///
/// # Errors
/// The first [`FormatFault`].
pub fn check_sequence(text: &str) -> Result<(), FormatFault> {
    const MARK: &str = "<|im_start|>assistant";
    let at = text.find(MARK).ok_or(FormatFault::NoAssistant)?;
    check_response(&text[at + MARK.len()..])
}

/// Checks the form of a response: think, (search, information, think)\*, answer, and nothing but white space between.
///
/// # Errors
/// The first [`FormatFault`].
pub fn check_response(content: &str) -> Result<(), FormatFault> {
    for tag in TAGS {
        let open = content.matches(&format!("<{tag}>")).count();
        let close = content.matches(&format!("</{tag}>")).count();
        if open != close {
            return Err(FormatFault::Unbalanced { tag, open, close });
        }
    }
    let mut place = Place::Start;
    for piece in pieces(content) {
        place = match (piece, place) {
            ("<think>", Place::Start | Place::AfterInformation) => Place::InThink,
            ("</think>", Place::InThink) => Place::AfterThink,
            ("<search>", Place::AfterThink) => Place::InSearch,
            ("</search>", Place::InSearch) => Place::AfterSearch,
            ("<information>", Place::AfterSearch) => Place::InInformation,
            ("</information>", Place::InInformation) => Place::AfterInformation,
            ("<answer>", Place::AfterThink) => Place::InAnswer,
            ("</answer>", Place::InAnswer) => Place::End,
            (tag, place) if is_tag(tag) => return Err(FormatFault::Tag { tag: tag.to_owned(), place }),
            (text, place) if trim(text).is_empty() => place,
            (_, Place::InThink | Place::InSearch | Place::InInformation | Place::InAnswer) => place,
            (text, place) => return Err(FormatFault::Text { text: trim(text).to_owned(), place }),
        };
    }
    if place == Place::End { Ok(()) } else { Err(FormatFault::Unfinished { place }) }
}

fn is_tag(piece: &str) -> bool {
    let inside = piece.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
    inside.is_some_and(|inside| TAGS.contains(&inside.strip_prefix('/').unwrap_or(inside)))
}

/// The tags of a text and what stands between them.
fn pieces(content: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut start, mut at) = (0, 0);
    while let Some(open) = content[at..].find('<').map(|found| at + found) {
        let tag = content[open..].find('>').map(|close| open..open + close + 1);
        match tag.filter(|tag| is_tag(&content[tag.clone()])) {
            Some(tag) => {
                pieces.push(&content[start..open]);
                pieces.push(&content[tag.clone()]);
                (start, at) = (tag.end, tag.end);
            }
            None => at = open + 1,
        }
    }
    pieces.push(&content[start..]);
    pieces
}
