//! `seed serve-retriever`: passages over HTTP, in both public protocols.

mod server;

use crate::failure::Failure;
use crate::retrieval::{DenseArguments, load_encoder};
use clap::Args;
use seed_envs::search_qa::retriever::Retriever;
use seed_envs::search_qa::retriever::bm25::{Bm25, Bm25Profile};
use seed_envs::search_qa::retriever::corpus::Corpus;
use seed_envs::search_qa::retriever::dense::{Dense, Matrix};
use seed_envs::search_qa::retriever::memory::{Need, available_bytes};
use seed_envs::search_qa::retriever::wire::Limits;
use seed_envs::search_qa::{World, WorldOptions};
use server::ServerOptions;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::mpsc;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Passages as JSON lines, {"id": …, "contents": …}; may be given more than once. The embedded world if left out
    #[arg(long, value_name = "FILE")]
    corpus: Vec<PathBuf>,
    /// A saved BM25 index of these passages (`seed index bm25`); built in memory if left out
    #[arg(long, value_name = "FILE", conflicts_with = "matrix")]
    index: Option<PathBuf>,
    /// BM25 without a saved index: plain, stemmed or okapi
    #[arg(long, default_value = "plain", conflicts_with_all = ["index", "matrix"])]
    profile: String,
    /// Search by vectors: a matrix of these passages (`seed index dense`)
    #[arg(long, value_name = "FILE", requires = "encoder", requires = "corpus")]
    matrix: Option<PathBuf>,
    #[command(flatten)]
    dense: DenseArguments,
    /// The address to listen at; whoever can reach it can search
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
    /// The port; 0 takes a free one
    #[arg(long, default_value_t = 8000)]
    port: u16,
    /// Passages where a request names no number
    #[arg(long, default_value_t = 3)]
    top_k: usize,
    /// Highest `topk` of a request
    #[arg(long, default_value_t = 1000)]
    max_top_k: usize,
    /// Largest request body in KiB
    #[arg(long, default_value_t = 1024)]
    max_body_kib: usize,
    /// Searches at the same time; the number of cores if left out
    #[arg(long)]
    concurrency: Option<usize>,
    /// Requests that may wait for their turn; more are told to come again (503)
    #[arg(long, default_value_t = 1024)]
    queue: usize,
    /// Seconds that requests under way get when the server is stopped
    #[arg(long, default_value_t = 10)]
    grace_secs: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    for (flag, value) in [
        ("--top-k", arguments.top_k),
        ("--max-top-k", arguments.max_top_k),
        ("--max-body-kib", arguments.max_body_kib),
        ("--concurrency", arguments.concurrency.unwrap_or(1)),
    ] {
        if value == 0 {
            return Err(Failure::usage(format!("`{flag}` is 0, expected at least 1")));
        }
    }
    if arguments.top_k > arguments.max_top_k {
        let (top_k, max) = (arguments.top_k, arguments.max_top_k);
        return Err(Failure::usage(format!("`--top-k` is {top_k}, but `--max-top-k` is {max}")));
    }
    let retriever = load(arguments)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let options = ServerOptions {
        top_k: arguments.top_k,
        limits: Limits { top_k: arguments.max_top_k, ..Limits::default() },
        max_body_bytes: arguments.max_body_kib << 10,
        body_secs: 30,
        concurrency: arguments.concurrency.unwrap_or(cores),
        queue: arguments.queue,
        grace_secs: arguments.grace_secs,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let address = SocketAddr::new(arguments.host, arguments.port);
    let answered = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(address).await?;
        let stop = stopped()?;
        let bound = listener.local_addr()?;
        eprintln!("serving {} at http://{bound}/retrieve; stop with Ctrl-C", retriever.name());
        if !bound.ip().is_loopback() {
            eprintln!("warning: {bound} can be reached from other machines, and asks nobody for a password");
        }
        server::serve(listener, retriever, options, stop).await
    })?;
    // Searches that outlived their grace time hold threads; they are of use to nobody now.
    runtime.shutdown_background();
    eprintln!("stopped after {answered} searches");
    Ok(())
}

/// Waits for Ctrl-C or, where there is such a thing, a request to terminate.
fn stopped() -> std::io::Result<impl Future<Output = ()>> {
    let (told, mut hear) = mpsc::channel::<()>(2);
    #[cfg(unix)]
    {
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        let told = told.clone();
        tokio::spawn(async move {
            terminate.recv().await;
            let _ = told.send(()).await;
        });
    }
    tokio::spawn(async move {
        // Without a handler there is nothing to wait for, and the system ends the process by itself.
        if tokio::signal::ctrl_c().await.is_ok() {
            let _ = told.send(()).await;
        }
    });
    Ok(async move {
        let _ = hear.recv().await;
    })
}

/// Says what memory is needed, then loads.
fn load(arguments: &Arguments) -> Result<Arc<dyn Retriever>, Failure> {
    if arguments.corpus.is_empty() {
        if arguments.index.is_some() {
            return Err(Failure::usage(
                "`--index` needs the passages that it was made of: give --corpus".into(),
            ));
        }
        return Ok(Arc::new(World::new(WorldOptions::default()).retriever()?));
    }
    let need = Need::of(&arguments.corpus, arguments.index.as_deref(), arguments.matrix.as_deref())?;
    eprint!("{need}");
    if let Some(free) = available_bytes()
        && need.total() > free
    {
        eprintln!(
            "warning: {} MB are free. Mapped files that do not fit are read from the disk for each search, which is \
             slow: use a smaller precision, or one server for each part of the passages",
            free >> 20
        );
    }
    let corpus = Arc::new(Corpus::open(&arguments.corpus)?);
    eprintln!("{} passages", corpus.len());
    if let Some(matrix) = &arguments.matrix {
        let matrix = Arc::new(Matrix::open(matrix)?);
        let encoder = load_encoder(&arguments.dense)?;
        return Ok(Arc::new(Dense::new(corpus, matrix, Arc::new(encoder))?));
    }
    Ok(Arc::new(match &arguments.index {
        Some(index) => Bm25::open(corpus, index)?,
        None => Bm25::build(corpus, profile(&arguments.profile)?)?,
    }))
}

pub(crate) fn profile(name: &str) -> Result<Bm25Profile, Failure> {
    Bm25Profile::by_name(name).ok_or_else(|| {
        Failure::usage(format!("no BM25 profile `{name}`; there are plain, stemmed and okapi"))
    })
}
