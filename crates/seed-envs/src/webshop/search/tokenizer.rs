//! Words of a text as Lucene's `StandardTokenizer` (8.x) cuts them: UAX #29 of Unicode 9 with emoji of version 11.
//!
//! A token is the longest match at its place of: letters, digits and Katakana with the signs that join them; a run
//! of a South-East-Asian script; one Han or Hiragana character; an emoji (with modifiers, joiners, flags, keycaps).
//! Everything else separates.

use std::ops::Range;
use std::sync::LazyLock;

/// Longest token in UTF-16 units; a longer match is cut here and goes on as a new token.
const MAX_UNITS: usize = 255;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Class {
    Other,
    ALetter,
    HebrewLetter,
    Numeric,
    Katakana,
    ExtendNumLet,
    MidLetter,
    MidNum,
    MidNumLet,
    SingleQuote,
    DoubleQuote,
    Extend,
    Zwj,
    TextVs,
    EmojiVs,
    KeyCap,
    KeyCapBase,
    Sa,
    SaExtend,
    Han,
    Hiragana,
    Emoji,
    EmojiALetter,
    EmojiModifierBase,
    EmojiModifier,
    RegionalIndicator,
}

/// Names in `word_classes.txt`.
const NAMES: [(&str, Class); 25] = [
    ("ALetter", Class::ALetter),
    ("HebrewLetter", Class::HebrewLetter),
    ("Numeric", Class::Numeric),
    ("Katakana", Class::Katakana),
    ("ExtendNumLet", Class::ExtendNumLet),
    ("MidLetter", Class::MidLetter),
    ("MidNum", Class::MidNum),
    ("MidNumLet", Class::MidNumLet),
    ("SingleQuote", Class::SingleQuote),
    ("DoubleQuote", Class::DoubleQuote),
    ("Extend", Class::Extend),
    ("ZWJ", Class::Zwj),
    ("TextVS", Class::TextVs),
    ("EmojiVS", Class::EmojiVs),
    ("KeyCap", Class::KeyCap),
    ("KeyCapBase", Class::KeyCapBase),
    ("SA", Class::Sa),
    ("SAExtend", Class::SaExtend),
    ("Han", Class::Han),
    ("Hiragana", Class::Hiragana),
    ("Emoji", Class::Emoji),
    ("EmojiALetter", Class::EmojiALetter),
    ("EmojiModifierBase", Class::EmojiModifierBase),
    ("EmojiModifier", Class::EmojiModifier),
    ("RegionalIndicator", Class::RegionalIndicator),
];

/// Classes of all code points in pages of 256; equal pages are kept once.
struct Table {
    pages: Vec<u16>,
    classes: Vec<[Class; 256]>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut all = vec![Class::Other; 0x11_0000];
    for line in include_str!("word_classes.txt").lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        let class = NAMES.iter().find(|(known, _)| *known == name).expect("the file names known classes").1;
        for word in words {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            let point = |text| usize::from_str_radix(text, 16).expect("the file holds code points");
            all[point(first)..=point(last)].fill(class);
        }
    }
    let mut table = Table { pages: Vec::new(), classes: Vec::new() };
    for page in all.as_chunks::<256>().0 {
        let place = table.classes.iter().position(|known| known == page).unwrap_or_else(|| {
            table.classes.push(*page);
            table.classes.len() - 1
        });
        table.pages.push(place as u16);
    }
    table
});

impl Table {
    fn class(&self, c: char) -> Class {
        let point = c as usize;
        self.classes[usize::from(self.pages[point >> 8])][point & 0xff]
    }
}

/// What stands at a place of the word rule.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Joint {
    Start,
    Letter,
    Hebrew,
    Number,
    Katakana,
    Connector,
}

/// Cuts texts into tokens; keeps its buffers from text to text.
#[derive(Debug, Default)]
pub struct Tokenizer {
    /// The characters of the text with their byte offsets.
    chars: Vec<(usize, char, Class)>,
}

impl Tokenizer {
    /// Calls `found` with each token's bytes in `text`, in order.
    pub fn tokenize(&mut self, text: &str, mut found: impl FnMut(Range<usize>)) {
        let table = &*TABLE;
        self.chars.clear();
        self.chars.extend(text.char_indices().map(|(at, c)| (at, c, table.class(c))));
        let offset = |chars: &[(usize, char, Class)], at: usize| chars.get(at).map_or(text.len(), |c| c.0);
        let mut at = 0;
        while at < self.chars.len() {
            let mut end = longest(&self.chars, at);
            if end - at > MAX_UNITS / 2 {
                let limit = at + units(&self.chars[at..end]);
                if limit < end {
                    end = longest(&self.chars[..limit], at);
                }
            }
            if end == at {
                at += 1;
                continue;
            }
            if !hidden(&self.chars, at, end) {
                found(offset(&self.chars, at)..offset(&self.chars, end));
            }
            at = end;
        }
    }
}

