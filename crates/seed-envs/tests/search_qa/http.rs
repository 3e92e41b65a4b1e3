//! The client against recorded failures, and against servers that die, stall and break off.

use crate::server::{Reply, Server};
use crate::shared::{PLAIN, json, text};
use proptest::prelude::*;
use seed_envs::search_qa::retriever::http::{HttpOptions, HttpOptionsError, HttpRetriever};
use seed_envs::search_qa::retriever::wire::{
    AnswerFault, Form, Limits, answer_body, parse_answer, parse_request, request_body,
};
use seed_envs::search_qa::retriever::{RetrievalError, Retriever};
use seed_envs::search_qa::{Question, SearchQa, SearchQaOptions};
use seed_envs::{EnvError, Suite};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn options(urls: Vec<String>) -> HttpOptions {
    HttpOptions { urls, ..HttpOptions::default() }
}

/// A client that writes down how long it would have waited.
fn client(options: HttpOptions) -> (HttpRetriever, Arc<Mutex<Vec<u64>>>) {
    let waits: Arc<Mutex<Vec<u64>>> = Arc::default();
    let list = waits.clone();
    let client = HttpRetriever::new(options).expect("good options");
    (client.with_sleep(move |wait| list.lock().expect("no panic").push(wait.as_secs())), waits)
}

/// Replaces what differs from run to run: the request id and the port.
fn anonymous(observation: &str, port: u16) -> String {
    let text = observation.replace(&format!(":{port}/"), ":<port>/");
    match text.split_once("[Search Request ID: ") {
        Some((before, after)) => {
            let (id, rest) = after.split_at(36);
            assert!(id.chars().filter(|c| *c == '-').count() == 4, "{id}");
            format!("{before}[Search Request ID: <uuid>{rest}")
        }
        None => text,
    }
}

#[test]
fn recorded_failures() {
    let ok = json("http_examples.json")["examples"][2]["response"].to_string();
    for record in json("tool_failures.json").as_array().expect("a list") {
        let kind = text(record, "server").to_owned();
        let body = ok.clone();
        let server = Server::start(move |number, _| match kind.as_str() {
            "flaky" if number < 2 => Reply::Status(503, "busy".into()),
            "ok" | "flaky" => Reply::Status(200, body.clone()),
            "empty" => Reply::Status(200, json!({"result": []}).to_string()),
            "empty_inner" => Reply::Status(200, json!({"result": [[]]}).to_string()),
            "missing" => Reply::Status(200, json!({"other": 1}).to_string()),
            "nodoc" => Reply::Status(200, json!({"result": [[{"id": "1", "contents": "x"}]]}).to_string()),
            "badjson" => Reply::Status(200, "this is no JSON".into()),
            status => {
                Reply::Status(status.parse().unwrap_or_else(|_| panic!("a new case {status}")), "no".into())
            }
        });
        let refused = text(record, "server") == "refused";
        // Nobody listens on the port of a server that is gone.
        let (port, url) = (server.port(), server.url());
        let server = (!refused).then_some(server);
        let (client, waits) = client(options(vec![url]));
        let question = Question {
            question: "Who founded Citibank?".into(),
            golden_answers: vec!["x".into()],
            data_source: "nq".into(),
            plan: Vec::new(),
        };
        let splits = vec![("test".to_owned(), vec![question])];
        let suite = SearchQa::new(splits, Arc::new(client), SearchQaOptions::verl_agent());
        let mut environment = suite.environment();
        environment.reset(&suite.tasks("test").expect("a split")[0], 0).expect("an episode");
        let step = environment.step("<search>Who founded Citibank?</search>").expect("a step");

        let seen = server.as_ref().map_or(0, Server::seen);
        assert_eq!(Some(seen as u64), record["requests_seen"].as_u64(), "{record}");
        assert_eq!(json!(*waits.lock().expect("no panic")), record["delays_s"], "{record}");
        let expected = text(record, "observation").trim().to_owned();
        let ours = anonymous(&step.observation.text, port);
        match expected.split_once("<client library text>") {
            Some((before, after)) => {
                assert!(ours.starts_with(before) && ours.ends_with(after), "{ours} for {expected}");
            }
            None => assert_eq!(ours, expected),
        }
        assert_eq!(Some(step.reward), record["reward"].as_f64(), "{record}");
        assert_eq!(Some(step.is_last()), record["done"].as_bool(), "{record}");
        assert_eq!(step.info.details["tool_calling"], record["tool_calling"], "{record}");
    }
}

