//! Every recorded episode, step by step and byte by byte.

use crate::shared::{as_read, lines, shop, strings, text};
use seed_envs::webshop::page::TextMode;
use seed_envs::webshop::session::Session;
use seed_envs::webshop::shop::OFFICIAL_SHUFFLE;
use seed_envs::webshop::text_env::{Dialect, SessionName, TextEnvironment, TextOptions};
use seed_envs::webshop::{Goal, GoalOptions};
use serde_json::{Value, json};

fn count(value: &Value, key: &str) -> usize {
    value[key].as_u64().unwrap_or_default() as usize
}

/// A goal as the recordings write it.
fn goal_of(goal: &Goal<'_>) -> Value {
    let product = goal.product();
    let catalogue = product.catalogue();
    let cap = if goal.price_cap() < 1e6 { json!(goal.price_cap()) } else { json!(1_000_000) };
    json!({
        "asin": product.asin(),
        "category": catalogue.word(product.category()),
        "query": catalogue.word(product.query()),
        "name": product.name(),
        "product_category": catalogue.word(product.product_category()),
        "instruction_text": goal.instruction(),
        "attributes": goal.attributes(),
        "price_upper": cap,
        "goal_options": match goal.options() {
            GoalOptions::Human(options) => json!(options),
            GoalOptions::Synthetic(pairs) => pairs.into_iter().map(|(k, v)| (k.to_owned(), json!(v))).collect(),
        },
        "weight": if goal.is_human() { json!(1) } else { json!(goal.weight()) },
    })
}

#[track_caller]
fn compare_page(session: &Session, page: &Value, place: &str) {
    assert_eq!(session.address(), text(page, "url"), "{place}: address");
    assert_eq!(session.text(TextMode::Rich), text(page, "obs_rich"), "{place}: rich text");
    assert_eq!(session.clickables(), strings(&page["available"]["clickables"]), "{place}: clickables");
    assert_eq!(Some(session.has_search_bar()), page["available"]["has_search_bar"].as_bool(), "{place}");
}

/// Replays a file and returns how many episodes and steps it had.
fn replay(config: &str) -> (usize, usize) {
    let episodes = lines(&format!("transcripts/{config}.jsonl"));
    let first = &episodes[0];
    let env = &first["env"];
    let verl = text(first, "variant") == "verl";
    let env_seed = i128::from(env["seed"].as_i64().unwrap_or_default());
    let (seed, shuffle) = if verl {
        (env_seed, env_seed)
    } else {
        (i128::from(count(first, "ctor_rng_seed") as u64), OFFICIAL_SHUFFLE)
    };
    let (shop, random) = shop(
        text(first, "dataset"),
        env["num_products"].as_u64().map(|count| count as usize),
        env["human_goals"] == true,
        env["show_attrs"] == true,
        seed,
        shuffle,
    );
    let options = TextOptions {
        dialect: if verl { Dialect::VerlAgent } else { Dialect::Official },
        mode: TextMode::Text,
        num_prev_obs: count(env, "num_prev_obs"),
        num_prev_actions: count(env, "num_prev_actions"),
        session_prefix: env["session_prefix"].as_str().unwrap_or_default().to_owned(),
    };
    let mut steps = 0;
    for episode in &episodes {
        assert_eq!(episode["env"], *env, "one construction for a file");
        let id = text(episode, "id");
        let mut environment = TextEnvironment::new(shop.clone(), options.clone(), random.clone());
        if let Some(seed) = episode["reset_rng_seed"].as_i64() {
            environment.seed(i128::from(seed));
        }
        let name = match &episode["session"] {
            Value::Null => SessionName::Random,
            Value::String(name) => SessionName::Named(name),
            number => SessionName::Goal(number.as_u64().expect("a number") as usize),
        };
        let (name, observation) = environment.reset(name).unwrap_or_else(|error| panic!("{id}: {error}"));
        let place = format!("{id}, reset");
        assert_eq!(name, text(episode, "session_id"), "{place}");
        assert_eq!(observation, text(&episode["reset"], "obs"), "{place}");
        compare_page(environment.session(), &episode["reset"], &place);
        let session = environment.session();
        assert_eq!(session.heading(), text(&episode["reset"], "instruction_text"), "{place}");
        assert_eq!(as_read(goal_of(&shop.goal(session.goal()))), episode["goal"], "{place}: goal");
        for (number, step) in episode["steps"].as_array().expect("steps").iter().enumerate() {
            let place = format!("{id}, step {}, {}", number + 1, step["action"]);
            let answer = environment.step(text(step, "action"));
            assert_eq!(as_read(answer.reward).as_f64(), step["reward"].as_f64(), "{place}: reward");
            assert_eq!(Some(answer.done), step["done"].as_bool(), "{place}: done");
            let breakdown = answer.breakdown.map(|reward| as_read(reward.details()));
            assert_eq!(breakdown.as_ref(), step.get("reward_info"), "{place}: breakdown");
            steps += 1;
            if verl && answer.done {
                // What follows belongs to a random session of the recording.
                break;
            }
            assert_eq!(answer.observation, text(step, "obs"), "{place}: text");
            compare_page(environment.session(), step, &place);
        }
    }
    (episodes.len(), steps)
}

#[test]
fn real_synthetic_goals() {
    assert!(replay("real-syn").1 > 400);
}

#[test]
fn real_human_goals() {
    assert!(replay("real-hum").1 > 80);
}

#[test]
fn the_first_hundred_products() {
    assert!(replay("real-n100").1 > 70);
}

#[test]
fn history_prefix_and_named_sessions() {
    assert!(replay("real-prev").1 > 20);
}

#[test]
fn verl_agent_on_real_products() {
    assert!(replay("real-verl0").1 > 200);
    assert!(replay("real-verl1000").1 > 80);
}

#[test]
fn edge_cases() {
    assert!(replay("edge-hum").1 > 500);
    assert!(replay("edge-syn").1 > 180);
    assert!(replay("edge-verl42").1 > 65);
}
