//! The server itself: both retrieval protocols over one retriever, with limits.
//!
//! | route | what it does |
//! |---|---|
//! | `POST /retrieve` | a search in either protocol, see `seed_envs::search_qa::retriever::wire` |
//! | `GET /health` | what is served, and how much work is under way |
//!
//! Requests beyond `queue` are told to come again (503) at once, so that a flood cannot fill the memory; those that were
//! taken are always answered, also while the server shuts down.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use seed_envs::search_qa::retriever::wire::{Form, Limits, answer_body, parse_request};
use seed_envs::search_qa::retriever::{Found, RetrievalError, Retriever};
use serde_json::{Value, json};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

/// Limits of the server.
#[derive(Debug, Clone)]
pub(crate) struct ServerOptions {
    /// Passages where a request names no number.
    pub(crate) top_k: usize,
    /// Limits of a request.
    pub(crate) limits: Limits,
    /// Largest body in bytes.
    pub(crate) max_body_bytes: usize,
    /// Seconds in which a body must have come in.
    pub(crate) body_secs: u64,
    /// Searches at the same time.
    pub(crate) concurrency: usize,
    /// Requests that may wait for their turn.
    pub(crate) queue: usize,
    /// Seconds that requests under way get when the server stops.
    pub(crate) grace_secs: u64,
}

struct Shared {
    retriever: Arc<dyn Retriever>,
    options: ServerOptions,
    turns: Semaphore,
    taken: AtomicUsize,
    answered: AtomicUsize,
}

/// A request that was taken; gives its place back when it is over, however it ends.
struct Place<'a>(&'a Shared);

impl<'a> Place<'a> {
    fn take(shared: &'a Shared) -> Option<Self> {
        let limit = shared.options.concurrency + shared.options.queue;
        let before = shared.taken.fetch_add(1, Ordering::Relaxed);
        let place = Self(shared);
        (before < limit).then_some(place)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves until `stop` is over, then lets requests under way end within the grace time.
///
/// Returns how many searches were answered.
///
/// # Errors
/// When the listener fails.
pub(crate) async fn serve(
    listener: TcpListener,
    retriever: Arc<dyn Retriever>,
    options: ServerOptions,
    stop: impl Future<Output = ()>,
) -> std::io::Result<usize> {
    let grace = Duration::from_secs(options.grace_secs);
    let turns = Semaphore::new(options.concurrency);
    let shared = Arc::new(Shared {
        retriever,
        options,
        turns,
        taken: AtomicUsize::new(0),
        answered: AtomicUsize::new(0),
    });
    let routes = Router::new()
        .route("/retrieve", post(retrieve))
        .route("/health", get(health))
        .fallback(elsewhere)
        .with_state(shared.clone());
    let (ask, asked) = oneshot::channel::<()>();
    let server = axum::serve(listener, routes.into_make_service());
    let server = server.with_graceful_shutdown(async move { drop(asked.await) });
    let running = tokio::spawn(async move { server.await });
    stop.await;
    // The receiver is gone only when the server is.
    let _ = ask.send(());
    match timeout(grace, running).await {
        Ok(Ok(result)) => result?,
        Ok(Err(panic)) => return Err(std::io::Error::other(panic)),
        // Somebody holds a connection open; everything that was asked in time has been answered.
        Err(_) => {}
    }
    Ok(shared.answered.load(Ordering::Relaxed))
}

fn answer(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

fn complaint(status: StatusCode, what: impl Into<String>) -> Response {
    answer(status, &json!({ "detail": what.into() }))
}

async fn elsewhere() -> Response {
    complaint(StatusCode::NOT_FOUND, "there are `POST /retrieve` and `GET /health`")
}

async fn health(State(shared): State<Arc<Shared>>) -> Response {
    let count = |number: &AtomicUsize| number.load(Ordering::Relaxed);
    answer(
        StatusCode::OK,
        &json!({
            "retriever": shared.retriever.name(),
            "under_way": count(&shared.taken),
            "answered": count(&shared.answered),
        }),
    )
}

async fn retrieve(State(shared): State<Arc<Shared>>, request: Request<Body>) -> Response {
    let Some(_place) = Place::take(&shared) else {
        let mut busy =
            complaint(StatusCode::SERVICE_UNAVAILABLE, "too many requests wait; come again in a second");
        busy.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
        return busy;
    };
    let ServerOptions { max_body_bytes, body_secs, limits, top_k, .. } = shared.options;
    let body = match timeout(Duration::from_secs(body_secs), to_bytes(request.into_body(), max_body_bytes))
        .await
    {
        Ok(Ok(body)) => body,
        Ok(Err(error)) if too_long(&error) => {
            let what = format!(
                "the body is longer than {max_body_bytes} bytes; raise --max-body-kib or send fewer queries"
            );
            return complaint(StatusCode::PAYLOAD_TOO_LARGE, what);
        }
        Ok(Err(error)) => return complaint(StatusCode::BAD_REQUEST, format!("the body broke off: {error}")),
        Err(_) => {
            return complaint(
                StatusCode::REQUEST_TIMEOUT,
                format!("the body did not come within {body_secs} s"),
            );
        }
    };
    let request = match parse_request(&body, limits) {
        Ok(request) => request,
        Err(refusal) => return answer(StatusCode::UNPROCESSABLE_ENTITY, &refusal.body()),
    };
    let Ok(_turn) = shared.turns.acquire().await else {
        return complaint(StatusCode::SERVICE_UNAVAILABLE, "the server stops");
    };
    let retriever = shared.retriever.clone();
    let searched = tokio::task::spawn_blocking(move || {
        let top_k = request.top_k.unwrap_or(top_k);
        let found = match request.form {
            Form::Query => request.queries.iter().map(|query| retriever.search(query, top_k, 0)).collect(),
            Form::Queries => retriever.search_batch(&request.queries, top_k),
        };
        written(found, request.return_scores)
    });
    match searched.await {
        Ok(Ok(body)) => {
            shared.answered.fetch_add(1, Ordering::Relaxed);
            (StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], body).into_response()
        }
        Ok(Err(error)) => complaint(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        Err(_) => {
            complaint(StatusCode::INTERNAL_SERVER_ERROR, "the search stopped with a fault of the server")
        }
    }
}

/// The answer as text: made off the threads that speak to clients.
fn written(found: Vec<Result<Found, RetrievalError>>, return_scores: bool) -> Result<String, RetrievalError> {
    // A local retriever gives exactly one list for a query.
    let lists = found.into_iter().map(|found| found.map(|lists| lists.into_iter().flatten().collect()));
    Ok(answer_body(lists.collect::<Result<_, _>>()?, return_scores).to_string())
}

/// Whether a body was refused for its length.
fn too_long(error: &axum::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.to_string() == "length limit exceeded" {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests;
