//! Questions that are answered with the help of a search engine, retrieval included.
//!
//! | module | what it holds |
//! |---|---|
//! | [`suite`] | the questions as a [`crate::Suite`] |
//! | [`options`] | how episodes are played and scored; presets |
//! | [`protocol`] | the two public protocols: what an action asks for, how passages are shown |
//! | [`scoring`] | exact match, substring match, token F1, Search-R1's structured format |
//! | [`dataset`] | published question files: parquet and JSON lines |
//! | [`metrics`] | results by data source |
//! | [`world`] | the embedded world: invented facts as passages and questions |
//! | [`retriever`] | BM25 and dense search in this process, servers elsewhere |

pub mod dataset;
pub mod metrics;
mod open;
pub mod options;
pub mod protocol;
pub mod retriever;
pub mod scoring;
pub mod suite;
pub mod world;

pub use options::{OnFailure, Scoring, SearchQaOptions};
pub use protocol::Protocol;
pub use suite::{Question, SearchQa};
pub use world::{World, WorldOptions};
