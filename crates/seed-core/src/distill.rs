//! Distillation of a skill's effect: the teacher is the same policy with the skill in its prompt, scored on the sampled tokens.
//!
//! The teacher, the gate and every weight are constants for the gradient; only the current log-probability of the student carries
//! it. SDAR and OPSD are [`OpdConfig::default`] (the loss is the same, the rest of the objective differs), GRPO+OPSD is the
//! constant gate ½, Skill-SD and OPID are other [`OpdForm`]s; see [`Method`](crate::Method).

mod gate;
mod opd;
mod skill_sd;

pub use gate::Gate;
pub use opd::{
    GateLogprob, OpdConfig, OpdForm, OpdImportance, OpdInputs, OpdNormalizer, OpdOutput, opd_loss, opd_rows,
};
pub(crate) use opd::{OpdTokenInputs, clipped_old_gap, opd_tokens, record_opd};
pub use skill_sd::SkillSdCaps;
