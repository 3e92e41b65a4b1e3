//! The committed tokenizer is what its recipe makes, and the world's words are whole tokens in it.

use regex::Regex;
use seed_envs::household::demonstration::{Demonstrator, Habits};
use seed_envs::household::{Household, vocabulary};
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

#[test]
fn the_committed_files_are_what_the_recipe_makes() {
    // The running cargo's word first: the binary may come from a target folder that several clones share.
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let folder = package.join("../../data/tiny");
    let files = [
        ("tokenizer.json", vocabulary::tokenizer_json()),
        ("tokenizer_config.json", vocabulary::tokenizer_config_json()),
    ];
    for (name, contents) in files {
        let committed = std::fs::read_to_string(folder.join(name)).expect("data/tiny is in the repository");
        let made = serde_json::to_string_pretty(&contents).expect("plain JSON") + "\n";
        assert!(committed == made, "{name} is old: run `cargo run -p seed-envs --example tiny_tokenizer`");
    }
}

#[test]
fn the_vocabulary_is_small_and_holds_every_byte_once() {
    let pieces = vocabulary::pieces();
    assert!(pieces.len() <= 1100, "{} pieces", pieces.len());
    assert_eq!(pieces.iter().collect::<HashSet<_>>().len(), pieces.len());
    assert!(pieces[..256].iter().all(|piece| piece.chars().count() == 1));
}

/// Everything that a policy reads or writes in this world, lessons included, is whole words.
#[test]
fn no_word_of_the_world_falls_apart() {
    let known: HashSet<String> = vocabulary::pieces().into_iter().collect();
    let cut = Regex::new(r" ?[\p{L}_]+| ?\p{N}| ?[^\s\p{L}\p{N}_]+|\s+").expect("a valid pattern");
    let base = Demonstrator::new(Household::default(), Habits::BASE, 5);
    let mut broken: BTreeMap<String, usize> = BTreeMap::new();
    for index in 0..300 {
        let made = base.guided(index).expect("the engine plays our games");
        let mut texts: Vec<String> =
            made.trajectory.steps.iter().map(|step| step.observation.clone()).collect();
        texts.extend(made.trajectory.steps.iter().map(|step| step.action.clone()));
        texts.push(made.trajectory.final_observation.clone());
        let skill = made.guidance.expect("our annotator always has something to say").skill;
        texts.extend([format!("skill: {skill}"), serde_json::json!({ "episode_skill": skill }).to_string()]);
        for piece in texts.iter().flat_map(|text| cut.find_iter(text)) {
            let piece = piece.as_str().replace(' ', "Ġ").replace('\n', "Ċ");
            if !known.contains(&piece) {
                *broken.entry(piece).or_default() += 1;
            }
        }
    }
    assert!(broken.is_empty(), "not in the vocabulary: {broken:?}");
}
