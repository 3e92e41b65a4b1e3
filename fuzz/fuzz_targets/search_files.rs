//! Any bytes as an index, a matrix and a question file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seed_envs::search_qa::dataset;
use seed_envs::search_qa::retriever::bm25::Bm25Index;
use seed_envs::search_qa::retriever::corpus::Corpus;
use seed_envs::search_qa::retriever::dense::Matrix;

fuzz_target!(|bytes: &[u8]| {
    let folder = std::env::temp_dir().join(format!("seed-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = |name: &str| {
        let path = folder.join(name);
        std::fs::write(&path, bytes).expect("written");
        path
    };
    let corpus = Corpus::open(&[file("corpus.jsonl")]).expect("mapped");
    for number in 0..corpus.len() {
        drop(corpus.document(number));
    }
    if let Ok(index) = Bm25Index::open(&file("index.bm25"), &corpus) {
        index.rank("the of a", 3);
    }
    if let Ok(matrix) = Matrix::open(&file("matrix.vec")) {
        matrix.search(&[vec![1.0; matrix.info().dims]], 3);
    }
    for name in ["train.jsonl", "train.parquet"] {
        drop(dataset::read(&file(name), Some("own")));
    }
});
