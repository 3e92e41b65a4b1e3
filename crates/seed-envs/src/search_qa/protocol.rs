//! The two public protocols: which action a text holds, and how passages and failures are shown.
//!
//! | | verl-agent | Search-R1 |
//! |---|---|---|
//! | conversation | each turn is a prompt of its own with a history in it | one growing transcript |
//! | action | one block, rebuilt by [`Projection::SearchQa`](crate::projection::Projection::SearchQa) | the first complete block of the response |
//! | passages | a JSON object in text, ASCII only | `Doc i(Title: …) …`, as they are |
//! | turns | at most `max_turns`; the last one only answers | `max_turns` with search, and one more that only answers |
//! | senseless text | nothing comes back | a reminder of the two tags comes back |

use super::retriever::{Found, Hit, RetrievalError};
use crate::projection::trim;
use crate::pyjson::dumps;
use serde::{Deserialize, Serialize};

/// Which of the two protocols an episode follows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// verl-agent and its descendants.
    #[default]
    VerlAgent,
    /// Search-R1.
    SearchR1,
}

/// What a text asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// Look something up.
    Search(&'a str),
    /// The answer; the episode ends.
    Answer(&'a str),
    /// Neither.
    Nothing,
}

impl Protocol {
    /// What a projected action asks for; queries and answers are trimmed.
    pub fn request(self, action: &str) -> Request<'_> {
        match self {
            Protocol::VerlAgent => {
                // Both tags anywhere in the action end the episode.
                if action.contains("<answer>") && action.contains("</answer>") {
                    return Request::Answer(super::scoring::last_answer(action, 1).unwrap_or_default());
                }
                let query = super::scoring::blocks(action, "search").first().copied();
                query.map_or(Request::Nothing, Request::Search)
            }
            Protocol::SearchR1 => first_block(action),
        }
    }

    /// How what was found is shown, untrimmed.
    pub fn observation(self, found: &Found, ascii: bool) -> String {
        match self {
            Protocol::VerlAgent => information(&passages(found), ascii),
            Protocol::SearchR1 => {
                let lines: String =
                    found.iter().flat_map(|list| list.iter().enumerate()).map(titled).collect();
                format!("\n\n<information>{}</information>\n\n", trim(&lines))
            }
        }
    }

    /// How a failed search is shown, untrimmed. `request_id` stands for the id that the Python client draws.
    pub fn failure(self, error: &RetrievalError, request_id: &str, ascii: bool) -> String {
        match self {
            Protocol::VerlAgent => information(&complaint(error, request_id), ascii),
            // The Python trainer stops here, so there is no wording to repeat.
            Protocol::SearchR1 => {
                format!("\n\n<information>{}</information>\n\n", complaint(error, request_id))
            }
        }
    }
}

/// The first complete search or answer block by position, exact lower case.
fn first_block(text: &str) -> Request<'_> {
    let mut from = 0;
    while let Some(open) = text[from..].find('<').map(|found| from + found) {
        for (tag, close, make) in [
            ("<search>", "</search>", Request::Search as fn(_) -> _),
            ("<answer>", "</answer>", Request::Answer as fn(_) -> _),
        ] {
            let inside = text[open..].strip_prefix(tag);
            if let Some((inside, end)) = inside.and_then(|inside| Some((inside, inside.find(close)?))) {
                return make(trim(&inside[..end]));
            }
        }
        from = open + 1;
    }
    Request::Nothing
}

/// The response of Search-R1 up to and including its first `</search>`, else its first `</answer>`.
pub fn cut_response(response: &str) -> &str {
    let tags = ["</search>", "</answer>"];
    tags.iter().find_map(|tag| response.find(tag).map(|at| &response[..at + tag.len()])).unwrap_or(response)
}

/// Numbered passages; several lists are parted by a line of three dashes.
fn passages(found: &Found) -> String {
    let list = |hits: &Vec<Hit>| -> String {
        let line = |(at, hit): (usize, &Hit)| format!("Doc {}: {}\n", at + 1, trim(&hit.document.contents));
        hits.iter().enumerate().map(line).collect()
    };
    found.iter().map(list).collect::<Vec<_>>().join("\n---\n")
}

/// A passage with its title, which is the first line of its contents.
fn titled((at, hit): (usize, &Hit)) -> String {
    let (title, text) = hit.document.contents.split_once('\n').unwrap_or((&hit.document.contents, ""));
    format!("Doc {}(Title: {title}) {text}\n", at + 1)
}

fn information(result: &str, ascii: bool) -> String {
    format!("\n<information>{{\"result\": {}}}</information>\n", dumps(result, ascii))
}

/// What the Python client tells the model about a failure.
fn complaint(error: &RetrievalError, request_id: &str) -> String {
    let problem = match error {
        RetrievalError::NoResult { .. } => return "No search results found.".to_owned(),
        RetrievalError::Shape { problem, .. } => {
            return format!("Error processing search results: {problem}");
        }
        RetrievalError::Status { status, attempts, limit, retried: true, .. } => {
            format!("API Request Error: Server Error ({status}) on attempt {attempts}/{limit}")
        }
        RetrievalError::Status { url, status, reason, .. } => {
            let side = if *status >= 500 { "Server" } else { "Client" };
            format!("API Request Error: {status} {side} Error: {reason} for url: {url}")
        }
        RetrievalError::Connection { problem, .. } => format!("Connection Error: {problem}"),
        RetrievalError::Timeout { url, seconds, .. } => {
            format!("Timeout Error: {url} gave no answer (read timeout={seconds})")
        }
        RetrievalError::Json { problem, .. }
        | RetrievalError::Broken { problem, .. }
        | RetrievalError::Local { problem, .. } => format!("API Request Error: {problem}"),
    };
    format!("Search error: [Search Request ID: {request_id}] {problem}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_r1_takes_the_first_complete_block() {
        let request = |text| Protocol::SearchR1.request(text);
        assert_eq!(request("x <search> a\nb </search> <answer>c</answer>"), Request::Search("a\nb"));
        assert_eq!(request("<search>a <answer>b</answer>"), Request::Answer("b"));
        assert_eq!(request("<SEARCH>a</SEARCH>"), Request::Nothing);
        assert_eq!(request("<answer>a<search>q</search></answer>"), Request::Answer("a<search>q</search>"));
        assert_eq!(request("<é<search"), Request::Nothing);
    }

    #[test]
    fn search_r1_cuts_behind_a_search_first() {
        assert_eq!(cut_response("a</answer>b</search>c</search>"), "a</answer>b</search>");
        assert_eq!(cut_response("a</answer>b"), "a</answer>");
        assert_eq!(cut_response("open"), "open");
    }
}