/// How many characters fit into [`MAX_UNITS`].
fn units(chars: &[(usize, char, Class)]) -> usize {
    let mut left = MAX_UNITS;
    chars
        .iter()
        .position(|(_, c, _)| match left.checked_sub(c.len_utf16()) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        })
        .unwrap_or(chars.len())
}

/// An emoji that the text-presentation selector turns into plain text is no token.
fn hidden(chars: &[(usize, char, Class)], at: usize, end: usize) -> bool {
    let emoji = chars[at..end].iter().all(|(_, _, class)| is_emoji(*class) || is_extend(*class));
    emoji && chars.get(end).is_some_and(|(_, _, class)| *class == Class::TextVs)
}

fn is_emoji(class: Class) -> bool {
    matches!(
        class,
        Class::Emoji
            | Class::EmojiALetter
            | Class::EmojiModifierBase
            | Class::EmojiModifier
            | Class::RegionalIndicator
    )
}

/// What is carried along by the character before it (rule WB4).
fn is_extend(class: Class) -> bool {
    matches!(
        class,
        Class::Extend | Class::Zwj | Class::TextVs | Class::EmojiVs | Class::KeyCap | Class::SaExtend
    )
}

/// The same inside emoji, where the presentation selectors have a meaning of their own.
fn is_emoji_extend(class: Class) -> bool {
    is_extend(class) && !matches!(class, Class::TextVs | Class::EmojiVs)
}

/// The end of the longest token that starts at `at`; `at` itself when none does.
fn longest(chars: &[(usize, char, Class)], at: usize) -> usize {
    let class = |at: usize| chars.get(at).map(|c| c.2);
    let after = |at: usize, keep: fn(Class) -> bool| {
        chars[at..].iter().position(|c| !keep(c.2)).map_or(chars.len(), |count| at + count)
    };
    match chars[at].2 {
        Class::ALetter | Class::HebrewLetter | Class::Katakana | Class::ExtendNumLet => word(chars, at),
        Class::Numeric => word(chars, at).max(keycap(chars, at).unwrap_or(at)),
        Class::EmojiALetter => word(chars, at).max(emoji(chars, at).unwrap_or(at)),
        Class::Emoji | Class::EmojiModifierBase | Class::EmojiModifier | Class::Zwj => {
            emoji(chars, at).unwrap_or(at)
        }
        Class::KeyCapBase => keycap(chars, at).unwrap_or(at),
        Class::RegionalIndicator => {
            let second = after(at + 1, is_extend);
            if class(second) == Some(Class::RegionalIndicator) { after(second + 1, is_extend) } else { at }
        }
        Class::Sa | Class::SaExtend => {
            let mut end = at;
            while matches!(class(end), Some(Class::Sa | Class::SaExtend)) {
                end = after(end + 1, is_extend);
            }
            end
        }
        Class::Han | Class::Hiragana => after(at + 1, is_extend),
        _ => at,
    }
}

/// Letters, digits, Katakana and what joins them.
fn word(chars: &[(usize, char, Class)], at: usize) -> usize {
    let mut joint = Joint::Start;
    // The end of the longest token so far: a token needs more than connectors.
    let mut end = at;
    let mut solid = false;
    let mut next = at;
    let skip =
        |at: usize| chars[at..].iter().position(|c| !is_extend(c.2)).map_or(chars.len(), |count| at + count);
    while let Some(&(_, _, class)) = chars.get(next) {
        let behind = skip(next + 1);
        let following = chars.get(behind).map(|c| c.2);
        let letter =
            |class| matches!(class, Some(Class::ALetter | Class::EmojiALetter | Class::HebrewLetter));
        let reached = match class {
            Class::ALetter | Class::EmojiALetter if joint != Joint::Katakana => (Joint::Letter, behind),
            Class::HebrewLetter if joint != Joint::Katakana => (Joint::Hebrew, behind),
            Class::Numeric if joint != Joint::Katakana => (Joint::Number, behind),
            Class::Katakana if matches!(joint, Joint::Start | Joint::Katakana | Joint::Connector) => {
                (Joint::Katakana, behind)
            }
            Class::ExtendNumLet => (Joint::Connector, behind),
            // A sign joins only with what follows it, which the next round reads.
            Class::MidLetter | Class::MidNumLet | Class::SingleQuote
                if matches!(joint, Joint::Letter | Joint::Hebrew) && letter(following) =>
            {
                next = behind;
                continue;
            }
            Class::MidNum | Class::MidNumLet | Class::SingleQuote
                if joint == Joint::Number && following == Some(Class::Numeric) =>
            {
                next = behind;
                continue;
            }
            Class::SingleQuote if joint == Joint::Hebrew => (Joint::Letter, behind),
            Class::DoubleQuote if joint == Joint::Hebrew && following == Some(Class::HebrewLetter) => {
                next = behind;
                continue;
            }
            _ => break,
        };
        (joint, next) = reached;
        solid |= joint != Joint::Connector;
        if solid {
            end = next;
        }
    }
    end
}

