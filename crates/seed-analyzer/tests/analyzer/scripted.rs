//! The scripted annotator on recorded ALFWorld walks and on games of the household world.
//!
//! What it says is checked against what the recordings say by other means: the lists of admissible commands, which
//! name every object within reach, and the commands that were given.

use crate::episode;
use proptest::prelude::*;
use seed_analyzer::annotator::scripted::{ScriptedAnnotator, WORD_LIMIT};
use seed_analyzer::skill::{self, Backend};
use seed_analyzer::{Annotator, OutcomeLabel, Skill, SkillBlock, SkillKind, SkillMode};
use seed_envs::household::demonstration::{Demonstrator, Habits};
use seed_envs::household::{Household, vocabulary};
use seed_envs::{Outcome, Task, Trajectory, TrajectoryStep};
use serde_json::Value;
use std::path::PathBuf;

fn recordings(kind: &str) -> Vec<Value> {
    let root = std::env::var_os("SEED_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let path = root.join(format!("data/alfworld/transcripts/{kind}.jsonl"));
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("{}: {e}; set SEED_SHARED to the shared folder", path.display()));
    text.lines().map(|line| serde_json::from_str(line).expect("one JSON record a line")).collect()
}

/// A recorded walk as an episode, cut after the first step that reaches the goal.
fn walk(record: &Value) -> Trajectory {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let list = |value: &Value| value.as_array().map(|items| items.iter().map(text).collect::<Vec<_>>());
    let start = &record["start"];
    let (mut observation, mut admissible) =
        (text(&start["obs"]), list(&start["admissible"]).expect("a list"));
    let task = observation.split("Your task is to: ").nth(1).expect("a task").to_owned();
    let (mut steps, mut won) = (Vec::new(), false);
    for step in record["steps"].as_array().expect("steps") {
        steps.push(TrajectoryStep {
            observation: std::mem::replace(&mut observation, text(&step["obs"])),
            admissible: admissible.clone(),
            response: text(&step["action"]),
            action: text(&step["action"]),
            action_valid: Some(true),
            ..TrajectoryStep::default()
        });
        admissible = list(&step["admissible"]).unwrap_or(admissible);
        won = step["won"] == true;
        if won {
            break;
        }
    }
    let id = text(&record["game"]);
    Trajectory {
        environment: "alfworld".into(),
        task: Task {
            kind: id.split(['/', '-']).nth(2).unwrap_or_default().into(),
            id,
            split: "train".into(),
        },
        task_description: task,
        seed: 0,
        steps,
        final_observation: observation,
        outcome: Outcome { won, score: f64::from(u8::from(won)), truncated: !won },
    }
}

fn walks(kinds: &[&str]) -> Vec<Trajectory> {
    kinds.iter().flat_map(|kind| recordings(kind)).map(|record| walk(&record)).collect()
}

fn skill_of(episode: &Trajectory) -> Skill {
    ScriptedAnnotator::skill(episode, OutcomeLabel::of(episode)).expect("a skill")
}

fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// Object and target by the parts of the game's name, e.g. `pick_cool_then_place_in_recep-Mug-None-CoffeeMachine-3`.
fn names(episode: &Trajectory) -> (String, String) {
    let game = episode.task.id.split('/').find(|part| part.matches('-').count() >= 4).expect("a game name");
    let parts: Vec<&str> = game.split('-').collect();
    (parts[1].to_lowercase(), parts[3].to_lowercase())
}

