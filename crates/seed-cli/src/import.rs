//! `seed import`: a GGUF file as a Hugging Face folder.

use crate::failure::Failure;
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Arguments {
    /// GGUF file of a Llama-shaped model with its tokenizer and chat template
    file: PathBuf,
    /// Folder to write: config.json, safetensors, tokenizer, chat template
    to: PathBuf,
}

pub(crate) fn run(Arguments { file, to }: &Arguments) -> Result<(), Failure> {
    seed_trainer::import::gguf(file, to)?;
    println!("{}", to.display());
    Ok(())
}
