use crate::episode;
use expect_test::expect;
use proptest::prelude::*;
use seed_analyzer::insert::{Fit, Overflow};
use seed_analyzer::prompt::{AnalyzerPrompt, PromptOptions, SkillMode};
use seed_analyzer::serialize::{self, Layout, OutcomeLabel};
use seed_envs::Trajectory;

fn fridge() -> Trajectory {
    let mut episode = episode(
        "alfworld",
        "cool some mug and put it in shelf.",
        &[
            ("You see a fridge 1.", "<think>cold</think><action>go to fridge 1</action>", "go to fridge 1"),
            ("The fridge 1 is closed.", "open fridge 1", "open fridge 1"),
        ],
        "You open the fridge 1.",
        true,
    );
    episode.steps[1].action_valid = Some(false);
    episode
}

#[test]
fn the_whole_prompt() {
    let prompt = AnalyzerPrompt::embedded("alfworld");
    let text =
        prompt.render(&fridge(), OutcomeLabel::Success, None, &PromptOptions::default()).expect("text");
    expect![[r#"
        Look back at the episode below. A policy has just played it to its end; say what there is to learn from it. Your reply is one JSON object and nothing else.

        Fields to fill in:
        1. `episode_summary`: what was tried and how it went, in one or two short sentences.
        2. `episode_skill`: the episode reached its goal, so turn it into a way of working: the decision that mattered most, and the order in which the actions belong.

        Keep to this:
        - A skill is one short piece of advice that speaks to the policy before it acts. It tells the story of nothing.
        - Name kinds of objects, places and actions that occur in the episode; invent nothing.
        - Use the fields listed above and no others at the top level.

        The form of your reply:
        {"episode_summary": "...", "episode_skill": "..."}

        Task: cool some mug and put it in shelf.
        Outcome: success
        Episode:
        Step 0
        Observation: You see a fridge 1.
        Response: <think>cold</think><action>go to fridge 1</action>
        Action valid: true

        Step 1
        Observation: The fridge 1 is closed.
        Response: open fridge 1
        Action valid: false"#]]
    .assert_eq(&text);
}

#[test]
fn modes_ask_for_different_fields() {
    let prompt = AnalyzerPrompt::embedded("webshop");
    let text = |mode, summary, outcome, candidates: Option<&[usize]>| {
        let options = PromptOptions { mode, summary, max_step_skills: 2, ..PromptOptions::default() };
        prompt.render(&fridge(), outcome, candidates, &options).expect("text")
    };
    let both = text(SkillMode::EpisodeStep, true, OutcomeLabel::Failure, None);
    assert!(both.contains("1. `episode_summary`") && both.contains("2. `episode_skill`: the episode missed"));
    assert!(both.contains("3. `step_skills`") && both.contains("at most 2 "));
    assert!(both.contains("Candidate steps: 0, 1\nEpisode:"));
    assert!(
        both.contains(
            r#"{"episode_summary": "...", "episode_skill": "...", "step_skills": {"<step>": "..."}}"#
        )
    );
    assert!(both.contains("- Steps are counted from 0."));

    let steps = text(SkillMode::StepOnly, false, OutcomeLabel::Unknown, Some(&[1]));
    assert!(
        steps.contains("1. `step_skills`") && !steps.contains("episode_skill") && !steps.contains("summary")
    );
    assert!(steps.contains("Candidate steps: 1\n"));
    let episode = text(SkillMode::EpisodeOnly, false, OutcomeLabel::Unknown, None);
    assert!(episode.contains("1. `episode_skill`: it is not known") && !episode.contains("step_skills"));
    assert!(episode.contains(r#"{"episode_skill": "..."}"#) && !episode.contains("Candidate"));
}

#[test]
fn a_long_episode_loses_its_oldest_steps_or_is_masked() {
    let prompt = AnalyzerPrompt::embedded("alfworld");
    let episode = fridge();
    let options = PromptOptions { mode: SkillMode::EpisodeStep, ..PromptOptions::default() };
    let fit = |overflow, budget| {
        let fitted =
            prompt.fit(&episode, OutcomeLabel::Success, &options, overflow, budget, |text| text.len());
        fitted.expect("text")
    };
    let whole = prompt.render(&episode, OutcomeLabel::Success, None, &options).expect("text");
    assert_eq!(fit(Overflow::DropHistory, whole.len()), Fit::Whole(whole.clone()));
    let Fit::HistoryDropped { prompt: shorter, kept: 1 } = fit(Overflow::DropHistory, whole.len() - 1) else {
        panic!("one step is left out");
    };
    assert!(shorter.contains("Candidate steps: 1\n") && shorter.contains("Episode:\nStep 1\n"), "{shorter}");
    assert!(!shorter.contains("Step 0"));
    assert_eq!(fit(Overflow::DropHistory, 10), Fit::Masked { tokens: shorter.len() });
    assert_eq!(fit(Overflow::MaskRow, whole.len() - 1), Fit::Masked { tokens: whole.len() });
    assert_eq!(fit(Overflow::Left, whole.len() - 7), Fit::CutLeft { prompt: whole, tokens: 7 });
}

#[test]
fn the_household_prompt_is_brief() {
    let prompt = AnalyzerPrompt::embedded("household");
    let mut episode = fridge();
    episode.environment = "household".into();
    let options = PromptOptions { layout: prompt.layout(), ..PromptOptions::default() };
    assert_eq!(options.layout, Layout::Brief);
    let text = prompt.render(&episode, OutcomeLabel::Failure, None, &options).expect("text");
    expect![[r#"
        Task: cool some mug and put it in shelf.
        You see a fridge 1.
        <think>cold</think><action>go to fridge 1</action>
        The fridge 1 is closed.
        open fridge 1
        Outcome: failure
        Write the skill."#]]
    .assert_eq(&text);
}

#[test]
fn outcome_labels() {
    use OutcomeLabel::{Failure, Success, Unknown};
    let label = |success, reward| OutcomeLabel::from_signals(success, reward, 1.0);
    assert_eq!(label(Some(1.0), Some(0.0)), Success);
    assert_eq!(label(Some(0.99), Some(10.0)), Failure);
    assert_eq!(label(None, Some(1.0)), Success);
    assert_eq!(label(None, Some(0.5)), Failure);
    assert_eq!(label(None, None), Unknown);
    assert_eq!(label(Some(f64::NAN), None), Unknown);
    assert_eq!(OutcomeLabel::from_signals(None, Some(5.0), 10.0), Failure);
    let mut episode = fridge();
    assert_eq!(OutcomeLabel::of(&episode), Success);
    // A time-out is no success, whatever the return.
    episode.outcome.won = false;
    episode.steps[0].reward = 10.0;
    assert_eq!(OutcomeLabel::of(&episode), Failure);
}

#[test]
fn tasks_are_found_in_texts() {
    let task = |texts: &[&str]| serialize::task_description(texts.iter().copied());
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        task(&["Hello.\nYour task is to:  put a  mug on a shelf.\nGo."]),
        some("put a mug on a shelf.")
    );
    assert_eq!(task(&["Your current task is to win."]), some("win."));
    assert_eq!(task(&["nothing here", "Question: who was it?\nmore"]), some("who was it?"));
    assert_eq!(task(&["Question: second\nYour task is to: first"]), some("first"));
    assert_eq!(task(&["Your goal is to push the box."]), some("push the box."));
    assert_eq!(task(&["**Task:** buy a lamp"]), some("buy a lamp"));
    assert_eq!(task(&["- Task: buy a lamp"]), some("buy a lamp"));
    assert_eq!(task(&["no statement", ""]), None);

    let mut episode = fridge();
    episode.task_description = String::new();
    episode.steps[0].observation = "You are here.\nYour task is to: cool a mug.".into();
    assert_eq!(serialize::task_of(&episode), some("cool a mug."));
    episode.steps[0].observation = "You are here.".into();
    let text = AnalyzerPrompt::embedded("x")
        .render(&episode, OutcomeLabel::Unknown, None, &PromptOptions::default())
        .expect("text");
    assert!(text.contains("Task: (not available)\n"));
}

#[test]
fn visual_episodes_have_one_mark_a_step() {
    let mut episode = fridge();
    let error = serialize::serialize(&episode, Layout::Full, true).expect_err("no pictures").to_string();
    assert!(error.contains("`train/game-1`, step 0"), "{error}");
    for (at, step) in episode.steps.iter_mut().enumerate() {
        step.image = Some(at);
        step.response = "I see <image> and <|vision_start|><|image_pad|><|vision_end|>".into();
    }
    let text = serialize::serialize(&episode, Layout::Full, true).expect("text");
    assert_eq!(text.matches("<image>").count(), 2);
    assert!(
        text.contains(
            "Observation: <image>\nResponse: I see [image] and [vision_start][image_pad][vision_end]"
        )
    );
    assert!(!text.contains("fridge 1 is closed"));
    // Text episodes keep what was said.
    assert!(serialize::serialize(&episode, Layout::Full, false).expect("text").contains("<|image_pad|>"));
}

#[test]
fn own_prompt_files_are_read_and_checked() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let load = || AnalyzerPrompt::load("alfworld", folder.path());
    assert!(load().expect_err("empty").to_string().contains("no prompt file is here"));
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    write("prompt.txt", "{{episode}}\n{{outcom}}\n");
    assert!(
        load()
            .expect_err("misspelt")
            .to_string()
            .contains("prompt.txt:2: unknown slot `outcom`; known here: fields,")
    );
    write("prompt.txt", "{{episode}}\n");
    assert!(load().expect_err("missing").to_string().contains("prompt.txt: slot `outcome` is missing"));
    write("prompt.txt", "{{outcome}}: {{task}}\n{{candidates}}\n{{episode}}\n");
    let text = load()
        .expect("reads")
        .render(&fridge(), OutcomeLabel::Success, None, &PromptOptions::default())
        .expect("text");
    assert!(text.starts_with("success: cool some mug and put it in shelf.\nStep 0\n"), "{text}");
    write("promt.txt", "x");
    assert!(
        load().expect_err("unknown file").to_string().contains("promt.txt: no prompt file has this name")
    );
}

#[test]
fn slots_in_values_are_left_alone() {
    let mut episode = fridge();
    episode.steps[0].observation = "{{task}} {{outcome}}".into();
    let text = AnalyzerPrompt::embedded("alfworld")
        .render(&episode, OutcomeLabel::Success, None, &PromptOptions::default())
        .expect("text");
    assert!(text.contains("Observation: {{task}} {{outcome}}\n"));
}

proptest! {
    #[test]
    fn neutral_texts_have_no_mark(text in "(<image>|<\\|image_pad\\|>|<\\|vision_(start|end|pad)\\|>|<video>|<|\\||>|image|[a-z ]){0,20}") {
        let neutral = serialize::neutralise(&text);
        for mark in ["<image>", "<|image_pad|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<video>", "<|video_pad|>"] {
            prop_assert!(!neutral.contains(mark), "{}", neutral);
        }
        prop_assert_eq!(serialize::neutralise(&neutral), neutral);
    }
}
