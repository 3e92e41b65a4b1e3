//! `seed config`: resolved values with their origins, keys, presets. Also the arguments that choose a configuration.

use crate::failure::Failure;
use clap::{Args, Subcommand};
use seed_trainer::config::{Config, ConfigError, EnvName, Layers, Resolved};
use seed_trainer::reference;
use std::path::PathBuf;

/// The arguments that choose a configuration.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Selection {
    /// Configuration file; may be given several times, later files win
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Vec<PathBuf>,
    /// Set one key, e.g. `--set opd.beta=5`; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

impl Selection {
    /// Files, then environment variables, then `--set`.
    pub(crate) fn layers(&self) -> Result<Layers, ConfigError> {
        self.over(Layers::new())
    }

    /// The same on top of other layers.
    pub(crate) fn over(&self, mut layers: Layers) -> Result<Layers, ConfigError> {
        for path in &self.config {
            layers = layers.file(path)?;
        }
        layers.variables(std::env::vars())?.set(&self.set)
    }

    /// The checked configuration.
    pub(crate) fn resolve(&self) -> Result<Resolved, ConfigError> {
        self.layers()?.resolve()
    }
}

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Print the resolved configuration, each line with the origin of its value
    Show {
        #[command(flatten)]
        selection: Selection,
    },
    /// List keys with what they take, their default and their meaning
    Keys {
        /// A section, or the beginning of a key
        prefix: Option<String>,
    },
    /// What differs between presets
    Presets {
        /// The environment; all of them if left out
        environment: Option<String>,
    },
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.what {
        What::Show { selection } => print!("{}", selection.resolve()?.to_toml()),
        What::Keys { prefix } => {
            let prefix = prefix.as_deref().unwrap_or_default();
            for key in Config::keys().filter(|key| key.path.starts_with(prefix)) {
                println!("{} = {}  ({})", key.path, (key.default)(), (key.takes)());
                for line in key.doc {
                    println!("   {line}");
                }
            }
        }
        What::Presets { environment: None } => print!("{}", reference::presets()),
        What::Presets { environment: Some(name) } => {
            let env = EnvName::ALL.iter().find(|env| env.as_str() == name);
            let Some(env) = env else {
                // The schema's own message lists the names.
                return Err(Layers::new().set([format!("env.name={name}")]).err().expect("unknown").into());
            };
            print!("{}", reference::preset_table(*env));
        }
    }
    Ok(())
}
