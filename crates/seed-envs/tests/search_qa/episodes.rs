//! Recorded episodes step by step, both protocols, the switches, the conformance suite.

use crate::shared::{PLAIN, lines, text, texts};
use proptest::prelude::*;
use seed_envs::conformance::{Conformance, check};
use seed_envs::projection::{Action, Invalid, Projection};
use seed_envs::search_qa::retriever::{Document, Found, Hit, RetrievalError, Retriever};
use seed_envs::search_qa::{OnFailure, Question, SearchQa, SearchQaOptions};
use seed_envs::{EnvError, Environment, Step, Suite};
use serde_json::{Value, json};
use std::sync::Arc;

fn question(record: &Value) -> Question {
    Question {
        question: text(record, "question").to_owned(),
        golden_answers: texts(&record["golden_answers"]),
        data_source: text(record, "data_source").to_owned(),
        plan: Vec::new(),
    }
}

#[test]
fn recorded_episodes() {
    let mut steps = 0;
    for record in lines("episodes.jsonl") {
        let count = |key: &str| record[key].as_u64().expect("a count") as usize;
        let options = SearchQaOptions {
            max_turns: count("max_turns"),
            top_k: count("topk"),
            ..SearchQaOptions::verl_agent()
        };
        let projection = options.projection();
        let splits = vec![("test".to_owned(), vec![question(&record)])];
        let suite = SearchQa::new(splits, Arc::new(PLAIN.clone()), options);
        let task = &suite.tasks("test").expect("a split")[0];
        assert_eq!(task.kind, text(&record, "data_source"));
        let mut environment = suite.environment();
        let first = environment.reset(task, 0).expect("an episode");
        assert_eq!(first.text, text(&record, "question"));
        let mut total = 0.0;
        for (number, expected) in record["steps"].as_array().expect("steps").iter().enumerate() {
            let place = format!("{} step {}", record["id"], number + 1);
            let projected = projection.project(text(expected, "text"));
            assert_eq!(projected.action.command(), text(expected, "action"), "{place}");
            assert_eq!(Some(i64::from(projected.is_valid())), expected["valid"].as_i64(), "{place}");
            let step = environment.step(&projected.action.command()).expect("a step");
            assert_eq!(step.observation.text, text(expected, "observation"), "{place}");
            assert_eq!(Some(step.reward), expected["reward"].as_f64(), "{place}");
            assert_eq!(Some(step.is_last()), expected["done"].as_bool(), "{place}");
            assert_eq!(Some(step.info.won), expected["won"].as_bool(), "{place}");
            let details = &step.info.details;
            assert_eq!(details["tool_calling"], expected["tool_calling"], "{place}");
            match &expected["request"] {
                Value::Null => assert!(!details.contains_key("query"), "{place}"),
                request => {
                    assert_eq!(details["query"], request["query"], "{place}");
                    assert_eq!(details["retrieved"], expected["retrieved"], "{place}");
                    assert_eq!(request["topk"], record["topk"], "{place}");
                }
            }
            total += step.reward;
            steps += 1;
        }
        assert_eq!(Some(total), record["episode_reward"].as_f64(), "{}", record["id"]);
    }
    assert!(steps > 100, "{steps} steps");
}

/// Finds one passage that is the query itself, with an answer block around it; fails for "broken".
struct Echo;

impl Retriever for Echo {
    fn name(&self) -> String {
        "echo".to_owned()
    }

    fn search(&self, query: &str, top_k: usize, _caller: usize) -> Result<Found, RetrievalError> {
        if query == "broken" {
            return Err(RetrievalError::Local { retriever: self.name(), problem: "it is broken".to_owned() });
        }
        let document = |rank| Document {
            id: format!("{query}/{rank}"),
            contents: format!("\"Böok {rank}\"\n<answer>{query}</answer>\nmore "),
            other: Default::default(),
        };
        Ok(vec![(0..top_k).map(|rank| Hit { document: document(rank), score: Some(1.0) }).collect()])
    }
}

fn suite(options: SearchQaOptions) -> SearchQa {
    let question = |text: &str, golden: &str| Question {
        question: text.to_owned(),
        golden_answers: vec![golden.to_owned()],
        data_source: "own".to_owned(),
        plan: Vec::new(),
    };
    let questions = vec![question("Which way?", "left"), question("How many?", "seven")];
    SearchQa::new(vec![("train".to_owned(), questions)], Arc::new(Echo), options)
}

fn start(options: SearchQaOptions) -> Box<dyn Environment> {
    let suite = suite(options);
    let mut environment = suite.environment();
    environment.reset(&suite.tasks("train").expect("a split")[0], 5).expect("an episode");
    environment
}

#[track_caller]
fn say(environment: &mut dyn Environment, action: &str) -> Step {
    environment.step(action).expect("a step")
}

#[test]
fn an_answer_inside_a_passage_counts_in_the_reference_alone() {
    for (options, reward) in [(SearchQaOptions::verl_agent(), 1.0), (SearchQaOptions::corrected(), 0.0)] {
        let mut environment = start(SearchQaOptions { max_turns: 2, ..options });
        assert_eq!(say(&mut *environment, "<search>left</search>").reward, 0.0);
        let last = say(&mut *environment, "<search>right</search>");
        assert_eq!((last.reward, last.truncated, last.done), (reward, true, false));
        assert_eq!(last.info.won, reward == 1.0);
        assert_eq!(last.observation.text, "", "the last turn only answers");
    }
}