#[test]
fn every_recorded_walk_gets_a_short_grounded_skill() {
    let walks = walks(&["expert", "oracle", "random", "biased", "invalid", "scripted"]);
    assert!(walks.len() > 200, "{} walks", walks.len());
    let (mut wins, mut different) = (0, std::collections::HashSet::new());
    for episode in &walks {
        let skill = skill_of(episode);
        let text = &skill.episode_skill;
        let count = text.split_whitespace().count();
        assert!((5..=WORD_LIMIT).contains(&count), "{count} words: {text}");
        assert_eq!(skill::accept(&skill, SkillMode::EpisodeOnly, Backend::Openai), Ok(()), "{text}");
        // The object of the task is always spoken of.
        let (object, _) = names(episode);
        assert!(words(text).contains(&object), "{object}: {text}");
        // Whatever could be an object or place of any of the games is one of this game.
        let here: Vec<String> = episode
            .steps
            .iter()
            .flat_map(|step| step.admissible.iter().chain([&step.observation, &step.action]))
            .chain([&episode.task_description, &episode.final_observation])
            .flat_map(|text| words(text))
            .collect();
        // Rules of the world, and words that join the others.
        let known = [
            "the",
            "a",
            "it",
            "is",
            "then",
            "to",
            "and",
            "or",
            "in",
            "on",
            "with",
            "from",
            "do",
            "not",
            "when",
            "you",
            "see",
            "go",
            "take",
            "open",
            "put",
            "move",
            "use",
            "heat",
            "cool",
            "clean",
            "hold",
            "while",
            "find",
            "look",
            "for",
            "before",
            "nothing",
            "happens",
            "same",
            "again",
            "back",
            "each",
            "place",
            "first",
            "one",
            "at",
            "time",
            "after",
            "that",
            "another",
            "other",
            "enough",
            "leave",
            "both",
            "second",
            "more",
            "there",
            "sinkbasin",
            "microwave",
            "fridge",
            "under",
            "some",
            "two",
            "them",
            "examine",
            "hot",
            "on",
        ];
        for word in words(text) {
            assert!(
                known.contains(&word.as_str()) || here.contains(&word),
                "`{word}` is nowhere in the episode: {text}"
            );
        }
        wins += usize::from(episode.outcome.won);
        different.insert(text.clone());
    }
    assert!(wins >= 50, "{wins} wins");
    assert!(
        different.len() * 3 > walks.len(),
        "{} different skills for {} walks",
        different.len(),
        walks.len()
    );
}

#[test]
fn a_success_names_where_the_object_was_taken() {
    let mut checked = 0;
    for episode in walks(&["expert", "oracle"]).iter().filter(|episode| episode.outcome.won) {
        let (object, target) = names(episode);
        let text = skill_of(episode).episode_skill;
        let takes: Vec<&str> = episode
            .steps
            .iter()
            .filter_map(|step| step.action.strip_prefix("take ")?.split_once(" from "))
            .filter(|(taken, _)| taken.split(' ').next() == Some(&object))
            .map(|(_, place)| place.split(' ').next().expect("a place"))
            .collect();
        assert!(!takes.is_empty(), "the goal needs the object");
        assert!(takes.iter().any(|place| words(&text).contains(&(*place).to_owned())), "{takes:?}: {text}");
        if target != "none" {
            assert!(words(&text).contains(&target), "{target}: {text}");
        }
        for (verb, place) in [("heat", "microwave"), ("cool", "fridge"), ("clean", "sinkbasin")] {
            if episode.task.id.contains(&format!("pick_{verb}_then")) {
                assert!(text.contains(&format!("{verb} the {object} with the {place}")), "{text}");
            }
        }
        checked += 1;
    }
    assert!(checked >= 50, "{checked} checked");
}

