//! Results by data source, weighted by count; and as the references average them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How the results of an evaluation are brought together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aggregation {
    /// Every episode counts the same: the default.
    #[default]
    Count,
    /// The mean over batches of the mean of each, as verl-agent does: the episodes of a short last batch weigh more,
    /// and a source weighs in each batch what it weighs there. For comparison with published numbers only.
    BatchMean {
        /// Episodes of a batch; 512 in the reference.
        batch: usize,
    },
}

/// What is kept of an episode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EpisodeResult {
    /// The data source of its question.
    pub source: String,
    /// Its score.
    pub score: f64,
    /// Whether it was won.
    pub won: bool,
    /// Steps.
    pub steps: usize,
    /// Searches that went out.
    pub searches: usize,
}

/// Means over episodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Means {
    /// Episodes.
    pub episodes: usize,
    /// Share of won episodes.
    pub success_rate: f64,
    /// Mean score.
    pub score: f64,
    /// Mean score over *steps*, as the reference's `test_score`: long episodes weigh more.
    pub score_by_step: f64,
    /// Mean number of searches.
    pub searches: f64,
}

/// The results of an evaluation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Over all episodes.
    pub all: Means,
    /// By data source.
    pub by_source: BTreeMap<String, Means>,
    /// The plain mean of the sources' success rates: what published tables call the average.
    pub source_mean: f64,
}

/// Brings results together, in the order in which the episodes were played.
pub fn summarize(results: &[EpisodeResult], aggregation: Aggregation) -> Summary {
    let sources: BTreeMap<&str, Vec<&EpisodeResult>> =
        results.iter().fold(BTreeMap::new(), |mut map, result| {
            map.entry(result.source.as_str()).or_insert_with(Vec::new).push(result);
            map
        });
    let everything: Vec<&EpisodeResult> = results.iter().collect();
    let (all, by_source): (Means, BTreeMap<String, Means>) = match aggregation {
        Aggregation::Count => (
            means(&everything),
            sources.iter().map(|(source, list)| ((*source).to_owned(), means(list))).collect(),
        ),
        Aggregation::BatchMean { batch } => {
            let batches: Vec<&[&EpisodeResult]> = everything.chunks(batch.max(1)).collect();
            let all = mean_of(batches.iter().map(|batch| means(batch)).collect());
            let one = |source: &str| {
                // A batch without the source is left out.
                let parts = batches.iter().filter_map(|batch| {
                    let part: Vec<&EpisodeResult> =
                        batch.iter().copied().filter(|result| result.source == source).collect();
                    (!part.is_empty()).then(|| means(&part))
                });
                mean_of(parts.collect())
            };
            (all, sources.keys().map(|source| ((*source).to_owned(), one(source))).collect())
        }
    };
    let rates: f64 = by_source.values().map(|means| means.success_rate).sum();
    let source_mean = rates / by_source.len().max(1) as f64;
    Summary { all, by_source, source_mean }
}

fn means(results: &[&EpisodeResult]) -> Means {
    let count = results.len().max(1) as f64;
    let steps = results.iter().map(|result| result.steps).sum::<usize>().max(1) as f64;
    let sum = |value: &dyn Fn(&EpisodeResult) -> f64| results.iter().map(|result| value(result)).sum::<f64>();
    Means {
        episodes: results.len(),
        success_rate: sum(&|result| f64::from(u8::from(result.won))) / count,
        score: sum(&|result| result.score) / count,
        score_by_step: sum(&|result| result.score * result.steps as f64) / steps,
        searches: sum(&|result| result.searches as f64) / count,
    }
}

/// The plain mean of means; the episodes are added up.
fn mean_of(parts: Vec<Means>) -> Means {
    let count = parts.len().max(1) as f64;
    let mean = |value: fn(&Means) -> f64| parts.iter().map(value).sum::<f64>() / count;
    Means {
        episodes: parts.iter().map(|part| part.episodes).sum(),
        success_rate: mean(|part| part.success_rate),
        score: mean(|part| part.score),
        score_by_step: mean(|part| part.score_by_step),
        searches: mean(|part| part.searches),
    }
}
