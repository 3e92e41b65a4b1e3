//! Players with bad habits on real games.

use crate::shared::data;
use seed_envs::alfworld::demonstration::{Demonstrator, Habits};
use seed_envs::alfworld::{AlfWorld, AlfWorldOptions};
use std::collections::HashSet;

fn player(habits: Habits, max_steps: usize) -> Demonstrator {
    let options = AlfWorldOptions { max_steps, ..AlfWorldOptions::default() };
    let world = AlfWorld::open(data(), options).expect("games");
    Demonstrator::new(world, habits, 7).expect("training games")
}

/// The share of the first `count` episodes that are won, with or without a lesson.
fn success(player: &Demonstrator, lesson: Option<&str>, count: u64) -> f64 {
    let won = (0..count).filter(|&index| {
        let (episode, _) =
            player.demonstrate(index, |_| lesson.map(str::to_owned)).expect("the engine plays real games");
        episode.outcome.won
    });
    won.count() as f64 / count as f64
}

#[test]
fn bad_habits_cost_games_and_a_lesson_wins_some_back() {
    let base = player(Habits::BASE, 30);
    let plain = success(&base, None, 120);
    let guided = success(&base, Some("Open it first. Then heat, cool or clean it, and use the lamp."), 120);
    assert!(guided > plain, "a lesson takes it from {plain} to {guided}");
    let good = success(&player(Habits::GOOD, 50), None, 120);
    assert!(good >= 0.95 && good > plain, "without bad habits {good}, with them {plain}");
}

#[test]
fn demonstrations_are_the_same_every_time_and_pass_over_all_games() {
    let (base, other) = (player(Habits::BASE, 30), player(Habits::BASE, 30));
    let annotate =
        |index: u64| move |_: &seed_envs::Trajectory| (index % 2 == 1).then(|| "Open the fridge.".to_owned());
    let games: HashSet<String> = (0..60)
        .map(|index| {
            let one = base.demonstrate(index, annotate(index)).expect("a game");
            assert_eq!(one, other.demonstrate(index, annotate(index)).expect("a game"));
            assert_eq!(one.0.task.split, "train");
            one.0.task.id
        })
        .collect();
    assert_eq!(games.len(), 60, "no game comes twice in a pass");
}

#[test]
fn a_player_takes_only_what_it_has_seen() {
    let player = player(Habits::GOOD, 50);
    for index in 0..60 {
        let (episode, _) = player.demonstrate(index, |_| None).expect("a game");
        let mut seen = String::new();
        for step in &episode.steps {
            // A blank on both sides, so that `mug 1` is not found in `mug 12`.
            seen.push_str(&step.observation.replace([',', '.', '\n'], " "));
            seen.push(' ');
            if let Some((object, _)) =
                step.action.strip_prefix("take ").and_then(|rest| rest.split_once(" from "))
            {
                assert!(
                    seen.contains(&format!(" {object} ")),
                    "{}: `{}` before it was seen",
                    episode.task.id,
                    step.action
                );
            }
        }
    }
}
