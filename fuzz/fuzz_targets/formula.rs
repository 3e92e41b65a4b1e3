//! Any text as a formula of the card games, and as tokens typed into one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seed_envs::ezpoints::{Points, evaluate};

fuzz_target!(|text: &str| {
    if let Some(value) = evaluate(text) {
        assert_eq!(evaluate(&format!("({text})")).is_some_and(|bracketed| bracketed.is(24)), value.is(24));
    }
    let mut game = Points::points24(text.len() as u32);
    for byte in text.bytes().take(100) {
        let turn = game.step(Some(usize::from(byte % 18)));
        assert!(turn.reward == 0.0 || turn.terminated);
    }
});
