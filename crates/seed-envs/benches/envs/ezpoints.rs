//! EZPoints: deals, steps in text, steps with frames; and RL4VLM's `gym_cards` in the same run.

use crate::clock::per_second;
use crate::peer;
use seed_envs::ezpoints::card::deal_ezpoints;
use seed_envs::ezpoints::frame::Painter;
use seed_envs::ezpoints::{CardGames, CardOptions, CardView, Points};
use seed_envs::projection::CardGame;
use seed_envs::{Environment, Suite};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::hint::black_box;
use std::path::{Path, PathBuf};

/// Episodes that both sides play.
const EPISODES: u32 = 24;

fn open(view: CardView) -> Result<CardGames, String> {
    CardGames::open(CardOptions { view, ..CardOptions::new(CardGame::EzPoints) })
        .map_err(|error| error.to_string())
}

/// A right formula of a deal, token by token, `=` last.
fn solution(seed: u32) -> Vec<usize> {
    let mut game = Points::ezpoints(seed);
    let mut tokens = Vec::new();
    while let Some(token) = game.expert() {
        tokens.push(token);
        if game.step(Some(token)).terminated {
            break;
        }
    }
    tokens
}

/// Whole episodes, reset and four steps, through the interface that trainers use; counts `(episodes, steps)`.
fn episodes(view: CardView) -> Result<(f64, f64), String> {
    let suite = open(view)?;
    let tasks = suite.tasks("train").map_err(|error| error.to_string())?;
    let actions = CardGame::EzPoints.actions();
    let plans: Vec<Vec<&str>> =
        (0..64).map(|seed| solution(seed).iter().map(|&index| actions[index]).collect()).collect();
    let mut environment: Box<dyn Environment> = suite.environment();
    let rate = per_second(|round| {
        if environment.reset(&tasks[round % plans.len()], 0).is_err() {
            return 0;
        }
        for token in &plans[round % plans.len()] {
            black_box(environment.step(token).is_ok());
        }
        1
    });
    Ok((rate, rate * 5.0))
}

fn assets() -> Option<PathBuf> {
    let shared = std::env::var_os("SEED_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    Some(shared.join("data/ezpoints")).filter(|folder| folder.is_dir())
}

/// The benchmark. `--peer PYTHON` also runs the package with that interpreter.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let peer = peer::interpreter(arguments, "ezpoints")?;
    println!("ezpoints, CPU time of one thread");
    let deals = per_second(|round| {
        (0..64).filter(|seed| black_box(deal_ezpoints(round as u32 * 64 + seed)).len() == 2).count()
    });
    println!("deals a second                                      {deals:12.0}");
    let (text, _) = episodes(CardView::Text)?;
    println!("episodes a second, text, reset and 4 steps          {text:12.0}");
    let (rgb, frames) = episodes(CardView::Rgb)?;
    println!("episodes a second, 300 x 300 frames                 {rgb:12.0}");
    println!("  observations with a frame a second                {frames:12.0}");
    let draws = {
        let painter = Painter::own(CardGame::EzPoints);
        let mut game = Points::ezpoints(0);
        for token in [3, 10, 7] {
            game.step(Some(token));
        }
        let table = painter.table(&game);
        per_second(|_| usize::from(!black_box(painter.points(&table, &game)).rgb.is_empty()))
    };
    println!("frames drawn a second, cards laid out               {draws:12.0}");

    let Some(python) = peer else {
        println!(
            "`--peer PYTHON` runs RL4VLM's `gym_cards` beside it (specification: 11.4 episodes with frames, 696 draws)"
        );
        return Ok(());
    };
    let mut work = Vec::new();
    let mut ours = Vec::new();
    let painter = match assets() {
        Some(folder) => Some(Painter::read(&folder).map_err(|error| error.to_string())?),
        None => None,
    };
    for seed in 0..EPISODES {
        let actions = solution(seed);
        let mut game = Points::ezpoints(seed);
        let table = painter.as_ref().map(|painter| painter.table(&game));
        let hash = |game: &Points| {
            let frame =
                painter.as_ref().zip(table.as_ref()).map(|(painter, table)| painter.points(table, game));
            let hexadecimal =
                |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            frame.map(|frame| hexadecimal(&Sha256::digest(&frame.rgb)))
        };
        let cards: Vec<String> = game.cards().iter().map(ToString::to_string).collect();
        ours.push(json!([cards, 0.0, false, hash(&game)]));
        for &action in &actions {
            let turn = game.step(Some(action));
            ours.push(json!([cards, turn.reward, turn.terminated, hash(&game)]));
        }
        work.push(json!({ "seed": seed, "actions": actions }));
    }
    let hint = "put `gym-cards/gym_cards` of the repository RL4VLM/RL4VLM on its path, with numpy, gymnasium, pillow and \
        DejaVuSans.ttf where Pillow finds it";
    let result = peer::run(&python, include_str!("ezpoints_peer.py"), &Value::Array(work), hint)?;
    let (parts, frames_too) = match painter {
        Some(_) => (4, "frames too"),
        None => (3, "no frames: no public assets here"),
    };
    let seen = |answer: &Value| -> Vec<Value> { (0..parts).map(|part| answer[part].clone()).collect() };
    let theirs = peer::list(&result, "answers")?;
    let (compared, different) = peer::compare(ours.iter().map(seen), theirs.iter().map(seen));
    println!("gym_cards: {compared} answers compared ({frames_too}), {different} differ");
    for (what, key, ours) in [
        ("episodes with frames", "episodes", rgb),
        ("observations with a frame", "observations", frames),
        ("frames drawn, cards laid out", "draws", draws),
    ] {
        let theirs = peer::number(&result, key)?;
        println!("{what:40} {theirs:10.1} a second, ratio {:8.0}x", ours / theirs);
    }
    Ok(())
}
