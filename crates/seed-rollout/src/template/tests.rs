use super::*;
use proptest::prelude::*;
use serde_json::Value;

fn shared(path: &str) -> String {
    let root = std::env::var_os("SEED_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let path = root.join("data").join(path);
    std::fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("{}: {e}; set SEED_SHARED to the shared folder", path.display()))
}

fn lines(path: &str) -> Vec<Value> {
    shared(path).lines().map(|line| serde_json::from_str(line).expect("one JSON record a line")).collect()
}

fn text<'a>(record: &'a Value, key: &str) -> &'a str {
    record[key].as_str().unwrap_or_else(|| panic!("`{key}` is no text in {record}"))
}

fn number(record: &Value, key: &str) -> usize {
    record[key].as_u64().unwrap_or_else(|| panic!("`{key}` is no number in {record}")) as usize
}

fn history_of(template: &PromptTemplate, history: &History, length: usize, task: &str) -> String {
    let mut text = String::new();
    template.write_history(&mut text, history.window(length), task);
    text
}

fn context<'a>(history: &'a History, task: &'a str, length: usize) -> StepContext<'a> {
    StepContext { task, history, admissible: None, history_length: length }
}

/// The history strings of the recorded text-mode episodes, for windows of 1, 2 and 4 steps.
#[test]
fn sokoban_history_is_the_recorded_one() {
    let template = PromptTemplate::embedded("sokoban").expect("embedded");
    let episodes = lines("sokoban/episodes.jsonl");
    let recorded: Value = serde_json::from_str(&shared("sokoban/history.json")).expect("JSON");
    let mut compared = 0;
    for record in recorded.as_array().expect("a list") {
        let episode = episodes
            .iter()
            .find(|episode| episode["id"] == record["episode"])
            .unwrap_or_else(|| panic!("no episode {}", record["episode"]));
        let length = number(record, "config_history_length");
        let mut history = History::new(text(episode, "text"));
        let steps = episode["steps"].as_array().expect("steps");
        for (step, after) in steps.iter().zip(record["after_each_step"].as_array().expect("steps")) {
            history.push(step["a"].to_string(), text(step, "text"));
            assert_eq!(history_of(&template, &history, length, ""), text(after, "action_history"));
            assert_eq!(history.steps(), number(after, "step_count"));
            assert_eq!(history.window(length).len(), number(after, "history_length"));
            assert_eq!(history.current(), text(after, "current_observation"));
            let prompt = template.step(&context(&history, "", length)).text;
            assert!(prompt.contains(text(after, "action_history")));
            assert!(prompt.contains(&format!("at step {}", number(after, "current_step"))));
            compared += 1;
        }
    }
    assert!(compared >= 10, "{compared} steps compared");
}

