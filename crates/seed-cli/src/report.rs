//! `seed report`: one self-contained HTML file about a run, made from the files of its folder alone.

mod curve;
mod page;
mod source;

use crate::failure::Failure;
use clap::Args;
use seed_trainer::run_folder::{StorageError, write_file};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The run's folder
    run: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let path = write(&arguments.run)?;
    println!("{}", path.display());
    Ok(())
}

/// Writes `report.html` into a run's folder and returns its path.
pub(crate) fn write(run: &Path) -> Result<PathBuf, StorageError> {
    let source = source::Source::read(run)?;
    let path = run.join("report.html");
    write_file(&path, page::render(&source).as_bytes())?;
    Ok(path)
}
