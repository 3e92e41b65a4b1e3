//! The suite: conformance, splits, the embedded shop, properties of search and reward.

use crate::shared::{catalogue, data, files, json};
use proptest::prelude::*;
use seed_envs::conformance::{Conformance, check};
use seed_envs::pyrandom::PythonRandom;
use seed_envs::webshop::session::{Effect, PER_PAGE, Session, View};
use seed_envs::webshop::text_env::Dialect;
use seed_envs::webshop::{
    GoalKind, IndexFile, PurchaseReward, Shop, TaskOrder, TextMode, VerlOrder, WebShop, WebShopOptions,
};
use seed_envs::{EnvError, Suite};
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

static EMBEDDED: LazyLock<WebShop> =
    LazyLock::new(|| WebShop::embedded(WebShopOptions::default()).expect("a shop"));

fn open(dataset: &str, options: WebShopOptions) -> WebShop {
    let options = WebShopOptions { index: IndexFile::Memory, ..options };
    WebShop::open(&files(dataset), options, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"))
}

fn conforms(suite: &WebShop) {
    let options = Conformance { max_steps: suite.options().max_steps, ..Conformance::default() };
    let report = check(suite, &options).unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.steps > 100, "{report}");
}

#[test]
fn the_embedded_shop_conforms() {
    conforms(&EMBEDDED);
    let human = WebShopOptions { goals: GoalKind::Human, mode: TextMode::Rich, ..WebShopOptions::default() };
    conforms(&WebShop::embedded(human).expect("a shop"));
}

#[test]
fn the_real_and_the_edge_catalogue_conform() {
    conforms(&open("real1k", WebShopOptions::default()));
    let options =
        WebShopOptions { goals: GoalKind::Human, show_attributes: true, ..WebShopOptions::default() };
    conforms(&open("edge", options));
}

#[test]
fn the_habit_of_verl_agent_conforms() {
    let order = TaskOrder::VerlAgent { seed: 0, workers: 2 };
    let suite =
        open("real1k", WebShopOptions { order, listing: Dialect::VerlAgent, ..WebShopOptions::default() });
    conforms(&suite);
    assert_eq!(suite.splits(), ["train", "test"]);
    assert_eq!(suite.tasks("train").expect("a split").len(), 2 * 6410);
}

#[test]
fn splits_share_no_goal_and_the_panel_is_fixed() {
    let suite = open("real1k", WebShopOptions::default());
    let goals = |split: &str| -> Vec<usize> {
        let tasks = suite.tasks(split).expect("a split");
        tasks.iter().map(|task| suite.place(task).expect("a task").1).collect()
    };
    assert_eq!(goals("test"), (0..500).collect::<Vec<_>>());
    assert_eq!(goals("train"), (500..6910).collect::<Vec<_>>());
    let panel = goals("panel");
    assert_eq!((panel.len(), &panel[..5]), (128, &[1, 3, 10, 14, 15][..]));
    assert_eq!(suite.reachable("test").expect("a split"), (480, 500));
    assert!((suite.ceiling().success_rate() - (1.0 - 458.0 / 6910.0)).abs() < 1e-12);
}

#[test]
fn the_embedded_shop_can_be_won_and_its_expert_wins() {
    let shop = EMBEDDED.shop();
    assert_eq!(shop.catalogue().len(), 600);
    assert!(shop.ceiling().below_one.is_empty(), "every goal can be fulfilled: {:?}", shop.ceiling());
    let human = WebShopOptions { goals: GoalKind::Human, ..WebShopOptions::default() };
    for suite in [EMBEDDED.clone(), WebShop::embedded(human).expect("a shop")] {
        for split in suite.splits() {
            let tasks = suite.tasks(&split).expect("a split");
            for task in tasks.iter().step_by(tasks.len() / 40 + 1) {
                let mut environment = suite.environment();
                environment.reset(task, 0).expect("a task");
                let mut last = None;
                while let Some(action) = environment.expert_action() {
                    last = Some(environment.step(&action).expect("a step"));
                }
                let last = last.expect("an action");
                assert!(last.info.won && last.reward == 10.0, "{}: {last:?}", task.id);
            }
        }
    }
}

#[test]
fn the_expert_wins_what_can_be_won_in_the_real_shop() {
    let suite = open("real1k", WebShopOptions::default());
    let tasks = suite.tasks("test").expect("a split");
    let mut lost = Vec::new();
    for task in tasks.iter().step_by(7) {
        let (shop, goal) = suite.place(task).expect("a task");
        let mut environment = suite.environment();
        environment.reset(task, 0).expect("a task");
        let mut won = false;
        while let Some(action) = environment.expert_action() {
            won = environment.step(&action).expect("a step").info.won;
        }
        if won != (shop.best_case(goal).total >= 1.0) {
            lost.push(task.id.clone());
        }
    }
    assert_eq!(lost, [""; 0]);
}

