//! Scores against recordings, and what holds for any answer.

use crate::shared::{lines, text, texts};
use proptest::prelude::*;
use seed_envs::search_qa::scoring::{
    AnswerRule, FormatFault, FormatScore, Metric, Place, check_response, check_sequence, exact_match,
    last_answer, normalize, retrieval_hit, substring_match, token_f1,
};
use serde_json::Value;

#[test]
fn recorded_answers() {
    for record in lines("scoring.jsonl") {
        let (prediction, golden) = (text(&record, "prediction"), texts(&record["golden"]));
        assert_eq!(normalize(prediction), text(&record, "norm_prediction"), "{record}");
        let normal: Vec<String> = golden.iter().map(|answer| normalize(answer)).collect();
        assert_eq!(normal, texts(&record["norm_golden"]), "{record}");
        assert_eq!(Some(i64::from(exact_match(prediction, &golden))), record["em"].as_i64(), "{record}");
        assert_eq!(
            Some(i64::from(substring_match(prediction, &golden))),
            record["subem"].as_i64(),
            "{record}"
        );
        let f1 = record["f1"].as_f64().expect("a number");
        assert!((token_f1(prediction, &golden) - f1).abs() < 1e-9, "{record}");
    }
}

#[test]
fn recorded_responses() {
    for record in lines("response_scores.jsonl") {
        let (response, golden) = (text(&record, "text"), texts(&record["golden"]));
        let number = |key: &str| record[key].as_f64().unwrap_or_else(|| panic!("{key} in {record}"));
        assert_eq!(last_answer(response, 1), record["agent_extracted"].as_str(), "{record}");
        let substring = |rule| AnswerRule { metric: Metric::Substring, ..rule };
        let agent = AnswerRule::AGENT;
        assert_eq!(agent.score(response, &golden), number("agent_score"), "{record}");
        assert_eq!(substring(agent).score(response, &golden), number("agent_subem"), "{record}");
        let with_format = AnswerRule { format_score: 0.1, ..agent };
        assert_eq!(with_format.score(response, &golden), number("agent_format_01"), "{record}");

        assert_eq!(last_answer(response, 2), record["sr1_extracted"].as_str(), "{record}");
        assert_eq!(AnswerRule::SEARCH_R1.score(response, &golden), number("sr1_em"), "{record}");
        assert_eq!(
            substring(AnswerRule::SEARCH_R1).score(response, &golden),
            number("sr1_subem"),
            "{record}"
        );
        assert_eq!(retrieval_hit(response, &golden), record["sr1_retrieval_hit"] == true, "{record}");
        let checked = check_sequence(response);
        assert_eq!(checked.is_ok(), record["sr1_valid_format"][0] == true, "{record}");
        assert_eq!(reference_words(&checked), record["sr1_valid_format"][1], "{record}");
        let format = FormatScore::default();
        assert_eq!(format.score(response, &golden), number("sr1_format"), "{record}");
        let retrieval = FormatScore { retrieval: 0.1, ..format };
        assert_eq!(retrieval.score(response, &golden), number("sr1_format_retrieval"), "{record}");
    }
}

/// How the reference words what [`check_sequence`] found.
fn reference_words(checked: &Result<(), FormatFault>) -> Value {
    let state = |place: &Place| match place {
        Place::Start => "start",
        Place::InThink => "in_think",
        Place::AfterThink => "after_think",
        Place::InSearch => "in_search",
        Place::AfterSearch => "after_search",
        Place::InInformation => "in_information",
        Place::AfterInformation => "information",
        Place::InAnswer => "in_answer",
        Place::End => "end",
        other => panic!("a new place {other:?}"),
    };
    Value::from(match checked {
        Ok(()) => "Valid sequence format".to_owned(),
        Err(FormatFault::NoAssistant) => "Missing assistant marker".to_owned(),
        Err(FormatFault::Unbalanced { tag, open, close }) => {
            format!("Mismatch in {tag} tags: {open} opening vs {close} closing tags")
        }
        Err(FormatFault::Tag { tag, place }) => format!("Unexpected tag {tag} in state {}", state(place)),
        Err(FormatFault::Text { place: Place::End, .. }) => "Unexpected content in state end".to_owned(),
        Err(FormatFault::Text { text, place }) => {
            format!("Unexpected content '{text}' between tags (state: {})", state(place))
        }
        Err(FormatFault::Unfinished { place }) => {
            format!("Incomplete sequence, ended in state {}", state(place))
        }
        Err(other) => panic!("a new fault {other:?}"),
    })
}

#[test]
fn a_response_alone_scores_like_the_whole_chat() {
    for record in lines("response_scores.jsonl") {
        let golden = texts(&record["golden"]);
        let (chat, mark) = (text(&record, "text"), "<|im_start|>assistant");
        let Some(at) = chat.find(mark) else { continue };
        let (prompt, response) = (&chat[..at], &chat[at + mark.len()..]);
        let pairs = usize::from(last_answer(prompt, 1).is_some());
        // A hit is looked for in the whole chat, whose prompt has no passages here.
        let format = FormatScore { retrieval: 0.1, ..FormatScore::default() };
        assert_eq!(format.score_response(response, pairs, &golden), format.score(chat, &golden), "{record}");
    }
}

proptest! {
    #[test]
    fn normal_forms_are_clean(text in "(the|a|an|A|The|[ \\t\u{1c}\u{a0}]|[.,'!-]|[a-zé²_İ\u{301}]){0,20}") {
        let normal = normalize(&text);
        let clean = normal.split(' ').all(|word| !word.is_empty()) || normal.is_empty();
        prop_assert!(clean, "{normal:?}");
        prop_assert!(!normal.chars().any(|c| c.is_ascii_punctuation()));
    }

    #[test]
    fn scores_agree_with_each_other(answer in "[a-d .]{0,12}", golden in proptest::collection::vec("[a-d .]{0,8}", 1..4)) {
        let (exact, part, f1) =
            (exact_match(&answer, &golden), substring_match(&answer, &golden), token_f1(&answer, &golden));
        prop_assert!(!exact || part, "an equal answer contains itself");
        prop_assert!((0.0..=1.0).contains(&f1));
        prop_assert!(!exact || normalize(&answer).is_empty() || (f1 - 1.0).abs() < 1e-12);
        // More answers can only help, and their order does not matter.
        let reversed: Vec<&String> = golden.iter().rev().collect();
        prop_assert_eq!(token_f1(&answer, &reversed), f1);
        prop_assert!(token_f1(&answer, &golden[..1]) <= f1);
        prop_assert!(!exact_match(&answer, &golden[..1]) || exact);
    }

    #[test]
    fn no_text_breaks_the_rules(
        text in "(<think>|</think>|<search>|</search>|<information>|</information>|<answer>|</answer>|<|>|[a-zé \\n]){0,24}"
    ) {
        let golden = ["a".to_owned()];
        let formed = check_response(&text).is_ok();
        let score = FormatScore::default().score_response(&text, 1, &golden);
        prop_assert!([0.0, 0.1, 0.2, 0.8, 1.0].contains(&score), "{score}");
        prop_assert!(!formed || score >= 0.2);
        prop_assert!(last_answer(&text, 2).is_none() || last_answer(&text, 1).is_some());
        // A marker and nothing else before it changes nothing.
        prop_assert_eq!(check_sequence(&format!("x<|im_start|>assistant{text}")), check_response(&text));
    }
}
