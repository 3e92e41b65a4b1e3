//! Suites over real data: both layouts, the batch layer's rules, the order of games, the whole data set.

use crate::shared::{data, strings, text, transcript};
use seed_envs::alfworld::{AlfWorld, AlfWorldOptions, GameOrder};
use seed_envs::conformance::{Conformance, check};
use seed_envs::runner::Runner;
use seed_envs::{EnvError, Suite, Task};
use std::collections::BTreeMap;

fn folders() -> AlfWorld {
    AlfWorld::open(data().join("games/2.1.2"), AlfWorldOptions::default()).expect("games")
}

fn compact() -> AlfWorld {
    AlfWorld::open(data(), AlfWorldOptions::default()).expect("games")
}

#[test]
fn folder_layout_conforms() {
    let suite = folders();
    let report = check(&suite, &Conformance { tasks_per_split: 4, max_steps: 50, ..Conformance::default() })
        .unwrap_or_else(|violation| panic!("{violation}"));
    println!("{report}");
    assert_eq!(report.tasks, 36);
}

#[test]
fn gym_layer() {
    let suite = folders();
    for walk in transcript("gym.jsonl") {
        let id = text(&walk, "game");
        let id = id.strip_prefix("2.1.2/").expect("form 2.1.2");
        let split = id.split('/').next().expect("a split");
        let task =
            suite.tasks(split).expect("tasks").iter().find(|task| task.id == id).expect("a task").clone();
        let mut environment = suite.environment();
        let first = environment.reset(&task, 0).expect("a game");
        assert_eq!(first.text, text(&walk["start"], "obs"));
        let mut admissible = strings(&walk["start"]["admissible"]).expect("commands");
        let mut over = false;
        for (number, step) in walk["steps"].as_array().expect("steps").iter().enumerate() {
            let place = format!("{id}, step {}", number + 1);
            let ours = environment.step(text(step, "action")).expect("a step");
            assert_eq!(ours.observation.text, text(step, "obs"), "{place}");
            admissible = strings(&step["admissible"]).unwrap_or(admissible);
            assert_eq!(ours.observation.admissible.as_deref(), Some(&admissible[..]), "{place}");
            assert_eq!(Some(ours.is_last()), step["done"].as_bool(), "{place}");
            assert_eq!(Some(ours.info.won), step["won"].as_bool(), "{place}");
            assert_eq!(Some(ours.info.score), step["score"].as_f64(), "{place}");
            assert_eq!(ours.reward, if ours.info.won && !over { 10.0 } else { 0.0 }, "{place}");
            over = ours.is_last();
        }
    }
}

#[test]
fn games_are_played_in_the_official_order() {
    for line in transcript("game_order.jsonl") {
        let (games, seed) = (line["n"].as_u64().expect("n"), line["seed"].as_u64().expect("a seed"));
        let recorded: Vec<usize> = line["order"]
            .as_array()
            .expect("an order")
            .iter()
            .map(|index| index.as_u64().expect("an index") as usize)
            .collect();
        let ours: Vec<usize> = GameOrder::new(games as usize, seed as u32).take(recorded.len()).collect();
        assert_eq!(ours, recorded, "n {games}, seed {seed}");
    }
}

/// Plays a task with the plan of the expert and returns its length.
fn win(suite: &AlfWorld, task: &Task) -> usize {
    let mut state = suite.game(task).unwrap_or_else(|error| panic!("{error}")).start();
    let plan = state.plan().unwrap_or_else(|error| panic!("{}: {error}", task.id));
    assert!(plan.shortest, "{}", task.id);
    for command in &plan.commands {
        assert!(state.step(command).accepted, "{}: {command}", task.id);
    }
    assert!(state.won(), "{}", task.id);
    plan.commands.len()
}

#[test]
fn every_validation_game_is_won() {
    let suite = compact();
    for (split, games) in [("valid_seen", 140), ("valid_unseen", 134), ("valid_train", 199)] {
        let tasks = suite.tasks(split).expect("tasks");
        assert_eq!(tasks.len(), games);
        let report = suite.report(split).expect("a report");
        assert!(report.broken.is_empty(), "{:?}", report.broken);
        assert!(tasks.iter().all(|task| win(&suite, task) <= 50));
    }
}

/// The whole data set; `cargo test --release -- --ignored` prints plan lengths by type.
#[test]
#[ignore = "compiles and solves 3,553 games: half a minute"]
fn every_training_game_is_won() {
    let suite = compact();
    let tasks = suite.tasks("train").expect("tasks");
    assert_eq!(tasks.len(), 3553);
    let mut lengths: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for task in tasks.iter() {
        lengths.entry(&task.kind).or_default().push(win(&suite, task));
    }
    for (kind, lengths) in lengths {
        let (count, sum) = (lengths.len(), lengths.iter().sum::<usize>());
        let (min, max) = (lengths.iter().min(), lengths.iter().max());
        println!("{kind}: {count} games, plan length {min:?} / {:.2} / {max:?}", sum as f64 / count as f64);
        assert!(lengths.iter().all(|&length| length <= 50));
    }
}

