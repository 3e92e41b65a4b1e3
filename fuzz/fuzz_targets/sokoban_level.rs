//! Any text as a level file of Sokoban; its rooms are played a little and handed to the solver.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seed_envs::sokoban::level::parse;
use seed_envs::sokoban::solve::solve_within;
use seed_envs::sokoban::{Move, Solution};

fuzz_target!(|text: &str| {
    for level in parse(text).unwrap_or_default() {
        if let Solution::Plan(plan) = solve_within(&level.room, 2000) {
            let mut room = level.room.clone();
            assert!(plan.into_iter().all(|direction| room.go(direction)) && room.solved());
        }
        let mut room = level.room;
        for direction in Move::ALL.into_iter().cycle().take(12) {
            room.go(direction);
        }
        room.text();
    }
});
