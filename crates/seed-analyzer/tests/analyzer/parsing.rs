use proptest::prelude::*;
use seed_analyzer::skill::{self, Backend, ParseError, Rejected};
use seed_analyzer::{Skill, SkillMode};
use std::time::Instant;

#[track_caller]
fn episode_skill(answer: &str, expected: &str) {
    let skill = skill::parse(answer, SkillMode::EpisodeOnly).expect("a skill");
    assert_eq!(skill.episode_skill, expected, "{answer}");
}

#[track_caller]
fn unreadable(answer: &str) {
    let result = skill::parse(answer, SkillMode::EpisodeOnly);
    assert!(matches!(result, Err(ParseError::NoObject { .. })), "{answer:?}: {result:?}");
}

#[test]
fn plain_json() {
    episode_skill(r#"{"episode_summary": "s", "episode_skill": " open first "}"#, "open first");
    episode_skill(r#"Sure! {"episode_skill": "x"} Hope it helps."#, "x");
    episode_skill("{\"episode_skill\": \"caf\\u00e9 \\ud83d\\ude00 \\\"q\\\" \\/\"}", "café 😀 \"q\" /");
    // A lone half of a pair is kept as a mark; Python keeps the half itself.
    episode_skill(r#"{"episode_skill": "a\ud83db"}"#, "a\u{fffd}b");
}

#[test]
fn fenced_blocks_come_first() {
    let answer = "First {\"episode_skill\": \"outside\"}\n```json\n{\"episode_skill\": \"inside\"}\n```";
    episode_skill(answer, "inside");
    episode_skill("```\n{\"episode_skill\": \"no language\"}\n```", "no language");
    episode_skill("```json\n{\"episode_skill\": \"never closed\"}", "never closed");
    episode_skill("```python\nx = 1\n```\n```JSON\n{\"episode_skill\": \"second block\"}```", "second block");
}

#[test]
fn trailing_commas() {
    episode_skill("{\"episode_skill\": \"x\", }", "x");
    episode_skill("{\"a\": [1, 2, ],\n \"episode_skill\": \"x\",\n}", "x");
    // The plain variant is tried first, so that a comma inside a text survives where it can.
    episode_skill(r#"{"episode_skill": "take [a,] then go"}"#, "take [a,] then go");
}

#[test]
fn control_characters_in_strings() {
    episode_skill("{\"episode_skill\": \"line one\nline\ttwo\u{1}\"}", "line one\nline\ttwo\u{1}");
}

#[test]
fn python_style_literals() {
    episode_skill("{'episode_skill': 'open the fridge'}", "open the fridge");
    episode_skill("{'episode_skill': \"don't stop\", 'ok': True, 'n': None, }", "don't stop");
    episode_skill("{'a': (1, 2.5, -3, 0x1f, 1_000), 'episode_skill': 'a' \"b\" 'c'}", "abc");
    episode_skill("{'episode_skill': '''two\nlines''' }", "two\nlines");
    episode_skill(r"{'episode_skill': 'a\x41\u00e9\101\q'}", "aAéA\\q");
    episode_skill(r"{'episode_skill': r'raw\n', }", "raw\\n");
    episode_skill("{'episode_skill': ('bracketed')}  # why not", "bracketed");
    episode_skill("text {broken} {'episode_skill': 'later brace'}", "later brace");
    // No JSON, since the escape is unknown, but Python keeps its backslash.
    episode_skill("{\"episode_skill\": \"\\é\", 'n': 0}", "\\é");
    unreadable("{'a': 007}");
    // Python has neither of these.
    unreadable("{'episode_skill': 'line\nbreak'}");
    unreadable("{'episode_skill': true}");
    unreadable("{'episode_skill': f'x'}");
}

#[test]
fn literals_are_tried_only_when_no_json_was_found() {
    // The inner {} is JSON, so the Python-style object around it is never read: the reference does the same.
    let skill =
        skill::parse("{'episode_skill': 'x', 'meta': {}}", SkillMode::EpisodeOnly).expect("an object");
    assert_eq!(skill.episode_skill, "");
}

#[test]
fn the_first_object_with_the_field_is_chosen() {
    episode_skill(r#"{"thought": 1} {"episode_skill": "second"} {"episode_skill": "third"}"#, "second");
    episode_skill(r#"{"answer": {"episode_skill": "nested"}}"#, "nested");
    let none =
        skill::parse(r#"{"episode_summary": "only"} {"x": 1}"#, SkillMode::EpisodeOnly).expect("an object");
    assert_eq!(none.episode_summary, "only");
    assert_eq!(skill::accept(&none, SkillMode::EpisodeOnly, Backend::Policy), Err(Rejected::Empty));

    let answer = r#"{"episode_skill": "e"} {"step_skills": {"0": "s"}}"#;
    let steps = skill::parse(answer, SkillMode::StepOnly).expect("an object");
    assert_eq!(steps.step_skills[&0], "s");
    assert_eq!(skill::parse(answer, SkillMode::EpisodeStep).expect("an object").episode_skill, "e");
}

#[test]
fn values_become_texts() {
    episode_skill(r#"{"episode_skill": 12.5}"#, "12.5");
    episode_skill(r#"{"episode_skill": true}"#, "true");
    episode_skill(r#"{"episode_skill": null}"#, "");
    episode_skill(r#"{"episode_skill": NaN}"#, "nan");
    episode_skill(r#"{"episode_skill": ["go", "take"]}"#, r#"["go","take"]"#);
    episode_skill(r#"{"episode_skill": 123456789012345678901234567890}"#, "123456789012345678901234567890");
    let answer = r#"{"step_skills": {"0": "a", " 2 ": 3, "one": "b", "-1": "c", "4": ""}}"#;
    let skill = skill::parse(answer, SkillMode::StepOnly).expect("an object");
    let steps: Vec<(usize, &str)> =
        skill.step_skills.iter().map(|(step, text)| (*step, text.as_str())).collect();
    assert_eq!(steps, [(0, "a"), (2, "3")]);
    let odd = skill::parse(r#"{"step_skills": ["a"]}"#, SkillMode::StepOnly).expect("an object");
    assert!(odd.step_skills.is_empty());
}

#[test]
fn what_is_no_object() {
    for answer in
        ["", "no braces", "{", "{\"episode_skill\": \"cut off", "[1, 2]", "{1: }", "{\"a\" \"b\"}", "{01}"]
    {
        unreadable(answer);
    }
    unreadable(r#"{"a": 01}"#);
    unreadable(r#"{"a": "\x"}"#);
    unreadable("{\"a\": 1 \"b\": \"\\é\"}");
}

#[test]
fn acceptance() {
    let skill = |text: &str| Skill { episode_skill: text.into(), ..Skill::default() };
    let judge = |text: &str, backend| skill::accept(&skill(text), SkillMode::EpisodeOnly, backend);
    assert_eq!(judge("go", Backend::Policy), Ok(()));
    assert_eq!(judge(" ", Backend::Policy), Err(Rejected::Empty));
    assert_eq!(judge("open it and look inside", Backend::Openai), Ok(()));
    assert_eq!(judge("open it and look", Backend::Openai), Err(Rejected::TooShort { words: 4 }));
    assert_eq!(judge(". . .. ... .", Backend::Openai), Err(Rejected::OnlyDots));
    assert_eq!(judge("...", Backend::Openai), Err(Rejected::OnlyDots));
    let steps = Skill { step_skills: [(3, "open it".to_owned())].into(), ..Skill::default() };
    assert_eq!(skill::accept(&steps, SkillMode::StepOnly, Backend::Policy), Ok(()));
    assert!(skill::accept(&steps, SkillMode::StepOnly, Backend::Openai).is_err());
    assert_eq!(skill::accept(&steps, SkillMode::EpisodeStep, Backend::Policy), Err(Rejected::Empty));
}

/// Texts made to cost a lot: they must end, and quickly. The bound is far above what they take.
#[test]
fn hostile_answers_end() {
    let megabyte = 1 << 20;
    let nested = "{\"a\":".repeat(megabyte / 5);
    let open_lists = format!("{{\"a\":{}", "[".repeat(megabyte));
    let literal = "{'a':".repeat(megabyte / 5);
    let strings = format!("{{{}", "'a' ".repeat(megabyte / 4));
    let texts = [
        "{".repeat(10 * megabyte),
        "{\"".repeat(megabyte / 2),
        "```".repeat(megabyte / 3),
        ",}".repeat(megabyte / 2),
        "{'''".repeat(megabyte / 4),
        "{#".repeat(megabyte / 2),
        nested,
        open_lists,
        literal,
        strings,
    ];
    let start = Instant::now();
    for text in &texts {
        assert!(skill::parse(text, SkillMode::EpisodeOnly).is_err(), "{}", &text[..20]);
    }
    assert!(start.elapsed().as_secs() < 60, "took {:?}", start.elapsed());
}

fn any_text() -> impl Strategy<Value = String> {
    let pieces = "([{}\\[\\]()'\",:#\\\\ \n]|```|json|episode_skill|step_skills|True|None|null|u'|r\"|\\\\u00|0x|-1|1e5|é|😀|[a-z]){0,60}";
    prop_oneof![".{0,200}".prop_map(String::from), pieces.prop_map(String::from)]
}

fn any_skill_text() -> impl Strategy<Value = String> {
    "[^\\x00]{0,60}".prop_map(|text: String| text.trim().to_owned())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_text_breaks_the_parser(text in any_text()) {
        for mode in [SkillMode::EpisodeOnly, SkillMode::EpisodeStep, SkillMode::StepOnly] {
            if let Ok(skill) = skill::parse(&text, mode) {
                let _ = skill::accept(&skill, mode, Backend::Openai);
                // What was read once is read again.
                prop_assert_eq!(skill::parse(&skill.to_json(), mode).expect("own JSON"), skill);
            }
        }
    }

    #[test]
    fn a_skill_survives_its_json(
        summary in any_skill_text(),
        text in any_skill_text(),
        steps in proptest::collection::btree_map(0_usize..50, "[a-z]{1,20}", 0..4),
        around in "[a-zA-Z .]{0,20}",
    ) {
        let skill = Skill { episode_summary: summary, episode_skill: text, step_skills: steps };
        let mode = if skill.episode_skill.is_empty() { SkillMode::StepOnly } else { SkillMode::EpisodeStep };
        let json = skill.to_json();
        prop_assert!(!json.contains('\n'));
        prop_assert_eq!(&skill::parse(&json, mode).expect("own JSON"), &skill);
        // Fence marks inside a text would open a block of their own; wrapping is tested without them.
        if !json.contains("```") && !json.contains(',') {
            let wrapped = format!("{around}\n```json\n{json}\n```\n{around}");
            prop_assert_eq!(&skill::parse(&wrapped, mode).expect("wrapped"), &skill);
        }
    }
}
