//! Postings of a collection of texts.

use super::analyzer::Analyzer;
use crate::webshop::store::{Store, Texts, TextsBuilder, u32_at, u64_at};
use std::collections::HashMap;

/// Sections that an index takes in a [`Store`].
pub const SECTIONS: usize = 7;

/// Collects documents, in order.
///
/// It keeps the postings in their final, packed form; beside them only the vocabulary.
#[derive(Debug, Default)]
pub struct IndexBuilder {
    analyzer: Analyzer,
    /// Term to its number, which is its place in `lists`.
    numbers: HashMap<Box<str>, u32>,
    lists: Vec<List>,
    /// One byte for each document: its coded length.
    lengths: Vec<u8>,
    documents_with_terms: u64,
    terms: u64,
    /// Numbers of the terms of the current document.
    current: Vec<u32>,
}

/// The documents of a term: pairs of distance to the document before and count, as variable-length numbers.
#[derive(Debug, Default)]
struct List {
    bytes: Vec<u8>,
    documents: u32,
    /// One above the last document's number.
    next: u32,
}

/// The finished sections of an index.
#[derive(Debug)]
pub struct IndexParts(pub [Vec<u8>; SECTIONS]);

impl IndexBuilder {
    /// Adds the next document. A text without terms is a document that nothing finds.
    pub fn add(&mut self, text: &str) {
        let Self { analyzer, numbers, lists, current, .. } = self;
        current.clear();
        analyzer.terms(text, |term| {
            let number = numbers.get(term).copied().unwrap_or_else(|| {
                let number = lists.len() as u32;
                numbers.insert(term.into(), number);
                lists.push(List::default());
                number
            });
            current.push(number);
        });
        let document = self.lengths.len() as u32;
        self.lengths.push(encode_length(self.current.len() as u32));
        self.documents_with_terms += u64::from(!self.current.is_empty());
        self.terms += self.current.len() as u64;
        self.current.sort_unstable();
        for equal in self.current.chunk_by(|one, two| one == two) {
            let list = &mut self.lists[equal[0] as usize];
            write_number(&mut list.bytes, document - list.next);
            write_number(&mut list.bytes, equal.len() as u32);
            list.next = document + 1;
            list.documents += 1;
        }
    }

    /// How many documents there are.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether there is no document.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// The sections, with the terms in the order of their bytes. Postings are moved, list by list, never doubled.
    pub fn finish(self) -> IndexParts {
        let Self { numbers, mut lists, lengths, documents_with_terms, terms: total, .. } = self;
        let mut terms: Vec<(Box<str>, u32)> = numbers.into_iter().collect();
        terms.sort_unstable();
        let mut names = TextsBuilder::default();
        let mut frequencies = Vec::with_capacity(terms.len() * 4);
        let mut offsets = 0u64.to_le_bytes().to_vec();
        let mut postings = Vec::new();
        for (term, number) in terms {
            let list = std::mem::take(&mut lists[number as usize]);
            names.push(&term);
            frequencies.extend(list.documents.to_le_bytes());
            postings.extend(list.bytes);
            offsets.extend((postings.len() as u64).to_le_bytes());
        }
        let totals = [documents_with_terms.to_le_bytes(), total.to_le_bytes()].concat();
        let [name_offsets, name_bytes] = names.finish();
        IndexParts([totals, name_offsets, name_bytes, frequencies, offsets, postings, lengths])
    }
}

/// An index in a [`Store`].
#[derive(Debug, Clone, Copy)]
pub struct Index<'s> {
    terms: Texts<'s>,
    frequencies: &'s [u8],
    offsets: &'s [u8],
    postings: &'s [u8],
    lengths: &'s [u8],
    /// Documents that have terms.
    pub documents_with_terms: u64,
    /// Terms of all documents, repeats counted.
    pub total_terms: u64,
}

impl<'s> Index<'s> {
    /// The index whose sections start at `first`.
    pub fn new(store: &'s Store, first: usize) -> Self {
        let totals = store.section(first);
        Self {
            terms: Texts::new(store, first + 1),
            frequencies: store.section(first + 3),
            offsets: store.section(first + 4),
            postings: store.section(first + 5),
            lengths: store.section(first + 6),
            documents_with_terms: u64_at(totals, 0),
            total_terms: u64_at(totals, 1),
        }
    }

