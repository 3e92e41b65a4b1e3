//! Recorded roll-outs: one JSON line an episode, zstd-compressed where the name ends in `.zst`.
//!
//! The first line is a [`Header`]; every further line an [`Episode`]. The format is described in
//! `docs/rollouts.md`; [`FORMAT_VERSION`] rises when a reader of the old form could misread the new one.

use crate::collect::Episode;
use crate::row::{Layout, RowError};
use crate::sampler::Sampling;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The name in the first line of every file.
pub const FORMAT: &str = "seed-rollouts";
/// The version that this code writes and reads.
pub const FORMAT_VERSION: u32 = 1;

/// The first line of a file: how the episodes were made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Always [`FORMAT`].
    pub format: String,
    /// [`FORMAT_VERSION`] of the writer.
    pub version: u32,
    /// The environment's name.
    pub environment: String,
    /// How episodes became rows.
    pub layout: Layout,
    /// How tokens were picked.
    pub sampling: Sampling,
    /// Tokens of the tokenizer that made the ids; a reader with another tokenizer must not use them.
    pub vocabulary: usize,
    /// The run's seed.
    pub run_seed: u64,
    /// The trainer's update; 0 outside of training.
    pub update: u64,
}

impl Header {
    /// A header of this version.
    pub fn new(
        environment: impl Into<String>,
        layout: Layout,
        sampling: Sampling,
        vocabulary: usize,
        run_seed: u64,
        update: u64,
    ) -> Self {
        Self {
            format: FORMAT.into(),
            version: FORMAT_VERSION,
            environment: environment.into(),
            layout,
            sampling,
            vocabulary,
            run_seed,
            update,
        }
    }
}

enum Sink {
    Plain(BufWriter<File>),
    Zstd(zstd::Encoder<'static, BufWriter<File>>),
}

impl Sink {
    fn out(&mut self) -> &mut dyn Write {
        match self {
            Self::Plain(out) => out,
            Self::Zstd(out) => out,
        }
    }
}

/// Writes a file of recorded roll-outs.
///
/// It grows under its final name with `.part` appended, and gets that name in [`Writer::finish`], after everything
/// is on disk: a file with the final name is always whole.
pub struct Writer {
    sink: Sink,
    path: PathBuf,
    part: PathBuf,
    episodes: usize,
}

impl Writer {
    /// Starts a file; missing folders are made.
    ///
    /// # Errors
    /// [`RecordError::Io`] when it cannot be created or written.
    pub fn create(path: impl AsRef<Path>, header: &Header) -> Result<Self, RecordError> {
        let path = path.as_ref().to_path_buf();
        let mut part = path.clone().into_os_string();
        part.push(".part");
        let part = PathBuf::from(part);
        let open = || {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            let file = BufWriter::new(File::create(&part)?);
            Ok(if is_compressed(&path) {
                Sink::Zstd(zstd::Encoder::new(file, 3)?)
            } else {
                Sink::Plain(file)
            })
        };
        let sink = open().map_err(|source| RecordError::Io { path: path.clone(), source })?;
        let mut writer = Self { sink, path, part, episodes: 0 };
        writer.line(header)?;
        Ok(writer)
    }

    /// Appends one episode.
    ///
    /// # Errors
    /// [`RecordError::Row`] when a row breaks its promises (see [`Row::check`](crate::row::Row::check)), so that
    /// no file holds what a reader must refuse; [`RecordError::Io`] when it cannot be written.
    pub fn write(&mut self, episode: &Episode) -> Result<(), RecordError> {
        check_rows(episode, None).map_err(|(row, source)| RecordError::Row {
            path: self.path.clone(),
            line: self.episodes + 2,
            row,
            source,
        })?;
        self.line(episode)?;
        self.episodes += 1;
        Ok(())
    }

    fn line(&mut self, value: &impl Serialize) -> Result<(), RecordError> {
        let path = &self.path;
        let io = |source| RecordError::Io { path: path.clone(), source };
        let mut text = serde_json::to_vec(value).map_err(|error| io(error.into()))?;
        text.push(b'\n');
        self.sink.out().write_all(&text).map_err(io)
    }

