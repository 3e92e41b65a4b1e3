//! Sokoban: rooms from seeds as the public reference makes them, level files, text and pictures, shortest plans.
//!
//! | module | what it holds |
//! |---|---|
//! | [`room`] | a room: walls, targets, boxes, the player, and what a move does |
//! | [`game`] | an episode of the reference: rewards, its step counter, its ends |
//! | [`generate`] | rooms from seeds, draw for draw the reference's |
//! | [`level`] | rooms from level files (XSB, Boxoban) |
//! | [`mod@solve`] | shortest plans, and the proof that a state is lost |
//! | [`mod@solvable`] | whether a state is lost, without a plan |
//! | [`tiles`] | the pictures of cells: our own, or those of a package given by path |
//! | [`suite`] | all of it as a [`crate::Suite`] |
//!
//! The reference is the environment of verl-agent and its descendants (rooms of RAGEN on top of `gym-sokoban`).

pub mod game;
pub mod generate;
pub mod level;
mod reverse;
pub mod room;
pub mod solvable;
pub mod solve;
pub mod suite;
pub mod tiles;

pub use game::{Game, Turn};
pub use generate::{GenerateError, Generated, RoomConfig};
pub use room::{Ground, Move, Room, RoomError, Tile};
pub use solvable::solvable;
pub use solve::{Solution, solve};
pub use suite::{Sokoban, SokobanOptions, View};
pub use tiles::Tiles;
