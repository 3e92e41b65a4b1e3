//! Any text as an answer, a response, a query and a passage.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seed_envs::projection::Projection;
use seed_envs::search_qa::retriever::bm25::{Bm25Index, Bm25Profile};
use seed_envs::search_qa::retriever::corpus::Corpus;
use seed_envs::search_qa::retriever::Document;
use seed_envs::search_qa::scoring::{FormatScore, check_sequence, normalize, token_f1};
use seed_envs::search_qa::{Protocol, protocol};

fuzz_target!(|text: &str| {
    let normal = normalize(text);
    assert!(!normal.contains("  "));
    drop(check_sequence(text));
    FormatScore::default().score_response(text, 1, &[text]);
    assert!(token_f1(text, &[text]) <= 1.0);
    for projection in [Projection::SearchQa, Projection::SearchR1] {
        let action = projection.project(text).action;
        Protocol::VerlAgent.request(&action.command());
        Protocol::SearchR1.request(&action.command());
    }
    assert!(text.starts_with(protocol::cut_response(text)));
    let passages: Vec<Document> = text
        .split('\n')
        .map(|line| Document { id: String::new(), contents: line.to_owned(), other: Default::default() })
        .collect();
    let corpus = Corpus::from_documents(&passages);
    for profile in [Bm25Profile::PLAIN_LUCENE, Bm25Profile::STEM_LUCENE, Bm25Profile::PLAIN_OKAPI] {
        let index = Bm25Index::build(&corpus, profile).expect("well-formed rows");
        assert!(index.rank(text, 3).len() <= 3);
    }
});
