//! ALFWorld: loading, stepping, planning, memory; and the official package in the same run.
//!
//! The workload is that of `../shared/spec/alfworld.md` §15.1: games of form 2.1.2, 50 uniformly drawn admissible
//! commands each, observation and admissible list made at every step.

use crate::clock::{processor_seconds, resident};
use crate::peer;
use rayon::prelude::*;
use seed_envs::alfworld::{AlfWorld, AlfWorldOptions, GameState, open_game};
use seed_envs::pyrandom::PythonRandom;
use seed_envs::{Environment, Suite};
use serde_json::json;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Steps of a walk.
const STEPS: usize = 50;
/// Games of the workload.
const GAMES: usize = 12;
/// Games and steps that the slow peer plays.
const PEER: (usize, usize) = (6, 30);
/// Figures of the official package where it does not run: CPU seconds (specification, §15.1).
const OFFICIAL_STEPS_PER_SECOND: f64 = 8.8;
const OFFICIAL_SECONDS_PER_RESET: f64 = 2.76;

fn data() -> Result<PathBuf, String> {
    let shared = std::env::var_os("SEED_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let data = shared.join("data/alfworld");
    if data.is_dir() { Ok(data) } else { Err(format!("no folder {}: set SEED_SHARED", data.display())) }
}

fn game_files(data: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![data.join("games/2.1.2")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else if entry.file_name() == "game.tw-pddl" {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    let every = (files.len() / GAMES).max(1);
    files.into_iter().step_by(every).take(GAMES).collect()
}

/// One walk of random admissible commands; returns the bytes that were read, so that nothing is left out.
fn walk(start: &GameState, seed: usize) -> usize {
    let mut play = start.clone();
    let mut random = PythonRandom::from_int(seed as i128);
    let mut bytes = 0;
    for _ in 0..STEPS {
        let list = play.admissible();
        let command = random.choice(list).cloned().unwrap_or_default();
        let turn = play.step(&command);
        bytes += turn.text.len() + black_box(play.admissible()).len();
    }
    bytes
}

/// The same through the interface that trainers use.
fn walk_environment(environment: &mut dyn Environment, suite: &AlfWorld, task: usize, seed: usize) -> usize {
    let tasks = suite.tasks("train").unwrap_or_default();
    let Ok(first) = environment.reset(&tasks[task % tasks.len()], 0) else { return 0 };
    let mut list = first.admissible;
    let mut random = PythonRandom::from_int(seed as i128);
    let mut steps = 0;
    while let Some(commands) = &list {
        let command = random.choice(commands).cloned().unwrap_or_default();
        let Ok(step) = environment.step(&command) else { break };
        steps += 1;
        if step.is_last() {
            break;
        }
        list = step.observation.admissible;
    }
    steps
}

/// The benchmark. `--peer PYTHON` also runs the official package with that interpreter.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let peer = peer::interpreter(arguments, "alfworld")?;
    let data = data()?;
    let files = game_files(&data);
    println!("alfworld, {} cores, {} games of form 2.1.2", rayon::current_num_threads(), files.len());

    // Loading: one file from disk to a game that can be played, JSON, three parsers and grounding included.
    let rounds = 20;
    let start = processor_seconds();
    for _ in 0..rounds {
        for file in &files {
            black_box(open_game(file).map_err(|error| error.to_string())?);
        }
    }
    let load = (processor_seconds() - start) / (rounds * files.len()) as f64;
    println!("load one game (file to first state), CPU time  {:10.3} ms", load * 1e3);

    let games: Vec<_> = files
        .iter()
        .map(|file| open_game(file).map(|(game, _)| game))
        .collect::<Result<_, _>>()
        .map_err(|e| e.to_string())?;
    let plays: Vec<GameState> = games.iter().map(|game| game.start()).collect();
    let start = Instant::now();
    let rounds = 2000;
    for _ in 0..rounds {
        for game in &games {
            black_box(game.start().introduction());
        }
    }
    let reset = start.elapsed().as_secs_f64() / (rounds * games.len()) as f64;
    println!("reset a loaded game                            {:10.3} ms", reset * 1e3);

    let rounds = 100;
    let start = processor_seconds();
    for round in 0..rounds {
        for play in &plays {
            black_box(walk(play, round));
        }
    }
    let steps = (rounds * plays.len() * STEPS) as f64;
    let one_core = steps / (processor_seconds() - start);
    println!("steps per CPU second, one core                 {one_core:10.0}");
    let start = Instant::now();
    let jobs: Vec<(usize, &GameState)> =
        (0..rounds * 2).flat_map(|round| plays.iter().map(move |play| (round, play))).collect();
    let bytes: usize = jobs.par_iter().map(|(round, play)| walk(play, *round)).sum();
    black_box(bytes);
    let all_cores = 2.0 * steps / start.elapsed().as_secs_f64();
    println!("steps per second, all cores                    {all_cores:10.0}");

    let start = Instant::now();
    let mut longest = 0f64;
    let mut commands = 0;
    for play in &plays {
        let one = Instant::now();
        commands += play.plan().map_err(|error| error.to_string())?.commands.len();
        longest = longest.max(one.elapsed().as_secs_f64());
    }
    let plan = start.elapsed().as_secs_f64() / plays.len() as f64;
    let mean = commands as f64 / plays.len() as f64;
    println!(
        "shortest plan ({mean:.1} commands on average)      {:10.3} ms, at most {:.3} ms",
        plan * 1e3,
        longest * 1e3
    );

    let play_bytes: usize = plays.iter().map(GameState::memory).sum::<usize>() / plays.len();
    let game_bytes: usize = games.iter().map(|game| game.memory()).sum::<usize>() / games.len();
    println!("memory of one play                             {:10.1} kB", play_bytes as f64 / 1e3);
    println!("memory of one compiled game (shared)           {:10.1} kB", game_bytes as f64 / 1e3);
    drop((plays, games));

    let before = resident();
    let start = Instant::now();
    let suite = AlfWorld::open(&data, AlfWorldOptions::default()).map_err(|error| error.to_string())?;
    let tasks = suite.tasks("train").map_err(|error| error.to_string())?;
    let seconds = start.elapsed().as_secs_f64();
    let kept = suite.memory("train").map_err(|error| error.to_string())?;
    println!(
        "load the {} training games (compact form)     {seconds:10.2} s, kept {:.1} MB",
        tasks.len(),
        kept as f64 / 1e6
    );
    let loaded = resident();
    if let (Some(before), Some(after)) = (before, loaded) {
        println!(
            "  resident memory grew by                      {:10.1} MB",
            after.saturating_sub(before) as f64 / 1e6
        );
    }
    let start = Instant::now();
    let mut environments: Vec<(usize, Box<dyn Environment>)> =
        (0..256).map(|n| (n * 13, suite.environment())).collect();
    environments.par_iter_mut().for_each(|(task, environment)| {
        if let Err(error) = environment.reset(&tasks[*task % tasks.len()], 0) {
            eprintln!("{error}");
        }
    });
    println!("reset 256 environments, 256 different games    {:10.3} s", start.elapsed().as_secs_f64());
    if let (Some(before), Some(after)) = (loaded, resident()) {
        println!(
            "  resident memory grew by                      {:10.1} MB",
            after.saturating_sub(before) as f64 / 1e6
        );
        println!("  resident memory of the whole process         {:10.1} MB", after as f64 / 1e6);
    }
    let start = Instant::now();
    let steps: usize = environments
        .par_iter_mut()
        .map(|(task, environment)| walk_environment(environment.as_mut(), &suite, *task, 1))
        .sum();
    let rate = steps as f64 / start.elapsed().as_secs_f64();
    println!("256 episodes with reset, steps per second      {rate:10.0}");

    let (official_steps, official_reset, source) = match peer {
        Some(python) => {
            let (steps, reset) = run_peer(&python, &files)?;
            (steps, reset, "measured in this run")
        }
        None => {
            (OFFICIAL_STEPS_PER_SECOND, OFFICIAL_SECONDS_PER_RESET, "specification, not measured in this run")
        }
    };
    println!(
        "official package ({source}): {official_steps:.2} steps per CPU second, {official_reset:.2} CPU s per reset"
    );
    println!("ratio, steps on one core                       {:10.0}x", one_core / official_steps);
    println!("ratio, steps on all cores to one official core {:10.0}x", all_cores / official_steps);
    println!("ratio, loading a game                          {:10.0}x", official_reset / load);
    Ok(())
}

/// Plays walks of ours on the official package, compares every answer and returns its steps per CPU second and CPU
/// seconds per reset.
fn run_peer(python: &str, files: &[PathBuf]) -> Result<(f64, f64), String> {
    let (games, steps) = PEER;
    let mut walks = Vec::new();
    let mut ours = Vec::new();
    for (seed, file) in files.iter().step_by((files.len() / games).max(1)).take(games).enumerate() {
        let (game, _) = open_game(file).map_err(|error| error.to_string())?;
        let mut play = game.start();
        let mut random = PythonRandom::from_int(seed as i128);
        let mut commands = Vec::new();
        let mut answers = vec![json!([play.introduction(), play.admissible()[..], play.won()])];
        for _ in 0..steps {
            let command = random.choice(play.admissible()).cloned().unwrap_or_default();
            let text = play.step(&command).text;
            answers.push(json!([text, play.admissible()[..], play.won()]));
            commands.push(command);
            if play.won() {
                break;
            }
        }
        walks.push(json!({ "file": file, "commands": commands }));
        ours.push(answers);
    }
    let hint = "is `alfworld` installed there?";
    let result = peer::run(python, include_str!("alfworld_peer.py"), &json!(walks), hint)?;
    let (compared, different) = peer::compare_walks(&ours, peer::list(&result, "answers")?)?;
    println!("official package: {compared} answers compared, {different} differ");
    Ok((peer::number(&result, "steps_per_cpu_second")?, peer::number(&result, "cpu_seconds_per_reset")?))
}
