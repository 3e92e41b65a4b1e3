//! Any server that speaks the OpenAI chat protocol as an annotator.
//!
//! Failures of the line (no connection, time-out, status 408, 429 and 5xx, a body that breaks off) are tried again with
//! growing waits. An answer without a usable skill is asked for once more, with the error and the end of the bad answer.
//! The key is read from an environment variable, sent in one header, and appears in no message, log or debug text.

use super::{AnnotateError, Annotation, Annotator};
use crate::prompt::{self, AnalyzerPrompt, PromptOptions};
use crate::serialize::OutcomeLabel;
use crate::skill::{self, Backend};
use crate::slots::SlotText;
use seed_envs::Trajectory;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Where the server is and how it is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OpenaiOptions {
    /// The address up to and including the version, e.g. `http://127.0.0.1:8000/v1`.
    pub base_url: String,
    /// The model's name as the server knows it.
    pub model: String,
    /// The environment variable that holds the key; empty for servers that want none.
    pub key_variable: String,
    /// Seconds for one request, connection and answer together.
    pub timeout_secs: f64,
    /// How often a request is tried in all when the line fails.
    pub transport_tries: u32,
    /// Seconds before the second try; doubled for each further one.
    pub backoff_secs: f64,
    /// The longest wait in seconds. A server's `Retry-After` is kept to, up to this.
    pub backoff_max_secs: f64,
    /// How often the model is asked in all when its answer holds no usable skill.
    pub parse_attempts: u32,
    /// Ask for JSON mode (`response_format`).
    pub json_mode: bool,
    /// Sampling temperature; `None` leaves the server's default.
    pub temperature: Option<f64>,
    /// The longest completion in tokens.
    pub max_tokens: Option<u32>,
    /// Sampling seed, where the server knows one.
    pub seed: Option<u64>,
    /// Price of a million prompt tokens, in any currency; for the cost counter only.
    pub price_prompt: f64,
    /// Price of a million completion tokens.
    pub price_completion: f64,
}

impl Default for OpenaiOptions {
    fn default() -> Self {
        Self {
            base_url: String::new(),
            model: String::new(),
            key_variable: "OPENAI_API_KEY".into(),
            timeout_secs: 120.0,
            transport_tries: 5,
            backoff_secs: 1.0,
            backoff_max_secs: 30.0,
            parse_attempts: 2,
            json_mode: true,
            temperature: Some(0.0),
            max_tokens: Some(4096),
            seed: Some(2026),
            price_prompt: 0.0,
            price_completion: 0.0,
        }
    }
}

/// A key that no message shows.
#[derive(Clone)]
struct Key(String);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(hidden)")
    }
}

/// What was asked, answered and paid so far. Counters of all threads together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Requests that were sent, repeated ones included.
    pub requests: u64,
    /// Tries that failed on the line and were repeated.
    pub transport_retries: u64,
    /// Answers without a usable skill after which the model was asked again.
    pub parse_retries: u64,
    /// Episodes given up since the server did not answer, refused or broke the protocol.
    pub failed_transport: u64,
    /// Episodes given up since no answer could be read.
    pub failed_parse: u64,
    /// Episodes given up since the skill was refused.
    pub failed_rejected: u64,
    /// Answers that ended at the limit of tokens.
    pub cut_answers: u64,
    /// Tokens of the prompts, as the server counts them.
    pub prompt_tokens: u64,
    /// Tokens of the answers.
    pub completion_tokens: u64,
    /// The price of all tokens by the options' prices.
    pub cost: f64,
}

#[derive(Debug, Default)]
struct Counters {
    requests: AtomicU64,
    transport_retries: AtomicU64,
    parse_retries: AtomicU64,
    failed_transport: AtomicU64,
    failed_parse: AtomicU64,
    failed_rejected: AtomicU64,
    cut_answers: AtomicU64,
    prompt_tokens: AtomicU64,
    completion_tokens: AtomicU64,
}

fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

/// An annotator behind a server. Threads share one.
#[derive(Debug)]
pub struct OpenaiAnnotator {
    options: OpenaiOptions,
    prompt: AnalyzerPrompt,
    prompt_options: PromptOptions,
    retry: SlotText,
    url: String,
    key: Option<Key>,
    agent: ureq::Agent,
    counters: Counters,
}

