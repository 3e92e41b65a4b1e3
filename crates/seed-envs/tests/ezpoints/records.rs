//! Every recorded deal, step and frame of EZPoints.

use crate::shared::{action, data, json, lines, same, seed, sha256};
use seed_envs::ezpoints::card::{Card, deal_ezpoints};
use seed_envs::ezpoints::deck::Deck;
use seed_envs::ezpoints::frame::Painter;
use seed_envs::ezpoints::lettering::Lettering;
use seed_envs::ezpoints::{Points, Suit};
use seed_envs::picture::Canvas;
use seed_envs::picture::file::read_png;
use seed_envs::projection::CardGame;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn cards(game: &Points) -> Value {
    json!(game.cards().iter().map(Card::to_string).collect::<Vec<_>>())
}

/// Numbers are numbers in the records, signs are texts.
fn formula(game: &Points) -> Value {
    let token = |token: &&str| token.parse::<u8>().map_or_else(|_| json!(token), |number| json!(number));
    json!(game.formula().iter().map(token).collect::<Vec<_>>())
}

#[test]
fn deals() {
    let records = lines("deals.jsonl");
    for record in &records {
        let dealt = deal_ezpoints(seed(record));
        assert_eq!(json!(dealt.map(|card| card.to_string())), record["cards"], "seed {}", record["seed"]);
        assert_eq!(json!(dealt.map(Card::number)), record["numbers"], "seed {}", record["seed"]);
    }
    assert!(records.len() > 100, "{} deals", records.len());
}

#[test]
fn how_often_each_pair_comes() {
    let mut counts = BTreeMap::new();
    for seed in 0..65_535 {
        let mut pair = deal_ezpoints(seed).map(Card::number);
        pair.sort_unstable();
        *counts.entry(format!("{},{}", pair[0], pair[1])).or_insert(0) += 1;
    }
    assert_eq!(json!(counts), json("deal_distribution.json")["counts"]);
}

#[test]
fn episodes() {
    let painter = Painter::read(&data()).expect("the public cards and font");
    let (mut steps, mut frames) = (0, 0);
    for record in lines("episodes.jsonl") {
        let id = record["id"].as_str().expect("an id");
        let mut game = Points::ezpoints(seed(&record));
        assert_eq!(cards(&game), record["cards"], "{id}");
        let table = painter.table(&game);
        let hash = |game: &Points| sha256(&painter.points(&table, game).rgb);
        assert_eq!(hash(&game), record["rgb"].as_str().expect("a hash"), "{id}");
        let mut earned = 0.0;
        for (number, step) in record["steps"].as_array().expect("steps").iter().enumerate() {
            let place = format!("{id}, step {}", number + 1);
            let index = action(&step["a"]);
            if let Some(token) = index.and_then(|index| CardGame::EzPoints.actions().get(index)) {
                assert_eq!(json!(token), step["token"], "{place}");
            }
            let turn = game.step(index);
            assert!(same(turn.reward, &step["reward"]), "{place}: {}", turn.reward);
            assert_eq!(json!(turn.terminated), step["terminated"], "{place}");
            assert_eq!(json!(turn.truncated), step["truncated"], "{place}");
            assert_eq!(json!(turn.won()), step["won"], "{place}");
            assert_eq!(formula(&game), step["formula"], "{place}");
            assert_eq!(json!(game.used()), step["used"], "{place}");
            assert_eq!(hash(&game), step["rgb"].as_str().expect("a hash"), "{place}");
            earned += turn.reward;
            steps += 1;
            frames += 1;
        }
        assert!(same(earned, &record["return"]), "{id}: {earned}");
    }
    assert!(steps > 200 && frames > 200, "{steps} steps");
}

#[test]
fn recorded_pictures_are_equal_pixel_for_pixel() {
    let painter = Painter::read(&data()).expect("the public cards and font");
    let episodes = lines("episodes.jsonl");
    let index = json("png/index.json");
    let pictures = index.as_array().expect("a list");
    assert!(!pictures.is_empty());
    for picture in pictures {
        let name = picture["file"].as_str().expect("a file");
        let recorded = read_png(&data().join(name)).expect("a picture");
        let record = episodes.iter().find(|record| record["id"] == picture["episode"]).expect("an episode");
        let mut game = Points::ezpoints(seed(record));
        let count = picture["after_steps"].as_u64().expect("a number") as usize;
        for step in record["steps"].as_array().expect("steps").iter().take(count) {
            game.step(action(&step["a"]));
        }
        assert_eq!(cards(&game), picture["cards"], "{name}");
        assert_eq!(formula(&game), picture["formula"], "{name}");
        assert!(painter.points(&painter.table(&game), &game) == recorded, "{name} differs");
    }
}

#[test]
fn the_public_cards_and_letters_are_read_as_recorded() {
    let render = json("render.json");
    let deck = Deck::read(&data().join("cards_135x189.png"), 135, 189).expect("cards");
    for suit in Suit::ALL {
        for rank in 1..=13 {
            let card = Card { suit, rank };
            let hash = sha256(&deck.card(card).rgb);
            assert_eq!(json!(hash), render["card_sha256"][card.to_string()], "{card}");
        }
    }
    let letters = Lettering::read(&data().join("render.json")).expect("letters");
    let samples = render["text_samples"].as_array().expect("a list");
    assert!(!samples.is_empty());
    for sample in samples {
        // White at (10, 5) on black; the samples are grey, one byte a pixel.
        let text = sample["text"].as_str().expect("a text");
        let mut canvas = Canvas::new(300, 40, [0; 3]);
        letters.write(&mut canvas, (10, 5), [255; 3], text);
        let grey: Vec<u8> = canvas.into_image().rgb.into_iter().step_by(3).collect();
        assert_eq!(json!(sha256(&grey)), sample["sha256_300x40"], "{text:?}");
    }
}

#[test]
fn files_that_do_not_fit_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = Painter::read(folder.path()).expect_err("nothing there").to_string();
    assert!(error.contains("cards_135x189.png"), "{error}");
    let error = Deck::read(&data().join("png/ezp-000_t0.png"), 135, 189).expect_err("no sheet").to_string();
    assert!(error.contains("300 x 300") && error.contains("13 x 4"), "{error}");
    let path = folder.path().join("render.json");
    std::fs::write(&path, "{\"glyphs\": {\"a\": {\"advance\": 1, \"ox\": 0, \"oy\": 0, \"w\": 2, \"h\": 1, \"rows\": [\"0g00\"]}}, \"kerning\": {}}").expect("written");
    let error = Lettering::read(&path).expect_err("no digits").to_string();
    assert!(error.contains("'a'"), "{error}");
    std::fs::write(&path, "{\n\"glyphs\": 3}").expect("written");
    let error = Lettering::read(&path).expect_err("no letters").to_string();
    assert!(error.contains("render.json:2"), "{error}");
}
