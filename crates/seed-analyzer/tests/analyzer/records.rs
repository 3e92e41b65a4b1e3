use crate::episode;
use proptest::prelude::*;
use seed_analyzer::Skill;
use seed_analyzer::records::{self, RecordFilter, SkillRecord, SplitBy};
use std::collections::HashSet;

fn record(task: &str, rollout: usize, success: bool) -> SkillRecord {
    let mut source = episode("alfworld", "a task", &[("o", "r", "a")], "end", success);
    source.task.id = task.into();
    let skill = Skill { episode_skill: format!("lesson {rollout}"), ..Skill::default() };
    SkillRecord::new(&source, rollout, format!("prompt {task} {rollout}"), Some(&skill))
}

#[test]
fn fields_of_a_record() {
    let record = record("train/x", 3, true);
    assert_eq!(record.skill_id, "train/x:3");
    assert_eq!(record.response, r#"{"episode_skill": "lesson 3"}"#);
    assert!(record.source_success && record.parse_ok);
    assert_eq!((record.source_num_steps, record.task_type.as_str()), (1, "pick"));
    let source = episode("alfworld", "a task", &[("o", "r", "a")], "end", false);
    assert!(!SkillRecord::new(&source, 0, String::new(), None).parse_ok);
    assert!(!SkillRecord::new(&source, 0, String::new(), Some(&Skill::default())).parse_ok);
}

#[test]
fn filters_count_what_they_drop() {
    let mut unparsed = record("a", 9, true);
    unparsed.parse_ok = false;
    let records = vec![
        record("a", 0, false),
        record("a", 1, false),
        unparsed,
        record("a", 0, true),
        record("b", 0, true),
        record("b", 1, true),
    ];
    let filter = RecordFilter { max_zero_score_failures: Some(1), max_records: Some(2) };
    let (kept, dropped) = filter.apply(records.clone());
    let ids: Vec<&str> = kept.iter().map(|record| record.skill_id.as_str()).collect();
    assert_eq!(ids, ["a:0", "b:0"]);
    assert_eq!((dropped.unparsed, dropped.repeated), (1, 1));
    assert_eq!((dropped.zero_score_failures, dropped.over_limit), (1, 1));
    assert_eq!(RecordFilter::default().apply(records).0.len(), 4);
}

#[test]
fn a_file_with_bad_lines_gives_the_good_ones() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let path = folder.path().join("records.jsonl");
    let records = vec![record("a", 0, true), record("b", 1, false)];
    records::write(&path, &records).expect("written");
    assert_eq!(records::read(&path).expect("read"), (records.clone(), vec![]));
    assert!(!folder.path().join("records.jsonl.partial").exists());

    let mut bytes = std::fs::read(&path).expect("read");
    bytes.extend(b"\n{\"prompt\": 3}\nnot json\n\xff\xfe\n");
    bytes.extend(serde_json::to_vec(&records[0]).expect("JSON"));
    std::fs::write(&path, bytes).expect("written");
    let (good, bad) = records::read(&path).expect("read");
    assert_eq!(good, [records[0].clone(), records[1].clone(), records[0].clone()]);
    assert_eq!(bad.iter().map(|bad| bad.line).collect::<Vec<_>>(), [4, 5, 6]);
    assert!(bad[0].problem.contains("string"), "{}", bad[0].problem);

    let error = records::read(&folder.path().join("none.jsonl")).expect_err("missing").to_string();
    assert!(error.contains("none.jsonl"), "{error}");
    let error = records::write(&folder.path().join("no/such/folder.jsonl"), &records).expect_err("no folder");
    assert!(error.to_string().contains("cannot write"), "{error}");
}

proptest! {
    #[test]
    fn splits_are_partitions(
        sizes in proptest::collection::vec(1_usize..5, 0..12),
        share in 0.0_f64..=1.0,
        seed: u64,
        by_task: bool,
    ) {
        let by = if by_task { SplitBy::Task } else { SplitBy::Record };
        let records: Vec<SkillRecord> = sizes.iter().enumerate()
            .flat_map(|(task, size)| (0..*size).map(move |rollout| record(&format!("task {task}"), rollout, true)))
            .collect();
        let (train, validation) = records::split(records.clone(), by, share, seed);
        prop_assert_eq!(train.len() + validation.len(), records.len());
        let ids: HashSet<&str> = train.iter().chain(&validation).map(|record| record.skill_id.as_str()).collect();
        prop_assert_eq!(ids.len(), records.len());
        if by_task {
            let tasks: HashSet<&str> = train.iter().map(|record| record.task_id.as_str()).collect();
            prop_assert!(validation.iter().all(|record| !tasks.contains(record.task_id.as_str())));
        }
        let units = if by_task { sizes.len() } else { records.len() };
        if share > 0.0 && share < 1.0 && units > 1 {
            prop_assert!(!train.is_empty() && !validation.is_empty());
        }
        if share == 0.0 {
            prop_assert!(validation.is_empty());
        }
        // The order of the records does not matter to who goes where.
        let mut backwards = records.clone();
        backwards.reverse();
        let (_, again) = records::split(backwards, by, share, seed);
        let set = |records: &[SkillRecord]| records.iter().map(|record| record.skill_id.clone()).collect::<HashSet<_>>();
        prop_assert_eq!(set(&again), set(&validation));
        // By record the share is met to one record.
        if !by_task && share < 1.0 && units > 1 {
            let wanted = records.len() as f64 * share;
            prop_assert!((validation.len() as f64 - wanted).abs() <= 1.0, "{} of {wanted}", validation.len());
        }
    }

    #[test]
    fn records_survive_their_file(prompt in ".{0,60}", success: bool, eighths in -80_i32..80) {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let path = folder.path().join("records.jsonl");
        let mut record = record("a", 0, success);
        record.prompt = prompt;
        record.source_score = f64::from(eighths) / 8.0;
        records::write(&path, &[record.clone()]).expect("written");
        prop_assert_eq!(records::read(&path).expect("read").0, vec![record]);
    }
}
