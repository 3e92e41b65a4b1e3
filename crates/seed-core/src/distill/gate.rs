//! How strongly a token is distilled.

use burn::tensor::{Tensor, activation::sigmoid};

use crate::error::{InputError, setting};
use crate::rows::Cleaner;

/// The weight of a token in the distillation loss, in [0, 1]; with Δ = ℓT − ℓS and H the entropy of the student.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Gate {
    /// σ(β Δ): open where the skill makes the token more likely.
    SigmoidGap {
        /// Sharpness β ≥ 0.
        beta: f64,
    },
    /// The same weight everywhere; ½ is β = 0.
    Constant {
        /// The weight, in [0, 1].
        value: f64,
    },
    /// σ(β H).
    Entropy {
        /// Sharpness β ≥ 0.
        beta: f64,
    },
    /// 1 − (1 − σ(β Δ)) (1 − σ(β H)).
    SoftOr {
        /// Sharpness β ≥ 0 of both.
        beta: f64,
    },
    /// 1 where Δ > threshold, else 0.
    Hard {
        /// The threshold.
        threshold: f64,
    },
}

impl Gate {
    pub(crate) fn validate(&self) -> Result<(), InputError> {
        match *self {
            Self::SigmoidGap { beta } | Self::Entropy { beta } | Self::SoftOr { beta } => {
                setting("gate.beta", beta, beta >= 0.0 && beta.is_finite(), "a number >= 0")
            }
            Self::Constant { value } => {
                setting("gate.value", value, (0.0..=1.0).contains(&value), "a number in [0, 1]")
            }
            Self::Hard { threshold } => {
                setting("gate.threshold", threshold, threshold.is_finite(), "a finite number")
            }
        }
    }

    pub(crate) fn needs_entropy(&self) -> bool {
        matches!(self, Self::Entropy { .. } | Self::SoftOr { .. })
    }

    /// Gates of clean constant inputs; zero at masked places.
    pub(crate) fn open(
        &self,
        gap: Tensor<1>,
        entropy: Option<Tensor<1>>,
        cleaner: &Cleaner,
    ) -> Result<Tensor<1>, InputError> {
        let entropy = || entropy.ok_or(InputError::Missing { what: "entropy", needed_by: "gate" });
        let gate = match *self {
            Self::SigmoidGap { beta } => sigmoid(gap * beta),
            Self::Constant { value } => gap.full_like(value),
            Self::Entropy { beta } => sigmoid(entropy()? * beta),
            Self::SoftOr { beta } => {
                let closed = sigmoid(gap * -beta) * sigmoid(entropy()? * -beta);
                -closed + 1.0
            }
            Self::Hard { threshold } => return Ok(cleaner.indicator(gap.greater_scalar(threshold))),
        };
        Ok(cleaner.mask(gate))
    }
}
