//! A retrieval server somewhere else, in either protocol.
//!
//! Waiting between attempts grows by one unit each time, as in the Python client. What is tried again and what stops
//! at once is that client's choice too; [`HttpOptions::corrected`] also tries again what broke off, and goes on to the
//! next address.

use super::python::json_complaint;
use super::wire::{AnswerFault, Form, parse_answer, request_body};
use super::{Found, RetrievalError, Retriever};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How servers are asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpOptions {
    /// Addresses, e.g. `http://127.0.0.1:8000/retrieve`. Callers are dealt to them in turn.
    pub urls: Vec<String>,
    /// One query a request, or all of a batch.
    pub form: Form,
    /// Seconds until a request is given up.
    pub timeout_secs: f64,
    /// Attempts in all.
    pub attempts: usize,
    /// Seconds before the second attempt; twice as many before the third, and so on.
    pub delay_secs: f64,
    /// Statuses that are tried again. Others end the search at once.
    pub retried_statuses: Vec<u16>,
    /// Whether an answer that broke off is tried again.
    pub retry_broken: bool,
    /// Whether the next attempt goes to the next address.
    pub failover: bool,
    /// Largest answer in bytes.
    pub max_answer_bytes: u64,
}

impl Default for HttpOptions {
    /// As the search scripts of the reference set it.
    fn default() -> Self {
        Self {
            urls: vec!["http://127.0.0.1:8000/retrieve".to_owned()],
            form: Form::Query,
            timeout_secs: 60.0,
            attempts: 10,
            delay_secs: 1.0,
            retried_statuses: vec![500, 502, 503, 504],
            retry_broken: false,
            failover: false,
            max_answer_bytes: 64 << 20,
        }
    }
}

impl HttpOptions {
    /// Broken answers and overloaded servers (429) are tried again, at the next address.
    pub fn corrected() -> Self {
        let mut options = Self { retry_broken: true, failover: true, ..Self::default() };
        options.retried_statuses.push(429);
        options
    }
}

/// Why a client cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpOptionsError {
    /// There is nobody to ask.
    #[error("`urls` is empty; give the address of a retrieval server, e.g. http://127.0.0.1:8000/retrieve")]
    NoUrl,
    /// The address is none that can be used.
    #[error("`urls` has {found:?}; an address starts with http:// (https is not compiled in)")]
    Url {
        /// The address.
        found: String,
    },
    /// A number out of range.
    #[error("`{key}` is {found}, expected {expected}")]
    Number {
        /// The option.
        key: &'static str,
        /// What it is.
        found: f64,
        /// What it may be.
        expected: &'static str,
    },
}

/// How the client waits; tests put in something that only counts.
type Sleep = Arc<dyn Fn(Duration) + Send + Sync>;

/// Asks retrieval servers.
#[derive(Clone)]
pub struct HttpRetriever {
    options: HttpOptions,
    agent: ureq::Agent,
    sleep: Sleep,
}

impl fmt::Debug for HttpRetriever {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpRetriever").field("options", &self.options).finish_non_exhaustive()
    }
}

/// What became of one attempt.
enum Attempt {
    Answer(Result<Value, RetrievalError>),
    Failed { error: RetrievalError, again: bool },
}

