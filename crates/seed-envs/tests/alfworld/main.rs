//! ALFWorld against recordings of the official package.

mod demonstrations;
mod experts;
mod hostile;
mod plans;
mod shared;
mod suites;
mod transcripts;
