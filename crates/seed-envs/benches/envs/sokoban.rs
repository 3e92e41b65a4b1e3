//! Sokoban: rooms, steps in text, steps with frames; and `gym-sokoban` in the same run.

use crate::clock::per_second;
use crate::peer;
use seed_envs::pyrandom::PythonRandom;
use seed_envs::sokoban::{Game, Ground, Move, Room, RoomConfig, Sokoban, SokobanOptions, View, solve};
use seed_envs::{Environment, Suite};
use serde_json::{Value, json};
use std::hint::black_box;

/// Episodes and steps that both sides play.
const EPISODES: usize = 40;
const STEPS: usize = 15;

/// Steps of random moves through the interface that trainers use, from environments that are reset already.
fn steps(view: View) -> Result<f64, String> {
    let options = SokobanOptions { view, ..SokobanOptions::default() };
    let suite = Sokoban::open(options).map_err(|error| error.to_string())?;
    let tasks = suite.tasks("train").map_err(|error| error.to_string())?;
    let mut starts = Vec::new();
    for task in tasks.iter().take(64) {
        let mut environment = suite.environment();
        environment.reset(task, 0).map_err(|error| error.to_string())?;
        starts.push(environment);
    }
    let mut random = PythonRandom::from_int(0);
    let moves: Vec<&str> = (0..4096).map(|_| Move::ALL[random.below(4) as usize].name()).collect();
    Ok(per_second(|round| {
        let mut environment: Box<dyn Environment> = starts[round % starts.len()].snapshot();
        let mut count = 0;
        for number in 0..STEPS {
            let Ok(step) = environment.step(moves[(round * STEPS + number) % moves.len()]) else { break };
            count += 1;
            if black_box(&step).is_last() {
                break;
            }
        }
        count
    }))
}

/// The same moves by the rules alone: step and text, as the package beside does them. The interface also copies the last
/// step and looks for a dead end.
fn bare_steps() -> f64 {
    let base = RoomConfig::default();
    let rooms: Vec<Room> =
        (0..64).filter_map(|seed| base.generate(seed).ok()).map(|made| made.room).collect();
    let mut random = PythonRandom::from_int(0);
    let moves: Vec<Move> = (0..4096).map(|_| Move::ALL[random.below(4) as usize]).collect();
    per_second(|round| {
        let mut game = Game::new(rooms[round % rooms.len()].clone(), STEPS);
        for number in 0..STEPS {
            black_box(game.step(Some(moves[(round * STEPS + number) % moves.len()])));
            black_box(game.room().text());
        }
        STEPS
    })
}

fn rooms(config: RoomConfig) -> f64 {
    per_second(|round| {
        (0..16).filter(|seed| black_box(config.generate(round as u32 * 16 + seed)).is_ok()).count()
    })
}

/// The reference's digits of a room, ground and state.
fn digits(room: &Room) -> (Vec<u8>, Vec<u8>) {
    let ground = |ground: &Ground| match ground {
        Ground::Wall => 0,
        Ground::Floor => 1,
        Ground::Target => 2,
    };
    let state = (0..room.ground().len()).map(|cell| room.tile(cell).code()).collect();
    (room.ground().iter().map(ground).collect(), state)
}

/// The benchmark. `--peer PYTHON` also runs the package with that interpreter.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let peer = peer::interpreter(arguments, "sokoban")?;
    println!("sokoban, CPU time of one thread");
    let base = RoomConfig::default();
    let made = rooms(base);
    println!("rooms a second, 6 x 6, 1 box, depth 30              {made:12.0}");
    let deep = rooms(RoomConfig { search_depth: 300, ..base });
    println!("rooms a second, 6 x 6, 1 box, depth 300             {deep:12.0}");
    let two = rooms(RoomConfig { boxes: 2, ..base });
    println!("rooms a second, 6 x 6, 2 boxes, depth 30            {two:12.0}");
    let large = rooms(RoomConfig { rows: 8, columns: 8, boxes: 2, search_depth: 100, ..base });
    println!("rooms a second, 8 x 8, 2 boxes, depth 100           {large:12.0}");
    let text = steps(View::Text)?;
    println!("steps a second, text                                {text:12.0}");
    let bare = bare_steps();
    println!("  by the rules alone                                {bare:12.0}");
    let rgb = steps(View::Rgb)?;
    println!("steps a second, 96 x 96 frames                      {rgb:12.0}");
    let plans = {
        let rooms: Vec<Room> =
            (0..64).filter_map(|seed| base.generate(seed).ok()).map(|made| made.room).collect();
        per_second(|round| {
            black_box(solve(&rooms[round % rooms.len()]));
            1
        })
    };
    println!("shortest plans a second, 6 x 6, 1 box               {plans:12.0}");

    let Some(python) = peer else {
        println!(
            "`--peer PYTHON` runs `gym-sokoban` beside it (specification: 256 rooms, 8934 text steps, 140 frames)"
        );
        return Ok(());
    };
    let mut random = PythonRandom::from_int(1);
    let mut work = Vec::new();
    let mut ours = Vec::new();
    for seed in 0..EPISODES as u32 {
        let room = base.generate(seed).map_err(|error| error.to_string())?.room;
        let (fixed, state) = digits(&room);
        let actions: Vec<usize> = (0..STEPS).map(|_| 1 + random.below(4) as usize).collect();
        let mut game = Game::new(room, STEPS);
        for &action in &actions {
            let turn = game.step(Some(Move::ALL[action - 1]));
            ours.push(json!([digits(game.room()).1, turn.reward, turn.done, game.room().text()]));
        }
        work.push(json!({ "rows": 6, "columns": 6, "fixed": fixed, "state": state, "actions": actions }));
    }
    let hint = "install it there: pip install gym-sokoban==0.0.6 gym==0.26.2 'numpy<2' imageio";
    let result = peer::run(&python, include_str!("sokoban_peer.py"), &Value::Array(work), hint)?;
    let (compared, different) = peer::compare(&ours, peer::list(&result, "answers")?);
    println!("gym-sokoban: {compared} answers compared, {different} differ");
    for (what, key, ours) in [
        ("rooms (its own search: eight moves)", "rooms", made),
        ("text steps, with dead-end test", "text", text),
        ("text steps, by the rules alone", "text", bare),
        ("steps with frames", "rgb", rgb),
    ] {
        let theirs = peer::number(&result, key)?;
        println!("{what:40} {theirs:10.1} a second, ratio {:8.0}x", ours / theirs);
    }
    Ok(())
}
