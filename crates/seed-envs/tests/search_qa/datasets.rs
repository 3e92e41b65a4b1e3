//! Published question files in both layouts, and results by source.

use crate::shared::{data, lines, text, texts};
use proptest::prelude::*;
use seed_envs::search_qa::dataset::{read, read_folder};
use seed_envs::search_qa::metrics::{Aggregation, EpisodeResult, summarize};
use seed_envs::search_qa::{Question, SearchQa, SearchQaOptions};
use seed_envs::{EnvError, Suite};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

fn by_question() -> HashMap<String, Value> {
    lines("qa.jsonl")
        .into_iter()
        .map(|record| (text(&record, "question").trim().to_owned(), record))
        .collect()
}

#[test]
fn parquet_and_lines_hold_the_same_questions() {
    let known = by_question();
    let folder = data("train.parquet").parent().expect("a folder").to_owned();
    let splits = read_folder(&folder).expect("both splits");
    let counts: Vec<(&str, usize)> = splits.iter().map(|(name, list)| (name.as_str(), list.len())).collect();
    assert_eq!(counts, [("train", 180), ("test", 210)]);
    let mut sources: BTreeMap<&str, usize> = BTreeMap::new();
    for question in splits.iter().flat_map(|(_, questions)| questions) {
        let plain = question.question.trim_end_matches('?');
        let record = known.get(&question.question).or_else(|| known.get(plain));
        let record = record.unwrap_or_else(|| panic!("{question:?} is not in qa.jsonl"));
        assert_eq!(question.golden_answers, texts(&record["golden_answers"]));
        assert!(question.data_source.ends_with(text(record, "data_source")), "{question:?}");
        *sources.entry(text(record, "data_source")).or_default() += 1;
    }
    assert_eq!(sources.len(), 7, "{sources:?}");

    let plain = read(&data("qa.jsonl"), None).expect("questions");
    assert_eq!(plain.len(), 825);
    assert!(plain.iter().all(|question| question.question.ends_with('?')));
    // The list makes a suite with unique ids, by split and source.
    let suite = SearchQa::new(splits, Arc::new(crate::shared::PLAIN.clone()), SearchQaOptions::default());
    let tasks: Vec<_> = ["train", "test"]
        .into_iter()
        .flat_map(|split| suite.tasks(split).expect("a split").to_vec())
        .collect();
    assert_eq!(tasks.iter().map(|task| &task.id).collect::<HashSet<_>>().len(), 390);
    assert!(tasks[0].id.starts_with("train/") && tasks[0].id.ends_with("/0"), "{}", tasks[0].id);
}

fn row(layout: &str) -> Value {
    match layout {
        "search_r1" => json!({
            "id": "train_0", "question": "who wrote it?", "golden_answers": ["A", "B"], "data_source": "nq",
            "prompt": [{"role": "user", "content": "long instruction"}], "ability": "fact-reasoning",
            "reward_model": {"style": "rule", "ground_truth": {"target": ["A", "B"]}},
            "extra_info": {"split": "train", "index": 0}, "metadata": null,
        }),
        "verl_agent" => json!({
            "data_source": "nq", "prompt": [{"role": "user", "content": "who wrote it?"}],
            "ability": "fact-reasoning", "reward_model": {"style": "rule", "ground_truth": {"target": ["A", "B"]}},
            "extra_info": {"index": 0, "need_tools_kwargs": true, "question": "who wrote it?", "split": "train"},
            "metadata": null,
            "env_kwargs": {"ground_truth": {"target": ["A", "B"]}, "question": "who wrote it?", "data_source": "nq"},
        }),
        _ => json!({"id": "train_0", "question": " who wrote it", "golden_answers": ["A", "B"]}),
    }
}

fn write(folder: &tempfile::TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("written");
    path
}

#[test]
fn every_layout_gives_the_same_question() {
    let folder = tempfile::tempdir().expect("a folder");
    let expected = Question {
        question: "who wrote it?".into(),
        golden_answers: vec!["A".into(), "B".into()],
        data_source: "nq".into(),
        plan: Vec::new(),
    };
    for layout in ["search_r1", "verl_agent", "plain"] {
        let path = write(&folder, "test.jsonl", &format!("{}\n\n", row(layout)));
        assert_eq!(read(&path, Some("nq")).expect(layout), std::slice::from_ref(&expected));
    }
    let one = json!({"question": "q?", "golden_answers": "alone", "data_source": "own"});
    let path = write(&folder, "test.jsonl", &one.to_string());
    assert_eq!(read(&path, None).expect("one answer")[0].golden_answers, ["alone"]);
}

