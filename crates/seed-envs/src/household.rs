//! The embedded household world: a seeded generator of games with our own domain, grammar and rooms.
//!
//! | module | what it holds |
//! |---|---|
//! | [`knowledge`] | what is true in every house: rooms, furniture, objects, where things usually are, what treats what |
//! | [`layout`] | houses before anything lies about in them, in two families that never meet |
//! | [`generate`] | games from seeds: splits, the difficulty dial, goals |
//! | [`plan`] | the rules as a small model, and shortest plans from any position |
//! | [`file`](mod@file) | a game written in the format of ALFWorld's `game.tw-pddl` |
//! | [`suite`] | the world as a [`crate::Suite`], played on the ALFWorld engine |
//! | [`lesson`] | what a finished episode teaches, read from its text |
//! | [`advice`] | what a skill text tells a player, whoever wrote it |
//! | [`demonstration`] | episodes of a player with good and bad habits, with and without a skill, to pre-train on |
//! | [`vocabulary`] | the tokenizer of the quick start's tiny policy |
//! | [`stream`] | named random streams |

pub mod advice;
pub mod demonstration;
pub mod file;
pub mod generate;
pub mod knowledge;
pub mod layout;
pub mod lesson;
pub mod plan;
pub mod stream;
pub mod suite;
pub mod vocabulary;

pub use generate::{Difficulty, Game, Goal, Split, TaskKind};
pub use suite::{Household, HouseholdOptions};
