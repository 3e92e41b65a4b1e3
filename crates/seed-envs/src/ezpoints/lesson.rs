//! What a finished EZPoints episode teaches, and the words for it.
//!
//! The lesson is read from what was said and whether the formula grew, so that it needs no picture: a number that was
//! taken is on a card, one that was passed over is not (or not any more). Two numbers decide the formula by the rules of
//! the game.

use super::points::PointsRules;
use crate::projection::CardGame;
use crate::trajectory::Trajectory;

/// What is known after an episode.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lesson {
    /// Numbers on the cards, at most two, in the order in which they were taken.
    pub cards: Vec<u8>,
    /// Numbers that are on no card, in ascending order.
    pub absent: Vec<u8>,
}

/// How many absent numbers a lesson names.
const NAMED: usize = 3;

impl Lesson {
    /// The lesson of an episode of `ezpoints` or `ezpoints_text`; `None` for another environment.
    pub fn from_trajectory(trajectory: &Trajectory) -> Option<Self> {
        if !matches!(trajectory.environment.as_str(), "ezpoints" | "ezpoints_text") {
            return None;
        }
        let mut lesson = Self::default();
        let mut tokens = 0;
        for (place, step) in trajectory.steps.iter().enumerate() {
            let action = step.action.trim();
            // A formula that is too long takes no number any more, whatever the cards show.
            if tokens > PointsRules::EZPOINTS.max_tokens || !CardGame::EzPoints.actions().contains(&action) {
                continue;
            }
            let after = trajectory.steps.get(place + 1).map(|next| &next.observation);
            let taken = after.unwrap_or(&trajectory.final_observation) != &step.observation;
            tokens += usize::from(taken);
            let Ok(number) = action.parse::<u8>() else { continue };
            if taken {
                lesson.cards.push(number);
            } else if !lesson.cards.contains(&number) && !lesson.absent.contains(&number) {
                lesson.absent.push(number);
            }
        }
        lesson.cards.truncate(2);
        lesson.absent.sort_unstable();
        Some(lesson)
    }

    /// The sign that makes 12 of both cards; `None` while one is not known.
    pub fn sign(&self) -> Option<&'static str> {
        match self.cards[..] {
            [first, second] if first + second == 12 => Some("+"),
            [first, second] if u32::from(first) * u32::from(second) == 12 => Some("*"),
            _ => None,
        }
    }

    /// The lesson in words: the formula where both cards are known, else what is known of them, else how to begin.
    pub fn text(&self) -> String {
        if let (Some(sign), [first, second]) = (self.sign(), &self.cards[..]) {
            return format!("Write {first} {sign} {second} and then =.");
        }
        let mut sentences = Vec::new();
        if let Some(first) = self.cards.first() {
            sentences.push(format!("One card is {first}."));
        }
        if !self.absent.is_empty() {
            let named: Vec<String> = self.absent.iter().take(NAMED).map(u8::to_string).collect();
            sentences.push(format!("No card is {}.", named.join(" or ")));
        }
        if sentences.is_empty() {
            sentences.push("Start with a number of a card.".to_owned());
        }
        sentences.join(" ")
    }

    /// Reads the words of [`Lesson::text`] again; whatever else a text says is passed over.
    pub fn read(text: &str) -> Self {
        let mut lesson = Self::default();
        let numbers = |part: &str| -> Vec<u8> {
            part.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
        };
        for sentence in text.split('.') {
            let sentence = sentence.trim();
            if sentence.starts_with("Write") || sentence.starts_with("One card is") {
                lesson.cards.extend(numbers(sentence));
            } else if sentence.starts_with("No card is") {
                lesson.absent.extend(numbers(sentence));
            }
        }
        lesson.cards.retain(|number| (1..=10).contains(number));
        lesson.cards.truncate(2);
        lesson
    }
}

#[cfg(test)]
mod tests {
    use super::Lesson;

    #[test]
    fn words_are_read_again() {
        for (cards, absent, text) in [
            (vec![3, 4], vec![], "Write 3 * 4 and then =."),
            (vec![10, 2], vec![5], "Write 10 + 2 and then =."),
            (vec![9], vec![1, 4, 5, 8], "One card is 9. No card is 1 or 4 or 5."),
            (vec![], vec![7], "No card is 7."),
            (vec![], vec![], "Start with a number of a card."),
        ] {
            let lesson = Lesson { cards, absent };
            assert_eq!(lesson.text(), text);
            let again = Lesson::read(text);
            assert_eq!(again.cards, lesson.cards);
            assert_eq!(again.text(), text);
        }
        assert_eq!(
            Lesson::read("Write 99 + 3, then rest. One card is good."),
            Lesson { cards: vec![3], absent: vec![] }
        );
    }
}
