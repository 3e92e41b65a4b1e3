//! Random batches, and the few operations that every property needs.

use burn::tensor::{DType, Device, Tensor, TensorData};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use seed_core::distill::{OpdConfig, OpdInputs, OpdOutput, opd_loss};
use seed_core::{
    Aggregation, ObjectiveConfig, ObjectiveInputs, ObjectiveNormalizer, ObjectiveOutput, Scope, Teacher,
    TokenRows, joint_objective,
};

pub(crate) fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    let fixed = std::env::var_os("PROPTEST_RNG_SEED").is_none();
    ProptestConfig {
        cases: if std::env::var_os("PROPTEST_CASES").is_none() { 96 } else { default.cases },
        rng_seed: if fixed { RngSeed::Fixed(0x5EED) } else { default.rng_seed },
        failure_persistence: None,
        ..default
    }
}

/// A batch on the host: ragged rows, some of them empty, some tokens masked, some without a teacher.
#[derive(Debug, Clone)]
pub(crate) struct Batch {
    pub(crate) lengths: Vec<usize>,
    pub(crate) counted: Vec<bool>,
    pub(crate) row_mask: Vec<bool>,
    pub(crate) token_mask: Vec<bool>,
    pub(crate) logp: Vec<f64>,
    pub(crate) old_logp: Vec<f64>,
    pub(crate) ref_logp: Vec<f64>,
    pub(crate) teacher_logp: Vec<f64>,
    pub(crate) entropy: Vec<f64>,
    pub(crate) advantage: Vec<f64>,
}

pub(crate) fn batches() -> impl Strategy<Value = Batch> {
    prop::collection::vec(0usize..6, 1..6).prop_flat_map(|lengths| {
        let (rows, tokens) = (lengths.len(), lengths.iter().sum::<usize>());
        let logp = || prop::collection::vec(-6.0f64..-0.01, tokens);
        (
            (Just(lengths), prop::collection::vec(prop::bool::weighted(0.8), tokens)),
            (
                prop::collection::vec(prop::bool::weighted(0.7), rows),
                prop::collection::vec(prop::bool::weighted(0.8), tokens),
            ),
            // Close enough to the current policy for every region of the ratio to be met.
            (logp(), prop::collection::vec(-1.2f64..1.2, tokens), logp(), logp()),
            prop::collection::vec(0.0f64..3.0, tokens),
            prop::collection::vec(prop_oneof![4 => -2.0f64..2.0, 1 => Just(0.0)], tokens),
        )
            .prop_map(
                |(
                    (lengths, counted),
                    (row_mask, token_mask),
                    (logp, drift, ref_logp, teacher_logp),
                    entropy,
                    advantage,
                )| {
                    let old_logp = logp.iter().zip(drift).map(|(logp, drift)| logp + drift).collect();
                    Batch {
                        lengths,
                        counted,
                        row_mask,
                        token_mask,
                        logp,
                        old_logp,
                        ref_logp,
                        teacher_logp,
                        entropy,
                        advantage,
                    }
                },
            )
    })
}

impl Batch {
    pub(crate) fn rows(&self) -> TokenRows {
        TokenRows::packed(&self.lengths, &self.counted).unwrap()
    }

    /// The tokens that are distilled.
    pub(crate) fn distilled(&self) -> TokenRows {
        self.rows().keep_rows(&self.row_mask).unwrap().keep_tokens(&self.token_mask).unwrap()
    }

    pub(crate) fn ratio(&self, token: usize) -> f64 {
        (self.logp[token] - self.old_logp[token]).exp()
    }

    /// Rows in another order.
    pub(crate) fn permuted(&self, order: &[usize]) -> Self {
        let ranges: Vec<_> = self.rows().ranges().collect();
        fn pick<T: Clone>(values: &[T], ranges: &[std::ops::Range<usize>], order: &[usize]) -> Vec<T> {
            order.iter().flat_map(|&row| values[ranges[row].clone()].to_vec()).collect()
        }
        let tokens = |values: &[f64]| pick(values, &ranges, order);
        Self {
            lengths: order.iter().map(|&row| self.lengths[row]).collect(),
            counted: pick(&self.counted, &ranges, order),
            row_mask: order.iter().map(|&row| self.row_mask[row]).collect(),
            token_mask: pick(&self.token_mask, &ranges, order),
            logp: tokens(&self.logp),
            old_logp: tokens(&self.old_logp),
            ref_logp: tokens(&self.ref_logp),
            teacher_logp: tokens(&self.teacher_logp),
            entropy: tokens(&self.entropy),
            advantage: tokens(&self.advantage),
        }
    }

    /// The rows of one part.
    pub(crate) fn part(&self, rows: std::ops::Range<usize>) -> Self {
        self.permuted(&rows.collect::<Vec<_>>())
    }

    /// Everything that stands at places that do not count replaced by `junk`.
    pub(crate) fn with_junk(&self, junk: f64) -> Self {
        let mut dirty = self.clone();
        let distilled = self.distilled();
        for token in 0..self.counted.len() {
            if !distilled.counted()[token] {
                dirty.teacher_logp[token] = junk;
            }
            if !self.counted[token] {
                for values in [
                    &mut dirty.logp,
                    &mut dirty.old_logp,
                    &mut dirty.ref_logp,
                    &mut dirty.entropy,
                    &mut dirty.advantage,
                ] {
                    values[token] = junk;
                }
            }
        }
        dirty
    }

