//! Sensors that only a vendor's library gives, read by a process of their own (`sensor`): a library that
//! crashes or hangs is the state of its channels here, and nothing else.

use std::path::Path;

use edgedyno_shared::telemetry::{ChannelKind, Fidelity, Quality};
use edgedyno_shared::units::Nanos;

use super::board::Board;
use super::fault::Fault;
use super::feed::{self, Digest, Feed, Look};
use super::offer::{Found, Offer, Spec, Tier};
use super::watch::Readings;
use super::{Sampler, Source, text};
use crate::sensor::{DEVICES, Kind, Missing, Refusal};

/// Utilisation is a mean over a sixth of a second to a second, by product (nvml.h).
const NVML_PERIOD: Option<Nanos> = Some(Nanos::from_secs(1));

const NVML_LOAD: Offer = Offer {
    name: "nvml.N.load",
    unit: "ppm",
    kind: ChannelKind::Gauge,
    fidelity: Fidelity::DriverAveraged,
    native_period: NVML_PERIOD,
    source: "libnvidia-ml.so.1, in a process of its own",
    rights: "any user who may open /dev/nvidia0",
    boards: "NVIDIA GPUs with NVML; Jetson from JetPack 7 on answers some of it",
    meaning: "Share of the time in which at least one kernel ran. Not how much of the GPU was used; not supported under MIG.",
};

const NVML_MEMORY_LOAD: Offer = Offer {
    name: "nvml.N.memory_load",
    meaning: "Share of the time in which memory was read or written: not the share of its bandwidth.",
    ..NVML_LOAD
};

const NVML_MEMORY_USED: Offer = Offer {
    name: "nvml.N.memory_used",
    unit: "bytes",
    fidelity: Fidelity::Measured,
    native_period: None,
    meaning: "Memory of the GPU in use, by everybody.",
    ..NVML_LOAD
};

const NVML_FREQ: Offer = Offer {
    name: "nvml.N.freq",
    unit: "hz",
    meaning: "Clock of the graphics engine.",
    ..NVML_MEMORY_USED
};

const NVML_SM_FREQ: Offer = Offer {
    name: "nvml.N.sm_freq",
    meaning: "Clock of the multiprocessors.",
    ..NVML_FREQ
};

const NVML_MEMORY_FREQ: Offer = Offer {
    name: "nvml.N.memory_freq",
    meaning: "Clock of the GPU's memory.",
    ..NVML_FREQ
};

const NVML_TEMP: Offer = Offer {
    name: "nvml.N.temp",
    unit: "millicelsius",
    meaning: "Temperature of the chip, in whole degrees.",
    ..NVML_MEMORY_USED
};

const NVML_POWER: Offer = Offer {
    name: "nvml.N.power",
    unit: "microwatt",
    fidelity: Fidelity::DriverAveraged,
    native_period: NVML_PERIOD,
    meaning: "Power of the card: of now on older ones, a mean over a second on newer ones.",
    ..NVML_MEMORY_USED
};

const NVML_ENERGY: Offer = Offer {
    name: "nvml.N.energy",
    unit: "microjoule",
    kind: ChannelKind::Counter,
    meaning: "Energy of the card since its driver was loaded.",
    ..NVML_MEMORY_USED
};

const NVML_REASONS: Offer = Offer {
    name: "nvml.N.clock_reasons",
    unit: "bits",
    kind: ChannelKind::State,
    meaning: "Why the clock is what it is: 1 idle, 2 set by an application, 4 power cap, 8 slowed by hardware, 32 slowed by heat, 64 slowed by hardware for heat, 128 power brake.",
    ..NVML_MEMORY_USED
};

const NVML_CPU: Offer = Offer {
    name: "sensor.nvml.cpu",
    unit: "ns",
    kind: ChannelKind::Counter,
    meaning: "CPU time of the process that asks the library: it runs on the agent's CPUs, and is not part of `sampler.cpu`.",
    ..NVML_MEMORY_USED
};

