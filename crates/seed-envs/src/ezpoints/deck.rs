//! Pictures of cards.

use super::card::{Card, Suit};
use crate::environment::{EnvError, Image};
use crate::picture::canvas::{Canvas, Colour};
use crate::picture::file::read_png;
use crate::picture::font;
use std::path::Path;

/// All 52 cards and a back, of one size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deck {
    /// By suit in the order of [`Suit::ALL`], then by rank from the ace.
    cards: Vec<Image>,
    back: Image,
}

const PAPER: Colour = [253, 253, 250];
const RIM: Colour = [120, 120, 120];
const RED: Colour = [200, 30, 40];
const BLACK: Colour = [24, 24, 28];
const BLUE: Colour = [52, 84, 156];
const RANKS: u8 = 13;

impl Deck {
    /// The project's own drawings at any size.
    pub fn own(width: usize, height: usize) -> Self {
        let ranks = |suit: Suit| (1..=RANKS).map(move |rank| Card { suit, rank });
        let cards = Suit::ALL.into_iter().flat_map(ranks).map(|card| face(card, width, height)).collect();
        Self { cards, back: back(width, height) }
    }

    /// The cards of a sheet: rows H, S, D, C; columns 2 … 9, T, J, Q, K, A, each `width × height` pixels.
    ///
    /// # Errors
    /// [`EnvError`] when the file cannot be read or is not of 13 × 4 cards of this size.
    pub fn read(path: &Path, width: usize, height: usize) -> Result<Self, EnvError> {
        let sheet = read_png(path)?;
        let whole = (sheet.width, sheet.height) == (13 * width, 4 * height);
        let mut cards = Vec::with_capacity(52);
        for row in 0..Suit::ALL.len() {
            for rank in 1..=usize::from(RANKS) {
                // The ace stands last.
                let column = (rank + 11) % 13;
                let card = sheet.part(column * width, row * height, width, height).filter(|_| whole);
                cards.push(card.ok_or_else(|| EnvError::Data {
                    path: path.to_owned(),
                    place: String::new(),
                    found: format!("{} x {} pixels", sheet.width, sheet.height),
                    expected: format!("13 x 4 cards of {width} x {height} pixels"),
                })?);
            }
        }
        Ok(Self { cards, back: back(width, height) })
    }

    /// The picture of a card.
    pub fn card(&self, card: Card) -> &Image {
        let rank = usize::from(card.rank.clamp(1, RANKS)) - 1;
        &self.cards[card.suit as usize * usize::from(RANKS) + rank]
    }

    /// The picture of a card that lies on its face.
    pub fn back(&self) -> &Image {
        &self.back
    }
}

/// Paper with round corners on the table's green, and a rim.
fn blank(width: usize, height: usize) -> Canvas {
    let mut canvas = Canvas::new(width, height, super::frame::TABLE);
    let radius = width as f64 / 14.0;
    for (colour, margin) in [(RIM, 0.0), (PAPER, 1.0)] {
        let (right, bottom) = (width as f64 - margin, height as f64 - margin);
        canvas.shape((0, 0), (width, height), colour, |x, y| {
            let dx = (margin + radius - x).max(x - right + radius).max(0.0);
            let dy = (margin + radius - y).max(y - bottom + radius).max(0.0);
            dx.hypot(dy) <= radius
        });
    }
    canvas
}

/// Rank and suit in two corners, and a large sign in the middle.
fn face(card: Card, width: usize, height: usize) -> Image {
    let mut canvas = blank(width, height);
    let colour = if matches!(card.suit, Suit::Hearts | Suit::Diamonds) { RED } else { BLACK };
    let label = if card.rank == 10 { "10".to_owned() } else { card.letter().to_string() };
    let scale = (width / 34).max(1);
    let margin = (width / 16).max(2) as i64;
    let text = font::width(&label, scale) as i64 - scale as i64;
    let small = (width / 6).max(6);
    font::write(&mut canvas, (margin, margin), scale, colour, &label);
    sign(&mut canvas, card.suit, (margin, margin + 8 * scale as i64), small, colour);
    let (right, bottom) = (width as i64 - margin, height as i64 - margin);
    font::write(&mut canvas, (right - text, bottom - 7 * scale as i64), scale, colour, &label);
    let above = bottom - 8 * scale as i64 - small as i64;
    sign(&mut canvas, card.suit, (right - small as i64, above), small, colour);
    let large = width / 2;
    let middle = ((width - large) as i64 / 2, (height - large) as i64 / 2);
    sign(&mut canvas, card.suit, middle, large, colour);
    canvas.into_image()
}

/// A lattice on blue.
fn back(width: usize, height: usize) -> Image {
    let mut canvas = blank(width, height);
    let rim = width as f64 / 12.0;
    let (right, bottom) = (width as f64 - rim, height as f64 - rim);
    let pitch = width as f64 / 6.0;
    canvas.shape((0, 0), (width, height), BLUE, |x, y| {
        let inside = x > rim && y > rim && x < right && y < bottom;
        let stripe = |value: f64| value.rem_euclid(pitch) > pitch * 0.16;
        inside && stripe(x + y) && stripe(x - y)
    });
    canvas.into_image()
}

/// The sign of a suit in a square.
fn sign(canvas: &mut Canvas, suit: Suit, place: (i64, i64), side: usize, colour: Colour) {
    let half = side as f64 / 2.0;
    canvas.shape(place, (side, side), colour, |x, y| {
        let (u, v) = (x / half - 1.0, y / half - 1.0);
        let round = |cu: f64, cv: f64, radius: f64| (u - cu).hypot(v - cv) < radius;
        // A heart whose tip is at v = 1.
        let heart = |v: f64| {
            let lobes = (u.abs() - 0.46).hypot(v + 0.4) < 0.5;
            lobes || (v > -0.25 && u.abs() < 0.94 * (1.0 - v) / 1.22)
        };
        let stem = v > 0.2 && v < 0.98 && u.abs() < 0.08 + 0.3 * (v - 0.4).max(0.0);
        match suit {
            Suit::Diamonds => u.abs() * 1.3 + v.abs() < 1.0,
            Suit::Hearts => heart(v),
            Suit::Spades => heart(-v - 0.02) && v < 0.92 || stem,
            Suit::Clubs => {
                round(0.0, -0.5, 0.43) || round(-0.5, 0.18, 0.43) || round(0.5, 0.18, 0.43) || stem
            }
        }
    });
}
