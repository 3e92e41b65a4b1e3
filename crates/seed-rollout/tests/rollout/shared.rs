//! Where the reference data lies.

use std::path::PathBuf;

/// A path in the shared data; fails the test when it is not there.
pub(crate) fn shared(path: &str) -> PathBuf {
    let root = std::env::var_os("SEED_SHARED").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")),
        PathBuf::from,
    );
    let path = root.join(path);
    assert!(path.exists(), "{} is missing; set SEED_SHARED to the folder of the shared data", path.display());
    path
}
