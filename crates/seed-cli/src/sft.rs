//! `seed sft`: stage 1 alone.

use crate::config::Selection;
use crate::failure::Failure;
use crate::progress::Terminal;
use clap::Args;
use seed_trainer::train;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    selection: Selection,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    // The same run as `seed train`, without updates: its checkpoint of update 0 is what stage 2 would start from.
    let resolved = arguments.selection.layers()?.set(["sft.enabled=true", "train.updates=0"])?.resolve()?;
    let finished = train::train(&resolved, &Terminal::new())?;
    println!("{}", finished.checkpoint.display());
    Ok(())
}
