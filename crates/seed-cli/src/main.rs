//! The `seed` command.
//!
//! Each command is one file with its arguments and one `run`. Data goes to stdout, everything else to stderr.

#![forbid(unsafe_code)]

mod config;
mod failure;
mod play;
mod report;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "seed", version, about = "Self-evolving on-policy distillation for language-model agents")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Look at configurations: resolved values and their origins, keys, presets
    Config(config::Arguments),
    /// Play an environment in the terminal, by hand or by its expert
    Play(play::Arguments),
    /// Write a run's report.html
    Report(report::Arguments),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Config(arguments) => config::run(&arguments),
        Command::Play(arguments) => play::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.print(),
    }
}