#[test]
fn both_layouts_give_the_same_games() {
    let (folders, compact) = (folders(), compact());
    for task in folders.tasks("valid_unseen").expect("tasks").iter() {
        let (one, two) = (folders.game(task).expect("a game"), compact.game(task).expect("a game"));
        assert_eq!(one.start().introduction(), two.start().introduction());
        assert_eq!(one.start().admissible(), two.start().admissible());
        assert_eq!(folders.task_description(task), compact.task_description(task));
        assert_eq!(
            folders.parameters(task).expect("parameters"),
            compact.parameters(task).expect("parameters")
        );
    }
}

#[test]
fn broken_files_are_named_and_the_rest_loads() {
    let root = tempfile::tempdir().expect("a folder");
    let games = data().join("games/2.1.2/valid_seen");
    let copy = |task: &str, trial: &str, change: &dyn Fn(String) -> String| {
        let source = std::fs::read_dir(&games)
            .expect("tasks")
            .flatten()
            .find(|entry| entry.file_name().to_string_lossy().starts_with("pick_heat"))
            .expect("a task");
        let source =
            std::fs::read_dir(source.path()).expect("trials").flatten().next().expect("a trial").path();
        let target = root.path().join("json_2.1.1/valid_seen").join(task).join(trial);
        std::fs::create_dir_all(&target).expect("a folder");
        for name in ["game.tw-pddl", "traj_data.json"] {
            let text = std::fs::read_to_string(source.join(name)).expect("a file");
            let text = if name == "game.tw-pddl" { change(text) } else { text };
            std::fs::write(target.join(name), text).expect("a file");
        }
    };
    copy("pick_heat-A-None-B-1", "good", &|text| text);
    copy("pick_heat-A-None-B-1", "truncated", &|text| text[..text.len() / 2].to_owned());
    copy("pick_heat-A-None-B-1", "predicate", &|text| text.replace("(:init", "(:init (flies agent1)"));
    copy("pick_heat-A-None-B-1", "unsolvable", &|text| {
        text.replace("\"solvable\": true", "\"solvable\": false")
    });
    copy("pick_heat-ASliced-None-B-1", "sliced", &|_| String::new());
    copy("pick_heat-Z-None-B-1", "bytes", &|text| text);
    copy("pick_heat-Z-None-B-1", "bare", &|text| text);
    copy("pick_heat-Z-None-B-1", "empty", &|_| String::new());
    copy("pick_heat-Z-None-B-1", "nested", &|_| "[".repeat(1 << 20));
    copy("pick_heat-Z-None-B-1", "types", &|_| {
        r#"{"pddl_domain": 1, "grammar": [], "pddl_problem": null}"#.to_owned()
    });
    let bad = root.path().join("json_2.1.1/valid_seen/pick_heat-Z-None-B-1");
    std::fs::write(bad.join("bytes/game.tw-pddl"), b"{\n\"grammar\": \"\xff\"}").expect("a file");
    std::fs::remove_file(bad.join("bare/traj_data.json")).expect("a file");
    std::fs::create_dir_all(bad.join("folder/game.tw-pddl")).expect("a folder");
    // ALFRED's own data has the same splits and a later name, but no games.
    std::fs::create_dir_all(root.path().join("json_feat_2.1.0/train/pick-1/trial_1")).expect("a folder");
    let suite = AlfWorld::open(root.path(), AlfWorldOptions::default()).expect("data");
    assert_eq!(suite.splits(), ["valid_seen"]);
    let tasks = suite.tasks("valid_seen").expect("tasks");
    assert_eq!(
        tasks.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(),
        ["valid_seen/pick_heat-A-None-B-1/good"]
    );
    let report = suite.report("valid_seen").expect("a report");
    assert_eq!((report.games, report.unsolvable, report.broken.len()), (1, 1, 8), "{:?}", report.broken);
    for (number, expected) in [
        "bare/traj_data.json: cannot read: ",
        "bytes/game.tw-pddl:2: found byte 0xff at offset 14, expected UTF-8",
        "empty/game.tw-pddl:1:0",
        "folder/game.tw-pddl: found a folder",
        "nested/game.tw-pddl:1:",
        "types/game.tw-pddl:1:",
    ]
    .iter()
    .enumerate()
    {
        let message = &report.broken[number + 2];
        assert!(message.contains(expected), "{expected}: {message}");
    }
    assert!(report.broken[0].contains("predicate/game.tw-pddl pddl_problem line "), "{}", report.broken[0]);
    assert!(report.broken[0].contains("`flies`"), "{}", report.broken[0]);
    assert!(report.broken[1].contains("truncated/game.tw-pddl:"), "{}", report.broken[1]);
}

