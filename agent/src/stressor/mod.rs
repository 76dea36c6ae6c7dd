//! Stressors: other work that a board does while a case is measured. The list below is the only place of
//! the agent that knows them all; their names and units are the host's too.
//!
//! The daemon has a [`load`] started after the cold trials: for each stressor a process of this same
//! program ([`entry`]), and for each model that the condition names a worker of its own (`tenant`). Threads
//! of a stressor are bound to their CPUs, keep to a pace, and count what they do on a [`board`] that the
//! daemon reads.

use std::io;
use std::path::Path;

use edgedyno_shared::load::{Kind, StressOrder};
use edgedyno_sys::stress::Region;

pub mod board;
mod cache;
pub mod caps;
mod cpu;
pub mod entry;
mod io_load;
pub mod load;
mod memory;
mod message;
mod pace;
mod process;
mod stride;
mod tenant;
pub mod tool;
mod tool_run;
mod waiting;

/// All stressors, in the order of [`edgedyno_shared::load::KINDS`].
pub static STRESSORS: &[&dyn Stressor] = &[
    &memory::READ,
    &stride::Striding,
    &memory::WRITE,
    &memory::WRITE_NT,
    &memory::COPY,
    &memory::COPY_NT,
    &memory::TRIAD,
    &cache::Chasing,
    &cache::Thrashing,
    &cpu::INTEGER,
    &cpu::BRANCHY,
    &cpu::SIMD,
    &cpu::Spin,
    &io_load::Io,
    &tool::STRESS_NG,
    &tool::STRESSAPPTEST,
];

/// The stressor of that name.
pub fn find(name: &str) -> Option<&'static dyn Stressor> {
    STRESSORS.iter().copied().find(|s| s.name() == name)
}

/// One way to keep a board busy.
pub trait Stressor: Sync {
    fn name(&self) -> &'static str;

    /// Why it cannot run on this board; none when it can.
    fn obstacle(&self) -> Option<String> {
        None
    }

    /// Memory it goes through by itself, where nobody says how much.
    fn room(&self) -> Room;

    /// The same as it was ordered, for one that has several ways.
    fn room_for(&self, _order: &StressOrder) -> Room {
        self.room()
    }

    /// Less than this it cannot go through, in bytes.
    fn least(&self) -> u64 {
        0
    }

    /// What it may do at most, where more would wear something out.
    fn most(&self) -> Option<Most> {
        None
    }

    /// Makes ready what one thread needs, on that thread: memory is touched where it will be used.
    fn prepare(&self, settings: &Settings<'_>) -> io::Result<Box<dyn Work>>;

    /// The tool that it is, where it is one: that works in a process of its own, and [`Self::prepare`] is not
    /// asked.
    fn tool(&self) -> Option<&tool::Tool> {
        None
    }

    /// Its name and unit as the host knows them.
    fn kind(&self) -> Option<&'static Kind> {
        edgedyno_shared::load::kind_of(self.name())
    }
}

/// What decides how much memory a stressor goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// So much that no cache holds it.
    BeyondCaches,
    /// The same, up to a number of bytes that takes seconds to prepare.
    BeyondCachesUpTo(u64),
    /// The caches of its own CPU, up to the second level.
    OwnCache,
    /// A file on disk of this size for each thread.
    Disk(u64),
    None,
}

/// A bound on what all threads of a stressor do together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Most {
    /// Bytes a second.
    pub per_second: u64,
    /// Bytes in one repeat.
    pub in_all: u64,
    /// What more would do.
    pub why: &'static str,
}

/// What one thread is told.
#[derive(Debug, Clone, Copy)]
pub struct Settings<'a> {
    /// Its share of the working set.
    pub bytes: u64,
    /// Different for every thread.
    pub seed: u64,
    /// A folder for files.
    pub scratch: &'a Path,
}

/// A thread's work, ready to go on for ever.
pub trait Work {
    /// A small piece; returns what was done, in the stressor's unit.
    ///
    /// # Errors
    /// Only where the kernel is asked for something.
    fn step(&mut self) -> io::Result<u64>;

    /// Depends on all that was done: what nobody could have left out.
    fn checksum(&self) -> u64;

    fn memory(&self) -> Memory {
        Memory::default()
    }

    /// What was not as usual.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Memory that a thread goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    pub bytes: Option<u64>,
    pub huge: Option<u64>,
}

impl From<&Region> for Memory {
    fn from(region: &Region) -> Self {
        Self {
            bytes: Some(region.bytes() as u64),
            huge: region.huge_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::load::{KINDS, WorkUnit};

    use super::*;

    #[test]
    fn the_list_is_that_of_the_host() {
        let ours: Vec<&str> = STRESSORS.iter().map(|s| s.name()).collect();
        let theirs: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
        assert_eq!(ours, theirs);
        assert!(find("mem").is_none());
    }

    #[test]
    fn every_stressor_works_and_counts() {
        let scratch = tempfile::tempdir().unwrap();
        let own = STRESSORS.iter().filter(|s| s.tool().is_none());
        for stressor in own.filter(|s| s.obstacle().is_none()) {
            let name = stressor.name();
            let settings = Settings {
                bytes: 1 << 20,
                seed: 5,
                scratch: scratch.path(),
            };
            let mut work = stressor.prepare(&settings).unwrap();
            let before = work.checksum();
            let done = work.step().unwrap() + work.step().unwrap();
            match stressor.kind().unwrap().unit {
                WorkUnit::Nothing => assert_eq!(done, 0, "{name}"),
                WorkUnit::Bytes => assert!(done >= 64 && done % 64 == 0, "{name}: {done}"),
                WorkUnit::Operations => assert!(done > 0, "{name}"),
                WorkUnit::Own => panic!("{name} is no tool"),
            }
            // So many equal words sum up to nothing, and a copy of equal words changes nothing: `Stream` has
            // tests of its own for what these do.
            let of_equal_words = name.starts_with("mem_") && !name.starts_with("mem_write");
            if name != "spin" && !of_equal_words {
                assert_ne!(work.checksum(), before, "{name}");
            }
            let holds_memory = !matches!(stressor.room(), Room::None | Room::Disk(_));
            assert_eq!(work.memory().bytes.is_some(), holds_memory, "{name}");
        }
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }
}
