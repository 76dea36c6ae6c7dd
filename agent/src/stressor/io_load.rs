//! `io`: writes a file round and round, past the page cache where the file system allows it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use edgedyno_shared::load::{IO_MOST_BYTES, IO_MOST_PER_SECOND, IO_PIECE};
use edgedyno_sys::stress::Region;
use nix::libc;

use super::{Most, Room, Settings, Stressor, Work};

/// Bytes of the file of each thread: what a small board's disk can spare.
const FILE: u64 = 64 << 20;

pub(super) struct Io;

impl Stressor for Io {
    fn name(&self) -> &'static str {
        "io"
    }

    fn room(&self) -> Room {
        Room::Disk(FILE)
    }

    fn most(&self) -> Option<Most> {
        Some(Most {
            per_second: IO_MOST_PER_SECOND,
            in_all: IO_MOST_BYTES,
            why: "more would wear out a board's flash memory",
        })
    }

    fn prepare(&self, settings: &Settings<'_>) -> io::Result<Box<dyn Work>> {
        let (file, direct) = nameless(settings.scratch, settings.seed)?;
        Ok(Box::new(Writing {
            file,
            direct,
            // Aligned to a page, as writing past the cache asks for.
            buffer: Region::new(IO_PIECE as usize)?,
            at: 0,
            written: 0,
        }))
    }
}

/// A file that has no name any more, and so is gone with this process; whether it passes the cache by.
fn nameless(folder: &Path, seed: u64) -> io::Result<(File, bool)> {
    let path = folder.join(format!("stress-io-{}-{seed:x}", std::process::id()));
    let open = |flags| {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.custom_flags(flags).open(&path)
    };
    let opened = match open(libc::O_DIRECT) {
        Ok(file) => Ok((file, true)),
        // tmpfs and some others refuse it.
        Err(_) => open(0).map(|file| (file, false)),
    };
    let _ = std::fs::remove_file(&path);
    opened
}

struct Writing {
    file: File,
    direct: bool,
    buffer: Region,
    at: u64,
    written: u64,
}

impl Work for Writing {
    fn step(&mut self) -> io::Result<u64> {
        let piece = &self.buffer.as_bytes()[..IO_PIECE as usize];
        self.file.write_all_at(piece, self.at)?;
        self.at = (self.at + IO_PIECE) % FILE;
        if self.at == 0 || !self.direct {
            self.file.sync_data()?;
        }
        self.written += IO_PIECE;
        Ok(IO_PIECE)
    }

    fn checksum(&self) -> u64 {
        self.written
    }

    fn notes(&self) -> Vec<String> {
        let through = "the file system takes no O_DIRECT: each write was followed by fdatasync";
        match self.direct {
            true => Vec::new(),
            false => vec![through.into()],
        }
    }
}
