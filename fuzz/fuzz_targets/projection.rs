//! Any text as a response, under every projection.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seed_envs::projection::Projection;

const NAMES: [&str; 11] = [
    "alfworld", "webshop", "sokoban", "sokoban_visual", "search_qa", "ezpoints", "ezpoints_text", "number_line",
    "blackjack", "points24", "household",
];

fuzz_target!(|text: &str| {
    for name in NAMES {
        let strict = Projection::for_environment(name, true).expect("known");
        let lenient = Projection::for_environment(name, false).expect("known");
        let (one, other) = (strict.project(text), lenient.project(text));
        assert_eq!(one.action, other.action);
        assert!(!one.is_valid() || other.is_valid());
        let _ = strict.command(&one.action);
    }
    Projection::Command.project(text);
});
