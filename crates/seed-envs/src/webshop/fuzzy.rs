//! How alike two short texts are: `token_set_ratio` of thefuzz 0.19 over Python's `difflib`.

use super::python_text::is_space;
use regex::Regex;
use std::borrow::Cow;
use std::sync::LazyLock;

/// Characters that are no part of a word for Python's `\w`.
static NO_WORD: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[^\p{L}\p{N}_]").expect("the pattern is a literal of this file"));

/// From this length on, characters that are frequent in the second text do not start a match (`autojunk`).
const LONG: usize = 200;

/// Two texts alike by more than this count as the same.
pub const ALIKE: u32 = 85;

/// The best of three ratios between the common tokens, and the common tokens with the rest of each text; 0 to 100.
pub fn token_set_ratio(one: &str, two: &str) -> u32 {
    let (Some(one), Some(two)) = (Tokens::of(one), Tokens::of(two)) else { return 0 };
    let parts = one.parts(&two);
    let pairs = [(&parts[0], &parts[1]), (&parts[0], &parts[2]), (&parts[1], &parts[2])];
    pairs.into_iter().map(|(one, two)| ratio(one, two)).max().unwrap_or(0)
}

/// Whether [`token_set_ratio`] is above [`ALIKE`], mostly without computing it.
pub fn alike(one: &str, two: &str) -> bool {
    let (Some(one), Some(two)) = (Tokens::of(one), Tokens::of(two)) else { return false };
    let parts = one.parts(&two);
    let pairs = [(&parts[0], &parts[1]), (&parts[0], &parts[2]), (&parts[1], &parts[2])];
    pairs.into_iter().any(|(one, two)| bound(one, two) > ALIKE && ratio(one, two) > ALIKE)
}

/// The different tokens of a text in order.
struct Tokens {
    sorted: Vec<String>,
}

impl Tokens {
    /// `None` where no word character is left.
    fn of(text: &str) -> Option<Self> {
        // Only the characters U+0080–U+00FF go; everything beyond them stays.
        let kept: Cow<'_, str> = if text.is_ascii() {
            Cow::Borrowed(text)
        } else {
            text.chars().filter(|c| !('\u{80}'..='\u{ff}').contains(c)).collect::<String>().into()
        };
        let words: Cow<'_, str> = if kept.is_ascii() {
            let word = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { ' ' };
            kept.chars().map(word).collect::<String>().into()
        } else {
            NO_WORD.replace_all(&kept, " ")
        };
        let lower = words.to_lowercase();
        let mut sorted: Vec<String> =
            lower.split(is_space).filter(|token| !token.is_empty()).map(str::to_owned).collect();
        sorted.sort_unstable();
        sorted.dedup();
        (!sorted.is_empty()).then_some(Self { sorted })
    }

    /// The common tokens, and those with the rest of each text behind them.
    fn parts(&self, other: &Self) -> [Vec<char>; 3] {
        let (common, rest): (Vec<&String>, Vec<&String>) =
            self.sorted.iter().partition(|token| other.sorted.binary_search(token).is_ok());
        let other_rest = other.sorted.iter().filter(|token| self.sorted.binary_search(token).is_err());
        let join = |tokens: &mut dyn Iterator<Item = &String>| {
            let mut text = Vec::new();
            for token in tokens {
                if !text.is_empty() {
                    text.push(' ');
                }
                text.extend(token.chars());
            }
            text
        };
        [
            join(&mut common.iter().copied()),
            join(&mut common.iter().copied().chain(rest)),
            join(&mut common.iter().copied().chain(other_rest)),
        ]
    }
}

/// `round(100 * 2 * matched / total)`, halves to even.
fn percent(matched: usize, total: usize) -> u32 {
    (100.0 * (2.0 * matched as f64 / total as f64)).round_ties_even() as u32
}

fn ratio(one: &[char], two: &[char]) -> u32 {
    if one == two {
        return 100;
    }
    if one.is_empty() || two.is_empty() {
        return 0;
    }
    percent(matched(one, two), one.len() + two.len())
}

/// No ratio is above what the texts' common characters allow.
fn bound(one: &[char], two: &[char]) -> u32 {
    if one.is_empty() || two.is_empty() {
        return if one == two { 100 } else { 0 };
    }
    let total = one.len() + two.len();
    let shorter = percent(one.len().min(two.len()), total);
    if shorter <= ALIKE {
        return shorter;
    }
    let mut counts = [0i32; 128];
    let place = |c: &char| *c as usize & 127;
    for c in one {
        counts[place(c)] += 1;
    }
    let common = two.iter().filter(|c| {
        let count = &mut counts[place(c)];
        *count -= 1;
        *count >= 0
    });
    percent(common.count(), total)
}

/// How many characters `difflib.SequenceMatcher` matches: the longest common block, then the same on both sides of it.
fn matched(one: &[char], two: &[char]) -> usize {
    let frequent: Vec<bool> = if two.len() >= LONG {
        let limit = two.len() / 100 + 1;
        let mut counts = std::collections::HashMap::new();
        for c in two {
            *counts.entry(c).or_insert(0usize) += 1;
        }
        two.iter().map(|c| counts.get(c).is_some_and(|count| *count > limit)).collect()
    } else {
        vec![false; two.len()]
    };
    let mut total = 0;
    let mut open = vec![(0, one.len(), 0, two.len())];
    let mut lengths = [Vec::new(), Vec::new()];
    while let Some((low, high, other_low, other_high)) = open.pop() {
        let block = longest_block(one, two, &frequent, (low, high, other_low, other_high), &mut lengths);
        let (start, other_start, length) = block;
        if length == 0 {
            continue;
        }
        total += length;
        if low < start && other_low < other_start {
            open.push((low, start, other_low, other_start));
        }
        let (end, other_end) = (start + length, other_start + length);
        if end < high && other_end < other_high {
            open.push((end, high, other_end, other_high));
        }
    }
    total
}

/// The longest common block, the earliest in the first text, then in the second; then grown over frequent characters.
fn longest_block(
    one: &[char],
    two: &[char],
    frequent: &[bool],
    (low, high, other_low, other_high): (usize, usize, usize, usize),
    [before, now]: &mut [Vec<usize>; 2],
) -> (usize, usize, usize) {
    let width = other_high - other_low;
    before.clear();
    before.resize(width + 1, 0);
    now.clear();
    now.resize(width + 1, 0);
    let (mut start, mut other_start, mut best) = (low, other_low, 0);
    for (at, c) in one.iter().enumerate().take(high).skip(low) {
        now[0] = 0;
        for place in 0..width {
            let other = other_low + place;
            now[place + 1] = if *c == two[other] && !frequent[other] { before[place] + 1 } else { 0 };
            if now[place + 1] > best {
                best = now[place + 1];
                (start, other_start) = (at + 1 - best, other + 1 - best);
            }
        }
        std::mem::swap(before, now);
    }
    while start > low && other_start > other_low && one[start - 1] == two[other_start - 1] {
        (start, other_start, best) = (start - 1, other_start - 1, best + 1);
    }
    while start + best < high
        && other_start + best < other_high
        && one[start + best] == two[other_start + best]
    {
        best += 1;
    }
    (start, other_start, best)
}
