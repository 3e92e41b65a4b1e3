//! Hindsight skills: an episode in, a short reusable lesson out.
//!
//! | module | what it holds |
//! |---|---|
//! | [`serialize`] | an episode as text, its outcome label, its task |
//! | [`prompt`] | the analyzer's prompt, from files |
//! | [`skill`] | the skill: schema, parsing, acceptance |
//! | [`insert`] | the wording around a skill, its place in a prompt, what happens when it does not fit |
//! | [`library`] | static skill libraries and how a skill is found in them |
//! | [`quality`] | what can be measured about skills |
//! | [`annotator`] | who writes skills besides the policy: a server, or a program |
//! | [`records`] | training records of stage 1: filter, split, files |
//!
//! The policy as its own analyzer needs no code here: render a prompt, let the model answer, [`skill::parse`] the answer.
//!
//! No burn, no model types: this crate builds alone in seconds. Logs of other agents come in as
//! [`Trajectory`](seed_envs::Trajectory) records; `examples/lessons.rs` is a whole program.

#![forbid(unsafe_code)]

pub mod annotator;
pub mod insert;
pub mod library;
pub mod prompt;
pub mod quality;
pub mod records;
pub mod serialize;
pub mod skill;
mod slots;

pub use annotator::{AnnotateError, Annotation, Annotator};
pub use insert::{SkillBlock, SkillKind};
pub use prompt::{AnalyzerPrompt, PromptOptions, SkillMode};
pub use serialize::OutcomeLabel;
pub use skill::Skill;
pub use slots::SlotError;
