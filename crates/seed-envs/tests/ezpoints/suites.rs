//! The suites: conformance, names, views, experts, pictures.

use crate::shared::{data, workspace};
use seed_envs::conformance::{Conformance, check};
use seed_envs::ezpoints::frame::SIDE;
use seed_envs::ezpoints::{CardGames, CardOptions, CardView};
use seed_envs::picture::FrameStore;
use seed_envs::projection::{CardGame, Projection};
use seed_envs::{Environment, Suite};

const GAMES: [CardGame; 4] =
    [CardGame::EzPoints, CardGame::NumberLine, CardGame::Blackjack, CardGame::Points24];

fn open(game: CardGame, view: CardView) -> CardGames {
    let options = CardOptions { view, train: 40, valid: 8, ..CardOptions::new(game) };
    CardGames::open(options).expect("a suite")
}

#[test]
fn conformance() {
    for game in GAMES {
        let actions = game.actions().iter().map(|action| (*action).to_owned()).chain(["11".into()]).collect();
        let options =
            Conformance { tasks_per_split: 3, max_steps: 24, actions, seed: 3, ..Conformance::default() };
        for view in [CardView::Text, CardView::Rgb, CardView::Both] {
            let report = check(&open(game, view), &options)
                .unwrap_or_else(|error| panic!("{game:?} {view:?}: {error}"));
            assert!(report.episodes > 15, "{report}");
        }
    }
}

#[test]
fn names_have_projections_and_responses_reach_the_game() {
    for game in GAMES {
        for view in [CardView::Text, CardView::Rgb] {
            let name = open(game, view).name().to_owned();
            assert_eq!(Projection::for_environment(&name, true), Ok(Projection::Cards { game }), "{name}");
        }
    }
    let suite = open(CardGame::EzPoints, CardView::Text);
    let projection = Projection::for_environment(suite.name(), true).expect("known");
    let mut environment = suite.environment();
    // The numbers 4 and 8.
    let first = environment.reset(&suite.tasks("train").expect("tasks")[0], 0).expect("an episode");
    assert_eq!(first.text, "Cards: 4 of hearts, 8 of clubs\nFormula: ");
    for (response, formula, reward) in [
        ("{\"action\": \"8\"}", "8", 0.0),
        ("{\"action\": \"9\"}", "8", 0.0),
        ("nothing", "8", 0.0),
        ("{\"action\": \"+\"}", "8 +", 0.0),
        ("{\"action\": \"4\"}", "8 + 4", 0.0),
        ("{\"action\": \"=\"}", "8 + 4", 10.0),
    ] {
        let projected = projection.project(response);
        let step = environment.step(&projection.command(&projected.action)).expect("a step");
        assert_eq!(step.reward, reward, "{response}");
        assert!(step.observation.text.ends_with(&format!("Formula: {formula}")), "{response}");
        assert_eq!(step.done, reward > 0.0);
    }
}

fn play(environment: &mut dyn Environment, frames: &mut FrameStore) -> (bool, usize) {
    for steps in 1.. {
        let Some(action) = environment.expert_action() else { return (false, steps) };
        let step = environment.step(&action).expect("a step");
        if let Some(frame) = &step.observation.image {
            assert_eq!((frame.width, frame.height), (SIDE, SIDE));
            frames.insert(frame);
        }
        if step.is_last() {
            return (step.info.won, steps);
        }
    }
    unreachable!("episodes end")
}

#[test]
fn experts_play() {
    for (game, wins) in [
        (CardGame::EzPoints, 40),
        (CardGame::NumberLine, 40),
        (CardGame::Blackjack, 8),
        (CardGame::Points24, 20),
    ] {
        let suite = open(game, CardView::Text);
        let mut environment = suite.environment();
        let won = suite
            .tasks("train")
            .expect("tasks")
            .iter()
            .filter(|task| {
                environment.reset(task, 0).expect("an episode");
                play(environment.as_mut(), &mut FrameStore::default()).0
            })
            .count();
        assert!(won >= wins, "{game:?}: {won} of 40 won");
    }
}

#[test]
fn equal_frames_are_kept_once() {
    let suite = open(CardGame::EzPoints, CardView::Rgb);
    let task = &suite.tasks("train").expect("tasks")[3];
    let mut frames = FrameStore::default();
    for _ in 0..8 {
        let mut environment = suite.environment();
        frames.insert(&environment.reset(task, 0).expect("an episode").image.expect("a frame"));
        assert!(play(environment.as_mut(), &mut frames).0);
    }
    // The first frame and three more; `=` changes nothing. Eight episodes share them.
    assert_eq!(frames.len(), 4);
    assert_eq!(frames.bytes(), 4 * SIDE * SIDE * 3);
    assert!(frames.get(3).is_some() && frames.get(4).is_none());
}

#[test]
fn own_and_public_pictures_share_the_layout() {
    let own = open(CardGame::EzPoints, CardView::Rgb);
    let options = CardOptions {
        view: CardView::Rgb,
        assets: Some(data()),
        train: 40,
        ..CardOptions::new(CardGame::EzPoints)
    };
    let public = CardGames::open(options).expect("a suite");
    let frame = |suite: &CardGames| {
        let task = suite.tasks("train").expect("tasks")[0].clone();
        suite.environment().reset(&task, 0).expect("an episode").image.expect("a frame")
    };
    let (own, public) = (frame(&own), frame(&public));
    assert_ne!(own, public);
    // Outside the cards and the line of text both are the table alone.
    let table = [53, 101, 77];
    for (x, y) in [(0, 0), (299, 0), (146, 150), (299, 150), (4, 299), (150, 20), (150, 250)] {
        let at = (y * SIDE + x) * 3;
        assert_eq!(own.rgb[at..at + 3], table, "own at {x}, {y}");
        assert_eq!(public.rgb[at..at + 3], table, "public at {x}, {y}");
    }
    // And within the cards both are paper.
    for (x, y) in [(5 + 67, 60), (153 + 67, 60)] {
        let at = (y * SIDE + x) * 3;
        assert!(own.rgb[at] > 200 && public.rgb[at] > 200, "paper at {x}, {y}");
    }
}

#[test]
fn settings_are_checked_and_the_game_limit_can_end_an_episode() {
    let error =
        CardGames::open(CardOptions { assets: Some(data()), ..CardOptions::new(CardGame::Blackjack) })
            .expect_err("no such assets")
            .to_string();
    assert!(error.contains("EZPoints alone"), "{error}");
    assert!(CardGames::open(CardOptions { max_steps: 0, ..CardOptions::new(CardGame::Blackjack) }).is_err());
    for stop in [false, true] {
        let options =
            CardOptions { stop_at_game_limit: stop, max_steps: 20, ..CardOptions::new(CardGame::EzPoints) };
        let suite = CardGames::open(CardOptions { train: 5, ..options }).expect("a suite");
        let mut environment = suite.environment();
        environment.reset(&suite.tasks("train").expect("tasks")[0], 0).expect("an episode");
        for count in 1..=20 {
            let step = environment.step("+").expect("a step");
            assert_eq!(step.truncated, count == 20 || stop && count >= 7, "step {count}");
        }
    }
}

#[test]
fn the_committed_tokenizer_is_what_the_recipe_makes() {
    let base = workspace().join("data/tiny-visual/base");
    let text = std::fs::read_to_string(base.join("tokenizer.json")).expect("the committed base");
    let committed: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(committed, seed_envs::ezpoints::vocabulary::tokenizer_json());
}
