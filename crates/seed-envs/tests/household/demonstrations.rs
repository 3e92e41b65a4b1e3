//! Lessons from episodes, and players that follow them.

use seed_envs::household::advice::Advice;
use seed_envs::household::demonstration::{Demonstrator, Habits};
use seed_envs::household::lesson::{Lesson, TaskWords};
use seed_envs::household::{Difficulty, Game, Household, Split, TaskKind};

/// The share of `count` episodes that are won.
fn success(demonstrator: &Demonstrator, guided: bool, count: u64) -> f64 {
    let won = (0..count).filter(|&index| {
        let made = if guided { demonstrator.guided(index) } else { demonstrator.plain(index) };
        made.expect("the engine plays our games").trajectory.outcome.won
    });
    won.count() as f64 / count as f64
}

#[test]
fn the_base_player_is_weak_and_a_lesson_helps() {
    let base = Demonstrator::new(Household::default(), Habits::BASE, 7);
    let (plain, guided) = (success(&base, false, 240), success(&base, true, 240));
    assert!((0.15..=0.4).contains(&plain), "the base player wins {plain}");
    assert!(guided > plain + 0.25, "a lesson lifts it from {plain} to {guided} only");
    let good = success(&Demonstrator::new(Household::default(), Habits::GOOD, 7), false, 240);
    assert!(good > 0.85, "a player without bad habits wins {good} only");
}

#[test]
fn demonstrations_are_the_same_every_time_and_stay_in_training() {
    let make = || Demonstrator::new(Household::default(), Habits::BASE, 3);
    for index in 0..6 {
        let one = make().guided(index).expect("the engine plays our games");
        assert_eq!(one, make().guided(index).expect("the engine plays our games"));
        let source = one.guidance.expect("our annotator always has something to say").source;
        assert_eq!((source.task.split.as_str(), &source.task), ("train", &one.trajectory.task));
    }
}

#[test]
fn lessons_name_only_what_the_episode_shows() {
    let base = Demonstrator::new(Household::default(), Habits::BASE, 11);
    for index in 0..120 {
        let made = base.guided(index).expect("the engine plays our games");
        let guidance = made.guidance.expect("our annotator always has something to say");
        let seen: String =
            guidance.source.steps.iter().map(|step| step.observation.as_str()).collect::<Vec<_>>().join("\n")
                + &guidance.source.final_observation;
        let lesson = Lesson::from_trajectory(&guidance.source).expect("a task of this world");
        let finds = lesson.found.iter().chain(&lesson.lamp);
        let named = finds
            .flat_map(|find| [&find.object, &find.receptacle])
            .chain(&lesson.searched)
            .chain(&lesson.target);
        for name in named {
            assert!(
                seen.contains(name.as_str()),
                "{}: `{name}` is not in the episode",
                guidance.source.task.id
            );
        }
        // What the lesson says about places is true in the game.
        let game = Game::generate(Split::Train, Difficulty::default(), guidance.source.seed);
        let (objects, receptacles) = (game.object_names(), game.layout.names());
        for find in &lesson.found {
            let at =
                objects.iter().position(|name| *name == find.object).map(|object| game.objects[object].at);
            let moved = guidance
                .source
                .steps
                .iter()
                .any(|step| step.action.starts_with(&format!("move {}", find.object)));
            assert!(
                moved || at.map(|at| &receptacles[at]) == Some(&find.receptacle),
                "{}",
                guidance.source.task.id
            );
        }
    }
}

#[test]
fn task_words_survive_both_wordings() {
    for seed in 0..300 {
        let mut goal = Game::generate(Split::ValidUnseen, Difficulty::default(), seed).goal;
        for wording in 0..2 {
            goal.wording = wording;
            let words = TaskWords::parse(&goal.text()).expect("a task of this world");
            assert_eq!((words.object, words.target), (goal.object.name, goal.target), "{}", goal.text());
            let treatment = match goal.kind {
                TaskKind::Treat(treatment) => Some(treatment),
                _ => None,
            };
            assert_eq!(words.treatment, treatment, "{}", goal.text());
            assert_eq!(
                (words.two, words.under_lamp()),
                (goal.kind == TaskKind::PickTwo, goal.kind == TaskKind::Look)
            );
        }
    }
    assert_eq!(TaskWords::parse("write a poem"), None);
}

#[test]
fn advice_is_read_from_anybodys_words() {
    let task = TaskWords::parse("put a hot mug on a table").expect("a task of this world");
    let advice = Advice::read(
        "To put a hot mug on a table, open the cabinet and take the mug. Then heat it with the oven and move it to the \
         table. Do not look around, and do not go back to shelf 2.",
        &task,
    );
    assert_eq!(advice.places, ["cabinet"]);
    assert_eq!(advice.avoid, ["shelf 2"]);
    assert!(advice.opens && advice.completes && advice.hurries && advice.advances);
    assert_eq!(Advice::read("", &task), Advice::default());
}
