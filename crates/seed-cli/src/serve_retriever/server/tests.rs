//! The server on a free loopback port: both protocols, bad input, limits, load, stopping.

use super::*;
use seed_envs::search_qa::retriever::http::{HttpOptions, HttpRetriever};
use seed_envs::search_qa::retriever::{Document, Hit};
use seed_envs::search_qa::{World, WorldOptions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::thread::JoinHandle;

fn options() -> ServerOptions {
    ServerOptions {
        top_k: 3,
        limits: Limits::default(),
        max_body_bytes: 1 << 16,
        body_secs: 5,
        concurrency: 2,
        queue: 1024,
        grace_secs: 10,
    }
}

/// A running server; stopped by `stop`, or when it is dropped.
struct Running {
    address: SocketAddr,
    ask: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<std::io::Result<usize>>>,
}

impl Running {
    fn start(retriever: Arc<dyn Retriever>, options: ServerOptions) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("for tokio");
        let address = listener.local_addr().expect("an address");
        let (ask, asked) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener)?;
                serve(listener, retriever, options, async { drop(asked.await) }).await
            })
        });
        Self { address, ask: Some(ask), thread: Some(thread) }
    }

    fn url(&self) -> String {
        format!("http://{}/retrieve", self.address)
    }

    fn ask_to_stop(&mut self) {
        if let Some(ask) = self.ask.take() {
            let _ = ask.send(());
        }
    }

    fn stop(mut self) -> usize {
        self.ask_to_stop();
        let thread = self.thread.take().expect("running");
        thread.join().expect("no panic").expect("a clean end")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.ask_to_stop();
    }
}

/// Sends bytes and returns status and body of the answer.
fn send(address: SocketAddr, request: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.write_all(request).expect("sent");
    let mut text = Vec::new();
    stream.read_to_end(&mut text).expect("answered");
    let text = String::from_utf8_lossy(&text).into_owned();
    let status =
        text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("{text:?}"));
    let body = text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
    (status, body)
}