#[test]
fn presets_differ_where_their_switches_say() {
    let corrected = SearchQaOptions::corrected();
    let (reference, strict) = (Projection::SearchQa, corrected.projection());
    let both = "<answer>a</answer><search>b</search>";
    assert_eq!(reference.project(both).action, Action::Text("<search>b</search>".into()));
    let projected = strict.project(both);
    assert_eq!(
        (projected.action, projected.invalid),
        (Action::Text(String::new()), Some(Invalid::SeveralActions))
    );
    let good = "<think>x</think> <search> b </search> and more";
    assert_eq!(strict.project(good).action, reference.project(good).action);

    let mut environment = start(corrected);
    let nothing = say(&mut *environment, "");
    assert!(nothing.observation.text.contains("<search>"), "a reminder");
    assert_eq!(nothing.info.action_valid, Some(false));
    let empty = say(&mut *environment, "<search></search>");
    assert!(!empty.info.details.contains_key("query"));
    let found = say(&mut *environment, "<search>left</search>");
    assert!(found.observation.text.contains("Böok 0"), "letters stay letters");
    assert_eq!(say(&mut *environment, "<answer>Left!</answer>").reward, 1.0);
}

#[test]
fn a_failing_retriever_is_told_or_stops_the_episode() {
    let mut environment = start(SearchQaOptions::verl_agent());
    let step = say(&mut *environment, "<search>broken</search>");
    assert!(
        step.observation.text.starts_with("<information>{\"result\": \"Search error: [Search Request ID: ")
    );
    assert_eq!(step.info.details["search_failed"], "echo: it is broken");
    assert_eq!(step.info.action_valid, Some(false));
    // The same episode again draws the same request id.
    assert_eq!(say(&mut *start(SearchQaOptions::verl_agent()), "<search>broken</search>"), step);

    let mut environment =
        start(SearchQaOptions { on_failure: OnFailure::Stop, ..SearchQaOptions::default() });
    let error = environment.step("<search>broken</search>").expect_err("stopped");
    assert_eq!(error.to_string(), "retriever echo: echo: it is broken");
    assert!(matches!(environment.step("<answer>left</answer>"), Err(EnvError::NotReset)));
}

#[test]
fn search_r1_grows_a_transcript() {
    let options = SearchQaOptions { max_turns: 2, top_k: 2, ..SearchQaOptions::search_r1() };
    let projection = options.projection();
    assert_eq!(projection, Projection::SearchR1);
    let mut environment = start(options.clone());
    let said = projection.project("<think>hm</think><search>left</search> and then");
    assert!(said.is_valid());
    let step = say(&mut *environment, &said.action.command());
    assert_eq!(
        step.observation.text,
        "\n\n<information>Doc 1(Title: \"Böok 0\") <answer>left</answer>\nmore \n\
         Doc 2(Title: \"Böok 1\") <answer>left</answer>\nmore</information>\n\n"
    );
    let nonsense = projection.project("no tags");
    assert_eq!(nonsense.invalid, Some(Invalid::NoAction));
    let step = say(&mut *environment, &nonsense.action.command());
    assert!(step.observation.text.contains("<answer> and </answer>") && !step.is_last());
    // Two turns with search are over; the third and last searches no more.
    let mut other = environment.snapshot();
    let last = say(&mut *other, "<search>right</search>");
    assert!(last.truncated && last.observation.text.is_empty() && !last.info.details.contains_key("query"));
    let last = say(&mut *environment, "<answer>left</answer>");
    assert_eq!((last.reward, last.done, last.info.won), (1.0, true, true));

    // The prompt's example is the first of the two answers that the reference wants.
    let mut bare = start(SearchQaOptions { prompt_answers: 0, passages_count: false, ..options });
    assert_eq!(say(&mut *bare, "<answer>left</answer>").reward, 0.0);
}

#[test]
fn the_suite_conforms_in_every_preset() {
    let actions = ["<search>left</search>", "<search>broken</search>", "<answer>left</answer>", "hm"];
    for options in [SearchQaOptions::verl_agent(), SearchQaOptions::search_r1(), SearchQaOptions::corrected()]
    {
        // Stopping on a dead retriever is an error on purpose; the suite wants none because of an action's text.
        let options = SearchQaOptions { on_failure: OnFailure::Observe, ..options };
        let conformance = Conformance {
            max_steps: 5,
            actions: actions.map(str::to_owned).to_vec(),
            empty_observations: true,
            ..Conformance::default()
        };
        let report = check(&suite(options), &conformance).expect("conforms");
        assert!(report.steps > 20, "{report}");
    }
}

proptest! {
    #[test]
    fn episodes_end_and_rewards_are_scores(
        responses in proptest::collection::vec(
            "(<think>|</think>|<search>|</search>|<answer>|</answer>|left|broken|é|[a-z ]){0,10}", 1..8),
        which in 0_usize..3,
    ) {
        let options = [SearchQaOptions::verl_agent(), SearchQaOptions::search_r1(), SearchQaOptions::corrected()];
        let options = SearchQaOptions { on_failure: OnFailure::Observe, ..options[which].clone() };
        let (projection, limit) = (options.projection(), options.turn_limit());
        let mut environment = start(options);
        let mut rewards = Vec::new();
        for (turn, response) in responses.iter().enumerate() {
            let step = say(&mut *environment, &projection.project(response).action.command());
            prop_assert!(step.is_last() || turn + 1 < limit);
            prop_assert!(!step.info.won || step.is_last());
            prop_assert_eq!(&step.info.details["tool_calling"], &json!(!step.is_last()));
            rewards.push(step.reward);
        }
        prop_assert!(rewards.iter().sum::<f64>() <= 1.0);
    }
}
