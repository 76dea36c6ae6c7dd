//! The worker's share of memory that it shares with others.
//!
//! The kernel walks the worker's page tables for it and holds the lock of its address space for reading
//! meanwhile: some microseconds for a small process, milliseconds for one of gigabytes. Faults of the worker
//! go on beside it, a call that maps memory would wait. So it is read seldom, and the more seldom the longer
//! it takes.

use edgedyno_shared::telemetry::{ChannelKind, Fidelity};
use edgedyno_shared::units::Nanos;

use super::board::Board;
use super::files::Kept;
use super::offer::{Found, Offer, Tier};
use super::watch::Readings;
use super::{Sampler, Source, text};

const KIB: i64 = 1024;

/// Reading may take one part in so many of the time.
const SELDOM: i64 = 1000;

const PSS: Offer = Offer {
    name: "worker.pss",
    unit: "bytes",
    kind: ChannelKind::Gauge,
    fidelity: Fidelity::Measured,
    native_period: None,
    source: "/proc/PID/smaps_rollup Pss",
    rights: "the worker's user",
    boards: "Linux 4.14 or later with CONFIG_PROC_PAGE_MONITOR",
    meaning: "Resident memory of the worker, each page divided by how many processes have it. The kernel walks the worker's page tables for it: it is read once a second at most, and no more than a thousandth of the time.",
};

const SWAPPED: Offer = Offer {
    name: "worker.swapped",
    source: "/proc/PID/smaps_rollup Swap",
    meaning: "Memory of the worker that is on swap.",
    ..PSS
};

pub(super) struct Footprint;

impl Sampler for Footprint {
    fn name(&self) -> &'static str {
        "footprint"
    }

    fn offers(&self) -> &'static [Offer] {
        &[PSS, SWAPPED]
    }

    fn find(&self, board: &Board) -> Vec<Found> {
        let Some(worker) = board.worker else {
            return vec![PSS.absent("no worker runs")];
        };
        let path = format!("proc/{worker}/smaps_rollup");
        let specs = [PSS, SWAPPED].map(|offer| offer.spec(offer.name, format!("/{path}")));
        let rollup = Rollup {
            file: board.keep(&path, 4096),
            not_before: Nanos::ZERO,
        };
        vec![Found::new(Tier::Slow, specs.to_vec(), rollup)]
    }
}

struct Rollup {
    file: Kept,
    not_before: Nanos,
}

impl Source for Rollup {
    fn read(&mut self, out: &mut Readings<'_>) {
        let before = out.now();
        if before < self.not_before {
            return;
        }
        let held = out.timed(|| self.file.text());
        let took = out.now() - before;
        self.not_before = Nanos(before.0 + took.0 * SELDOM);
        for (slot, key) in [b"Pss:" as &[u8], b"Swap:"].into_iter().enumerate() {
            let value = held.and_then(|held| text::figure(held, key));
            out.put(slot, value.map(|kib| kib.saturating_mul(KIB)));
        }
    }
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::telemetry::TelemetryMode;

    use super::*;
    use crate::clock::Clock;
    use crate::sampler::Watch;
    use crate::sampler::testing::{Tree, Turning};

    const ROLLUP: &str = "55d0a000-7ffd000 ---p 00000000 00:00 0   [rollup]\nRss:                1884 kB\nPss:                 310 kB\nPss_Dirty:           104 kB\nSwap:                  4 kB\nSwapPss:               4 kB\n";

    #[test]
    fn shares_of_pages_are_read_once_a_second() {
        let tree = Tree::with(&[("proc/42/smaps_rollup", ROLLUP)]);
        let mut watch = tree.watch(&Footprint);
        let readings = watch.again();
        assert_eq!(readings["worker.pss"], Ok(310 * 1024));
        assert_eq!(readings["worker.swapped"], Ok(4 * 1024));
        tree.set("proc/42/smaps_rollup", &ROLLUP.replace("310", "311"));
        assert_eq!(watch.again()["worker.pss"], Ok(311 * 1024));
    }

    /// Each look at it takes a while.
    #[derive(Clone)]
    struct Slow(Turning, Nanos);

    impl Clock for Slow {
        fn now(&self) -> Nanos {
            self.0.by(self.1);
            self.0.now()
        }
    }

    #[test]
    fn what_takes_long_is_read_the_more_seldom() {
        let tree = Tree::with(&[("proc/42/smaps_rollup", ROLLUP)]);
        let clock = Slow(Turning::default(), Nanos::from_millis(1));
        let found = Footprint.find(&tree.board());
        let mode = TelemetryMode::Normal;
        let mut watch = Watch::new("s", found, mode, clock.clone(), || Nanos::ZERO);
        for _ in 0..10 {
            clock.0.by(Nanos::from_millis(990));
            watch.read_due();
        }
        // A read of 4 looks at the clock takes 4 ms and is not repeated for 4 s: three in ten seconds.
        let records = watch.records(0);
        let samples = records.iter().find_map(|record| match record {
            edgedyno_shared::wire::record::Record::Samples(samples) => Some(samples.at_ns.len()),
            _ => None,
        });
        assert!((2..=4).contains(&samples.unwrap()), "{samples:?}");
    }
}