/// How much of a bad answer the second prompt shows, in characters.
const SHOWN_ANSWER: usize = 2000;
/// How much of a server's message is passed on.
const SHOWN_MESSAGE: usize = 300;
/// The longest body that is read.
const BODY_LIMIT: u64 = 32 << 20;

impl OpenaiAnnotator {
    /// Prepares an annotator; reads the key, sends nothing.
    ///
    /// # Errors
    /// When the address or the model is empty, the address is no http(s) URL or needs https in a build without it,
    /// a number makes no sense, or the variable of the key is not set.
    pub fn new(
        options: OpenaiOptions,
        prompt: AnalyzerPrompt,
        prompt_options: PromptOptions,
    ) -> Result<Self, OpenaiError> {
        if options.base_url.is_empty() {
            return Err(OpenaiError::Missing { key: "base_url", example: "http://127.0.0.1:8000/v1" });
        }
        if options.model.is_empty() {
            return Err(OpenaiError::Missing { key: "model", example: "the name that the server lists" });
        }
        let secure = options.base_url.starts_with("https://");
        if !secure && !options.base_url.starts_with("http://") {
            return Err(OpenaiError::Address { found: options.base_url });
        }
        if secure && !cfg!(feature = "https") {
            return Err(OpenaiError::NoHttps { found: options.base_url });
        }
        for (key, value) in [
            ("timeout_secs", options.timeout_secs),
            ("backoff_secs", options.backoff_secs),
            ("backoff_max_secs", options.backoff_max_secs),
        ] {
            let least = if key == "timeout_secs" { 1e-3 } else { 0.0 };
            if !(least..=86_400.0).contains(&value) {
                return Err(OpenaiError::Number { key, found: value });
            }
        }
        for (key, value) in
            [("transport_tries", options.transport_tries), ("parse_attempts", options.parse_attempts)]
        {
            if value == 0 {
                return Err(OpenaiError::Number { key, found: 0.0 });
            }
        }
        let key = match options.key_variable.as_str() {
            "" => None,
            variable => match std::env::var(variable) {
                // A trailing line break from `$(cat file)` would make the header illegal.
                Ok(key) if !key.trim().is_empty() => Some(Key(key.trim().to_owned())),
                _ => return Err(OpenaiError::NoKey { variable: variable.to_owned() }),
            },
        };
        let mut config = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_secs_f64(options.timeout_secs)))
            .http_status_as_error(false);
        let host = options.base_url.split("://").nth(1).unwrap_or_default();
        if ["127.", "localhost", "[::1]"].iter().any(|local| host.starts_with(local)) {
            // A proxy of the environment cannot reach this machine's own loopback.
            config = config.proxy(None);
        }
        let retry = SlotText::parse(
            Path::new("configs/prompts/analyzer/retry.txt"),
            include_str!("../../../../configs/prompts/analyzer/retry.txt"),
            &["prompt", "error", "answer", "form"],
            &["prompt", "form"],
        )
        .expect("embedded prompts are checked by the tests");
        Ok(Self {
            url: format!("{}/chat/completions", options.base_url.trim_end_matches('/')),
            agent: config.build().into(),
            options,
            prompt,
            prompt_options,
            retry,
            key,
            counters: Counters::default(),
        })
    }

    /// The counters as they stand.
    pub fn usage(&self) -> Usage {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let c = &self.counters;
        let (prompt_tokens, completion_tokens) = (get(&c.prompt_tokens), get(&c.completion_tokens));
        Usage {
            requests: get(&c.requests),
            transport_retries: get(&c.transport_retries),
            parse_retries: get(&c.parse_retries),
            failed_transport: get(&c.failed_transport),
            failed_parse: get(&c.failed_parse),
            failed_rejected: get(&c.failed_rejected),
            cut_answers: get(&c.cut_answers),
            prompt_tokens,
            completion_tokens,
            cost: (prompt_tokens as f64 * self.options.price_prompt
                + completion_tokens as f64 * self.options.price_completion)
                / 1e6,
        }
    }

    /// Sends one prompt and returns the answer's text, with tries and waits.
    fn ask(&self, prompt: &str) -> Result<String, AnnotateError> {
        let mut body = json!({
            "model": self.options.model,
            "messages": [{"role": "user", "content": prompt}],
        });
        if self.options.json_mode {
            body["response_format"] = json!({"type": "json_object"});
        }
        if let Some(temperature) = self.options.temperature {
            body["temperature"] = temperature.into();
        }
        if let Some(max_tokens) = self.options.max_tokens {
            body["max_tokens"] = max_tokens.into();
        }
        if let Some(seed) = self.options.seed {
            body["seed"] = seed.into();
        }
        let mut wait = self.options.backoff_secs;
        let mut tries = 0;
        loop {
            tries += 1;
            let (problem, asked_wait) = match self.send(&body)? {
                Sent::Answer(text) => return self.content(&text),
                Sent::Failed { problem, retry_after } => (problem, retry_after),
            };
            if tries >= self.options.transport_tries {
                return Err(AnnotateError::Transport { url: self.url.clone(), problem, tries });
            }
            count(&self.counters.transport_retries, 1);
            let pause = asked_wait.unwrap_or(wait).min(self.options.backoff_max_secs);
            std::thread::sleep(Duration::from_secs_f64(pause.max(0.0)));
            wait = (wait * 2.0).min(self.options.backoff_max_secs);
        }
    }

    fn send(&self, body: &Value) -> Result<Sent, AnnotateError> {
        count(&self.counters.requests, 1);
        let mut request = self.agent.post(&self.url);
        if let Some(Key(key)) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let failed = |problem: String, retry_after| {
            Ok(Sent::Failed { problem: self.without_key(&problem), retry_after })
        };
        let mut response = match request.send_json(body) {
            Ok(response) => response,
            Err(error) => return failed(error.to_string(), None),
        };
        let status = response.status().as_u16();
        let retry_after = response
            .headers()
            .get("retry-after")
            .and_then(|value| value.to_str().ok()?.trim().parse::<f64>().ok());
        let retry_after = retry_after.filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
        let text = match response.body_mut().with_config().limit(BODY_LIMIT).read_to_string() {
            Ok(text) => text,
            Err(error) => return failed(format!("the answer broke off: {error}"), None),
        };
        match status {
            200..=299 => Ok(Sent::Answer(text)),
            408 | 425 | 429 | 500..=599 => {
                failed(format!("status {status}: {}", message_of(&text)), retry_after)
            }
            _ => {
                let mut message = self.without_key(&message_of(&text));
                match status {
                    401 | 403 if self.key.is_none() => {
                        message.push_str(" (no key was sent: set `key_variable`)")
                    }
                    401 | 403 => {
                        message.push_str(&format!(" (the key came from {})", self.options.key_variable));
                    }
                    400 | 422 if self.options.json_mode => {
                        message.push_str(" (if the server knows no JSON mode, set `json_mode = false`)");
                    }
                    _ => {}
                }
                Err(AnnotateError::Refused { url: self.url.clone(), status, message })
            }
        }
    }

    /// Servers like to repeat the key in their complaint about it.
    fn without_key(&self, text: &str) -> String {
        match &self.key {
            Some(Key(key)) => text.replace(key.as_str(), "(key hidden)"),
            None => text.to_owned(),
        }
    }

    /// The text of the first choice.
    fn content(&self, body: &str) -> Result<String, AnnotateError> {
        let wrong = |problem: String| AnnotateError::Protocol { url: self.url.clone(), problem };
        let body: Value = serde_json::from_str(body).map_err(|error| {
            wrong(format!("the answer is no JSON ({error}): {}", self.without_key(&message_of(body))))
        })?;
        let tokens = |name: &str| body["usage"][name].as_u64().unwrap_or(0);
        count(&self.counters.prompt_tokens, tokens("prompt_tokens"));
        count(&self.counters.completion_tokens, tokens("completion_tokens"));
        let choice = &body["choices"][0];
        if choice["finish_reason"] == "length" {
            count(&self.counters.cut_answers, 1);
        }
        match &choice["message"]["content"] {
            Value::String(text) => Ok(text.clone()),
            // The same as a list of parts.
            Value::Array(parts) => Ok(parts.iter().filter_map(|part| part["text"].as_str()).collect()),
            // A refusal has no content; it is read as an empty answer and asked for again.
            Value::Null if choice.is_object() => Ok(String::new()),
            _ => Err(wrong("the answer has no `choices[0].message.content`".into())),
        }
    }

    fn attempt(&self, trajectory: &Trajectory) -> Result<Annotation, AnnotateError> {
        let outcome = OutcomeLabel::of(trajectory);
        let mode = self.prompt_options.mode;
        let prompt = self.prompt.render(trajectory, outcome, None, &self.prompt_options)?;
        let mut asked = prompt.clone();
        let mut attempts = 0;
        loop {
            attempts += 1;
            let answer = self.ask(&asked)?;
            let (error, problem) = match skill::parse(&answer, mode) {
                Ok(skill) => match skill::accept(&skill, mode, Backend::Openai) {
                    Ok(()) => return Ok(Annotation { prompt, answer, skill }),
                    Err(source) => {
                        let problem = source.to_string();
                        (AnnotateError::Rejected { attempts, source, answer: answer.clone() }, problem)
                    }
                },
                Err(source) => {
                    let problem = source.to_string();
                    (AnnotateError::Unreadable { attempts, source, answer: answer.clone() }, problem)
                }
            };
            if attempts >= self.options.parse_attempts {
                return Err(error);
            }
            count(&self.counters.parse_retries, 1);
            let start = answer.char_indices().rev().nth(SHOWN_ANSWER - 1).map_or(0, |(at, _)| at);
            asked = self.retry.fill(&[
                ("prompt", &prompt),
                ("error", &problem),
                ("answer", &answer[start..]),
                ("form", &prompt::form(&self.prompt_options)),
            ]);
        }
    }
}

