//! EZPoints and its siblings against recordings of the reference.

mod formulas;
mod records;
mod shared;
mod siblings;
mod suites;
