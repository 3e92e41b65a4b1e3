//! The trainer's integration tests, in one binary since each links burn.

mod alfworld;
mod config;
mod files;
mod learning;
mod policy;
mod training;
mod visual;
