//! EZPoints episodes of a player with habits, good and bad: what the visual example's base checkpoint is taught from.
//!
//! The player sees the cards but guesses numbers, has a favourite sign, and goes on writing when it should hand in. A
//! lesson of an earlier episode of the same deal takes the habits away, as far as the lesson goes. So a policy that
//! imitates these episodes plays badly on its own, at any temperature, and better with a true lesson in its prompt.

use super::lesson::Lesson;
use super::suite::{CardGames, CardView};
use crate::environment::{EnvError, Image, Suite, Task};
use crate::household::stream::Stream;
use crate::picture::FrameStore;
use crate::projection::CardGame;
use crate::trajectory::{Outcome, Trajectory, TrajectoryStep};
use std::sync::Arc;

/// How often a player does what it should not. Every field is a probability in `0..=1`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Habits {
    /// At each number: writes any from 1 to 10.
    pub guess: f64,
    /// At the sign: writes `+` without a look at the cards.
    pub plus: f64,
    /// With the formula complete: writes another `+` in place of `=`.
    pub babble: f64,
}

impl Habits {
    /// A player that makes no mistakes.
    pub const GOOD: Self = Self { guess: 0.0, plus: 0.0, babble: 0.0 };
    /// The player that the base checkpoint imitates: every habit is stronger than what it should do.
    pub const BASE: Self = Self { guess: 0.65, plus: 0.6, babble: 0.7 };
    /// The same player where a lesson says what to do.
    const ADVISED: Self = Self { guess: 0.05, plus: 0.05, babble: 0.05 };
}

/// An episode to imitate, with its frames.
#[derive(Debug, Clone, PartialEq)]
pub struct Demonstration {
    /// The episode; its steps name frames by index.
    pub trajectory: Trajectory,
    /// Distinct frames, the one after the last step included.
    pub frames: Vec<Arc<Image>>,
    /// The earlier episode of the same deal and what it taught, where the player was told.
    pub guidance: Option<(Trajectory, Lesson)>,
    /// What the cards count, from left to right.
    pub cards: Vec<u8>,
}

/// Makes demonstrations. Equal seeds and indices give equal episodes.
#[derive(Debug, Clone)]
pub struct Demonstrator {
    games: CardGames,
    habits: Habits,
    seed: u64,
}

impl Demonstrator {
    /// A source of demonstrations over the training deals of EZPoints, shown as in `games`.
    pub fn new(games: CardGames, habits: Habits, seed: u64) -> Self {
        Self { games, habits, seed }
    }

    /// Episode number `index`; a `guided` one has a lesson of an earlier episode of the same deal.
    ///
    /// # Errors
    /// When the suite refuses the deal.
    pub fn demonstrate(&self, index: u64, guided: bool) -> Result<Demonstration, EnvError> {
        let mut stream = Stream::new("ezpoints/demonstration", &[self.seed, index]);
        let tasks = self.games.tasks("train")?;
        let task = &tasks[stream.below(tasks.len())];
        if !guided {
            return self.play(task, None, &mut stream);
        }
        let earlier = self.play(task, None, &mut stream)?.trajectory;
        let lesson = Lesson::from_trajectory(&earlier).unwrap_or_default();
        let mut demonstration = self.play(task, Some(&lesson), &mut stream)?;
        demonstration.guidance = Some((earlier, lesson));
        Ok(demonstration)
    }

    fn play(
        &self,
        task: &Task,
        lesson: Option<&Lesson>,
        stream: &mut Stream,
    ) -> Result<Demonstration, EnvError> {
        let mut environment = self.games.environment();
        let mut observation = environment.reset(task, 0)?;
        let cards: Vec<u8> =
            super::card::deal_ezpoints(self.games.seed(task)?).iter().map(|card| card.number()).collect();
        let mut player = Player { cards: &cards, formula: Vec::new(), lesson, habits: self.habits, stream };
        let mut frames = FrameStore::default();
        let mut steps = Vec::new();
        loop {
            let action = player.decide();
            let image = observation.image.as_ref().map(|image| frames.insert(image));
            let step = environment.step(action)?;
            if step.info.action_valid == Some(true) {
                player.formula.push(action);
            }
            steps.push(TrajectoryStep {
                observation: observation.text,
                admissible: Vec::new(),
                response: format!("{{\"action\": \"{action}\"}}"),
                action: action.to_owned(),
                action_valid: Some(true),
                reward: step.reward,
                image,
            });
            let (over, outcome) = (step.is_last(), Outcome::of(&step));
            observation = step.observation;
            if over {
                observation.image.iter().for_each(|image| _ = frames.insert(image));
                let trajectory = Trajectory {
                    environment: self.games.name().to_owned(),
                    task: task.clone(),
                    task_description: self.games.task_description(task).unwrap_or_default(),
                    seed: 0,
                    steps,
                    final_observation: observation.text,
                    outcome,
                };
                return Ok(Demonstration { trajectory, frames: frames.into_frames(), guidance: None, cards });
            }
        }
    }
}

