//! A package outside the workspace that depends on `seed-core` alone builds, runs and learns.

use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn a_strangers_project_trains_with_the_joint_objective() {
    // The running cargo's word first: the binary may come from a target folder that several clones share.
    let own = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let root = own.join("../..");
    let package = root.join("examples/external-crate");
    // The workspace's versions: nothing is downloaded.
    std::fs::copy(root.join("Cargo.lock"), package.join("Cargo.lock"))
        .expect("the workspace has a lock file");
    // A folder of its own, so that no other build waits for this one; the first run compiles burn without optimisation.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("external-crate");

    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "--offline", "--manifest-path"]).arg(package.join("Cargo.toml"));
    command.env("CARGO_TARGET_DIR", target);
    // What cargo tells this test about its own package is not meant for another one.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CARGO_PKG_")) {
        command.env_remove(name);
    }
    let output = command.output().expect("cargo starts");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");

    let probabilities: Vec<f64> = stdout.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [before, after] = probabilities[..] else { panic!("expected two probabilities, found `{stdout}`") };
    assert!((before - 0.2).abs() < 1e-3, "a uniform policy starts at 0.2, found {before}");
    assert!(after > 0.9, "the rewarded token ends at {after}");
}
