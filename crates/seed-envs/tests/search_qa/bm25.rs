//! Rankings against `bm25s` and `rank-bm25`, the file form, and properties against a slow definition.

use crate::shared::{PLAIN, corpus, json, lines, text, texts};
use proptest::prelude::*;
use seed_envs::EnvError;
use seed_envs::search_qa::retriever::bm25::{Bm25, Bm25Index, Bm25Profile, Formula, Tokens, stemmer, tokens};
use seed_envs::search_qa::retriever::corpus::Corpus;
use seed_envs::search_qa::retriever::{Document, Retriever};
use std::collections::HashMap;
use std::sync::Arc;

#[test]
fn stems_and_stop_words() {
    let reference = json("tokeniser_reference.json");
    assert_eq!(texts(&reference["stopwords_en"]), tokens::STOP_WORDS);
    for stem in reference["stems"].as_array().expect("stems") {
        assert_eq!(Some(&*stemmer::stem(stem[0].as_str().expect("a word"))), stem[1].as_str(), "{stem}");
    }
}

#[test]
fn recorded_rankings() {
    let queries: HashMap<String, String> = lines("retrieval_queries.jsonl")
        .iter()
        .map(|record| (text(record, "id").to_owned(), text(record, "query").to_owned()))
        .collect();
    let mut indices: HashMap<(String, String), Bm25> = HashMap::new();
    let mut compared = 0;
    for record in lines("bm25_reference.jsonl") {
        let (name, profile) = (text(&record, "corpus").to_owned(), text(&record, "profile").to_owned());
        let index = indices.entry((name.clone(), profile.clone())).or_insert_with(|| {
            let profile = Bm25Profile::by_name(&profile).unwrap_or_else(|| panic!("profile {profile}"));
            Bm25::build(corpus(&name), profile).expect("an index")
        });
        let found = index.search(&queries[text(&record, "query")], 10, 0).expect("local").remove(0);
        let expected = record["top"].as_array().expect("a list");
        let ids: Vec<&str> = found.iter().map(|hit| hit.document.id.as_str()).collect();
        let wanted: Vec<&str> = expected.iter().map(|hit| hit[0].as_str().expect("an id")).collect();
        assert_eq!(ids, wanted, "{record}");
        for (hit, expected) in found.iter().zip(expected) {
            let (ours, theirs) = (hit.score.expect("a score"), expected[1].as_f64().expect("a score"));
            assert!((ours - theirs).abs() < 1e-4, "{ours} for {theirs} in {record}");
        }
        compared += 1;
    }
    assert!(compared >= 300, "{compared} rankings");
}

fn small(texts: &[&str]) -> Arc<Corpus> {
    let documents: Vec<Document> = texts
        .iter()
        .enumerate()
        .map(|(at, text)| Document {
            id: format!("p{at}"),
            contents: (*text).to_owned(),
            other: Default::default(),
        })
        .collect();
    Arc::new(Corpus::from_documents(&documents))
}

#[test]
fn saved_indices_come_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("plain.bm25");
    PLAIN.index().save(&path).expect("saved");
    let opened = Bm25::open(PLAIN.corpus().clone(), &path).expect("opened");
    for query in ["Who founded Citibank?", "the the the", "", "zzzz", "é"] {
        assert_eq!(opened.index().rank(query, 7), PLAIN.index().rank(query, 7), "{query:?}");
    }
    let bytes = std::fs::read(&path).expect("bytes");

    // Of another corpus, cut, of another version, or no index at all: each says what to do.
    let message = |error: EnvError| error.to_string();
    let other = small(&["one"]);
    let error = message(Bm25Index::open(&path, &other).expect_err("another corpus"));
    assert!(error.contains("build it anew") && error.contains("9944 passages"), "{error}");
    let corpus = PLAIN.corpus();
    std::fs::write(&path, &bytes[..bytes.len() - 1]).expect("written");
    assert!(message(Bm25Index::open(&path, corpus).expect_err("cut")).contains("cut or damaged"));
    std::fs::write(&path, "{}").expect("written");
    assert!(message(Bm25Index::open(&path, corpus).expect_err("no index")).contains("SEEDBM25"));
    let missing = folder.path().join("nowhere.bm25");
    assert!(message(Bm25Index::open(&missing, corpus).expect_err("missing")).contains("nowhere.bm25"));
    let leftovers = std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(leftovers, 1, "temporary files are gone");
}

#[test]
fn bad_rows_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("corpus.jsonl");
    for (row, place, found) in [
        ("{\"id\": \"1\"}", ":3 field `contents`", "nothing"),
        ("{\"id\": [], \"contents\": \"x\"}", ":3 field `id`", "a list"),
        ("{\"id\": \"1\", \"contents\": 5}", ":3 field `contents`", "a number"),
        ("{\"id\": \"1\", ", ":3", "EOF"),
    ] {
        std::fs::write(&path, format!("{{\"id\": 7, \"contents\": \"a b\"}}\n\n{row}\n")).expect("written");
        let corpus = Corpus::open(&[&path]).expect("mapped");
        assert_eq!(corpus.len(), 2);
        assert_eq!(corpus.document(0).expect("a good row").id, "7");
        let error = Bm25Index::build(&corpus, Bm25Profile::default()).expect_err("a bad row").to_string();
        assert!(error.contains(place) && error.contains(found) && error.contains("corpus.jsonl"), "{error}");
    }
}

