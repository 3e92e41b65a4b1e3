//! The reference data, found by `SEED_SHARED`.

use seed_envs::search_qa::retriever::bm25::{Bm25, Bm25Profile};
use seed_envs::search_qa::retriever::corpus::Corpus;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

pub(crate) fn data(file: &str) -> PathBuf {
    let root = std::env::var_os("SEED_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let path = root.join("data/search_qa").join(file);
    assert!(path.exists(), "{}: set SEED_SHARED to the shared folder", path.display());
    path
}

pub(crate) fn json(file: &str) -> Value {
    let text = std::fs::read_to_string(data(file)).expect("a readable file");
    serde_json::from_str(&text).expect("JSON")
}

pub(crate) fn lines(file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(data(file)).expect("a readable file");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(!lines.is_empty(), "{file} is empty");
    lines
}

#[track_caller]
pub(crate) fn text<'a>(record: &'a Value, key: &str) -> &'a str {
    record[key].as_str().unwrap_or_else(|| panic!("`{key}` is no text in {record}"))
}

#[track_caller]
pub(crate) fn texts(value: &Value) -> Vec<String> {
    let items = value.as_array().unwrap_or_else(|| panic!("no list: {value}"));
    items.iter().map(|item| item.as_str().expect("a text").to_owned()).collect()
}

/// Both corpora, first and second.
pub(crate) fn corpus(name: &str) -> Arc<Corpus> {
    let files: &[&str] = if name == "both" { &["wiki18_mini", "multihop_mini"] } else { &[name] };
    let paths: Vec<PathBuf> = files.iter().map(|file| data(&format!("{file}.jsonl"))).collect();
    Arc::new(Corpus::open(&paths).expect("a corpus"))
}

/// The index that the recorded episodes and HTTP examples were made with.
pub(crate) static PLAIN: LazyLock<Bm25> =
    LazyLock::new(|| Bm25::build(corpus("both"), Bm25Profile::PLAIN_LUCENE).expect("an index"));
