//! The shortest-plan search against the recorded plans.

use crate::shared::{game, text, transcript};

#[test]
fn plans_win_and_are_never_longer_than_recorded_ones() {
    let mut lengths = Vec::new();
    for walk in transcript("oracle.jsonl") {
        let id = text(&walk, "game");
        let mut state = game(id).start();
        let plan = state.plan().unwrap_or_else(|error| panic!("{id}: {error}"));
        assert!(plan.shortest, "{id}");
        for command in &plan.commands {
            assert!(!state.won(), "{id}: {command} is not needed");
            assert!(state.step(command).accepted, "{id}: {command}");
        }
        assert!(state.won(), "{id}: {:?}", plan.commands);
        let recorded = walk["steps"].as_array().expect("steps").len();
        assert!(plan.commands.len() <= recorded, "{id}: {} > {recorded}", plan.commands.len());
        lengths.push((recorded, plan.commands.len()));
    }
    let sums = lengths.iter().fold((0, 0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    println!("{} games: recorded walks {} commands, ours {}", lengths.len(), sums.0, sums.1);
}

#[test]
fn planner_records_are_valid_and_not_shorter() {
    for record in transcript("planner.jsonl") {
        let id = text(&record, "game");
        let Some(recorded) = record["plan"].as_array() else { continue };
        let mut state = game(id).start();
        let plan = state.plan().expect("a plan");
        assert!(plan.commands.len() <= recorded.len(), "{id}: {:?} and {recorded:?}", plan.commands);
        println!("{id}: recorded {}, ours {}", recorded.len(), plan.commands.len());
        for command in recorded {
            assert!(state.step(command.as_str().expect("a command")).accepted, "{id}: {command}");
        }
        assert!(state.won(), "{id}");
    }
}
