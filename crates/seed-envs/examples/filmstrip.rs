//! An episode as one picture: `cargo run -p seed-envs --example filmstrip [sokoban|ezpoints [FILE.png [TASK]]]`.
//!
//! The built-in expert plays task number `TASK` of the split `valid`; frames, actions and rewards are written to
//! `FILE.png` (default `filmstrip.png`).

use seed_envs::Suite;
use seed_envs::ezpoints::{CardGames, CardOptions, CardView};
use seed_envs::picture::Filmstrip;
use seed_envs::picture::file::write_png;
use seed_envs::projection::CardGame;
use seed_envs::sokoban::{Sokoban, SokobanOptions, View};
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let suite: Box<dyn Suite> = match arguments.next().as_deref() {
        None | Some("sokoban") => {
            Box::new(Sokoban::open(SokobanOptions { view: View::Rgb, ..SokobanOptions::default() })?)
        }
        Some("ezpoints") => {
            let options = CardOptions { view: CardView::Rgb, ..CardOptions::new(CardGame::EzPoints) };
            Box::new(CardGames::open(options)?)
        }
        Some(other) => return Err(format!("no game `{other}`; there are sokoban and ezpoints").into()),
    };
    let file = PathBuf::from(arguments.next().unwrap_or_else(|| "filmstrip.png".into()));
    let number: usize = arguments.next().map_or(Ok(0), |number| number.parse())?;
    let tasks = suite.tasks("valid")?;
    let task = tasks.get(number).ok_or_else(|| format!("no task {number}: there are {}", tasks.len()))?;

    let mut environment = suite.environment();
    let first = environment.reset(task, 0)?;
    let mut strip = Filmstrip::new(format!("{} {}", suite.name(), task.id), &first);
    while let Some(action) = environment.expert_action() {
        let step = environment.step(&action)?;
        strip.push(&action, &step);
        if step.is_last() {
            break;
        }
    }
    write_png(&file, &strip.draw())?;
    println!("{}: {}", file.display(), strip.closing);
    Ok(())
}
