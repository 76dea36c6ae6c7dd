//! The faults a vendor's library can have, committed for real.

use std::io::Write;
use std::time::Duration;

use edgedyno_shared::units::Bytes;
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use nix::sys::signal::{Signal, raise};

use crate::clock;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The backend reports an error.
    Error,
    /// Segmentation fault.
    Crash,
    Abort,
    Hang,
    /// Leaves the process with code 3.
    Exit,
    /// Leaves the process with code 0, as if all were well.
    QuietExit,
    /// Killed from outside.
    Kill,
    OutOfMemory,
}

impl Fault {
    const ALL: [(&'static str, Self); 8] = [
        ("error", Self::Error),
        ("crash", Self::Crash),
        ("abort", Self::Abort),
        ("hang", Self::Hang),
        ("exit", Self::Exit),
        ("quiet_exit", Self::QuietExit),
        ("kill", Self::Kill),
        ("oom", Self::OutOfMemory),
    ];

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, fault)| *fault)
    }
}

/// Does it; returns only where the fault is an error that a backend would report.
pub(super) fn commit(fault: Fault, memory_limit: Option<Bytes>) -> Result<(), Failure> {
    match fault {
        Fault::Error => Err(Failure::new(
            FailureCode::BackendError,
            "fake backend error 17, as told",
        )),
        Fault::Crash => die_by(Signal::SIGSEGV),
        Fault::Kill => die_by(Signal::SIGKILL),
        Fault::Abort => {
            say("fake: last words before the abort\n");
            std::process::abort()
        }
        Fault::Exit => std::process::exit(3),
        Fault::QuietExit => std::process::exit(0),
        Fault::Hang => loop {
            clock::pause(Duration::from_secs(3600));
        },
        Fault::OutOfMemory => run_out_of_memory(memory_limit),
    }
}

fn die_by(signal: Signal) -> ! {
    // std's own handler for stack overflows takes the first SIGSEGV and restores the default.
    loop {
        let _ = raise(signal);
    }
}

/// Allocates until the limit ends the process; without a limit it would hurt the board, so it only says so.
fn run_out_of_memory(limit: Option<Bytes>) -> Result<(), Failure> {
    if limit.is_none() {
        return Err(Failure::new(
            FailureCode::OutOfMemory,
            "fake backend out of memory, as told",
        ));
    }
    let mut hoard: Vec<Vec<u8>> = Vec::new();
    loop {
        hoard.push(vec![1; 1 << 24]);
    }
}

pub(super) fn say(text: &str) {
    // Noise for the daemon to drain; a closed pipe is the daemon's business.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
