//! The English stemmer of the Snowball project (Porter's second algorithm as of Snowball 3), in our own words.
//!
//! Works on lower-case words. `Y` marks a consonant y while the rules run. `R1` is what follows the first consonant
//! behind a vowel, `R2` the same inside of `R1`; most endings may only go when they lie in one of them.

/// The stem of a lower-case word. Words of one or two characters, and words without an ending to remove, come back as
/// they are.
pub fn stem(word: &str) -> String {
    if let Some(stem) = exception(word) {
        return stem.to_owned();
    }
    let chars: Vec<char> = word.chars().collect();
    if chars.len() < 3 {
        return word.to_owned();
    }
    let mut stemmer = Stemmer::new(chars);
    stemmer.plural();
    stemmer.past();
    stemmer.final_y();
    stemmer.replace(Region::First, &STEP_2);
    stemmer.replace(Region::First, &STEP_3);
    stemmer.drop_suffix();
    stemmer.final_e();
    stemmer.word.into_iter().map(|c| if c == 'Y' { 'y' } else { c }).collect()
}

/// Words that the rules would spoil.
fn exception(word: &str) -> Option<&str> {
    Some(match word {
        "skis" => "ski",
        "skies" => "sky",
        "idly" => "idl",
        "gently" => "gentl",
        "ugly" => "ugli",
        "early" => "earli",
        "only" => "onli",
        "singly" => "singl",
        "sky" | "news" | "howe" | "atlas" | "cosmos" | "bias" | "andes" => word,
        _ => return None,
    })
}

/// Beginnings behind which `R1` starts at once, so that e.g. general and generate stay apart.
const PREFIXES: [&str; 9] =
    ["gener", "commun", "arsen", "past", "univers", "later", "emerg", "organ", "inter"];

#[derive(Clone, Copy)]
enum Region {
    First,
    Second,
}

/// What must stand before an ending.
#[derive(Clone, Copy)]
enum Before {
    Anything,
    OneOf(&'static str),
    Second,
}

type Rule = (&'static str, &'static str, Before);

const STEP_2: [Rule; 25] = [
    ("tional", "tion", Before::Anything),
    ("enci", "ence", Before::Anything),
    ("anci", "ance", Before::Anything),
    ("abli", "able", Before::Anything),
    ("entli", "ent", Before::Anything),
    ("izer", "ize", Before::Anything),
    ("ization", "ize", Before::Anything),
    ("ational", "ate", Before::Anything),
    ("ation", "ate", Before::Anything),
    ("ator", "ate", Before::Anything),
    ("alism", "al", Before::Anything),
    ("aliti", "al", Before::Anything),
    ("alli", "al", Before::Anything),
    ("fulness", "ful", Before::Anything),
    ("ousli", "ous", Before::Anything),
    ("ousness", "ous", Before::Anything),
    ("iveness", "ive", Before::Anything),
    ("iviti", "ive", Before::Anything),
    ("biliti", "ble", Before::Anything),
    ("bli", "ble", Before::Anything),
    ("ogist", "og", Before::Anything),
    ("ogi", "og", Before::OneOf("l")),
    ("fulli", "ful", Before::Anything),
    ("lessli", "less", Before::Anything),
    ("li", "", Before::OneOf("cdeghkmnrt")),
];

const STEP_3: [Rule; 9] = [
    ("tional", "tion", Before::Anything),
    ("ational", "ate", Before::Anything),
    ("alize", "al", Before::Anything),
    ("icate", "ic", Before::Anything),
    ("iciti", "ic", Before::Anything),
    ("ical", "ic", Before::Anything),
    ("ful", "", Before::Anything),
    ("ness", "", Before::Anything),
    ("ative", "", Before::Second),
];

const STEP_4: [&str; 18] = [
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ism", "ate", "iti",
    "ous", "ive", "ize", "ion",
];

fn is_vowel(c: char) -> bool {
    matches!(c, 'a' | 'e' | 'i' | 'o' | 'u' | 'y')
}

struct Stemmer {
    word: Vec<char>,
    /// Where `R1` and `R2` begin.
    regions: [usize; 2],
}

impl Stemmer {
    fn new(mut word: Vec<char>) -> Self {
        if word[0] == '\'' {
            word.remove(0);
        }
        for at in 0..word.len() {
            if word[at] == 'y' && (at == 0 || is_vowel(word[at - 1])) {
                word[at] = 'Y';
            }
        }
        let behind_syllable = |from: usize| {
            let vowel = (from..word.len()).find(|&at| is_vowel(word[at]))?;
            (vowel + 1..word.len()).find(|&at| !is_vowel(word[at])).map(|at| at + 1)
        };
        let prefix = PREFIXES.iter().map(|prefix| prefix.chars()).find_map(|prefix| {
            let length = prefix.clone().count();
            (word.len() >= length && prefix.eq(word[..length].iter().copied())).then_some(length)
        });
        let first = prefix.or_else(|| behind_syllable(0)).unwrap_or(word.len());
        let second = behind_syllable(first).unwrap_or(word.len());
        Self { word, regions: [first, second] }
    }

    /// Where `suffix` starts, when the word up to `end` ends with it.
    fn suffix(&self, end: usize, suffix: &str) -> Option<usize> {
        let start = end.checked_sub(suffix.chars().count())?;
        suffix.chars().eq(self.word[start..end].iter().copied()).then_some(start)
    }

    /// The longest of the endings that the word has, with its start.
    fn longest<'a>(&self, endings: impl IntoIterator<Item = &'a str>) -> Option<(&'a str, usize)> {
        let end = self.word.len();
        let found = endings.into_iter().filter_map(|ending| Some((ending, self.suffix(end, ending)?)));
        found.max_by_key(|(ending, _)| ending.len())
    }

