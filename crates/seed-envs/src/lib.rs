//! Native text and image environments for language-model agents.
//!
//! | module | what it holds |
//! |---|---|
//! | [`environment`] | the [`Environment`] trait, tasks, observations, steps, suites |
//! | [`trajectory`] | the finished episode at the level of text |
//! | [`alfworld`] | ALFWorld's games, equal to the official environment byte for byte |
//! | [`household`] | the embedded household world: games from seeds, no data needed |
//! | [`search_qa`] | questions answered with a search engine: BM25 and dense retrieval, clients, both public protocols |
//! | [`sokoban`] | Sokoban: the reference's rooms from seeds, level files, pictures, shortest plans |
//! | [`ezpoints`] | EZPoints, NumberLine, Blackjack, Points24: card games from seeds, in text and pictures |
//! | [`picture`] | drawing, PNG files, filmstrips, a store of distinct frames |
//! | [`webshop`] | WebShop: pages, search and reward equal to the official text environment |
//! | [`projection`] | from what a model wrote to the action that is carried out |
//! | [`runner`] | many environments stepped in parallel |
//! | [`conformance`] | what every environment must keep, as checks to run on yours |
//! | [`pyrandom`] | the random numbers of CPython and NumPy |
//!
//! No burn, no model types, no training types: this crate builds alone in seconds.

// Memory mapping and wide vector instructions need it, each in one place that says why.
#![deny(unsafe_code)]

pub mod alfworld;
pub mod conformance;
pub mod environment;
pub mod ezpoints;
pub mod household;
pub mod picture;
pub mod projection;
mod pyjson;
pub mod pyrandom;
pub mod runner;
pub mod search_qa;
pub mod sokoban;
pub mod trajectory;
pub mod webshop;

pub use environment::{EnvError, Environment, Image, Observation, Step, StepInfo, Suite, Task};
pub use trajectory::{Outcome, Trajectory, TrajectoryStep};
