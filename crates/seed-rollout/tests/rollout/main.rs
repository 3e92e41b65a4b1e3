//! Everything about seed-rollout that is tested from outside, in one binary.

mod collect;
mod engine;
mod record;
mod row;
mod sampler;
mod scripted;
mod shared;
mod suites;
mod visual;
mod worlds;
