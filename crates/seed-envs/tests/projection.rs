//! Projections against recordings of the reference implementation, and properties that hold for any text.

use proptest::prelude::*;
use seed_envs::projection::{Action, CardGame, Invalid, Projection};
use serde_json::Value;
use std::path::PathBuf;

fn records(path: &str) -> Vec<Value> {
    let root = std::env::var_os("SEED_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let path = root.join("data").join(path);
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("{}: {e}; set SEED_SHARED to the shared folder", path.display()));
    text.lines().map(|line| serde_json::from_str(line).expect("one JSON record a line")).collect()
}

#[track_caller]
fn check(projection: Projection, text: &str, action: &Value, valid: &Value) {
    let projected = projection.project(text);
    let found = match &projected.action {
        Action::Text(text) => Value::from(text.as_str()),
        Action::Index(index) => Value::from(*index),
    };
    assert_eq!(&found, action, "action of {text:?}");
    assert_eq!(i64::from(projected.is_valid()), valid.as_i64().expect("0 or 1"), "validity of {text:?}");
}

#[track_caller]
fn text<'a>(record: &'a Value, key: &str) -> &'a str {
    record[key].as_str().unwrap_or_else(|| panic!("`{key}` is no text in {record}"))
}

#[test]
fn search_qa_vectors() {
    let projection = Projection::for_environment("search_qa", true).expect("known");
    let vectors = records("search_qa/projection.jsonl");
    assert!(!vectors.is_empty());
    for record in &vectors {
        check(projection, text(record, "text"), &record["action"], &record["valid"]);
    }
}

#[test]
fn search_qa_episodes() {
    let mut steps = 0;
    for episode in records("search_qa/episodes.jsonl") {
        for step in episode["steps"].as_array().expect("steps") {
            check(Projection::SearchQa, text(step, "text"), &step["action"], &step["valid"]);
            steps += 1;
        }
    }
    assert!(steps > 100, "{steps} steps");
}

#[test]
fn sokoban_vectors() {
    let projection = Projection::for_environment("sokoban", true).expect("known");
    let vectors = records("sokoban/projection.jsonl");
    assert!(!vectors.is_empty());
    for record in &vectors {
        check(projection, text(record, "text"), &record["action"], &record["valid"]);
    }
}

#[test]
fn card_vectors() {
    let vectors = records("ezpoints/projection.jsonl");
    assert!(!vectors.is_empty());
    for record in &vectors {
        let game = match text(record, "env") {
            "EZPoints" => CardGame::EzPoints,
            "NumberLine" => CardGame::NumberLine,
            "Blackjack" => CardGame::Blackjack,
            "Points24" => CardGame::Points24,
            other => panic!("unknown game {other}"),
        };
        check(Projection::Cards { game }, text(record, "text"), &record["action"], &record["valid"]);
    }
}

#[test]
fn webshop_recordings() {
    let projection = Projection::for_environment("webshop", true).expect("known");
    let mut steps = 0;
    for file in ["edge-train42", "real1k-train0", "real1k-val1000", "real1k-nohist5"] {
        for environment in records(&format!("webshop/prompts/{file}.jsonl")) {
            for step in environment["steps"].as_array().expect("steps") {
                check(projection, text(step, "raw"), &step["action"], &step["is_action_valid"]);
                steps += 1;
            }
        }
    }
    assert!(steps > 50, "{steps} steps");
}

#[test]
fn alfworld_rules() {
    let strict = Projection::for_environment("alfworld", true).expect("known");
    let lenient = Projection::for_environment("alfworld", false).expect("known");
    let no_action = Some(Invalid::NoAction);
    let no_thinking = Some(Invalid::NoThinking);
    let ideograph = Some(Invalid::Ideograph);
    for (response, action, with_think, without_think) in [
        ("<think>a</think><action>Go to Shelf 1</action>", "go to shelf 1", None, None),
        ("<action>\u{1f} look\u{a0}</action>", "look", no_thinking, None),
        ("</think><think><action>look</action>", "look", None, None),
        ("<THINK></THINK><ACTION>LOOK</ACTION>", "look", no_thinking, None),
        ("</action><think></think><action>look", "", None, None),
        ("<think></think><action>a</action><action>b</action>", "a", None, None),
        ("<think>去</think><action>look</action>", "look", ideograph, ideograph),
        // Kana and the ideographs of the extensions are not looked for.
        ("<think>の㐀</think><action>look</action>", "look", None, None),
        (
            "I will now carefully open the Fridge number ONE ",
            "ly open the fridge number one ",
            no_action,
            no_action,
        ),
        ("look", "look", no_action, no_action),
        ("", "", no_action, no_action),
        ("<action>open</ACTION>", "open", no_thinking, None),
    ] {
        for (projection, invalid) in [(strict, with_think), (lenient, without_think)] {
            let projected = projection.project(response);
            assert_eq!(projected.action, Action::Text(action.into()), "{response:?}");
            assert_eq!(projected.invalid, invalid, "{response:?}");
        }
    }
    let long: String = "é".repeat(40);
    assert_eq!(strict.project(&long).action, Action::Text("é".repeat(30)));
}

