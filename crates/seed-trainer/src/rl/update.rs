//! The optimiser steps of one update: epochs × mini-batches × passes over the joint loss.

use super::sample::Sample;
use super::scoring::{SampledRow, host, pack, sampled_batch, score_rows};
use crate::learner::{Learner, accumulate};
use crate::mesh::Mesh;
use crate::metrics::Record;
use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};
use seed_core::objective::{ObjectiveConfig, ObjectiveNormalizer, Scope, Teacher};
use seed_core::{InputError, Metrics, ObjectiveInputs, TokenRows, joint_objective};
use seed_model::{Activations, CausalLm, ScoreError, Scores, try_loss_and_gradients};
use std::ops::Range;

/// How an update is cut and stepped.
#[derive(Debug, Clone, Copy)]
pub struct UpdateOptions {
    /// The joint objective of this update.
    pub objective: ObjectiveConfig,
    /// Rows of one optimiser step; 0: all.
    pub mini_rows: usize,
    /// Tokens of one pass of one worker.
    pub micro_tokens: usize,
    /// Passes over the rows.
    pub epochs: usize,
    /// Temperature of every log-probability.
    pub temperature: f64,
    /// Learning rate.
    pub lr: f64,
    /// Largest global gradient norm; 0: no clipping.
    pub max_grad_norm: f64,
    /// Score the teacher anew before every mini-batch.
    pub refresh_teacher: bool,
}

