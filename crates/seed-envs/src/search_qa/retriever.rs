//! Where passages come from: one trait, three kinds of retriever behind it.
//!
//! | module | what it holds |
//! |---|---|
//! | [`corpus`] | passages in JSON lines, memory-mapped |
//! | [`bm25`] | lexical search in this process |
//! | [`dense`] | exact inner-product search over a matrix of passage vectors |
//! | [`http`] | a server somewhere else, in either of the two public protocols |
//! | [`wire`] | what stands in requests and answers; both the client and our own server use it |
//! | [`memory`] | what memory all this needs |
//! | [`python`] | what the Python client says about bad answers, since it reaches the model's prompt |

pub mod bm25;
pub mod corpus;
pub mod dense;
pub mod http;
pub(crate) mod mapped;
pub mod memory;
pub mod python;
pub mod wire;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One passage: its id, its text, and whatever else its row of the corpus says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Unique in its corpus.
    pub id: String,
    /// A line with the title (in double quotes where it has a blank), then the text.
    pub contents: String,
    /// Other fields of the row, e.g. `title`, `text`.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A passage that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The passage.
    pub document: Document,
    /// Its score in the retriever's unit, higher is better; `None` where a server gave none.
    pub score: Option<f64>,
}

/// What a query found: usually one list of hits, best first. A server may send several lists, or none at all.
pub type Found = Vec<Vec<Hit>>;

/// Finds passages for queries.
///
/// A retriever is shared by all environments of a process and asked from many threads at once.
pub trait Retriever: Send + Sync {
    /// A word for messages and logs, e.g. `bm25`, or the address of a server.
    fn name(&self) -> String;

    /// The best `top_k` passages for a query. A query without any word gives an empty list, not an error.
    ///
    /// `caller` tells asking environments apart, so that a client of several servers can spread them.
    ///
    /// # Errors
    /// [`RetrievalError`] when the passages cannot be had.
    fn search(&self, query: &str, top_k: usize, caller: usize) -> Result<Found, RetrievalError>;

    /// The same for many queries; the results are in their order.
    fn search_batch(&self, queries: &[String], top_k: usize) -> Vec<Result<Found, RetrievalError>> {
        use rayon::prelude::*;
        queries.par_iter().enumerate().map(|(caller, query)| self.search(query, top_k, caller)).collect()
    }
}

/// Why passages cannot be had.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RetrievalError {
    /// The server answered with a status that says no.
    #[error("{url}: status {status} ({reason}) after {attempts} of {limit} attempts{}", hint(.status))]
    Status {
        /// The address that was asked.
        url: String,
        /// The status code.
        status: u16,
        /// Its name.
        reason: String,
        /// Attempts made.
        attempts: usize,
        /// Attempts that were allowed.
        limit: usize,
        /// The code is one of those that are tried again.
        retried: bool,
    },
    /// No connection, or one that was closed before an answer.
    #[error("{url}: {problem}, after {attempts} attempts; is the server running (`seed serve-retriever`)?")]
    Connection {
        /// The address that was asked.
        url: String,
        /// What the system said.
        problem: String,
        /// Attempts made.
        attempts: usize,
    },
    /// No answer in time.
    #[error(
        "{url}: no answer within {seconds} s, after {attempts} attempts; raise the time-out or serve fewer clients"
    )]
    Timeout {
        /// The address that was asked.
        url: String,
        /// The time-out.
        seconds: f64,
        /// Attempts made.
        attempts: usize,
    },
    /// The answer broke off before its end.
    #[error("{url}: the answer broke off: {problem}")]
    Broken {
        /// The address that was asked.
        url: String,
        /// What was missing.
        problem: String,
    },
    /// The answer is no JSON.
    #[error("{url}: the answer is no JSON: {problem}")]
    Json {
        /// The address that was asked.
        url: String,
        /// The complaint, worded as Python's `json` does.
        problem: String,
    },
    /// The answer is JSON of another shape.
    #[error("{url}: the answer has another shape than {{\"result\": [[…]]}}: {problem}")]
    Shape {
        /// The address that was asked.
        url: String,
        /// The complaint, worded as Python does.
        problem: String,
    },
    /// The answer has no result, or an empty one.
    #[error("{url}: the answer holds no result")]
    NoResult {
        /// The address that was asked.
        url: String,
    },
    /// A file of this process's own retriever cannot be read.
    #[error("{retriever}: {problem}")]
    Local {
        /// Which retriever.
        retriever: String,
        /// What went wrong.
        problem: String,
    },
}

fn hint(status: &u16) -> &'static str {
    match *status {
        404 => "; does the address end in `/retrieve`?",
        422 => {
            "; the server wants other fields: `query` (verl-agent) or `queries` (Search-R1), see `protocol`"
        }
        _ => "",
    }
}