/// What a failure is blamed on is true.
#[test]
fn causes_of_failures_hold_in_the_recording() {
    let (mut not_found, mut not_taken, mut others) = (0, 0, 0);
    for episode in walks(&["random", "biased", "invalid"]).iter().filter(|episode| !episode.outcome.won) {
        let (object, _) = names(episode);
        let summary = skill_of(episode).episode_summary;
        let reachable = episode
            .steps
            .iter()
            .flat_map(|step| &step.admissible)
            .any(|command| command.starts_with(&format!("take {object} ")));
        let seen = episode
            .steps
            .iter()
            .skip(1)
            .map(|step| &step.observation)
            .chain([&episode.final_observation])
            .any(|text| text.contains(&format!(" {object} ")));
        let took = episode
            .steps
            .iter()
            .zip(
                episode
                    .steps
                    .iter()
                    .map(|step| &step.observation)
                    .skip(1)
                    .chain([&episode.final_observation]),
            )
            .any(|(step, after)| {
                step.action.trim().starts_with(&format!("take {object} ")) && !after.starts_with("Nothing")
            });
        if summary.contains("was not found") {
            assert!(!took && !reachable, "{summary}\n{}", episode.task.id);
            not_found += 1;
        } else if summary.contains("you did not take it") {
            assert!((seen || reachable) && !took, "{summary}\n{}", episode.task.id);
            not_taken += 1;
        } else {
            assert!(took, "{summary}\n{}", episode.task.id);
            others += 1;
        }
    }
    assert!(not_found > 5 && not_taken > 5 && others > 5, "{not_found} {not_taken} {others}");
}

#[track_caller]
fn says(task: &str, steps: &[(&str, &str)], won: bool, expected: &str) {
    const ROOM: &str = "You are in the middle of a room. Looking quickly around you, you see a cabinet 1, a drawer 1, \
        a fridge 1, a microwave 1, and a shelf 1.\n\n";
    let start = format!("{ROOM}Your task is to: {task}.");
    let mut list: Vec<(&str, &str, &str)> = Vec::new();
    let mut seen = start.as_str();
    for (action, after) in steps {
        list.push((seen, action, action));
        seen = after;
    }
    let skill = skill_of(&episode("alfworld", task, &list, seen, won));
    assert_eq!(skill.episode_skill, expected);
}

#[test]
fn lessons_of_single_episodes() {
    says(
        "put a hot mug in shelf",
        &[
            ("go to cabinet 1", "You arrive at cabinet 1. The cabinet 1 is closed."),
            (
                "open cabinet 1",
                "You open the cabinet 1. The cabinet 1 is open. In it, you see a mug 1, and a plate 1.",
            ),
            ("take mug 1 from cabinet 1", "You pick up the mug 1 from the cabinet 1."),
            ("go to microwave 1", "You arrive at microwave 1. The microwave 1 is closed."),
            ("heat mug 1 with microwave 1", "You heat the mug 1 using the microwave 1."),
            ("go to shelf 1", "You arrive at shelf 1. On the shelf 1, you see nothing."),
            ("move mug 1 to shelf 1", "You move the mug 1 to the shelf 1."),
        ],
        true,
        "To put a hot mug in shelf, open the cabinet and take the mug. Then heat the mug with the microwave and move it to the shelf.",
    );
    says(
        "put a hot mug in shelf",
        &[
            ("go to drawer 1", "On the drawer 1, you see a mug 1."),
            ("take mug 1 from drawer 1", "You pick up the mug 1 from the drawer 1."),
            ("go to shelf 1", "On the shelf 1, you see nothing."),
            ("put mug 1 in/on shelf 1", "You put the mug 1 in/on the shelf 1."),
        ],
        false,
        "To put a hot mug in shelf: Do not put the mug in/on the shelf before you heat it. Then heat the mug with the microwave and put it in/on the shelf.",
    );
    says(
        "put some mug on shelf",
        &[
            ("go to cabinet 1", "The cabinet 1 is closed."),
            ("go to shelf 1", "On the shelf 1, you see a cup 1."),
            ("take cup 1 from shelf 1", "You pick up the cup 1 from the shelf 1."),
            ("take mug 1 from shelf 1", "Nothing happens."),
        ],
        false,
        "To put some mug on shelf: Open the cabinet before you go on. Look in the cabinet, drawer and fridge for the mug. Do not go back to the same shelf. Do not take the cup.",
    );
    says(
        "put two egg in fridge",
        &[
            ("go to shelf 1", "On the shelf 1, you see a egg 1, and a egg 2."),
            ("take egg 1 from shelf 1", "You pick up the egg 1 from the shelf 1."),
            ("go to fridge 1", "The fridge 1 is closed."),
            ("open fridge 1", "You open the fridge 1. The fridge 1 is open. In it, you see nothing."),
            ("move egg 1 to fridge 1", "You move the egg 1 to the fridge 1."),
            ("look", "Nothing happens."),
            ("dance", "Nothing happens."),
        ],
        false,
        "To put two egg in fridge: One egg is not enough. Take another egg from the shelf. Then move it to the fridge. When nothing happens, do not do the same again.",
    );
    says(
        "look at book under the desklamp",
        &[
            ("go to drawer 1", "On the drawer 1, you see a book 2, and a desklamp 1."),
            ("use desklamp 1", "You turn on the desklamp 1."),
            ("take book 2 from drawer 1", "You pick up the book 2 from the drawer 1."),
        ],
        false,
        "To look at book under the desklamp: Do not use the desklamp before you hold the book. Take the book first. Then go to the drawer and use the desklamp while you hold the book.",
    );
}

