//! Tests against reference vectors and small real runs; one binary, because each links burn.

mod encoder;
mod folders;
mod generation;
mod gguf_files;
mod lora;
mod ops;
mod properties;
mod reference;
mod rope;
mod smollm2;
mod stories;
mod tiny;
mod tokenizers;
mod training;
mod vision;
