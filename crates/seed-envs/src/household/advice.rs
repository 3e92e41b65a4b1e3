//! What a skill text tells a player of this world, whoever wrote it.
//!
//! The reader knows words, not one author's sentences: which places a sentence names, whether it forbids, which of the
//! usual mistakes it speaks about. What it cannot make out it leaves alone.

use super::knowledge;
use super::lesson::TaskWords;

/// The parts of a skill text that a player can follow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Advice {
    /// Where to look for the wanted object, in this order: names (`drawer 2`) or kinds (`drawer`).
    pub places: Vec<String>,
    /// Where to look for the lamp.
    pub lamp_places: Vec<String>,
    /// Where not to look: names alone, since a kind may have others.
    pub avoid: Vec<String>,
    /// It speaks of opening things.
    pub opens: bool,
    /// It speaks of the task's treatment, or of the second object, or of the lamp's use.
    pub completes: bool,
    /// It forbids looking around for nothing.
    pub hurries: bool,
    /// It forbids coming back to where one has been.
    pub advances: bool,
}

impl Advice {
    /// Reads a skill text for a task.
    pub fn read(skill: &str, task: &TaskWords) -> Self {
        let mut advice = Self::default();
        for sentence in skill.split(['.', ';', '\n']) {
            let words: Vec<String> = sentence
                .split(|letter: char| !letter.is_alphanumeric())
                .filter(|word| !word.is_empty())
                .map(str::to_lowercase)
                .collect();
            advice.read_sentence(&words, task);
        }
        advice
    }

    fn read_sentence(&mut self, words: &[String], task: &TaskWords) {
        let says = |options: &[&str]| words.iter().any(|word| options.contains(&word.as_str()));
        let forbids = says(&["not", "never", "no", "avoid", "without"]);
        self.opens |= says(&["open"]);
        self.completes |= match task.treatment {
            Some(treatment) => says(&[treatment.verb()]),
            None if task.two => says(&["another", "second", "both", "other"]),
            None => task.under_lamp() && says(&["use"]),
        };
        self.hurries |= forbids && says(&["look", "inventory", "check"]);
        self.advances |= forbids && says(&["back", "again", "repeat", "same"]);
        let named = named_receptacles(words, task);
        if forbids {
            let only_names = named.into_iter().filter(|name| name.contains(' '));
            self.avoid.extend(only_names);
        } else if task.under_lamp() && says(&[task.target]) && says(&["use", "find", "look"]) {
            self.lamp_places.extend(named);
        } else if says(&["take", "find", "search", "look", "often", "usually"]) {
            self.places.extend(named);
        }
    }
}

/// The receptacles that a sentence names, apart from where the object is to go.
fn named_receptacles(words: &[String], task: &TaskWords) -> Vec<String> {
    let is_number = |word: &&String| word.bytes().all(|byte| byte.is_ascii_digit());
    let mut named = Vec::new();
    for (index, word) in words.iter().enumerate() {
        if knowledge::receptacle(word).is_some() && word != task.target {
            named.push(match words.get(index + 1).filter(is_number) {
                Some(number) => format!("{word} {number}"),
                None => word.clone(),
            });
        }
    }
    named
}
