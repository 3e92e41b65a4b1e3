//! Episodes of a verl-agent manager: its workers' shops, goals, pages as the prompt shows them, rewards.

use crate::shared::{as_read, data, files, lines, text};
use seed_envs::webshop::text_env::Dialect;
use seed_envs::webshop::{GoalKind, IndexFile, TaskOrder, WebShop, WebShopOptions};
use seed_envs::{Suite, Task};
use serde_json::Value;

/// A page as verl-agent quotes it: the parts behind the instruction.
fn quoted(page: &str, task: &str) -> String {
    let parts: Vec<&str> = page.split(" [SEP] ").collect();
    match parts.iter().position(|part| *part == task) {
        None => page.to_owned(),
        Some(at) => {
            parts[at + 1..].iter().map(|part| format!("'{part}'")).collect::<Vec<_>>().join(" [SEP] ")
        }
    }
}

/// The edge catalogue is recorded with human goals, of which the first hundred are for tests.
fn open(dataset: &str, seed: u32) -> WebShop {
    let edge = dataset == "edge";
    let options = WebShopOptions {
        goals: if edge { GoalKind::Human } else { GoalKind::Synthetic },
        test_goals: if edge { 100 } else { 500 },
        order: TaskOrder::VerlAgent { seed, workers: 1 },
        listing: Dialect::VerlAgent,
        index: IndexFile::Memory,
        ..WebShopOptions::default()
    };
    WebShop::open(&files(dataset), options, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"))
}

fn replay(suite: &WebShop, episode: &Value) -> usize {
    let goal = episode["goal_index"].as_u64().expect("an index") as usize;
    let seed = episode["worker_seed"].as_u64().expect("a seed");
    let split = if text(episode, "split").eq_ignore_ascii_case("train") { "train" } else { "test" };
    let task =
        Task { id: format!("{split}/seed_{seed}/goal_{goal:05}"), split: split.into(), kind: String::new() };
    let description = suite.task_description(&task).unwrap_or_else(|| panic!("no task {}", task.id));
    assert_eq!(description, text(episode, "task"), "{}", task.id);
    let mut environment = suite.environment();
    let first = environment.reset(&task, 0).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(quoted(&first.text, &description), text(episode, "anchor"), "{}", task.id);
    let steps = episode["steps"].as_array().expect("steps");
    for (number, step) in steps.iter().enumerate() {
        let place = format!("{}, step {}, {}", task.id, number + 1, step["action"]);
        let answer = environment.step(text(step, "action")).expect("a step");
        assert_eq!(Some(answer.reward), step["reward"].as_f64(), "{place}");
        assert_eq!(Some(answer.done), step["done"].as_bool(), "{place}");
        assert_eq!(Some(answer.info.won), step["won"].as_bool(), "{place}");
        assert_eq!(as_read(answer.info.score).as_f64(), step["task_score"].as_f64(), "{place}");
        if !answer.done {
            assert_eq!(quoted(&answer.observation.text, &description), text(step, "anchor"), "{place}");
        }
    }
    steps.len()
}

#[test]
fn recorded_managers() {
    let mut steps = 0;
    let folder = std::fs::read_dir(data().join("prompts")).expect("a folder");
    for entry in folder {
        let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        let episodes = lines(&format!("prompts/{name}"));
        let dataset = text(&episodes[0], "dataset").to_owned();
        let seed = episodes[0]["seed"].as_u64().expect("a seed") as u32;
        let suite = open(&dataset, seed);
        steps += episodes.iter().map(|episode| replay(&suite, episode)).sum::<usize>();
    }
    assert!(steps > 40, "{steps}");
}
