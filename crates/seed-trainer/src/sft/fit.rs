//! Supervised fine-tuning on token rows, loss on the response alone.

use crate::learner::{Learner, accumulate};
use crate::mesh::Mesh;
use crate::metrics::Record;
use crate::rl::scoring::{SampledRow, pack, sampled_batch, score_rows};
use crate::schedule::Schedule;
use crate::streams::{shuffle, stream};
use seed_core::aggregate::Normalizer;
use seed_core::sft::sft_loss;
use seed_core::{InputError, TokenRows};
use seed_model::{PlacedPicture, ScoreError, try_loss_and_gradients};
use seed_rollout::source::Context;

/// A row to learn from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lesson {
    /// Ids before the response.
    pub prompt: Vec<u32>,
    /// Ids to learn, and between them others where the mask is off.
    pub response: Vec<u32>,
    /// True where an id is to be learnt.
    pub mask: Vec<bool>,
    /// Pictures at their places over prompt and response.
    pub pictures: Vec<PlacedPicture>,
}

impl Lesson {
    /// A lesson whose whole response is to be learnt.
    pub fn new(prompt: impl Into<Context>, response: Vec<u32>) -> Self {
        let Context { ids: prompt, pictures } = prompt.into();
        let mask = vec![true; response.len()];
        Self { prompt, response, mask, pictures }
    }

    /// The same as a row to score.
    pub fn row(&self) -> SampledRow<'_> {
        SampledRow {
            prompt: &self.prompt,
            response: &self.response,
            mask: &self.mask,
            pictures: &self.pictures,
        }
    }
}

/// How to fit.
#[derive(Debug, Clone, Copy)]
pub struct FitOptions {
    /// Passes over the lessons.
    pub epochs: usize,
    /// Lessons of one optimiser step; the last step of a pass takes what is left.
    pub batch: usize,
    /// Tokens of one pass of one worker.
    pub micro_tokens: usize,
    /// Learning rate by step.
    pub schedule: Schedule,
    /// Largest global gradient norm; 0: no clipping.
    pub max_grad_norm: f64,
    /// Seed of the order of lessons.
    pub seed: u64,
}

impl FitOptions {
    /// Optimiser steps for so many lessons.
    pub fn steps(lessons: usize, batch: usize, epochs: usize) -> usize {
        lessons.div_ceil(batch.max(1)) * epochs
    }
}

/// Why fitting stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FitError {
    /// There is nothing to learn from.
    #[error("no record is left to learn from")]
    Empty,
    /// A lesson cannot be scored.
    #[error(transparent)]
    Score(#[from] ScoreError),
    /// The loss refused its inputs.
    #[error(transparent)]
    Loss(#[from] InputError),
    /// A loss or gradient that is not a number.
    #[error(
        "step {step}: the {what} is {value}; lower the learning rate, or look at the records of this step"
    )]
    NotFinite {
        /// `loss` or `gradient norm`.
        what: &'static str,
        /// Its value.
        value: f64,
        /// The step, from 0.
        step: usize,
    },
}

/// Fits the lessons; `report(step, numbers)` is called after every optimiser step, from 1.
///
/// # Errors
/// [`FitError`]; nothing is stepped with a gradient that is not finite.
pub fn fit(
    learner: &mut Learner,
    mesh: &Mesh,
    lessons: &[Lesson],
    options: &FitOptions,
    mut report: impl FnMut(usize, &Learner, Record),
) -> Result<(), FitError> {
    if lessons.is_empty() {
        return Err(FitError::Empty);
    }
    let mut step = 0;
    for epoch in 0..options.epochs {
        let mut order: Vec<usize> = (0..lessons.len()).collect();
        shuffle(&mut order, &mut stream(options.seed, "sft order", &[epoch as u64]));
        for batch in order.chunks(options.batch) {
            let rows: Vec<SampledRow<'_>> = batch.iter().map(|index| lessons[*index].row()).collect();
            let lr = options.schedule.at(step);
            let (loss, norm) = fit_step(learner, mesh, &rows, options, lr, step)?;
            step += 1;
            let mut record = Record::new();
            record.set("sft/loss", loss);
            record.set("sft/grad_norm", norm);
            record.set("sft/lr", lr);
            report(step, learner, record);
        }
    }
    Ok(())
}

fn fit_step(
    learner: &mut Learner,
    mesh: &Mesh,
    rows: &[SampledRow<'_>],
    options: &FitOptions,
    lr: f64,
    step: usize,
) -> Result<(f64, f64), FitError> {
    let parts = pack(rows.iter().map(SampledRow::tokens), options.micro_tokens);
    let layout = |rows: &[SampledRow<'_>]| {
        let learnt = |row: &SampledRow<'_>| row.mask.iter().filter(|on| **on).count();
        TokenRows::full(&rows.iter().map(learnt).collect::<Vec<_>>())
    };
    let counts = Normalizer::of(&layout(rows));
    let activations = learner.activations();
    let result = accumulate(mesh, learner.model(), parts.len(), |model, part| {
        let rows = &rows[parts[part].clone()];
        let batch = sampled_batch(rows, model.config().vocab_size)?;
        if batch.targets.is_empty() {
            return Ok((None, 0.0));
        }
        let (value, gradients) =
            try_loss_and_gradients(model, &batch.packed, activations, |hidden, head| {
                let logp = batch.scores(hidden, head, 1.0, false).logp;
                let loss = sft_loss(logp, &layout(rows), Some(&counts))?;
                let value: f32 = loss.clone().inner().into_scalar();
                Ok::<_, FitError>((f64::from(value), loss))
            })?;
        Ok::<_, FitError>((Some(gradients), value))
    })?;
    let loss: f64 = result.reports.iter().sum();
    if !loss.is_finite() {
        return Err(FitError::NotFinite { what: "loss", value: loss, step });
    }
    let norm = learner
        .step(result.gradients, lr, options.max_grad_norm)
        .map_err(|value| FitError::NotFinite { what: "gradient norm", value, step })?;
    Ok((loss, norm))
}

/// Mean negative log-likelihood of the learnt tokens under the present weights; 0 without any.
///
/// # Errors
/// [`ScoreError`] when a lesson cannot be scored.
pub fn loss_of(
    learner: &Learner,
    mesh: &Mesh,
    lessons: &[Lesson],
    micro_tokens: usize,
) -> Result<f64, ScoreError> {
    let rows: Vec<SampledRow<'_>> = lessons.iter().map(Lesson::row).collect();
    let scores = score_rows(mesh, &learner.snapshot(), &rows, micro_tokens, 1.0, false)?;
    let logp = || scores.iter().flat_map(|row| row.logp.iter().map(|x| f64::from(*x)));
    let count = logp().count();
    Ok(if count == 0 { 0.0 } else { -logp().sum::<f64>() / count as f64 })
}
