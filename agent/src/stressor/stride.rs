//! Memory read by strides that no prefetcher follows: `mem_read_stride`.

use std::io;

use edgedyno_sys::stress::Stride;

use super::{Memory, Room, Settings, Stressor, Work};

/// Lines of one piece of work.
const LINES: usize = 256;

pub(super) struct Striding;

impl Stressor for Striding {
    fn name(&self) -> &'static str {
        "mem_read_stride"
    }

    fn room(&self) -> Room {
        Room::BeyondCaches
    }

    fn prepare(&self, settings: &Settings<'_>) -> io::Result<Box<dyn Work>> {
        let bytes = usize::try_from(settings.bytes).unwrap_or(usize::MAX);
        Ok(Box::new(Going(Stride::new(bytes)?)))
    }
}

struct Going(Stride);

impl Work for Going {
    fn step(&mut self) -> io::Result<u64> {
        Ok(self.0.step(LINES))
    }

    fn checksum(&self) -> u64 {
        self.0.checksum()
    }

    fn memory(&self) -> Memory {
        self.0.region().into()
    }
}
