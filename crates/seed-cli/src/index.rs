//! `seed index`: what retrieval searches in, built once and kept as a file.

use crate::failure::Failure;
use crate::retrieval::{DenseArguments, load_encoder};
use crate::serve_retriever::profile;
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use seed_envs::search_qa::retriever::bm25::Bm25Index;
use seed_envs::search_qa::retriever::corpus::Corpus;
use seed_envs::search_qa::retriever::dense::{MatrixInfo, MatrixWriter, Precision, QueryEncoder};
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
    /// A matrix of passage vectors
    Dense {
        /// Passages as JSON lines, {"id": …, "contents": …}; may be given more than once
        #[arg(long, value_name = "FILE", required = true)]
        corpus: Vec<PathBuf>,
        /// The matrix
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// How numbers are stored: f32, f16 or int8
        #[arg(long, default_value = "f16")]
        precision: String,
        #[command(flatten)]
        dense: DenseArguments,
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
        Kind::Dense { corpus, out, precision, dense } => {
            let precision = Precision::by_name(precision).ok_or_else(|| {
                Failure::usage(format!("no precision `{precision}`; there are f32, f16 and int8"))
            })?;
            let corpus = Corpus::open(corpus)?;
            let encoder = load_encoder(dense)?;
            let name = encoder.folder().display().to_string();
            let info = MatrixInfo::new(corpus.len(), encoder.dims(), precision, corpus.fingerprint(), &name);
            let mut writer = MatrixWriter::create(out, info)?;
            let started = Instant::now();
            let bar = ProgressBar::new(corpus.len() as u64);
            let style = ProgressStyle::with_template("{pos} of {len} passages, {per_sec}, {eta} left");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            // Passages of like length share a pass of the model; a slice is also what is lost with a crash.
            const SLICE: usize = 512;
            for start in (0..corpus.len()).step_by(SLICE) {
                let numbers = start..corpus.len().min(start + SLICE);
                let texts = numbers.map(|number| Ok(corpus.document(number)?.contents));
                let texts: Vec<String> = texts.collect::<Result<_, Failure>>()?;
                let rows = encoder.passages(&texts).map_err(Failure::usage)?;
                for row in rows {
                    writer.push(&row)?;
                }
                bar.inc(texts.len() as u64);
            }
            bar.finish_and_clear();
            writer.finish()?;
            let seconds = started.elapsed().as_secs_f64();
            let rate = corpus.len() as f64 / seconds.max(1e-9);
            eprintln!("{}: {} passages, {rate:.1} a second", out.display(), corpus.len());
            Ok(())
        }
    }
}
