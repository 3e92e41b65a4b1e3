use proptest::prelude::*;
use seed_analyzer::insert::{self, Fit, Overflow, Place, SkillBlock, SkillKind};
use std::path::PathBuf;

fn template(path: &str) -> String {
    // The running cargo's word first: the binary may come from a target folder that several clones share.
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let path = package.join("../../configs/prompts").join(path);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    // A prompt without a skill has no trace of the slot.
    text.replace("{{skill}}\n", "").trim_end().to_owned()
}

#[track_caller]
fn lands(
    template_path: &str,
    fill: &[(&str, &str)],
    kind: SkillKind,
    before: &str,
    place: Place,
    after: &str,
) {
    let mut prompt = template(template_path);
    for (slot, value) in fill {
        prompt = prompt.replace(&format!("{{{{{slot}}}}}"), value);
    }
    let (text, found) = insert::by_words(&prompt, "BLOCK", kind);
    assert_eq!(found, place, "{template_path}");
    let at = text.find("BLOCK").expect("the block is in");
    let (head, tail) = (text[..at].trim_end_matches('\n'), text[at + 5..].trim_start_matches('\n'));
    assert!(
        head.ends_with(before),
        "{template_path}: lands behind {:?}",
        &head[head.len().saturating_sub(60)..]
    );
    assert!(tail.starts_with(after), "{template_path}: lands before {tail:.60?}");
    assert!(head.is_empty() || text[..at].ends_with("\n\n"), "an empty line before the block");
    assert!(tail.is_empty() || text[at + 5..].starts_with("\n\n"), "an empty line behind the block");
}

/// The places that the reference's words lead to, in our own templates.
#[test]
fn compatible_places_in_every_template() {
    let seen = [("observation", "You are in a room.\n\nYour task is to: cool a mug.")];
    let episode = SkillKind::Episode;
    let line = Place::AfterTaskLine;
    lands("alfworld/first.txt", &seen, episode, "Your task is to: cool a mug.", line, "Commands that work");
    lands(
        "alfworld/history.txt",
        &[("task", "cool a mug.")],
        episode,
        "Your task is to: cool a mug.",
        line,
        "You have given",
    );
    lands(
        "webshop/first.txt",
        &[("task", "buy a mug")],
        episode,
        "Your task is to: buy a mug",
        line,
        "The page in front",
    );
    lands(
        "webshop/history.txt",
        &[("task", "buy a mug")],
        episode,
        "Your task is to: buy a mug",
        line,
        "You have taken",
    );
    lands("search_qa/first.txt", &[("task", "who?")], episode, "Question: who?", line, "Now it is your turn");
    lands("search_qa/history.txt", &[("task", "who?")], episode, "Question: who?", line, "You have taken");
    lands(
        "sokoban_visual/first.txt",
        &[],
        episode,
        "as few moves as you can.",
        line,
        "What the picture shows",
    );
    lands("sokoban/first.txt", &[], episode, "as few moves as you can.", line, "How to read the board");
    // No task line and no closing words: behind the output format, the reference's known flaw.
    lands("ezpoints/first.txt", &[], episode, "}", Place::End, "");

    let step = SkillKind::Step;
    let closing = Place::BeforeClosing;
    lands("alfworld/first.txt", &seen, step, "]", closing, "Now it is your turn");
    lands("webshop/history.txt", &[], step, "]", closing, "Now it is your turn");
    lands("search_qa/first.txt", &[("task", "who?")], step, "Question: who?", closing, "Now it is your turn");
    lands("sokoban/history.txt", &[], step, "{{observation}}", closing, "Now it is your turn");
    lands("ezpoints/first.txt", &[], step, "}", Place::End, "");
}

#[test]
fn without_a_task_line_the_episode_block_goes_before_the_closing_words() {
    let prompt = "You see a shelf.\n\nNow it's your turn to act.\nUse tags.";
    let (text, place) = insert::by_words(prompt, "BLOCK", SkillKind::Episode);
    assert_eq!(place, Place::BeforeClosing);
    assert_eq!(text, "You see a shelf.\n\nBLOCK\n\nNow it's your turn to act.\nUse tags.");
    assert_eq!(insert::by_words("", "BLOCK", SkillKind::Episode), ("BLOCK".into(), Place::End));
}

