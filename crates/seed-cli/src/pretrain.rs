//! `seed pretrain`: the quick start's base checkpoint, made anew.

use crate::failure::Failure;
use crate::progress::Terminal;
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Folder to write
    #[arg(default_value = "data/tiny/base")]
    to: PathBuf,
    /// Folder of the tokenizer
    #[arg(long, default_value = "data/tiny")]
    tokenizer: PathBuf,
    /// Demonstrations; 0: as many as the committed checkpoint
    #[arg(long, default_value_t = 0)]
    demonstrations: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { to, tokenizer, demonstrations } = arguments;
    seed_trainer::pretrain::pretrain(tokenizer, to, *demonstrations, &Terminal::new())?;
    println!("{}", to.display());
    Ok(())
}