/// A player in the middle of a formula.
struct Player<'a> {
    cards: &'a [u8],
    formula: Vec<&'static str>,
    lesson: Option<&'a Lesson>,
    habits: Habits,
    stream: &'a mut Stream,
}

impl Player<'_> {
    fn decide(&mut self) -> &'static str {
        let both_known = self.lesson.is_some_and(|lesson| lesson.cards.len() == 2);
        let habits = if both_known { Habits::ADVISED } else { self.habits };
        let used: Vec<u8> = self.formula.iter().filter_map(|token| token.parse().ok()).collect();
        match (self.formula.len(), used.len()) {
            (0, _) | (2, 1) => self.number(&used, habits.guess),
            (1, _) if self.stream.chance(habits.plus) => "+",
            (1, _) => self.sign(),
            (3, 2) if self.stream.chance(habits.babble) => "+",
            (3, 2) => "=",
            // Nothing becomes of such a formula: it is handed in, sooner or later.
            _ if self.stream.chance(0.5) => "+",
            _ => "=",
        }
    }

    fn number(&mut self, used: &[u8], guess: f64) -> &'static str {
        let left = |cards: &[u8]| -> Vec<u8> {
            let mut left = cards.to_vec();
            for number in used {
                if let Some(place) = left.iter().position(|card| card == number) {
                    left.remove(place);
                }
            }
            left
        };
        let known = self.lesson.and_then(|lesson| left(&lesson.cards).first().copied());
        let absent = |number: &u8| self.lesson.is_some_and(|lesson| lesson.absent.contains(number));
        let guess = if known.is_some() { Habits::ADVISED.guess } else { guess };
        let number = if self.stream.chance(guess) {
            let open: Vec<u8> = (1..=10).filter(|number| !absent(number)).collect();
            self.stream.choose(&open).copied()
        } else {
            known.or_else(|| self.stream.choose(&left(self.cards)).copied())
        };
        CardGame::EzPoints.actions()[usize::from(number.unwrap_or(1)).clamp(1, 10) - 1]
    }

    fn sign(&self) -> &'static str {
        let sum: u8 = self.cards.iter().sum();
        if sum == 12 { "+" } else { "*" }
    }
}

/// The options of the games that are demonstrated: EZPoints in pictures.
pub fn in_pictures(max_steps: usize) -> super::CardOptions {
    super::CardOptions { view: CardView::Rgb, max_steps, ..super::CardOptions::new(CardGame::EzPoints) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn won(habits: Habits, guided: bool) -> f64 {
        let games = CardGames::open(in_pictures(8)).expect("games");
        let demonstrator = Demonstrator::new(games, habits, 5);
        let won = (0..300).filter(|&index| {
            demonstrator.demonstrate(index, guided).expect("an episode").trajectory.outcome.won
        });
        won.count() as f64 / 300.0
    }

    #[test]
    fn habits_lose_and_lessons_help() {
        assert_eq!(won(Habits::GOOD, false), 1.0);
        let (alone, told) = (won(Habits::BASE, false), won(Habits::BASE, true));
        assert!((0.05..0.3).contains(&alone), "{alone}");
        assert!(told > alone + 0.15, "{alone} {told}");
    }

    #[test]
    fn episodes_come_again_and_lessons_are_true() {
        let games = CardGames::open(in_pictures(8)).expect("games");
        let demonstrator = Demonstrator::new(games, Habits::BASE, 1);
        for index in 0..100 {
            let one = demonstrator.demonstrate(index, true).expect("an episode");
            assert_eq!(one, demonstrator.demonstrate(index, true).expect("an episode"));
            assert!(
                one.trajectory.steps.iter().all(|step| step.image.is_some_and(|at| at < one.frames.len()))
            );
            let (_, lesson) = one.guidance.expect("guided");
            let mut cards = one.cards.clone();
            for number in &lesson.cards {
                let place = cards.iter().position(|card| card == number).expect("on a card");
                cards.remove(place);
            }
            assert!(lesson.absent.iter().all(|number| !one.cards.contains(number)), "{lesson:?}");
        }
    }
}
