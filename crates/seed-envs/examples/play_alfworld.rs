//! ALFWorld from somebody else's program: `cargo run --release -p seed-envs --example play_alfworld [FOLDER [SPLIT]]`.
//!
//! `FOLDER` is `$ALFWORLD_DATA` or any folder in one of its layouts. The program plays every game of the split with
//! random commands and once with the shortest plan, on all cores, and prints how often each wins.

use seed_envs::alfworld::{AlfWorld, AlfWorldOptions};
use seed_envs::pyrandom::PythonRandom;
use seed_envs::runner::Runner;
use seed_envs::{EnvError, Suite, Task};

fn main() -> Result<(), EnvError> {
    let mut arguments = std::env::args().skip(1);
    // The environment's own score as reward: 1 when won.
    let options = AlfWorldOptions { win_reward: 1.0, ..AlfWorldOptions::default() };
    let suite = match arguments.next() {
        Some(folder) => AlfWorld::open(folder, options)?,
        None => AlfWorld::from_env(options)?,
    };
    let split = arguments.next().unwrap_or_else(|| "valid_unseen".into());
    let tasks = suite.tasks(&split)?;
    for problem in suite.report(&split)?.broken {
        eprintln!("left out: {problem}");
    }

    // One slot a game; episodes end when they end.
    let mut runner = Runner::new(&suite, tasks.len());
    let episodes: Vec<(usize, &Task, u64)> =
        tasks.iter().enumerate().map(|(slot, task)| (slot, task, 0)).collect();
    let mut lists = Vec::new();
    for (_, observation) in runner.reset(&episodes) {
        lists.push(observation?.admissible.unwrap_or_default());
    }
    let mut random = PythonRandom::from_int(0);
    let (mut steps, mut reward) = (0, 0.0);
    while !runner.running().is_empty() {
        let draw = |slot: usize| (slot, random.choice(&lists[slot]).cloned().unwrap_or_default());
        let actions: Vec<(usize, String)> = runner.running().into_iter().map(draw).collect();
        for (slot, step) in runner.step(&actions) {
            let step = step?;
            steps += 1;
            reward += step.reward;
            lists[slot] = step.observation.admissible.unwrap_or_default();
        }
    }
    println!("random: {steps} steps, {reward} of {} games won", tasks.len());

    let (mut won, mut commands) = (0, 0);
    for task in tasks.iter() {
        let mut play = suite.game(task)?.start();
        if let Ok(plan) = play.plan() {
            plan.commands.iter().for_each(|command| drop(play.step(command)));
            commands += plan.commands.len();
            won += usize::from(play.won());
        }
    }
    println!("planned: {commands} commands, {won} of {} games won", tasks.len());
    Ok(())
}
