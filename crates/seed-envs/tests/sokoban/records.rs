//! Every recorded draw, room and step.

use crate::shared::{cell, codes, data, digits, fixed, json, lines, number, room, setting, sha256};
use seed_envs::pyrandom::{NumpyRandomState, PythonRandom, string_hash};
use seed_envs::sokoban::generate::retry_seed;
use seed_envs::sokoban::suite::validation_seeds;
use seed_envs::sokoban::{Game, Move, Solution, Tiles, solve};
use serde_json::{Value, json};

/// Equal but for the last bit, which the reader of JSON may round the other way.
fn close(drawn: f64, recorded: &Value) -> bool {
    recorded.as_f64().is_some_and(|recorded| (drawn - recorded).abs() <= f64::EPSILON)
}

#[test]
fn draws_of_both_generators_and_retry_seeds() {
    let file = json("rng_primitives.json");
    let mut checked = 0;
    for record in file["primitives"].as_array().expect("a list") {
        let seed = number(&record["seed"]);
        let mut python = PythonRandom::from_int(seed as i128);
        let mut numpy = NumpyRandomState::new(seed as u32);
        let list = |key: &str| record[key].as_array().unwrap_or_else(|| panic!("no list {key}")).clone();
        for value in list("py_random") {
            assert!(close(python.random(), &value), "seed {seed}: {value}");
        }
        for value in list("py_getrandbits32") {
            assert_eq!(json!(python.getrandbits(32)), value, "seed {seed}");
        }
        for value in list("py_sample1_of_5") {
            assert_eq!(json!(python.below(5)), value, "seed {seed}");
        }
        for value in list("py_randint_1_5") {
            assert_eq!(json!(python.randint(1, 5)), value, "seed {seed}");
        }
        for value in list("py_choice_of_4") {
            assert_eq!(json!(python.below(4)), value, "seed {seed}");
        }
        for pair in list("np_randint_n") {
            assert_eq!(json!(numpy.choice(number(&pair[0]))), pair[1], "seed {seed}");
        }
        assert_eq!(json!(string_hash(&seed.to_string(), 0)), record["str_hash_seed0"], "seed {seed}");
        assert_eq!(json!(retry_seed(seed as u32, 0)), record["retry_seed"], "seed {seed}");
        checked += 1;
    }
    assert!(checked > 0);
    for batch in file["batch_reset_seeds"].as_array().expect("a list") {
        let base = number(&batch["np_seed"]) as u32;
        let mut random = NumpyRandomState::new(base);
        for seed in batch["first_train_seeds"].as_array().expect("a list") {
            assert_eq!(json!(random.randint(0, 65_535)), *seed, "batch of {base}");
        }
        let recorded = &batch["first_val_seeds"];
        let count = recorded.as_array().expect("a list").len();
        assert_eq!(json!(validation_seeds(base.wrapping_sub(1000), count)), *recorded, "batch of {base}");
    }
}

#[test]
fn recorded_draws_of_whole_resets() {
    // The generator's draws are not shown outside; the rooms that they lead to are compared instead, and here the
    // recorded order is drawn again.
    for trace in json("rng_traces.json").as_array().expect("a list") {
        let seed = number(&trace["seed"]);
        let mut python = PythonRandom::from_int(seed as i128);
        let mut numpy = NumpyRandomState::new(seed as u32);
        for draw in trace["draws"].as_array().expect("draws") {
            let bound = |place: usize| draw[place].as_i64().expect("a number");
            let recorded = draw.as_array().and_then(|draw| draw.last()).expect("a value");
            let drawn = match draw[0].as_str().expect("a name") {
                "py.random" => {
                    assert!(close(python.random(), recorded), "{draw} of seed {seed}");
                    continue;
                }
                "py.sample1" | "py.choice" => json!(python.below(bound(1) as u64)),
                "py.randint" => json!(python.randint(bound(1), bound(2))),
                "np.randint" => json!(numpy.choice(bound(1) as usize)),
                other => panic!("unknown draw {other}"),
            };
            assert_eq!(drawn, *recorded, "{draw} of seed {seed}");
        }
    }
}

#[track_caller]
fn check_room(record: &Value) {
    let (config, _) = setting(record["cfg"].as_str().expect("a name"));
    let seed = number(&record["seed"]) as u32;
    let made = config.generate(seed).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let place = format!("{} seed {seed}", record["cfg"]);
    assert_eq!(json!(made.seeds), record["seed_chain"], "{place}");
    assert_eq!(fixed(&made.room), digits(&record["fixed"]), "{place}");
    assert_eq!(codes(&made.room), digits(&record["state"]), "{place}");
    let columns = config.columns;
    assert_eq!(made.room.player(), cell(&record["player"], columns), "{place}");
    let pulled = record["box_mapping"].as_array().expect("a list");
    let pulled: Vec<(usize, usize)> =
        pulled.iter().map(|pair| (cell(&pair[0], columns), cell(&pair[1], columns))).collect();
    assert_eq!(made.pulled, pulled, "{place}");
}

#[test]
fn rooms() {
    let records = lines("rooms.jsonl");
    records.iter().for_each(check_room);
    assert!(records.len() > 100, "{} rooms", records.len());
}

#[test]
fn episodes() {
    let tiles = Tiles::read(&data().join("tiles.png")).expect("tiles");
    let mut steps = 0;
    for record in lines("episodes.jsonl") {
        check_room(&record);
        let id = record["id"].as_str().expect("an id");
        let (_, limit) = setting(record["cfg"].as_str().expect("a name"));
        let start = room(&record);
        let Solution::Plan(plan) = solve(&start) else { panic!("{id}: no plan") };
        assert_eq!(json!(plan.len()), record["shortest"], "{id}: shortest plan");
        assert_eq!(start.text(), record["text"].as_str().expect("a text"), "{id}");
        assert_eq!(json!(start.lines()), record["lines"], "{id}");
        assert_eq!(sha256(&tiles.frame(&start).rgb), record["rgb"].as_str().expect("a hash"), "{id}");
        let mut game = Game::new(start, limit);
        for (number, step) in record["steps"].as_array().expect("steps").iter().enumerate() {
            let place = format!("{id}, step {}", number + 1);
            let action = step["a"].as_u64().expect("an action") as usize;
            let turn = game.step(action.checked_sub(1).map(|index| Move::ALL[index]));
            assert_eq!(json!(turn.reward), step["reward"], "{place}");
            assert_eq!(json!(turn.done), step["done"], "{place}");
            assert_eq!(json!(turn.effective), step["effective"], "{place}");
            assert_eq!(json!(turn.won), step["won"], "{place}");
            assert_eq!(json!(game.steps()), step["env_steps"], "{place}");
            assert_eq!(codes(game.room()), digits(&step["state"]), "{place}");
            assert_eq!(game.room().player(), cell(&step["player"], game.room().columns()), "{place}");
            assert_eq!(json!(game.room().on_target()), step["on_target"], "{place}");
            assert_eq!(game.room().text(), step["text"].as_str().expect("a text"), "{place}");
            let frame = tiles.frame(game.room());
            assert_eq!(sha256(&frame.rgb), step["rgb"].as_str().expect("a hash"), "{place}");
            steps += 1;
        }
    }
    assert!(steps > 500, "{steps} steps");
}