/// The household world words its own lessons; here they become skills with a summary.
#[test]
fn household_episodes_become_skills() {
    const HOUSE: &str = "You are in the kitchen. You see cabinet 1, fridge 1, oven 1, table 1.\nYour task is to: put a hot mug on a table.";
    let steps = [
        (HOUSE, "go to cabinet 1", "go to cabinet 1"),
        ("The cabinet 1 is closed.", "open cabinet 1", "open cabinet 1"),
        (
            "You open the cabinet 1. In it you see mug 1, plate 1.",
            "take mug 1 from cabinet 1",
            "take mug 1 from cabinet 1",
        ),
    ];
    let failed = episode(
        "household",
        "put a hot mug on a table",
        &steps,
        "You take the mug 1 from the cabinet 1.",
        false,
    );
    let skill = skill_of(&failed);
    assert_eq!(skill.episode_summary, "The task is not done. The mug was at cabinet 1.");
    for part in ["Go to cabinet 1, open it and take mug 1.", "Go to oven 1 and heat it.", "Go to table 1"] {
        assert!(skill.episode_skill.contains(part), "{}", skill.episode_skill);
    }
    let annotation = ScriptedAnnotator::for_environment("household").annotate(&failed).expect("a skill");
    assert!(annotation.prompt.ends_with("\nOutcome: failure\nWrite the skill."), "{}", annotation.prompt);
    assert_eq!(skill::parse(&annotation.answer, SkillMode::EpisodeOnly).expect("own JSON"), annotation.skill);
}

/// What the tiny policy has to read and write falls into whole words of its vocabulary, and stays short.
#[test]
fn household_skills_fit_the_tiny_vocabulary() {
    let known: std::collections::HashSet<String> = vocabulary::pieces().into_iter().collect();
    let cut = regex::Regex::new(r" ?[\p{L}_]+| ?\p{N}| ?[^\s\p{L}\p{N}_]+|\s+").expect("a valid pattern");
    let base = Demonstrator::new(Household::default(), Habits::BASE, 11);
    let annotator = ScriptedAnnotator::for_environment("household");
    let block = SkillBlock::embedded("household");
    let (mut count, mut words, mut wins) = (0, 0, 0);
    let mut broken = std::collections::BTreeSet::new();
    for index in 0..120 {
        let episode = base.plain(index).expect("the engine plays our games").trajectory;
        let annotation = annotator.annotate(&episode).expect("a skill");
        let text = &annotation.skill.episode_skill;
        let frame: String = annotation
            .prompt
            .lines()
            .filter(|line| {
                !episode
                    .steps
                    .iter()
                    .any(|step| step.observation.contains(line) || step.response.contains(line))
            })
            .collect::<Vec<_>>()
            .join("\n");
        for text in [&annotation.answer, &block.render(text, SkillKind::Episode), &frame] {
            let pieces = cut.find_iter(text).map(|piece| piece.as_str().replace(' ', "Ġ").replace('\n', "Ċ"));
            broken.extend(pieces.filter(|piece| !known.contains(piece)));
        }
        count += 1;
        words += text.split_whitespace().count();
        wins += usize::from(episode.outcome.won);
        // A success says how; a failure says what to do instead.
        assert!(text.contains("Go to") || text.contains("Search") || text.contains("hold"), "{text}");
    }
    assert!(broken.is_empty(), "not in the vocabulary: {broken:?}");
    assert!(wins > 10 && wins < 110, "{wins} wins");
    // The world words these lessons itself: about as long as ours, two objects a little longer.
    assert!(words <= 45 * count, "{} words on average", words / count);
}