/// The history strings of the recorded search episodes.
#[test]
fn search_history_is_the_recorded_one() {
    let template = PromptTemplate::embedded("search_qa").expect("embedded");
    let mut compared = 0;
    for episode in lines("search_qa/episodes.jsonl") {
        let length = number(&episode, "history_length");
        let mut history = History::new(text(&episode, "question"));
        for step in episode["steps"].as_array().expect("steps") {
            history.push(text(step, "action"), text(step, "observation"));
            assert_eq!(
                history_of(&template, &history, length, ""),
                text(step, "memory_context"),
                "episode {} after step {}",
                episode["id"],
                history.steps()
            );
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared} steps compared");
}

/// Pages of recorded episodes, formatted as in the recorded prompts.
#[test]
fn webshop_pages_are_quoted_after_the_instruction() {
    let template = PromptTemplate::embedded("webshop").expect("embedded");
    let mut compared = 0;
    for episode in lines("webshop/transcripts/real-verl0.jsonl").iter().take(20) {
        let task = text(&episode["goal"], "instruction_text");
        let page = text(&episode["reset"], "obs");
        // The start page of every recorded prompt reads so.
        assert_eq!(template.observation(page, task), "'Search'");
        for step in episode["steps"].as_array().expect("steps") {
            if step["done"] == true {
                break;
            }
            let page = text(step, "obs");
            let shown = template.observation(page, task);
            let quoted: Vec<&str> = shown.split(" [SEP] ").collect();
            assert_eq!(quoted[0], "'Back to Search'", "{page}");
            let parts: Vec<&str> = page.split(" [SEP] ").collect();
            assert_eq!(quoted.len() + 2, parts.len());
            assert!(quoted.iter().zip(&parts[2..]).all(|(quoted, part)| *quoted == format!("'{part}'")));
            compared += 1;
        }
    }
    assert!(compared > 20, "{compared} pages compared");
    assert_eq!(template.observation("Thank you [SEP] None", "buy a mug"), "Thank you [SEP] None");
}

#[test]
fn the_recorded_search_page_of_the_shop_is_the_anchor() {
    let first = &lines("webshop/prompts/real1k-train0.jsonl")[0];
    let template = PromptTemplate::embedded("webshop").expect("embedded");
    let task = text(first, "task");
    let page = format!("WebShop [SEP] Instruction:  [SEP] {task} [SEP] Search");
    assert_eq!(template.observation(&page, task), text(first, "anchor"));
}

#[test]
fn a_long_shop_prompt_falls_back_to_the_one_without_history() {
    let template = PromptTemplate::embedded("webshop").expect("embedded");
    let mut history = History::new("Instruction: [SEP] buy a mug [SEP] é".to_owned() + &"é".repeat(500));
    history.push("click[next >]", "Instruction: [SEP] buy a mug [SEP] Buy Now");
    let context = context(&history, "buy a mug", 2);
    let full = template.step(&context);
    assert_eq!((full.history_length, full.history_dropped), (1, false));
    let length = full.text.chars().count();
    assert!(full.text.len() > length, "the limit counts characters, not bytes");
    let kept = template.clone().with_char_limit(Some(length)).step(&context);
    assert_eq!(kept, full);
    let dropped = template.with_char_limit(Some(length - 1)).step(&context);
    assert!(dropped.history_dropped);
    assert_eq!(dropped.history_length, 0);
    assert!(!dropped.text.contains("Observation 1"));
    assert!(dropped.text.contains("'Buy Now'"));
}

#[test]
fn alfworld_lists_and_numbers() {
    let template = PromptTemplate::embedded("alfworld").expect("embedded");
    let mut history = History::new("Room. Your task is to: find a mug.");
    let commands: Vec<String> = ["go to shelf 1", "help", "look"].map(str::to_owned).to_vec();
    fn at<'a>(history: &'a History, commands: &'a [String], history_length: usize) -> StepContext<'a> {
        StepContext { task: "find a mug.", history, admissible: Some(commands), history_length }
    }
    let context = at(&history, &commands, 2);
    let first = template.step(&context);
    assert!(first.text.contains("['go to shelf 1'\n 'look']"), "{}", first.text);
    assert_eq!(first, template.opening(&context));

    for step in 1..=3 {
        history.push(format!("command {step}"), format!("seen {step}"));
    }
    let later = template.step(&at(&history, &commands, 2));
    assert!(later.text.contains(
        "[Observation 2: 'seen 1', Action 2: 'command 2']\n[Observation 3: 'seen 2', Action 3: 'command 3']"
    ));
    assert!(!later.text.contains("Action 1"));
    assert!(later.text.contains("given 3 commands") && later.text.contains("last 2"));
    assert!(later.text.contains("at step 4") && later.text.contains("\nseen 3\n"));

    let context = at(&history, &commands, 0);
    assert_eq!(template.step(&context).history_length, 0);
    assert!(!template.step(&context).text.contains("Action 3"));
    assert_eq!(
        template.turn(&context).text,
        "seen 3\n\nCommands that work right now:\n['go to shelf 1'\n 'look']"
    );
    assert_eq!(template.turn(&context).skill_at, None);
}

#[test]
fn the_household_prompt_is_the_observation() {
    let template = PromptTemplate::embedded("household").expect("embedded");
    let history = History::new("you see a shelf 1 . your task is to : find a mug .");
    let prompt = template.opening(&context(&history, "find a mug", 0));
    assert_eq!(prompt.text, history.current());
    assert_eq!(prompt.with_skill("hint : look"), format!("{}\nhint : look", history.current()));
}

#[test]
fn every_environment_has_one_place_for_a_skill() {
    for name in PromptTemplate::environments() {
        let template = PromptTemplate::embedded(name).expect("embedded");
        let mut history = History::new("first");
        history.push("act", "second");
        for length in [0, 2] {
            let prompt = template.step(&context(&history, "the task", length));
            let block = "BLOCK\n";
            let with = prompt.with_skill(block);
            assert!(with.lines().any(|line| line == "BLOCK"), "{name}: {with}");
            assert_eq!(with.replacen("BLOCK\n\n", "", 1).replacen("\nBLOCK\n", "", 1), prompt.text, "{name}");
            assert!(!prompt.text.contains("\n\n\n"), "{name}: {}", prompt.text);
            assert!(!prompt.text.contains("{{"), "{name}");
        }
    }
}

#[test]
fn a_trajectory_gives_back_the_history_of_each_step() {
    let step = |observation: &str, action: &str| seed_envs::TrajectoryStep {
        observation: observation.into(),
        action: action.into(),
        ..Default::default()
    };
    let trajectory = seed_envs::Trajectory {
        environment: "alfworld".into(),
        task: seed_envs::Task { id: "t".into(), split: "train".into(), kind: "pick".into() },
        task_description: String::new(),
        seed: 0,
        steps: vec![step("a", "1"), step("b", "2")],
        final_observation: "c".into(),
        outcome: Default::default(),
    };
    let mut history = History::new("a");
    assert_eq!(History::before_step(&trajectory, 0), history);
    history.push("1", "b");
    assert_eq!(History::before_step(&trajectory, 1), history);
    history.push("2", "c");
    assert_eq!(History::before_step(&trajectory, 2), history);
    assert_eq!(History::before_step(&trajectory, 9), history);
}

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a scratch folder");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("written");
    }
    folder
}

