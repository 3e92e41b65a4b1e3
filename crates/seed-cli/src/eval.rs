//! `seed eval`: one evaluation of a model on the configured panels.

use crate::config::Selection;
use crate::failure::Failure;
use crate::progress::Terminal;
use clap::Args;
use seed_trainer::evaluate::evaluate;
use seed_trainer::train::Setup;
use serde_json::{Map, Value};

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    selection: Selection,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let resolved = arguments.selection.resolve()?;
    let terminal = Terminal::new();
    let setup = Setup::open(resolved.config())?;
    let mut engines = setup.engines(&setup.snapshot());
    let mut all = Map::new();
    for panel in &setup.panels {
        let (record, _) = evaluate(&setup.world, &mut engines, panel, resolved.config(), &terminal)?;
        all.extend(record.iter().map(|(name, value)| (name.to_string(), Value::from(value))));
    }
    if arguments.json {
        println!("{}", Value::Object(all));
    } else {
        for (name, value) in &all {
            println!("{name:60} {value:.4}", value = value.as_f64().unwrap_or(f64::NAN));
        }
    }
    Ok(())
}
