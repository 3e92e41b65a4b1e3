//! Any text as a grammar, bound to a small domain when it can be read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seed_envs::alfworld::{Domain, Game, Grammar, Logic, Problem};
use std::sync::Arc;

const DOMAIN: &str = "(define (domain d) (:types lamp) (:predicates (on ?l - lamp))
  (:action press :parameters (?l - lamp) :precondition (not (on ?l)) :effect (on ?l)))";
const PROBLEM: &str = "(define (problem p) (:domain d) (:objects lamp_bar_1 lamp_bar_2 - lamp) (:init (on lamp_bar_1))
  (:goal (exists (?l - lamp) (on ?l))))";

fuzz_target!(|text: &str| {
    let Ok(grammar) = Grammar::parse(text) else { return };
    let Ok(domain) = Domain::parse(DOMAIN) else { return };
    let Ok(logic) = Logic::new(domain, &grammar) else { return };
    let Ok(problem) = Problem::parse(PROBLEM, logic.domain()) else { return };
    if let Ok(game) = Game::new(&logic, &grammar, Arc::new(problem)) {
        let mut play = game.start();
        play.introduction();
        if let Some(command) = play.admissible().first().cloned() {
            play.step(&command);
        }
    }
});