#[test]
fn wrong_names_say_what_there_is() {
    let options =
        AlfWorldOptions { task_types: vec!["pick_and_plaice".into()], ..AlfWorldOptions::default() };
    let suite = AlfWorld::open(data().join("games/2.1.2"), options).expect("games");
    let error = suite.tasks("train").expect_err("no such type").to_string();
    assert!(error.contains("pick_and_plaice") && error.contains("pick_and_place_simple"), "{error}");
    let error = folders().tasks("tests").expect_err("no such split").to_string();
    assert!(error.contains("`tests`") && error.contains("valid_seen"), "{error}");
}

#[test]
fn missing_data_says_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = AlfWorld::open(folder.path(), AlfWorldOptions::default()).expect_err("no data");
    assert!(error.to_string().contains("ALFWORLD_DATA"), "{error}");
    let error =
        AlfWorld::open(folder.path().join("nowhere"), AlfWorldOptions::default()).expect_err("no folder");
    assert!(matches!(error, EnvError::Read { .. }));
}

#[test]
fn parallel_play_equals_play_alone() {
    let suite = folders();
    let tasks = suite.tasks("train").expect("tasks");
    let mut runner = Runner::new(&suite, 24);
    let episodes: Vec<(usize, &Task, u64)> =
        (0..24).map(|slot| (slot, &tasks[slot % tasks.len()], 0)).collect();
    let mut lists: Vec<Vec<String>> = runner
        .reset(&episodes)
        .into_iter()
        .map(|(_, observation)| observation.expect("a game").admissible.expect("commands").to_vec())
        .collect();
    let mut alone: Vec<_> = episodes
        .iter()
        .map(|(_, task, _)| {
            let mut environment = suite.environment();
            environment.reset(task, 0).expect("a game");
            environment
        })
        .collect();
    let mut number = 0;
    while !runner.running().is_empty() {
        // Every slot takes another way; every third one stops early with a long silence.
        let actions: Vec<(usize, String)> = runner
            .running()
            .into_iter()
            .map(|slot| (slot, lists[slot][(number * 7 + slot * 3) % lists[slot].len()].clone()))
            .collect();
        for ((slot, step), (_, action)) in runner.step(&actions).into_iter().zip(&actions) {
            let step = step.expect("a step");
            assert_eq!(step, alone[slot].step(action).expect("a step"));
            lists[slot] = step.observation.admissible.expect("commands").to_vec();
        }
        number += 1;
    }
    assert!(number <= 50);
}

#[test]
fn randomised_names_keep_the_game() {
    let options = AlfWorldOptions { domain_randomization: true, ..AlfWorldOptions::default() };
    let suite = AlfWorld::open(data().join("games/2.1.2"), options).expect("games");
    let task = &suite.tasks("train").expect("tasks")[3];
    let mut environment = suite.environment();
    let (one, two) =
        (environment.reset(task, 1).expect("a game"), environment.reset(task, 2).expect("a game"));
    assert_ne!(one.text, two.text, "the order of the numbers differs");
    assert_eq!(one, environment.reset(task, 1).expect("a game"));
    let sorted = |text: &str| {
        let mut words: Vec<String> =
            text.split_whitespace().map(|word| word.replace(['.', ','], "")).collect();
        words.sort();
        words
    };
    assert_eq!(sorted(&one.text), sorted(&two.text), "the same things are there");
}

#[test]
fn a_file_that_is_cut_off_is_named() {
    let dir = tempfile::tempdir().expect("a scratch folder");
    let full = dir.path().join("full");
    std::fs::create_dir(&full).expect("a folder");
    std::os::unix::fs::symlink(data().join("logic"), dir.path().join("logic")).expect("a link");
    let whole = std::fs::read(data().join("full/valid_unseen.jsonl.xz")).expect("the split");
    for cut in [0, 1, whole.len() / 2] {
        std::fs::write(full.join("valid_unseen.jsonl.xz"), &whole[..cut]).expect("written");
        let suite = AlfWorld::open(dir.path(), AlfWorldOptions::default()).expect("a layout");
        let error = suite.tasks("valid_unseen").expect_err("no games").to_string();
        assert!(error.contains("valid_unseen.jsonl.xz"), "{cut}: {error}");
    }
}
