//! Sokoban against recordings of the reference.

mod hostile;
mod levels;
mod pictures;
mod properties;
mod records;
mod shared;
mod suites;
