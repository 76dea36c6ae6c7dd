//! Memory of the whole board.

use edgedyno_shared::telemetry::{ChannelKind, Fidelity};

use super::Sampler;
use super::board::Board;
use super::offer::{Found, Offer, Tier};
use super::source::{Fields, Place};

const MEMINFO: &str = "proc/meminfo";
const VMSTAT: &str = "proc/vmstat";
const KIB: i64 = 1024;

const AVAILABLE: Offer = Offer {
    name: "mem.available",
    unit: "bytes",
    kind: ChannelKind::Gauge,
    fidelity: Fidelity::Estimated,
    native_period: None,
    source: "/proc/meminfo MemAvailable",
    rights: "any user",
    boards: "every Linux",
    meaning: "What new work could get without swapping, as the kernel estimates it. Not free memory, which is near zero on a healthy board. The kernel adds up its books for each read of the file: once a second, and ten times with `--telemetry fast`.",
};

const TOTAL: Offer = Offer {
    name: "mem.total",
    fidelity: Fidelity::Measured,
    source: "/proc/meminfo MemTotal",
    meaning: "What the kernel has, less than is soldered on.",
    ..AVAILABLE
};

const CACHED: Offer = Offer {
    name: "mem.cached",
    fidelity: Fidelity::Measured,
    source: "/proc/meminfo Cached",
    meaning: "Pages of files.",
    ..AVAILABLE
};

const CMA_FREE: Offer = Offer {
    name: "mem.cma_free",
    fidelity: Fidelity::Measured,
    source: "/proc/meminfo CmaFree",
    boards: "boards whose kernel sets contiguous memory aside",
    meaning: "What is left of the contiguous memory that NPU and codec buffers come from.",
    ..AVAILABLE
};

const CMA_TOTAL: Offer = Offer {
    name: "mem.cma_total",
    source: "/proc/meminfo CmaTotal",
    meaning: "The contiguous memory that the kernel set aside.",
    ..CMA_FREE
};

const SWAP_FREE: Offer = Offer {
    name: "mem.swap_free",
    fidelity: Fidelity::Measured,
    source: "/proc/meminfo SwapFree",
    meaning: "Swap not in use; 0 where there is none.",
    ..AVAILABLE
};

const SWAPPED_IN: Offer = Offer {
    name: "mem.swapped_in",
    unit: "pages",
    kind: ChannelKind::Counter,
    fidelity: Fidelity::Measured,
    source: "/proc/vmstat pswpin",
    meaning: "Pages read back from swap, by anybody on the board.",
    ..AVAILABLE
};

const SWAPPED_OUT: Offer = Offer {
    name: "mem.swapped_out",
    source: "/proc/vmstat pswpout",
    meaning: "Pages written to swap, by anybody on the board.",
    ..SWAPPED_IN
};

const MAJOR_FAULTS: Offer = Offer {
    name: "mem.major_faults",
    unit: "count",
    source: "/proc/vmstat pgmajfault",
    meaning: "Faults that had to wait for a disk, by anybody on the board.",
    ..SWAPPED_IN
};

const OOM_KILLS: Offer = Offer {
    name: "mem.oom_kills",
    unit: "count",
    source: "/proc/vmstat oom_kill",
    meaning: "Processes that the kernel killed for want of memory.",
    ..SWAPPED_IN
};

pub(super) struct Memory;

impl Sampler for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn offers(&self) -> &'static [Offer] {
        &[
            AVAILABLE,
            TOTAL,
            CACHED,
            CMA_FREE,
            CMA_TOTAL,
            SWAP_FREE,
            SWAPPED_IN,
            SWAPPED_OUT,
            MAJOR_FAULTS,
            OOM_KILLS,
        ]
    }

    fn find(&self, board: &Board) -> Vec<Found> {
        let meminfo = [
            (AVAILABLE, "MemAvailable:"),
            (TOTAL, "MemTotal:"),
            (CACHED, "Cached:"),
            (CMA_FREE, "CmaFree:"),
            (CMA_TOTAL, "CmaTotal:"),
            (SWAP_FREE, "SwapFree:"),
        ];
        // The keys have the blank behind them, so that none is the begin of another.
        let vmstat = [
            (SWAPPED_IN, "pswpin "),
            (SWAPPED_OUT, "pswpout "),
            (MAJOR_FAULTS, "pgmajfault "),
            (OOM_KILLS, "oom_kill "),
        ];
        vec![
            fields(board, Tier::Dear, MEMINFO, 8 << 10, KIB, &meminfo),
            fields(board, Tier::Slow, VMSTAT, 32 << 10, 1, &vmstat),
        ]
    }
}

fn fields(
    board: &Board,
    tier: Tier,
    path: &str,
    room: usize,
    scale: i64,
    rows: &[(Offer, &str)],
) -> Found {
    let specs = rows
        .iter()
        .map(|(offer, _)| offer.spec(offer.name, offer.source));
    let places = rows
        .iter()
        .map(|(_, key)| (Place::Line(key.as_bytes().to_vec()), scale));
    let source = Fields::new(board, path, room, places.collect());
    Found::new(tier, specs.collect(), source)
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::telemetry::Quality;

    use super::*;
    use crate::sampler::testing::Tree;

    #[test]
    fn kibibytes_become_bytes_and_what_is_not_there_is_absent() {
        let tree = Tree::with(&[
            (
                MEMINFO,
                "MemTotal:       2000 kB\nMemFree: 1 kB\nMemAvailable:   1500 kB\nCached: 300 kB\nSwapCached: 9 kB\nSwapFree: 0 kB\n",
            ),
            (VMSTAT, "pswpin 3\npswpout 4\npgmajfault 5\n"),
        ]);
        let readings = tree.read(&Memory);
        assert_eq!(readings["mem.available"], Ok(1500 * 1024));
        assert_eq!(readings["mem.cached"], Ok(300 * 1024));
        assert_eq!(readings["mem.swap_free"], Ok(0));
        assert_eq!(readings["mem.swapped_out"], Ok(4));
        for missing in ["mem.cma_free", "mem.oom_kills"] {
            assert_eq!(readings[missing].unwrap_err().quality, Quality::Absent);
        }
    }
}
