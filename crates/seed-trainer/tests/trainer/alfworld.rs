//! Real ALFWorld games through the trainer: the committed base of `configs/alfworld-tiny.toml`, and its recipe.

use crate::policy::{shared, workspace};
use seed_trainer::config::Layers;
use seed_trainer::observer::Silent;
use seed_trainer::pretrain::alfworld::pretrain;
use seed_trainer::train::{Finished, train};
use std::path::{Path, PathBuf};

fn data() -> PathBuf {
    shared().join("data/alfworld")
}

/// The first evaluation of a run with this base, and nothing after it.
fn evaluated(base: &Path, games: usize) -> Finished {
    let runs = tempfile::tempdir().unwrap();
    let sets = [
        format!("runs_dir={}", runs.path().display()),
        format!("env.data={}", data().display()),
        format!("env.prompts={}", workspace().join("configs/prompts/alfworld_tiny").display()),
        format!("model.path={}", base.display()),
        format!("eval.games={games}"),
        "eval.splits=[\"valid_unseen\"]".into(),
        "method=grpo".into(),
        "train.updates=0".into(),
    ];
    let example = workspace().join("configs/alfworld-tiny.toml");
    let layers = Layers::new().file(&example).unwrap().set(sets).unwrap();
    train(&layers.resolve().unwrap(), &Silent).unwrap()
}

#[test]
fn the_committed_base_wins_some_unseen_games_and_not_many() {
    // All 134 of them: of a few dozen it may win next to none.
    let success = evaluated(&workspace().join("data/tiny-alfworld/base"), 0).before.unwrap();
    assert!((0.1..0.35).contains(&success), "{success} of the unseen games");
}

#[test]
fn the_recipe_writes_a_base_with_words_of_the_games() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().join("base");
    let prompts = workspace().join("configs/prompts/alfworld_tiny");
    pretrain(Some(&data()), &prompts, &base, 24, &Silent).unwrap();
    let tokenizer = seed_model::Tokenizer::load(&base).unwrap();
    let text = "<action>go to countertop 1</action>";
    let ids = tokenizer.encode(text).unwrap();
    assert_eq!((ids.len(), tokenizer.decode(&ids).unwrap().as_str()), (6, text));
    evaluated(&base, 2);
}
