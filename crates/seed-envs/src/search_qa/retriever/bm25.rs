//! Lexical search: Okapi BM25 in two forms over a memory-mapped index, equal to `bm25s` and `rank-bm25`.
//!
//! Three profiles are named after what they repeat; any other mixture of tokens, formula and constants works as well.

mod file;
mod index;
mod query;
pub mod stemmer;
pub mod tokens;

pub use index::Bm25Index;
pub use tokens::Tokens;

use super::corpus::Corpus;
use super::{Found, Hit, RetrievalError, Retriever};
use crate::environment::EnvError;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

/// How the weight of a word in a passage is computed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Formula {
    /// Lucene's: `ln(1 + (N − df + ½)/(df + ½)) · tf/(tf + norm)`.
    Lucene,
    /// `rank-bm25`'s Okapi: `(ln(N − df + ½) − ln(df + ½)) · tf (k1 + 1)/(tf + norm)`; a negative first factor is
    /// replaced by this share of the mean over all words.
    Okapi {
        /// The share.
        epsilon: f64,
    },
}

/// What a BM25 index is made with. `norm = k1 (1 − b + b · length / mean length)`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bm25Profile {
    /// How text becomes words.
    pub tokens: Tokens,
    /// How words are weighted.
    pub formula: Formula,
    /// How fast more of the same word stops to matter.
    pub k1: f64,
    /// How much the length of a passage matters, 0 to 1.
    pub b: f64,
    /// Scores that are equal at so many decimals are a tie, and the earlier passage comes first.
    pub tie_decimals: u32,
}

impl Bm25Profile {
    /// `plain_lucene_k0.9_b0.4`: words as they are, Pyserini's constants. The default.
    pub const PLAIN_LUCENE: Self =
        Self { tokens: Tokens::PLAIN, formula: Formula::Lucene, k1: 0.9, b: 0.4, tie_decimals: 6 };
    /// `stem_lucene_k1.5_b0.75`: stop words left out, stems, `bm25s`'s constants.
    pub const STEM_LUCENE: Self =
        Self { tokens: Tokens::STEMMED, formula: Formula::Lucene, k1: 1.5, b: 0.75, tie_decimals: 6 };
    /// `plain_okapi`: `rank-bm25`'s defaults.
    pub const PLAIN_OKAPI: Self = Self {
        tokens: Tokens::PLAIN,
        formula: Formula::Okapi { epsilon: 0.25 },
        k1: 1.5,
        b: 0.75,
        tie_decimals: 6,
    };

    /// A profile by its name.
    pub fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "plain_lucene_k0.9_b0.4" | "plain" => Self::PLAIN_LUCENE,
            "stem_lucene_k1.5_b0.75" | "stemmed" => Self::STEM_LUCENE,
            "plain_okapi" | "okapi" => Self::PLAIN_OKAPI,
            _ => return None,
        })
    }
}

impl Default for Bm25Profile {
    fn default() -> Self {
        Self::PLAIN_LUCENE
    }
}

/// A BM25 index with its passages.
#[derive(Debug, Clone)]
pub struct Bm25 {
    corpus: Arc<Corpus>,
    index: Arc<Bm25Index>,
}

impl Bm25 {
    /// Builds an index in memory.
    ///
    /// # Errors
    /// [`EnvError::Data`] with file and line of the first bad row.
    pub fn build(corpus: Arc<Corpus>, profile: Bm25Profile) -> Result<Self, EnvError> {
        let index = Arc::new(Bm25Index::build(&corpus, profile)?);
        Ok(Self { corpus, index })
    }

    /// Maps a saved index of this corpus.
    ///
    /// # Errors
    /// [`EnvError`] when the file cannot be read, is damaged, or belongs to another corpus.
    pub fn open(corpus: Arc<Corpus>, index: &Path) -> Result<Self, EnvError> {
        let index = Arc::new(Bm25Index::open(index, &corpus)?);
        Ok(Self { corpus, index })
    }

    /// The index.
    pub fn index(&self) -> &Bm25Index {
        &self.index
    }

    /// The passages.
    pub fn corpus(&self) -> &Arc<Corpus> {
        &self.corpus
    }
}

impl Retriever for Bm25 {
    fn name(&self) -> String {
        "bm25".to_owned()
    }

    fn search(&self, query: &str, top_k: usize, _caller: usize) -> Result<Found, RetrievalError> {
        let local =
            |error: EnvError| RetrievalError::Local { retriever: self.name(), problem: error.to_string() };
        let hits = self.index.rank(query, top_k).into_iter().map(|(passage, score)| {
            Ok(Hit { document: self.corpus.document(passage).map_err(local)?, score: Some(score) })
        });
        Ok(vec![hits.collect::<Result<_, _>>()?])
    }
}
