//! Any bytes as a retrieval request, and any text as an answer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seed_envs::search_qa::retriever::python::json_complaint;
use seed_envs::search_qa::retriever::wire::{Limits, answer_body, parse_answer, parse_request, request_body};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = parse_request(bytes, Limits::default()) {
        let again = request_body(request.form, &request.queries, request.top_k.unwrap_or(1)).to_string();
        let read = parse_request(again.as_bytes(), Limits::default()).expect("what we write can be read");
        assert_eq!(read.queries, request.queries);
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match serde_json::from_str(text) {
        Ok(answer) => {
            if let Ok(lists) = parse_answer(&answer) {
                let lists: Vec<_> = lists;
                drop(answer_body(lists, true));
            }
        }
        Err(_) => drop(json_complaint(text)),
    }
});