impl HttpRetriever {
    /// A client. Nothing is sent yet.
    ///
    /// # Errors
    /// [`HttpOptionsError`] when an option makes no sense.
    pub fn new(options: HttpOptions) -> Result<Self, HttpOptionsError> {
        if options.urls.is_empty() {
            return Err(HttpOptionsError::NoUrl);
        }
        if let Some(found) = options.urls.iter().find(|url| !url.starts_with("http://")) {
            return Err(HttpOptionsError::Url { found: found.clone() });
        }
        let number = |key, found, good: bool, expected| {
            if good { Ok(()) } else { Err(HttpOptionsError::Number { key, found, expected }) }
        };
        let HttpOptions { timeout_secs, delay_secs, attempts, .. } = options;
        number(
            "timeout_secs",
            timeout_secs,
            timeout_secs > 0.0 && timeout_secs <= 86400.0,
            "above 0, at most 86400",
        )?;
        number("delay_secs", delay_secs, (0.0..=3600.0).contains(&delay_secs), "from 0 to 3600")?;
        number("attempts", attempts as f64, attempts > 0, "at least 1")?;
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_secs_f64(timeout_secs)))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .max_idle_connections(512)
            .max_idle_connections_per_host(512)
            .build()
            .new_agent();
        Ok(Self { options, agent, sleep: Arc::new(std::thread::sleep) })
    }

    /// Replaces the way of waiting between attempts, e.g. by something that only counts.
    #[must_use]
    pub fn with_sleep(mut self, sleep: impl Fn(Duration) + Send + Sync + 'static) -> Self {
        self.sleep = Arc::new(sleep);
        self
    }

    /// What it was made with.
    pub fn options(&self) -> &HttpOptions {
        &self.options
    }

    fn ask(&self, body: &Value, caller: usize) -> Result<Value, RetrievalError> {
        let HttpOptions { urls, attempts, delay_secs, failover, .. } = &self.options;
        let mut attempt = 1;
        loop {
            let step = if *failover { attempt - 1 } else { 0 };
            let url = &urls[(caller % urls.len() + step) % urls.len()];
            match self.attempt(url, body, attempt) {
                Attempt::Answer(answer) => return answer,
                Attempt::Failed { error, again } if !again || attempt == *attempts => return Err(error),
                Attempt::Failed { .. } => (self.sleep)(Duration::from_secs_f64(delay_secs * attempt as f64)),
            }
            attempt += 1;
        }
    }

    fn attempt(&self, url: &str, body: &Value, attempts: usize) -> Attempt {
        let url = url.to_owned();
        let failed = |error: ureq::Error| match error {
            ureq::Error::Timeout(_) => {
                RetrievalError::Timeout { url: url.clone(), seconds: self.options.timeout_secs, attempts }
            }
            error => RetrievalError::Connection { url: url.clone(), problem: error.to_string(), attempts },
        };
        let mut response = match self.agent.post(&url).send_json(body) {
            Ok(response) => response,
            Err(error) => return Attempt::Failed { error: failed(error), again: true },
        };
        let status = response.status();
        if self.options.retried_statuses.contains(&status.as_u16()) || !status.is_success() {
            let retried = self.options.retried_statuses.contains(&status.as_u16());
            // Read to its end, so that the connection can be used again; what it says does not matter.
            drop(response.body_mut().with_config().limit(1 << 20).read_to_vec());
            let error = RetrievalError::Status {
                url,
                status: status.as_u16(),
                reason: status.canonical_reason().unwrap_or("").to_owned(),
                attempts,
                limit: self.options.attempts,
                retried,
            };
            return Attempt::Failed { error, again: retried };
        }
        let text = match response.body_mut().with_config().limit(self.options.max_answer_bytes).read_to_vec()
        {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error @ ureq::Error::Timeout(_)) => {
                return Attempt::Failed { error: failed(error), again: true };
            }
            Err(error) => {
                let error = RetrievalError::Broken { url, problem: error.to_string() };
                return Attempt::Failed { error, again: self.options.retry_broken };
            }
        };
        Attempt::Answer(serde_json::from_str(&text).map_err(|error| {
            let problem = json_complaint(&text).unwrap_or_else(|| error.to_string());
            RetrievalError::Json { url, problem }
        }))
    }

    fn read(&self, answer: &Value, caller: usize) -> Result<Found, RetrievalError> {
        let url = || self.options.urls[caller % self.options.urls.len()].clone();
        parse_answer(answer).map_err(|fault| match fault {
            AnswerFault::NoResult => RetrievalError::NoResult { url: url() },
            AnswerFault::Shape(problem) => RetrievalError::Shape { url: url(), problem },
        })
    }
}

impl Retriever for HttpRetriever {
    fn name(&self) -> String {
        self.options.urls.join(", ")
    }

    fn search(&self, query: &str, top_k: usize, caller: usize) -> Result<Found, RetrievalError> {
        let body = request_body(self.options.form, &[query.to_owned()], top_k);
        self.read(&self.ask(&body, caller)?, caller)
    }

    /// One request with all queries in Search-R1's protocol, one a query in parallel in the other.
    fn search_batch(&self, queries: &[String], top_k: usize) -> Vec<Result<Found, RetrievalError>> {
        use rayon::prelude::*;
        if self.options.form == Form::Query {
            let each = queries.par_iter().enumerate();
            return each.map(|(caller, query)| self.search(query, top_k, caller)).collect();
        }
        if queries.is_empty() {
            return Vec::new();
        }
        let answer = self.ask(&request_body(Form::Queries, queries, top_k), 0);
        let lists = answer.and_then(|answer| self.read(&answer, 0)).and_then(|lists| {
            if lists.len() == queries.len() {
                return Ok(lists);
            }
            let problem = format!("{} lists for {} queries", lists.len(), queries.len());
            Err(RetrievalError::Shape { url: self.options.urls[0].clone(), problem })
        });
        match lists {
            Ok(lists) => lists.into_iter().map(|list| Ok(vec![list])).collect(),
            Err(error) => queries.iter().map(|_| Err(error.clone())).collect(),
        }
    }
}
