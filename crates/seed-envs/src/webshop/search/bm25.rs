//! BM25 as Lucene scores it (k1 = 0.9, b = 0.4, single precision), and the best documents of a query.

use super::analyzer::Analyzer;
use super::index::{Index, decode_length};
use crate::webshop::store::u32_at;
use std::cell::RefCell;
use std::cmp::Ordering;

const K1: f32 = 0.9;
const B: f32 = 0.4;

/// More different terms than this are refused, as Lucene refuses them.
pub const MAX_TERMS: usize = 1024;

/// A document that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// Its number.
    pub document: u32,
    /// Its score, above 0.
    pub score: f32,
}

/// Why a query cannot be answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// Too many different terms.
    #[error("the query has {found} different terms, at most {MAX_TERMS} are allowed")]
    TooManyTerms {
        /// How many there are.
        found: usize,
    },
}

/// What a thread keeps between queries.
#[derive(Default)]
struct Scratch {
    analyzer: Analyzer,
    /// Sums by document; 0 where nothing was added, which no term score is.
    sums: Vec<f64>,
    touched: Vec<u32>,
    best: Vec<(f32, u32, u32)>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Answers queries over an index.
#[derive(Debug, Clone)]
pub struct Searcher<'s> {
    index: Index<'s>,
    /// A column of `u32`: the rank by which documents of equal score are ordered, ascending.
    ranks: &'s [u8],
    /// What a coded length contributes.
    inverse: [f32; 256],
}

impl<'s> Searcher<'s> {
    /// Over an index, with the rank of each document for ties.
    pub fn new(index: Index<'s>, ranks: &'s [u8]) -> Self {
        let documents = index.documents_with_terms.max(1);
        let average = (index.total_terms as f64 / documents as f64) as f32;
        let inverse = std::array::from_fn(|byte| {
            let length = decode_length(byte as u8) as f32;
            1.0 / (K1 * ((1.0 - B) + B * length / average))
        });
        Self { index, ranks, inverse }
    }

    /// The index.
    pub fn index(&self) -> &Index<'s> {
        &self.index
    }

    /// The best `count` documents for a query: score descending, then rank ascending.
    ///
    /// # Errors
    /// [`SearchError::TooManyTerms`].
    pub fn search(&self, query: &str, count: usize) -> Result<Vec<Hit>, SearchError> {
        SCRATCH.with_borrow_mut(|scratch| self.search_with(scratch, query, count))
    }

    fn search_with(&self, scratch: &mut Scratch, query: &str, count: usize) -> Result<Vec<Hit>, SearchError> {
        let Scratch { analyzer, sums, touched, best } = scratch;
        let mut terms: Vec<(String, u32)> = Vec::new();
        let mut places = std::collections::HashMap::new();
        analyzer.terms(query, |term| match places.get(term) {
            Some(&place) => {
                let (_, repeats): &mut (String, u32) = &mut terms[place];
                *repeats += 1;
            }
            None => {
                places.insert(term.to_owned(), terms.len());
                terms.push((term.to_owned(), 1));
            }
        });
        if terms.len() > MAX_TERMS {
            return Err(SearchError::TooManyTerms { found: terms.len() });
        }
        if sums.len() < self.index.documents() {
            sums.resize(self.index.documents(), 0.0);
        }
        let lengths = self.index.lengths();
        let documents = self.index.documents_with_terms as f64;
        for (term, repeats) in &terms {
            let Some(postings) = self.index.postings(term) else { continue };
            let having = f64::from(postings.documents);
            let idf = (1.0 + (documents - having + 0.5) / (having + 0.5)).ln() as f32;
            let weight = *repeats as f32 * idf;
            for (document, frequency) in postings {
                let at = document as usize;
                // An index whose checksum is right has no document beyond its end.
                let (Some(sum), Some(&length)) = (sums.get_mut(at), lengths.get(at)) else { break };
                let norm = self.inverse[usize::from(length)];
                if *sum == 0.0 {
                    touched.push(document);
                }
                *sum += f64::from(weight - weight / (1.0 + frequency as f32 * norm));
            }
        }

        let worse = |one: &(f32, u32, u32), two: &(f32, u32, u32)| -> Ordering {
            two.0.total_cmp(&one.0).then(one.1.cmp(&two.1))
        };
        best.clear();
        let mut floor = f32::NEG_INFINITY;
        for &document in touched.iter() {
            let score = std::mem::take(&mut sums[document as usize]) as f32;
            if score < floor {
                continue;
            }
            best.push((score, u32_at(self.ranks, document as usize), document));
            if best.len() >= 4 * count.max(16) {
                best.select_nth_unstable_by(count.max(1) - 1, worse);
                best.truncate(count);
                floor = best.iter().map(|hit| hit.0).fold(f32::INFINITY, f32::min);
            }
        }
        touched.clear();
        best.sort_unstable_by(worse);
        best.truncate(count);
        Ok(best.iter().map(|&(score, _, document)| Hit { document, score }).collect())
    }
}
