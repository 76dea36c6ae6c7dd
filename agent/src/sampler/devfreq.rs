//! Clocks and loads of GPU, NPU and memory where the kernel scales them.

use edgedyno_shared::telemetry::{ChannelKind, Fidelity};

use super::board::{Board, Names};
use super::fault::Fault;
use super::files::Kept;
use super::offer::{Found, Offer, Tier};
use super::source::{Single, single};
use super::watch::Readings;
use super::{Sampler, Source, text};

const FOLDER: &str = "sys/class/devfreq";

/// A table with a row and a column for each clock, in one page.
const TABLE: usize = 8 << 10;

const FREQ: Offer = Offer {
    name: "devfreq.DEVICE.freq",
    unit: "hz",
    kind: ChannelKind::Gauge,
    fidelity: Fidelity::Measured,
    native_period: None,
    source: "/sys/class/devfreq/DEVICE/cur_freq",
    rights: "any user",
    boards: "boards whose GPU, NPU or memory clock is scaled by devfreq",
    meaning: "The clock of the device now. A memory clock that is parked halves what every accelerator can do.",
};

const ALLOWED: Offer = Offer {
    name: "devfreq.DEVICE.freq_max",
    source: "/sys/class/devfreq/DEVICE/max_freq",
    meaning: "The highest clock allowed now.",
    ..FREQ
};

const LOAD: Offer = Offer {
    name: "devfreq.DEVICE.load",
    unit: "ppm",
    fidelity: Fidelity::DriverAveraged,
    source: "/sys/class/devfreq/DEVICE/load",
    boards: "Rockchip kernels",
    meaning: "Busy share at the clock of the moment, over the governor's own period. For memory: of the controller, not of its peak. Some kernels show 100 % of an idle NPU.",
    ..FREQ
};

const MOVES: Offer = Offer {
    name: "devfreq.DEVICE.transitions",
    unit: "count",
    kind: ChannelKind::Counter,
    source: "/sys/class/devfreq/DEVICE/trans_stat",
    boards: "kernels whose devfreq keeps statistics",
    meaning: "Times that the clock moved: exact over any span, however seldom it is read.",
    ..FREQ
};

const LOWEST: Offer = Offer {
    name: "devfreq.DEVICE.freq_min",
    source: "/sys/class/devfreq/DEVICE/min_freq",
    meaning: "The lowest clock allowed now.",
    ..FREQ
};

const RESIDENCY: Offer = Offer {
    name: "devfreq.DEVICE.at_HZ",
    unit: "ns",
    meaning: "Time at this clock: exact over any span, in steps of a millisecond.",
    ..MOVES
};

pub(super) struct Devfreq;

impl Sampler for Devfreq {
    fn name(&self) -> &'static str {
        "devfreq"
    }

    fn offers(&self) -> &'static [Offer] {
        &[FREQ, ALLOWED, LOWEST, LOAD, MOVES, RESIDENCY]
    }

    fn find(&self, board: &Board) -> Vec<Found> {
        let Ok(devices) = board.entries(FOLDER, "") else {
            return vec![FREQ.absent(format!("/{FOLDER} has no devices"))];
        };
        let mut names = Names::default();
        let found = devices.iter().flat_map(|device| {
            let folder = format!("{FOLDER}/{device}");
            let name = format!("devfreq.{}", names.of(device));
            let one = |tier, offer, what: &str, file: &str| {
                let name = format!("{name}.{what}");
                single(board, tier, offer, &name, &format!("{folder}/{file}"), 1)
            };
            let mut found = vec![
                one(Tier::Fast, &FREQ, "freq", "cur_freq"),
                one(Tier::Slow, &ALLOWED, "freq_max", "max_freq"),
                one(Tier::Slow, &LOWEST, "freq_min", "min_freq"),
            ];
            let load = format!("{folder}/load");
            if board.has(&load) {
                let spec = LOAD.spec(format!("{name}.load"), format!("/{load}"));
                let source = Single::parsed(board, &load, text::percent_at, 1);
                found.push(Found::new(Tier::Normal, vec![spec], source));
            }
            let moves = format!("{folder}/trans_stat");
            if board.has(&moves) {
                found.push(moves_of(board, &name, &moves));
            }
            found
        });
        found.collect()
    }
}

