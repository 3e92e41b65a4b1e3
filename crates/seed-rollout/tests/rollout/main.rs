//! Everything about seed-rollout that is tested from outside, in one binary.

mod record;
mod row;
mod sampler;
mod shared;
