//! Answering a query: exact scores in double precision, without looking at passages that cannot get into the list.

use super::index::{Bm25Index, Postings};
use std::collections::HashMap;

/// Accumulators that are kept between queries; all zero while nobody uses them.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    scores: Vec<f64>,
    touched: Vec<u32>,
}

/// One different word of a query.
struct Term<'a> {
    postings: Postings<'a>,
    /// First factor times how often the word stands in the query.
    weight: f64,
    /// The most that it can add to any passage.
    bound: f64,
}

impl Bm25Index {
    /// The best passages with their scores, best first; ties go to the earlier passage, scores of 0 and less are left
    /// out.
    pub fn rank(&self, query: &str, top_k: usize) -> Vec<(usize, f64)> {
        let mut counts: HashMap<usize, usize> = HashMap::new();
        self.header.profile.tokens.raw(query, |raw| {
            if let Some(term) = self.find(&self.header.profile.tokens.term(raw)) {
                *counts.entry(term).or_default() += 1;
            }
        });
        let mut terms: Vec<(usize, Term<'_>)> = counts
            .into_iter()
            .map(|(term, count)| {
                let postings = self.postings(term);
                let weight = self.header.idf(postings.len()) * count as f64;
                (term, Term { postings, weight, bound: self.highest(term) * count as f64 })
            })
            .collect();
        // A word of no weight (Okapi, in exactly half of the passages) would name passages that score nothing.
        terms.retain(|(_, term)| term.weight != 0.0);
        // The order decides the last bits of the sums, so it must not depend on a hash.
        terms.sort_by(|(a, one), (b, two)| two.bound.total_cmp(&one.bound).then(a.cmp(b)));
        let terms: Vec<Term<'_>> = terms.into_iter().map(|(_, term)| term).collect();
        if top_k == 0 || terms.is_empty() {
            return Vec::new();
        }

        let taken = self.scratch.lock().map(|mut free| free.pop()).ok().flatten();
        let mut scratch = taken.unwrap_or_default();
        scratch.scores.resize(self.header.passages, 0.0);
        let found = self.collect(&terms, top_k, &mut scratch);
        scratch.touched.iter().for_each(|&passage| scratch.scores[passage as usize] = 0.0);
        scratch.touched.clear();
        if let Ok(mut free) = self.scratch.lock() {
            free.push(scratch);
        }
        self.cut(found, top_k)
    }

    /// Every passage that may be among the best, with its full score.
    fn collect(&self, terms: &[Term<'_>], top_k: usize, scratch: &mut Scratch) -> Vec<(u32, f64)> {
        let Scratch { scores, touched } = scratch;
        let profile = &self.header.profile;
        let lengths = self.part(0);
        let fixed = profile.k1 * (1.0 - profile.b);
        let slope = profile.k1 * profile.b / self.header.mean_length();
        let weigh = |weight: f64, passage: u32, count: u16| {
            let length = crate::search_qa::retriever::mapped::u32_at(lengths, passage as usize);
            let count = f64::from(count);
            weight * count / (count + fixed + slope * f64::from(length))
        };
        // Weights below zero (Okapi on tiny corpora) break the bounds; then nothing is left out.
        let bounded = terms.iter().all(|term| term.weight >= 0.0);
        let slack = self.slack();
        let mut rest: f64 = terms.iter().map(|term| term.bound).sum();
        let mut threshold = 0.0;
        let mut at = 0;
        let mut sample = Vec::new();
        // A passage that no list has named yet can reach at most `rest`.
        while at < terms.len() && !(bounded && rest + slack < threshold) {
            let term = &terms[at];
            for (passage, count) in term.postings.iter() {
                let Some(score) = scores.get_mut(passage as usize) else { continue };
                if *score == 0.0 {
                    touched.push(passage);
                }
                *score += weigh(term.weight, passage, count);
            }
            rest -= term.bound;
            at += 1;
            if bounded && at < terms.len() && touched.len() >= top_k {
                sample.clear();
                sample.extend(touched.iter().map(|&passage| scores[passage as usize]));
                let (_, kth, _) = sample.select_nth_unstable_by(top_k - 1, |a, b| b.total_cmp(a));
                threshold = *kth;
            }
        }
        let mut open: Vec<(u32, f64)> = touched
            .iter()
            .map(|&passage| (passage, scores[passage as usize]))
            .filter(|(_, score)| !bounded || score + rest + slack >= threshold)
            .collect();
        if !bounded {
            // A sum that came back to 0 on its way was named twice.
            open.sort_unstable_by_key(|(passage, _)| *passage);
            open.dedup_by_key(|(passage, _)| *passage);
        }
        if at < terms.len() {
            open.sort_unstable_by_key(|(passage, _)| *passage);
        }
        for term in &terms[at..] {
            let mut place = 0;
            for (passage, score) in &mut open {
                place = seek(&term.postings, place, *passage);
                if place < term.postings.len() && term.postings.passage(place) == *passage {
                    *score += weigh(term.weight, *passage, term.postings.count(place));
                }
            }
            rest -= term.bound;
            if open.len() > top_k {
                sample.clear();
                sample.extend(open.iter().map(|(_, score)| *score));
                let (_, kth, _) = sample.select_nth_unstable_by(top_k - 1, |a, b| b.total_cmp(a));
                threshold = threshold.max(*kth);
                open.retain(|(_, score)| score + rest + slack >= threshold);
            }
        }
        open
    }

    /// Two scores so near may be a tie.
    fn slack(&self) -> f64 {
        2.0 * 0.1_f64.powi(self.header.profile.tie_decimals.min(12) as i32)
    }

    fn cut(&self, mut found: Vec<(u32, f64)>, top_k: usize) -> Vec<(usize, f64)> {
        let unit = 10_f64.powi(self.header.profile.tie_decimals.min(12) as i32);
        let rounded = |score: f64| (score * unit).round_ties_even();
        found.retain(|(_, score)| rounded(*score) > 0.0);
        let order =
            |a: &(u32, f64), b: &(u32, f64)| rounded(b.1).total_cmp(&rounded(a.1)).then(a.0.cmp(&b.0));
        if found.len() > top_k {
            found.select_nth_unstable_by(top_k - 1, order);
            found.truncate(top_k);
        }
        found.sort_unstable_by(order);
        found.into_iter().map(|(passage, score)| (passage as usize, score)).collect()
    }
}

/// The first place from `from` on whose passage is not before `passage`, by doubling steps.
fn seek(postings: &Postings<'_>, from: usize, passage: u32) -> usize {
    let (mut low, mut step) = (from, 1);
    while low + step < postings.len() && postings.passage(low + step) < passage {
        low += step;
        step *= 2;
    }
    let mut high = (low + step + 1).min(postings.len());
    while low < high {
        let middle = low + (high - low) / 2;
        if postings.passage(middle) < passage {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