#[test]
fn what_is_wrong_is_named_with_file_row_and_column() {
    let folder = tempfile::tempdir().expect("a folder");
    let changed = |path: &[&str], value: Value| {
        let mut row = row("verl_agent");
        let place = path.iter().fold(&mut row, |place, key| &mut place[*key]);
        *place = value;
        row
    };
    for (bad, column, found) in [
        (changed(&["env_kwargs", "question"], json!(5)), "`env_kwargs.question`", "a number"),
        (changed(&["env_kwargs", "question"], json!(" ")), "`env_kwargs.question`", "an empty text"),
        (
            changed(&["env_kwargs", "ground_truth", "target"], json!([])),
            "`env_kwargs.ground_truth.target`",
            "an empty list",
        ),
        (
            changed(&["env_kwargs", "ground_truth", "target"], json!([1])),
            "`env_kwargs.ground_truth.target`",
            "a number",
        ),
        (json!({"golden_answers": ["x"]}), "`question`", "nothing"),
        (json!({"question": "q"}), "`golden_answers`", "nothing"),
        (json!({"question": "q", "golden_answers": ["x"]}), "`data_source`", "nothing"),
    ] {
        let path = write(&folder, "train.jsonl", &format!("{}\n{bad}\n", row("search_r1")));
        let message = read(&path, None).expect_err("refused").to_string();
        assert!(message.contains("train.jsonl:2 column") && message.contains(column), "{message}");
        assert!(message.contains(&format!("found {found}")), "{message}");
    }
    let path = write(&folder, "train.jsonl", "{\"question\":");
    assert!(read(&path, None).expect_err("cut").to_string().contains("train.jsonl:1"));
    let path = write(&folder, "train.parquet", "PAR1 no parquet");
    assert!(read(&path, None).expect_err("no parquet").to_string().contains("train.parquet"));
    let whole = std::fs::read(data("test.parquet")).expect("bytes");
    for keep in [whole.len() / 2, whole.len() - 3] {
        std::fs::write(&path, &whole[..keep]).expect("written");
        assert!(matches!(read(&path, None), Err(EnvError::Data { .. })), "{keep}");
    }
    let message = read_folder(folder.path()).expect_err("both kinds").to_string();
    assert!(message.contains("train.parquet and train.jsonl"), "{message}");
    let empty = tempfile::tempdir().expect("a folder");
    assert!(read_folder(empty.path()).expect_err("nothing there").to_string().contains("test.jsonl"));
    assert!(read(&write(&folder, "train.csv", ""), None).expect_err("csv").to_string().contains(".parquet"));
}

fn result(source: &str, won: bool, steps: usize) -> EpisodeResult {
    EpisodeResult { source: source.into(), score: f64::from(u8::from(won)), won, steps, searches: steps - 1 }
}

#[test]
fn a_short_last_batch_weighs_too_much_in_the_reference_alone() {
    // The public panel: 51,713 = 101 · 512 + 1.
    let mut results = vec![result("nq", false, 2); 101 * 512];
    results.push(result("bamboogle", true, 4));
    let counted = summarize(&results, Aggregation::Count);
    assert!((counted.all.success_rate - 1.0 / 51_713.0).abs() < 1e-12);
    let batched = summarize(&results, Aggregation::BatchMean { batch: 512 });
    assert!((batched.all.success_rate - 1.0 / 102.0).abs() < 1e-12);
    assert_eq!(counted.all.episodes, batched.all.episodes);
    assert_eq!(counted.source_mean, 0.5);

    // Over steps, long episodes weigh more.
    let mixed = [result("nq", true, 4), result("nq", false, 1)];
    let nq = summarize(&mixed, Aggregation::Count).by_source["nq"];
    assert_eq!((nq.score, nq.score_by_step, nq.searches), (0.5, 0.8, 1.5));
}

proptest! {
    #[test]
    fn means_are_means(outcomes in proptest::collection::vec((0_usize..3, any::<bool>(), 1_usize..5), 0..40), batch in 1_usize..9) {
        let results: Vec<EpisodeResult> =
            outcomes.iter().map(|(source, won, steps)| result(["a", "b", "c"][*source], *won, *steps)).collect();
        let counted = summarize(&results, Aggregation::Count);
        let batched = summarize(&results, Aggregation::BatchMean { batch });
        prop_assert_eq!(counted.by_source.values().map(|means| means.episodes).sum::<usize>(), results.len());
        prop_assert_eq!(batched.all.episodes, results.len());
        // One batch of everything is the count; so are batches of one.
        let whole = summarize(&results, Aggregation::BatchMean { batch: results.len().max(1) });
        let single = summarize(&results, Aggregation::BatchMean { batch: 1 });
        for other in [whole, single] {
            prop_assert!((other.all.success_rate - counted.all.success_rate).abs() < 1e-12);
            prop_assert!((other.source_mean - counted.source_mean).abs() < 1e-12);
        }
    }
}
