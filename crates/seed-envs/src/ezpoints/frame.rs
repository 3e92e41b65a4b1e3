//! What the pictures show where: 300 × 300 pixels, as the reference lays them out.

use super::blackjack::Blackjack;
use super::deck::Deck;
use super::lettering::Lettering;
use super::number_line::NumberLine;
use super::points::Points;
use crate::environment::{EnvError, Image};
use crate::picture::canvas::{Canvas, Colour};
use crate::projection::CardGame;
use std::path::Path;

/// Pixels of a side.
pub const SIDE: usize = 300;
/// The green of the table.
pub const TABLE: Colour = [53, 101, 77];
const WHITE: Colour = [255, 255, 255];
const BLACK: Colour = [0, 0, 0];
/// Letters of a line of Points24's formula.
const LINE: usize = 23;

/// Cards and letters to draw a game with.
#[derive(Debug, Clone, PartialEq)]
pub struct Painter {
    game: CardGame,
    deck: Option<Deck>,
    letters: Lettering,
}

/// Width and height of a game's cards; NumberLine has none.
fn card_size(game: CardGame) -> Option<(usize, usize)> {
    match game {
        CardGame::EzPoints => Some((135, 189)),
        CardGame::Points24 => Some((67, 93)),
        CardGame::Blackjack => Some((70, 98)),
        CardGame::NumberLine => None,
    }
}

impl Painter {
    /// The project's own cards and letters.
    pub fn own(game: CardGame) -> Self {
        let scale = if game == CardGame::NumberLine { 4 } else { 2 };
        let deck = card_size(game).map(|(width, height)| Deck::own(width, height));
        Self { game, deck, letters: Lettering::Own { scale } }
    }

    /// EZPoints with the public package's cards and font: a folder with `cards_135x189.png` and `render.json`.
    ///
    /// # Errors
    /// [`EnvError`] when a file cannot be used.
    pub fn read(folder: &Path) -> Result<Self, EnvError> {
        let deck = Deck::read(&folder.join("cards_135x189.png"), 135, 189)?;
        let letters = Lettering::read(&folder.join("render.json"))?;
        Ok(Self { game: CardGame::EzPoints, deck: Some(deck), letters })
    }

    /// The table with the cards of a game of points, before any formula.
    pub fn table(&self, game: &Points) -> Image {
        let mut canvas = Canvas::new(SIDE, SIDE, TABLE);
        let (width, height) = card_size(self.game).unwrap_or((1, 1));
        let deck = self.deck.iter().flat_map(|deck| game.cards().iter().map(move |&card| deck.card(card)));
        for (place, card) in deck.enumerate() {
            // A tenth of a card between cards, cut to whole pixels.
            let x = 5 + place * width * 11 / 10;
            canvas.paste(card, x as i64, ((SIDE - height) / 2) as i64);
        }
        canvas.into_image()
    }

    /// A table with the formula so far.
    pub fn points(&self, table: &Image, game: &Points) -> Image {
        let mut canvas = Canvas::over(table);
        let formula = game.formula().join(" ");
        if self.game == CardGame::EzPoints {
            self.letters.write(&mut canvas, (10, 258), WHITE, &format!("Formula: {formula}"));
        } else {
            self.letters.write(&mut canvas, (10, 210), WHITE, "Formula:");
            // A long formula goes on below, where the reference's would run out of the picture.
            let mut lines = vec![String::new()];
            for token in game.formula() {
                let line = lines.last_mut().filter(|line| line.len() + token.len() < LINE);
                match line {
                    Some(line) => *line = format!("{line}{token} "),
                    None => lines.push(format!("{token} ")),
                }
            }
            for (line, y) in lines.iter().zip([240, 265]) {
                self.letters.write(&mut canvas, (10, y), WHITE, line);
            }
        }
        canvas.into_image()
    }

    /// Goal and place of NumberLine, in two lines.
    pub fn number_line(&self, game: &NumberLine) -> Image {
        let mut canvas = Canvas::new(SIDE, SIDE, WHITE);
        self.letters.write(&mut canvas, (30, 60), BLACK, &format!("Target: {}", game.target()));
        self.letters.write(&mut canvas, (30, 180), BLACK, &format!("Current: {}", game.current()));
        canvas.into_image()
    }

    /// The dealer's first card and a back above, the player's cards below; the sixth begins a second row.
    pub fn blackjack(&self, game: &Blackjack) -> Image {
        let mut canvas = Canvas::new(SIDE, SIDE, TABLE);
        let (width, height) = card_size(self.game).unwrap_or((1, 1));
        self.letters.write(&mut canvas, (5, 1), WHITE, "Dealer");
        self.letters.write(&mut canvas, (5, 126), WHITE, "Player");
        if let Some(deck) = &self.deck {
            if let Some(&shown) = game.dealer().first() {
                canvas.paste(deck.card(shown), 5, 25);
            }
            canvas.paste(deck.back(), 78, 25);
            let (mut x, mut y) = (5, 150);
            for (place, &card) in game.player().iter().enumerate() {
                canvas.paste(deck.card(card), x, y);
                x += width as i64 + 4;
                if place == 4 {
                    y += height as i64 + 4;
                    x = 5;
                }
            }
        }
        canvas.into_image()
    }
}
