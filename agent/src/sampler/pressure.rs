//! Pressure stall information: time in which work waited for CPU, memory or disk.

use edgedyno_shared::telemetry::{ChannelKind, Fidelity};

use super::Sampler;
use super::board::Board;
use super::offer::{Found, Offer, Tier};
use super::source::{Fields, Place};

const CPU: Offer = Offer {
    name: "psi.cpu.some",
    unit: "ns",
    kind: ChannelKind::Counter,
    fidelity: Fidelity::Measured,
    native_period: None,
    source: "/proc/pressure/cpu",
    rights: "any user",
    boards: "Linux 4.20 or later with CONFIG_PSI",
    meaning: "Time in which some thread of the board wanted a CPU and had none. Read once a second, and ten times with `--telemetry fast`; for how long the worker itself waited see `worker.run_delay`.",
};

const MEMORY: Offer = Offer {
    name: "psi.memory.some",
    source: "/proc/pressure/memory",
    meaning: "Time in which some thread waited for memory to be reclaimed. It says nothing of memory bandwidth.",
    ..CPU
};

const MEMORY_FULL: Offer = Offer {
    name: "psi.memory.full",
    meaning: "Time in which every thread that was not idle waited for memory to be reclaimed.",
    ..MEMORY
};

const IO: Offer = Offer {
    name: "psi.io.some",
    source: "/proc/pressure/io",
    meaning: "Time in which some thread waited for a disk.",
    ..CPU
};

const IO_FULL: Offer = Offer {
    name: "psi.io.full",
    meaning: "Time in which every thread that was not idle waited for a disk.",
    ..IO
};

const INTERRUPTS: Offer = Offer {
    name: "psi.irq.full",
    source: "/proc/pressure/irq",
    boards: "Linux 6.1 or later with CONFIG_PSI and CONFIG_IRQ_TIME_ACCOUNTING",
    meaning: "Time that interrupts took from threads which wanted to run.",
    ..CPU
};

/// Figures are in microseconds.
const MICRO: i64 = 1_000;

type Row = (Offer, &'static str, &'static [u8]);

const FILES: [(&str, &[Row]); 4] = [
    ("proc/pressure/cpu", &[(CPU, "some", b"some")]),
    (
        "proc/pressure/memory",
        &[(MEMORY, "some", b"some"), (MEMORY_FULL, "full", b"full")],
    ),
    (
        "proc/pressure/io",
        &[(IO, "some", b"some"), (IO_FULL, "full", b"full")],
    ),
    ("proc/pressure/irq", &[(INTERRUPTS, "full", b"full")]),
];

pub(super) struct Pressure;

impl Sampler for Pressure {
    fn name(&self) -> &'static str {
        "pressure"
    }

    fn offers(&self) -> &'static [Offer] {
        &[CPU, MEMORY, MEMORY_FULL, IO, IO_FULL, INTERRUPTS]
    }

    fn find(&self, board: &Board) -> Vec<Found> {
        let found = FILES.iter().map(|(path, rows)| {
            let specs = rows
                .iter()
                .map(|(offer, line, _)| offer.spec(offer.name, format!("/{path} {line}")));
            let places = rows
                .iter()
                .map(|(_, _, line)| (Place::Named(line, b"total="), MICRO));
            let source = Fields::new(board, path, 512, places.collect());
            // Totals miss nothing, however seldom they are read; a CPU is short for moments only, which cost a
            // sum over all CPUs to see.
            let tier = match *path == "proc/pressure/cpu" {
                true => Tier::Dear,
                false => Tier::Slow,
            };
            Found::new(tier, specs.collect(), source)
        });
        found.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::testing::Tree;

    #[test]
    fn totals_are_nanoseconds() {
        let tree = Tree::with(&[
            (
                "proc/pressure/memory",
                "some avg10=0.00 avg60=0.00 avg300=0.00 total=12\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n",
            ),
            (
                "proc/pressure/irq",
                "full avg10=0.00 avg60=0.00 avg300=0.00 total=9\n",
            ),
        ]);
        let readings = tree.read(&Pressure);
        assert_eq!(readings["psi.memory.some"], Ok(12_000));
        assert_eq!(readings["psi.memory.full"], Ok(5_000));
        assert_eq!(readings["psi.irq.full"], Ok(9_000));
        assert!(readings["psi.cpu.some"].is_err());
    }
}
