//! Porter's stemmer (M. F. Porter, "An algorithm for suffix stripping", 1980) with its author's two later changes:
//! `bli` becomes `ble`, `logi` becomes `log`.
//!
//! It works on UTF-16 units, as Lucene's does: words of one or two units stay as they are, and everything but
//! a, e, i, o, u (and y behind a consonant) counts as a consonant.

/// Stems a lower-case word in place.
pub fn stem(word: &mut Vec<u16>) {
    if word.len() <= 2 {
        return;
    }
    let mut stemmer = Stemmer { word, stem: 0 };
    stemmer.plurals();
    stemmer.past_and_progressive();
    stemmer.final_y();
    stemmer.replace(&DOUBLE_SUFFIXES, 0);
    stemmer.replace(&SINGLE_SUFFIXES, 0);
    stemmer.remove_suffix();
    stemmer.final_e();
}

/// Step 2: suffix and what takes its place when the measure of the stem is above 0.
const DOUBLE_SUFFIXES: [(&str, &str); 21] = [
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("logi", "log"),
];

/// Step 3.
const SINGLE_SUFFIXES: [(&str, &str); 7] = [
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
];

/// Step 4: suffixes that go when the measure of the stem is above 1.
const LAST_SUFFIXES: [&str; 19] = [
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism",
    "ate", "iti", "ous", "ive", "ize",
];

struct Stemmer<'w> {
    word: &'w mut Vec<u16>,
    /// Length of the stem before the suffix that was found last.
    stem: usize,
}

impl Stemmer<'_> {
    fn consonant(&self, at: usize) -> bool {
        match char::from_u32(u32::from(self.word[at])) {
            Some('a' | 'e' | 'i' | 'o' | 'u') => false,
            Some('y') => at == 0 || !self.consonant(at - 1),
            _ => true,
        }
    }

    /// How many vowel-consonant sequences the stem has.
    fn measure(&self) -> usize {
        (1..self.stem).filter(|&at| self.consonant(at) && !self.consonant(at - 1)).count()
    }

    fn stem_has_vowel(&self) -> bool {
        (0..self.stem).any(|at| !self.consonant(at))
    }

    fn ends_with_double_consonant(&self) -> bool {
        let length = self.word.len();
        length >= 2 && self.word[length - 1] == self.word[length - 2] && self.consonant(length - 1)
    }

    /// The `length` units end in consonant, vowel, consonant, the last of which is none of w, x, y.
    fn short_ending(&self, length: usize) -> bool {
        length >= 3
            && self.consonant(length - 1)
            && !self.consonant(length - 2)
            && self.consonant(length - 3)
            && !matches!(char::from_u32(u32::from(self.word[length - 1])), Some('w' | 'x' | 'y'))
    }

    fn ends(&mut self, suffix: &str) -> bool {
        let Some(stem) = self.word.len().checked_sub(suffix.len()) else { return false };
        let found = self.word[stem..].iter().copied().eq(suffix.bytes().map(u16::from));
        if found {
            self.stem = stem;
        }
        found
    }

    fn set_suffix(&mut self, suffix: &str) {
        self.word.truncate(self.stem);
        self.word.extend(suffix.bytes().map(u16::from));
    }

    /// Step 1a.
    fn plurals(&mut self) {
        if self.ends("sses") || self.ends("ies") {
            let length = self.word.len();
            self.word.truncate(length - 2);
        } else if !self.ends("ss") && self.ends("s") {
            self.word.pop();
        }
    }

    /// Step 1b.
    fn past_and_progressive(&mut self) {
        if self.ends("eed") {
            if self.measure() > 0 {
                self.word.pop();
            }
        } else if (self.ends("ed") || self.ends("ing")) && self.stem_has_vowel() {
            self.word.truncate(self.stem);
            if let Some(suffix) = ["at", "bl", "iz"].into_iter().find(|suffix| self.ends(suffix)) {
                self.set_suffix(suffix);
                self.word.push(u16::from(b'e'));
            } else if self.ends_with_double_consonant() {
                let last = self.word.last().and_then(|&unit| char::from_u32(u32::from(unit)));
                if !matches!(last, Some('l' | 's' | 'z')) {
                    self.word.pop();
                }
            } else {
                self.stem = self.word.len();
                if self.measure() == 1 && self.short_ending(self.stem) {
                    self.word.push(u16::from(b'e'));
                }
            }
        }
    }

    /// Step 1c.
    fn final_y(&mut self) {
        if self.ends("y") && self.stem_has_vowel() {
            self.set_suffix("i");
        }
    }

    /// Steps 2 and 3: the first suffix that fits is the only one looked at.
    fn replace(&mut self, suffixes: &[(&str, &str)], measure: usize) {
        if let Some((_, other)) = suffixes.iter().find(|(suffix, _)| self.ends(suffix))
            && self.measure() > measure
        {
            self.set_suffix(other);
        }
    }

    /// Step 4.
    fn remove_suffix(&mut self) {
        let fits = |stemmer: &mut Self, suffix: &str| {
            stemmer.ends(suffix)
                && (suffix != "ion"
                    || stemmer.stem > 0
                        && matches!(
                            char::from_u32(u32::from(stemmer.word[stemmer.stem - 1])),
                            Some('s' | 't')
                        ))
        };
        if LAST_SUFFIXES.iter().any(|suffix| fits(self, suffix)) && self.measure() > 1 {
            self.word.truncate(self.stem);
        }
    }

    /// Step 5.
    fn final_e(&mut self) {
        if self.ends("e") {
            let measure = self.measure();
            if measure > 1 || measure == 1 && !self.short_ending(self.stem) {
                self.word.truncate(self.stem);
            }
        }
        if self.ends("ll") {
            // The measure of the whole word, with its last l.
            self.stem = self.word.len();
            if self.measure() > 1 {
                self.word.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::stem;

    // Examples of Porter's paper, and of his two later changes.
    #[test]
    fn the_papers_examples() {
        let pairs = "caresses caress, ponies poni, caress caress, cats cat, feed feed, agreed agre, plastered plaster, \
            bled bled, motoring motor, sing sing, conflated conflat, troubled troubl, sized size, hopping hop, tanned tan, \
            falling fall, hissing hiss, fizzed fizz, failing fail, filing file, happy happi, sky sky, relational relat, \
            conditional condit, rational ration, digitizer digit, vietnamization vietnam, predication predic, \
            operator oper, feudalism feudal, decisiveness decis, hopefulness hope, callousness callous, formaliti formal, \
            sensitiviti sensit, sensibiliti sensibl, triplicate triplic, formative form, formalize formal, \
            electriciti electr, electrical electr, hopeful hope, goodness good, revival reviv, allowance allow, \
            inference infer, airliner airlin, adjustable adjust, replacement replac, adoption adopt, communism commun, \
            activate activ, effective effect, bowdlerize bowdler, probate probat, rate rate, cease ceas, controll control, \
            roll roll, possibly possibl, archaeology archaeolog, is is, natural natur, stays stai";
        for pair in pairs.split(", ") {
            let (word, expected) = pair.trim().split_once(' ').expect("two words");
            let mut units: Vec<u16> = word.encode_utf16().collect();
            stem(&mut units);
            assert_eq!(String::from_utf16_lossy(&units), expected, "{word}");
        }
    }
}