#[test]
fn an_empty_corpus_finds_nothing() {
    let index = Bm25::build(small(&[]), Bm25Profile::default()).expect("an index");
    assert_eq!(index.search("anything", 3, 0), Ok(vec![vec![]]));
    let blank = Bm25::build(small(&["", " "]), Bm25Profile::PLAIN_OKAPI).expect("an index");
    assert_eq!(blank.search("anything", 3, 0), Ok(vec![vec![]]));
}

/// The definition, passage by passage.
fn slow(texts: &[String], query: &str, profile: Bm25Profile, top_k: usize) -> Vec<(usize, f64)> {
    let passages: Vec<Vec<String>> = texts.iter().map(|text| profile.tokens.of(text)).collect();
    let (n, words) = (texts.len() as f64, passages.iter().map(Vec::len).sum::<usize>() as f64);
    let frequency =
        |term: &str| passages.iter().filter(|words| words.iter().any(|word| word == term)).count() as f64;
    let raw = |df: f64| (n - df + 0.5).ln() - (df + 0.5).ln();
    let all: std::collections::BTreeSet<&String> = passages.iter().flatten().collect();
    let mean = all.iter().map(|term| raw(frequency(term))).sum::<f64>() / all.len().max(1) as f64;
    let score = |passage: &Vec<String>| {
        let norm = profile.k1 * (1.0 - profile.b + profile.b * passage.len() as f64 / (words / n));
        profile
            .tokens
            .of(query)
            .iter()
            .map(|term| {
                let (tf, df) = (passage.iter().filter(|word| *word == term).count() as f64, frequency(term));
                if tf == 0.0 {
                    return 0.0;
                }
                match profile.formula {
                    Formula::Lucene => (1.0 + (n - df + 0.5) / (df + 0.5)).ln() * tf / (tf + norm),
                    Formula::Okapi { epsilon } => {
                        let idf = if raw(df) < 0.0 { epsilon * mean } else { raw(df) };
                        idf * (tf * (profile.k1 + 1.0) / (tf + norm))
                    }
                }
            })
            .sum::<f64>()
    };
    let mut scored: Vec<(usize, f64)> = passages.iter().map(score).enumerate().collect();
    let rounded = |score: f64| (score * 1e6).round_ties_even();
    scored.retain(|(_, score)| rounded(*score) > 0.0);
    scored.sort_by(|a, b| rounded(b.1).total_cmp(&rounded(a.1)).then(a.0.cmp(&b.0)));
    scored.truncate(top_k);
    scored
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Leaving passages out early never changes the list.
    #[test]
    fn rankings_are_those_of_the_definition(
        texts in proptest::collection::vec("([a-f]{1,2} ?|the |running ){0,12}", 1..40),
        query in "([a-f]{1,2} |the |runs ){0,8}",
        top_k in 1_usize..6,
        profile in prop_oneof![
            Just(Bm25Profile::PLAIN_LUCENE), Just(Bm25Profile::STEM_LUCENE), Just(Bm25Profile::PLAIN_OKAPI)
        ],
    ) {
        let borrowed: Vec<&str> = texts.iter().map(String::as_str).collect();
        let index = Bm25Index::build(&small(&borrowed), profile).expect("an index");
        let (ours, theirs) = (index.rank(&query, top_k), slow(&texts, &query, profile, top_k));
        let places = |list: &[(usize, f64)]| list.iter().map(|hit| hit.0).collect::<Vec<_>>();
        prop_assert_eq!(places(&ours), places(&theirs));
        for (ours, theirs) in ours.iter().zip(&theirs) {
            prop_assert!((ours.1 - theirs.1).abs() < 1e-9);
        }
        // Asking for less gives the beginning of the same list.
        prop_assert_eq!(places(&index.rank(&query, 1)), places(&ours[..ours.len().min(1)]));
    }

    #[test]
    fn any_text_can_be_cut_into_words(text in "\\PC{0,60}|[a-zA-Zé_ '-]{0,60}") {
        for tokens in [Tokens::PLAIN, Tokens::STEMMED] {
            prop_assert!(tokens.of(&text).iter().all(|word| !word.is_empty()));
        }
    }

    /// A stem has no ending that the first step would take, and never grows by more than the `e` that is put back.
    #[test]
    fn stems_do_not_grow(word in "[a-z]{1,14}|[a-z]{1,6}(ing|ed|ly|ness|ational|ies|s|eed)") {
        let stem = stemmer::stem(&word);
        prop_assert!(!stem.is_empty());
        prop_assert!(stem.len() <= word.len());
    }
}
