//! The trainer's integration tests, in one binary since each links burn.

mod config;
mod files;
mod policy;
mod training;
mod visual;
