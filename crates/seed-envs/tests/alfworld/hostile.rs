//! Readers against damaged and hostile input: errors, never a panic, never a hang.
//!
//! The same readers have `cargo fuzz` targets in `fuzz/`; here a bounded number of seeded mutations runs.

use crate::shared::{data, game, text};
use proptest::prelude::*;
use seed_envs::alfworld::{Domain, Game, GameError, Grammar, Problem};
use seed_envs::pyrandom::PythonRandom;
use serde_json::Value;
use std::time::{Duration, Instant};

const GAME: &str = "2.1.2/valid_seen/pick_and_place_simple-Book-None-Sofa-229/trial_T20190907_042856_259139";

fn texts() -> [String; 3] {
    let file = std::fs::read_to_string(data().join("games").join(GAME).join("game.tw-pddl")).expect("a file");
    let file: Value = serde_json::from_str(&file).expect("a game file");
    ["pddl_domain", "grammar", "pddl_problem"].map(|key| text(&file, key).to_owned())
}

/// Cuts, doubles, swaps and overwrites pieces of a text.
fn damage(source: &str, random: &mut PythonRandom) -> String {
    let mut bytes = source.as_bytes().to_vec();
    for _ in 0..=random.below(2) {
        let place =
            |random: &mut PythonRandom, bytes: &[u8]| random.below(bytes.len().max(1) as u64) as usize;
        let (mut a, mut b) = (place(random, &bytes), place(random, &bytes));
        if a > b {
            (a, b) = (b, a);
        }
        b = b.min(a + 1 + random.below(30) as usize);
        match random.below(24) % 19 {
            0 | 13..=15 => drop(bytes.drain(a..b)),
            1 => {
                let piece = bytes[a..b].to_vec();
                let at = place(random, &bytes);
                bytes.splice(at..at, piece);
            }
            2 => bytes.truncate(a),
            3..=8 => {
                let signs = b"()?-;:#{}[]|\"\\ \n&,=\xc3\xa9";
                let sign = signs[random.below(signs.len() as u64) as usize];
                if let Some(byte) = bytes.get_mut(a) {
                    *byte = sign;
                }
            }
            9..=12 => {
                let words: [&str; 8] =
                    ["(and", "(not", "(exists", "(forall", "object", "{o.name}", "#look#", "(when"];
                let word = words[random.below(8) as usize];
                bytes.splice(a..a, word.bytes());
            }
            _ => bytes[a..b].reverse(),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn damaged_texts_are_errors_or_games() {
    let whole = texts();
    let mut random = PythonRandom::from_int(20_261_129);
    let (mut games, mut errors) = (0, 0);
    let start = Instant::now();
    let mut slowest = (Duration::ZERO, 0);
    for round in 0..1500 {
        let mut parts = whole.clone();
        let part = round % 3;
        parts[part] = damage(&parts[part], &mut random);
        let one = Instant::now();
        match Game::from_texts(&parts[0], &parts[1], &parts[2]) {
            Ok(game) => {
                games += 1;
                let mut play = game.start();
                play.introduction();
                for _ in 0..3 {
                    let command = random.choice(play.admissible()).cloned().unwrap_or_default();
                    play.step(&command);
                }
            }
            Err(error) => {
                errors += 1;
                assert!(!error.to_string().is_empty());
            }
        }
        slowest = slowest.max((one.elapsed(), round));
    }
    println!("{games} games, {errors} errors in {:?}, slowest {slowest:?}", start.elapsed());
    assert!(
        games > 50 && errors > 100,
        "{games} games and {errors} errors: the damage is too weak or too strong"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_without_panic(text in "\\PC{0,200}", signs in "[()?:;a-z \\-\n\"{}#|&,=]{0,300}") {
        for text in [&text, &signs] {
            let _ = Domain::parse(text);
            let _ = Domain::parse(&format!("(define (domain d) {text})"));
            let _ = Grammar::parse(text);
            let _ = Grammar::parse(&format!("grammar :: \"\"\"{{\"intro\": [{{\"rhs\": {}}}]}}\"\"\";", Value::from(text.as_str())));
            let domain = Domain::parse("(define (domain d) (:predicates (p ?x)))").expect("a domain");
            let _ = Problem::parse(text, &domain);
            let _ = Problem::parse(&format!("(define (problem p) (:objects a b) (:init {text}) (:goal (p a)))"), &domain);
        }
    }

    #[test]
    fn any_command_is_answered(commands in prop::collection::vec("\\PC{0,40}|go to [a-z]{1,9} [0-9]{1,2}", 1..20)) {
        let mut play = game(GAME).start();
        for command in commands {
            let before = play.admissible().clone();
            let turn = play.step(&command);
            prop_assert_eq!(turn.accepted, before.iter().any(|known| known == command.trim()));
        }
    }
}

#[track_caller]
fn refused(what: &str, result: impl FnOnce() -> Result<(), GameError>) {
    let start = Instant::now();
    let error = result().expect_err(what);
    // Printed, not asserted: a busy machine must not fail a test. Work is bounded by counts, not by time.
    println!("{what}: {:?}, {error}", start.elapsed());
}

#[test]
fn ten_megabytes_of_malice_are_refused() {
    const SIZE: usize = 10 << 20;
    let [domain, grammar, problem] = texts();
    let known = Domain::parse(&domain).expect("a domain");
    let filled = |piece: &str, size: usize| piece.repeat(size / piece.len());
    for (name, piece) in [
        ("brackets", "("),
        ("closing brackets", ")"),
        ("facts", "(openable a)"),
        ("comments", ";\n"),
        ("words", "word "),
        ("not ASCII", "é"),
        ("question marks", "?"),
    ] {
        for size in [SIZE, SIZE / 2] {
            let body = filled(piece, size);
            refused(&format!("domain of {size} bytes of {name}"), || Domain::parse(&body).map(drop));
            refused(&format!("problem of {size} bytes of {name}"), || {
                Problem::parse(&body, &known).map(drop)
            });
            refused(&format!("grammar of {size} bytes of {name}"), || Grammar::parse(&body).map(drop));
        }
    }
    // Well-formed, but endless: many objects, many alternatives, rules that call each other.
    let objects: String = (0..400_000).map(|n| format!("o{n} ")).collect();
    let many = format!("(define (problem p) (:objects {objects} - object) (:init) (:goal ()))");
    refused("400,000 objects", || Problem::parse(&many, &known).map(drop));
    let deep = format!("(define (domain d) (:action a :precondition {}", filled("(and ", SIZE / 4));
    refused("nested conditions", || Domain::parse(&deep).map(drop));
    let pairs = "(or (p) (q)) ".repeat(40);
    let wide = format!("(define (domain d) (:predicates (p) (q)) (:action a :precondition (and {pairs})))");
    refused("2^40 alternatives", || Domain::parse(&wide).map(drop));
    let names: Vec<String> = (0..2000).map(|n| format!("thing{n} - receptacle loc{n} - location")).collect();
    let places: String = (0..2000).map(|n| format!("(receptacleatlocation thing{n} loc{n})")).collect();
    let crowded = format!(
        "(define (problem p) (:objects agent1 - agent {}) (:init (atlocation agent1 loc0) {places}) (:goal (opened thing1)))",
        names.join(" ")
    );
    refused("4 million ways to go", || Game::from_texts(&domain, &grammar, &crowded).map(drop));
    let rules: Vec<String> =
        (0..40).map(|n| format!("\"r{n}\": [{{\"rhs\": \"#r{0}##r{0}#\"}}]", n + 1)).collect();
    let doubling = format!(
        "grammar :: \"\"\"{{{}, \"r40\": [{{\"rhs\": \"x{{a}}\"}}], \"intro\": [{{\"rhs\": \"#r0#\"}}]}}\"\"\";{grammar}",
        rules.join(",")
    );
    refused("2^40 words", || {
        Game::from_texts(&domain, &doubling.replace("\"intro\": [\n", "\"old\": [\n"), &problem).map(drop)
    });
    let circle = "grammar :: \"\"\"{\"intro\": [{\"rhs\": \"#intro#\"}]}\"\"\";".to_owned()
        + &grammar.replace("\"intro\"", "\"old\"");
    refused("a rule that calls itself", || Game::from_texts(&domain, &circle, &problem).map(drop));
}

/// Small files that ask for much: what they cost is bounded by counts, whichever part of a game they sit in.
#[test]
fn small_texts_with_large_consequences_are_refused() {
    let [domain, _, problem] = texts();
    // Each requirement of a query is a level of recursion.
    let steps = vec!["p()"; 200_000].join(" & ");
    let deep = format!("grammar :: \"\"\"{{\"intro\": [{{\"rhs\": \"{{'x' | {steps}}}\"}}]}}\"\"\";");
    let one = "(define (domain d) (:predicates (p)) (:action a :effect (p)))";
    let act = "action a { template :: \"a\"; feedback :: \"a\"; }";
    let start = "(define (problem q) (:objects a - object) (:init (p)) (:goal (p)))";
    refused("a query of 200,000 requirements", || {
        Game::from_texts(one, &format!("{deep} {act}"), start).map(drop)
    });

    // 256 alternatives of 200 requirements, copied by each bracket around them and for each effect.
    let pairs = "(or (p ?x) (q ?x)) ".repeat(8);
    let rest = "(p ?x) ".repeat(150);
    let wide = format!("(and {pairs} {rest})");
    let header = "(define (domain d) (:predicates (p ?x) (q ?x))";
    let wrapped = format!("{}{wide}{}", "(and ".repeat(80), ")".repeat(80));
    let actions: String = (0..200)
        .map(|n| format!("(:action a{n} :parameters (?x) :precondition {wrapped} :effect (p ?x))"))
        .collect();
    refused("conditions that are copied", || Domain::parse(&format!("{header} {actions})")).map(drop));
    let effects = "(p ?x) ".repeat(900);
    let actions: String = (0..200)
        .map(|n| format!("(:action a{n} :parameters (?x) :effect (when {wide} (and {effects})))"))
        .collect();
    refused("effects that copy their condition", || Domain::parse(&format!("{header} {actions})")).map(drop));

    // Nothing of this is wrong but its size.
    let blocks = "grammar::\"{}\";\n".repeat(500_000);
    refused("half a million empty grammars", || Game::from_texts(&domain, &blocks, &problem).map(drop));
    let again = "action a{}\n".repeat(600_000);
    refused("an action 600,000 times", || Game::from_texts(&domain, &again, &problem).map(drop));
    let pieces = "{x|p(x:t)}".repeat(400_000);
    let many = format!("grammar :: \"\"\"{{\"intro\": [{{\"rhs\": \"{pieces}\"}}]}}\"\"\"; {act}");
    refused("400,000 queries", || Game::from_texts(one, &many, start).map(drop));
    let named: String = (0..300_000).map(|n| format!("(p o{n})")).collect();
    let named = format!("(define (problem q) (:objects a) (:init) (:goal (or {named})))");
    let known = Domain::parse("(define (domain d) (:predicates (p ?x)))").expect("a domain");
    refused("300,000 names in a goal", || Problem::parse(&named, &known).map(drop));

    // Few objects, but every pair of them is an action with many effects.
    let predicates: String = (0..900).map(|n| format!("(e{n} ?x ?y)")).collect();
    let effects: String = (0..900).map(|n| format!("(e{n} ?x ?y)")).collect();
    let busy = format!(
        "(define (domain d) (:predicates {predicates}) (:action a :parameters (?x ?y) :effect (and {effects})))"
    );
    let objects: String = (0..3000).map(|n| format!("o{n} ")).collect();
    let crowd = format!("(define (problem q) (:objects {objects}) (:init) (:goal (e1 o1 o2)))");
    let plain = format!("grammar :: \"\"\"{{\"intro\": [{{\"rhs\": \"x\"}}]}}\"\"\"; {act}");
    refused("900 effects for 9 million pairs", || Game::from_texts(&busy, &plain, &crowd).map(drop));

    // Commands whose texts look at every pair of facts.
    let facts: String = (0..2000).map(|n| format!("(p o{n})")).collect();
    let asked = "(define (domain d) (:predicates (p ?x) (q ?x)) (:action a :parameters (?z) :precondition (p ?z) :effect (q ?z)))";
    let crowd = format!("(define (problem q) (:objects {objects}) (:init {facts}) (:goal (q o1)))");
    let slow = "action a { template :: \"a {z.name}{'' | p(x:object) & p(y:object) & none(x:object)}\"; feedback :: \"a\"; }";
    let slow = format!("grammar :: \"\"\"{{\"intro\": [{{\"rhs\": \"x\"}}]}}\"\"\"; {slow}");
    refused("commands that compare all facts", || Game::from_texts(asked, &slow, &crowd).map(drop));
}