#[test]
fn recorded_requests_and_answers() {
    for example in json("http_examples.json")["examples"].as_array().expect("a list") {
        let (sent, answer) = (&example["request"], &example["response"]);
        let request = parse_request(sent.to_string().as_bytes(), Limits::default()).expect("a good request");
        // Written again by our client, where it has all fields (the client always asks for scores).
        if request.return_scores {
            let top_k = request.top_k.expect("given");
            assert_eq!(&request_body(request.form, &request.queries, top_k), sent);
            let read = parse_answer(answer).expect("a good answer");
            assert_eq!(&answer_body(read, true), answer, "an answer survives reading and writing");
        }
        let found = PLAIN.search_batch(&request.queries, request.top_k.unwrap_or(3));
        let lists = found.into_iter().map(|found| found.expect("local").remove(0)).collect();
        let ours = answer_body(lists, request.return_scores);
        let (ours, theirs) =
            (ours["result"].as_array().expect("lists"), answer["result"].as_array().expect("lists"));
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours
            .iter()
            .flat_map(|l| l.as_array())
            .flatten()
            .zip(theirs.iter().flat_map(|l| l.as_array()).flatten())
        {
            if request.return_scores {
                assert_eq!(ours["document"], theirs["document"]);
                let score = |item: &Value| item["score"].as_f64().expect("a score");
                assert!((score(ours) - score(theirs)).abs() < 1e-4, "{ours} for {theirs}");
            } else {
                assert_eq!(ours, theirs);
            }
        }
    }
}

const FOUND: &str = r#"{"result": [[{"document": {"id": "1", "contents": "T\nx"}, "score": 2.5}]]}"#;

#[test]
fn a_server_that_is_killed_and_restarted_is_found_again() {
    let server = Server::start(|_, _| Reply::Status(200, FOUND.into()));
    let (port, url) = (server.port(), server.url());
    let client = HttpRetriever::new(options(vec![url.clone()])).expect("good options");
    let restarted: Arc<Mutex<Option<Server>>> = Arc::default();
    let place = restarted.clone();
    // It comes back while the client waits for its second attempt.
    let client = client.with_sleep(move |_| {
        let mut place = place.lock().expect("no panic");
        if place.is_none() {
            *place = Some(Server::on(port, |_, _| Reply::Status(200, FOUND.into())));
        }
    });
    assert_eq!(client.search("q", 3, 0).expect("found")[0][0].document.contents, "T\nx");
    drop(server);
    assert_eq!(client.search("q", 3, 0).expect("found again")[0][0].score, Some(2.5));
    assert!(restarted.lock().expect("no panic").is_some());
}

#[test]
fn what_broke_off_is_tried_again_where_that_is_wanted() {
    let broken = || Server::start(|_, _| Reply::Cut(FOUND.into(), 20));
    let good = Server::start(|_, _| Reply::Status(200, FOUND.into()));
    let server = broken();
    let (reference, waits) = client(options(vec![server.url(), good.url()]));
    let error = reference.search("q", 3, 0).expect_err("broken");
    assert!(matches!(&error, RetrievalError::Broken { url, .. } if *url == server.url()), "{error}");
    assert!(waits.lock().expect("no panic").is_empty() && server.seen() == 1);

    let (corrected, waits) =
        client(HttpOptions { urls: vec![server.url(), good.url()], ..HttpOptions::corrected() });
    corrected.search("q", 3, 0).expect("found at the next address");
    assert_eq!(*waits.lock().expect("no panic"), [1]);
    // Callers are dealt to the addresses in turn.
    corrected.search("q", 3, 1).expect("found at once");
    assert_eq!(waits.lock().expect("no panic").len(), 1);

    let hang_up = Server::start(|number, _| match number {
        0 => Reply::HangUp,
        _ => Reply::Status(200, FOUND.into()),
    });
    let (client, waits) = client(options(vec![hang_up.url()]));
    client.search("q", 3, 0).expect("found by the second attempt");
    assert_eq!(*waits.lock().expect("no panic"), [1]);
}

#[test]
fn a_slow_server_is_given_up() {
    let server = Server::start(|_, _| Reply::Slow(Duration::from_millis(600)));
    let slow = HttpOptions { timeout_secs: 0.1, attempts: 2, ..options(vec![server.url()]) };
    let (client, waits) = client(slow);
    let error = client.search("q", 3, 0).expect_err("too slow");
    assert!(matches!(error, RetrievalError::Timeout { attempts: 2, .. }), "{error}");
    assert!(error.to_string().contains("raise the time-out"), "{error}");
    assert_eq!(*waits.lock().expect("no panic"), [1]);
}

#[test]
fn a_rollout_stops_with_one_message_or_goes_on() {
    let server = Server::start(|_, _| Reply::Status(500, String::new()));
    let (client, _) = client(options(vec![server.url()]));
    let question = Question {
        question: "q?".into(),
        golden_answers: vec!["x".into()],
        data_source: "own".into(),
        plan: Vec::new(),
    };
    let splits = vec![("train".to_owned(), vec![question])];
    let suite = SearchQa::new(splits, Arc::new(client), SearchQaOptions::corrected());
    let mut environment = suite.environment();
    environment.reset(&suite.tasks("train").expect("a split")[0], 0).expect("an episode");
    let error = environment.step("<search>x</search>").expect_err("stopped");
    assert!(matches!(error, EnvError::Service { .. }));
    let message = error.to_string();
    assert!(
        message.contains(&server.url()) && message.contains("status 500") && message.contains("10 of 10"),
        "{message}"
    );
}

