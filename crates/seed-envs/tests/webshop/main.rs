//! WebShop against recordings of the official text environment, and what holds beyond them.

mod goals;
mod goldens;
mod hostile;
mod loading;
mod prompts;
mod shared;
mod suites;
mod transcripts;
