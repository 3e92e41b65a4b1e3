//! The SEED trainer: stage 1 (hindsight-skill fine-tuning), stage 2 (self-evolving on-policy distillation).
//!
//! | module | what it holds |
//! |---|---|
//! | [`config`] | every key, layers with the origin of every value, presets, checks |
//! | [`observer`] | what a watcher is told |
//! | [`mod@reference`] | pages made from the code |
//! | [`run_folder`] | what a run leaves behind, written so that a kill at any moment leaves it whole |
//! | [`mesh`] | work over N workers, results in a fixed order |
//! | [`metrics`] | named numbers, `metrics.jsonl`, TensorBoard event files |
//! | [`schedule`] | the course of the learning rate |
//! | [`streams`] | named random streams |

#![forbid(unsafe_code)]

pub mod config;
pub mod mesh;
pub mod metrics;
pub mod observer;
pub mod reference;
pub mod run_folder;
pub mod schedule;
pub mod streams;
