//! Traffic to and from memory beside what memory can move.

use super::board::over;
use crate::telemetry::{DdrPeak, traffic};
use crate::view::{CaseView, MemoryCeiling, RepeatView};

/// Traffic by counters of the memory controller, and three things to hold it against.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DdrTraffic {
    pub bytes_per_trial: Option<f64>,
    pub bytes_per_second: Option<f64>,
    /// What the data file knows of this board's memory.
    pub peak: Option<&'static DdrPeak>,
    /// Mean clock of the memory inside the windows, in Hz.
    pub clock_hz: Option<f64>,
    /// The most that a stressor of this board moved, calibrated as the board was then.
    pub ceiling: Option<MemoryCeiling>,
}

impl DdrTraffic {
    pub fn of(view: &CaseView, repeats: &[&RepeatView]) -> Self {
        let facts = view.device.as_ref().map(|device| device.facts.as_slice());
        let peak = facts.and_then(DdrPeak::of);
        let clock = peak.and_then(|peak| peak.clock.as_deref());
        let traffic = bandwidth(repeats);
        Self {
            bytes_per_trial: traffic.map(|(trial, _)| trial),
            bytes_per_second: traffic.map(|(_, second)| second),
            peak,
            clock_hz: clock.and_then(|name| {
                over(repeats, |repeat| {
                    super::board::figures(repeat, name).map(|f| f.mean)
                })
            }),
            ceiling: view.memory_ceiling.clone(),
        }
    }

    /// By the data sheet, in bytes a second.
    pub fn peak_per_second(&self) -> Option<f64> {
        self.peak?.per_second()
    }

    pub fn share_of_peak(&self) -> Option<f64> {
        Some(self.bytes_per_second? / self.peak_per_second()?)
    }

    pub fn share_of_clock_peak(&self) -> Option<f64> {
        let peak = self.peak?.at_clock(self.clock_hz.filter(|hz| *hz > 0.0)?);
        Some(self.bytes_per_second? / peak)
    }

    pub fn share_of_ceiling(&self) -> Option<f64> {
        Some(self.bytes_per_second? / self.ceiling.as_ref()?.bytes_per_second as f64)
    }
}

