//! A token source that says what a closure tells it to: real tokens of a real tokenizer, no model.

use seed_model::Tokenizer;
use seed_rollout::row::Finish;
use seed_rollout::source::{Completion, Request, SessionId, SourceError, TokenSource};
use std::collections::VecDeque;

/// What the script answers to a prompt: (text of the whole context, random number of the response) → response.
pub(crate) type Script = dyn Fn(&str, u64) -> String + Send + Sync;

/// Answers one waiting request a step, the newest first: as unlike an engine as can be.
pub(crate) struct Scripted<'a> {
    tokenizer: &'a Tokenizer,
    end: u32,
    script: &'a Script,
    waiting: VecDeque<Request>,
    pub(crate) seats: usize,
    pub(crate) open: Vec<SessionId>,
    pub(crate) most_open: usize,
}

impl<'a> Scripted<'a> {
    pub(crate) fn new(tokenizer: &'a Tokenizer, seats: usize, script: &'a Script) -> Self {
        let end = tokenizer.encode("<|im_end|>").unwrap()[0];
        Self { tokenizer, end, script, waiting: VecDeque::new(), seats, open: Vec::new(), most_open: 0 }
    }
}

impl TokenSource for Scripted<'_> {
    fn capacity(&self) -> usize {
        self.seats
    }

    fn max_context(&self) -> usize {
        1 << 20
    }

    fn submit(&mut self, request: Request) -> Result<(), SourceError> {
        if !self.open.contains(&request.session) {
            self.open.push(request.session);
        }
        self.most_open = self.most_open.max(self.open.len());
        self.waiting.push_back(request);
        Ok(())
    }

    fn advance(&mut self) -> Result<Vec<Completion>, SourceError> {
        let Some(request) = self.waiting.pop_back() else { return Ok(Vec::new()) };
        let context = self.tokenizer.decode(&request.context.ids).unwrap();
        let text = (self.script)(&context, request.stream.seed());
        let mut ids = self.tokenizer.encode(&text).unwrap();
        ids.push(self.end);
        let cut = ids.len() > request.max_new_tokens;
        ids.truncate(request.max_new_tokens);
        let logp = ids.iter().map(|&id| -0.001 * (id + 1) as f32).collect();
        let finish = if cut { Finish::Length } else { Finish::End };
        Ok(vec![Completion { session: request.session, ids, logp, finish }])
    }

    fn pending(&self) -> usize {
        self.waiting.len()
    }

    fn close(&mut self, session: SessionId) {
        self.open.retain(|&open| open != session);
    }
}
