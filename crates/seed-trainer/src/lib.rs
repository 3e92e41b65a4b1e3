//! The SEED trainer: stage 1 (hindsight-skill fine-tuning), stage 2 (self-evolving on-policy distillation).
//!
//! | module | what it holds |
//! |---|---|
//! | [`config`] | every key, layers with the origin of every value, presets, checks |
//! | [`train`] | a whole run: start, resume; what it needs loaded and checked |
//! | [`sft`] | stage 1 |
//! | [`rl`] | stage 2: one update, its scoring, skills, advantages, optimiser steps |
//! | [`evaluate`] | fixed panels |
//! | [`rollout`] | episodes to a file, without training |
//! | [`workload`] | what a run asks of a machine, for `seed plan` |
//! | [`world`], [`tasks`] | environment, prompts and tokens; which tasks an update plays |
//! | [`learner`], [`mesh`] | the trained model; work over N workers, results in a fixed order |
//! | [`checkpoint`], [`run_folder`] | what a run leaves behind, written so that a kill at any moment leaves it whole |
//! | [`metrics`], [`observer`] | named numbers, `metrics.jsonl`, TensorBoard event files; what a watcher is told |
//! | [`token_view`] | one episode token by token, for the report |
//! | [`import`] | models of other formats as folders that a run can start from |
//! | [`pretrain`] | the recipe of the quick start's base checkpoint |
//! | [`mod@reference`] | pages made from the code |
//! | [`schedule`], [`streams`] | the course of the learning rate; named random streams |

#![forbid(unsafe_code)]

mod check;
pub mod checkpoint;
pub mod config;
pub mod evaluate;
pub mod import;
pub mod learner;
pub mod mesh;
pub mod metrics;
pub mod observer;
pub mod pretrain;
pub mod reference;
pub mod rl;
pub mod rollout;
pub mod run_folder;
pub mod schedule;
pub mod sft;
pub mod streams;
pub mod tasks;
pub mod token_view;
pub mod train;
pub mod workload;
pub mod world;
