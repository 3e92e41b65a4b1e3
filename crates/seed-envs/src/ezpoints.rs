//! EZPoints and its siblings: small card games from seeds, in text and as pictures.
//!
//! | module | what it holds |
//! |---|---|
//! | [`card`] | cards, and the deals of the games by seed |
//! | [`formula`] | what a formula is worth, as Python says |
//! | [`points`] | EZPoints (12 from two cards) and Points24 (24 from four) |
//! | [`number_line`] | NumberLine: walk to a number |
//! | [`blackjack`] | Blackjack |
//! | [`deck`] | pictures of cards: our own, or those of the public package given by path |
//! | [`lettering`] | text on pictures: our own letters, or recorded ones |
//! | [`frame`] | what each game's picture shows where |
//! | [`suite`] | all of it as a [`crate::Suite`] |
//! | [`lesson`] | what a finished episode teaches, in words |
//! | [`demonstration`] | episodes of a player with bad habits, to teach a small policy from |
//! | [`vocabulary`] | the tokenizer of that policy |
//!
//! The reference is `gym_cards` of RL4VLM in the variant of verl-agent: no negative rewards for wrong formulas, resets by
//! seed, action −1 for "nothing".

pub mod blackjack;
pub mod card;
pub mod deck;
pub mod demonstration;
pub mod formula;
pub mod frame;
pub mod lesson;
pub mod lettering;
pub mod number_line;
pub mod points;
pub mod suite;
pub mod vocabulary;

pub use blackjack::Blackjack;
pub use card::{Card, Suit};
pub use formula::{Value, evaluate};
pub use number_line::NumberLine;
pub use points::{Points, PointsRules};
pub use suite::{CardGames, CardOptions, CardView};

/// What an action gave.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Turn {
    /// The reward.
    pub reward: f64,
    /// The game is over by its own rules.
    pub terminated: bool,
    /// The game's own limit was reached. The reference drops this flag, and the episode idles on.
    pub truncated: bool,
    /// The action was taken: a number that the cards allow, a formula that was judged, a card that was drawn.
    pub accepted: bool,
}

impl Turn {
    /// The reference calls a step won when its reward is positive.
    pub fn won(&self) -> bool {
        self.reward > 0.0
    }
}