#[test]
fn purchases_are_paid_as_asked() {
    let options = WebShopOptions { purchase_reward: PurchaseReward::Score, ..WebShopOptions::default() };
    let suite = WebShop::embedded(options).expect("a shop");
    let task = &suite.tasks("test").expect("a split")[0];
    for (suite, paid) in [(&suite, true), (&*EMBEDDED, false)] {
        let mut environment = suite.environment();
        environment.reset(task, 0).expect("a task");
        // The product without its options.
        let mut action = environment.expert_action().expect("an action");
        while !action.starts_with("click[s0") {
            environment.step(&action).expect("a step");
            action = environment.expert_action().expect("an action");
        }
        environment.step(&action).expect("a step");
        let step = environment.step("click[buy now]").expect("a step");
        assert!(step.done && !step.info.won && step.info.score > 0.0 && step.info.score < 1.0, "{step:?}");
        assert_eq!(step.reward, if paid { 10.0 * step.info.score } else { 0.0 });
        assert_eq!(step.info.details["r_option"], 0.0);
    }
}

#[test]
fn what_the_reference_refuses_is_a_step_without_effect() {
    let suite =
        open("real1k", WebShopOptions { num_products: Some(20), test_goals: 3, ..WebShopOptions::default() });
    let task = &suite.tasks("train").expect("a split")[0];
    let mut environment = suite.environment();
    let first = environment.reset(task, 0).expect("a task");
    let many: Vec<String> = (0..1100).map(|number| format!("w{number}")).collect();
    for query in ["<a> x", "<c>", "<r>", &many.join(" ")] {
        let step = environment.step(&format!("search[{query}]")).expect("a step");
        assert_eq!(step.info.action_valid, Some(false), "{query}");
        assert!(step.info.details.contains_key("refused"), "{query}");
        assert_eq!(step.observation, first);
    }
}

#[test]
fn verl_agent_chooses_goals_as_recorded() {
    let recorded = json("golden/rng.json");
    for order in recorded["verl_reset_order"].as_array().expect("orders") {
        let number = |key: &str| order[key].as_u64().expect("a number");
        let range = order["range"].as_array().expect("a range");
        let bound = |at: usize| range[at].as_u64().expect("a number") as usize;
        let ours = VerlOrder::new(number("seed") as u32, bound(0)..bound(1), number("env_num") as usize);
        for (ours, theirs) in ours.zip(order["resets"].as_array().expect("resets")) {
            let theirs: Vec<usize> = theirs
                .as_array()
                .expect("goals")
                .iter()
                .map(|goal| goal.as_u64().expect("a goal") as usize)
                .collect();
            // A group plays one goal several times.
            let group = theirs.len() / ours.len();
            let repeated: Vec<usize> = ours.iter().flat_map(|&goal| vec![goal; group]).collect();
            assert_eq!(repeated, theirs);
        }
    }
}

#[test]
fn unknown_tasks_are_errors() {
    let task = |id: &str| seed_envs::Task { id: id.into(), split: "test".into(), kind: String::new() };
    for id in
        ["test/goal_7", "test/goal_99999", "train/goal_00007", "test/goal_-1", "nowhere/goal_00007", "test"]
    {
        let error = EMBEDDED.environment().reset(&task(id), 0).expect_err("no such task");
        assert!(matches!(error, EnvError::UnknownTask { .. }), "{id}: {error}");
    }
    let few = WebShopOptions { num_products: Some(0), ..WebShopOptions::default() };
    assert!(WebShop::embedded(few).is_err(), "an empty shop has no tasks");
}

/// The words that a query in a property test is made of.
const WORDS: [&str; 14] = [
    "shampoo",
    "men's",
    "black",
    "table",
    "the",
    "of",
    "wood",
    "hdmi",
    "cable",
    "gluten",
    "free",
    "zzz",
    "item_page",
    "x",
];

