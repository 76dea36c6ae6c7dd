//! Files of one running repeat: its arena, its sealed trials and the log of its records.
//!
//! They lie on tmpfs, so that nothing is written to a disk while the board measures, and outlive the
//! daemon, so that a restarted one can still hand over what was measured.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use edgedyno_shared::columns::MAX_COLUMNS;
use edgedyno_shared::ids::StoreId;
use edgedyno_shared::order::OrderKey;
use edgedyno_shared::wire::frame::{self, Frame, kind};
use edgedyno_shared::wire::record::{Record, SegmentHeader};

use crate::arena::{ArenaReader, Sealed, reader};
use crate::disk;

/// The folder of one repeat.
#[derive(Debug)]
pub struct RepeatFolder {
    path: PathBuf,
    spill: PathBuf,
    log: File,
    logged: u64,
}

impl RepeatFolder {
    /// Makes the folder, its arena and its log, which begins with the header.
    ///
    /// `spill` is where trials go that do not fit on tmpfs.
    pub fn create(base: &Path, spill: &Path, header: &SegmentHeader) -> io::Result<Self> {
        let folder = Self::without_arena(base, spill, header)?;
        reader::create(&folder.path.join("arena"))?;
        Ok(folder)
    }

    /// A folder for a repeat that never got as far as an arena.
    pub fn without_arena(base: &Path, spill: &Path, header: &SegmentHeader) -> io::Result<Self> {
        let stem = header.key.file_stem();
        let path = base.join(&stem);
        if path.join("log").exists() {
            // What was measured under this key is not thrown away: it is recovered first.
            let text = format!("{} holds an earlier attempt", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        disk::private_folder(&path)?;
        disk::private_folder(spill)?;
        let spill = spill.join(stem);
        disk::remove(&spill)?;
        let mut log = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(path.join("log"))?;
        frame::write_blocking(&mut log, &header.to_frame())?;
        Ok(Self {
            path,
            spill,
            log,
            logged: 0,
        })
    }

    /// A folder that an earlier daemon left, with the header its log begins with.
    pub fn reopen(path: &Path, spill: &Path) -> io::Result<(Self, SegmentHeader)> {
        let log = OpenOptions::new()
            .read(true)
            .append(true)
            .open(path.join("log"))?;
        let mut from = BufReader::new(File::open(path.join("log"))?);
        let first = frame::read_blocking(&mut from, frame::LIMIT).map_err(io::Error::other)?;
        let header = first
            .filter(|frame| frame.kind == kind::SEGMENT)
            .and_then(|frame| SegmentHeader::parse(&frame.payload).ok())
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        let spill = spill.join(header.key.file_stem());
        let mut folder = Self {
            path: path.into(),
            spill,
            log,
            logged: 0,
        };
        folder.logged = folder.records()?.count() as u64;
        Ok((folder, header))
    }

    /// Where the folder lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Remembers how wide a trial is, in a form that any schema can read.
    pub fn keep_columns(&self, columns: usize) -> io::Result<()> {
        fs::write(self.path.join("columns"), columns.to_string())
    }

    /// How wide a trial is; none before a worker said so.
    pub fn columns(&self) -> Option<usize> {
        let text = fs::read_to_string(self.path.join("columns")).ok()?;
        text.parse()
            .ok()
            .filter(|columns| (1..=MAX_COLUMNS).contains(columns))
    }

    /// Whether trials were sealed and nobody can say any more where one ends.
    pub fn has_unreadable_trials(&self) -> bool {
        let sealed = fs::metadata(self.path.join("sealed")).map_or(0, |found| found.len());
        self.columns().is_none() && sealed > 0
    }

    /// The arena, to be inherited by the worker.
    pub fn arena(&self) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.path.join("arena"))
    }

    pub fn arena_reader(&self, columns: usize, consumed: u64) -> io::Result<ArenaReader> {
        Ok(ArenaReader::new(self.arena()?, columns, consumed))
    }

    pub fn sealed(&self) -> io::Result<Sealed> {
        Sealed::open(&self.path.join("sealed"), &self.spill)
    }

    /// Appends a record, whole or not at all; never called while a window is open.
    pub fn log(&mut self, record: &Record) -> io::Result<()> {
        let frame = record.to_frame(self.logged).map_err(io::Error::other)?;
        let before = self.log.metadata()?.len();
        if let Err(why) = frame::write_blocking(&mut self.log, &frame) {
            // Behind half a frame no other could be read.
            self.log.set_len(before)?;
            return Err(why);
        }
        self.logged += 1;
        Ok(())
    }

    /// The frames of all whole records, as they were logged: their sequence counts from 0. One that a
    /// crash cut short at the end is left out.
    pub fn records(&self) -> io::Result<impl Iterator<Item = Frame> + use<>> {
        let mut from = BufReader::new(File::open(self.path.join("log"))?);
        let frames =
            std::iter::from_fn(move || frame::read_blocking(&mut from, frame::LIMIT).ok()?);
        Ok(frames.filter(|frame| frame.kind == kind::RECORD))
    }

    /// Moves what the worker published and nobody took from the ring to the sealed file.
    ///
    /// The sealed file is written before the ring is released, so its length is what was taken.
    pub fn settle(&self) -> io::Result<Option<(usize, Sealed)>> {
        let Some(columns) = self.columns() else {
            return Ok(None);
        };
        let mut sealed = self.sealed()?;
        sealed.trim(columns)?;
        let mut reader = self.arena_reader(columns, sealed.slots(columns))?;
        let mut slots = Vec::new();
        match reader.take(&mut slots) {
            Ok(_) => sealed.append(&slots)?,
            Err(why) => tracing::warn!("the ring of {} cannot be used: {why}", self.path.display()),
        }
        Ok(Some((columns, sealed)))
    }

    /// Removes everything of the repeat.
    pub fn remove(self) -> io::Result<()> {
        disk::remove(&self.spill)?;
        fs::remove_dir_all(&self.path)
    }
}

/// Names a segment before its number is known.
pub fn header(store: StoreId, boot: edgedyno_shared::ids::BootId, key: OrderKey) -> SegmentHeader {
    let schema = edgedyno_shared::wire::hello::schema_hash();
    SegmentHeader {
        schema,
        store,
        boot,
        segment: 0,
        key,
    }
}
