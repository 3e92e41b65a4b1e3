//! Where the reference data lies and how its records are read.

use serde_json::Value;
use sha2::{Digest, Sha256};
use std::path::PathBuf;

/// The workspace's folder.
pub(crate) fn workspace() -> PathBuf {
    // The running cargo's word first: the binary may come from a target folder that several clones share.
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.join("../..")
}

/// The folder `data/ezpoints` of the reference data.
pub(crate) fn data() -> PathBuf {
    let shared = std::env::var_os("SEED_SHARED").map_or_else(|| workspace().join("../shared"), PathBuf::from);
    let data = shared.join("data/ezpoints");
    assert!(data.is_dir(), "no folder {}: set SEED_SHARED to the folder `shared`", data.display());
    data
}

fn read(name: &str) -> String {
    let path = data().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn lines(name: &str) -> Vec<Value> {
    read(name).lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

pub(crate) fn json(name: &str) -> Value {
    serde_json::from_str(&read(name)).expect("JSON")
}

pub(crate) fn seed(record: &Value) -> u32 {
    record["seed"].as_u64().and_then(|seed| u32::try_from(seed).ok()).expect("a seed")
}

/// The index of a recorded action; −1 is none.
pub(crate) fn action(value: &Value) -> Option<usize> {
    usize::try_from(value.as_i64().expect("an action")).ok()
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Numbers that are whole are written without a point in some records.
pub(crate) fn same(ours: f64, recorded: &Value) -> bool {
    recorded.as_f64() == Some(ours)
}