/// How often a clock moved, and how long it was at each of its values.
fn moves_of(board: &Board, name: &str, path: &str) -> Found {
    let mut file = board.keep(path, TABLE);
    let clocks = file.text().map(clocks).unwrap_or_default();
    let mut specs = vec![MOVES.spec(format!("{name}.transitions"), format!("/{path}"))];
    specs.extend(
        clocks
            .iter()
            .map(|hz| RESIDENCY.spec(format!("{name}.at_{hz}"), format!("/{path}"))),
    );
    Found::new(Tier::Slow, specs, Moves { file, clocks })
}

/// The clocks that have a row in a table of transitions, in its order.
fn clocks(table: &[u8]) -> Vec<i64> {
    text::lines(table)
        .filter_map(|line| Some(row(line)?.0))
        .collect()
}

/// Clock and milliseconds of a row: `* 4266000000:          4          0   9000`; the star is at the clock of
/// now.
fn row(line: &[u8]) -> Option<(i64, i64)> {
    let line = line.strip_prefix(b"*").unwrap_or(line);
    let colon = line.iter().position(|byte| *byte == b':')?;
    let clock = text::number(line[..colon].trim_ascii())?;
    let time = text::words(line[colon + 1..].trim_ascii()).last()?;
    Some((clock, text::number(time)?))
}

struct Moves {
    file: Kept,
    clocks: Vec<i64>,
}

impl Source for Moves {
    fn read(&mut self, out: &mut Readings<'_>) {
        const NO_ROW: Fault = Fault::parse("the clock has no row in the table");
        const MILLISECOND: i64 = 1_000_000;
        let held = match out.timed(|| self.file.text()) {
            Ok(held) => held,
            Err(fault) => return out.put_all(fault),
        };
        out.put(0, text::figure(held, b"Total transition :"));
        for (at, clock) in self.clocks.iter().enumerate() {
            let mut rows = text::lines(held).filter_map(row);
            let time = rows.find(|(of, _)| of == clock);
            let time = time.and_then(|(_, ms)| ms.checked_mul(MILLISECOND));
            out.put(1 + at, time.ok_or(NO_ROW));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sampler::testing::Tree;

    #[test]
    fn a_device_gives_clock_and_load() {
        let dmc = "sys/class/devfreq/dmc";
        let ddrc = "sys/class/devfreq/soc:ddrc-freq";
        let tree = Tree::with(&[
            (&format!("{dmc}/cur_freq"), "2112000000\n"),
            (&format!("{dmc}/load"), "47@2112000000Hz\n"),
            (&format!("{ddrc}/cur_freq"), "4266000000\n"),
            (
                &format!("{ddrc}/trans_stat"),
                "     From  :   To\n           : 2133000000 4266000000   time(ms)\n  2133000000:          0          5    200\n* 4266000000:          4          0   9000\nTotal transition : 9\n",
            ),
        ]);
        let readings = tree.read(&Devfreq);
        assert_eq!(readings["devfreq.dmc.freq"], Ok(2_112_000_000));
        assert_eq!(readings["devfreq.dmc.load"], Ok(470_000));
        assert_eq!(readings["devfreq.soc_ddrc_freq.freq"], Ok(4_266_000_000));
        assert_eq!(readings["devfreq.soc_ddrc_freq.transitions"], Ok(9));
        let at = |hz: &str| readings[&format!("devfreq.soc_ddrc_freq.at_{hz}")];
        assert_eq!(at("2133000000"), Ok(200_000_000));
        assert_eq!(at("4266000000"), Ok(9_000_000_000));
        assert!(!readings.contains_key("devfreq.dmc.transitions"));
    }

    proptest! {
        #[test]
        fn no_table_makes_it_panic(held: Vec<u8>, line in "[*]? {0,3}[0-9]{0,12}:[ 0-9]{0,30}") {
            let _ = (clocks(&held), row(&held), row(line.as_bytes()));
        }
    }
}
