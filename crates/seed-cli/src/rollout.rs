//! `seed rollout`: episodes of a model, recorded for `seed replay` and for training from files.

use crate::config::Selection;
use crate::failure::Failure;
use crate::progress::Terminal;
use clap::Args;
use seed_trainer::rollout;
use seed_trainer::train::Setup;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    selection: Selection,
    /// Groups to play
    #[arg(long, default_value_t = 16)]
    tasks: usize,
    /// Which groups: those of this update
    #[arg(long, default_value_t = 0)]
    update: u64,
    /// Where the episodes go; compressed when the name ends in `.zst`
    #[arg(long, value_name = "FILE", default_value = "rollouts.jsonl.zst")]
    out: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let resolved = arguments.selection.resolve()?;
    let terminal = Terminal::new();
    let setup = Setup::open(resolved.config())?;
    let stats = rollout::record(&setup, arguments.update, arguments.tasks, &arguments.out, &terminal)?;
    eprintln!(
        "{} episodes, {} won, {} sampled tokens in {:.1} s",
        stats.episodes,
        stats.won,
        stats.sampled_tokens,
        stats.elapsed.as_secs_f64(),
    );
    println!("{}", arguments.out.display());
    Ok(())
}
