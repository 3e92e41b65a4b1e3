//! Any text as a problem of a small domain, compiled and played when it can be.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seed_envs::alfworld::Game;

const DOMAIN: &str = "(define (domain d) (:types place thing) (:predicates (at ?p - place) (in ?t - thing ?p - place)
  (has ?t - thing) (free)) (:action go :parameters (?a - place ?b - place) :precondition (at ?a)
  :effect (and (not (at ?a)) (at ?b))) (:action take :parameters (?t - thing ?p - place)
  :precondition (and (at ?p) (in ?t ?p) (free)) :effect (and (has ?t) (not (free)) (not (in ?t ?p)))))";
const GRAMMAR: &str = r##"grammar :: """{"intro": [{"rhs": "[{t.name | in(t:thing, p:place)}]"}],
  "list_empty": [{"rhs": "nothing"}], "list_separator": [{"rhs": ", "}], "list_last_separator": [{"rhs": ", and "}]}""";
  action go { template :: "go {b}"; feedback :: "#intro#"; } action take { template :: "take {t}"; feedback :: "{t}"; }"##;

fuzz_target!(|text: &str| {
    if let Ok(game) = Game::from_texts(DOMAIN, GRAMMAR, text) {
        let mut play = game.start();
        drop(play.plan_within(200));
        if let Some(command) = play.admissible().first().cloned() {
            play.step(&command);
        }
    }
});
