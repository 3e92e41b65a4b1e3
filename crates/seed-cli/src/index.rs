//! `seed index`: what retrieval searches in, built once and kept as a file.

use crate::failure::Failure;
use crate::serve_retriever::profile;
use clap::{Args, Subcommand};
use seed_envs::search_qa::retriever::bm25::Bm25Index;
use seed_envs::search_qa::retriever::corpus::Corpus;
use std::path::PathBuf;
use std::time::Instant;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Subcommand)]
enum Kind {
    /// A BM25 index
    Bm25 {
        /// Passages as JSON lines, {"id": …, "contents": …}; may be given more than once
        #[arg(long, value_name = "FILE", required = true)]
        corpus: Vec<PathBuf>,
        /// The index
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// plain, stemmed or okapi
        #[arg(long, default_value = "plain")]
        profile: String,
    },
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.kind {
        Kind::Bm25 { corpus, out, profile: name } => {
            let profile = profile(name)?;
            let started = Instant::now();
            let index = Bm25Index::build(&Corpus::open(corpus)?, profile)?;
            index.save(out)?;
            eprintln!(
                "{}: {} passages, {} words, {} MB, {:.1} s",
                out.display(),
                index.passages(),
                index.terms(),
                index.bytes() >> 20,
                started.elapsed().as_secs_f64()
            );
            Ok(())
        }
    }
}