/// Bytes for each trial and in a second, of the repeats where every counter of memory traffic is known.
fn bandwidth(repeats: &[&RepeatView]) -> Option<(f64, f64)> {
    let whole = repeats.iter().filter_map(|repeat| {
        let (bytes, seconds) = traffic::of(&repeat.telemetry)?;
        Some((bytes, seconds, repeat.trials.measured.len() as f64))
    });
    let (bytes, seconds, trials) = whole.fold((0.0, 0.0, 0.0), |sum, of| {
        (sum.0 + of.0, sum.1 + of.1, sum.2 + of.2)
    });
    (seconds > 0.0 && trials > 0.0).then(|| (bytes / trials, bytes / seconds))
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::device::{Fact, Reading};

    use crate::findings::tests::before_the_end;
    use crate::store::rows::{DeviceRow, FactRow};
    use crate::store::sample::{self, MS, repeat, watched};
    use crate::summary::summarise;
    use crate::summary::tests::view_of;
    use crate::view::{CaseView, MemoryCeiling};

    /// A hundred trials of 20 ms, over which the memory controller counts 20 GB in two seconds.
    fn view(model: &str) -> CaseView {
        let mut records = repeat(&[20 * MS; 100]);
        let grows = |per_ms: i64| [(0, Some(0)), (3000, Some(3000 * per_ms))];
        let read = watched(0, "ddr.mc.read_bytes", "bytes", &grows(6_000_000));
        let clock = watched(
            1,
            "emc.freq",
            "hz",
            &[(0, Some(1_600_000_000)), (2000, Some(1_600_000_000))],
        );
        let write = watched(2, "ddr.other.read_bytes", "bytes", &grows(4_000_000));
        for record in read.into_iter().chain(clock).chain(write) {
            before_the_end(&mut records, record);
        }
        let mut view = view_of(&records);
        let mut device = DeviceRow::from(&sample::device());
        device.facts.push(FactRow::from(&Fact {
            name: "soc".into(),
            value: Reading::Ok(model.into()),
        }));
        view.device = Some(device);
        view
    }

    #[test]
    fn shares_are_of_data_sheet_clock_and_calibration() {
        let mut view = view("Jetson Orin NX");
        view.memory_ceiling = Some(MemoryCeiling {
            bytes_per_second: 25_000_000_000,
            by: "mem_read on CPUs 0-7".into(),
        });
        let ddr = summarise(&view).board.ddr;
        let near = |found: Option<f64>, expected: f64| {
            let found = found.unwrap();
            assert!(
                (found / expected - 1.0).abs() < 1e-9,
                "{found} is not {expected}"
            );
        };
        near(ddr.bytes_per_second, 10e9);
        near(ddr.bytes_per_trial, 0.2e9);
        // 6 400 MT/s of 16 bytes; at half the clock half of it; and of 25 GB/s.
        near(ddr.share_of_peak(), 10.0 / 102.4);
        near(ddr.share_of_clock_peak(), 10.0 / 51.2);
        near(ddr.share_of_ceiling(), 0.4);
    }

    #[test]
    fn a_chip_whose_boards_differ_has_no_share_of_a_peak() {
        for chip in [
            "rockchip,rk3588",
            "rockchip,rk3588s",
            "fsl,imx8mp",
            "fsl,imx93",
        ] {
            let ddr = summarise(&view(chip)).board.ddr;
            assert!(ddr.bytes_per_second.is_some());
            assert_eq!(ddr.share_of_peak(), None, "{chip}");
        }
    }

    #[test]
    fn traffic_that_two_sources_count_is_counted_once() {
        let rate = |names: [&str; 2]| {
            let mut records = repeat(&[20 * MS; 100]);
            for (id, name) in (0..).zip(names) {
                let grows = [(0, Some(0)), (3000, Some(3_000_000_000))];
                for record in watched(id, name, "bytes", &grows) {
                    before_the_end(&mut records, record);
                }
            }
            let found = summarise(&view_of(&records)).board.ddr.bytes_per_second;
            (found.unwrap() / 1e6).round()
        };
        let free_running = "ddr.uncore_imc_free_running_0.read_bytes";
        assert_eq!(rate([free_running, "ddr.uncore_imc_0.read_bytes"]), 1000.0);
        assert_eq!(rate([free_running, "port.arm_dsu_0.read_bytes"]), 1000.0);
        let two = ["ddr.uncore_imc_1.read_bytes", "ddr.uncore_imc_0.read_bytes"];
        assert_eq!(rate(two), 2000.0);
    }

    #[test]
    fn a_part_of_the_traffic_does_not_pass_for_all_of_it() {
        let grows = [(0, Some(0)), (3000, Some(3_000_000_000))];
        let never = [(0, None), (3000, None)];
        let late = [(1000, Some(0)), (3000, Some(3_000_000_000))];
        let found = |other: &str, cells: &[(i64, Option<i64>)]| {
            let mut records = repeat(&[20 * MS; 100]);
            let read = watched(0, "ddr.mc0.read_bytes", "bytes", &grows);
            for record in read.into_iter().chain(watched(1, other, "bytes", cells)) {
                before_the_end(&mut records, record);
            }
            let summary = summarise(&view_of(&records));
            let mut told = summary.findings.into_iter();
            let told = told.find(|found| found.code == "traffic_incomplete");
            (summary.board.ddr.bytes_per_second, told)
        };
        for (other, cells) in [
            ("ddr.mc0.write_bytes", &never[..]),
            ("ddr.mc1.read_bytes", &late[..]),
        ] {
            let (bytes, told) = found(other, cells);
            assert_eq!(bytes, None, "{other}");
            assert!(told.unwrap().text.contains(other));
        }
        // What only says that a board has no such counter takes nothing away.
        for other in [
            "ddr.PMU.read_bytes",
            "ddr.MONITOR.read_bytes",
            "ddr.hrut.read_bytes",
        ] {
            let (bytes, told) = found(other, &never);
            assert!((bytes.unwrap() / 1e9 - 1.0).abs() < 1e-9, "{other}");
            assert_eq!(told, None, "{other}");
        }
    }

    #[test]
    fn counters_that_stand_beside_others_stand_in_for_them() {
        let grows = [(0, Some(0)), (3000, Some(3_000_000_000))];
        let mut records = repeat(&[20 * MS; 100]);
        let first = watched(0, "ddr.uncore_imc_0.read_bytes", "bytes", &[(0, None)]);
        let second = "ddr.uncore_imc_free_running_0.read_bytes";
        let second = watched(1, second, "bytes", &grows);
        for record in first.into_iter().chain(second) {
            before_the_end(&mut records, record);
        }
        let found = summarise(&view_of(&records)).board.ddr.bytes_per_second;
        assert!((found.unwrap() / 1e9 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn an_unknown_board_has_no_share() {
        let ddr = summarise(&view("something else")).board.ddr;
        assert!(ddr.bytes_per_second.is_some());
        assert_eq!(
            (
                ddr.share_of_peak(),
                ddr.share_of_clock_peak(),
                ddr.share_of_ceiling()
            ),
            (None, None, None)
        );
    }
}
