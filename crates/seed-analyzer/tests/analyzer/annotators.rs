//! The server's annotator against a loopback server, and runs over many episodes.

use crate::episode;
use seed_analyzer::annotator::openai::{OpenaiAnnotator, OpenaiError, OpenaiOptions};
use seed_analyzer::annotator::run::{self, RunError};
use seed_analyzer::annotator::scripted::ScriptedAnnotator;
use seed_analyzer::{AnalyzerPrompt, AnnotateError, Annotator, PromptOptions};
use seed_envs::Trajectory;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What the server does with one request.
#[derive(Clone)]
enum Reply {
    /// Status, extra header lines, body.
    Status(u16, &'static str, String),
    /// Promise more bytes than are sent, then hang up.
    BreakOff,
    /// Never answer; the connection stays open until the server goes.
    Silence,
}

#[derive(Debug)]
struct Request {
    path: String,
    authorization: Option<String>,
    body: Value,
}

/// A server on a loopback port that plays back replies in the order of the requests; the last one repeats.
struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    fn start(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&requests);
        // The thread ends with the test process; it only ever waits for connections.
        std::thread::spawn(move || {
            let mut replies = VecDeque::from(replies);
            let mut silent = Vec::new();
            for stream in listener.incoming().flatten() {
                let Some(request) = read_request(&stream) else { continue };
                shared.lock().expect("no panic in the server").push(request);
                let reply = if replies.len() > 1 { replies.pop_front() } else { replies.front().cloned() };
                match reply {
                    Some(Reply::Silence) | None => silent.push(stream),
                    Some(reply) => answer(stream, &reply),
                }
            }
        });
        Self { address, requests }
    }

    fn options(&self) -> OpenaiOptions {
        OpenaiOptions {
            base_url: format!("http://{}/v1/", self.address),
            model: "test-model".into(),
            key_variable: String::new(),
            timeout_secs: 20.0,
            backoff_secs: 0.001,
            backoff_max_secs: 0.01,
            ..OpenaiOptions::default()
        }
    }

    fn annotator(&self, options: OpenaiOptions) -> OpenaiAnnotator {
        OpenaiAnnotator::new(options, AnalyzerPrompt::embedded("alfworld"), PromptOptions::default())
            .expect("ready")
    }

    fn count(&self) -> usize {
        self.requests.lock().expect("no panic in the server").len()
    }
}

fn read_request(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let (mut length, mut authorization) = (0, None);
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "authorization" => authorization = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { path, authorization, body: serde_json::from_slice(&body).ok()? })
}

fn answer(mut stream: TcpStream, reply: &Reply) {
    let text = match reply {
        Reply::Status(status, headers, body) => format!(
            "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n{body}",
            body.len()
        ),
        Reply::BreakOff => "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 500\r\n\r\n{\"cho".into(),
        Reply::Silence => return,
    };
    _ = stream.write_all(text.as_bytes());
}

