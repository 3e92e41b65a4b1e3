//! The suite: questions, a retriever, and the environment that brings them together.

use super::options::{OnFailure, SearchQaOptions};
use super::protocol::{Protocol, Request};
use super::retriever::{Found, Retriever};
use crate::environment::{EnvError, Environment, LastStep, Observation, Step, StepInfo, Suite, Task};
use crate::household::stream::Stream;
use crate::projection::trim;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One question with its answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The question.
    pub question: String,
    /// Answers that are right.
    pub golden_answers: Vec<String>,
    /// The data set that it comes from; results are told apart by it.
    pub data_source: String,
    /// Queries that lead to the answer, where they are known (the embedded world).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<String>,
}

/// The suite `search_qa`.
#[derive(Clone)]
pub struct SearchQa {
    shared: Arc<Shared>,
}

struct Shared {
    options: SearchQaOptions,
    splits: Vec<Split>,
    by_id: HashMap<String, Arc<Question>>,
    retriever: Arc<dyn Retriever>,
    /// Environments made so far: each asks servers under its own number.
    environments: AtomicUsize,
}

struct Split {
    name: String,
    tasks: Arc<[Task]>,
}

impl SearchQa {
    /// The name of the suite.
    pub const NAME: &str = "search_qa";

    /// A suite over questions by split. The id of a task is `split/source/number`, counted over the split, so it is
    /// stable as long as the list is.
    pub fn new(
        splits: Vec<(String, Vec<Question>)>,
        retriever: Arc<dyn Retriever>,
        options: SearchQaOptions,
    ) -> Self {
        let mut by_id = HashMap::new();
        let splits = splits.into_iter().map(|(name, questions)| {
            let tasks = questions.into_iter().enumerate().map(|(number, question)| {
                let id = format!("{name}/{}/{number}", question.data_source);
                let kind = question.data_source.clone();
                by_id.insert(id.clone(), Arc::new(question));
                Task { id, split: name.clone(), kind }
            });
            Split { tasks: tasks.collect(), name }
        });
        let splits = splits.collect();
        Self {
            shared: Arc::new(Shared { options, splits, by_id, retriever, environments: AtomicUsize::new(0) }),
        }
    }

    /// The options that it was made with.
    pub fn options(&self) -> &SearchQaOptions {
        &self.shared.options
    }

    /// The question of a task.
    ///
    /// # Errors
    /// [`EnvError::UnknownTask`].
    pub fn question(&self, task: &Task) -> Result<&Arc<Question>, EnvError> {
        let unknown = || EnvError::UnknownTask { suite: Self::NAME.to_owned(), id: task.id.clone() };
        self.shared.by_id.get(&task.id).ok_or_else(unknown)
    }
}

impl Suite for SearchQa {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn splits(&self) -> Vec<String> {
        self.shared.splits.iter().map(|split| split.name.clone()).collect()
    }

    fn tasks(&self, split: &str) -> Result<Arc<[Task]>, EnvError> {
        let found = self.shared.splits.iter().find(|known| known.name == split);
        found.map(|split| split.tasks.clone()).ok_or_else(|| EnvError::UnknownSplit {
            suite: Self::NAME.to_owned(),
            split: split.to_owned(),
            known: self.splits().join(", "),
        })
    }

    fn environment(&self) -> Box<dyn Environment> {
        let caller = self.shared.environments.fetch_add(1, Ordering::Relaxed);
        Box::new(SearchQaEnvironment { shared: self.shared.clone(), caller, episode: None })
    }

    fn task_description(&self, task: &Task) -> Option<String> {
        self.question(task).ok().map(|question| question.question.clone())
    }
}

/// One asker.
#[derive(Clone)]
struct SearchQaEnvironment {
    shared: Arc<Shared>,
    caller: usize,
    episode: Option<Episode>,
}

#[derive(Clone)]
struct Episode {
    question: Arc<Question>,
    /// Drawn from task and seed: what request ids of failed searches are made of.
    ids: Stream,
    turns: usize,
    searches: usize,
    /// What is scored: actions, and observations where `passages_count` says so.
    text: String,
    last: LastStep,
}

/// What a search brought.
#[derive(Default)]
struct Searched {
    observation: String,
    retrieved: Vec<String>,
    failed: Option<String>,
}

impl SearchQaEnvironment {
    fn search(&self, query: &str, ids: &mut Stream) -> Result<Searched, EnvError> {
        let SearchQaOptions { protocol, top_k, ascii_passages, on_failure, .. } = self.shared.options;
        // Drawn each time, so that a failure does not move later draws.
        let request_id = request_id(ids);
        match self.shared.retriever.search(query, top_k, self.caller) {
            Ok(found) => Ok(Searched {
                observation: protocol.observation(&found, ascii_passages),
                retrieved: retrieved(&found),
                failed: None,
            }),
            Err(error) if on_failure == OnFailure::Stop => Err(EnvError::Service {
                service: format!("retriever {}", self.shared.retriever.name()),
                problem: error.to_string(),
            }),
            Err(error) => Ok(Searched {
                observation: protocol.failure(&error, &request_id, ascii_passages),
                retrieved: Vec::new(),
                failed: Some(error.to_string()),
            }),
        }
    }
}