    /// Documents, with and without terms.
    pub fn documents(&self) -> usize {
        self.lengths.len()
    }

    /// Bytes of its sections.
    pub fn bytes(&self) -> usize {
        let columns = [self.frequencies, self.offsets, self.postings, self.lengths];
        self.terms.bytes() + columns.iter().map(|column| column.len()).sum::<usize>()
    }

    /// Different terms.
    pub fn vocabulary(&self) -> usize {
        self.terms.len()
    }

    /// The coded length of each document.
    pub fn lengths(&self) -> &'s [u8] {
        self.lengths
    }

    /// A term's postings.
    pub fn postings(&self, term: &str) -> Option<Postings<'s>> {
        let (mut low, mut high) = (0, self.terms.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.terms.bytes_of(middle).cmp(term.as_bytes()) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => {
                    let range =
                        u64_at(self.offsets, middle) as usize..u64_at(self.offsets, middle + 1) as usize;
                    let documents = u32_at(self.frequencies, middle);
                    let bytes = self.postings.get(range)?;
                    return Some(Postings { bytes, next: 0, documents });
                }
            }
        }
        None
    }
}

/// Documents of a term with their counts, ascending.
#[derive(Debug, Clone, Copy)]
pub struct Postings<'s> {
    bytes: &'s [u8],
    next: u32,
    /// How many documents have the term.
    pub documents: u32,
}

impl Iterator for Postings<'_> {
    type Item = (u32, u32);

    #[inline]
    fn next(&mut self) -> Option<(u32, u32)> {
        let document = self.next.wrapping_add(read_number(&mut self.bytes)?);
        let count = read_number(&mut self.bytes)?;
        self.next = document.wrapping_add(1);
        Some((document, count))
    }
}

fn write_number(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

#[inline]
fn read_number(bytes: &mut &[u8]) -> Option<u32> {
    let (&first, rest) = bytes.split_first()?;
    *bytes = rest;
    if first < 0x80 {
        return Some(u32::from(first));
    }
    let mut number = u32::from(first & 0x7f);
    for shift in [7, 14, 21, 28] {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    Some(number)
}

/// Lengths below this are coded as they are (Lucene's `SmallFloat`: 255 less the longest coded number's code).
const EXACT: u32 = 24;

/// A document's length in one byte, rounded down (Lucene's `SmallFloat.intToByte4`).
pub fn encode_length(length: u32) -> u8 {
    let Some(rest) = length.checked_sub(EXACT) else { return length as u8 };
    let bits = u32::BITS - rest.leading_zeros();
    if bits < 4 {
        return (EXACT + rest) as u8;
    }
    let shift = bits - 4;
    // Three bits behind the leading one, and the exponent; 24 + 231 is the largest code for 31 bits.
    let code = rest >> shift & 7 | (shift + 1) << 3;
    (EXACT + code).min(255) as u8
}

/// The length that a byte stands for.
pub fn decode_length(byte: u8) -> u32 {
    let Some(code) = u32::from(byte).checked_sub(EXACT) else { return u32::from(byte) };
    let (mantissa, exponent) = (code & 7, code >> 3);
    EXACT + if exponent == 0 { mantissa } else { (mantissa | 8) << (exponent - 1) }
}

#[cfg(test)]
mod tests {
    use super::{decode_length, encode_length, read_number, write_number};

    #[test]
    fn lengths_are_rounded_down() {
        for length in 0..=40 {
            assert_eq!(decode_length(encode_length(length)), length);
        }
        assert_eq!(decode_length(encode_length(41)), 40);
        assert_eq!(decode_length(encode_length(1000)), 984);
        for byte in 0..=255u8 {
            assert_eq!(encode_length(decode_length(byte)), byte);
        }
    }

    #[test]
    fn numbers_come_back() {
        for number in [0, 1, 127, 128, 16_383, 16_384, u32::MAX] {
            let mut bytes = Vec::new();
            write_number(&mut bytes, number);
            assert_eq!(read_number(&mut bytes.as_slice()), Some(number));
        }
    }
}
