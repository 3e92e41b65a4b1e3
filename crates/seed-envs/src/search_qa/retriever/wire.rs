//! Requests and answers of the two retrieval protocols.
//!
//! | | Search-R1 | verl-agent |
//! |---|---|---|
//! | request | `{"queries": [text, …], "topk"?, "return_scores"?}` | `{"query": text, "topk"?, "return_scores"?}` |
//! | answer | `{"result": [one list for each query]}` | `{"result": [one list]}` |
//!
//! With `return_scores` an item is `{"document": row, "score": number}`, without it the row itself. `topk` left out or
//! 0 is the server's default. Both sides of the wire are here: the client and our own server use the same code.

use super::corpus::kind;
use super::python::{is_true, iterate, subscript, type_name};
use super::{Document, Found, Hit};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Which form a request has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// One query a request: verl-agent and its descendants.
    #[default]
    Query,
    /// All queries of a batch in one request: Search-R1.
    Queries,
}

/// A request as a server reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The form it came in.
    pub form: Form,
    /// The queries; exactly one for [`Form::Query`].
    pub queries: Vec<String>,
    /// How many passages for each; `None` for the server's default.
    pub top_k: Option<usize>,
    /// Whether items carry their scores.
    pub return_scores: bool,
}

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{field}: found {found}, expected {expected}")]
pub struct Refusal {
    /// The field; `body` for the request as a whole.
    pub field: String,
    /// What it says.
    pub found: String,
    /// What it should say.
    pub expected: String,
}

impl Refusal {
    fn new(field: &str, found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { field: field.to_owned(), found: found.into(), expected: expected.into() }
    }

    /// The body of the answer with status 422, in the shape that clients of the public servers know.
    pub fn body(&self) -> Value {
        let mut place = vec!["body"];
        if self.field != "body" {
            place.push(&self.field);
        }
        let message = format!("found {}, expected {}", self.found, self.expected);
        json!({"detail": [{"loc": place, "msg": message, "type": "value_error"}]})
    }
}

/// Limits of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Highest `topk`.
    pub top_k: usize,
    /// Most queries of one request.
    pub queries: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { top_k: 1000, queries: 4096 }
    }
}

/// Reads a request.
///
/// # Errors
/// [`Refusal`] names the field.
pub fn parse_request(body: &[u8], limits: Limits) -> Result<Request, Refusal> {
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| Refusal::new("body", format!("no JSON ({error})"), "a JSON object"))?;
    let Value::Object(fields) = value else {
        return Err(Refusal::new("body", kind(&value), "a JSON object"));
    };
    let (form, queries) = match (fields.get("query"), fields.get("queries")) {
        (Some(_), Some(_)) => {
            return Err(Refusal::new("queries", "`query` and `queries`", "one of the two"));
        }
        (Some(Value::String(query)), None) => (Form::Query, vec![query.clone()]),
        (Some(other), None) => return Err(Refusal::new("query", kind(other), "a text")),
        (None, Some(Value::Array(items))) => {
            if items.len() > limits.queries {
                let expected = format!("at most {}", limits.queries);
                return Err(Refusal::new("queries", format!("{} queries", items.len()), expected));
            }
            let text = |(at, item): (usize, &Value)| match item {
                Value::String(text) => Ok(text.clone()),
                other => {
                    Err(Refusal::new("queries", format!("{} at place {at}", kind(other)), "a list of texts"))
                }
            };
            (Form::Queries, items.iter().enumerate().map(text).collect::<Result<_, _>>()?)
        }
        (None, Some(other)) => return Err(Refusal::new("queries", kind(other), "a list of texts")),
        (None, None) => {
            return Err(Refusal::new("query", "nothing", "`query` (a text) or `queries` (a list of texts)"));
        }
    };
    let top_k = match fields.get("topk") {
        None | Some(Value::Null) => None,
        Some(value) => {
            let expected = || format!("a whole number from 0 to {}", limits.top_k);
            let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
            match number.filter(|&number| number <= limits.top_k) {
                Some(number) => (number > 0).then_some(number),
                None => return Err(Refusal::new("topk", value.to_string(), expected())),
            }
        }
    };
    let return_scores = match fields.get("return_scores") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(flag)) => *flag,
        Some(other) => return Err(Refusal::new("return_scores", kind(other), "true or false")),
    };
    Ok(Request { form, queries, top_k, return_scores })
}

/// Writes a request as a client sends it; it always asks for scores.
pub fn request_body(form: Form, queries: &[String], top_k: usize) -> Value {
    match form {
        Form::Query => json!({"query": queries.first(), "topk": top_k, "return_scores": true}),
        Form::Queries => json!({"queries": queries, "topk": top_k, "return_scores": true}),
    }
}

/// Writes an answer: one list of hits for each query.
pub fn answer_body(lists: Vec<Vec<Hit>>, return_scores: bool) -> Value {
    let item = |hit: Hit| {
        let mut row = Map::new();
        row.insert("id".into(), hit.document.id.into());
        row.insert("contents".into(), hit.document.contents.into());
        row.extend(hit.document.other);
        if return_scores { json!({"document": row, "score": hit.score}) } else { Value::Object(row) }
    };
    let lists: Vec<Vec<Value>> = lists.into_iter().map(|list| list.into_iter().map(item).collect()).collect();
    json!({ "result": lists })
}

/// What is wrong with an answer that is JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerFault {
    /// `result` is missing or empty.
    NoResult,
    /// Something has another shape; the words are those of the Python client.
    Shape(String),
}

/// Reads the lists of an answer.
///
/// # Errors
/// [`AnswerFault`].
pub fn parse_answer(answer: &Value) -> Result<Found, AnswerFault> {
    let shape = AnswerFault::Shape;
    let Value::Object(fields) = answer else {
        return Err(shape(format!("'{}' object has no attribute 'get'", type_name(answer))));
    };
    let result = fields.get("result").filter(|result| is_true(result)).ok_or(AnswerFault::NoResult)?;
    let mut lists = Vec::new();
    for list in iterate(result).map_err(shape)? {
        let mut hits = Vec::new();
        for item in iterate(&list).map_err(shape)? {
            let document = subscript(&item, "document").map_err(shape)?;
            let contents = match subscript(document, "contents").map_err(shape)? {
                Value::String(text) => text.clone(),
                other => {
                    return Err(shape(format!("'{}' object has no attribute 'strip'", type_name(other))));
                }
            };
            let mut other = document.as_object().cloned().unwrap_or_default();
            other.shift_remove("contents");
            let id = match other.shift_remove("id") {
                Some(Value::String(id)) => id,
                Some(id) => id.to_string(),
                None => String::new(),
            };
            hits.push(Hit { document: Document { id, contents, other }, score: item["score"].as_f64() });
        }
        lists.push(hits);
    }
    Ok(lists)
}
