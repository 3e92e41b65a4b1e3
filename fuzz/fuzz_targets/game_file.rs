//! Three texts, separated by NUL, as a whole game.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seed_envs::alfworld::Game;

fuzz_target!(|text: &str| {
    let mut parts = text.split('\0');
    let mut part = || parts.next().unwrap_or_default();
    if let Ok(game) = Game::from_texts(part(), part(), part()) {
        let mut play = game.start();
        play.introduction();
        drop(play.plan_within(50));
        if let Some(command) = play.admissible().first().cloned() {
            play.step(&command);
        }
    }
});
