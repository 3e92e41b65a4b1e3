//! ALFWorld against recordings of the official package.

mod plans;
mod shared;
mod transcripts;
