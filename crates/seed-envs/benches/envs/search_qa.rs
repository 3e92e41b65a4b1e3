//! Search-QA: BM25 against `bm25s` in the same run, a million generated passages, dense search by precision, a server
//! under load.

use crate::clock::{processor_seconds, resident};
use crate::peer;
use rayon::prelude::*;
use seed_envs::household::stream::Stream;
use seed_envs::search_qa::retriever::Retriever;
use seed_envs::search_qa::retriever::bm25::{Bm25Index, Bm25Profile};
use seed_envs::search_qa::retriever::corpus::Corpus;
use seed_envs::search_qa::retriever::dense::{Matrix, MatrixInfo, MatrixWriter, Precision};
use seed_envs::search_qa::retriever::http::{HttpOptions, HttpRetriever};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Hits of a query.
const TOP_K: usize = 10;
/// Dimensions of E5-base.
const DIMS: usize = 768;
/// Passages of the 2018 Wikipedia dump.
const WIKI18: f64 = 21_015_324.0;

/// `[--peer PYTHON] [--passages N] [--rows N] [--folder FOLDER] [--load URL] [--clients N]`
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let (mut peer, mut load, mut clients) = (None, None, 64);
    let (mut passages, mut rows) = (1_000_000, 1_000_000);
    let mut folder = std::env::temp_dir();
    let mut rest = arguments.iter();
    while let Some(flag) = rest.next() {
        let value = rest.next().ok_or_else(|| format!("`{flag}` needs a value"))?;
        let number =
            || value.parse::<usize>().map_err(|_| format!("`{flag}` is {value:?}, expected a number"));
        match flag.as_str() {
            "--peer" => peer = Some(value.clone()),
            "--passages" => passages = number()?,
            "--rows" => rows = number()?,
            "--folder" => folder = PathBuf::from(value),
            "--load" => load = Some(value.clone()),
            "--clients" => clients = number()?.max(1),
            _ => {
                return Err(format!(
                    "unknown option {flag}; there are --peer, --passages, --rows, --folder, --load, --clients"
                ));
            }
        }
    }
    let data = data()?;
    let questions = std::fs::read_to_string(data.join("qa.jsonl")).map_err(|error| error.to_string())?;
    let questions: Vec<String> = questions
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok()?["question"].as_str().map(str::to_owned))
        .collect();
    if let Some(url) = load {
        return server(&url, clients, &questions);
    }
    let work = folder.join(format!("seed-bench-search-qa-{}", std::process::id()));
    std::fs::create_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))?;
    let result = (|| {
        let real = ["wiki18_mini.jsonl", "multihop_mini.jsonl"].map(|file| data.join(file));
        for (name, profile) in [("plain", Bm25Profile::PLAIN_LUCENE), ("stemmed", Bm25Profile::STEM_LUCENE)] {
            lexical(&format!("9,944 passages, {name}"), &real, profile, &questions, peer.as_deref(), &work)?;
        }
        if passages > 0 {
            let (file, queries) = generated(&work, passages)?;
            let name = format!("{passages} generated passages, plain");
            lexical(&name, &[file], Bm25Profile::PLAIN_LUCENE, &queries, peer.as_deref(), &work)?;
        }
        if rows > 0 { dense(&work, rows) } else { Ok(()) }
    })();
    let _ = std::fs::remove_dir_all(&work);
    result
}