const HAILO_TEMP: Offer = Offer {
    name: "hailo.N.temp",
    unit: "millicelsius",
    kind: ChannelKind::Gauge,
    fidelity: Fidelity::Measured,
    native_period: None,
    source: "libhailort.so, in a process of its own",
    rights: "any user who may open /dev/hailo0",
    boards: "boards with a Hailo-8",
    meaning: "The warmer of the chip's two sensors.",
};

const HAILO_CPU: Offer = Offer {
    name: "sensor.hailo.cpu",
    unit: "ns",
    kind: ChannelKind::Counter,
    meaning: "CPU time of the process that asks the library: it runs on the agent's CPUs, and is not part of `sampler.cpu`.",
    ..HAILO_TEMP
};

const NVML: [Offer; 10] = [
    NVML_LOAD,
    NVML_MEMORY_LOAD,
    NVML_MEMORY_USED,
    NVML_FREQ,
    NVML_SM_FREQ,
    NVML_MEMORY_FREQ,
    NVML_TEMP,
    NVML_POWER,
    NVML_ENERGY,
    NVML_REASONS,
];

/// A process that says nothing for so long is given up until it does.
const PATIENCE: Nanos = Nanos::from_secs(5);

pub(super) struct Vendor;

impl Sampler for Vendor {
    fn name(&self) -> &'static str {
        "vendor libraries"
    }

    fn offers(&self) -> &'static [Offer] {
        &[
            NVML_LOAD,
            NVML_MEMORY_LOAD,
            NVML_MEMORY_USED,
            NVML_FREQ,
            NVML_SM_FREQ,
            NVML_MEMORY_FREQ,
            NVML_TEMP,
            NVML_POWER,
            NVML_ENERGY,
            NVML_REASONS,
            NVML_CPU,
            HAILO_TEMP,
            HAILO_CPU,
        ]
    }

    fn find(&self, board: &Board) -> Vec<Found> {
        let nvml = start(board, Kind::Nvml, "dev/nvidia0", &NVML, &NVML_CPU);
        let hailo = start(board, Kind::Hailo, "dev/hailo0", &[HAILO_TEMP], &HAILO_CPU);
        vec![nvml, hailo]
    }
}

fn start(board: &Board, kind: Kind, device: &str, offers: &[Offer], cpu: &Offer) -> Found {
    let (folder, name) = device.split_once('/').unwrap_or(("", device));
    let listed = board.files.list(folder).unwrap_or_default();
    if !listed.iter().any(|entry| entry == name) {
        return offers[0].absent(format!("there is no /{device}"));
    }
    let Some(exec) = &board.exec else {
        return offers[0].absent("this program cannot start another of itself here");
    };
    let mut command = exec.command("sensor");
    command.arg(kind.name());
    command.arg("--root");
    command.arg(board.files.root().unwrap_or(Path::new("/")));
    let feed = match Feed::lines_of(command, PATIENCE, digest) {
        Ok(feed) => feed,
        Err(why) => return offers[0].absent(format!("its process cannot be started: {why}")),
    };
    let mut specs = vec![cpu.spec(cpu.name, cpu.source)];
    for _ in 0..DEVICES {
        specs.extend(offers.iter().map(|offer| Spec {
            name: String::new(),
            ..offer.spec("", offer.source)
        }));
    }
    let process = Process {
        feed,
        line: feed::room(),
        kind,
        fields: offers.len(),
        devices: 0,
        told: 0,
        name: String::new(),
    };
    Found::new(Tier::Normal, specs, process)
}