#[test]
fn commands_and_names() {
    let projection = Projection::Command;
    assert_eq!(projection.project(" go to shelf 1 \n").action, Action::Text("go to shelf 1".into()));
    assert!(projection.project(" look").is_valid());
    assert_eq!(projection.project(" \n").invalid, Some(Invalid::NoAction));
    // The household's demonstrations mark their commands with tags, without thinking.
    let household = Projection::for_environment("household", false).expect("known");
    let projected = household.project("<action>go to shelf 1</action>");
    assert!(projected.is_valid());
    assert_eq!(household.command(&projected.action), "go to shelf 1");
    assert_eq!(household.project("go to shelf 1").invalid, Some(Invalid::NoAction));
    let error = Projection::for_environment("alfwrld", true).expect_err("unknown");
    assert!(error.to_string().contains("`alfwrld`"), "{error}");
}

#[test]
fn actions_are_told_to_environments_in_their_own_words() {
    let sokoban = Projection::for_environment("sokoban_visual", true).expect("known");
    let told = |index| sokoban.command(&Action::Index(index)).into_owned();
    assert_eq!([0, 1, 2, 3, 4, 5].map(told), ["still", "up", "down", "left", "right", ""]);
    let cards = Projection::for_environment("ezpoints_text", true).expect("known");
    let told = |index| cards.command(&Action::Index(index)).into_owned();
    assert_eq!([-1, 0, 9, 10, 12, 13].map(told), ["", "1", "10", "+", "=", ""]);
}

#[test]
fn ten_is_removed_before_the_digits_are_read() {
    let cards = |text: &str| Projection::Cards { game: CardGame::EzPoints }.project(text);
    // What is left of 1100 after the removal is another 10, which holds a 1 as well.
    assert_eq!(cards("\"action\": 1100").invalid, Some(Invalid::SeveralActions));
    assert_eq!(cards("\"action\": 1010").action, Action::Index(9));
}

proptest! {
    #[test]
    fn no_text_breaks_a_projection(
        text in ".{0,200}|(<think>|</think>|<action>|</action>|<search>|</search>|<answer>|</answer>|\"action\":|10|up|[a-z ]|é|İ|ß|去){0,24}"
    ) {
        for name in [
            "alfworld", "webshop", "sokoban", "sokoban_visual", "search_qa", "ezpoints", "ezpoints_text",
            "number_line", "blackjack", "points24", "household",
        ] {
            for require_think in [true, false] {
                let projection = Projection::for_environment(name, require_think).expect("known");
                let projected = projection.project(&text);
                let _ = projection.command(&projected.action);
                // Leaving the think tags out can only make more responses valid, and never changes the action.
                let lenient = Projection::for_environment(name, false).expect("known").project(&text);
                prop_assert_eq!(&projected.action, &lenient.action);
                prop_assert!(!projected.is_valid() || lenient.is_valid());
            }
        }
    }

    #[test]
    fn a_wrapped_command_comes_back(command in "[a-z][a-z0-9 ]{0,30}[a-z0-9]", thought in "[a-z ]{0,40}") {
        let response = format!("<think>{thought}</think> <action> {command} </action>");
        let projected = Projection::for_environment("alfworld", true).expect("known").project(&response);
        prop_assert!(projected.is_valid());
        prop_assert_eq!(projected.action, Action::Text(command.clone()));
        let query = format!("{thought}<search> {command}\n</search>");
        let projected = Projection::SearchQa.project(&query);
        prop_assert!(projected.is_valid());
        prop_assert_eq!(projected.action, Action::Text(format!("<search>{command}</search>")));
    }
}
