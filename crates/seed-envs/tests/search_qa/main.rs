//! Search-QA: recordings of the references, failing servers, files, properties.

mod bm25;
mod datasets;
mod dense;
mod episodes;
mod http;
mod scoring;
mod server;
mod shared;
mod world;
