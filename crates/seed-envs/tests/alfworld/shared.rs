//! Where the reference data lies and how its lines are read.

use seed_envs::alfworld::Game;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder `data/alfworld` of the reference data.
pub(crate) fn data() -> PathBuf {
    let shared = std::env::var_os("SEED_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let data = shared.join("data/alfworld");
    assert!(data.is_dir(), "no folder {}: set SEED_SHARED to the folder `shared`", data.display());
    data
}

/// The lines of a transcript file.
pub(crate) fn transcript(name: &str) -> Vec<Value> {
    let path = data().join("transcripts").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

pub(crate) fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_else(|| panic!("no text `{key}` in {value}"))
}

pub(crate) fn strings(value: &Value) -> Option<Vec<String>> {
    let list = value.as_array()?;
    Some(list.iter().map(|item| item.as_str().expect("a text").to_owned()).collect())
}

/// Compiles the game of a transcript.
pub(crate) fn game(id: &str) -> Arc<Game> {
    let path = data().join("games").join(id).join("game.tw-pddl");
    let file = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file: Value = serde_json::from_str(&file).expect("a game file");
    Game::from_texts(text(&file, "pddl_domain"), text(&file, "grammar"), text(&file, "pddl_problem"))
        .unwrap_or_else(|error| panic!("{id}: {error}"))
}
