//! A training row with everything that the loss needs beside its tokens.

use super::scoring::SampledRow;
use seed_model::PlacedPicture;
use seed_rollout::row::Row;
use seed_rollout::source::Context;
use serde::Serialize;

/// A row on its way through an update. Per-token lists have one entry a *sampled* token.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    /// Tokens, mask, group, trajectory, rewards.
    pub row: Row,
    /// The teacher's prompt; `None` where the row has no usable skill.
    pub teacher_prompt: Option<Vec<u32>>,
    /// Pictures of the row at their places.
    #[serde(skip)]
    pub pictures: Vec<PlacedPicture>,
    /// The same pictures behind the teacher's prompt.
    #[serde(skip)]
    pub teacher_pictures: Vec<PlacedPicture>,
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
    /// A row as it was collected, with its pictures ([`Episode::pictures`](seed_rollout::collect::Episode::pictures)).
    pub fn new(row: Row, pictures: Vec<PlacedPicture>) -> Self {
        Self {
            row,
            teacher_prompt: None,
            pictures,
            teacher_pictures: vec![],
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
            pictures: &self.pictures,
        }
    }

    /// The same response behind the teacher's prompt.
    pub fn teacher(&self) -> Option<SampledRow<'_>> {
        let prompt = self.teacher_prompt.as_deref()?;
        Some(SampledRow { prompt, pictures: &self.teacher_pictures, ..self.student() })
    }

    /// Sets the teacher's prompt. Both branches see the same pictures; those of the response move with its start, and their positions
    /// are counted anew when the row is scored.
    pub fn teach(&mut self, prompt: Option<Context>) {
        (self.teacher_prompt, self.teacher_pictures) = match prompt {
            None => (None, vec![]),
            Some(prompt) => {
                let pictures = self.behind(&prompt);
                (Some(prompt.ids), pictures)
            }
        };
    }

    /// The pictures of another prompt and, behind it, those of the response.
    pub fn behind(&self, prompt: &Context) -> Vec<PlacedPicture> {
        let (old, new) = (self.row.prompt_ids.len(), prompt.len());
        let response = self.pictures.iter().filter(|placed| placed.start >= old);
        let moved =
            response.map(|placed| PlacedPicture { start: placed.start - old + new, ..placed.clone() });
        prompt.pictures.iter().cloned().chain(moved).collect()
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
