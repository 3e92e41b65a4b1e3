//! `seed replay`: a recorded episode token by token.

use crate::config::Selection;
use crate::failure::Failure;
use clap::Args;
use seed_rollout::record::Reader;
use seed_rollout::replay::{ReplayOptions, token_table, verify};
use seed_trainer::world::World;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Recorded episodes: a file of `rollouts/`, or what `seed rollout` wrote
    file: PathBuf,
    /// Which episode of the file, from 0
    #[arg(default_value_t = 0)]
    episode: usize,
    /// The run's configuration is taken when left out
    #[command(flatten)]
    selection: Selection,
    /// Show the tokens of the environment one by one too
    #[arg(long)]
    context: bool,
    /// Show the text of each prompt
    #[arg(long)]
    prompts: bool,
    /// Play the actions again and compare every answer of the environment
    #[arg(long)]
    verify: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut selection = arguments.selection.clone();
    // `RUN/rollouts/step-N.jsonl.zst` lies two folders below the run's own configuration.
    let of_run = arguments.file.parent().and_then(Path::parent).map(|run| run.join("config.toml"));
    if let (true, Some(config)) = (selection.config.is_empty(), of_run.filter(|config| config.is_file())) {
        selection.config.push(config);
    }
    let resolved = selection.resolve()?;
    let world = World::open(resolved.config(), Path::new(&resolved.config().model.path))?;
    let mut reader = Reader::open(&arguments.file)?;
    let Some(episode) = reader.nth(arguments.episode) else {
        let message = format!("{} has no episode {}", arguments.file.display(), arguments.episode);
        return Err(Failure::usage(message));
    };
    let episode = episode?;
    if arguments.verify {
        let steps = verify(&episode, world.suite.as_ref())?;
        eprintln!("{steps} steps answered as recorded");
    }
    let options = ReplayOptions { context_tokens: arguments.context, prompts: arguments.prompts };
    print!("{}", token_table(&episode, &world.dialogue, options)?);
    Ok(())
}