fn data() -> Result<PathBuf, String> {
    let shared = std::env::var_os("SEED_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let data = shared.join("data/search_qa");
    if data.is_dir() { Ok(data) } else { Err(format!("no folder {}: set SEED_SHARED", data.display())) }
}

/// Writes passages of drawn words, frequent ones far more often than rare ones, and makes queries of the same kind.
fn generated(work: &Path, passages: usize) -> Result<(PathBuf, Vec<String>), String> {
    const WORDS: f64 = 300_000.0;
    let mut draws = Stream::new("benchmark passages", &[0]);
    // The share of the r-th word falls like 1/r, as in natural text.
    let word = |draws: &mut Stream| (WORDS.powf(draws.unit()) - 1.0) as u32;
    let path = work.join("generated.jsonl");
    let file = std::fs::File::create(&path).map_err(|error| error.to_string())?;
    let mut out = std::io::BufWriter::with_capacity(1 << 20, file);
    let mut text = String::new();
    for passage in 0..passages {
        text.clear();
        for _ in 0..40 + draws.below(40) {
            text.push_str(&format!(" w{}", word(&mut draws)));
        }
        writeln!(out, "{{\"id\": \"{passage}\", \"contents\": \"t{passage}\\n{}\"}}", &text[1..])
            .map_err(|error| error.to_string())?;
    }
    out.flush().map_err(|error| error.to_string())?;
    let query = |_| {
        let words: Vec<String> = (0..5 + draws.below(6)).map(|_| format!("w{}", word(&mut draws))).collect();
        words.join(" ")
    };
    Ok((path, (0..200).map(query).collect()))
}

fn lexical(
    name: &str,
    files: &[PathBuf],
    profile: Bm25Profile,
    queries: &[String],
    peer: Option<&str>,
    work: &Path,
) -> Result<(), String> {
    let text = |error: seed_envs::EnvError| error.to_string();
    println!("BM25, {name}, {} queries", queries.len());
    let start = Instant::now();
    let corpus = Corpus::open(files).map_err(text)?;
    println!("  mapping the passages                         {:10.3} s", start.elapsed().as_secs_f64());
    let start = Instant::now();
    let index = Bm25Index::build(&corpus, profile).map_err(text)?;
    let build = start.elapsed().as_secs_f64();
    println!("  building the index, all cores                {build:10.3} s");
    println!(
        "  {} words, index of                      {:10.1} MB",
        index.terms(),
        index.bytes() as f64 / 1e6
    );
    let saved = work.join("index.bm25");
    let start = Instant::now();
    index.save(&saved).map_err(text)?;
    println!("  writing it                                   {:10.3} s", start.elapsed().as_secs_f64());
    drop(index);
    let start = Instant::now();
    let index = Bm25Index::open(&saved, &corpus).map_err(text)?;
    println!("  mapping it                                   {:10.6} s", start.elapsed().as_secs_f64());
    let ranks = |query: &String| index.rank(query, TOP_K);
    // Once to bring the file into memory.
    let found: Vec<Vec<(usize, f64)>> = queries.par_iter().map(ranks).collect();
    let rounds = (2000 / queries.len()).max(1);
    let (start, cpu) = (Instant::now(), processor_seconds());
    for query in (0..rounds).flat_map(|_| queries) {
        std::hint::black_box(ranks(query));
    }
    let asked = (rounds * queries.len()) as f64;
    let (wall, cpu) = (start.elapsed().as_secs_f64(), processor_seconds() - cpu);
    println!("  queries per CPU second, one thread           {:10.0}", asked / cpu);
    println!("  queries per second, one thread               {:10.0}", asked / wall);
    let start = Instant::now();
    (0..rounds).for_each(|_| queries.par_iter().for_each(|query| drop(std::hint::black_box(ranks(query)))));
    println!("  queries per second, all cores                {:10.0}", asked / start.elapsed().as_secs_f64());
    if let Some(bytes) = resident() {
        println!("  resident memory of the process               {:10.1} MB", bytes as f64 / 1e6);
    }
    let Some(python) = peer else { return Ok(()) };

    let stem = profile == Bm25Profile::STEM_LUCENE;
    let task = json!({"corpus": files, "queries": queries, "k": TOP_K, "stem": stem});
    let hint = "`pip install bm25s==0.3.16 PyStemmer==3.1.0` there";
    let result = peer::run(python, include_str!("search_qa_peer.py"), &task, hint)?;
    let (their_build, their_query) =
        (peer::number(&result, "index_wall")?, peer::number(&result, "query_cpu")?);
    let their_rate = queries.len() as f64 / their_query;
    println!("  bm25s: building {their_build:.3} s, queries per CPU second {their_rate:.0}");
    println!("  ratio, queries per CPU second                {:10.1}x", asked / cpu / their_rate);
    println!("  ratio, building on the clock                 {:10.1}x", their_build / build);
    let id = |&(passage, _): &(usize, f64)| corpus.document(passage).map(|document| document.id);
    let ids = |found: &Vec<(usize, f64)>| found.iter().map(id).collect::<Result<Value, _>>();
    let ours: Vec<Value> = found.iter().map(ids).collect::<Result<_, _>>().map_err(text)?;
    let (compared, different) = peer::compare(&ours, peer::list(&result, "top")?);
    let equal = compared - different;
    println!("  equal lists of {TOP_K} (bm25s sums in single precision) {equal} of {}", queries.len());
    Ok(())
}

fn dense(work: &Path, rows: usize) -> Result<(), String> {
    let text = |error: seed_envs::EnvError| error.to_string();
    println!("dense search, {rows} generated rows of {DIMS}, exact; the whole of wiki-18 computed from it");
    let mut draws = Stream::new("benchmark vectors", &[0]);
    let mut vector = || -> Vec<f32> { (0..DIMS).map(|_| draws.unit() as f32 * 0.12 - 0.06).collect() };
    // A row is a mixture of two of these, which is as good as drawn and a hundred times cheaper.
    let seeds: Vec<Vec<f32>> = (0..64).map(|_| vector()).collect();
    let queries: Vec<Vec<f32>> = (0..32).map(|_| vector()).collect();
    for precision in [Precision::F32, Precision::F16, Precision::Int8] {
        let path = work.join("matrix.vec");
        let mut writer = MatrixWriter::create(&path, MatrixInfo::new(rows, DIMS, precision, 0, "generated"))
            .map_err(text)?;
        let mut row = vec![0.0; DIMS];
        for number in 0..rows {
            let (a, b) = (&seeds[number % 64], &seeds[number / 64 % 64]);
            let share = (number % 1009) as f32 / 1009.0;
            row.iter_mut().zip(a).zip(b).for_each(|((out, a), b)| *out = a * share + b * (1.0 - share));
            writer.push(&row).map_err(text)?;
        }
        writer.finish().map_err(text)?;
        let matrix = Matrix::open(&path).map_err(text)?;
        let bytes = matrix.info().bytes().unwrap_or_default() as f64;
        let start = Instant::now();
        let first = matrix.search(&queries[..1], TOP_K);
        let cold = start.elapsed().as_secs_f64();
        let mut times: Vec<f64> = queries[..8]
            .iter()
            .map(|query| {
                let start = Instant::now();
                std::hint::black_box(matrix.search(std::slice::from_ref(query), TOP_K));
                start.elapsed().as_secs_f64()
            })
            .collect();
        times.sort_by(f64::total_cmp);
        let start = Instant::now();
        let batch = matrix.search(&queries, TOP_K);
        let together = start.elapsed().as_secs_f64() / queries.len() as f64;
        if batch[0] != first[0] {
            return Err("a batch gives another list than its queries alone".to_owned());
        }
        let scale = WIKI18 / rows as f64;
        println!(
            "  {precision:?}: {:.2} GB, one query {:.3} s (first {cold:.3}), in a batch of 32 {together:.4} s each, {:.1} GB/s; \
             wiki-18: {:.1} GB, one query {:.2} s, in a batch {:.3} s",
            bytes / 1e9,
            times[4],
            bytes / times[4] / 1e9,
            bytes * scale / 1e9,
            times[4] * scale,
            together * scale
        );
    }
    Ok(())
}

/// Many clients at once against a running server; every request must be answered.
fn server(url: &str, clients: usize, questions: &[String]) -> Result<(), String> {
    const EACH: usize = 100;
    let options = HttpOptions { urls: vec![url.to_owned()], attempts: 1, ..HttpOptions::default() };
    let start = Instant::now();
    let ask = |client: usize| -> Result<Vec<f64>, String> {
        let retriever = HttpRetriever::new(options.clone()).map_err(|error| error.to_string())?;
        let times = (0..EACH).map(|number| {
            let question = &questions[(client * EACH + number) % questions.len()];
            let start = Instant::now();
            retriever.search(question, 3, client).map_err(|error| error.to_string())?;
            Ok(start.elapsed().as_secs_f64() * 1e3)
        });
        times.collect()
    };
    let results: Vec<Result<Vec<f64>, String>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients).map(|client| scope.spawn(move || ask(client))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err("panic".into()))
        };
        threads.into_iter().map(join).collect()
    });
    let wall = start.elapsed().as_secs_f64();
    let dropped = results.iter().filter(|result| result.is_err()).count();
    let mut times: Vec<f64> = results.iter().flatten().flatten().copied().collect();
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times.get((times.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN);
    println!("{clients} clients, {EACH} requests each, one after the other: {} answered", times.len());
    println!("  requests per second                          {:10.0}", times.len() as f64 / wall);
    println!("  latency p50                                  {:10.2} ms", at(0.5));
    println!("  latency p99                                  {:10.2} ms", at(0.99));
    println!("  clients whose request failed                 {dropped:10}");
    if let Some(error) = results.into_iter().find_map(Result::err) {
        return Err(error);
    }
    Ok(())
}
