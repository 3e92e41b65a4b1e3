//! Any text as a domain.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seed_envs::alfworld::Domain;

fuzz_target!(|text: &str| drop(Domain::parse(text)));
