//! The task as a goal: which object, how many, what is done to it, where it goes.

use super::rules::Treatment;

/// What remains of a task's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Goal {
    /// The whole task without its final full stop, in lower case.
    pub(super) text: String,
    /// The kind of object, e.g. `mug`.
    pub(super) object: String,
    /// How many of them.
    pub(super) count: usize,
    /// What is to be done to it first.
    pub(super) treatment: Option<Treatment>,
    /// The kind of receptacle, or of lamp when `look` is set.
    pub(super) target: String,
    /// The object is to be held under a light instead of being put somewhere.
    pub(super) look: bool,
}

/// Words of a task that name neither object nor place.
const OTHER_WORDS: [&str; 34] = [
    "put", "place", "move", "find", "take", "look", "at", "examine", "under", "with", "a", "an", "the",
    "some", "two", "another", "both", "it", "them", "and", "in", "on", "in/on", "into", "to", "clean", "hot",
    "cold", "cool", "heat", "of", "light", "then", "inside",
];

impl Goal {
    /// Reads the six families of tasks in the wordings of ALFWorld and of the household world.
    pub(super) fn parse(task: &str) -> Option<Self> {
        let text = task.trim().trim_end_matches('.').to_lowercase();
        let words: Vec<&str> =
            text.split_whitespace().map(|word| word.trim_matches([',', '.', ':'])).collect();
        let nouns: Vec<&str> = words.iter().copied().filter(|word| !OTHER_WORDS.contains(word)).collect();
        let (object, target) = (*nouns.first()?, *nouns.last()?);
        if nouns.len() < 2 {
            return None;
        }
        let has = |word: &str| words.contains(&word);
        let look = has("under") || (has("examine") && has("with"));
        if !look && !has("put") && !has("place") && !has("move") {
            return None;
        }
        let treatment = words.iter().find_map(|word| Treatment::by_word(word)).filter(|_| !look);
        let count = if has("two") || has("another") || has("both") { 2 } else { 1 };
        Some(Self { object: object.to_owned(), target: target.to_owned(), text, count, treatment, look })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(task: &str, object: &str, count: usize, treatment: Option<Treatment>, target: &str, look: bool) {
        let goal = Goal::parse(task).expect("a goal");
        assert_eq!((goal.object.as_str(), goal.target.as_str()), (object, target), "{task}");
        assert_eq!((goal.count, goal.treatment, goal.look), (count, treatment, look), "{task}");
    }

    #[test]
    fn both_worlds_are_understood() {
        check(
            "put a clean mug in the coffeemachine.",
            "mug",
            1,
            Some(Treatment::Clean),
            "coffeemachine",
            false,
        );
        check("put some spraybottle on toilet.", "spraybottle", 1, None, "toilet", false);
        check("find two pillow and put them in sofa.", "pillow", 2, None, "sofa", false);
        check("heat some apple and put it in fridge.", "apple", 1, Some(Treatment::Heat), "fridge", false);
        check("put a cool tomato in microwave.", "tomato", 1, Some(Treatment::Cool), "microwave", false);
        check("look at book under the desklamp.", "book", 1, None, "desklamp", true);
        check("examine the pillow with the desklamp", "pillow", 1, None, "desklamp", true);
        check("put an apple and another apple in a bin", "apple", 2, None, "bin", false);
        check("find a fork and another fork and put both in a drawer", "fork", 2, None, "drawer", false);
        check("find a key and look at it under a lantern", "key", 1, None, "lantern", true);
        check("put a cold egg on a table", "egg", 1, Some(Treatment::Cool), "table", false);
        check("clean a cloth and put it in a basket", "cloth", 1, Some(Treatment::Clean), "basket", false);
        assert_eq!(Goal::parse("win the game"), None);
        assert_eq!(Goal::parse(""), None);
    }
}