fn completion(content: &str) -> Reply {
    let body = json!({
        "choices": [{"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20},
    });
    Reply::Status(200, "", body.to_string())
}

const GOOD: &str = r#"{"episode_summary": "s", "episode_skill": "open the fridge before you cool the mug"}"#;

fn fridge() -> Trajectory {
    episode(
        "alfworld",
        "cool some mug",
        &[("You see a fridge 1.", "open fridge 1", "open fridge 1")],
        "Open.",
        true,
    )
}

#[test]
fn a_good_answer_is_one_request() {
    let server = Server::start(vec![completion(GOOD)]);
    let options = OpenaiOptions { price_prompt: 2.0, price_completion: 10.0, ..server.options() };
    let annotator = server.annotator(options);
    let annotation = annotator.annotate(&fridge()).expect("a skill");
    assert_eq!(annotation.skill.episode_skill, "open the fridge before you cool the mug");
    assert_eq!(annotation.answer, GOOD);
    let requests = server.requests.lock().expect("no panic");
    assert_eq!(requests.len(), 1);
    let Request { path, authorization, body } = &requests[0];
    assert_eq!(path, "/v1/chat/completions");
    assert_eq!(*authorization, None);
    assert_eq!(body["model"], "test-model");
    assert_eq!(body["response_format"], json!({"type": "json_object"}));
    assert_eq!(
        (&body["temperature"], &body["max_tokens"], &body["seed"]),
        (&json!(0.0), &json!(4096), &json!(2026))
    );
    assert_eq!(body["messages"], json!([{"role": "user", "content": annotation.prompt}]));
    let usage = annotator.usage();
    assert_eq!((usage.requests, usage.prompt_tokens, usage.completion_tokens), (1, 100, 20));
    assert!((usage.cost - 0.0004).abs() < 1e-12);
}

#[test]
fn failures_of_the_line_are_tried_again() {
    let busy = Reply::Status(429, "retry-after: 0\r\n", r#"{"error": {"message": "slow down"}}"#.into());
    let server =
        Server::start(vec![busy, Reply::BreakOff, Reply::Status(503, "", "busy".into()), completion(GOOD)]);
    let annotator = server.annotator(server.options());
    annotator.annotate(&fridge()).expect("a skill at the fourth try");
    let usage = annotator.usage();
    assert_eq!((usage.requests, usage.transport_retries, usage.failed_transport), (4, 3, 0));
}

#[test]
fn tries_end() {
    let server = Server::start(vec![Reply::Status(500, "", r#"{"error": "broken"}"#.into())]);
    let annotator = server.annotator(OpenaiOptions { transport_tries: 3, ..server.options() });
    let error = annotator.annotate(&fridge()).expect_err("always broken");
    assert!(matches!(error, AnnotateError::Transport { tries: 3, .. }), "{error}");
    assert!(error.to_string().contains("status 500: broken"), "{error}");
    assert_eq!((server.count(), annotator.usage().failed_transport), (3, 1));
}

#[test]
fn silence_runs_into_the_time_out() {
    let server = Server::start(vec![Reply::Silence, completion(GOOD)]);
    let annotator = server.annotator(OpenaiOptions { timeout_secs: 0.3, ..server.options() });
    annotator.annotate(&fridge()).expect("the second try is answered");
    assert_eq!(annotator.usage().transport_retries, 1);
}

#[test]
fn nobody_there() {
    // A port that was free a moment ago and is closed again.
    let address = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let options = OpenaiOptions {
        base_url: format!("http://{address}/v1"),
        model: "m".into(),
        key_variable: String::new(),
        transport_tries: 2,
        backoff_secs: 0.0,
        ..OpenaiOptions::default()
    };
    let annotator = OpenaiAnnotator::new(options, AnalyzerPrompt::embedded("x"), PromptOptions::default())
        .expect("ready");
    let error = annotator.annotate(&fridge()).expect_err("nobody").to_string();
    assert!(error.contains(&address.to_string()) && error.contains("tried 2 times"), "{error}");
}

#[test]
fn a_bad_answer_is_asked_for_again_with_its_end() {
    let bad = format!("{}no object here", "x".repeat(3000));
    let server = Server::start(vec![completion(&bad), completion(GOOD)]);
    let annotator = server.annotator(server.options());
    let annotation = annotator.annotate(&fridge()).expect("a skill");
    let requests = server.requests.lock().expect("no panic");
    let second = requests[1].body["messages"][0]["content"].as_str().expect("text");
    assert!(second.starts_with(&annotation.prompt), "the first prompt comes first");
    assert!(second.contains("no JSON object in the answer"));
    assert!(second.contains(&bad[bad.len() - 2000..]) && !second.contains(&bad[bad.len() - 2001..]));
    assert!(second.trim_end().ends_with(r#"{"episode_summary": "...", "episode_skill": "..."}"#));
    assert!(!annotation.prompt.contains("last reply"), "the record keeps the plain prompt");
    assert_eq!(annotator.usage().parse_retries, 1);
}

#[test]
fn two_bad_answers_are_enough() {
    let server = Server::start(vec![completion("{}"), completion(r#"{"episode_skill": "..."}"#)]);
    let annotator = server.annotator(server.options());
    let error = annotator.annotate(&fridge()).expect_err("refused");
    assert!(matches!(error, AnnotateError::Rejected { attempts: 2, .. }), "{error}");
    assert_eq!(error.answer(), Some(r#"{"episode_skill": "..."}"#));
    assert_eq!((server.count(), annotator.usage().failed_rejected), (2, 1));

    let cut = json!({"choices": [{"message": {"content": "{\"episode_sk"}, "finish_reason": "length"}]});
    let server = Server::start(vec![Reply::Status(200, "", cut.to_string())]);
    let annotator = server.annotator(server.options());
    assert!(matches!(annotator.annotate(&fridge()), Err(AnnotateError::Unreadable { attempts: 2, .. })));
    let usage = annotator.usage();
    assert_eq!((usage.cut_answers, usage.failed_parse, usage.cost), (2, 1, 0.0));
}

#[test]
fn the_protocol_is_checked() {
    for (body, expected) in
        [("<html>", "is no JSON"), ("{}", "choices[0].message.content"), ("{\"choices\": []}", "choices[0]")]
    {
        let server = Server::start(vec![Reply::Status(200, "", body.into())]);
        let error = server.annotator(server.options()).annotate(&fridge()).expect_err("broken").to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(server.count(), 1, "asking again would not help");
    }
    // Some servers send the text in parts.
    let parts = json!({"choices": [{"message": {"content": [{"type": "text", "text": GOOD}]}}]});
    let server = Server::start(vec![Reply::Status(200, "", parts.to_string())]);
    server.annotator(server.options()).annotate(&fridge()).expect("a skill");
}

/// The key goes into one header and nowhere else: not into messages, even when the server repeats it.
#[test]
fn the_key_stays_hidden() {
    // The only test that needs a variable of its own: cargo sets this one for every test run.
    let variable = "CARGO_MANIFEST_DIR";
    let key = std::env::var(variable).expect("set by cargo");
    let complaint = json!({"error": {"message": format!("Incorrect API key provided: {key}.")}});
    let server = Server::start(vec![Reply::Status(401, "", complaint.to_string())]);
    let annotator = server.annotator(OpenaiOptions { key_variable: variable.into(), ..server.options() });
    assert!(!format!("{annotator:?}").contains(&key));
    let error = annotator.annotate(&fridge()).expect_err("refused");
    assert!(!error.to_string().contains(&key) && !format!("{error:?}").contains(&key), "{error}");
    assert!(error.to_string().contains("(key hidden)") && error.to_string().contains(variable), "{error}");
    let requests = server.requests.lock().expect("no panic");
    assert_eq!(requests[0].authorization.as_deref(), Some(format!("Bearer {key}").as_str()));
    assert!(!requests[0].body.to_string().contains(&key));
}

#[test]
fn wrong_settings_are_named() {
    let good = OpenaiOptions {
        base_url: "http://127.0.0.1:1/v1".into(),
        model: "m".into(),
        key_variable: String::new(),
        ..OpenaiOptions::default()
    };
    let refused = |options, expected: &str| {
        let error = OpenaiAnnotator::new(options, AnalyzerPrompt::embedded("x"), PromptOptions::default())
            .expect_err("refused")
            .to_string();
        assert!(error.contains(expected), "{error}");
    };
    refused(OpenaiOptions { base_url: String::new(), ..good.clone() }, "`base_url` is not set");
    refused(OpenaiOptions { model: String::new(), ..good.clone() }, "`model` is not set");
    refused(OpenaiOptions { base_url: "localhost:8000".into(), ..good.clone() }, "starts with http://");
    refused(OpenaiOptions { timeout_secs: 0.0, ..good.clone() }, "`timeout_secs` is 0");
    refused(OpenaiOptions { backoff_secs: f64::NAN, ..good.clone() }, "`backoff_secs` is NaN");
    refused(OpenaiOptions { transport_tries: 0, ..good.clone() }, "`transport_tries` is 0");
    refused(
        OpenaiOptions { key_variable: "SEED_NO_SUCH_KEY".into(), ..good.clone() },
        "SEED_NO_SUCH_KEY holds no key",
    );
    if !cfg!(feature = "https") {
        refused(OpenaiOptions { base_url: "https://example.invalid/v1".into(), ..good }, "--features https");
    }
    let unknown: Result<OpenaiOptions, _> = serde_json::from_str(r#"{"modle": "m"}"#);
    assert!(unknown.expect_err("unknown key").to_string().contains("modle"));
    let error = OpenaiError::Number { key: "parse_attempts", found: 0.0 };
    assert!(error.to_string().contains("parse_attempts"));
}

fn episodes(count: usize) -> Vec<(String, Trajectory)> {
    let episode = |at: usize| {
        let mut episode = fridge();
        episode.task.id = format!("task-{at}");
        (format!("task-{at}:0"), episode)
    };
    (0..count).map(episode).collect()
}

fn borrowed(episodes: &[(String, Trajectory)]) -> Vec<(String, &Trajectory)> {
    episodes.iter().map(|(id, episode)| (id.clone(), episode)).collect()
}

#[test]
fn a_run_is_resumed_where_it_was_killed() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let path = folder.path().join("annotations.jsonl");
    let episodes = episodes(8);
    let server = Server::start(vec![completion(GOOD)]);
    let annotator = server.annotator(server.options());
    let lines = run::annotate_all(&annotator, &borrowed(&episodes), 4, &path, |_| {}).expect("a whole run");
    assert_eq!(
        lines.iter().map(|line| line.id.as_str()).collect::<Vec<_>>(),
        episodes.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>()
    );
    assert!(lines.iter().all(|line| line.skill.is_some()));
    assert_eq!(server.count(), 8);

    // Killed in the middle of the sixth line.
    let text = std::fs::read(&path).expect("read");
    let ends: Vec<usize> =
        text.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    std::fs::write(&path, &text[..ends[4] + 10]).expect("cut");
    let mut last = run::Progress::default();
    let again = run::annotate_all(&annotator, &borrowed(&episodes), 2, &path, |progress| last = progress)
        .expect("resumed");
    assert_eq!(again, lines);
    assert_eq!(last, run::Progress { total: 8, resumed: 5, written: 3, failed: 0 });
    assert_eq!(server.count(), 11);
    // With everything there, nobody is asked.
    run::annotate_all(&annotator, &borrowed(&episodes), 2, &path, |_| panic!("nothing to do"))
        .expect("complete");
    assert_eq!(server.count(), 11);
}

#[test]
fn failures_are_lines_and_are_tried_in_the_next_run() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let path = folder.path().join("annotations.jsonl");
    let episodes = episodes(2);
    let bad = Server::start(vec![completion("no object")]);
    let annotator = bad.annotator(OpenaiOptions { parse_attempts: 1, ..bad.options() });
    let lines = run::annotate_all(&annotator, &borrowed(&episodes), 1, &path, |_| {}).expect("a whole run");
    assert!(lines.iter().all(|line| line.skill.is_none() && line.answer == "no object"));
    assert!(lines[0].error.as_deref().is_some_and(|error| error.contains("no JSON object")));

    let good = Server::start(vec![completion(GOOD)]);
    let lines = run::annotate_all(&good.annotator(good.options()), &borrowed(&episodes), 1, &path, |_| {})
        .expect("run");
    assert!(lines.iter().all(|line| line.skill.is_some() && line.error.is_none()));
    assert_eq!(good.count(), 2);
}

#[test]
fn a_wrong_key_stops_the_run_at_once() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let path = folder.path().join("annotations.jsonl");
    let episodes = episodes(50);
    let server = Server::start(vec![Reply::Status(401, "", r#"{"error": {"message": "bad key"}}"#.into())]);
    let annotator = server.annotator(server.options());
    let error = run::annotate_all(&annotator, &borrowed(&episodes), 2, &path, |_| {}).expect_err("stopped");
    assert!(matches!(error, RunError::Hopeless { .. }));
    let message = error.to_string();
    assert!(message.contains("bad key") && message.contains("set `key_variable`"), "{message}");
    assert!(server.count() < 50, "{} requests", server.count());
}

#[test]
fn files_that_cannot_be_used() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let episodes = episodes(2);
    let annotator = ScriptedAnnotator::for_environment("alfworld");
    let run = |episodes: &[(String, Trajectory)], path: &std::path::Path| {
        run::annotate_all(&annotator, &borrowed(episodes), 1, path, |_| {}).expect_err("refused").to_string()
    };
    let missing = folder.path().join("no/folder/a.jsonl");
    assert!(run(&episodes, &missing).contains("no/folder/a.jsonl"));
    let broken = folder.path().join("broken.jsonl");
    std::fs::write(&broken, "{\"id\": \"a\"}\nnot json\n").expect("written");
    assert!(run(&episodes, &broken).contains("broken.jsonl:2"));
    let twice = [episodes[0].clone(), episodes[0].clone()];
    assert!(run(&twice, &folder.path().join("twice.jsonl")).contains("`task-0:0`"));
    // Writing fails on a device that is always full.
    let full = std::path::Path::new("/dev/full");
    if full.exists() {
        let error = run(&episodes, full);
        assert!(error.contains("/dev/full"), "{error}");
    }
}

#[test]
fn an_episode_without_steps_is_an_error_of_its_own() {
    let mut empty = fridge();
    empty.steps.clear();
    let server = Server::start(vec![completion(GOOD)]);
    let annotator = server.annotator(server.options());
    assert!(matches!(annotator.annotate(&empty), Err(AnnotateError::NoSteps { .. })));
    assert_eq!(server.count(), 0);
}
