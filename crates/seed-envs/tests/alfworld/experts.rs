//! The handcoded expert, decision by decision.

use crate::shared::{data, text, transcript};
use seed_envs::alfworld::{HandcodedExpert, open_game};
use seed_envs::pyrandom::PythonRandom;

#[test]
fn recorded_runs_are_repeated() {
    let mut decisions = 0;
    for walk in transcript("expert.jsonl") {
        let id = text(&walk, "game");
        let (game, parameters) =
            open_game(data().join("games").join(id).join("game.tw-pddl")).expect("a game");
        let trial = id.split('/').nth(2).expect("form/split/task/trial");
        let kind = trial.split('-').next().expect("type-object-…");
        let random = PythonRandom::from_int(walk["seed"].as_i64().expect("a seed").into());
        let mut state = game.start();
        let mut expert =
            HandcodedExpert::new(kind, &parameters, random, &state.introduction()).expect("an expert");
        assert_eq!(walk["start"]["expert_plan"][0], expert.first_command());
        for (number, step) in walk["steps"].as_array().expect("steps").iter().enumerate() {
            let command = text(step, "action");
            let turn = state.step(command);
            let next = expert.next_command(&state, command, &turn.text).expect("a command");
            assert_eq!(step["expert_plan"][0], *next, "{id}, step {}", number + 1);
            decisions += 1;
        }
    }
    assert!(decisions > 1000, "{decisions}");
}