fn post(address: SocketAddr, body: &str) -> (u16, String) {
    let head = format!(
        "POST /retrieve HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    send(address, format!("{head}{body}").as_bytes())
}

fn world() -> Arc<dyn Retriever> {
    Arc::new(World::new(WorldOptions { seed: 3, towns: 10 }).retriever().expect("an index"))
}

#[test]
fn both_protocols_give_the_same_passages() {
    let retriever = world();
    let server = Running::start(retriever.clone(), options());
    let expected = retriever.search("bridge designed", 3, 0).expect("local");
    let (status, body) = post(server.address, r#"{"query": "bridge designed", "return_scores": true}"#);
    assert_eq!((status, body), (200, answer_body(expected.clone(), true).to_string()));
    let (status, body) = post(server.address, r#"{"queries": ["bridge designed", "zzz"], "topk": 2}"#);
    let two = vec![expected[0][..2].to_vec(), Vec::new()];
    assert_eq!((status, body), (200, answer_body(two, false).to_string()));
    let (status, body) =
        send(server.address, b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert_eq!(status, 200);
    assert!(body.contains("\"answered\":2") && body.contains("bm25"), "{body}");

    // Through our own client, in both forms.
    let http = HttpOptions { urls: vec![server.url()], ..HttpOptions::default() };
    for form in [Form::Query, Form::Queries] {
        let client = HttpRetriever::new(HttpOptions { form, ..http.clone() }).expect("good options");
        let found = client.search_batch(&["bridge designed".into(), "born".into()], 3);
        assert_eq!(found[0], Ok(expected.clone()), "{form:?}");
        assert_eq!(found[1], retriever.search("born", 3, 0), "{form:?}");
    }
    assert_eq!(server.stop(), 5);
}

#[test]
fn bad_input_is_told_what_is_wrong() {
    let server = Running::start(world(), options());
    let long = format!("{{\"query\": \"{}\"}}", "x".repeat(1 << 16));
    for (body, status, part) in [
        (r#"{"query": 5}"#, 422, r#""loc":["body","query"]"#),
        ("{}", 422, "`queries`"),
        ("no JSON", 422, r#""loc":["body"]"#),
        (r#"{"query": "x", "topk": 5000}"#, 422, r#""loc":["body","topk"]"#),
        (&long, 413, "--max-body-kib"),
    ] {
        let (code, answer) = post(server.address, body);
        assert_eq!(code, status, "{answer}");
        assert!(answer.contains(part), "{answer}");
    }
    let (status, body) =
        send(server.address, b"GET /search HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert_eq!(status, 404);
    assert!(body.contains("POST /retrieve"), "{body}");
    assert_eq!(server.stop(), 0);
}

/// Holds every search until it is told to go on, and counts.
struct Gate {
    open: Mutex<bool>,
    changed: std::sync::Condvar,
    inside: AtomicUsize,
    most: AtomicUsize,
}

impl Gate {
    fn closed() -> Arc<Self> {
        Arc::new(Self {
            open: Mutex::new(false),
            changed: std::sync::Condvar::new(),
            inside: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        })
    }

    fn open(&self) {
        *self.open.lock().expect("no panic") = true;
        self.changed.notify_all();
    }

    fn wait_for(&self, count: usize) {
        while self.inside.load(Ordering::SeqCst) < count {
            std::thread::yield_now();
        }
    }
}

impl Retriever for Gate {
    fn name(&self) -> String {
        "gate".to_owned()
    }

    fn search(&self, query: &str, _top_k: usize, _caller: usize) -> Result<Found, RetrievalError> {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        let mut open = self.open.lock().expect("no panic");
        while !*open {
            open = self.changed.wait(open).expect("no panic");
        }
        self.inside.fetch_sub(1, Ordering::SeqCst);
        if query == "broken" {
            return Err(RetrievalError::Local { retriever: self.name(), problem: "no luck".to_owned() });
        }
        let document =
            Document { id: query.to_owned(), contents: "T\nx".to_owned(), other: Default::default() };
        Ok(vec![vec![Hit { document, score: None }]])
    }
}

#[test]
fn searches_and_waiting_requests_are_bounded() {
    let gate = Gate::closed();
    let server = Running::start(gate.clone(), ServerOptions { concurrency: 2, queue: 3, ..options() });
    let address = server.address;
    let waiting: Vec<_> = (0..5)
        .map(|at| std::thread::spawn(move || post(address, &format!("{{\"query\": \"q{at}\"}}"))))
        .collect();
    gate.wait_for(2);
    // All five were taken, so that the sixth is told to come again.
    let health = || send(address, b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").1;
    while !health().contains("\"under_way\":5") {
        std::thread::yield_now();
    }
    let (status, body) = post(address, r#"{"query": "q"}"#);
    assert_eq!(status, 503);
    assert!(body.contains("come again"), "{body}");
    gate.open();
    for request in waiting {
        assert_eq!(request.join().expect("no panic").0, 200);
    }
    assert_eq!(gate.most.load(Ordering::SeqCst), 2);
    let (status, body) = post(address, r#"{"query": "broken"}"#);
    assert_eq!((status, body.contains("no luck")), (500, true), "{body}");
    assert_eq!(server.stop(), 5);
}

#[test]
fn what_was_asked_before_the_end_is_answered() {
    let gate = Gate::closed();
    let mut server = Running::start(gate.clone(), options());
    let address = server.address;
    let asked = std::thread::spawn(move || post(address, r#"{"query": "late"}"#));
    gate.wait_for(1);
    server.ask_to_stop();
    gate.open();
    let (status, body) = asked.join().expect("no panic");
    assert_eq!((status, body.contains("late")), (200, true), "{body}");
    assert_eq!(server.stop(), 1);
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
}

#[test]
fn sixty_four_clients_are_all_answered() {
    let retriever = world();
    let server = Running::start(retriever.clone(), options());
    let queries = ["bridge", "novel", "born", "river town", "company founded"];
    let expected: Vec<_> = queries.iter().map(|query| retriever.search(query, 3, 0)).collect();
    let http = HttpOptions { urls: vec![server.url()], attempts: 1, ..HttpOptions::default() };
    std::thread::scope(|scope| {
        for client in 0..64 {
            let (http, expected) = (http.clone(), &expected);
            scope.spawn(move || {
                let retriever = HttpRetriever::new(http).expect("good options");
                for number in 0..10 {
                    let at = (client + number) % queries.len();
                    assert_eq!(retriever.search(queries[at], 3, 0), expected[at], "client {client}");
                }
            });
        }
    });
    assert_eq!(server.stop(), 640);
}

#[test]
fn a_body_that_breaks_off_harms_nobody() {
    let server = Running::start(world(), options());
    let mut stream = TcpStream::connect(server.address).expect("connected");
    stream
        .write_all(b"POST /retrieve HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{\"query\"")
        .expect("sent");
    drop(stream);
    assert_eq!(post(server.address, r#"{"query": "born"}"#).0, 200);
    assert_eq!(server.stop(), 1);
}