/// Lines of figures are pieces; a refusal is the reason for the end; what a library says besides is noise.
fn digest(line: &[u8]) -> Digest {
    let line = line.trim_ascii();
    let refusal = Refusal::ALL
        .iter()
        .find(|refusal| line == refusal.word().as_bytes());
    match refusal {
        Some(Refusal::NoLibrary) => {
            Digest::Fault(Fault::absent("the vendor's library is not installed"))
        }
        Some(Refusal::Library) => {
            Digest::Fault(Fault::absent("the vendor's library cannot be opened here"))
        }
        Some(Refusal::Start) => {
            Digest::Fault(Fault::absent("the vendor's library refuses to start"))
        }
        None if line.starts_with(b"cpu ") => Digest::Piece(line.to_vec()),
        None => Digest::Nothing,
    }
}

struct Process {
    feed: Feed,
    line: Vec<u8>,
    kind: Kind,
    fields: usize,
    /// Devices that it told of, and channels that have their name.
    devices: usize,
    told: usize,
    name: String,
}

impl Source for Process {
    fn read(&mut self, out: &mut Readings<'_>) {
        let (at, line) = match self.feed.look(&mut self.line) {
            Look::Nothing => return,
            Look::Piece(at, line) => (at, line),
            Look::Fault(fault) => {
                out.timed(|| ());
                for slot in 0..1 + self.devices * self.fields {
                    out.put(slot, Err(fault));
                }
                return;
            }
        };
        out.at(at);
        let mut parts = line.split(|byte| *byte == b';');
        let cpu = parts.next().and_then(|part| part.strip_prefix(b"cpu "));
        let cpu = cpu.and_then(text::number);
        out.put(0, cpu.ok_or(Fault::parse("not a line of figures")));
        for (device, part) in parts.take(DEVICES).enumerate() {
            self.devices = self.devices.max(device + 1);
            let first = 1 + device * self.fields;
            for (field, word) in text::words(part).take(self.fields).enumerate() {
                out.put(first + field, figure(word));
            }
        }
    }

    fn new_name(&mut self) -> Option<(usize, &str)> {
        if self.told >= self.devices * self.fields {
            return None;
        }
        let (device, field) = (self.told / self.fields, self.told % self.fields);
        let field = self.kind.fields().get(field)?;
        self.name = format!("{}.{device}.{field}", self.kind.name());
        self.told += 1;
        Some((self.told, &self.name))
    }
}

fn figure(word: &[u8]) -> Result<i64, Fault> {
    let missing = Missing::ALL
        .iter()
        .find(|missing| word == missing.word().as_bytes());
    match missing {
        Some(Missing::Unsupported) => Err(Fault::absent("the device does not support it")),
        Some(Missing::Denied) => Err(Fault::new(Quality::Denied, "the library refuses this user")),
        Some(Missing::Lost) => Err(Fault::absent("the device is gone from its bus")),
        Some(Missing::Failed) => Err(Fault::absent("the vendor's library failed")),
        None => text::number(word).ok_or(Fault::parse("not a figure")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_stand_in_the_order_of_the_figures() {
        for (kind, offers) in [(Kind::Nvml, &NVML[..]), (Kind::Hailo, &[HAILO_TEMP][..])] {
            let fields: Vec<String> = kind
                .fields()
                .iter()
                .map(|f| format!("{}.N.{f}", kind.name()))
                .collect();
            let names: Vec<&str> = offers.iter().map(|offer| offer.name).collect();
            assert_eq!(names, fields);
        }
    }

    #[test]
    fn figures_and_reasons_are_told_apart() {
        assert_eq!(figure(b"470000"), Ok(470_000));
        assert_eq!(figure(b"!denied").unwrap_err().quality, Quality::Denied);
        assert_eq!(
            figure(b"!unsupported").unwrap_err().quality,
            Quality::Absent
        );
        assert_eq!(figure(b"x").unwrap_err().quality, Quality::ParseError);
        assert!(matches!(digest(b"cpu 5; 1 2\n"), Digest::Piece(_)));
        assert!(matches!(
            digest(b"a library's own noise\n"),
            Digest::Nothing
        ));
        assert!(matches!(digest(b"refused start\n"), Digest::Fault(_)));
    }
}