    /// Ends the file: flushes, syncs, and gives it its name.
    ///
    /// # Errors
    /// [`RecordError::Io`]; the `.part` file stays for a look.
    pub fn finish(self) -> Result<PathBuf, RecordError> {
        let Self { sink, path, part, .. } = self;
        let end = || {
            let mut out = match sink {
                Sink::Plain(out) => out,
                Sink::Zstd(encoder) => encoder.finish()?,
            };
            out.flush()?;
            out.get_ref().sync_all()?;
            std::fs::rename(&part, &path)
        };
        match end() {
            Ok(()) => Ok(path),
            Err(source) => Err(RecordError::Io { path, source }),
        }
    }
}

/// Reads a file of recorded roll-outs, one episode at a time.
pub struct Reader {
    lines: Box<dyn BufRead + Send>,
    header: Header,
    path: PathBuf,
    line: usize,
    ended: bool,
}

impl Reader {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// [`RecordError`] when it cannot be read, is of another format or of a newer version.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, RecordError> {
        let path = path.as_ref().to_path_buf();
        let open = || -> io::Result<Box<dyn BufRead + Send>> {
            let file = BufReader::new(File::open(&path)?);
            Ok(if is_compressed(&path) {
                Box::new(BufReader::new(zstd::Decoder::with_buffer(file)?))
            } else {
                Box::new(file)
            })
        };
        let mut lines = open().map_err(|source| RecordError::Io { path: path.clone(), source })?;
        let mut text = Vec::new();
        lines
            .read_until(b'\n', &mut text)
            .map_err(|source| RecordError::Io { path: path.clone(), source })?;
        let marks: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
        let (format, version) = (marks["format"].as_str(), marks["version"].as_u64());
        if format != Some(FORMAT) {
            return Err(RecordError::Format { path, found: format.unwrap_or("no header").to_string() });
        }
        if version != Some(u64::from(FORMAT_VERSION)) {
            return Err(RecordError::Version { path, found: version.unwrap_or(0) });
        }
        let header = serde_json::from_slice(&text).map_err(|source| RecordError::Line {
            path: path.clone(),
            line: 1,
            source,
        })?;
        Ok(Self { lines, header, path, line: 1, ended: false })
    }

    /// How the episodes were made.
    pub fn header(&self) -> &Header {
        &self.header
    }

    fn next_episode(&mut self) -> Result<Option<Episode>, RecordError> {
        let mut text = Vec::new();
        let read = self.lines.read_until(b'\n', &mut text);
        self.line += 1;
        let (path, line) = (&self.path, self.line);
        read.map_err(|source| RecordError::CutShort { path: path.clone(), line, source })?;
        if text.is_empty() {
            return Ok(None);
        }
        let episode: Episode = serde_json::from_slice(text.trim_ascii_end())
            .map_err(|source| RecordError::Line { path: path.clone(), line, source })?;
        check_rows(&episode, Some(self.header.vocabulary)).map_err(|(row, source)| RecordError::Row {
            path: path.clone(),
            line,
            row,
            source,
        })?;
        Ok(Some(episode))
    }
}

impl Iterator for Reader {
    type Item = Result<Episode, RecordError>;

    /// The next episode. After an error in one line reading goes on with the next line; after an error of the file
    /// itself it ends.
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.next_episode().transpose();
        self.ended = matches!(next, None | Some(Err(RecordError::CutShort { .. })));
        next
    }
}

/// Why a file of roll-outs cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The file system refused.
    #[error("{}: cannot read or write the roll-outs", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file ends in the middle; what came before is whole.
    #[error("{}:{line}: the file is cut short or damaged; the {} episodes before are whole", path.display(), line.saturating_sub(2))]
    CutShort {
        /// The file.
        path: PathBuf,
        /// The line that is missing, from 1.
        line: usize,
        /// What the decoder said.
        source: io::Error,
    },
    /// Not a file of recorded roll-outs.
    #[error("{}:1: found format `{found}`, expected `{FORMAT}`", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What its first line says.
        found: String,
    },
    /// Written by another version.
    #[error("{}:1: found version {found}, this program reads version {FORMAT_VERSION}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
    /// A line that is not an episode.
    #[error("{}:{line}: not a recorded episode", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What the parser said.
        source: serde_json::Error,
    },
    /// A row that breaks its promises.
    #[error("{}:{line}: row {row}", path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The row inside the episode, from 0.
        row: usize,
        /// What is wrong with it.
        source: RowError,
    },
}

fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "zst")
}

fn check_rows(episode: &Episode, vocabulary: Option<usize>) -> Result<(), (usize, RowError)> {
    let check =
        |(index, row): (usize, &crate::row::Row)| row.check(vocabulary).map_err(|error| (index, error));
    episode.rows.iter().enumerate().try_for_each(check)
}
