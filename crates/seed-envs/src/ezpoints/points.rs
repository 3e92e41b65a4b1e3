//! EZPoints and Points24: a formula from the cards, one token at a time.

use super::Turn;
use super::card::{Card, deal_ezpoints, deal_points24};
use super::formula::evaluate;
use crate::projection::CardGame;

/// What tells the two games apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointsRules {
    /// The game, which names the actions.
    pub game: CardGame,
    /// What the formula must be worth.
    pub target: i32,
    /// Cards, all of which must be used.
    pub cards: usize,
    /// A formula with more tokens than this takes no action any more, not even `=`.
    pub max_tokens: usize,
}

impl PointsRules {
    /// 12 from two cards with `+` and `*`.
    pub const EZPOINTS: Self = Self { game: CardGame::EzPoints, target: 12, cards: 2, max_tokens: 5 };
    /// 24 from four cards with `+ - * / ( )`.
    pub const POINTS24: Self = Self { game: CardGame::Points24, target: 24, cards: 4, max_tokens: 20 };
}

/// The reward of a right formula.
const REWARD: f64 = 10.0;

/// A game in play. It goes on after the end, as the reference does; [`super::suite`] stops it there.
#[derive(Debug, Clone, PartialEq)]
pub struct Points {
    rules: PointsRules,
    cards: Vec<Card>,
    formula: Vec<&'static str>,
    used: Vec<u8>,
}

impl Points {
    /// A game with these cards.
    pub fn new(rules: PointsRules, cards: Vec<Card>) -> Self {
        Self { rules, cards, formula: Vec::new(), used: Vec::new() }
    }

    /// EZPoints with the deal of a seed.
    pub fn ezpoints(seed: u32) -> Self {
        Self::new(PointsRules::EZPOINTS, deal_ezpoints(seed).to_vec())
    }

    /// Points24 with the deal of a seed.
    pub fn points24(seed: u32) -> Self {
        Self::new(PointsRules::POINTS24, deal_points24(seed).to_vec())
    }

    /// The rules.
    pub fn rules(&self) -> &PointsRules {
        &self.rules
    }

    /// The cards from left to right.
    pub fn cards(&self) -> &[Card] {
        &self.cards
    }

    /// The tokens so far.
    pub fn formula(&self) -> &[&'static str] {
        &self.formula
    }

    /// The numbers that were used, in order.
    pub fn used(&self) -> &[u8] {
        &self.used
    }

    /// Adds a token by its index in [`CardGame::actions`]; `None` and indices beyond do nothing.
    ///
    /// In this order: a formula that is too long ends the game's own count; a number that the cards do not hold (any
    /// more) is passed over; `=` judges; anything else is written down.
    pub fn step(&mut self, action: Option<usize>) -> Turn {
        let Some(&token) = action.and_then(|index| self.rules.game.actions().get(index)) else {
            return Turn::default();
        };
        if self.formula.len() > self.rules.max_tokens {
            return Turn { truncated: true, ..Turn::default() };
        }
        if let Ok(number) = token.parse::<u8>() {
            let count = |numbers: &mut dyn Iterator<Item = u8>| numbers.filter(|&n| n == number).count();
            let held = count(&mut self.cards.iter().map(|card| card.number()));
            if count(&mut self.used.iter().copied()) >= held {
                return Turn::default();
            }
            self.used.push(number);
        }
        if token == "=" {
            let right = self.used.len() == self.rules.cards
                && evaluate(&self.formula.concat()).is_some_and(|value| value.is(self.rules.target));
            let reward = if right { REWARD } else { 0.0 };
            return Turn { reward, terminated: true, truncated: false, accepted: true };
        }
        self.formula.push(token);
        Turn { accepted: true, ..Turn::default() }
    }

    /// The index of a next token that leads to the shortest right formula from here; `None` where there is none.
    pub fn expert(&self) -> Option<usize> {
        if self.formula.len() > self.rules.max_tokens {
            return None;
        }
        let next = match self.rules.game {
            CardGame::EzPoints => self.complete(),
            _ => self.planned(),
        }?;
        self.rules.game.actions().iter().position(|&token| token == next)
    }

    /// All ways to go on from the formula so far, the shortest first.
    fn complete(&self) -> Option<&'static str> {
        let mut open = std::collections::VecDeque::from([(self.clone(), None)]);
        while let Some((state, first)) = open.pop_front() {
            for index in 0..state.rules.game.actions().len() {
                let token = state.rules.game.actions()[index];
                let mut next = state.clone();
                let turn = next.step(Some(index));
                if turn.won() {
                    return first.or(Some(token));
                }
                if turn.accepted && !turn.terminated && next.formula.len() <= self.rules.max_tokens {
                    open.push_back((next, first.or(Some(token))));
                }
            }
        }
        None
    }

    /// The next token of the first bracketed formula over all cards that the tokens so far begin.
    fn planned(&self) -> Option<&'static str> {
        let terms: Vec<Vec<&'static str>> = self
            .cards
            .iter()
            .map(|card| vec![self.rules.game.actions()[usize::from(card.number()) - 1]])
            .collect();
        let mut found = None;
        combine(&terms, &mut |formula| {
            let fits = formula.len() <= self.rules.max_tokens && formula.starts_with(&self.formula);
            if fits && evaluate(&formula.concat()).is_some_and(|value| value.is(self.rules.target)) {
                found = Some(formula.get(self.formula.len()).copied().unwrap_or("="));
            }
            found.is_some()
        });
        found
    }
}

/// Joins terms two by two in every order until one is left, which `visit` sees; it says whether to stop.
fn combine(terms: &[Vec<&'static str>], visit: &mut impl FnMut(&[&'static str]) -> bool) -> bool {
    if let [only] = terms {
        return visit(only);
    }
    let last = terms.len() == 2;
    for left in 0..terms.len() {
        for right in (0..terms.len()).filter(|&right| right != left) {
            let rest = (0..terms.len()).filter(|&term| term != left && term != right);
            let rest: Vec<Vec<&'static str>> = rest.map(|term| terms[term].clone()).collect();
            for operator in ["+", "-", "*", "/"] {
                if matches!(operator, "+" | "*") && left > right {
                    continue;
                }
                let mut joined = vec![];
                joined.extend((!last).then_some("("));
                joined.extend_from_slice(&terms[left]);
                joined.push(operator);
                joined.extend_from_slice(&terms[right]);
                joined.extend((!last).then_some(")"));
                let mut next = rest.clone();
                next.push(joined);
                if combine(&next, visit) {
                    return true;
                }
            }
        }
    }
    false
}