/// A digit, `#` or `*` under a keycap.
fn keycap(chars: &[(usize, char, Class)], at: usize) -> Option<usize> {
    if !chars[at].1.is_ascii() {
        return None;
    }
    let run = |at: usize| chars[at..].iter().take_while(|c| is_emoji_extend(c.2)).count();
    let inner = run(at + 1);
    let mut end = at + 1 + inner;
    if chars.get(end).is_some_and(|c| c.2 == Class::EmojiVs)
        && chars.get(end + 1).is_some_and(|c| c.2 == Class::KeyCap)
    {
        end += 2;
        return Some(end + run(end));
    }
    chars[at + 1..end].iter().any(|c| c.2 == Class::KeyCap).then_some(end)
}

/// An emoji, or several joined by zero-width joiners.
fn emoji(chars: &[(usize, char, Class)], at: usize) -> Option<usize> {
    let mut end = one_emoji(chars, at)?;
    loop {
        // The joiner may already be inside what the emoji carries along.
        let joined = match chars.get(end - 1) {
            Some((_, _, Class::Zwj)) => one_emoji(chars, end),
            _ if chars.get(end).is_some_and(|c| c.2 == Class::Zwj) => one_emoji(chars, end + 1),
            _ => None,
        };
        match joined {
            Some(further) => end = further,
            None => break,
        }
    }
    // A flag of a region: tag characters and their end mark behind a presentation selector.
    let tags = chars[end..].iter().take_while(|c| ('\u{e0020}'..='\u{e007e}').contains(&c.1)).count();
    if tags > 0 && chars.get(end + tags).is_some_and(|c| c.1 == '\u{e007f}') {
        end += tags + 1;
    }
    Some(end)
}

fn one_emoji(chars: &[(usize, char, Class)], at: usize) -> Option<usize> {
    let run = |at: usize| at + chars[at..].iter().take_while(|c| is_emoji_extend(c.2)).count();
    let base = at + chars.get(at..)?.iter().take_while(|c| c.2 == Class::Zwj).count();
    match chars.get(base)?.2 {
        Class::EmojiModifier => (base == at).then(|| run(base + 1)),
        class @ (Class::Emoji | Class::EmojiALetter | Class::EmojiModifierBase) => {
            let end = run(base + 1);
            match chars.get(end).map(|c| c.2) {
                Some(Class::EmojiModifier) if class == Class::EmojiModifierBase => Some(run(end + 1)),
                Some(Class::EmojiVs) => Some(end + 1),
                _ => Some(end),
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::Tokenizer;
    use expect_test::{Expect, expect};

    #[track_caller]
    fn check(text: &str, expected: &Expect) {
        let mut tokens = Vec::new();
        Tokenizer::default().tokenize(text, |range| tokens.push(text[range].escape_unicode().to_string()));
        let plain: Vec<String> = tokens
            .iter()
            .map(|token| {
                let text: String = token
                    .split("\\u{")
                    .filter_map(|point| {
                        char::from_u32(u32::from_str_radix(point.trim_end_matches('}'), 16).ok()?)
                    })
                    .collect();
                if text.is_ascii() { text } else { token.clone() }
            })
            .collect();
        expected.assert_eq(&plain.join(" / "));
    }

    #[test]
    fn words_and_joints() {
        check(
            "description:solid wood, 12.5x3.2 u.s.a. a_b __ 1,250 don't",
            &expect!["description:solid / wood / 12.5x3.2 / u.s.a / a_b / 1,250 / don't"],
        );
        check("a. b: 1. x:2 3:4 _a_", &expect!["a / b / 1 / x / 2 / 3 / 4 / _a_"]);
        check("\u{5d0}' \u{5d0}\"\u{5d1} a\"b", &expect![[r"\u{5d0}\u{27} / \u{5d0}\u{22}\u{5d1} / a / b"]]);
    }

    #[test]
    fn emoji_flags_and_keycaps() {
        check(
            "\u{1f1fa}\u{1f1f8}\u{1f1fa} 1\u{20e3} #\u{fe0f}\u{20e3} #1",
            &expect![[r"\u{1f1fa}\u{1f1f8} / \u{31}\u{20e3} / \u{23}\u{fe0f}\u{20e3} / 1"]],
        );
        check(
            "\u{2122}\u{2605}\u{2764}\u{fe0f}x \u{2764}\u{fe0e}",
            &expect![[r"\u{2122} / \u{2605} / \u{2764}\u{fe0f} / x"]],
        );
        check(
            "\u{1f469}\u{200d}\u{1f467}\u{1f44d}\u{1f3fd}",
            &expect![[r"\u{1f469}\u{200d}\u{1f467} / \u{1f44d}\u{1f3fd}"]],
        );
    }

    #[test]
    fn long_tokens_are_cut() {
        let text = "x".repeat(600);
        let mut lengths = Vec::new();
        Tokenizer::default().tokenize(&text, |range| lengths.push(range.len()));
        assert_eq!(lengths, [255, 255, 90]);
    }
}
