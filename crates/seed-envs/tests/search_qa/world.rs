//! The embedded world: complete, consistent, the same everywhere.

use seed_envs::Suite;
use seed_envs::conformance::{Conformance, check};
use seed_envs::search_qa::retriever::Retriever;
use seed_envs::search_qa::{Protocol, SearchQaOptions, World, WorldOptions};
use std::collections::HashSet;

fn small() -> World {
    World::new(WorldOptions { seed: 7, towns: 12 })
}

#[test]
fn the_default_world_is_what_it_says() {
    let world = World::new(WorldOptions::default());
    assert_eq!(world.documents().len(), 1000);
    let splits = world.splits();
    let count: Vec<usize> = splits.iter().map(|(_, questions)| questions.len()).collect();
    assert!(count[0] > 1300 && count[1] > 300, "{count:?}");
    let mut seen = HashSet::new();
    for question in splits.iter().flat_map(|(_, questions)| questions) {
        assert!(seen.insert(question.question.clone()), "{} is asked twice", question.question);
        assert!(question.question.ends_with('?') && !question.golden_answers[0].is_empty());
    }
    // The same draws everywhere and for ever: a change of the world is a change of results.
    assert_eq!(world.documents(), World::new(WorldOptions::default()).documents());
    assert_ne!(
        world.documents(),
        World::new(WorldOptions { seed: 1, ..WorldOptions::default() }).documents()
    );
}

/// The plan of every question finds what its answer needs, and the expert answers all of them.
#[test]
fn every_question_can_be_answered_by_searching() {
    let world = World::new(WorldOptions::default());
    let retriever = world.retriever().expect("an index");
    for question in world.questions() {
        let read: String = question
            .plan
            .iter()
            .flat_map(|query| retriever.search(query, 3, 0).expect("local").remove(0))
            .map(|hit| hit.document.contents)
            .collect();
        assert!(read.contains(&question.golden_answers[0]), "{question:?} in {read}");
    }
    for options in [SearchQaOptions::verl_agent(), SearchQaOptions::corrected(), SearchQaOptions::search_r1()]
    {
        let limit = options.turn_limit();
        let suite = small().suite(options.clone()).expect("a suite");
        for split in suite.splits() {
            for task in suite.tasks(&split).expect("a split").iter() {
                let mut environment = suite.environment();
                environment.reset(task, 0).expect("an episode");
                let mut turns = 0;
                let last = loop {
                    let action = environment.expert_action().expect("an action");
                    let step = environment.step(&action).expect("a step");
                    turns += 1;
                    if step.is_last() {
                        break step;
                    }
                };
                assert!(last.info.won && last.done && turns <= limit, "{}", task.id);
                assert_eq!(environment.expert_action(), None);
            }
        }
        assert!(options.protocol == Protocol::SearchR1 || limit == 4);
    }
}

#[test]
fn the_embedded_suite_conforms() {
    let suite = small().suite(SearchQaOptions::verl_agent()).expect("a suite");
    let conformance = Conformance {
        tasks_per_split: 5,
        max_steps: 4,
        actions: ["<search>bridge town</search>", "<search>born</search>", "<answer>x</answer>", ""]
            .map(str::to_owned)
            .to_vec(),
        empty_observations: true,
        ..Conformance::default()
    };
    let report = check(&suite, &conformance).expect("conforms");
    assert_eq!(report.splits, 2);
}
