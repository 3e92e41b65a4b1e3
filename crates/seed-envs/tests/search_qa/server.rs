//! A small HTTP server on the loopback address that misbehaves as a test wants.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// What the server does with a request.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// A status with a body.
    Status(u16, String),
    /// A body that is announced whole and sent in part; then the connection is closed.
    Cut(String, usize),
    /// The connection is closed without a word.
    HangUp,
    /// Nothing for so long.
    Slow(Duration),
}

type Handler = dyn Fn(usize, &str) -> Reply + Send + Sync;

/// Answers until it is dropped.
pub(crate) struct Server {
    port: u16,
    seen: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// `handler` gets the number of the request (from 0) and its body.
    pub(crate) fn start(handler: impl Fn(usize, &str) -> Reply + Send + Sync + 'static) -> Self {
        Self::on(0, handler)
    }

    pub(crate) fn on(port: u16, handler: impl Fn(usize, &str) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a loopback port");
        let port = listener.local_addr().expect("an address").port();
        let (seen, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let handler: Arc<Handler> = Arc::new(handler);
        let (count, ended) = (seen.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let open: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    break;
                }
                let Ok(stream) = stream else { continue };
                open.lock().expect("no panic").extend(stream.try_clone());
                let (handler, count) = (handler.clone(), count.clone());
                std::thread::spawn(move || serve(stream, &*handler, &count));
            }
            // A killed server takes its connections along.
            for stream in open.lock().expect("no panic").drain(..) {
                let _ = stream.shutdown(std::net::Shutdown::Both);
            }
        });
        Self { port, seen, stop, thread: Some(thread) }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/retrieve", self.port)
    }

    pub(crate) fn seen(&self) -> usize {
        self.seen.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes the listener.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Requests of one connection, one after the other.
fn serve(mut stream: TcpStream, handler: &Handler, seen: &AtomicUsize) {
    let mut buffer = Vec::new();
    while let Some(body) = read(&mut stream, &mut buffer) {
        let reply = handler(seen.fetch_add(1, Ordering::SeqCst), &body);
        let (head, body, whole) = match reply {
            Reply::Status(status, body) => (status, body, true),
            Reply::Cut(body, sent) => {
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
                let _ = stream
                    .write_all(head.as_bytes())
                    .and_then(|()| stream.write_all(&body.as_bytes()[..sent]));
                (0, String::new(), false)
            }
            Reply::HangUp => (0, String::new(), false),
            Reply::Slow(time) => {
                std::thread::sleep(time);
                (200, "{\"result\": [[]]}".to_owned(), true)
            }
        };
        if !whole {
            let _ = stream.shutdown(std::net::Shutdown::Both);
            return;
        }
        let head = format!("HTTP/1.1 {head} X\r\ncontent-length: {}\r\n\r\n", body.len());
        if stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).is_err() {
            return;
        }
    }
}

/// The body of the next request.
fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<String> {
    let mut chunk = [0; 4096];
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).to_ascii_lowercase();
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
            let whole = end + 4 + length.unwrap_or(0_usize);
            if buffer.len() >= whole {
                let body = String::from_utf8_lossy(&buffer[end + 4..whole]).into_owned();
                buffer.drain(..whole);
                return Some(body);
            }
        }
        match stream.read(&mut chunk) {
            Ok(count) if count > 0 => buffer.extend(&chunk[..count]),
            _ => return None,
        }
    }
}
