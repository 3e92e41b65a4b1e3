//! Tests against reference vectors and small real runs; one binary, because each links burn.

mod reference;
mod tiny;
