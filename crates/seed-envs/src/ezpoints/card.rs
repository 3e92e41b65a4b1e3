//! Cards, and how the games deal them.

use crate::pyrandom::{NumpyGenerator, PythonRandom};
use std::fmt;

/// A suit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Suit {
    /// ♥
    Hearts,
    /// ♠
    Spades,
    /// ♦
    Diamonds,
    /// ♣
    Clubs,
}

impl Suit {
    /// The suits in the order in which the reference lists them.
    pub const ALL: [Suit; 4] = [Suit::Hearts, Suit::Spades, Suit::Diamonds, Suit::Clubs];

    /// The reference's letter.
    pub fn letter(self) -> char {
        match self {
            Suit::Hearts => 'H',
            Suit::Spades => 'S',
            Suit::Diamonds => 'D',
            Suit::Clubs => 'C',
        }
    }

    /// The word.
    pub fn name(self) -> &'static str {
        match self {
            Suit::Hearts => "hearts",
            Suit::Spades => "spades",
            Suit::Diamonds => "diamonds",
            Suit::Clubs => "clubs",
        }
    }
}

/// A card; its [`Display`](fmt::Display) form is the reference's, e.g. `HT` for the ten of hearts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Card {
    /// The suit.
    pub suit: Suit,
    /// 1 is the ace, 11 to 13 are jack, queen and king.
    pub rank: u8,
}

impl Card {
    /// What it counts: courts count 10, the ace 1.
    pub fn number(self) -> u8 {
        self.rank.min(10)
    }

    /// The rank as one letter: `A`, `2` … `9`, `T`, `J`, `Q`, `K`.
    pub fn letter(self) -> char {
        match self.rank {
            1 => 'A',
            10 => 'T',
            11 => 'J',
            12 => 'Q',
            13 => 'K',
            digit => char::from(b'0' + digit.min(9)),
        }
    }

    /// In words, e.g. `ten of hearts` is `10 of hearts`.
    pub fn words(self) -> String {
        let rank = match self.rank {
            1 => "ace".to_owned(),
            11 => "jack".to_owned(),
            12 => "queen".to_owned(),
            13 => "king".to_owned(),
            number => number.to_string(),
        };
        format!("{rank} of {}", self.suit.name())
    }
}

impl fmt::Display for Card {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.suit.letter(), self.letter())
    }
}

fn suit(random: &mut PythonRandom) -> Suit {
    Suit::ALL[random.below(4) as usize]
}

/// The two cards of EZPoints: their numbers add up to 12 or multiply to it.
pub fn deal_ezpoints(seed: u32) -> [Card; 2] {
    let mut random = PythonRandom::from_int(i128::from(seed));
    let rank = 2 + random.below(12) as u8;
    let first = Card { suit: suit(&mut random), rank };
    let number = first.number();
    // Only where the other number would be whole is the coin thrown.
    let other =
        if matches!(number, 1 | 2 | 3 | 4 | 6) && random.random() <= 0.5 { 12 / number } else { 12 - number };
    let second = Card { suit: suit(&mut random), rank: other };
    if random.random() <= 0.5 { [second, first] } else { [first, second] }
}

/// The four cards of Points24, of any rank; not every deal has a solution.
pub fn deal_points24(seed: u32) -> [Card; 4] {
    let mut random = PythonRandom::from_int(i128::from(seed));
    let ranks = [(); 4].map(|()| 1 + random.below(13) as u8);
    ranks.map(|rank| Card { suit: suit(&mut random), rank })
}

/// A card of Blackjack's endless deck, by the generator that `gymnasium` gives its environments.
pub(super) fn draw(random: &mut NumpyGenerator) -> Card {
    // Value, suit, and for a ten which court it is; there is no plain ten.
    let value = (random.below(13) + 1).min(10) as u8;
    let suit = [Suit::Clubs, Suit::Diamonds, Suit::Hearts, Suit::Spades][random.below(4) as usize];
    let rank = if value == 10 { 11 + random.below(3) as u8 } else { value };
    Card { suit, rank }
}
