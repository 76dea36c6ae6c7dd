//! Monitors of memory ports of D-Robotics' boards: one ioctl, then records by plain reads (axi_mon in the
//! kernel sources of the X5, ddrmonitor in those of the X3).

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::Path;

/// What the driver is started with (struct axi_mon_cfg, ddr_mon_cfg).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Config {
    period_ms: u32,
    records: u32,
}

nix::ioctl_write_ptr!(configure, b'm', 3, Config);

/// Records of one read at most.
const MOST: u32 = 400;

/// What a read may fill: a driver copies all records that were asked for last, by whomever, however long the
/// buffer is (its own TOTAL_RESULT_SIZE).
pub const ROOM: usize = 400 << 10;

/// The open device. Dropped, it stops, also for others who have it open.
#[derive(Debug)]
pub struct AxiMonitor(File);

impl AxiMonitor {
    /// # Errors
    /// When it is not there, or may not be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        File::options().read(true).write(true).open(path).map(Self)
    }

    /// Starts to count: so many records, one for each period.
    ///
    /// # Errors
    /// What the driver says; `EBUSY` where another has it.
    pub fn start(&mut self, period_ms: u32, records: u32) -> io::Result<()> {
        let config = Config {
            period_ms,
            records: records.min(MOST),
        };
        // SAFETY: the descriptor is open, and the driver copies the structure during the call.
        unsafe { configure(self.0.as_raw_fd(), &raw const config) }?;
        Ok(())
    }

    /// Waits for the records that were asked for.
    ///
    /// # Errors
    /// What the driver says; a buffer of less than [`ROOM`] is refused, since the driver would write behind it.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.len() < ROOM {
            let why = "a buffer that the driver could write behind";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        self.0.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_monitor_is_refused() {
        assert!(AxiMonitor::open(Path::new("/nowhere")).is_err());
        let mut other = AxiMonitor::open(Path::new("/dev/null")).unwrap();
        let refused = other.start(100, 1).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ENOTTY));
        let short = other.read(&mut vec![0; ROOM - 1]).unwrap_err();
        assert_eq!(short.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(other.read(&mut vec![0; ROOM]).unwrap(), 0);
    }
}
