//! Opening the suite from what a configuration names: a folder of questions, a corpus, or servers.

use super::dataset::read_folder;
use super::options::{OnFailure, SearchQaOptions};
use super::retriever::Retriever;
use super::retriever::bm25::{Bm25, Bm25Profile};
use super::retriever::corpus::Corpus;
use super::retriever::http::{HttpOptions, HttpRetriever};
use super::suite::SearchQa;
use super::world::{World, WorldOptions};
use crate::environment::EnvError;
use std::path::Path;
use std::sync::Arc;

impl SearchQa {
    /// Opens questions and retriever.
    ///
    /// | `data` | questions |
    /// |---|---|
    /// | `None` | those of the embedded world |
    /// | a folder | `train` and `test` in it, `.parquet` or `.jsonl` |
    ///
    /// | `urls` | passages |
    /// |---|---|
    /// | given | from these servers |
    /// | empty, `data` a folder | BM25 over its `corpus.jsonl`, with the index `corpus.bm25` where there is one |
    /// | empty, no `data` | BM25 over the embedded world |
    ///
    /// # Errors
    /// [`EnvError`] when a file is missing or wrong, or an address is none.
    pub fn open(data: Option<&Path>, urls: &[String], options: SearchQaOptions) -> Result<Self, EnvError> {
        let world = || World::new(WorldOptions::default());
        let retriever: Arc<dyn Retriever> = if !urls.is_empty() {
            // Who stops at a dead retriever wants to be sure that it is dead.
            let http = match options.on_failure {
                OnFailure::Observe => HttpOptions::default(),
                OnFailure::Stop => HttpOptions::corrected(),
            };
            let client = HttpRetriever::new(HttpOptions { urls: urls.to_vec(), ..http });
            Arc::new(client.map_err(|error| EnvError::Service {
                service: "retriever".to_owned(),
                problem: error.to_string(),
            })?)
        } else if let Some(folder) = data {
            let corpus = folder.join("corpus.jsonl");
            if !corpus.is_file() {
                return Err(EnvError::Data {
                    path: folder.to_owned(),
                    place: String::new(),
                    found: "no corpus.jsonl".to_owned(),
                    expected: "passages beside the questions, or the address of a retrieval server"
                        .to_owned(),
                });
            }
            let (corpus, index) = (Arc::new(Corpus::open(&[corpus])?), folder.join("corpus.bm25"));
            Arc::new(if index.is_file() {
                Bm25::open(corpus, &index)?
            } else {
                Bm25::build(corpus, Bm25Profile::default())?
            })
        } else {
            Arc::new(world().retriever()?)
        };
        let splits = match data {
            Some(folder) => read_folder(folder)?,
            None => world().splits(),
        };
        Ok(Self::new(splits, retriever, options))
    }
}
