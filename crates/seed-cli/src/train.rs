//! `seed train`: stage 1, stage 2, evaluation, report.

use crate::config::Selection;
use crate::failure::Failure;
use crate::progress::Terminal;
use crate::report;
use clap::Args;
use seed_trainer::config::{Config, Layers};
use seed_trainer::train::{self, Finished, Setup};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The quick start: what `seed train` does without a configuration file.
const QUICK_START: (&str, &str) =
    ("configs/quickstart.toml", include_str!("../../../configs/quickstart.toml"));

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    selection: Selection,
    /// Go on with a run that was stopped, from its newest checkpoint
    #[arg(long, value_name = "RUN", conflicts_with_all = ["config", "set"])]
    resume: Option<PathBuf>,
    /// Load and check everything, print what would be done, and stop
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let started = Instant::now();
    let terminal = Terminal::new();
    let finished = match &arguments.resume {
        Some(run) => train::resume(run, &terminal)?,
        None => {
            let mut layers = Layers::new();
            if arguments.selection.config.is_empty() {
                layers = layers.text(Path::new(QUICK_START.0), QUICK_START.1)?;
            }
            let resolved = arguments.selection.over(layers)?.resolve()?;
            if arguments.dry_run {
                return dry_run(resolved.config());
            }
            train::train(&resolved, &terminal)?
        }
    };
    finish(&finished, started)
}

/// The last words of a run: before and after, time, and where the report is.
fn finish(finished: &Finished, started: Instant) -> Result<(), Failure> {
    let share = |value: Option<f64>| value.map_or("not measured".into(), |v| format!("{:.1} %", v * 100.0));
    eprintln!(
        "success before {}, after {}; {:.0} s; checkpoint {}",
        share(finished.before),
        share(finished.after),
        started.elapsed().as_secs_f64(),
        finished.checkpoint.display(),
    );
    println!("{}", report::write(&finished.folder)?.display());
    Ok(())
}

/// Checks model folder, tokenizer, template, environment and panels, and estimates what a run takes.
fn dry_run(config: &Config) -> Result<(), Failure> {
    let setup = Setup::open(config)?.with_recordings()?;
    let check = setup.check()?;
    println!("{check}");
    Ok(())
}
