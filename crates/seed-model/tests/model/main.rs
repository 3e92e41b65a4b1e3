//! Tests against reference vectors and small real runs; one binary, because each links burn.

mod generation;
mod ops;
mod reference;
mod tiny;
