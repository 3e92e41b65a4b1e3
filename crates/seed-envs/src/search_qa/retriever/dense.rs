//! Dense search: passages as vectors in one memory-mapped matrix, queries encoded by whoever can.
//!
//! The search is exact: every row is looked at. What is stored may be coarser than what was computed (`f16`, `int8`);
//! scores are those of the stored numbers. Reading memory is the limit, so a batch of queries costs little more than
//! one, and half the bytes take half the time.

mod kernel;
mod matrix;

pub use matrix::{Matrix, MatrixInfo, MatrixWriter, Precision};

use super::corpus::Corpus;
use super::{Found, Hit, RetrievalError, Retriever};
use crate::environment::EnvError;
use std::sync::Arc;

/// Turns queries into vectors: an encoder model, or a table in tests. Lives in a crate above, so that this one needs no
/// tensors.
pub trait QueryEncoder: Send + Sync {
    /// Numbers of a vector.
    fn dims(&self) -> usize;

    /// One vector for each query, in their order, as the passages were encoded (prefix, pooling, norm).
    ///
    /// # Errors
    /// What went wrong, in words for the user.
    fn encode(&self, queries: &[String]) -> Result<Vec<Vec<f32>>, String>;
}

/// Exact inner-product search with an encoder in front of it.
#[derive(Clone)]
pub struct Dense {
    corpus: Arc<Corpus>,
    matrix: Arc<Matrix>,
    encoder: Arc<dyn QueryEncoder>,
}

impl Dense {
    /// Brings passages, their vectors and an encoder together.
    ///
    /// # Errors
    /// [`EnvError::Data`] when the matrix has other rows than the corpus, or other dimensions than the encoder.
    pub fn new(
        corpus: Arc<Corpus>,
        matrix: Arc<Matrix>,
        encoder: Arc<dyn QueryEncoder>,
    ) -> Result<Self, EnvError> {
        let info = matrix.info();
        let wrong = |found: String, expected: String| EnvError::Data {
            path: matrix.path().to_owned(),
            place: String::new(),
            found,
            expected,
        };
        if info.rows != corpus.len() || info.fingerprint != corpus.fingerprint() {
            let found = format!("vectors of another corpus ({} rows)", info.rows);
            return Err(wrong(found, format!("those of this corpus of {} passages", corpus.len())));
        }
        if info.dims != encoder.dims() {
            let expected = format!("{}, as the encoder gives them", encoder.dims());
            return Err(wrong(format!("vectors of {} numbers", info.dims), expected));
        }
        Ok(Self { corpus, matrix, encoder })
    }

    fn search_all(&self, queries: &[String], top_k: usize) -> Result<Vec<Vec<Hit>>, RetrievalError> {
        let local = |problem: String| RetrievalError::Local { retriever: self.name(), problem };
        let vectors = self.encoder.encode(queries).map_err(local)?;
        if vectors.len() != queries.len()
            || vectors.iter().any(|vector| vector.len() != self.matrix.info().dims)
        {
            return Err(local("the encoder gave vectors of another number or size".to_owned()));
        }
        let lists = self.matrix.search(&vectors, top_k).into_iter().map(|list| {
            let hits = list.into_iter().map(|(row, score)| {
                let document = self.corpus.document(row).map_err(|error| local(error.to_string()))?;
                Ok(Hit { document, score: Some(f64::from(score)) })
            });
            hits.collect()
        });
        lists.collect()
    }
}

impl Retriever for Dense {
    fn name(&self) -> String {
        "dense".to_owned()
    }

    fn search(&self, query: &str, top_k: usize, _caller: usize) -> Result<Found, RetrievalError> {
        self.search_all(&[query.to_owned()], top_k)
    }

    fn search_batch(&self, queries: &[String], top_k: usize) -> Vec<Result<Found, RetrievalError>> {
        if queries.is_empty() {
            return Vec::new();
        }
        match self.search_all(queries, top_k) {
            Ok(lists) => lists.into_iter().map(|list| Ok(vec![list])).collect(),
            Err(error) => queries.iter().map(|_| Err(error.clone())).collect(),
        }
    }
}
