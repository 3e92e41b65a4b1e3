//! Full-text search as the reference has it: Lucene's English analysis and BM25 with ties in a fixed order.
//!
//! | module | what it holds |
//! |---|---|
//! | [`tokenizer`] | words of a text: UAX #29 with emoji, as Lucene's `StandardTokenizer` cuts them |
//! | [`porter`] | Porter's stemmer |
//! | [`analyzer`] | a text to index terms: words, possessives, lower case, stop words, stems |
//! | [`index`] | postings of a collection, built in memory, kept in a [`Store`](super::store::Store) |
//! | [`bm25`] | the score of a document, and the best documents of a query |

pub mod analyzer;
pub mod bm25;
pub mod index;
pub mod porter;
pub mod tokenizer;

pub use analyzer::Analyzer;
pub use bm25::{Hit, SearchError, Searcher};
pub use index::{IndexBuilder, IndexParts};
