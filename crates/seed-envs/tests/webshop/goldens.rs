//! The parts one by one: products, tokens, rankings, likeness, colours, rewards.

use crate::shared::{as_read, catalogue, lines, shop, strings, text};
use seed_envs::webshop::fuzzy::{ALIKE, alike, token_set_ratio};
use seed_envs::webshop::reward::reduce_colour;
use seed_envs::webshop::search::Analyzer;
use serde_json::{Value, json};

const DATASETS: [&str; 2] = ["real1k", "edge"];

#[test]
fn products() {
    for dataset in DATASETS {
        let catalogue = catalogue(dataset, None);
        for expected in lines(&format!("golden/{dataset}_products_processed.jsonl")) {
            let asin = text(&expected, "asin");
            let product = catalogue.find(asin).unwrap_or_else(|| panic!("no {asin}"));
            let (low, high) = product.prices();
            let options = product.options().map(|option| {
                (catalogue.word(option.name).to_owned(), json!(option.values.texts().collect::<Vec<_>>()))
            });
            let ours = json!({
                "asin": product.asin(),
                "category": catalogue.word(product.category()),
                "query": catalogue.word(product.query()),
                "product_category": catalogue.word(product.product_category()),
                "Title": product.name(),
                "BulletPoints": product.bullets().collect::<Vec<_>>(),
                "pricing": (Some(low).into_iter().chain(high).collect::<Vec<_>>()),
                "Price": product.price_tag(),
                "options": Value::Object(options.collect()),
                "Attributes": product.attributes().texts().collect::<Vec<_>>(),
                "MainImage": product.image(),
            });
            for (field, value) in expected.as_object().expect("an object") {
                assert_eq!(as_read(ours[field].clone()).to_string(), value.to_string(), "{asin} {field}");
            }
        }
    }
}

#[test]
fn tokens() {
    let mut analyzer = Analyzer::default();
    for dataset in DATASETS {
        let all = lines(&format!("golden/{dataset}_tokens.jsonl"));
        assert!(all.len() > 200);
        for line in all {
            let source = text(&line, "text");
            assert_eq!(analyzer.analyze(source), strings(&line["tokens"]), "{source}");
        }
    }
}

#[test]
fn rankings() {
    for dataset in DATASETS {
        let catalogue = catalogue(dataset, None);
        let all = lines(&format!("golden/{dataset}_search.jsonl"));
        assert!(all.len() > 300);
        for line in all {
            let query = text(&line, "query");
            let hits = catalogue.search(query, 50).expect("a short query");
            let ours: Vec<&str> = hits.iter().map(|hit| catalogue.product(hit.document).asin()).collect();
            assert_eq!(ours, strings(&line["ids"]), "{query}");
            for (hit, score) in hits.iter().zip(line["scores"].as_array().expect("scores")) {
                let expected = score.as_f64().expect("a number");
                // Equal scores were pulled apart, and all were rounded.
                assert!((f64::from(hit.score) - expected).abs() < 2e-4, "{query}: {} {expected}", hit.score);
            }
        }
    }
}

#[test]
fn likeness_and_colours() {
    for dataset in DATASETS {
        for line in lines(&format!("golden/{dataset}_fuzz.jsonl")) {
            let (one, two) = (line[0].as_str().expect("a text"), line[1].as_str().expect("a text"));
            let ratio = token_set_ratio(one, two);
            assert_eq!(Some(u64::from(ratio)), line[2].as_u64(), "{one:?} {two:?}");
            assert_eq!(alike(one, two), ratio > ALIKE, "{one:?} {two:?}");
        }
        for line in lines(&format!("golden/{dataset}_colors.jsonl")) {
            let option = line[0].as_str().expect("a text");
            assert_eq!(Some(reduce_colour(option)), line[1].as_str(), "{option}");
        }
    }
}

#[test]
fn purchases() {
    for dataset in DATASETS {
        let shops = [("syn", false), ("hum", true)]
            .map(|(name, human)| (name, shop(dataset, None, human, false, 0, 233).0));
        let all = lines(&format!("golden/{dataset}_rewards.jsonl"));
        assert!(all.len() > 300);
        for line in all {
            let shop = &shops.iter().find(|(name, _)| *name == text(&line, "goals")).expect("a list").1;
            let goal = line["goal_index"].as_u64().expect("an index") as usize;
            assert_eq!(shop.goal(goal).product().asin(), text(&line, "goal_asin"));
            let product = shop.catalogue().find(text(&line, "asin")).expect("a product").number;
            assert_eq!(as_read(shop.price(product)), line["price"]);
            let chosen: Vec<&str> = line["options"]
                .as_object()
                .expect("options")
                .values()
                .map(|value| value.as_str().expect("a text"))
                .collect();
            let reward = shop.reward(goal, product, &chosen);
            assert_eq!(as_read(reward.total), line["reward"], "{line}");
            assert_eq!(as_read(reward.details()), line["info"], "{line}");
        }
    }
}
