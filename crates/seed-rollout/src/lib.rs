//! Episodes as token rows: sampling engine, grouped multi-turn collection, recorded roll-outs.

pub mod history;
pub mod template;

pub use history::{History, PastStep};
pub use template::{Prompt, PromptTemplate, StepContext, TemplateError};