impl Annotator for OpenaiAnnotator {
    fn annotate(&self, trajectory: &Trajectory) -> Result<Annotation, AnnotateError> {
        if trajectory.steps.is_empty() {
            return Err(AnnotateError::NoSteps { task: trajectory.task.id.clone() });
        }
        let result = self.attempt(trajectory);
        match &result {
            Ok(_) | Err(AnnotateError::Serialize(_) | AnnotateError::NoSteps { .. }) => {}
            Err(AnnotateError::Unreadable { .. }) => count(&self.counters.failed_parse, 1),
            Err(AnnotateError::Rejected { .. }) => count(&self.counters.failed_rejected, 1),
            Err(_) => count(&self.counters.failed_transport, 1),
        }
        result
    }
}

/// What became of one request.
enum Sent {
    /// The body of a good answer.
    Answer(String),
    /// The line failed; another try may help.
    Failed { problem: String, retry_after: Option<f64> },
}

/// What a server's error body says, in short.
fn message_of(body: &str) -> String {
    let parsed: Option<Value> = serde_json::from_str(body).ok();
    let message = parsed.as_ref().and_then(|body| {
        let error = &body["error"];
        error["message"].as_str().or_else(|| error.as_str()).or_else(|| body["message"].as_str())
    });
    let message = message.unwrap_or(body).split_whitespace().collect::<Vec<_>>().join(" ");
    match message.char_indices().nth(SHOWN_MESSAGE) {
        _ if message.is_empty() => "(empty answer)".to_owned(),
        None => message,
        Some((cut, _)) => format!("{}…", &message[..cut]),
    }
}

/// Why an annotator cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenaiError {
    /// A setting has no value.
    #[error("annotator: `{key}` is not set, e.g. {example}")]
    Missing {
        /// The setting.
        key: &'static str,
        /// What it may be.
        example: &'static str,
    },
    /// The address is none.
    #[error("annotator: `base_url` is {found:?}; it starts with http:// or https://")]
    Address {
        /// What was given.
        found: String,
    },
    /// The address needs TLS, which this build does not have.
    #[error("annotator: {found} needs https; build with `--features https`, or use a server behind http://")]
    NoHttps {
        /// The address.
        found: String,
    },
    /// A number that makes no sense.
    #[error("annotator: `{key}` is {found}; seconds lie between 0 and 86400, numbers of tries from 1 on")]
    Number {
        /// The setting.
        key: &'static str,
        /// What was given.
        found: f64,
    },
    /// The variable of the key is not set.
    #[error(
        "annotator: the environment variable {variable} holds no key; set it, or set `key_variable = \"\"` for a server that wants none"
    )]
    NoKey {
        /// The variable.
        variable: String,
    },
}