#[test]
fn blocks_have_title_instruction_and_brackets() {
    let block = SkillBlock::embedded("alfworld").render(" open it first \n", SkillKind::Episode);
    let lines: Vec<&str> = block.trim_end().lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[0].starts_with("**") && lines[0].ends_with("**"));
    assert!(lines[1].ends_with(':'));
    assert_eq!(lines[2], "[open it first]");
    assert_ne!(block, SkillBlock::embedded("alfworld").render("open it first", SkillKind::Step));
    assert_eq!(SkillBlock::embedded("household").render("open it", SkillKind::Episode), "Skill: open it");
}

#[test]
fn own_wordings_are_read_and_checked() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let error = SkillBlock::load("alfworld", folder.path()).expect_err("empty").to_string();
    assert!(error.contains("neither episode.txt nor step.txt"), "{error}");
    std::fs::write(folder.path().join("episode.txt"), "note: {{skil}}").expect("written");
    let error = SkillBlock::load("alfworld", folder.path()).expect_err("misspelt").to_string();
    assert!(error.contains("episode.txt:1: unknown slot `skil`"), "{error}");
    std::fs::write(folder.path().join("episode.txt"), "note: {{skill}}\n").expect("written");
    let block = SkillBlock::load("alfworld", folder.path()).expect("reads");
    assert_eq!(block.render("x", SkillKind::Episode), "note: x");
    assert_eq!(
        block.render("x", SkillKind::Step),
        SkillBlock::embedded("alfworld").render("x", SkillKind::Step)
    );
}

#[test]
fn overflow() {
    // A prompt of 10 words and 4 for each past step.
    let render = |history: usize| 10 + 4 * history;
    let fit = |overflow, budget| insert::fit(overflow, budget, 3, render, |tokens| *tokens);
    for overflow in [Overflow::DropHistory, Overflow::MaskRow, Overflow::Left] {
        assert_eq!(fit(overflow, 22), Fit::Whole(22));
    }
    assert_eq!(fit(Overflow::DropHistory, 21), Fit::HistoryDropped { prompt: 18, kept: 2 });
    assert_eq!(fit(Overflow::DropHistory, 10), Fit::HistoryDropped { prompt: 10, kept: 0 });
    assert_eq!(fit(Overflow::DropHistory, 9), Fit::Masked { tokens: 10 });
    assert_eq!(fit(Overflow::MaskRow, 21), Fit::Masked { tokens: 22 });
    assert_eq!(fit(Overflow::Left, 20), Fit::CutLeft { prompt: 22, tokens: 2 });
    let short = insert::fit(Overflow::DropHistory, 5, 0, render, |tokens| *tokens);
    assert_eq!(short, Fit::Masked { tokens: 10 });
}

proptest! {
    /// Apart from the block and line breaks beside it, the prompt is what it was.
    #[test]
    fn insertion_keeps_everything_else(
        lines in proptest::collection::vec("(Your task is to: [a-z ]{0,10}|Question: [a-z]{1,9}|Now it is your turn[a-z. ]{0,9}|[a-zé ]{0,20}|)", 0..8),
        block in "§[a-z \n]{0,20}§",
        cut in any::<prop::sample::Index>(),
    ) {
        let prompt = lines.join("\n");
        for kind in [SkillKind::Episode, SkillKind::Step] {
            let (text, _) = insert::by_words(&prompt, &block, kind);
            let at = text.find(&block).expect("the block is in");
            let rest = format!("{}{}", &text[..at], &text[at + block.len()..]);
            let kept: String = rest.chars().filter(|c| *c != '\n').collect();
            let was: String = prompt.chars().filter(|c| *c != '\n').collect();
            prop_assert_eq!(kept, was);
            // Breaks are added at the block only: what stands before and behind it is unchanged.
            let (head, tail) = (text[..at].trim_end_matches('\n'), text[at + block.len()..].trim_start_matches('\n'));
            prop_assert!(prompt.starts_with(head));
            prop_assert!(prompt.ends_with(tail));
        }
        let at = cut.index(prompt.len() + 1);
        let text = insert::at_slot(&prompt, at, &block);
        prop_assert_eq!(text.len(), prompt.len() + block.len() + 1);
        let found = text.find(&block).expect("the block is in");
        prop_assert!(prompt.starts_with(text[..found].strip_suffix('\n').unwrap_or(&text[..found])));
        prop_assert!(prompt.ends_with(text[found + block.len()..].strip_prefix('\n').unwrap_or_default()));
    }
}
