//! What a run leaves behind. Every file and folder appears whole or not at all.

use crate::config::{Config, ConfigError, Resolved};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Why a file of a run cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// Reading failed.
    #[error("{}: cannot read", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Writing failed.
    #[error("{}: cannot write; nothing older was replaced", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file says something else than it must.
    #[error("{}, {place}: expected {expected}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Where in it.
        place: String,
        /// What should stand there.
        expected: &'static str,
    },
    /// The folder of a new run is in use.
    #[error("{}: a run is there already; `--resume` goes on with it, `--set name=…` starts another", path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// Not a run folder.
    #[error("{}: not a run folder, it has no `{missing}`", path.display())]
    NotARun {
        /// The folder.
        path: PathBuf,
        /// The file it lacks.
        missing: &'static str,
    },
    /// The run's configuration cannot be read back.
    #[error(transparent)]
    Config(#[from] Box<ConfigError>),
}

impl StorageError {
    /// A failed read of `path`.
    pub fn read(path: &Path, source: io::Error) -> Self {
        Self::Read { path: path.to_path_buf(), source }
    }

    /// A failed write of `path`.
    pub fn write(path: &Path, source: io::Error) -> Self {
        Self::Write { path: path.to_path_buf(), source }
    }
}

/// Writes a file under a temporary name beside it, flushes it to the disk, then renames it.
///
/// # Errors
/// When any of that fails; the old file is then untouched.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), StorageError> {
    let temporary = temporary(path);
    let written = (|| {
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        sync_parent(path)
    })();
    written.map_err(|source| {
        // Best effort: a left-over temporary file is ignored by every reader.
        let _ = fs::remove_file(&temporary);
        StorageError::write(path, source)
    })
}

/// Fills a folder under a temporary name, flushes every file in it, then renames it to `path`.
///
/// An existing folder at `path` is replaced.
///
/// # Errors
/// When `fill` fails, or the disk does; the old folder is then untouched.
pub fn write_folder<E: From<StorageError>>(
    path: &Path,
    fill: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), E> {
    let temporary = temporary(path);
    let start = || {
        if temporary.exists() {
            fs::remove_dir_all(&temporary)?;
        }
        fs::create_dir_all(&temporary)
    };
    start().map_err(|source| StorageError::write(path, source))?;
    if let Err(error) = fill(&temporary) {
        let _ = fs::remove_dir_all(&temporary);
        return Err(error);
    }
    let finish = || {
        sync_tree(&temporary)?;
        if path.exists() {
            // A rename cannot replace a folder that is not empty; the old one steps aside first.
            let aside = path.with_extension("old");
            if aside.exists() {
                fs::remove_dir_all(&aside)?;
            }
            fs::rename(path, &aside)?;
            fs::rename(&temporary, path)?;
            fs::remove_dir_all(&aside)?;
        } else {
            fs::rename(&temporary, path)?;
        }
        sync_parent(path)
    };
    finish().map_err(|source| {
        let _ = fs::remove_dir_all(&temporary);
        StorageError::write(path, source).into()
    })
}

fn temporary(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.partial"))
}

fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

fn sync_tree(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            sync_tree(&path)?;
        } else {
            File::open(&path)?.sync_all()?;
        }
    }
    File::open(folder)?.sync_all()
}

/// SHA-256 of a file, in hexadecimal.
///
/// # Errors
/// When it cannot be read.
pub fn hash_file(path: &Path) -> Result<String, StorageError> {
    let mut file = File::open(path).map_err(|e| StorageError::read(path, e))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = io::Read::read(&mut file, &mut buffer).map_err(|e| StorageError::read(path, e))?;
        if read == 0 {
            return Ok(hex(&hash.finalize()));
        }
        hash.update(&buffer[..read]);
    }
}

