//! Every recorded walk, step by step and byte by byte.

use crate::shared::{game, strings, text, transcript};
use serde_json::Value;

/// Replays a file of walks and returns how many steps it had.
#[track_caller]
fn replay(file: &str) -> usize {
    let mut steps = 0;
    for walk in transcript(file) {
        let id = text(&walk, "game");
        let mut state = game(id).start();
        let place = |step: usize| format!("{file}, {id}, {}, step {step}", walk["kind"]);
        assert_eq!(state.introduction(), text(&walk["start"], "obs"), "{}", place(0));
        let mut admissible = strings(&walk["start"]["admissible"]).expect("commands");
        assert_eq!(state.admissible()[..], admissible, "{}", place(0));
        assert_eq!(Some(state.won()), walk["start"]["won"].as_bool(), "{}", place(0));
        for (number, step) in walk["steps"].as_array().expect("steps").iter().enumerate() {
            let turn = state.step(text(step, "action"));
            assert_eq!(turn.text, text(step, "obs"), "{}", place(number + 1));
            if let Some(changed) = strings(&step["admissible"]) {
                admissible = changed;
            }
            assert_eq!(state.admissible()[..], admissible, "{}", place(number + 1));
            assert_eq!(Some(state.won()), step["won"].as_bool(), "{}", place(number + 1));
            assert_eq!(Some(i64::from(state.won())), step["score"].as_i64(), "{}", place(number + 1));
            assert_eq!(step["done"], step["won"], "{}: `done` is the goal", place(number + 1));
            assert_eq!(turn.accepted, turn.text != "Nothing happens.", "{}", place(number + 1));
            steps += 1;
        }
        if let Some(expected) = walk.get("end_facts") {
            compare_facts(&state, expected, &place(steps));
        }
    }
    steps
}

const RECORDED: [&str; 12] = [
    "atlocation",
    "objectatlocation",
    "inreceptacle",
    "not_inreceptacle",
    "holds",
    "holdsany",
    "opened",
    "ishot",
    "iscool",
    "isclean",
    "istoggled",
    "issliced",
];

#[track_caller]
fn compare_facts(state: &seed_envs::alfworld::GameState, expected: &Value, place: &str) {
    let mut ours: Vec<String> = state
        .facts()
        .into_iter()
        .filter(|(predicate, _)| RECORDED.contains(&predicate.as_str()))
        .map(|(predicate, names)| format!("{predicate} {}", names.join(" ")))
        .collect();
    ours.sort();
    let mut theirs = strings(expected).expect("facts");
    theirs.sort();
    assert_eq!(ours, theirs, "{place}");
}

#[test]
fn expert_walks() {
    assert!(replay("expert.jsonl") > 1000);
}

#[test]
fn random_walks() {
    assert_eq!(replay("random.jsonl"), 54 * 50);
}

#[test]
fn biased_walks() {
    assert_eq!(replay("biased.jsonl"), 54 * 50);
}

#[test]
fn invalid_commands() {
    assert_eq!(replay("invalid.jsonl"), 54 * 50);
}

#[test]
fn scripted_walks() {
    assert!(replay("scripted.jsonl") > 4000);
}

#[test]
fn oracle_walks() {
    assert!(replay("oracle.jsonl") > 300);
}

#[test]
fn names() {
    for line in transcript("names.jsonl") {
        let id = text(&line, "game");
        let game = game(id);
        let mut ours: Vec<(String, String, String)> = game
            .entities()
            .into_iter()
            .map(|(id, name, kind)| (id.to_owned(), name.to_owned(), kind.to_owned()))
            .collect();
        ours.sort();
        let (names, types) = (line["names"].as_object().expect("names"), &line["types"]);
        let mut theirs: Vec<(String, String, String)> = names
            .iter()
            .map(|(id, name)| (id.clone(), name.as_str().expect("a name").into(), text(types, id).into()))
            .collect();
        theirs.sort();
        assert_eq!(ours, theirs, "{id}");
    }
}
