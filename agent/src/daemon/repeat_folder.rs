//! Files of one running repeat: its arena, its sealed trials and the log of its records.
//!
//! They lie on tmpfs, so that nothing is written to a disk while the board measures, and outlive the
//! daemon, so that a restarted one can still hand over what was measured.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use edgedyno_shared::columns::MAX_COLUMNS;
use edgedyno_shared::ids::StoreId;
use edgedyno_shared::order::OrderKey;
use edgedyno_shared::wire::frame::{self, Frame, kind};
use edgedyno_shared::wire::record::{Record, SegmentHeader};

use crate::arena::{ArenaReader, Sealed, reader};
use crate::disk;
use crate::worker::artifacts::Room;

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
        folder.lane(0).create()?;
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

    /// Files of the trials of one lane; the case itself is lane 0.
    pub fn lane(&self, lane: u16) -> LaneFiles {
        LaneFiles::of(&self.path, &self.spill, lane)
    }

    /// Lanes that have a place for trials.
    fn lanes(&self) -> io::Result<Vec<u16>> {
        let names = disk::names(&self.path, "")?;
        let mut lanes: Vec<u16> = names.iter().filter_map(|name| lane_of(name)).collect();
        lanes.sort_unstable();
        Ok(lanes)
    }

    /// Whether trials of the case were sealed and nobody can say any more where one ends.
    pub fn has_unreadable_trials(&self) -> bool {
        let own = self.lane(0);
        let sealed = fs::metadata(&own.sealed).map_or(0, |found| found.len());
        own.columns().is_none() && sealed > 0
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

    /// What there is room for beside what was logged.
    pub fn room(&self) -> io::Result<Room> {
        let disk = self.spill.parent().unwrap_or(&self.path);
        let (memory, free) = (disk::free_bytes(&self.path)?, disk::free_bytes(disk)?);
        // On one file system what is logged comes to lie twice.
        let halves = match fs::metadata(&self.path)?.dev() == fs::metadata(disk)?.dev() {
            true => 2,
            false => 1,
        };
        Ok(Room {
            memory: memory / halves,
            disk: free / halves,
        })
    }

    /// The frames of all whole records, as they were logged: their sequence counts from 0. One that a
    /// crash cut short at the end is left out.
    pub fn records(&self) -> io::Result<impl Iterator<Item = Frame> + use<>> {
        let mut from = BufReader::new(File::open(self.path.join("log"))?);
        let frames =
            std::iter::from_fn(move || frame::read_blocking(&mut from, frame::LIMIT).ok()?);
        Ok(frames.filter(|frame| frame.kind == kind::RECORD))
    }

    /// Moves what was published and nobody took from each ring to its sealed file; returns those files
    /// with their lanes and the columns of a trial.
    pub fn settle(&self) -> io::Result<Vec<(u16, usize, Sealed)>> {
        let mut out = Vec::new();
        for lane in self.lanes()? {
            let settled = self.lane(lane).settle()?;
            out.extend(settled.map(|(columns, sealed)| (lane, columns, sealed)));
        }
        Ok(out)
    }

    /// Removes everything of the repeat.
    pub fn remove(self) -> io::Result<()> {
        for lane in self.lanes()? {
            disk::remove(&self.lane(lane).spill)?;
        }
        disk::remove(&self.spill)?;
        fs::remove_dir_all(&self.path)
    }
}

/// Files of the trials of one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneFiles {
    arena: PathBuf,
    columns: PathBuf,
    sealed: PathBuf,
    /// Where trials go that do not fit on tmpfs.
    spill: PathBuf,
}

/// Names of the arenas of lanes behind the first.
const ARENA_OF: &str = "arena.";

fn lane_of(name: &str) -> Option<u16> {
    match name {
        "arena" => Some(0),
        other => other.strip_prefix(ARENA_OF)?.parse().ok(),
    }
}

impl LaneFiles {
    fn of(folder: &Path, spill: &Path, lane: u16) -> Self {
        let named = |name: &str| match lane {
            0 => folder.join(name),
            lane => folder.join(format!("{name}.{lane}")),
        };
        let mut spill = spill.as_os_str().to_owned();
        if lane > 0 {
            spill.push(format!(".{lane}"));
        }
        Self {
            arena: named("arena"),
            columns: named("columns"),
            sealed: named("sealed"),
            spill: spill.into(),
        }
    }

    /// Makes the arena of a lane that has none yet.
    pub fn create(&self) -> io::Result<()> {
        disk::remove(&self.spill)?;
        reader::create(&self.arena).map(drop)
    }

    /// The arena, to be inherited by a worker.
    pub fn arena(&self) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open(&self.arena)
    }

    /// Remembers how wide a trial is, in a form that any schema can read.
    pub fn keep_columns(&self, columns: usize) -> io::Result<()> {
        fs::write(&self.columns, columns.to_string())
    }

    /// How wide a trial is; none before a worker said so.
    pub fn columns(&self) -> Option<usize> {
        let text = fs::read_to_string(&self.columns).ok()?;
        text.parse()
            .ok()
            .filter(|columns| (1..=MAX_COLUMNS).contains(columns))
    }

    pub fn arena_reader(&self, columns: usize, consumed: u64) -> io::Result<ArenaReader> {
        Ok(ArenaReader::new(self.arena()?, columns, consumed))
    }

    pub fn sealed(&self) -> io::Result<Sealed> {
        Sealed::open(&self.sealed, &self.spill)
    }

    /// The sealed file is written before the ring is released, so its length is what was taken.
    fn settle(&self) -> io::Result<Option<(usize, Sealed)>> {
        let Some(columns) = self.columns() else {
            return Ok(None);
        };
        let mut sealed = self.sealed()?;
        sealed.trim(columns)?;
        let mut reader = self.arena_reader(columns, sealed.slots(columns))?;
        let mut slots = Vec::new();
        match reader.take(&mut slots) {
            Ok(_) => sealed.append(&slots)?,
            Err(why) => tracing::warn!("the ring {} cannot be used: {why}", self.arena.display()),
        }
        Ok(Some((columns, sealed)))
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
