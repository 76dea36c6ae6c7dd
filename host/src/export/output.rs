//! Where an export goes. Checked before any work, so that a bad path fails in the first second.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::source::SourceError;

/// An export that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error(transparent)]
    Source(SourceError),
    #[error("{path} cannot be written")]
    NotWritable { path: PathBuf, source: io::Error },
    #[error("{0} is not empty")]
    NotEmpty(PathBuf),
    #[error("this export makes several files, and {0} is one")]
    NeedsFolder(PathBuf),
}

impl ExportError {
    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Source(error) => error.hint(),
            Self::NotWritable { .. } => Some("choose another place with --output PATH".into()),
            Self::NotEmpty(_) => Some("name a folder that is new or empty".into()),
            Self::NeedsFolder(_) => Some("name a folder, or one case with --case KEY".into()),
        }
    }
}

/// The place that an exporter writes its files to.
pub struct Output {
    place: Place,
    written: Vec<Written>,
}

enum Place {
    Folder(PathBuf),
    /// The one file of an export of one file.
    File(PathBuf),
    /// The same for a pipe or a terminal.
    Stream(Box<dyn Write + Send>),
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Relative to the folder, with `/` between its parts; of an export of one file its path as it was given.
    pub name: String,
    pub bytes: u64,
    pub sha256: String,
}

impl Output {
    /// Checks that `path` can be written: as a folder when the exporter makes one (unless the path
    /// ends in a file's name), when it is one, or when it ends in `/`.
    pub fn at(path: &Path, makes_folder: bool) -> Result<Self, ExportError> {
        let says_folder = path.as_os_str().to_string_lossy().ends_with('/') || path.is_dir();
        let says_file = path.extension().is_some() && !says_folder;
        let place = if says_folder || (makes_folder && !says_file) {
            check_folder(path)?;
            Place::Folder(path.to_owned())
        } else {
            check_file(path)?;
            Place::File(path.to_owned())
        };
        Ok(Self::to(place))
    }

    /// An export of one file goes through here, to standard output for instance.
    pub fn stream(to: Box<dyn Write + Send>) -> Self {
        Self::to(Place::Stream(to))
    }

    fn to(place: Place) -> Self {
        let written = Vec::new();
        Self { place, written }
    }

    /// Writes one file. `name` places it in a folder; a single file or stream has its own name.
    pub fn file(
        &mut self,
        name: &str,
        write: impl FnOnce(&mut dyn Write) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        let path = self.path_of(name)?;
        let told = match &self.place {
            Place::File(path) => path.display().to_string(),
            Place::Folder(_) | Place::Stream(_) => name.to_owned(),
        };
        let to: Box<dyn Write + '_> = match &mut self.place {
            Place::Stream(stream) => Box::new(stream),
            Place::Folder(_) | Place::File(_) => Box::new(create(&path)?),
        };
        let mut counted = Counted::new(BufWriter::with_capacity(1 << 18, to));
        write(&mut counted)?;
        counted.inner.flush().map_err(|e| not_writable(&path, e))?;
        self.written.push(counted.written(told));
        Ok(())
    }

    /// Files written so far, in order.
    pub fn written(&self) -> &[Written] {
        &self.written
    }

    /// Whether more than one file can be written.
    pub fn is_folder(&self) -> bool {
        matches!(self.place, Place::Folder(_))
    }

    fn path_of(&self, name: &str) -> Result<PathBuf, ExportError> {
        match &self.place {
            Place::Folder(folder) => Ok(folder.join(within(name))),
            Place::File(path) if self.written.is_empty() => Ok(path.clone()),
            Place::Stream(_) if self.written.is_empty() => Ok("standard output".into()),
            Place::File(path) => Err(ExportError::NeedsFolder(path.clone())),
            Place::Stream(_) => Err(ExportError::NeedsFolder("standard output".into())),
        }
    }
}

/// An error of writing that an exporter met.
pub(super) fn while_writing(name: &str) -> impl Fn(io::Error) -> ExportError + '_ {
    move |source| not_writable(Path::new(name), source)
}

/// A relative path without a way out of the folder: names may come from a board.
fn within(name: &str) -> PathBuf {
    let parts = Path::new(name).components();
    parts
        .filter(|part| matches!(part, Component::Normal(_)))
        .collect()
}

fn check_folder(path: &Path) -> Result<(), ExportError> {
    fs::create_dir_all(path).map_err(|e| not_writable(path, e))?;
    let mut entries = fs::read_dir(path).map_err(|e| not_writable(path, e))?;
    if entries.next().is_some() {
        return Err(ExportError::NotEmpty(path.to_owned()));
    }
    let probe = path.join(".edgedyno-probe");
    fs::write(&probe, "").map_err(|e| not_writable(path, e))?;
    fs::remove_file(&probe).map_err(|e| not_writable(path, e))
}

/// Opens without truncating: what is there stays until the export really begins.
fn check_file(path: &Path) -> Result<(), ExportError> {
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map(drop).map_err(|e| not_writable(path, e))
}

fn create(path: &Path) -> Result<File, ExportError> {
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        fs::create_dir_all(folder).map_err(|e| not_writable(folder, e))?;
    }
    File::create(path).map_err(|e| not_writable(path, e))
}

fn not_writable(path: &Path, source: io::Error) -> ExportError {
    ExportError::NotWritable {
        path: path.to_owned(),
        source,
    }
}

/// Counts and hashes what passes.
struct Counted<W> {
    inner: W,
    bytes: u64,
    hash: Sha256,
}

impl<W: Write> Counted<W> {
    fn new(inner: W) -> Self {
        Self {
            inner,
            bytes: 0,
            hash: Sha256::new(),
        }
    }

    fn written(self, name: String) -> Written {
        let digest = self.hash.finalize();
        Written {
            name,
            bytes: self.bytes,
            sha256: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(bytes)?;
        self.hash.update(&bytes[..n]);
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
