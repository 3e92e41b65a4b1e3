//! The suite: conformance, names, views, experts.

use seed_envs::conformance::{Conformance, check};
use seed_envs::sokoban::{RoomConfig, Sokoban, SokobanOptions, View};
use seed_envs::{Suite, Task};
use serde_json::Value;

fn open(options: SokobanOptions) -> Sokoban {
    Sokoban::open(options).expect("a suite")
}

fn small(view: View) -> SokobanOptions {
    SokobanOptions { view, train: 50, valid: 10, ..SokobanOptions::default() }
}

#[test]
fn conformance() {
    let actions: Vec<String> =
        ["up", "down", "left", "right", "still", "Up", "3", "fly"].map(str::to_owned).to_vec();
    let options =
        Conformance { tasks_per_split: 4, max_steps: 15, actions, seed: 7, ..Conformance::default() };
    for view in [View::Text, View::Rgb, View::Both] {
        let report = check(&open(small(view)), &options).unwrap_or_else(|error| panic!("{view:?}: {error}"));
        assert!(report.episodes > 30, "{report}");
    }
    let room = RoomConfig { rows: 8, columns: 8, boxes: 2, search_depth: 100, hash_seed: 0 };
    let options = Conformance { max_steps: 40, ..options };
    let report = check(&open(SokobanOptions { room, max_steps: 40, ..small(View::Text) }), &options);
    assert!(report.is_ok(), "{report:?}");
}

#[test]
fn the_expert_wins_with_the_fewest_steps() {
    let suite = open(small(View::Text));
    for task in suite.tasks("valid").expect("tasks").iter() {
        let mut environment = suite.environment();
        environment.reset(task, 0).expect("an episode");
        let mut rewards = 0.0;
        loop {
            let action = environment.expert_action().expect("an action");
            let step = environment.step(&action).expect("a step");
            rewards += step.reward;
            if step.is_last() {
                assert!(step.info.won && step.done && !step.truncated, "{}", task.id);
                assert_eq!(step.info.details["dead_end"], Value::Bool(false));
                assert!(rewards > 9.0);
                assert_eq!(environment.expert_action(), None);
                break;
            }
        }
    }
}

#[test]
fn views_names_and_frames() {
    let task = |suite: &Sokoban| suite.tasks("train").expect("tasks")[0].clone();
    let text = open(small(View::Text));
    let first = text.environment().reset(&task(&text), 0).expect("an episode");
    assert!(first.image.is_none() && first.text.contains('X'));
    let rgb = open(small(View::Rgb));
    assert_eq!((text.name(), rgb.name()), ("sokoban", "sokoban_visual"));
    let mut environment = rgb.environment();
    let first = environment.reset(&task(&rgb), 0).expect("an episode");
    assert!(first.text.is_empty());
    let still = environment.step("still").expect("a step");
    let (first, still) = (first.image.expect("a frame"), still.observation.image.expect("a frame"));
    assert!(std::sync::Arc::ptr_eq(&first, &still), "an unchanged frame is shared");
}

#[test]
fn standing_still_ends_too_and_dead_ends_are_told() {
    let suite = open(small(View::Text));
    let tasks = suite.tasks("train").expect("tasks");
    let mut environment = suite.environment();
    environment.reset(&tasks[0], 0).expect("an episode");
    for number in 1..=15 {
        let step = environment.step(if number == 3 { "nonsense" } else { "still" }).expect("a step");
        assert_eq!(step.reward, -0.1);
        assert_eq!(step.info.action_valid, Some(number != 3));
        assert_eq!(step.truncated, number == 15);
        if number == 15 {
            assert_eq!(step.info.details["dead_end"], Value::Bool(false));
        }
    }
    // Random pushes lose some of the games for good, and not all.
    let mut dead = 0;
    for (number, task) in tasks.iter().enumerate() {
        environment.reset(task, 0).expect("an episode");
        let last = (0..15)
            .map(|step| environment.step(["up", "left", "down", "right"][(number * 7 + step * step) % 4]))
            .last();
        let last = last.expect("steps").expect("a step");
        dead += usize::from(last.info.details["dead_end"] == Value::Bool(true));
    }
    assert!((1..50).contains(&dead), "{dead} of 50");
}

#[test]
fn ids_are_exact_and_settings_are_checked() {
    let suite = open(small(View::Text));
    for id in ["train/seed_007", "train/seed_+7", "train/7", "test/seed_7", "seed_7", "train/seed_4294967296"]
    {
        let task = Task { id: id.into(), split: "train".into(), kind: String::new() };
        assert!(suite.environment().reset(&task, 0).is_err(), "{id}");
    }
    // Seeds beyond the list can be played.
    let task = Task { id: "train/seed_60000".into(), split: "train".into(), kind: String::new() };
    assert!(suite.environment().reset(&task, 0).is_ok());
    for room in [
        RoomConfig { rows: 2, ..RoomConfig::default() },
        RoomConfig { columns: 17, ..RoomConfig::default() },
        RoomConfig { boxes: 0, ..RoomConfig::default() },
        RoomConfig { search_depth: 0, ..RoomConfig::default() },
    ] {
        let error = Sokoban::open(SokobanOptions { room, ..small(View::Text) }).expect_err("out of range");
        assert!(error.to_string().contains("expected"), "{error}");
    }
    // Three by three cells have one that is no wall.
    let room = RoomConfig { rows: 3, columns: 3, ..RoomConfig::default() };
    let suite = open(SokobanOptions { room, ..small(View::Text) });
    let task = suite.tasks("train").expect("tasks")[0].clone();
    let error = suite.environment().reset(&task, 0).expect_err("no room").to_string();
    assert!(error.contains("fewer boxes"), "{error}");
}
