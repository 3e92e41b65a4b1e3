//! Losses and advantages for language-model agents: GRPO, GiGPO, GSPO, RLSD and skill distillation (SEED's OPD), on burn tensors.
//!
//! Advantages are computed on plain slices in `f64`; losses on burn tensors, so that autodiff gives the gradients. No IO, no
//! configuration files, no model types, nothing of size rows × vocabulary: a batch is the log-probabilities of its sampled
//! tokens, packed row after row ([`TokenRows`]).
//!
//! | step | module |
//! |---|---|
//! | rewards → one advantage per row | [`advantage`]: group-relative, RLOO, GiGPO, penalty |
//! | row advantages → token advantages | [`advantage::rlsd`], [`advantage::opid`] |
//! | token losses | [`policy_loss`], [`kl`], [`distill`], [`sft`] |
//! | token losses → one number | [`mod@aggregate`] |
//! | everything at once | [`objective::joint_objective`] |
//! | a named method with the numbers of its authors | [`recipe::Recipe`] |
//! | what the numbers mean | [`diagnostics`], [`theory`] |
//!
//! # Masks
//!
//! What stands at a place that does not count never matters, not even NaN or infinity: such places are replaced before
//! anything is computed, so neither values nor gradients see them. A mask without any counted token gives a loss and a gradient
//! of zero.
//!
//! # Example
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use seed_core::{ObjectiveConfig, ObjectiveInputs, Scope, Teacher, TokenRows, joint_objective};
//!
//! let device = Device::flex().autodiff();
//! // Two rows of three and two tokens, packed.
//! let rows = TokenRows::full(&[3, 2]);
//! let logp = Tensor::<1>::from_floats([-0.4, -1.3, -2.2, -0.9, -0.1], &device).require_grad();
//! let old_logp = logp.clone().detach();
//! let teacher_logp = Tensor::<1>::from_floats([-0.2, -1.9, -2.2, -1.0, -0.1], &device);
//! let output = joint_objective(
//!     &ObjectiveConfig::seed(),
//!     ObjectiveInputs {
//!         logp: logp.clone(),
//!         old_logp: old_logp.clone(),
//!         advantage: rows.tensor(&rows.spread(&[1.0, -1.0])?, &old_logp),
//!         rows: &rows,
//!         ref_logp: Some(old_logp.clone()),
//!         entropy: Some(old_logp.zeros_like()),
//!         teacher: Some(Teacher { logp: teacher_logp, row_mask: None, token_mask: None }),
//!     },
//!     Scope::whole_batch(),
//! )?;
//! let gradients = output.loss.backward();
//! assert_eq!(logp.grad(&gradients).unwrap().dims(), [5]);
//! let metrics = output.diagnostics.read();
//! assert!(metrics.get("opd/gate_mean").unwrap() > 0.0);
//! # Ok::<(), seed_core::InputError>(())
//! ```
#![forbid(unsafe_code)]

pub mod advantage;
pub mod aggregate;
pub mod batch;
pub mod diagnostics;
pub mod distill;
mod error;
pub mod kl;
pub mod objective;
pub mod policy_loss;
pub mod recipe;
mod rows;
pub mod schedule;
pub mod sft;
mod switch;
pub mod theory;

pub use aggregate::{Aggregation, Normalizer, aggregate};
pub use diagnostics::{Diagnostics, Metrics};
pub use error::InputError;
pub use objective::{
    ObjectiveConfig, ObjectiveInputs, ObjectiveNormalizer, ObjectiveOutput, Scope, Teacher, joint_objective,
};
pub use recipe::{Method, Preset, Recipe};
pub use rows::TokenRows;
pub use schedule::Schedule;