/// SHA-256 of some texts, each ended by a zero byte, in hexadecimal.
pub fn hash_texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(text.as_bytes());
        hash.update([0]);
    }
    hex(&hash.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `manifest.json`: what is needed to say later which program and which data made a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Commit of the program, from the variable `SEED_COMMIT` that `cargo xtask train` sets; else `unknown`.
    pub commit: String,
    /// Versions of our crates.
    pub crates: BTreeMap<String, String>,
    /// The run's seed.
    pub seed: u64,
    /// The device in words.
    pub device: String,
    /// Worker threads.
    pub workers: usize,
    /// SHA-256 of what went in, by name: model files, task lists, the configuration.
    pub hashes: BTreeMap<String, String>,
}

impl Manifest {
    /// The parts that are known before any data is read.
    pub fn new(resolved: &Resolved, device: &str, workers: usize) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_string();
        Self {
            commit: std::env::var("SEED_COMMIT").unwrap_or_else(|_| "unknown".into()),
            crates: BTreeMap::from([("seed-trainer".into(), version)]),
            seed: resolved.config().run.seed,
            device: device.into(),
            workers,
            hashes: BTreeMap::from([("config.toml".into(), hash_texts([resolved.to_toml().as_str()]))]),
        }
    }
}

/// The folder of one run.
#[derive(Debug, Clone)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Makes the folder of a new run and writes its configuration. A name that was not given gets a number when it is
    /// taken: `household-seed-seed0-2`.
    ///
    /// # Errors
    /// [`StorageError::Exists`] when a run of a given name is there already.
    pub fn create(resolved: &Resolved) -> Result<Self, StorageError> {
        let config = resolved.config();
        let runs = Path::new(&config.run.runs_dir);
        let mut path = runs.join(config.run_name());
        for number in 2.. {
            if !path.join("config.toml").exists() {
                break;
            }
            if !config.run.name.is_empty() {
                return Err(StorageError::Exists { path });
            }
            path = runs.join(format!("{}-{number}", config.run_name()));
        }
        for folder in ["rollouts", "skills", "checkpoints"] {
            let folder = path.join(folder);
            fs::create_dir_all(&folder).map_err(|e| StorageError::write(&folder, e))?;
        }
        write_file(&path.join("config.toml"), resolved.to_toml().as_bytes())?;
        Ok(Self { path })
    }

    /// Opens the folder of a run that exists.
    ///
    /// # Errors
    /// [`StorageError::NotARun`] when there is no `config.toml`.
    pub fn open(path: &Path) -> Result<Self, StorageError> {
        if !path.join("config.toml").is_file() {
            return Err(StorageError::NotARun { path: path.to_path_buf(), missing: "config.toml" });
        }
        Ok(Self { path: path.to_path_buf() })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The configuration that the run was started with.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn config(&self) -> Result<Config, StorageError> {
        let resolved = Resolved::read(&self.path.join("config.toml")).map_err(Box::new)?;
        Ok(resolved.config().clone())
    }

    /// Writes `manifest.json`.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn write_manifest(&self, manifest: &Manifest) -> Result<(), StorageError> {
        let text = serde_json::to_string_pretty(manifest).expect("a manifest is plain data");
        write_file(&self.path.join("manifest.json"), text.as_bytes())
    }

    /// Where a step's file of a kind goes: `rollouts/step-000010.jsonl`.
    pub fn step_file(&self, kind: &str, step: u64, extension: &str) -> PathBuf {
        self.path.join(kind).join(format!("step-{step:06}.{extension}"))
    }

    /// The folder of a checkpoint: `checkpoints/step-000010`.
    pub fn checkpoint(&self, step: u64) -> PathBuf {
        self.path.join("checkpoints").join(format!("step-{step:06}"))
    }

    /// Steps of the complete checkpoints, oldest first.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn checkpoints(&self) -> Result<Vec<u64>, StorageError> {
        let folder = self.path.join("checkpoints");
        let entries = fs::read_dir(&folder).map_err(|e| StorageError::read(&folder, e))?;
        let mut steps: Vec<u64> = entries
            .filter_map(Result::ok)
            .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("step-")?.parse().ok())
            .collect();
        steps.sort_unstable();
        Ok(steps)
    }
}
