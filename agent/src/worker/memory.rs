//! Memory of a process as the kernel counts it.

use std::fs;
use std::path::Path;

use edgedyno_shared::repeat::{Memory, Moment};
use edgedyno_shared::units::Bytes;

/// Resident memory of this process now. `arena` bytes are mapped trial slots, taken off both figures.
///
/// `ru_maxrss` is not used: a child inherits its parent's high-water mark across fork.
pub fn read(moment: Moment, arena: Bytes) -> Memory {
    let status = fs::read_to_string(Path::new("/proc/self/status")).unwrap_or_default();
    let without_arena = |field| kibibytes(&status, field).map(|b| Bytes(b.saturating_sub(arena.0)));
    Memory {
        moment,
        rss: without_arena("VmRSS:"),
        rss_peak: without_arena("VmHWM:"),
        arena,
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
    fn this_process_has_resident_memory() {
        let memory = read(Moment::Spawned, Bytes(0));
        assert!(memory.rss.unwrap() > Bytes(0) && memory.rss_peak >= memory.rss);
    }
}
