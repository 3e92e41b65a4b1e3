//! Any text through the analyzer, as a query, and against another text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seed_envs::webshop::fuzzy::{ALIKE, alike, token_set_ratio};
use seed_envs::webshop::search::Analyzer;

fuzz_target!(|text: &str| {
    for term in Analyzer::default().analyze(text) {
        assert!(!term.is_empty());
    }
    if let Some((one, two)) = text.split_once('\0') {
        if one.len() + two.len() < 2000 {
            assert_eq!(alike(one, two), token_set_ratio(one, two) > ALIKE);
        }
    }
});
