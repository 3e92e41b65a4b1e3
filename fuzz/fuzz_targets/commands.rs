//! Any lines as commands of a game with a few things in it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seed_envs::alfworld::{Game, GameState};
use std::sync::LazyLock;

static START: LazyLock<GameState> = LazyLock::new(|| {
    let domain = "(define (domain d) (:types lamp) (:predicates (on ?l - lamp))
      (:action press :parameters (?l - lamp) :precondition () :effect (when (not (on ?l)) (on ?l))))";
    let grammar = r##"grammar :: """{"intro": [{"rhs": "Dark."}]}"""; action press { template :: "press {l}";
      feedback :: "The {l.name} glows."; }"##;
    let problem = "(define (problem p) (:domain d) (:objects lamp_bar_1 lamp_bar_2 - lamp)
      (:init (on lamp_bar_1) (on lamp_bar_2)) (:goal (and (on lamp_bar_1) (on lamp_bar_2))))";
    Game::from_texts(domain, grammar, problem).expect("a game").start()
});

fuzz_target!(|text: &str| {
    let mut play = START.clone();
    for line in text.lines() {
        let turn = play.step(line);
        assert_eq!(turn.accepted, turn.text != "Nothing happens.");
    }
});
