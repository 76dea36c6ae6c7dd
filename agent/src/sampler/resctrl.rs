//! What processors say of their last cache and of memory traffic through it, where that is mounted (Linux,
//! Documentation/filesystems/resctrl.rst).
//!
//! It is the traffic of CPUs: accelerators and devices that reach memory by themselves are not in it.

use edgedyno_shared::telemetry::{ChannelKind, Fidelity, Quality};
use edgedyno_shared::units::Nanos;

use super::Sampler;
use super::board::{Board, plain};
use super::fault::Fault;
use super::offer::{Found, Offer, Tier};
use super::source::Single;
use super::text;

const FOLDER: &str = "sys/fs/resctrl/mon_data";

const OCCUPANCY: Offer = Offer {
    name: "llc.DOMAIN.occupancy",
    unit: "bytes",
    kind: ChannelKind::Gauge,
    fidelity: Fidelity::Measured,
    native_period: Some(Nanos::from_secs(1)),
    source: "/sys/fs/resctrl/mon_data/DOMAIN/llc_occupancy",
    rights: "any user, once root has mounted resctrl",
    boards: "x86 with cache monitoring, Arm with MPAM, where resctrl is mounted",
    meaning: "What the default group, all that nobody put into another, holds of that last-level cache.",
};

const TOTAL: Offer = Offer {
    name: "llc.DOMAIN.memory_bytes",
    kind: ChannelKind::Counter,
    source: "/sys/fs/resctrl/mon_data/DOMAIN/mbm_total_bytes",
    meaning: "Bytes between that cache and memory for CPUs of the default group: no accelerator's and no device's. The kernel's own test allows 8 % against the memory controller.",
    ..OCCUPANCY
};

const LOCAL: Offer = Offer {
    name: "llc.DOMAIN.local_memory_bytes",
    source: "/sys/fs/resctrl/mon_data/DOMAIN/mbm_local_bytes",
    meaning: "The part of it to and from memory of the same NUMA node.",
    ..TOTAL
};

const FILES: [(Offer, &str, &str); 3] = [
    (OCCUPANCY, "llc_occupancy", "occupancy"),
    (TOTAL, "mbm_total_bytes", "memory_bytes"),
    (LOCAL, "mbm_local_bytes", "local_memory_bytes"),
];

pub(super) struct Resctrl;

impl Sampler for Resctrl {
    fn name(&self) -> &'static str {
        "resctrl"
    }

    fn offers(&self) -> &'static [Offer] {
        &[OCCUPANCY, TOTAL, LOCAL]
    }

    fn find(&self, board: &Board) -> Vec<Found> {
        let domains = board.entries(FOLDER, "mon_");
        let mut found = Vec::new();
        for domain in domains.unwrap_or_default() {
            let files = board.entries(&format!("{FOLDER}/{domain}"), "");
            let files = files.unwrap_or_default();
            for (offer, file, what) in FILES.iter().filter(|row| files.iter().any(|f| f == row.1)) {
                let name = plain(domain.trim_start_matches("mon_"));
                let path = format!("{FOLDER}/{domain}/{file}");
                let spec = offer.spec(format!("llc.{name}.{what}"), format!("/{path}"));
                let source = Single::parsed(board, &path, figure, 1);
                found.push(Found::new(Tier::Slow, vec![spec], source));
            }
        }
        if found.is_empty() {
            let reason = "resctrl is not mounted, or this processor does not monitor its cache";
            found.push(TOTAL.absent(reason));
        }
        found
    }
}

/// A number, or a word for why there is none.
fn figure(held: &[u8]) -> Result<i64, Fault> {
    match held.trim_ascii() {
        // It may have one at the next read, as a device that answers EAGAIN.
        b"Unavailable" => Err(Fault::new(Quality::Busy, "the processor has no value now")),
        b"Unassigned" => Err(Fault::absent("no counter is assigned")),
        b"Error" => Err(Fault::absent("the processor reports an error")),
        held => text::integer(held),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::testing::Tree;

    #[test]
    fn each_domain_has_its_channels_and_words_are_no_values() {
        let file = |name: &str| format!("{FOLDER}/{name}");
        let tree = Tree::with(&[
            (&file("mon_L3_00/llc_occupancy"), "1253376\n"),
            (&file("mon_L3_00/mbm_total_bytes"), "4096\n"),
            (&file("mon_L3_00/mbm_local_bytes"), "Unavailable\n"),
            (&file("mon_L3_01/llc_occupancy"), "7\n"),
        ]);
        let mut watch = tree.watch(&Resctrl);
        tree.set(&file("mon_L3_00/mbm_total_bytes"), "8192\n");
        let readings = watch.again();
        assert_eq!(readings["llc.l3_00.occupancy"], Ok(1_253_376));
        assert_eq!(readings["llc.l3_00.memory_bytes"], Ok(8192));
        assert_eq!(readings["llc.l3_01.occupancy"], Ok(7));
        let local = readings["llc.l3_00.local_memory_bytes"].unwrap_err();
        assert_eq!(local.quality, Quality::Busy);
        tree.set(&file("mon_L3_00/mbm_local_bytes"), "12\n");
        assert_eq!(watch.again()["llc.l3_00.local_memory_bytes"], Ok(12));
        assert!(!readings.contains_key("llc.l3_01.memory_bytes"));
    }
}
