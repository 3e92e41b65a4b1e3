//! Writes the tokenizer of the quick start's tiny policy: `cargo run -p seed-envs --example tiny_tokenizer [FOLDER]`.
//!
//! The folder is `data/tiny` of the workspace unless one is named.

use seed_envs::household::vocabulary;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let workspace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/tiny");
    let folder = std::env::args().nth(1).map_or_else(|| PathBuf::from(workspace), PathBuf::from);
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