/// Why an update stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateError {
    /// A row cannot be scored.
    #[error(transparent)]
    Score(#[from] ScoreError),
    /// The loss refused its inputs.
    #[error(transparent)]
    Loss(#[from] InputError),
    /// A loss or a gradient that is not a number; the weights are those from before this optimiser step.
    #[error("optimiser step {step} of the update: the {what} is {value}; its rows are {}..{}", rows.start, rows.end)]
    NotFinite {
        /// `loss` or `gradient norm`.
        what: &'static str,
        /// Its value.
        value: f64,
        /// The optimiser step inside the update, from 0.
        step: usize,
        /// The rows of the mini-batch.
        rows: Range<usize>,
    },
}

/// Trains on the samples of one update.
///
/// # Errors
/// [`UpdateError`]; nothing is stepped with a gradient that is not finite.
pub fn update(
    learner: &mut Learner,
    mesh: &Mesh,
    samples: &mut [Sample],
    options: &UpdateOptions,
    mut advanced: impl FnMut(usize),
) -> Result<Record, UpdateError> {
    let mini_rows = if options.mini_rows == 0 { samples.len() } else { options.mini_rows }.max(1);
    let mut totals = Totals::default();
    for _ in 0..options.epochs {
        let mut start = 0;
        while start < samples.len() {
            let rows = start..(start + mini_rows).min(samples.len());
            start = rows.end;
            if options.refresh_teacher && totals.steps > 0 {
                refresh_teacher(learner, mesh, &mut samples[rows.clone()], options)?;
            }
            step(learner, mesh, &samples[rows.clone()], rows.clone(), options, &mut totals)?;
            advanced(rows.len());
        }
    }
    Ok(totals.record(options))
}

#[derive(Default)]
struct Totals {
    steps: usize,
    sums: Vec<(&'static str, f64)>,
    grad_norm: f64,
    ratio_max_first: f64,
}

impl Totals {
    fn add(&mut self, metrics: &Metrics) {
        for (name, value) in metrics.iter() {
            match self.sums.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += value,
                None => self.sums.push((name, value)),
            }
        }
    }

    fn record(self, options: &UpdateOptions) -> Record {
        let mut record = Record::new();
        let steps = self.steps.max(1) as f64;
        for (name, sum) in self.sums {
            let name = match name {
                "loss" => "actor/loss",
                "pg/loss" => "actor/pg_loss",
                "pg/clip_fraction" => "actor/pg_clipfrac",
                "pg/clip_fraction_lower" => "actor/pg_clipfrac_lower",
                "pg/approx_kl" => "actor/ppo_kl",
                "entropy" => "actor/entropy",
                "kl/loss" => "actor/kl_loss",
                "opd/gap_mean" => "opd/teacher_gap_mean",
                other => other,
            };
            record.set(name, sum / steps);
        }
        record.set("actor/grad_norm", self.grad_norm / steps);
        record.set("actor/ratio_max_first", self.ratio_max_first);
        record.set("actor/optimizer_steps", self.steps as f64);
        record.set("actor/lr", options.lr);
        record.set("opd/coef", options.objective.opd.map_or(0.0, |term| term.coef));
        record
    }
}

/// What one pass reports.
struct PassReport {
    metrics: Metrics,
    ratio_max: f64,
}

fn step(
    learner: &mut Learner,
    mesh: &Mesh,
    samples: &[Sample],
    rows: Range<usize>,
    options: &UpdateOptions,
    totals: &mut Totals,
) -> Result<(), UpdateError> {
    let parts = pack(samples.iter().map(|sample| sample.student().tokens()), options.micro_tokens);
    let layouts: Vec<Layout> = parts.iter().map(|part| Layout::new(&samples[part.clone()])).collect();
    let mut counts = ObjectiveNormalizer::default();
    for layout in &layouts {
        counts.add_part(
            &options.objective,
            &layout.rows,
            Some(&layout.row_mask),
            Some(&layout.token_mask),
        )?;
    }
    let (first, activations) = (totals.steps == 0, learner.activations());
    let result = accumulate(mesh, learner.model(), parts.len(), |model, part| {
        let samples = &samples[parts[part].clone()];
        pass(model, activations, samples, &layouts[part], &counts, options, first)
    })?;
    let mut metrics = Metrics::default();
    for report in &result.reports {
        metrics.merge(&report.metrics);
        totals.ratio_max_first = totals.ratio_max_first.max(report.ratio_max);
    }
    let not_finite =
        |what, value| UpdateError::NotFinite { what, value, step: totals.steps, rows: rows.clone() };
    let loss = metrics.get("loss").unwrap_or(0.0);
    if !loss.is_finite() {
        return Err(not_finite("loss", loss));
    }
    let norm = learner
        .step(result.gradients, options.lr, options.max_grad_norm)
        .map_err(|norm| not_finite("gradient norm", norm))?;
    totals.grad_norm += norm;
    totals.steps += 1;
    totals.add(&metrics);
    Ok(())
}

/// Lengths and masks of a pass.
struct Layout {
    rows: TokenRows,
    row_mask: Vec<bool>,
    token_mask: Vec<bool>,
}

impl Layout {
    fn new(samples: &[Sample]) -> Self {
        let lengths: Vec<usize> = samples.iter().map(|sample| sample.old_logp.len()).collect();
        let token_mask = samples
            .iter()
            .flat_map(|sample| {
                let all = sample.distilled.is_empty().then(|| vec![true; sample.old_logp.len()]);
                all.unwrap_or_else(|| sample.distilled.clone())
            })
            .collect();
        Self {
            rows: TokenRows::full(&lengths),
            row_mask: samples.iter().map(|sample| sample.teacher_prompt.is_some()).collect(),
            token_mask,
        }
    }
}

fn pass(
    model: &CausalLm,
    activations: Activations,
    samples: &[Sample],
    layout: &Layout,
    counts: &ObjectiveNormalizer,
    options: &UpdateOptions,
    first: bool,
) -> Result<(Option<GradientsParams>, PassReport), UpdateError> {
    let student: Vec<SampledRow<'_>> = samples.iter().map(Sample::student).collect();
    let batch = sampled_batch(&student, model.config().vocab_size)?;
    if batch.targets.is_empty() {
        return Ok((None, PassReport { metrics: Metrics::default(), ratio_max: 0.0 }));
    }
    let (report, gradients) = try_loss_and_gradients(model, &batch.packed, activations, |hidden, head| {
        // Always measured: a run without an entropy bonus still shows its entropy.
        let scores = batch.scores(hidden, head, options.temperature, true);
        loss(scores, samples, layout, counts, &options.objective, first)
    })?;
    Ok((Some(gradients), report))
}

/// The joint loss of a pass, and what it reports.
fn loss(
    scores: Scores,
    samples: &[Sample],
    layout: &Layout,
    counts: &ObjectiveNormalizer,
    objective: &ObjectiveConfig,
    first: bool,
) -> Result<(PassReport, Tensor<1>), UpdateError> {
    let device = scores.logp.device().inner();
    let old_logp = constant(samples.iter().flat_map(|s| s.old_logp.iter().copied()), &device);
    let ratio_max = if first {
        let ratio = (scores.logp.clone().inner() - old_logp.clone()).exp() - 1.0;
        f64::from(host(ratio.abs()).into_iter().fold(0.0, f32::max))
    } else {
        0.0
    };
    let teacher = objective.opd.is_some().then(|| Teacher {
        logp: constant(
            samples.iter().flat_map(|s| {
                // Rows without a teacher are masked; their own values stand in.
                if s.teacher_prompt.is_some() { s.teacher_logp.iter() } else { s.old_logp.iter() }.copied()
            }),
            &device,
        ),
        row_mask: Some(&layout.row_mask),
        token_mask: Some(&layout.token_mask),
    });
    let inputs = ObjectiveInputs {
        advantage: constant(samples.iter().flat_map(|s| s.advantage.iter().map(|a| *a as f32)), &device),
        ref_logp: objective
            .kl
            .is_some()
            .then(|| constant(samples.iter().flat_map(|s| s.reference_logp.iter().copied()), &device)),
        rows: &layout.rows,
        logp: scores.logp,
        old_logp,
        entropy: scores.entropy,
        teacher,
    };
    let output = joint_objective(objective, inputs, Scope::part_of(counts))?;
    let report = PassReport { metrics: output.diagnostics.read(), ratio_max };
    Ok((report, output.loss))
}

fn constant(values: impl Iterator<Item = f32>, device: &Device) -> Tensor<1> {
    let values: Vec<f32> = values.collect();
    let length = values.len();
    Tensor::from_data(TensorData::new(values, [length]), device)
}

/// Scores the teacher's side with the weights of this moment.
fn refresh_teacher(
    learner: &Learner,
    mesh: &Mesh,
    samples: &mut [Sample],
    options: &UpdateOptions,
) -> Result<(), ScoreError> {
    let model = learner.model().valid();
    let rows: Vec<SampledRow<'_>> = samples.iter().filter_map(Sample::teacher).collect();
    let scores = score_rows(mesh, &model, &rows, options.micro_tokens, options.temperature, false)?;
    let with_teacher = samples.iter_mut().filter(|sample| sample.teacher_prompt.is_some());
    for (sample, scores) in with_teacher.zip(scores) {
        sample.teacher_logp = scores.logp;
    }
    Ok(())
}
