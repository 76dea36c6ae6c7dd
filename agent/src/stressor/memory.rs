//! Memory gone through in order: `mem_read` and its kin.

use std::io;

use edgedyno_sys::stress::{Pattern, Stream};

use super::{Memory, Room, Settings, Stressor, Work};

/// Bytes of each array in one piece of work: some microseconds, so that a schedule is kept smoothly.
const PIECE: usize = 64 << 10;

/// One pattern as a stressor.
pub(super) struct Streaming {
    name: &'static str,
    pattern: Pattern,
}

pub(super) static READ: Streaming = Streaming::new("mem_read", Pattern::Read);
pub(super) static WRITE: Streaming = Streaming::new("mem_write", Pattern::Write);
pub(super) static WRITE_NT: Streaming = Streaming::new("mem_write_nt", Pattern::WriteNt);
pub(super) static COPY: Streaming = Streaming::new("mem_copy", Pattern::Copy);
pub(super) static COPY_NT: Streaming = Streaming::new("mem_copy_nt", Pattern::CopyNt);
pub(super) static TRIAD: Streaming = Streaming::new("mem_triad", Pattern::Triad);

impl Streaming {
    const fn new(name: &'static str, pattern: Pattern) -> Self {
        Self { name, pattern }
    }
}

impl Stressor for Streaming {
    fn name(&self) -> &'static str {
        self.name
    }

    fn obstacle(&self) -> Option<String> {
        let why = "nobody has written it for this processor";
        (!self.pattern.is_built()).then(|| why.into())
    }

    fn room(&self) -> Room {
        Room::BeyondCaches
    }

    fn prepare(&self, settings: &Settings<'_>) -> io::Result<Box<dyn Work>> {
        let bytes = usize::try_from(settings.bytes).unwrap_or(usize::MAX);
        Ok(Box::new(Going(Stream::new(self.pattern, bytes)?)))
    }
}

struct Going(Stream);

impl Work for Going {
    fn step(&mut self) -> io::Result<u64> {
        Ok(self.0.step(PIECE))
    }

    fn checksum(&self) -> u64 {
        self.0.checksum()
    }

    fn memory(&self) -> Memory {
        Memory {
            bytes: Some(self.0.bytes()),
            huge: self.0.huge_bytes(),
        }
    }
}
