//! NumberLine, Blackjack and Points24.

use crate::shared::{action, lines, same, seed};
use seed_envs::ezpoints::blackjack::total;
use seed_envs::ezpoints::{Blackjack, Card, NumberLine, Points};
use seed_envs::projection::CardGame;
use serde_json::{Value, json};

fn records(game: &str) -> Vec<Value> {
    let records: Vec<Value> =
        lines("siblings.jsonl").into_iter().filter(|record| record["env"] == game).collect();
    assert!(!records.is_empty(), "no record of {game}");
    records
}

#[test]
fn number_line() {
    for record in records("NumberLine") {
        let mut game = NumberLine::new(seed(&record));
        let place = format!("seed {}", record["seed"]);
        assert_eq!(json!(game.target()), record["target"], "{place}");
        assert_eq!(json!(game.current()), record["current"], "{place}");
        for step in record["steps"].as_array().expect("steps") {
            let turn = game.step(action(&step[0]));
            assert!(same(turn.reward, &step[1]), "{place}: {step} gave {}", turn.reward);
            assert_eq!(json!(turn.terminated), step[2], "{place}: {step}");
            assert_eq!(json!(game.current()), step[4], "{place}: {step}");
            assert_eq!(json!(turn.won()), step[5], "{place}: {step}");
        }
    }
    let mut game = NumberLine::new(1);
    let away = game.expert().map(|towards| 1 - towards);
    for count in 1..=12 {
        assert_eq!(game.step(away).truncated, count >= NumberLine::STEPS);
        assert!(!game.step(None).truncated, "doing nothing does not count");
    }
}

/// The reference's form of a hand: what a card counts, its face, its suit.
fn hand(cards: &[Card]) -> Value {
    let face = |card: &Card| match card.rank {
        2..=10 => card.rank.to_string(),
        _ => card.letter().to_string(),
    };
    let card = |card: &Card| json!([card.number().to_string(), face(card), card.suit.letter().to_string()]);
    cards.iter().map(card).collect()
}

#[test]
fn blackjack() {
    for record in records("Blackjack") {
        let mut game = Blackjack::new(seed(&record));
        let place = format!("seed {}", record["seed"]);
        assert_eq!(hand(game.dealer()), record["dealer"], "{place}");
        assert_eq!(hand(game.player()), record["player"], "{place}");
        for step in record["steps"].as_array().expect("steps") {
            let turn = game.step(action(&step[0]));
            assert!(same(turn.reward, &step[1]), "{place}: {step} gave {}", turn.reward);
            assert_eq!(json!(turn.terminated), step[2], "{place}: {step}");
            assert_eq!(json!(turn.won()), step[3], "{place}: {step}");
            assert_eq!(hand(game.dealer()), step[4], "{place}: {step}");
            assert_eq!(hand(game.player()), step[5], "{place}: {step}");
        }
    }
    let ace = |rank| Card { suit: seed_envs::ezpoints::Suit::Clubs, rank };
    assert_eq!(total(&[ace(1), ace(1)]), 12);
    assert_eq!(total(&[ace(1), ace(13)]), 21);
    assert_eq!(total(&[ace(1), ace(13), ace(5)]), 16);
}

#[test]
fn points24() {
    let actions = CardGame::Points24.actions();
    let index = |token: &str| actions.iter().position(|known| *known == token);
    let mut solved = 0;
    for record in records("Points24") {
        let game = Points::points24(seed(&record));
        let cards: Vec<String> = game.cards().iter().map(Card::to_string).collect();
        assert_eq!(json!(cards), record["cards"], "seed {}", record["seed"]);
        let numbers: Vec<u8> = game.cards().iter().map(|card| card.number()).collect();
        assert_eq!(json!(numbers), record["numbers"], "seed {}", record["seed"]);
        // The expert's formula is right wherever there is one.
        let mut play = game.clone();
        while let Some(token) = play.expert() {
            let turn = play.step(Some(token));
            if turn.terminated {
                assert!(turn.won(), "seed {}: {:?}", record["seed"], play.formula());
                solved += 1;
                break;
            }
        }
    }
    assert!(solved >= 6, "{solved} deals solved");
    // Four threes: 3*3*3-3.
    let three = Card { suit: seed_envs::ezpoints::Suit::Hearts, rank: 3 };
    let mut game = Points::new(seed_envs::ezpoints::PointsRules::POINTS24, vec![three; 4]);
    for token in ["3", "*", "3", "*", "3", "-", "3", "3"] {
        game.step(index(token));
    }
    assert_eq!(game.formula().concat(), "3*3*3-3");
    assert_eq!(game.step(index("=")).reward, 10.0);
    // 21 tokens are one too many for any further action.
    let mut game = Points::points24(0);
    for _ in 0..21 {
        assert!(!game.step(index("(")).truncated);
    }
    assert!(game.step(index("=")).truncated);
}
