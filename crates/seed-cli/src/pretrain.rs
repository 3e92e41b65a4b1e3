//! `seed pretrain`: the base checkpoints of the examples, made anew.

use crate::failure::Failure;
use crate::progress::Terminal;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Which checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Recipe {
    /// The quick start's: household, text
    Household,
    /// That of `configs/ezpoints-visual.toml`: EZPoints, pictures
    Visual,
    /// That of `configs/alfworld-tiny.toml`: ALFWorld's training games, text
    Alfworld,
}

#[derive(Args)]
pub(crate) struct Arguments {
    /// Folder to write; left out, the committed checkpoint's
    to: Option<PathBuf>,
    /// Which checkpoint
    #[arg(long, value_enum, default_value = "household")]
    recipe: Recipe,
    /// Folder of the tokenizer of the household recipe; the others make their own
    #[arg(long, default_value = "data/tiny")]
    tokenizer: PathBuf,
    /// Folder of the prompts; left out, that of the recipe's configuration
    #[arg(long)]
    prompts: Option<PathBuf>,
    /// Folder of ALFWorld's data; left out, what ALFWORLD_DATA names
    #[arg(long)]
    data: Option<PathBuf>,
    /// Demonstrations; 0: as many as the committed checkpoint
    #[arg(long, default_value_t = 0)]
    demonstrations: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    use seed_trainer::pretrain::{alfworld, pretrain, visual};
    let Arguments { to, recipe, tokenizer, prompts, data, demonstrations } = arguments;
    let (folder, default_prompts) = match recipe {
        Recipe::Household => ("data/tiny/base", ""),
        Recipe::Visual => ("data/tiny-visual/base", "configs/prompts/ezpoints_tiny"),
        Recipe::Alfworld => ("data/tiny-alfworld/base", "configs/prompts/alfworld_tiny"),
    };
    let to = to.clone().unwrap_or_else(|| PathBuf::from(folder));
    let prompts = prompts.clone().unwrap_or_else(|| PathBuf::from(default_prompts));
    let observer = Terminal::new();
    match recipe {
        Recipe::Household => pretrain(tokenizer, &to, *demonstrations, &observer)?,
        Recipe::Visual => visual::pretrain(&prompts, &to, *demonstrations, &observer)?,
        Recipe::Alfworld => alfworld::pretrain(data.as_deref(), &prompts, &to, *demonstrations, &observer)?,
    }
    println!("{}", to.display());
    Ok(())
}
