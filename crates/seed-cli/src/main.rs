//! The `seed` command.
//!
//! Each command is one file with its arguments and one `run`. Data goes to stdout, everything else to stderr.

#![deny(unsafe_code)]

/// Tensors come and go by the megabyte: the system's allocator gives each back to the kernel, which costs a fifth of an update.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The allocator gives hardly anything back to the kernel until the process ends, unless MIMALLOC_PURGE_DELAY says otherwise: an
/// update needs the pages of the one before, and the kernel would fill each with zeros again. Less time by a tenth, more memory
/// by an eighth.
#[expect(unsafe_code, reason = "the allocator's options have no safe setter")]
fn keep_pages() {
    use libmimalloc_sys::{mi_option_set_default, mi_option_t, mi_option_use_numa_nodes};
    // The crate names the option after it alone.
    const PURGE_DELAY: mi_option_t = mi_option_use_numa_nodes - 1;
    // SAFETY: an unsynchronised store of a number; `main` does it first, before there is another thread.
    unsafe {
        mi_option_set_default(PURGE_DELAY, -1);
    }
}

mod config;
mod eval;
mod failure;
mod import;
mod index;
mod plan;
mod play;
mod pretrain;
mod progress;
mod replay;
mod report;
mod retrieval;
mod rollout;
mod serve_retriever;
mod sft;
mod train;

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
    /// Train: stage 1, stage 2, evaluation, report. Without a configuration: the quick start
    Train(train::Arguments),
    /// Stage 1 alone: roll-outs, annotation, fine-tuning on hindsight skills
    Sft(sft::Arguments),
    /// Evaluate a model on the configured panels
    Eval(eval::Arguments),
    /// Record episodes of a model
    Rollout(rollout::Arguments),
    /// Print a recorded episode token by token
    Replay(replay::Arguments),
    /// Write the model of a GGUF file as a Hugging Face folder that a run can start from
    Import(import::Arguments),
    /// Make the quick start's base checkpoint anew
    #[command(hide = true)]
    Pretrain(pretrain::Arguments),
    /// Look at configurations: resolved values and their origins, keys, presets
    Config(config::Arguments),
    /// What a run would cost: parameters, arithmetic, bytes
    Plan(plan::Arguments),
    /// Play an environment in the terminal, by hand or by its expert
    Play(play::Arguments),
    /// Build what retrieval searches in: a BM25 index, or a matrix of passage vectors
    Index(index::Arguments),
    /// Serve passages over HTTP, in the protocols of Search-R1 and verl-agent
    ServeRetriever(serve_retriever::Arguments),
    /// Write a run's report.html
    Report(report::Arguments),
}

fn main() -> ExitCode {
    keep_pages();
    let result = match Cli::parse().command {
        Command::Train(arguments) => train::run(&arguments),
        Command::Sft(arguments) => sft::run(&arguments),
        Command::Eval(arguments) => eval::run(&arguments),
        Command::Rollout(arguments) => rollout::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Import(arguments) => import::run(&arguments),
        Command::Pretrain(arguments) => pretrain::run(&arguments),
        Command::Config(arguments) => config::run(&arguments),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Play(arguments) => play::run(&arguments),
        Command::Index(arguments) => index::run(&arguments),
        Command::ServeRetriever(arguments) => serve_retriever::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.print(),
    }
}
