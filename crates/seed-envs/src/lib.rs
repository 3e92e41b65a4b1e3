//! Native text and image environments for language-model agents.
//!
//! | module | what it holds |
//! |---|---|
//! | [`environment`] | the [`Environment`] trait, tasks, observations, steps, suites |
//! | [`trajectory`] | the finished episode at the level of text |
//!
//! No burn, no model types, no training types: this crate builds alone in seconds.

#![forbid(unsafe_code)]

pub mod alfworld;
pub mod conformance;
pub mod environment;
pub mod ezpoints;
pub mod household;
pub mod projection;
pub mod pyrandom;
pub mod runner;
pub mod search_qa;
pub mod sokoban;
pub mod trajectory;
pub mod webshop;

pub use environment::{EnvError, Environment, Image, Observation, Step, StepInfo, Suite, Task};
pub use trajectory::{Outcome, Trajectory, TrajectoryStep};
