//! Training from recorded roll-outs: episodes from disk in place of new ones.
//!
//! Each file is one update's episodes, in whole groups. The old log-probabilities are the recorded ones: those of the
//! policy that sampled the tokens, which an update of another policy has to correct for.

use crate::config::Config;
use crate::world::World;
use seed_rollout::collect::{CollectStats, Collection, Episode};
use seed_rollout::record::{Header, Reader, RecordError};
use std::io;
use std::path::{Path, PathBuf};

/// Why recorded roll-outs cannot be trained on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordedError {
    /// The folder cannot be listed.
    #[error("{}: cannot list the recorded roll-outs", path.display())]
    List {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A folder without roll-outs.
    #[error(
        "{}: found no `*.jsonl` or `*.jsonl.zst` file; `rollout.recorded` names the `rollouts` folder of a run, or a file of `seed rollout`",
        path.display()
    )]
    Nothing {
        /// The folder.
        path: PathBuf,
    },
    /// A file that cannot be read, or whose rows break their promises.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Recorded under other settings than this run's.
    #[error("{}:1: `{key}` is {found} here and {expected} in this run", path.display())]
    Differs {
        /// The file.
        path: PathBuf,
        /// What differs: a key of the configuration, or a property of the model.
        key: &'static str,
        /// As recorded.
        found: String,
        /// As configured.
        expected: String,
    },
    /// A group of another size.
    #[error(
        "{}: group {group} has {found} episodes, `rollout.group` is {expected}; advantages need whole groups",
        path.display()
    )]
    Group {
        /// The file.
        path: PathBuf,
        /// The group.
        group: usize,
        /// Its episodes.
        found: usize,
        /// The configured number.
        expected: usize,
    },
}

/// The files of `rollout.recorded`, in the order of their names.
#[derive(Debug, Clone)]
pub struct Recorded {
    files: Vec<PathBuf>,
}

impl Recorded {
    /// One file, or every file of roll-outs in a folder; the first line of each is read and compared.
    ///
    /// # Errors
    /// [`RecordedError`] for a folder that cannot be listed or holds none, a file that cannot be read, or one recorded
    /// in another environment, layout, temperature or vocabulary than this run's.
    pub fn open(path: &Path, config: &Config, world: &World) -> Result<Self, RecordedError> {
        let found = Self::find(path)?;
        found.files.iter().try_for_each(|file| read(file, config, world).map(drop))?;
        Ok(found)
    }

    fn find(path: &Path) -> Result<Self, RecordedError> {
        if !path.is_dir() {
            return Ok(Self { files: vec![path.to_path_buf()] });
        }
        let list = |source| RecordedError::List { path: path.to_path_buf(), source };
        let mut files = vec![];
        for entry in std::fs::read_dir(path).map_err(list)? {
            let file = entry.map_err(list)?.path();
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            if name.ends_with(".jsonl") || name.ends_with(".jsonl.zst") {
                files.push(file);
            }
        }
        if files.is_empty() {
            return Err(RecordedError::Nothing { path: path.to_path_buf() });
        }
        files.sort();
        Ok(Self { files })
    }

    /// How many updates there are episodes for; later updates start over.
    pub fn updates(&self) -> usize {
        self.files.len()
    }

    /// The episodes of update number `completed`, from 0.
    ///
    /// # Errors
    /// [`RecordedError`] when the file is damaged, has groups of another size than this run's, or is no longer the one
    /// that was opened.
    pub fn collection(
        &self,
        completed: u64,
        config: &Config,
        world: &World,
    ) -> Result<Collection, RecordedError> {
        let path = &self.files[(completed % self.files.len() as u64) as usize];
        let mut episodes = read(path, config, world)?.collect::<Result<Vec<Episode>, _>>()?;
        number(path, &mut episodes, config.rollout.group)?;
        let stats = CollectStats::of(&episodes);
        Ok(Collection { episodes, stats })
    }
}

/// Opens a file of this run's settings.
fn read(path: &Path, config: &Config, world: &World) -> Result<Reader, RecordedError> {
    let reader = Reader::open(path)?;
    agrees(path, reader.header(), config, world)?;
    Ok(reader)
}

/// Compares what changes the meaning of ids, rows and log-probabilities.
fn agrees(path: &Path, header: &Header, config: &Config, world: &World) -> Result<(), RecordedError> {
    let options = world.collect_options(config);
    let pairs = [
        ("env.name", header.environment.clone(), world.suite.name().to_owned()),
        ("rollout.layout", format!("{:?}", header.layout), format!("{:?}", options.layout)),
        (
            "rollout.temperature",
            header.sampling.temperature.to_string(),
            options.sampling.temperature.to_string(),
        ),
        (
            "the tokenizer's size",
            header.vocabulary.to_string(),
            world.dialogue.tokenizer.vocab_size().to_string(),
        ),
    ];
    for (key, found, expected) in pairs {
        if found != expected {
            return Err(RecordedError::Differs { path: path.to_path_buf(), key, found, expected });
        }
    }
    Ok(())
}

/// Numbers groups and episodes from 0 in the order of the file; every group must be whole.
fn number(path: &Path, episodes: &mut [Episode], size: usize) -> Result<(), RecordedError> {
    for (index, group) in episodes.chunk_by_mut(|a, b| a.group == b.group).enumerate() {
        if group.len() != size {
            let (path, group, found) = (path.to_path_buf(), group[0].group, group.len());
            return Err(RecordedError::Group { path, group, found, expected: size });
        }
        for (place, episode) in group.iter_mut().enumerate() {
            (episode.group, episode.episode) = (index, place);
            for row in &mut episode.rows {
                (row.group, row.trajectory) = (index, index * size + place);
            }
        }
    }
    Ok(())
}
