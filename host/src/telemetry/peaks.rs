//! What memory of a board can move at most: by its data sheet, by its clock, and as a stressor found.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::store::rows::FactRow;

/// Peak of a board's memory, as the data file has it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DdrPeak {
    pub name: String,
    /// Parts of the board's model or chip by which it is known.
    is: Vec<String>,
    /// Million transfers a second; none where boards of that kind differ.
    mt_s: Option<u64>,
    bus_bits: u64,
    /// The channel of the memory's clock, if there is one.
    pub clock: Option<String>,
    pub source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Peaks {
    board: Vec<DdrPeak>,
}

/// Part of the program, and read by a test: it always parses.
static PEAKS: LazyLock<Vec<DdrPeak>> = LazyLock::new(|| {
    let peaks: Result<Peaks, _> = toml::from_str(include_str!("ddr_peaks.toml"));
    peaks.map_or_else(|_| Vec::new(), |peaks| peaks.board)
});

impl DdrPeak {
    /// Of the board that says this of itself; none when it is not known.
    pub fn of(facts: &[FactRow]) -> Option<&'static Self> {
        let said = facts
            .iter()
            .filter(|fact| matches!(fact.name.as_str(), "board_model" | "soc"));
        let said: Vec<String> = said
            .filter_map(|fact| fact.value.as_ref())
            .map(|value| value.to_lowercase())
            .collect();
        let is = |part: &String| said.iter().any(|text| text.contains(&part.to_lowercase()));
        PEAKS.iter().find(|peak| peak.is.iter().any(is))
    }

    /// Bytes a second: transfers a second times bytes of the bus.
    pub fn per_second(&self) -> Option<f64> {
        Some(self.mt_s? as f64 * 1e6 * self.bus_bits as f64 / 8.0)
    }

    /// The same at this clock, at two transfers to a clock.
    pub fn at_clock(&self, hz: f64) -> f64 {
        2.0 * hz * self.bus_bits as f64 / 8.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(name: &str, value: &str) -> Option<&'static DdrPeak> {
        DdrPeak::of(&[FactRow {
            name: name.into(),
            state: "ok".into(),
            value: Some(value.into()),
            reason: None,
        }])
    }

    #[test]
    fn the_file_is_sound() {
        assert!(PEAKS.len() > 10);
        for peak in PEAKS.iter() {
            assert!(
                !peak.is.is_empty() && !peak.source.is_empty(),
                "{}",
                peak.name
            );
            assert!(peak.bus_bits % 8 == 0, "{}", peak.name);
        }
    }

    #[test]
    fn peaks_are_those_of_the_data_sheets() {
        // Worked by hand from transfers and bits, in GB/s.
        for (model, expected) in [
            ("NVIDIA Jetson AGX Orin Developer Kit", 204.8),
            ("NVIDIA Jetson Orin Nano Developer Kit", 68.256),
            ("NVIDIA Jetson Nano Developer Kit", 25.6),
            ("NVIDIA Jetson AGX Thor Developer Kit", 273.056),
            ("D-Robotics RDK S100 V1P0", 76.8),
            ("Raspberry Pi 5 Model B Rev 1.0", 17.068),
        ] {
            let found = board("board_model", model).unwrap().per_second().unwrap();
            assert!((found / 1e9 - expected).abs() < 1e-9, "{model}: {found}");
        }
        // Two transfers of 8 bytes to a clock.
        let rk3588 = board("soc", "rockchip,rk3588").unwrap();
        assert!((rk3588.at_clock(2.112e9) / 1e9 - 33.792).abs() < 1e-9);
    }

    #[test]
    fn what_is_not_known_stays_unknown() {
        assert_eq!(board("board_model", "A Laptop"), None);
        assert_eq!(board("cpu_model", "Raspberry Pi 5"), None);
        // Boards of these kinds differ in their memory's clock: what is known is the width of its bus, in bits.
        for (model, bits) in [
            ("D-Robotics RDK X5 V1.0", 32),
            ("D-Robotics RDK X3 V2.1", 32),
            ("Rockchip RK3568 EVB1 DDR4 V10 Board", 32),
            ("NVIDIA Jetson TX2 Developer Kit", 128),
            ("Rockchip RK3588 EVB7 LP4 V10 Board, rk3588", 64),
            ("NXP i.MX8MPlus EVK, imx8mp", 32),
            ("NXP i.MX93 11X11 EVK board", 16),
        ] {
            let peak = board("board_model", model).unwrap();
            assert_eq!((peak.per_second(), peak.bus_bits), (None, bits), "{model}");
        }
        // 3 732 million transfers of 16 bytes.
        let tx2 = board("soc", "nvidia,tegra186").unwrap();
        assert!((tx2.at_clock(1.866e9) / 1e9 - 59.712).abs() < 1e-9);
    }
}
