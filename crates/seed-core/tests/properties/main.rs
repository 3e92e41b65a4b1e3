//! What must hold for every input: invariances, limits, bounds, agreement with slow definitions, gradients.
//!
//! The random stream is fixed; `PROPTEST_RNG_SEED` and `PROPTEST_CASES` change it.
#![expect(clippy::needless_range_loop, reason = "a token or a row indexes many slices at once")]

mod advantages;
mod aggregation;
mod batch;
mod distillation;
mod joint;
mod policy;
mod theory;
