//! Why a channel has no value, small enough to be kept in a series.

use std::io;

use edgedyno_shared::device::Reading;
use edgedyno_shared::telemetry::Quality;
use nix::errno::Errno;

use crate::privileged::remedy;

/// A read that gave no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub quality: Quality,
    cause: Cause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Errno(i32),
    Text(&'static str),
}

impl Fault {
    pub const fn new(quality: Quality, why: &'static str) -> Self {
        Self {
            quality,
            cause: Cause::Text(why),
        }
    }

    pub const fn absent(why: &'static str) -> Self {
        Self::new(Quality::Absent, why)
    }

    pub const fn parse(why: &'static str) -> Self {
        Self::new(Quality::ParseError, why)
    }

    /// The process that was watched has ended.
    pub fn is_gone(&self) -> bool {
        self.cause == Cause::Errno(Errno::ESRCH as i32)
    }

    /// The same of a sensor that could be opened: what it measures may be switched off, or its chip may not
    /// answer just now, and drivers say so with any of these.
    pub(super) fn or_asleep(self) -> Self {
        let sleeps = [Errno::EINVAL, Errno::ENODATA, Errno::EIO];
        match sleeps
            .iter()
            .any(|errno| self.cause == Cause::Errno(*errno as i32))
        {
            true => Self {
                quality: Quality::Busy,
                ..self
            },
            false => self,
        }
    }

    /// Why, in words.
    pub fn text(&self) -> String {
        match self.cause {
            Cause::Errno(number) => io::Error::from_raw_os_error(number).to_string(),
            Cause::Text(text) => text.into(),
        }
    }

    /// The same as a reading of the file or call named; with what would grant it, where that is known. The
    /// helper itself refuses with EPERM.
    pub fn reading(&self, source: &str) -> Reading {
        let is_denied = self.cause == Cause::Errno(Errno::EACCES as i32);
        let remedy = remedy(source).filter(|_| is_denied);
        let remedy = remedy.map(|words| format!("; {words}")).unwrap_or_default();
        self.quality
            .reading(format!("{source}: {}{remedy}", self.text()))
    }
}

impl From<&io::Error> for Fault {
    /// A device that sleeps answers EAGAIN, a kernel in lockdown EPERM; what a sensor that is switched off
    /// answers is in `or_asleep`.
    fn from(why: &io::Error) -> Self {
        let number = why.raw_os_error().unwrap_or(Errno::EIO as i32);
        let quality = match Errno::from_raw(number) {
            Errno::EACCES | Errno::EPERM => Quality::Denied,
            Errno::EBUSY | Errno::EAGAIN | Errno::ETXTBSY => Quality::Busy,
            _ => Quality::Absent,
        };
        Self {
            quality,
            cause: Cause::Errno(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_answers_has_a_state() {
        for (errno, quality) in [
            (Errno::EACCES, Quality::Denied),
            (Errno::EPERM, Quality::Denied),
            (Errno::EBUSY, Quality::Busy),
            (Errno::EAGAIN, Quality::Busy),
            (Errno::ENOENT, Quality::Absent),
            (Errno::EINVAL, Quality::Absent),
            (Errno::ENODATA, Quality::Absent),
            (Errno::ESRCH, Quality::Absent),
        ] {
            let fault = Fault::from(&io::Error::from_raw_os_error(errno as i32));
            assert_eq!(fault.quality, quality, "{errno}");
        }
    }

    #[test]
    fn a_sensor_may_be_asleep_but_not_forbidden_or_gone() {
        for (errno, quality) in [
            (Errno::EINVAL, Quality::Busy),
            (Errno::ENODATA, Quality::Busy),
            (Errno::EIO, Quality::Busy),
            (Errno::EAGAIN, Quality::Busy),
            (Errno::EACCES, Quality::Denied),
            (Errno::ENODEV, Quality::Absent),
        ] {
            let fault = Fault::from(&io::Error::from_raw_os_error(errno as i32)).or_asleep();
            assert_eq!(fault.quality, quality, "{errno}");
        }
    }
}
