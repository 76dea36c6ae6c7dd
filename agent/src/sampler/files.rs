//! The files that sources read: kept open, read from their beginning each time, below a root folder.
//!
//! Through the two traits a test can put a recorded board in the place of this machine, and faults in the
//! place of a file that works.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use edgedyno_sys::kernel::axi_monitor::AxiMonitor;
use edgedyno_sys::kernel::folder::Folder;
use edgedyno_sys::kernel::perf::{Count, Counter, Event};

use super::fault::Fault;
use super::text;

/// Where files are found.
pub trait Files: Send + Sync {
    /// Opens for reading. `path` has no slash at its begin.
    fn open(&self, path: &str) -> io::Result<Box<dyn ReadAt>>;

    /// Names in a folder.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;

    /// A folder whose entries are numbers, to be looked through again and again.
    fn numbers(&self, folder: &str) -> io::Result<Box<dyn Numbers>>;

    /// Starts a counter of processor or memory controller, for a process or for a CPU.
    ///
    /// # Errors
    /// A board that is not this machine has none.
    fn count(
        &self,
        _event: Event,
        _process: Option<i32>,
        _cpu: Option<i32>,
    ) -> io::Result<Box<dyn Counting>> {
        Err(no_counters())
    }

    /// The folder that all is read below, where there is one.
    fn root(&self) -> Option<&Path> {
        None
    }

    /// A program of the board that can be started; none where there is none.
    fn program(&self, _path: &str) -> Option<PathBuf> {
        None
    }

    /// Opens a monitor of memory ports.
    ///
    /// # Errors
    /// A board that is not this machine has none.
    fn monitor(&self, _path: &str) -> io::Result<Box<dyn Device>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// A device that gives records once it was told how many and how often.
pub trait Device: Send {
    fn start(&mut self, period_ms: u32, records: u32) -> io::Result<()>;

    /// Waits for a record.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize>;
}

/// A running counter.
pub trait Counting: Send {
    fn read(&mut self) -> io::Result<Count>;
}

impl Counting for Counter {
    fn read(&mut self) -> io::Result<Count> {
        Self::read(self)
    }
}

/// A folder that stays open.
pub trait Numbers: Send {
    /// Calls for each name that is a number. Allocates nothing.
    fn each(&mut self, take: &mut dyn FnMut(u32)) -> io::Result<()>;

    /// Its links: two and one for each folder in it, where its file system counts them; none where that is
    /// not known. Much cheaper than a list.
    fn links(&self) -> Option<u64> {
        None
    }
}

/// An open file.
pub trait ReadAt: Send {
    fn read_at(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

/// The files below a folder: `/` for this machine.
#[derive(Debug, Clone)]
pub struct Root(pub PathBuf);

impl Files for Root {
    fn open(&self, path: &str) -> io::Result<Box<dyn ReadAt>> {
        let mut how = OpenOptions::new();
        // A pipe in the place of a file must not keep the thread.
        how.read(true).custom_flags(nix::libc::O_NONBLOCK);
        Ok(Box::new(how.open(self.0.join(path))?))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(self.0.join(folder))?;
        let names = entries.flatten();
        Ok(names
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect())
    }

    fn numbers(&self, folder: &str) -> io::Result<Box<dyn Numbers>> {
        Ok(Box::new(Folder::open(&self.0.join(folder))?))
    }

    fn count(
        &self,
        event: Event,
        process: Option<i32>,
        cpu: Option<i32>,
    ) -> io::Result<Box<dyn Counting>> {
        match is_this_machine(&self.0) {
            true => Ok(Box::new(Counter::open(event, process, cpu)?)),
            false => Err(no_counters()),
        }
    }

    fn root(&self) -> Option<&Path> {
        Some(&self.0)
    }

    fn program(&self, path: &str) -> Option<PathBuf> {
        let path = self.0.join(path);
        let is_program = fs::metadata(&path)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
        is_program.then_some(path)
    }

    fn monitor(&self, path: &str) -> io::Result<Box<dyn Device>> {
        match is_this_machine(&self.0) {
            true => Ok(Box::new(AxiMonitor::open(&self.0.join(path))?)),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

impl Device for AxiMonitor {
    fn start(&mut self, period_ms: u32, records: u32) -> io::Result<()> {
        Self::start(self, period_ms, records)
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Self::read(self, buffer)
    }
}

fn is_this_machine(root: &Path) -> bool {
    root == Path::new("/")
}

impl Numbers for Folder {
    fn each(&mut self, take: &mut dyn FnMut(u32)) -> io::Result<()> {
        Self::each(self, |name| {
            let number = text::number(name).map(u32::try_from);
            if let Some(Ok(number)) = number {
                take(number);
            }
        })
    }

    fn links(&self) -> Option<u64> {
        Self::links(self).ok()
    }
}

impl ReadAt for File {
    fn read_at(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }
}

/// The kernel hands out long files in pieces of nearly a page, each of whole lines: what is shorter than
/// this and ends with a line is the last.
const PIECE: usize = 2048;

/// A file that stays open, with room for what it holds.
pub struct Kept {
    file: Result<Box<dyn ReadAt>, Fault>,
    buffer: Box<[u8]>,
}

impl Kept {
    pub fn open(files: &dyn Files, path: &str, room: usize) -> Self {
        Self {
            file: files.open(path).map_err(|why| Fault::from(&why)),
            buffer: vec![0; room].into_boxed_slice(),
        }
    }

    /// Whether it could be opened, so that another read may give what this one does not.
    pub fn is_open(&self) -> bool {
        self.file.is_ok()
    }

    /// The file's whole text as it is now.
    ///
    /// One call does for a short text that ends with its line, as nearly every file of the kernel does.
    pub fn text(&mut self) -> Result<&[u8], Fault> {
        let file = self.file.as_mut().map_err(|fault| *fault)?;
        let mut held = 0;
        loop {
            let room = &mut self.buffer[held..];
            if room.is_empty() {
                return Err(Fault::parse("the file is longer than expected"));
            }
            let read = file
                .read_at(room, held as u64)
                .map_err(|why| Fault::from(&why))?;
            held += read;
            let ends = held > 0 && self.buffer[held - 1] == b'\n';
            if read == 0 || ends && read < PIECE {
                return Ok(&self.buffer[..held]);
            }
        }
    }
}

/// What a board without counters answers.
fn no_counters() -> io::Error {
    io::Error::from_raw_os_error(nix::errno::Errno::ENOENT as i32)
}
