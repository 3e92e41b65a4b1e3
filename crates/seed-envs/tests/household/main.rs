//! The household world: games, rules, lessons, demonstrations, tokenizer.

mod demonstrations;
mod games;
mod tokenizer;
mod world;
