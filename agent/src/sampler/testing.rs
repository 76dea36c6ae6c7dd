//! A board made of a few files, read with a clock that a test turns.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use edgedyno_shared::telemetry::TelemetryMode;
use edgedyno_shared::units::Nanos;
use nix::errno::Errno;

use super::Sampler;
use super::board::Board;
use super::fault::Fault;
use super::files::{Files, Numbers, ReadAt, Root};
use super::watch::Watch;
use crate::clock::Clock;

/// Readings by the channel's name.
pub(crate) type ByName = BTreeMap<String, Result<i64, Fault>>;

/// Files below a temporary folder.
pub(crate) struct Tree(tempfile::TempDir);

impl Tree {
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        files.iter().for_each(|(path, text)| tree.set(path, text));
        tree
    }

    /// Writes into the file that is there, as a kernel file changes under whoever has it open.
    pub(crate) fn set(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A program, in the place of whatever was there: one that runs keeps its own file.
    pub(crate) fn program(&self, path: &str, script: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let new = path.with_extension("new");
        // Written by another process: a fork of another test's thread could hold our descriptor open, and a
        // program that is open for writing cannot be started.
        let mut writer = Command::new("sh")
            .args(["-c", "cat > \"$0\" && chmod +x \"$0\""])
            .arg(&new)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut to = writer.stdin.take().unwrap();
        to.write_all(script.as_bytes()).unwrap();
        drop(to);
        assert!(writer.wait().unwrap().success());
        fs::rename(new, path).unwrap();
    }

    pub(crate) fn root(&self) -> Root {
        Root(self.0.path().into())
    }

    /// The board, with process 42 as the worker.
    pub(crate) fn board(&self) -> Board {
        Board {
            files: Arc::new(self.root()),
            worker: Some(42),
            mode: TelemetryMode::Normal,
            exec: None,
        }
    }

    pub(crate) fn watch(&self, sampler: &dyn Sampler) -> Turned {
        Self::watch_of(&self.board(), sampler)
    }

    /// The same where one file can be opened and answers each read with an error, until it works.
    pub(crate) fn watch_answering(
        &self,
        sampler: &dyn Sampler,
        path: &str,
        errno: Errno,
    ) -> (Turned, Answer) {
        let answer = Answer(Arc::new(AtomicI32::new(errno as i32)));
        let files = Answering {
            root: self.root(),
            path: path.into(),
            answer: answer.clone(),
        };
        let board = Board {
            files: Arc::new(files),
            ..self.board()
        };
        (Self::watch_of(&board, sampler), answer)
    }

    fn watch_of(board: &Board, sampler: &dyn Sampler) -> Turned {
        let clock = Turning::default();
        let found = sampler.find(board);
        let cpu_time = || Nanos::ZERO;
        Turned {
            watch: Watch::new(
                "sampler",
                found,
                TelemetryMode::Normal,
                clock.clone(),
                cpu_time,
            ),
            clock,
        }
    }

    /// What the first read of a sampler's channels gives.
    pub(crate) fn read(&self, sampler: &dyn Sampler) -> ByName {
        self.watch(sampler).latest()
    }
}

/// What a sensor answers whose unit is switched off, by driver.
pub(crate) const SLEEPS: [Errno; 4] = [Errno::EINVAL, Errno::ENODATA, Errno::EIO, Errno::EAGAIN];

/// What each read of a file answers: an error, or nothing but its text.
#[derive(Clone)]
pub(crate) struct Answer(Arc<AtomicI32>);

impl Answer {
    /// From now on the file gives its text.
    pub(crate) fn works(&self) {
        self.0.store(0, Ordering::Release);
    }
}

struct Answering {
    root: Root,
    path: String,
    answer: Answer,
}

impl Files for Answering {
    fn open(&self, path: &str) -> io::Result<Box<dyn ReadAt>> {
        let file = self.root.open(path)?;
        Ok(match path == self.path {
            true => Box::new(Behind(file, self.answer.clone())),
            false => file,
        })
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.root.list(folder)
    }

    fn numbers(&self, folder: &str) -> io::Result<Box<dyn Numbers>> {
        self.root.numbers(folder)
    }
}

/// A file behind its answer.
struct Behind(Box<dyn ReadAt>, Answer);

impl ReadAt for Behind {
    fn read_at(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self.1.0.load(Ordering::Acquire) {
            0 => self.0.read_at(buffer, offset),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

/// A clock that stands still until it is turned.
#[derive(Clone, Default)]
pub(crate) struct Turning(Rc<Cell<i64>>);

impl Turning {
    pub(crate) fn by(&self, span: Nanos) {
        self.0.set(self.0.get() + span.0);
    }
}

impl Clock for Turning {
    fn now(&self) -> Nanos {
        Nanos(self.0.get())
    }
}

/// A watch and the clock it goes by.
pub(crate) struct Turned {
    pub(crate) watch: Watch<Turning>,
    pub(crate) clock: Turning,
}

impl Turned {
    /// Everything is read once more, a second later.
    pub(crate) fn again(&mut self) -> ByName {
        self.after(Nanos::from_secs(1))
    }

    /// What is due so much later is read once more.
    pub(crate) fn after(&mut self, time: Nanos) -> ByName {
        self.clock.by(time);
        self.watch.read_due();
        self.latest()
    }

    fn latest(&self) -> ByName {
        let all = self.watch.latest();
        all.filter_map(|(channel, last)| Some((channel.name.clone(), last?)))
            .collect()
    }
}
