//! Stage 2: self-evolving on-policy distillation beside GRPO.
//!
//! One update, in order ([`step`](mod@step)): episodes, skills, old, reference and teacher log-probabilities, advantages, then
//! epochs × mini-batches × passes of the joint loss ([`update`](mod@update)).

pub mod advantage;
pub mod lift;
pub mod objective;
pub mod recorded;
pub mod sample;
pub mod scoring;
pub mod skills;
pub mod step;
pub mod update;