#[track_caller]
fn refused(files: &[(&str, &str)], expected: &str) {
    let folder = folder(files);
    let error =
        PromptTemplate::load("alfworld", Some(folder.path())).expect_err("must be refused").to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn broken_templates_name_file_and_slot() {
    let good = "{{observation}}\n{{skill}}\n{{admissible}}";
    refused(&[("first.txt", "a\n{{observaton}}")], "first.txt:2: unknown slot `observaton`; known are task,");
    refused(&[("first.txt", "{{skill}}\n{{admissible}}\n")], "first.txt: slot `observation` is missing");
    refused(&[("first.txt", good), ("history.txt", good)], "history.txt: slot `task` is missing");
    refused(&[("first.txt", "{{observation}}\n\n{{admissible")], "first.txt:3: `{{` without `}}`");
    refused(&[("first.txt", "x {{skill}}\n{{observation}}{{admissible}}")], "first.txt:1: the slot `skill`");
    refused(&[("first.txt", "{{observation}}{{skill}}\n{{admissible}}")], "first.txt:1: the slot `skill`");
    refused(&[("first.txt", "{{skill}} x\n{{observation}}{{admissible}}")], "first.txt:1: the slot `skill`");
    refused(&[("first.txt", "{{skill}}\n{{skill}}\n{{observation}}{{admissible}}")], "first.txt:2: a second");
    refused(&[("frist.txt", good)], "frist.txt: a template is called");
    refused(&[], "none of first.txt");
    let error = PromptTemplate::embedded("alfwrld").expect_err("unknown").to_string();
    assert!(error.contains("`alfwrld`") && error.contains("alfworld"), "{error}");
    let error = PromptTemplate::load("alfworld", Some(Path::new("/nowhere/at/all"))).expect_err("missing");
    assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
}

#[test]
fn a_folder_replaces_files_one_by_one() {
    let folder =
        folder(&[("first.txt", "{{observation}}\r\n{{skill}}\r\n{{admissible}}\r\n"), ("notes.md", "x")]);
    let template = PromptTemplate::load("alfworld", Some(folder.path())).expect("loads");
    let mut history = History::new("seen");
    let commands = ["look".to_owned()];
    fn at<'a>(history: &'a History, commands: &'a [String]) -> StepContext<'a> {
        StepContext { task: "t", history, admissible: Some(commands), history_length: 1 }
    }
    let prompt = template.step(&at(&history, &commands));
    assert_eq!(prompt.text, "seen\n'look'");
    assert_eq!(prompt.with_skill("S"), "seen\nS\n'look'");
    history.push("look", "seen");
    let context = at(&history, &commands);
    let embedded = PromptTemplate::embedded("alfworld").expect("embedded");
    assert_eq!(template.step(&context), embedded.step(&context));
}

proptest! {
    /// Whatever an environment or a skill says, it comes out as it went in, once, and nothing else changes.
    #[test]
    fn values_are_never_read_as_templates(
        observation in ".{0,40}|(\\{\\{|\\}\\}|skill|task|\n|x){0,8}",
        block in "(\\{\\{skill\\}\\}|[a-z ]|\n){1,20}",
    ) {
        for name in ["alfworld", "household", "sokoban"] {
            let template = PromptTemplate::embedded(name).expect("embedded");
            let history = History::new(observation.clone());
            let prompt = template.opening(&context(&history, "", 0));
            prop_assert!(prompt.text.contains(&observation));
            let at = prompt.skill_at.expect("a slot");
            let with = prompt.with_skill(&block);
            prop_assert!(with.starts_with(&prompt.text[..at]));
            prop_assert!(with.ends_with(&prompt.text[at..]));
            prop_assert_eq!(with.len(), prompt.text.len() + block.len() + 1);
            prop_assert!(with[at..].contains(&block));
        }
    }
}
