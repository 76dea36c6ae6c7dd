//! Memory gone through out of order: `chase` waits for each line, `cache_thrash` drives others' data out.

use std::io;

use edgedyno_sys::stress::{Chase, Thrash};

use super::{Memory, Room, Settings, Stressor, Work};

/// Lines of one piece of work.
const HOPS: usize = 256;

pub(super) struct Chasing;

impl Stressor for Chasing {
    fn name(&self) -> &'static str {
        "chase"
    }

    fn room(&self) -> Room {
        // A chain of 256 MiB takes a second to lay out, and no translation cache holds its pages.
        Room::BeyondCachesUpTo(256 << 20)
    }

    fn prepare(&self, settings: &Settings<'_>) -> io::Result<Box<dyn Work>> {
        let bytes = usize::try_from(settings.bytes).unwrap_or(usize::MAX);
        Ok(Box::new(Following(Chase::new(bytes, settings.seed)?)))
    }
}

struct Following(Chase);

impl Work for Following {
    fn step(&mut self) -> io::Result<u64> {
        Ok(self.0.step(HOPS))
    }

    fn checksum(&self) -> u64 {
        self.0.checksum()
    }

    fn memory(&self) -> Memory {
        self.0.region().into()
    }
}

pub(super) struct Thrashing;

impl Stressor for Thrashing {
    fn name(&self) -> &'static str {
        "cache_thrash"
    }

    fn room(&self) -> Room {
        Room::OwnCache
    }

    fn prepare(&self, settings: &Settings<'_>) -> io::Result<Box<dyn Work>> {
        let bytes = usize::try_from(settings.bytes).unwrap_or(usize::MAX);
        Ok(Box::new(Driving {
            thrash: Thrash::new(bytes)?,
            bytes: settings.bytes,
        }))
    }
}

struct Driving {
    thrash: Thrash,
    bytes: u64,
}

impl Work for Driving {
    fn step(&mut self) -> io::Result<u64> {
        Ok(self.thrash.step(HOPS))
    }

    fn checksum(&self) -> u64 {
        self.thrash.checksum()
    }

    fn memory(&self) -> Memory {
        Memory {
            bytes: Some(self.bytes),
            huge: self.thrash.region().huge_bytes(),
        }
    }
}