#[test]
fn batches_go_out_as_the_protocol_says() {
    let bodies: Arc<Mutex<Vec<Value>>> = Arc::default();
    let list = bodies.clone();
    let server = Server::start(move |_, body| {
        let body: Value = serde_json::from_str(body).expect("JSON");
        let count = body["queries"].as_array().map_or(1, Vec::len);
        list.lock().expect("no panic").push(body);
        Reply::Status(200, json!({"result": vec![json!([]); count]}).to_string())
    });
    let queries: Vec<String> = (0..5).map(|n| format!("q{n}")).collect();
    let (agent, _) = client(options(vec![server.url()]));
    assert!(agent.search_batch(&queries, 2).iter().all(|found| *found == Ok(vec![vec![]])));
    assert_eq!(bodies.lock().expect("no panic").drain(..).count(), 5);
    let (search_r1, _) = client(HttpOptions { form: Form::Queries, ..options(vec![server.url()]) });
    assert_eq!(search_r1.search_batch(&queries, 2).len(), 5);
    let sent = bodies.lock().expect("no panic").clone();
    assert_eq!(sent, [json!({"queries": queries, "topk": 2, "return_scores": true})]);
}

#[test]
fn options_that_make_no_sense_are_named() {
    let of = |change: fn(&mut HttpOptions)| {
        let mut options = HttpOptions::default();
        change(&mut options);
        HttpRetriever::new(options).expect_err("refused")
    };
    assert_eq!(of(|o| o.urls.clear()), HttpOptionsError::NoUrl);
    assert!(of(|o| o.urls = vec!["https://x".into()]).to_string().contains("https://x"));
    assert!(of(|o| o.timeout_secs = f64::NAN).to_string().contains("`timeout_secs`"));
    assert!(of(|o| o.delay_secs = -1.0).to_string().contains("`delay_secs`"));
    assert!(of(|o| o.attempts = 0).to_string().contains("`attempts`"));
}

#[test]
fn bad_requests_name_their_field() {
    let limits = Limits { top_k: 100, queries: 2 };
    for (body, field, found) in [
        ("", "body", "no JSON"),
        ("[]", "body", "a list"),
        ("{}", "query", "nothing"),
        (r#"{"query": 5}"#, "query", "a number"),
        (r#"{"query": "a", "queries": []}"#, "queries", "`query` and `queries`"),
        (r#"{"queries": "a"}"#, "queries", "a text"),
        (r#"{"queries": ["a", null]}"#, "queries", "null at place 1"),
        (r#"{"queries": ["a", "b", "c"]}"#, "queries", "3 queries"),
        (r#"{"query": "a", "topk": -1}"#, "topk", "-1"),
        (r#"{"query": "a", "topk": 2.5}"#, "topk", "2.5"),
        (r#"{"query": "a", "topk": 101}"#, "topk", "101"),
        (r#"{"query": "a", "return_scores": 1}"#, "return_scores", "a number"),
    ] {
        let refusal = parse_request(body.as_bytes(), limits).expect_err(body);
        assert_eq!(refusal.field, field, "{body}");
        assert!(refusal.found.contains(found), "{body}: {refusal}");
        let detail = refusal.body();
        let last = detail["detail"][0]["loc"].as_array().and_then(|place| place.last().cloned());
        assert_eq!(last, Some(json!(field)), "{detail}");
    }
    let request = parse_request(br#"{"query": "a", "topk": 0, "more": 1}"#, limits).expect("a good request");
    assert_eq!((request.top_k, request.return_scores), (None, false));
}

#[test]
fn malformed_answers_are_told_as_python_tells_them() {
    for (answer, complaint) in [
        (json!({"result": [[{"document": {"id": "1"}}]]}), "'contents'"),
        (json!({"result": [["text"]]}), "string indices must be integers, not 'str'"),
        (json!({"result": [[["x"]]]}), "list indices must be integers or slices, not str"),
        (json!({"result": [[7]]}), "'int' object is not subscriptable"),
        (json!({"result": [[{"document": null}]]}), "'NoneType' object is not subscriptable"),
        (json!({"result": [[{"document": {"contents": 1.5}}]]}), "'float' object has no attribute 'strip'"),
        (json!({"result": [3]}), "'int' object is not iterable"),
        (json!({"result": true}), "'bool' object is not iterable"),
        (json!([1]), "'list' object has no attribute 'get'"),
    ] {
        assert_eq!(parse_answer(&answer), Err(AnswerFault::Shape(complaint.to_owned())), "{answer}");
    }
    for nothing in [json!({}), json!({"result": null}), json!({"result": 0}), json!({"result": ""})] {
        assert_eq!(parse_answer(&nothing), Err(AnswerFault::NoResult), "{nothing}");
    }
}

proptest! {
    #[test]
    fn no_body_breaks_the_reader(body in "\\PC{0,40}|[\\[\\]{}\",:a-z0-9 ]{0,60}") {
        // Whatever is refused is refused with a field of the protocol.
        if let Err(refusal) = parse_request(body.as_bytes(), Limits::default()) {
            prop_assert!(["body", "query", "queries", "topk", "return_scores"].contains(&&*refusal.field));
        }
    }
}
