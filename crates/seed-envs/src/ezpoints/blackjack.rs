//! Blackjack: come nearer to 21 than the dealer, but not beyond.

use super::Turn;
use super::card::{Card, draw};
use crate::pyrandom::NumpyGenerator;

/// A game in play. It goes on after the end, as the reference does; [`super::suite`] stops it there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blackjack {
    random: NumpyGenerator,
    dealer: Vec<Card>,
    player: Vec<Card>,
}

/// The best total of a hand: one ace counts 11 where that does not go beyond 21.
pub fn total(hand: &[Card]) -> u32 {
    let sum: u32 = hand.iter().map(|card| u32::from(card.number())).sum();
    let ace = hand.iter().any(|card| card.rank == 1);
    if ace && sum + 10 <= 21 { sum + 10 } else { sum }
}

impl Blackjack {
    /// The game of a seed: two cards for the dealer, two for the player, from an endless deck.
    pub fn new(seed: u32) -> Self {
        let mut random = NumpyGenerator::new(u64::from(seed));
        let mut hand = || vec![draw(&mut random), draw(&mut random)];
        let (dealer, player) = (hand(), hand());
        // The reference also draws how it would show the dealer's card elsewhere: a suit, and which court a ten is.
        random.below(4);
        if dealer.first().is_some_and(|card| card.number() == 10) {
            random.below(3);
        }
        Self { random, dealer, player }
    }

    /// The dealer's cards; only the first is shown before the end.
    pub fn dealer(&self) -> &[Card] {
        &self.dealer
    }

    /// The player's cards.
    pub fn player(&self) -> &[Card] {
        &self.player
    }

    /// `Some(1)` takes a card, `Some(0)` lets the dealer play up to 17; anything else does nothing.
    ///
    /// A win is worth 1, a loss and a draw 0.
    pub fn step(&mut self, action: Option<usize>) -> Turn {
        match action {
            Some(1) => {
                self.player.push(draw(&mut self.random));
                Turn { terminated: total(&self.player) > 21, accepted: true, ..Turn::default() }
            }
            Some(0) => {
                while total(&self.dealer) < 17 {
                    self.dealer.push(draw(&mut self.random));
                }
                let score = |hand: &[Card]| Some(total(hand)).filter(|&total| total <= 21).unwrap_or(0);
                let won = score(&self.player) > score(&self.dealer);
                Turn { reward: f64::from(u8::from(won)), terminated: true, accepted: true, ..Turn::default() }
            }
            _ => Turn::default(),
        }
    }

    /// Takes a card below 17, as the dealer must.
    pub fn expert(&self) -> Option<usize> {
        Some(usize::from(total(&self.player) < 17))
    }
}