    /// The same batch as a padded rectangle, padding filled with `junk`.
    pub(crate) fn rectangle(&self, width: usize, junk: f64) -> Self {
        let ranges: Vec<_> = self.rows().ranges().collect();
        fn pad<T: Copy>(values: &[T], ranges: &[std::ops::Range<usize>], width: usize, junk: T) -> Vec<T> {
            ranges
                .iter()
                .flat_map(|range| {
                    let mut row = values[range.clone()].to_vec();
                    row.resize(width, junk);
                    row
                })
                .collect()
        }
        let tokens = |values: &[f64]| pad(values, &ranges, width, junk);
        Self {
            lengths: vec![width; self.lengths.len()],
            counted: pad(&self.counted, &ranges, width, false),
            row_mask: self.row_mask.clone(),
            token_mask: pad(&self.token_mask, &ranges, width, true),
            logp: tokens(&self.logp),
            old_logp: tokens(&self.old_logp),
            ref_logp: tokens(&self.ref_logp),
            teacher_logp: tokens(&self.teacher_logp),
            entropy: tokens(&self.entropy),
            advantage: tokens(&self.advantage),
        }
    }

    /// The joint objective of the batch: loss, gradient by `logp`, gradient by `entropy`, output.
    pub(crate) fn joint(&self, config: &ObjectiveConfig, counts: Option<&ObjectiveNormalizer>) -> Joint {
        self.joint_in(DType::F64, config, counts)
    }

    pub(crate) fn joint_in(
        &self,
        dtype: DType,
        config: &ObjectiveConfig,
        counts: Option<&ObjectiveNormalizer>,
    ) -> Joint {
        let tensor = |values: &[f64]| tensor_in(values, dtype);
        let logp = tensor(&self.logp).require_grad();
        let entropy = tensor(&self.entropy).require_grad();
        let output = joint_objective(
            config,
            ObjectiveInputs {
                logp: logp.clone(),
                old_logp: tensor(&self.old_logp),
                advantage: tensor(&self.advantage),
                rows: &self.rows(),
                ref_logp: Some(tensor(&self.ref_logp)),
                entropy: Some(entropy.clone()),
                teacher: Some(Teacher {
                    logp: tensor(&self.teacher_logp),
                    row_mask: Some(&self.row_mask),
                    token_mask: Some(&self.token_mask),
                }),
            },
            counts.map_or(Scope::whole_batch(), Scope::part_of),
        )
        .unwrap();
        let gradients = output.loss.backward();
        let count = self.logp.len();
        Joint {
            loss: scalar(output.loss.clone()),
            by_logp: logp.grad(&gradients).map_or_else(|| vec![0.0; count], host),
            by_entropy: entropy.grad(&gradients).map_or_else(|| vec![0.0; count], host),
            output,
        }
    }

    /// The distillation loss of the batch and its gradient by `logp`.
    pub(crate) fn opd(&self, config: &OpdConfig, aggregation: Aggregation) -> Opd {
        let logp = tensor(&self.logp).require_grad();
        let output = opd_loss(
            OpdInputs {
                logp: logp.clone(),
                teacher_logp: tensor(&self.teacher_logp),
                old_logp: Some(tensor(&self.old_logp)),
                entropy: Some(tensor(&self.entropy)),
                rows: &self.rows(),
                row_mask: Some(&self.row_mask),
                token_mask: Some(&self.token_mask),
            },
            config,
            aggregation,
        )
        .unwrap();
        let gradients = output.loss.backward();
        Opd {
            loss: scalar(output.loss.clone()),
            by_logp: logp.grad(&gradients).map_or_else(|| vec![0.0; self.logp.len()], host),
            output,
        }
    }
}

pub(crate) struct Joint {
    pub(crate) loss: f64,
    pub(crate) by_logp: Vec<f64>,
    pub(crate) by_entropy: Vec<f64>,
    pub(crate) output: ObjectiveOutput,
}

pub(crate) struct Opd {
    pub(crate) loss: f64,
    pub(crate) by_logp: Vec<f64>,
    pub(crate) output: OpdOutput,
}

pub(crate) fn tensor(values: &[f64]) -> Tensor<1> {
    tensor_in(values, DType::F64)
}

pub(crate) fn tensor_in(values: &[f64], dtype: DType) -> Tensor<1> {
    let device = Device::flex().autodiff();
    Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), (&device, dtype))
}

pub(crate) fn host(tensor: Tensor<1>) -> Vec<f64> {
    tensor.try_into_vec_as::<f64>().unwrap()
}

pub(crate) fn scalar(tensor: Tensor<1>) -> f64 {
    host(tensor)[0]
}

pub(crate) fn close(x: f64, y: f64) -> bool {
    within(x, y, 1e-9)
}

pub(crate) fn within(x: f64, y: f64, tolerance: f64) -> bool {
    (x - y).abs() <= tolerance * (1.0 + y.abs())
}

pub(crate) fn all_close(x: &[f64], y: &[f64]) -> bool {
    x.len() == y.len() && x.iter().zip(y).all(|(&x, &y)| close(x, y))
}

/// A random order of `count` positions.
pub(crate) fn orders(count: usize) -> impl Strategy<Value = Vec<usize>> {
    Just((0..count).collect::<Vec<_>>()).prop_shuffle()
}

pub(crate) fn aggregations() -> impl Strategy<Value = Aggregation> {
    prop::sample::select(Aggregation::ALL)
}
