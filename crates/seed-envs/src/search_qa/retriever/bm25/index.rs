//! The inverted index: building it, and what it holds.

use super::{Bm25Profile, Formula, file};
use crate::environment::EnvError;
use crate::search_qa::retriever::corpus::Corpus;
use crate::search_qa::retriever::mapped::{Bytes, u32_at, u64_at};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;

/// Passages that one piece of the building works on.
const CHUNK: usize = 20_000;

/// The numbers of an index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) version: u32,
    pub(super) profile: Bm25Profile,
    pub(super) fingerprint: u64,
    pub(super) passages: usize,
    pub(super) terms: usize,
    pub(super) term_bytes: usize,
    pub(super) postings: usize,
    /// Words of all passages.
    pub(super) words: u64,
    /// Mean of the first factor over all terms, for [`Formula::Okapi`].
    pub(super) mean_idf: f64,
}

/// The parts of the data, in this order: lengths of passages (`u32`), ends of terms (`u64`), terms (sorted, joined),
/// ends of posting lists (`u64`), highest weights (`f64`), passages of postings (`u32`), counts of postings (`u16`).
pub(super) const PARTS: usize = 7;

/// An inverted index, memory-mapped or in memory.
#[derive(Debug)]
pub struct Bm25Index {
    pub(super) header: Header,
    pub(super) bytes: Bytes,
    pub(super) parts: [Range<usize>; PARTS],
    /// Accumulators of finished queries, for the next ones.
    pub(super) scratch: Mutex<Vec<super::query::Scratch>>,
}

/// A posting list.
#[derive(Debug, Clone, Copy)]
pub(super) struct Postings<'a> {
    passages: &'a [u8],
    counts: &'a [u8],
}

impl<'a> Postings<'a> {
    pub(super) fn len(&self) -> usize {
        self.counts.len() / 2
    }

    pub(super) fn passage(&self, at: usize) -> u32 {
        u32_at(self.passages, at)
    }

    pub(super) fn count(&self, at: usize) -> u16 {
        self.counts.get(at * 2..at * 2 + 2).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u16)> + use<'a> {
        let passages = self.passages.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        passages.zip(self.counts.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]])))
    }
}

/// What is known of one piece of the corpus.
struct Piece {
    lengths: Vec<u32>,
    /// Postings of each term, passages ascending.
    terms: HashMap<String, Vec<(u32, u16)>>,
}

impl Bm25Index {
    /// Builds an index over a corpus, in parallel, in memory.
    ///
    /// A word that stands more than 65,535 times in one passage counts 65,535 times (which moves its weight by less
    /// than 0.003 %).
    ///
    /// # Errors
    /// [`EnvError::Data`] with file and line of the first bad row.
    pub fn build(corpus: &Corpus, profile: Bm25Profile) -> Result<Self, EnvError> {
        let starts: Vec<usize> = (0..corpus.len()).step_by(CHUNK).collect();
        let pieces =
            starts.into_par_iter().map(|start| read(corpus, profile, start..corpus.len().min(start + CHUNK)));
        let pieces: Vec<Piece> = pieces.collect::<Result<_, EnvError>>()?;

        let mut frequencies: BTreeMap<&str, usize> = BTreeMap::new();
        for piece in &pieces {
            for (term, postings) in &piece.terms {
                *frequencies.entry(term).or_default() += postings.len();
            }
        }
        let lengths: Vec<u32> = pieces.iter().flat_map(|piece| piece.lengths.iter().copied()).collect();
        let words = lengths.iter().map(|&length| u64::from(length)).sum();
        let mut header = Header {
            version: file::VERSION,
            profile,
            fingerprint: corpus.fingerprint(),
            passages: corpus.len(),
            terms: frequencies.len(),
            term_bytes: frequencies.keys().map(|term| term.len()).sum(),
            postings: frequencies.values().sum(),
            words,
            mean_idf: 0.0,
        };
        let plain = |&frequency: &usize| header.okapi_idf(frequency);
        header.mean_idf = frequencies.values().map(plain).sum::<f64>() / (frequencies.len().max(1) as f64);

        let mut data = Vec::with_capacity(file::length(&header).unwrap_or_default());
        lengths.iter().for_each(|length| data.extend(length.to_le_bytes()));
        let mut end = 0_u64;
        for term in frequencies.keys() {
            end += term.len() as u64;
            data.extend(end.to_le_bytes());
        }
        frequencies.keys().for_each(|term| data.extend(term.as_bytes()));
        end = 0;
        for &frequency in frequencies.values() {
            end += frequency as u64;
            data.extend(end.to_le_bytes());
        }
        let (mut highest, mut passages, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        passages.reserve(header.postings * 4);
        counts.reserve(header.postings * 2);
        for (term, &frequency) in &frequencies {
            let idf = header.idf(frequency).abs();
            let mut top = 0.0_f64;
            for (passage, count) in pieces.iter().filter_map(|piece| piece.terms.get(*term)).flatten() {
                passages.extend(passage.to_le_bytes());
                counts.extend(count.to_le_bytes());
                top = top.max(idf * header.saturation(*count, lengths[*passage as usize]));
            }
            highest.extend(top.to_le_bytes());
        }
        data.extend(highest);
        data.extend(passages);
        data.extend(counts);
        Self::new(header, Bytes::Owned(data), 0, Path::new("(in memory)"))
    }

    /// Maps a saved index. The corpus must be the one that it was built over.
    ///
    /// # Errors
    /// [`EnvError`] when the file cannot be read, is damaged, or belongs to another corpus.
    pub fn open(path: &Path, corpus: &Corpus) -> Result<Self, EnvError> {
        file::open(path, corpus)
    }

    /// Writes the index; a reader sees the old file or the whole new one.
    ///
    /// # Errors
    /// [`EnvError::Read`] when it cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), EnvError> {
        file::save(self, path)
    }

