//! Clocks and loads of GPU, NPU and memory where the kernel scales them.

use edgedyno_shared::telemetry::{ChannelKind, Fidelity};

use super::Sampler;
use super::board::{Board, Names};
use super::offer::{Found, Offer, Tier};
use super::source::{Fields, Place, Single, single};
use super::text;

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

pub(super) struct Devfreq;

impl Sampler for Devfreq {
    fn name(&self) -> &'static str {
        "devfreq"
    }

    fn offers(&self) -> &'static [Offer] {
        &[FREQ, ALLOWED, LOAD, MOVES]
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
            ];
            let load = format!("{folder}/load");
            if board.has(&load) {
                let spec = LOAD.spec(format!("{name}.load"), format!("/{load}"));
                let source = Single::parsed(board, &load, text::percent_at, 1);
                found.push(Found::new(Tier::Normal, vec![spec], source));
            }
            let moves = format!("{folder}/trans_stat");
            if board.has(&moves) {
                let spec = MOVES.spec(format!("{name}.transitions"), format!("/{moves}"));
                let total = Place::Line(b"Total transition :".to_vec());
                let source = Fields::new(board, &moves, TABLE, vec![(total, 1)]);
                found.push(Found::new(Tier::Slow, vec![spec], source));
            }
            found
        });
        found.collect()
    }
}

#[cfg(test)]
mod tests {
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
        assert!(!readings.contains_key("devfreq.dmc.transitions"));
    }
}
