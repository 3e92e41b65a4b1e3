//! Writes the tokenizer of the quick start's tiny policy: `cargo run -p seed-envs --example tiny_tokenizer [FOLDER]`.
//!
//! The folder is `data/tiny` of the workspace unless one is named.

use seed_envs::household::vocabulary;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The running cargo's word first: the binary may come from a target folder that several clones share.
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let folder = std::env::args().nth(1).map_or_else(|| package.join("../../data/tiny"), PathBuf::from);
    std::fs::create_dir_all(&folder)?;
    for (name, contents) in [
        ("tokenizer.json", vocabulary::tokenizer_json()),
        ("tokenizer_config.json", vocabulary::tokenizer_config_json()),
    ] {
        std::fs::write(folder.join(name), serde_json::to_string_pretty(&contents)? + "\n")?;
    }
    println!("{} pieces and {} added tokens", vocabulary::pieces().len(), 3 + vocabulary::TAGS.len());
    Ok(())
}