#[test]
fn other_environments_get_what_their_steps_say() {
    let shop = episode(
        "webshop",
        "find me a mug",
        &[
            ("WebShop", "r", "search[mug]"),
            ("page 1", "r", "click[b01]"),
            ("product", "r", "click[next >]"),
            ("product", "r", "click[next >]"),
            ("product", "r", "click[next >]"),
        ],
        "product",
        false,
    );
    let skill = skill_of(&shop).episode_skill;
    assert!(
        skill.contains("click[buy now]") && skill.contains("`click[next >]`: it was done 3 times"),
        "{skill}"
    );

    let question = episode("search_qa", "who?", &[("", "r", "<answer>me</answer>")], "", false);
    assert!(skill_of(&question).episode_skill.contains("Search before you answer"));

    let unknown = episode("own_world", "", &[("a", "r", "push red"), ("b", "r", "push blue")], "c", true);
    let skill = skill_of(&unknown);
    assert_eq!(skill.episode_skill, "Do `push red`, then `push blue` in this order.");
    assert_eq!(skill.episode_summary, "The goal was reached after 2 steps.");
}

#[test]
fn the_annotation_is_a_training_example() {
    let episode = &walks(&["oracle"])[0];
    let annotation = ScriptedAnnotator::for_environment("alfworld").annotate(episode).expect("a skill");
    assert!(annotation.prompt.contains(&episode.task_description));
    assert_eq!(skill::parse(&annotation.answer, SkillMode::EpisodeOnly).expect("own JSON"), annotation.skill);
}

proptest! {
    /// Whatever stands in an episode, the annotator says something and stays within its limit.
    #[test]
    fn no_episode_breaks_the_annotator(
        environment in "(alfworld|household|webshop|search_qa|sokoban|other)",
        task in "(put a (hot |clean |)mug on a table|look at a book under a lamp|put two eggs in fridge|find [a-z]{1,5} and put it|.{0,20})",
        steps in proptest::collection::vec(
            ("(On the table 1 you see mug 1, egg 2\\.|The fridge 1 is closed\\.|Nothing happens\\.|.{0,30})",
             "(go to table 1|open fridge 1|take mug 1 from table 1|move mug 1 to table 1|put mug 1 in/on table 1|heat mug 1 with oven 1|use lamp 1|search\\[.{0,9}\\]|<answer>.{0,5}</answer>|.{0,20})"),
            1..12,
        ),
        won: bool,
    ) {
        let steps: Vec<(&str, &str, &str)> = steps.iter().map(|(seen, act)| (seen.as_str(), act.as_str(), act.as_str())).collect();
        let episode = episode(&environment, &task, &steps, "end", won);
        for outcome in [OutcomeLabel::Success, OutcomeLabel::Failure, OutcomeLabel::Unknown] {
            let skill = ScriptedAnnotator::skill(&episode, outcome).expect("a skill");
            prop_assert!(!skill.episode_skill.trim().is_empty());
            let json = skill.to_json();
            prop_assert!(skill::parse(&json, SkillMode::EpisodeOnly).is_ok(), "{}", json);
        }
    }
}
