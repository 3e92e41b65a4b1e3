//! A training row with everything that the loss needs beside its tokens.

use super::scoring::SampledRow;
use seed_rollout::row::Row;
use serde::Serialize;

/// A row on its way through an update. Per-token lists have one entry a *sampled* token.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    /// Tokens, mask, group, trajectory, rewards.
    pub row: Row,
    /// The teacher's prompt; `None` where the row has no usable skill.
    pub teacher_prompt: Option<Vec<u32>>,
    /// Log-probabilities before the update, by the trainer.
    pub old_logp: Vec<f32>,
    /// Log-probabilities of the reference; empty when the loss has no KL term.
    pub reference_logp: Vec<f32>,
    /// Log-probabilities under the teacher's prompt; empty where there is none.
    pub teacher_logp: Vec<f32>,
    /// Advantages.
    pub advantage: Vec<f64>,
    /// Which tokens the distillation may count; empty means all.
    pub distilled: Vec<bool>,
}

impl Sample {
    /// A row as it was collected.
    pub fn new(row: Row) -> Self {
        Self {
            row,
            teacher_prompt: None,
            old_logp: vec![],
            reference_logp: vec![],
            teacher_logp: vec![],
            advantage: vec![],
            distilled: vec![],
        }
    }

    /// The policy's own view.
    pub fn student(&self) -> SampledRow<'_> {
        SampledRow {
            prompt: &self.row.prompt_ids,
            response: &self.row.response_ids,
            mask: &self.row.response_mask,
        }
    }

    /// The same response behind the teacher's prompt.
    pub fn teacher(&self) -> Option<SampledRow<'_>> {
        Some(SampledRow { prompt: self.teacher_prompt.as_deref()?, ..self.student() })
    }

    /// The engine's log-probabilities of the sampled tokens.
    pub fn engine_logp(&self) -> impl Iterator<Item = f32> {
        self.row
            .logp
            .iter()
            .zip(&self.row.response_mask)
            .filter(|(_, sampled)| **sampled)
            .map(|(logp, _)| *logp)
    }

    /// Places the values of sampled tokens in the whole response, `elsewhere` between them.
    pub fn spread<T: Copy>(&self, values: &[T], elsewhere: T) -> Vec<T> {
        let mut values = values.iter();
        self.row
            .response_mask
            .iter()
            .map(
                |sampled| {
                    if *sampled { *values.next().expect("a value for each sampled token") } else { elsewhere }
                },
            )
            .collect()
    }
}
