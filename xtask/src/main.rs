//! `cargo xtask`: the one door to building, testing and running SEED.
//!
//! It only calls `cargo` and package clients; nothing of the product is linked in, so that it builds in seconds.

mod architecture;
mod fetch;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use xshell::{Shell, cmd};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The one door to building, testing and running SEED")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Train: builds the `seed` binary optimised and runs `seed train` with the arguments given
    #[command(disable_help_flag = true)]
    Train {
        /// Passed on to `seed train`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Make the quick start's base checkpoint anew, in data/tiny/base (`--recipe visual`: that of the example that sees): seeded,
    /// the same bytes on the same machine
    #[command(disable_help_flag = true)]
    Pretrain {
        /// Passed on to `seed pretrain`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Run everything CI runs: format, lints, docs, crate edges, all tests and doctests
    Test,
    /// Compile and lint without running tests
    Check {
        /// Also type-check the GPU backends (many minutes when cold)
        #[arg(long)]
        gpu: bool,
    },
    /// Run a benchmark, e.g. `bench core` or `bench envs alfworld --peer PYTHON`
    #[command(disable_help_flag = true)]
    Bench {
        /// Which crate's benchmark: core, model, envs, rollout, trainer
        what: String,
        /// Passed on to the benchmark
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Fetch artefacts by package name, check their hashes, unpack them under target/artefacts
    Fetch {
        /// What to fetch
        #[arg(value_enum)]
        what: fetch::Artefact,
    },
    /// Build the API documentation of the workspace
    Docs {
        /// Open it in a browser
        #[arg(long)]
        open: bool,
    },
}

fn main() {
    if let Err(error) = run(Cli::parse()) {
        eprintln!("error: {error:#}");
        std::process::exit(1);
    }
}

fn run(cli: Cli) -> Result<()> {
    let sh = Shell::new()?;
    sh.change_dir(project_root());
    match cli.task {
        // The trainer is the product; this only builds it optimised and passes everything on.
        Task::Train { args } => {
            // The run's manifest names the commit; outside of a checkout it says that it is not known.
            let commit = cmd!(sh, "git rev-parse HEAD").quiet().ignore_stderr().read().unwrap_or_default();
            let _commit = (!commit.is_empty()).then(|| sh.push_env("SEED_COMMIT", commit));
            Ok(cmd!(sh, "cargo run --release --package seed-cli --bin seed -- train {args...}").run()?)
        }
        Task::Pretrain { args } => {
            Ok(cmd!(sh, "cargo run --release --package seed-cli --bin seed -- pretrain {args...}").run()?)
        }
        Task::Test => test(&sh),
        Task::Check { gpu } => check(&sh, gpu),
        Task::Bench { what, args } => bench(&sh, &what, &args),
        Task::Fetch { what } => fetch::fetch(&sh, &artefacts_dir(), what),
        Task::Docs { open } => {
            let open = open.then_some("--open");
            Ok(cmd!(sh, "cargo doc --workspace --no-deps {open...}").run()?)
        }
    }
}

/// The workspace root: the parent of this package's folder.
fn project_root() -> PathBuf {
    // The running cargo's word first: the binary may come from a target folder that several clones share.
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.parent().expect("xtask lies in the workspace").to_path_buf()
}

/// Where fetched artefacts are kept: `SEED_ARTEFACTS`, else `target/artefacts` of this workspace.
fn artefacts_dir() -> PathBuf {
    std::env::var_os("SEED_ARTEFACTS").map_or_else(|| project_root().join("target/artefacts"), PathBuf::from)
}

/// Tests read real data through `SEED_SHARED`; a missing folder fails instead of skipping half of them.
fn shared_dir() -> Result<PathBuf> {
    let dir = std::env::var_os("SEED_SHARED").map_or_else(|| project_root().join("../shared"), PathBuf::from);
    let dir = dir.canonicalize().with_context(|| {
        format!("reference data: no folder at `{}`; set SEED_SHARED to the folder `shared`", dir.display())
    })?;
    if !dir.join("vectors/losses.json").is_file() {
        bail!("`{}` has no vectors/losses.json: SEED_SHARED points to the wrong folder", dir.display());
    }
    Ok(dir)
}

fn check(sh: &Shell, gpu: bool) -> Result<()> {
    cmd!(sh, "cargo fmt --all --check").run()?;
    architecture::check_edges(sh)?;
    cmd!(sh, "cargo clippy --workspace --all-targets -- -D warnings").run()?;
    if gpu {
        // burn's CUDA backend fetches LLVM from GitHub when it is built; types can be checked without.
        let _no_download = sh.push_env("DOCS_RS", "1");
        for backend in ["cuda", "wgpu"] {
            cmd!(sh, "cargo check --package seed-cli --no-default-features --features {backend}").run()?;
            cmd!(sh, "cargo check --package seed-cli --features {backend}").run()?;
        }
    }
    Ok(())
}

fn test(sh: &Shell) -> Result<()> {
    let shared = shared_dir()?;
    let _shared = sh.push_env("SEED_SHARED", &shared);
    let _artefacts = sh.push_env("SEED_ARTEFACTS", artefacts_dir());
    check(sh, false)?;
    {
        let _flags = sh.push_env("RUSTDOCFLAGS", "-D warnings");
        cmd!(sh, "cargo doc --workspace --no-deps").run()?;
    }
    // Tests that need a fetched artefact fail without it, so it is fetched first.
    for what in fetch::NEEDED_BY_TESTS {
        fetch::fetch(sh, &artefacts_dir(), *what)?;
    }
    cmd!(sh, "cargo test --workspace").run()?;
    Ok(())
}

fn bench(sh: &Shell, what: &str, args: &[String]) -> Result<()> {
    let package = format!("seed-{what}");
    if !sh.path_exists(format!("crates/{package}")) {
        bail!("no crate `{package}`; benchmarks exist for core, model, envs, rollout, trainer");
    }
    let _artefacts = sh.push_env("SEED_ARTEFACTS", artefacts_dir());
    cmd!(sh, "cargo bench --package {package} -- {args...}").run()?;
    Ok(())
}