fn real() -> Arc<Shop> {
    static SHOP: LazyLock<Arc<Shop>> =
        LazyLock::new(|| crate::shared::shop("real1k", None, false, false, 0, 233).0);
    SHOP.clone()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn paging_covers_each_result_once(words in prop::collection::vec(prop::sample::select(&WORDS[..]), 1..6)) {
        let mut session = Session::new(real(), 0, "0");
        let mut random = PythonRandom::from_int(0);
        let query = words.join(" ");
        prop_assert_eq!(session.act(&format!("search[{query}]"), &mut random), Effect::Carried);
        let total = session.results().1;
        let mut seen = Vec::new();
        loop {
            let (shown, found) = session.results();
            prop_assert_eq!(found, total);
            prop_assert!(shown.len() as i64 <= PER_PAGE);
            if shown.is_empty() {
                break;
            }
            seen.extend_from_slice(shown);
            session.act("click[next >]", &mut random);
        }
        let hits = real().catalogue().search(&query, 50).expect("a short query");
        prop_assert_eq!(seen, hits.iter().map(|hit| hit.document).collect::<Vec<_>>());
        prop_assert!(hits.windows(2).all(|pair| pair[0].score >= pair[1].score));
        prop_assert_eq!(hits.iter().map(|hit| hit.document).collect::<HashSet<_>>().len(), hits.len());
    }

    #[test]
    fn rewards_are_shares_and_full_only_when_every_part_is(goal in 0usize..6910, product in 0u32..1000, seed in any::<i64>()) {
        let shop = real();
        let mut random = PythonRandom::from_int(seed.into());
        let product = if random.below(3) == 0 { shop.goal(goal).product().number } else { product };
        let product = shop.catalogue().product(product);
        let chosen: Vec<&str> = product
            .options()
            .filter_map(|option| {
                let values: Vec<&str> = option.values.texts().collect();
                random.choice(&values).copied()
            })
            .collect();
        let reward = shop.reward(goal, product.number, &chosen);
        prop_assert!((0.0..=1.0).contains(&reward.total), "{reward:?}");
        let whole = reward.r_type == 1.0
            && reward.attributes.0 == 1.0
            && reward.price.0
            && reward.options.is_none_or(|(share, _)| share == 1.0);
        prop_assert_eq!(reward.total == 1.0, whole, "{:?}", reward);
        let weights = reward.attributes.1 + reward.price.1 + reward.options.map_or(0.0, |(_, weight)| weight);
        prop_assert!((weights - 1.0).abs() < 1e-12);
    }

    #[test]
    fn walks_keep_their_word(seed in any::<i64>()) {
        let shop = real();
        let mut random = PythonRandom::from_int(seed.into());
        let goal = random.below(shop.goals() as u64) as usize;
        let mut session = Session::new(shop, goal, "walk");
        for _ in 0..12 {
            let listed = session.admissible();
            let mut action = random.choice(&listed).cloned().unwrap_or_default();
            if action.starts_with("search") || listed.is_empty() || random.below(6) == 0 {
                action = format!("search[{}]", random.choice(&WORDS).copied().unwrap_or_default());
            }
            let effect = session.act(&action, &mut random);
            prop_assert!(matches!(effect, Effect::Carried | Effect::Bought(_)), "{action}: {effect:?}");
            prop_assert_eq!(session.view() == View::Done, matches!(effect, Effect::Bought(_)));
            // Both forms show the same parts.
            let parts = session.text(TextMode::Text).split(" [SEP] ").count();
            prop_assert!(parts >= 4, "{}", parts);
        }
    }
}

#[test]
fn the_data_folder_is_found_by_its_public_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = |from: &str, to: &str| {
        std::fs::copy(data().join(from), folder.path().join(to)).expect("a copy");
    };
    copy("real1k/items_shuffle_1000.json", "items_shuffle_1000.json");
    copy("real1k/items_ins_v2_1000.json", "items_ins_v2_1000.json");
    let error = seed_envs::webshop::ShopFiles::find(folder.path(), true).expect_err("no nouns yet");
    assert!(error.to_string().contains("scripts/webshop_nouns.py"), "{error}");
    copy("golden/real1k_nouns.jsonl", "nouns.jsonl");
    let files = seed_envs::webshop::ShopFiles::find(folder.path(), true).expect("all that must be there");
    assert_eq!(files.human, None);
    let suite = WebShop::open(&files, WebShopOptions::default(), &mut |_| {}).expect("a shop");
    assert!(folder.path().join("items_shuffle_1000.seedshop").is_file());
    assert_eq!(suite.shop().catalogue().len(), catalogue("real1k", None).len());
    let human = WebShopOptions { goals: GoalKind::Human, ..WebShopOptions::default() };
    let error = WebShop::open(&files, human, &mut |_| {}).expect_err("no instructions");
    assert!(error.to_string().contains("items_human_ins.json"), "{error}");
}
