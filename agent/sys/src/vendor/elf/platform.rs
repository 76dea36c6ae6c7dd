//! What a library is built for, and what this program is: processor and C library.

use std::fmt;

/// A processor architecture as an ELF header names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Architecture {
    /// The number of the machine (`e_machine`).
    pub machine: u16,
    /// Width of an address: 32 or 64.
    pub bits: u8,
    /// Byte order of numbers.
    pub little_endian: bool,
}

impl Architecture {
    /// What this program was built for, and hence what it can load; `None` on a target unknown here.
    pub fn of_this_program() -> Option<Self> {
        let machine = match std::env::consts::ARCH {
            "x86" => 3,
            "arm" => 40,
            "x86_64" => 62,
            "aarch64" => 183,
            "riscv64" => 243,
            _ => return None,
        };
        let bits = if cfg!(target_pointer_width = "64") {
            64
        } else {
            32
        };
        Some(Self {
            machine,
            bits,
            little_endian: cfg!(target_endian = "little"),
        })
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.machine, self.bits) {
            (3, _) => write!(f, "x86")?,
            (40, _) => write!(f, "arm")?,
            (62, 64) => write!(f, "x86-64")?,
            (183, 64) => write!(f, "aarch64")?,
            (243, bits) => write!(f, "riscv{bits}")?,
            (machine, bits) => write!(f, "machine {machine} ({bits}-bit)")?,
        }
        if self.little_endian {
            Ok(())
        } else {
            write!(f, ", big-endian")
        }
    }
}

/// A version of the GNU C library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GlibcVersion {
    /// 2 since 1997.
    pub major: u16,
    /// The number that counts releases.
    pub minor: u16,
    /// Used in old symbol versions only.
    pub patch: u16,
}

impl GlibcVersion {
    /// The version this program runs with; `None` when it is built with another C library.
    pub fn of_this_program() -> Option<Self> {
        #[cfg(target_env = "gnu")]
        {
            // SAFETY: glibc gives out a pointer to a constant of its own.
            let version = unsafe { libc::gnu_get_libc_version() };
            // SAFETY: the constant is a zero-terminated text that lives as long as the process.
            let version = unsafe { std::ffi::CStr::from_ptr(version) };
            Self::parse(version.to_str().ok()?)
        }
        #[cfg(not(target_env = "gnu"))]
        None
    }

    /// Parses `2.28` and `2.2.5`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').map(str::parse);
        let mut next = || numbers.next().transpose().ok();
        let version = Self {
            major: next()??,
            minor: next()??,
            patch: next()?.unwrap_or(0),
        };
        numbers.next().is_none().then_some(version)
    }
}

impl fmt::Display for GlibcVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        if self.patch == 0 {
            Ok(())
        } else {
            write!(f, ".{}", self.patch)
        }
    }
}
