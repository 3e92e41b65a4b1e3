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
}

#[derive(Args)]
pub(crate) struct Arguments {
    /// Folder to write; left out, the committed checkpoint's
    to: Option<PathBuf>,
    /// Which checkpoint
    #[arg(long, value_enum, default_value = "household")]
    recipe: Recipe,
    /// Folder of the tokenizer; the visual recipe makes its own
    #[arg(long, default_value = "data/tiny")]
    tokenizer: PathBuf,
    /// Folder of the prompts of the visual recipe
    #[arg(long, default_value = "configs/prompts/ezpoints_tiny")]
    prompts: PathBuf,
    /// Demonstrations; 0: as many as the committed checkpoint
    #[arg(long, default_value_t = 0)]
    demonstrations: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    use seed_trainer::pretrain::{pretrain, visual};
    let Arguments { to, recipe, tokenizer, prompts, demonstrations } = arguments;
    let default = match recipe {
        Recipe::Household => "data/tiny/base",
        Recipe::Visual => "data/tiny-visual/base",
    };
    let to = to.clone().unwrap_or_else(|| PathBuf::from(default));
    match recipe {
        Recipe::Household => pretrain(tokenizer, &to, *demonstrations, &Terminal::new())?,
        Recipe::Visual => visual::pretrain(prompts, &to, *demonstrations, &Terminal::new())?,
    }
    println!("{}", to.display());
    Ok(())
}
