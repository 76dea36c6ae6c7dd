//! A process that reads sensors through a vendor's library, so that none is loaded in the daemon.
//!
//! It opens the library by itself and writes a line a second to its standard output: the CPU time it used so
//! far, then the figures of each device behind a `;`, in the order of [`Kind::fields`]. A figure that is not
//! there is `!` and why. It ends when nobody reads any more; whatever the library does to it is its own
//! affair.

mod hailo;
mod nvml;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use edgedyno_sys::vendor::search::{self, Surroundings, Wanted};

use crate::clock;

/// Devices that are told.
pub(crate) const DEVICES: usize = 4;

const PERIOD: Duration = Duration::from_secs(1);

/// Whose library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Nvml,
    Hailo,
}

/// Why a figure is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    Unsupported,
    Denied,
    Lost,
    Failed,
}

/// Why there is nothing at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    NoLibrary,
    Library,
    Start,
}

impl Kind {
    pub(crate) const ALL: [Self; 2] = [Self::Nvml, Self::Hailo];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Nvml => "nvml",
            Self::Hailo => "hailo",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Figures of a device, in their order.
    pub(crate) const fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Nvml => &nvml::FIELDS,
            Self::Hailo => &["temp"],
        }
    }
}

impl Missing {
    pub(crate) const ALL: [Self; 4] = [Self::Unsupported, Self::Denied, Self::Lost, Self::Failed];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Unsupported => "!unsupported",
            Self::Denied => "!denied",
            Self::Lost => "!lost",
            Self::Failed => "!failed",
        }
    }
}

impl Refusal {
    pub(crate) const ALL: [Self; 3] = [Self::NoLibrary, Self::Library, Self::Start];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::NoLibrary => "refused no-library",
            Self::Library => "refused library",
            Self::Start => "refused start",
        }
    }
}

type Figure = Result<i64, Missing>;

/// What a library gives, round by round.
trait Devices {
    fn count(&self) -> usize;
    fn read(&self, device: usize) -> Vec<Figure>;
}

/// Reads until nobody listens; `root` is where the library is looked for.
pub(crate) fn run(kind: Kind, root: PathBuf) -> ExitCode {
    let devices = match open(kind, root) {
        Ok(devices) => devices,
        Err((refusal, why)) => {
            let _ = writeln!(io::stdout(), "{}", refusal.word());
            let _ = writeln!(io::stderr(), "{why}");
            return ExitCode::FAILURE;
        }
    };
    let mut out = io::stdout();
    loop {
        let line = line(&*devices);
        if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
            return ExitCode::SUCCESS;
        }
        clock::pause(PERIOD);
    }
}

fn line(devices: &dyn Devices) -> String {
    let mut line = format!("cpu {}", clock::process_cpu_time().0);
    for device in 0..devices.count().min(DEVICES) {
        line.push(';');
        for figure in devices.read(device) {
            line.push(' ');
            match figure {
                Ok(value) => line.push_str(&value.to_string()),
                Err(missing) => line.push_str(missing.word()),
            }
        }
    }
    line
}

fn open(kind: Kind, root: PathBuf) -> Result<Box<dyn Devices>, (Refusal, String)> {
    match kind {
        Kind::Nvml => nvml::open(find(&edgedyno_sys::vendor::nvml::WANTED, root)?),
        Kind::Hailo => hailo::open(find(&edgedyno_sys::vendor::hailo::WANTED, root)?),
    }
}

fn find(wanted: &Wanted, root: PathBuf) -> Result<PathBuf, (Refusal, String)> {
    let around = Surroundings {
        root,
        ..Surroundings::of_this_process()
    };
    let found = search::candidates(wanted, None, &[], &around)
        .into_iter()
        .next();
    let why = || {
        (
            Refusal::NoLibrary,
            format!("{} is nowhere", wanted.files[0]),
        )
    };
    found.map(|candidate| candidate.path).ok_or_else(why)
}
