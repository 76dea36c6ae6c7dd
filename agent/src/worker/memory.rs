//! Memory of a process as the kernel counts it.

use std::fs;
use std::path::Path;

use edgedyno_shared::repeat::{Memory, Moment};
use edgedyno_shared::units::Bytes;

/// Resident memory of this process before the arena is mapped.
///
/// `ru_maxrss` is not used: a child inherits its parent's high-water mark across fork.
pub fn read(moment: Moment) -> Memory {
    let status = fs::read_to_string(Path::new("/proc/self/status")).unwrap_or_default();
    let field = |name| kibibytes(&status, name).map(Bytes);
    Memory {
        moment,
        rss: field("VmRSS:"),
        rss_peak: field("VmHWM:"),
        arena: Bytes(0),
    }
}

/// The same with all pages of an arena of `arena` bytes resident, which are taken off.
///
/// `before`: what was read just before it was mapped. The peak may be from before then, and has no
/// arena in it.
pub fn read_beside_arena(moment: Moment, arena: Bytes, before: &Memory) -> Memory {
    let now = read(moment);
    let without = |bytes: Bytes| Bytes(bytes.0.saturating_sub(arena.0));
    Memory {
        rss: now.rss.map(without),
        rss_peak: now.rss_peak.map(without).max(before.rss_peak),
        arena,
        ..now
    }
}

/// Bytes of a field of `/proc/PID/status`, whose unit is KiB.
pub fn kibibytes(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let number = line.trim().strip_suffix("kB")?.trim();
    number.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_by_name_and_absent_ones_are_unknown() {
        let status = "Name:\tx\nVmHWM:\t     208 kB\nVmRSS:\t 12 kB\nThreads: 3\n";
        assert_eq!(kibibytes(status, "VmHWM:"), Some(208 * 1024));
        assert_eq!(kibibytes(status, "VmSwap:"), None);
        assert_eq!(kibibytes(status, "Threads:"), None);
    }

    #[test]
    fn a_peak_from_before_the_arena_stays() {
        let before = Memory {
            moment: Moment::Loaded,
            rss: None,
            rss_peak: Some(Bytes(1 << 50)),
            arena: Bytes(0),
        };
        let after = read_beside_arena(Moment::AfterWindow, Bytes(4096), &before);
        assert_eq!(after.rss_peak, Some(Bytes(1 << 50)));
    }

    #[test]
    fn this_process_has_resident_memory() {
        let memory = read(Moment::Spawned);
        assert!(memory.rss.unwrap() > Bytes(0) && memory.rss_peak >= memory.rss);
    }
}
