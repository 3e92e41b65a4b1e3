//! How episodes are played and scored; every quirk of the references has its switch.

use super::protocol::Protocol;
use super::scoring::{AnswerRule, FormatScore, Metric};
use crate::projection::{Projection, SearchRules};
use serde::{Deserialize, Serialize};

/// How a finished episode is scored.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "snake_case")]
pub enum Scoring {
    /// The last answer of the scored text.
    Answer(AnswerRule),
    /// Search-R1's structured format.
    Format(FormatScore),
}

/// What the environment does when passages cannot be had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The complaint is what comes back, and the episode goes on. Each is counted (`search_failed` in the details).
    #[default]
    Observe,
    /// The episode stops with [`EnvError::Service`](crate::EnvError::Service).
    Stop,
}

/// Options of the environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SearchQaOptions {
    /// Which protocol.
    pub protocol: Protocol,
    /// Turns, see [`Protocol`].
    pub max_turns: usize,
    /// Passages that a search brings.
    pub top_k: usize,
    /// How an episode is scored.
    pub scoring: Scoring,
    /// Complete answer blocks of the prompt, which count towards [`AnswerRule::min_pairs`].
    pub prompt_answers: usize,
    /// Whether retrieved passages are part of the scored text, so that an answer block inside of one counts.
    pub passages_count: bool,
    /// Whether a query without any character is sent.
    pub send_empty_query: bool,
    /// Whether text in passages is written with ASCII escapes (`\u00e9`), which costs tokens. verl-agent only.
    pub ascii_passages: bool,
    /// What comes back when there is nothing to do; empty says nothing.
    pub reminder: String,
    /// What happens when passages cannot be had.
    pub on_failure: OnFailure,
    /// How the action is taken from a response that has several blocks. verl-agent only.
    pub search_rules: SearchRules,
}

/// Tells the two tags, in our own words.
const REMINDER: &str = "\nNothing was done: a turn needs one complete pair of tags. Write a query between <search> and </search> \
                        to look something up, or your final answer between <answer> and </answer>.\n";

impl SearchQaOptions {
    /// verl-agent's protocol with all its quirks: the default.
    pub fn verl_agent() -> Self {
        Self {
            protocol: Protocol::VerlAgent,
            max_turns: 4,
            top_k: 3,
            scoring: Scoring::Answer(AnswerRule::AGENT),
            prompt_answers: 0,
            passages_count: true,
            send_empty_query: true,
            ascii_passages: true,
            reminder: String::new(),
            on_failure: OnFailure::Observe,
            search_rules: SearchRules::VERL_AGENT,
        }
    }

    /// Search-R1's protocol: a growing transcript, and an answer counts beside the example of the prompt.
    pub fn search_r1() -> Self {
        Self {
            protocol: Protocol::SearchR1,
            scoring: Scoring::Answer(AnswerRule::SEARCH_R1),
            prompt_answers: 1,
            reminder: REMINDER.to_owned(),
            ..Self::verl_agent()
        }
    }

    /// verl-agent's protocol without its slips: only the model's own answers count, invalid searches are not carried
    /// out and are answered by a reminder, empty queries are not sent, passages keep their letters, a dead retriever
    /// stops the run.
    pub fn corrected() -> Self {
        Self {
            passages_count: false,
            send_empty_query: false,
            ascii_passages: false,
            reminder: REMINDER.trim().to_owned(),
            on_failure: OnFailure::Stop,
            search_rules: SearchRules::CORRECTED,
            ..Self::verl_agent()
        }
    }

    /// How an action is taken from a response in these options.
    pub fn projection(&self) -> Projection {
        match self.protocol {
            Protocol::SearchR1 => Projection::SearchR1,
            Protocol::VerlAgent if self.search_rules == SearchRules::VERL_AGENT => Projection::SearchQa,
            Protocol::VerlAgent => Projection::SearchQaWith { rules: self.search_rules },
        }
    }

    /// The most turns that an episode can have.
    pub fn turn_limit(&self) -> usize {
        match self.protocol {
            Protocol::VerlAgent => self.max_turns,
            Protocol::SearchR1 => self.max_turns + 1,
        }
    }

    /// The score of the scored text of an episode.
    pub(super) fn score(&self, text: &str, golden: &[String]) -> f64 {
        match self.scoring {
            Scoring::Answer(rule) => {
                let min_pairs = rule.min_pairs.saturating_sub(self.prompt_answers);
                AnswerRule { min_pairs, ..rule }.score(text, golden)
            }
            Scoring::Format(format) => format.score_response(text, self.prompt_answers, golden),
        }
    }

    /// Sets what an answer is compared by; the structured format always wants the exact answer.
    #[must_use]
    pub fn with_metric(mut self, metric: Metric) -> Self {
        if let Scoring::Answer(rule) = &mut self.scoring {
            rule.metric = metric;
        }
        self
    }
}

impl Default for SearchQaOptions {
    fn default() -> Self {
        Self::verl_agent()
    }
}