fn retrieved(found: &Found) -> Vec<String> {
    found.iter().flatten().map(|hit| hit.document.id.clone()).collect()
}

/// 128 drawn bits in the usual form of a version 4 UUID.
fn request_id(ids: &mut Stream) -> String {
    let (high, low) = (ids.next_u64(), ids.next_u64());
    let (a, b, c) = (high >> 32, high >> 16 & 0xffff, high & 0xfff);
    let (d, e) = (low >> 48 & 0x3fff | 0x8000, low & 0xffff_ffff_ffff);
    format!("{a:08x}-{b:04x}-4{c:03x}-{d:04x}-{e:012x}")
}

impl Environment for SearchQaEnvironment {
    fn reset(&mut self, task: &Task, seed: u64) -> Result<Observation, EnvError> {
        self.episode = None;
        let unknown = || EnvError::UnknownTask { suite: SearchQa::NAME.to_owned(), id: task.id.clone() };
        let question = self.shared.by_id.get(&task.id).ok_or_else(unknown)?.clone();
        let observation = Observation::text(question.question.clone());
        self.episode = Some(Episode {
            question,
            ids: Stream::new(&format!("search_qa request ids of {}", task.id), &[seed]),
            turns: 0,
            searches: 0,
            text: String::new(),
            last: LastStep::default(),
        });
        Ok(observation)
    }

    fn step(&mut self, action: &str) -> Result<Step, EnvError> {
        let mut episode = self.episode.take().ok_or(EnvError::NotReset)?;
        if let Some(last) = episode.last.again() {
            self.episode = Some(episode);
            return Ok(last);
        }
        let options = &self.shared.options;
        let request = options.protocol.request(action);
        episode.turns += 1;
        episode.text.push_str(action);
        let answered = matches!(request, Request::Answer(_));
        let over = answered || episode.turns >= options.turn_limit();

        let mut searched = Searched::default();
        // The query that goes out, and whether the reference counts the turn as one that called its tool.
        let query = match request {
            Request::Search(query) if !over && (options.send_empty_query || !query.is_empty()) => Some(query),
            _ => None,
        };
        if let Some(query) = query {
            searched = self.search(query, &mut episode.ids)?;
            episode.searches += 1;
        } else if !over {
            searched.observation.clone_from(&options.reminder);
        }
        if options.passages_count {
            episode.text.push_str(&searched.observation);
        }

        let score = if over { options.score(&episode.text, &episode.question.golden_answers) } else { 0.0 };
        let observation = match options.protocol {
            // The agent trims what comes back before it uses it; a transcript takes it as it is.
            Protocol::VerlAgent => trim(&searched.observation).to_owned(),
            Protocol::SearchR1 => searched.observation,
        };
        let mut info = StepInfo {
            won: over && score >= 1.0,
            score,
            action_valid: Some(answered || query.is_some() && searched.failed.is_none()),
            ..StepInfo::default()
        };
        let mut detail = |name: &str, value: Value| drop(info.details.insert(name.to_owned(), value));
        detail("tool_calling", json!(!over));
        detail("searches", json!(episode.searches));
        if let Some(query) = query {
            detail("query", json!(query));
            detail("retrieved", json!(searched.retrieved));
        }
        if let Some(problem) = searched.failed {
            detail("search_failed", json!(problem));
        }
        if let Request::Answer(answer) = request {
            detail("answer", json!(answer));
        }
        let step = Step {
            observation: Observation::text(observation),
            reward: score,
            done: answered,
            truncated: over && !answered,
            info,
        };
        let step = episode.last.keep(step);
        self.episode = Some(episode);
        Ok(step)
    }

    fn snapshot(&self) -> Box<dyn Environment> {
        Box::new(self.clone())
    }

    /// The next query of the question's plan, then its answer; `None` where no plan is known.
    fn expert_action(&self) -> Option<String> {
        let episode = self.episode.as_ref().filter(|episode| !episode.last.is_over())?;
        let Question { plan, golden_answers, .. } = &*episode.question;
        if plan.is_empty() {
            return None;
        }
        let room = self.shared.options.turn_limit() - episode.turns > 1;
        Some(match plan.get(episode.searches) {
            Some(query) if room => format!("<search>{query}</search>"),
            _ => format!("<answer>{}</answer>", golden_answers.first()?),
        })
    }
}
