//! ALFWorld against recordings of the official package.

mod shared;
mod transcripts;