    /// What it was built with.
    pub fn profile(&self) -> &Bm25Profile {
        &self.header.profile
    }

    /// Passages.
    pub fn passages(&self) -> usize {
        self.header.passages
    }

    /// Different words.
    pub fn terms(&self) -> usize {
        self.header.terms
    }

    /// Bytes of the index.
    pub fn bytes(&self) -> usize {
        self.parts[PARTS - 1].end - self.parts[0].start
    }

    pub(super) fn part(&self, part: usize) -> &[u8] {
        &self.bytes[self.parts[part].clone()]
    }

    /// Where the list that ends at `term` begins and ends, for the parts that hold ends.
    fn span(&self, part: usize, term: usize) -> Range<usize> {
        let ends = self.part(part);
        let start = if term == 0 { 0 } else { u64_at(ends, term - 1) };
        start as usize..u64_at(ends, term) as usize
    }

    fn term_text(&self, term: usize) -> &[u8] {
        self.part(2).get(self.span(1, term)).unwrap_or_default()
    }

    /// The number of a term.
    pub(super) fn find(&self, term: &str) -> Option<usize> {
        let (mut low, mut high) = (0, self.header.terms);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.term_text(middle).cmp(term.as_bytes()) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    pub(super) fn postings(&self, term: usize) -> Postings<'_> {
        let Range { start, end } = self.span(3, term);
        let list = |part: usize, size: usize| {
            let range = start.saturating_mul(size)..end.saturating_mul(size);
            self.part(part).get(range).unwrap_or_default()
        };
        Postings { passages: list(5, 4), counts: list(6, 2) }
    }

    /// The highest weight that a term has in any passage (of a single occurrence in the query).
    pub(super) fn highest(&self, term: usize) -> f64 {
        f64::from_bits(u64_at(self.part(4), term))
    }
}

impl Header {
    pub(super) fn mean_length(&self) -> f64 {
        self.words as f64 / self.passages.max(1) as f64
    }

    fn okapi_idf(&self, frequency: usize) -> f64 {
        let (n, df) = (self.passages as f64, frequency as f64);
        (n - df + 0.5).ln() - (df + 0.5).ln()
    }

    /// The first factor of a term's weight.
    pub(super) fn idf(&self, frequency: usize) -> f64 {
        let (n, df) = (self.passages as f64, frequency as f64);
        match self.profile.formula {
            Formula::Lucene => (1.0 + (n - df + 0.5) / (df + 0.5)).ln(),
            Formula::Okapi { epsilon } => {
                let idf = self.okapi_idf(frequency);
                (if idf < 0.0 { epsilon * self.mean_idf } else { idf }) * (self.profile.k1 + 1.0)
            }
        }
    }

    /// The second factor: `tf / (tf + norm)`.
    pub(super) fn saturation(&self, count: u16, length: u32) -> f64 {
        let Bm25Profile { k1, b, .. } = self.profile;
        let count = f64::from(count);
        count / (count + k1 * (1.0 - b + b * f64::from(length) / self.mean_length()))
    }
}

fn read(corpus: &Corpus, profile: Bm25Profile, range: Range<usize>) -> Result<Piece, EnvError> {
    // Every different word is stemmed once.
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut terms: Vec<(String, Vec<(u32, u16)>)> = Vec::new();
    let mut by_term: HashMap<String, usize> = HashMap::new();
    let mut lengths = Vec::with_capacity(range.len());
    for passage in range {
        let document = corpus.document(passage)?;
        let mut length = 0;
        let passage = u32::try_from(passage).unwrap_or(u32::MAX);
        profile.tokens.raw(&document.contents, |raw| {
            length += 1;
            let number = match numbers.get(raw) {
                Some(&number) => number,
                None => {
                    let term = profile.tokens.term(raw).into_owned();
                    let number = *by_term.entry(term).or_insert_with_key(|term| {
                        terms.push((term.clone(), Vec::new()));
                        terms.len() - 1
                    });
                    numbers.insert(raw.to_owned(), number);
                    number
                }
            };
            match terms[number].1.last_mut() {
                Some((last, count)) if *last == passage => *count = count.saturating_add(1),
                _ => terms[number].1.push((passage, 1)),
            }
        });
        lengths.push(length);
    }
    Ok(Piece { lengths, terms: terms.into_iter().collect() })
}
