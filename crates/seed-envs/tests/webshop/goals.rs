//! Goal lists, prices and the ceiling.

use crate::shared::{as_read, data, json, shop, strings, text};
use seed_envs::webshop::Shop;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// `repr` of the numbers that occur: caps, and weights as shortest decimals.
fn python_float(value: f64) -> String {
    let plain = format!("{value:?}");
    match plain.split_once('e') {
        Some((digits, exponent)) => {
            let exponent: i32 = exponent.parse().expect("a number");
            format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
        }
        None => plain,
    }
}

fn row(shop: &Shop, number: usize) -> String {
    let goal = shop.goal(number);
    let cap = if goal.price_cap() < 1e6 { python_float(goal.price_cap()) } else { "1000000".into() };
    let weight = if goal.is_human() { "1".into() } else { python_float(goal.weight()) };
    format!("{number}\t{}\t{cap}\t{weight}\t{}", goal.product().asin(), goal.instruction())
}

fn check(name: &str) -> usize {
    let expected = json(name);
    let seed = expected["rng_seed_before_load"].as_i64().expect("a seed");
    let (shop, mut random) = shop(
        text(&expected, "dataset"),
        expected["num_products"].as_u64().map(|count| count as usize),
        expected["human_goals"] == true,
        false,
        i128::from(seed),
        i128::from(expected["shuffle_seed"].as_i64().expect("a seed")),
    );
    assert_eq!(Some(shop.goals() as u64), expected["count"].as_u64(), "{name}");
    assert_eq!(Some(shop.catalogue().len() as u64), expected["products"].as_u64(), "{name}");
    for (asin, price) in expected["prices_of_ranged"].as_object().expect("prices") {
        let product = shop.catalogue().find(asin).unwrap_or_else(|| panic!("{name}: no {asin}"));
        assert_eq!(as_read(shop.price(product.number)), *price, "{name}: {asin}");
    }
    let rows: Vec<String> = (0..shop.goals()).map(|number| row(&shop, number)).collect();
    for expected in strings(&expected["rows"]) {
        let number: usize =
            expected.split('\t').next().and_then(|number| number.parse().ok()).expect("a number");
        assert_eq!(rows[number], expected, "{name}");
    }
    let digest: String = Sha256::digest(rows.join("\n")).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digest, text(&expected, "sha256"), "{name}");
    assert_eq!(as_read(random.random()), expected["next_random_after_shuffle"], "{name}");
    for (number, expected) in expected["first"].as_array().expect("goals").iter().enumerate() {
        assert_eq!(shop.goal(number).attributes(), strings(&expected["attributes"]), "{name}: goal {number}");
    }
    rows.len()
}

#[test]
fn goal_lists() {
    let folder = std::fs::read_dir(data().join("golden")).expect("a folder");
    let names: Vec<String> = folder
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("goals_"))
        .collect();
    assert!(names.len() >= 13, "{names:?}");
    let goals: usize = names.iter().map(|name| check(&format!("golden/{name}"))).sum();
    assert!(goals > 20_000, "{goals}");
}

#[test]
fn the_ceiling_is_the_recorded_one() {
    for dataset in ["real1k", "edge"] {
        for expected in json(&format!("golden/{dataset}_best_case.json")).as_array().expect("a list") {
            let human = text(expected, "goals") == "hum";
            let (shop, _) = shop(dataset, None, human, false, 0, 233);
            let ceiling = shop.ceiling();
            assert_eq!(Some(ceiling.goals as u64), expected["count"].as_u64());
            let ours: Vec<(usize, i64)> =
                ceiling.below_one.iter().map(|&(goal, score)| (goal, (score * 1e6).round() as i64)).collect();
            let theirs: Vec<(usize, i64)> = expected["list"]
                .as_array()
                .expect("a list")
                .iter()
                .map(|pair: &Value| {
                    let score = pair[1].as_f64().expect("a score");
                    (pair[0].as_u64().expect("an index") as usize, (score * 1e6).round() as i64)
                })
                .collect();
            assert_eq!(ours, theirs, "{dataset}, human {human}");
        }
    }
}