    fn in_region(&self, region: Region, at: usize) -> bool {
        self.regions[region as usize] <= at
    }

    fn has_vowel(&self, end: usize) -> bool {
        self.word[..end].iter().any(|&c| is_vowel(c))
    }

    fn set_end(&mut self, from: usize, ending: &str) {
        self.word.truncate(from);
        self.word.extend(ending.chars());
    }

    /// Whether the word up to `end` closes with a short syllable.
    fn short_syllable(&self, end: usize) -> bool {
        let consonant = |at: usize| !is_vowel(self.word[at]);
        match end {
            0 | 1 => false,
            2 => consonant(1) && is_vowel(self.word[0]),
            _ => {
                let last = self.word[end - 1];
                let closed = consonant(end - 1) && !matches!(last, 'w' | 'x' | 'Y');
                closed && is_vowel(self.word[end - 2]) && consonant(end - 3)
                    || self.suffix(end, "past").is_some()
            }
        }
    }

    fn plural(&mut self) {
        if let Some((_, start)) = self.longest(["'", "'s", "'s'"]) {
            self.word.truncate(start);
        }
        match self.longest(["sses", "ied", "ies", "s", "us", "ss"]) {
            Some(("sses", start)) => self.set_end(start, "ss"),
            Some(("ied" | "ies", start)) => self.set_end(start, if start >= 2 { "i" } else { "ie" }),
            // A vowel must stand before, but not directly before.
            Some(("s", start)) if start >= 1 && self.has_vowel(start - 1) => self.word.truncate(start),
            _ => {}
        }
    }

    fn past(&mut self) {
        let Some((ending, start)) = self.longest(["eed", "eedly", "ed", "edly", "ing", "ingly"]) else {
            return;
        };
        let whole_stem = |stems: &[&str]| stems.iter().any(|stem| self.suffix(start, stem) == Some(0));
        match ending {
            "eed" | "eedly" => {
                if self.in_region(Region::First, start) && !whole_stem(&["proc", "exc", "succ"]) {
                    self.set_end(start, "ee");
                }
                return;
            }
            "ing" => {
                if start == 2 && self.word[1] == 'y' && !is_vowel(self.word[0]) {
                    return self.set_end(1, "ie");
                }
                if whole_stem(&["inn", "out", "cann", "herr", "earr", "even"]) {
                    return;
                }
            }
            _ => {}
        }
        if !self.has_vowel(start) {
            return;
        }
        self.word.truncate(start);
        let doubled = ["bb", "dd", "ff", "gg", "mm", "nn", "pp", "rr", "tt"];
        if self.longest(["at", "bl", "iz"]).is_some() {
            self.word.push('e');
        } else if let Some((_, at)) = self.longest(doubled) {
            // add, egg, off keep both letters.
            if !(at == 1 && matches!(self.word[0], 'a' | 'e' | 'o')) {
                self.word.pop();
            }
        } else if start == self.regions[0] && self.short_syllable(start) {
            self.word.push('e');
        }
    }

    fn final_y(&mut self) {
        let end = self.word.len();
        if end > 2 && matches!(self.word[end - 1], 'y' | 'Y') && !is_vowel(self.word[end - 2]) {
            self.word[end - 1] = 'i';
        }
    }

    fn replace(&mut self, region: Region, rules: &[Rule]) {
        let Some((ending, start)) = self.longest(rules.iter().map(|rule| rule.0)) else { return };
        let Some((_, replacement, before)) = rules.iter().find(|rule| rule.0 == ending) else { return };
        let allowed = match before {
            Before::Anything => true,
            Before::OneOf(letters) => start > 0 && letters.contains(self.word[start - 1]),
            Before::Second => self.in_region(Region::Second, start),
        };
        if allowed && self.in_region(region, start) {
            self.set_end(start, replacement);
        }
    }

    fn drop_suffix(&mut self) {
        let Some((ending, start)) = self.longest(STEP_4) else { return };
        let allowed = ending != "ion" || start > 0 && matches!(self.word[start - 1], 's' | 't');
        if allowed && self.in_region(Region::Second, start) {
            self.word.truncate(start);
        }
    }

    fn final_e(&mut self) {
        let Some(start) = self.word.len().checked_sub(1) else { return };
        let second = self.in_region(Region::Second, start);
        let drop = match self.word[start] {
            'e' => second || self.in_region(Region::First, start) && !self.short_syllable(start),
            'l' => second && start > 0 && self.word[start - 1] == 'l',
            _ => false,
        };
        if drop {
            self.word.truncate(start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::stem;

    #[test]
    fn endings_of_every_step() {
        for (word, expected) in [
            ("caresses", "caress"),
            ("ponies", "poni"),
            ("ties", "tie"),
            ("gas", "gas"),
            ("this", "this"),
            ("kiwis", "kiwi"),
            ("dying", "die"),
            ("hopping", "hop"),
            ("hoping", "hope"),
            ("egged", "egg"),
            ("succeed", "succeed"),
            ("agreed", "agre"),
            ("outing", "outing"),
            ("pasted", "paste"),
            ("sky", "sky"),
            ("cry", "cri"),
            ("by", "by"),
            ("say", "say"),
            ("generate", "generat"),
            ("general", "general"),
            ("conditional", "condit"),
            ("fulness", "ful"),
            ("adoption", "adopt"),
            ("controll", "control"),
            ("é", "é"),
            ("caféing", "café"),
            ("", ""),
            ("yy", "yy"),
        ] {
            assert_eq!(stem(word), expected, "{word}");
        }
    }
}
