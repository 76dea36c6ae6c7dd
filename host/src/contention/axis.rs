//! What the x axis of an experiment counts: the memory controllers where they can be counted, else the
//! stressors. One of them for all points: two currencies on one axis would make a curve of nothing.

use serde::Serialize;

use super::report::moved;
use super::traffic;
use crate::view::RepeatView;

/// Whose count it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum XAxis {
    MemoryControllers,
    Stressors,
}

impl XAxis {
    /// The controllers' where every repeat of the experiment has it.
    pub fn of_repeats<'a>(mut repeats: impl Iterator<Item = &'a RepeatView>) -> Self {
        match repeats.all(|repeat| traffic::bytes_per_second(repeat).is_some()) {
            true => Self::MemoryControllers,
            false => Self::Stressors,
        }
    }

    /// Bytes a second of a repeat.
    pub fn of(self, repeat: &RepeatView) -> Option<f64> {
        match self {
            Self::MemoryControllers => traffic::bytes_per_second(repeat),
            Self::Stressors => moved(repeat),
        }
    }

    /// What is counted, for a heading.
    pub const fn short(self) -> &'static str {
        match self {
            Self::MemoryControllers => "of the memory controllers",
            Self::Stressors => "of the stressors",
        }
    }

    /// What is counted, in one sentence.
    pub const fn currency(self) -> &'static str {
        match self {
            Self::MemoryControllers => {
                "bytes that the memory controllers read and wrote for everybody on the board, the model's \
                 own and what caches fetch only to overwrite it among them, for each second of the wall"
            }
            Self::Stressors => {
                "bytes read and written by the stressors by their own count, each byte once, without what \
                 caches fetch only to overwrite it (as STREAM counts), for each second of the wall"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::case::{Case, Condition};
    use edgedyno_shared::device::Reading;
    use edgedyno_shared::telemetry::{Channel, ChannelKind, Fidelity, Samples};
    use edgedyno_shared::wire::record::Record as Wire;

    use super::super::read::Found;
    use super::super::report::{self, Ask, Experiment};
    use super::super::testing::{measure, read, store};
    use super::*;
    use crate::store::sample::{self, MS};

    /// A board's memory controller over the second around the window.
    fn controller(bytes_per_second: i64) -> Vec<Wire> {
        let name = "ddr.uncore_imc_0.read_bytes";
        vec![
            Wire::Channel(Channel {
                id: 77,
                name: name.into(),
                unit: "bytes".into(),
                kind: ChannelKind::Counter,
                source: "perf uncore_imc_0/cas_count_read/".into(),
                native_period: None,
                fidelity: Fidelity::Measured,
                period: None,
                probe: Reading::Ok("0".into()),
            }),
            Wire::Samples(Samples {
                channel: 77,
                at_ns: vec![0, 1_000 * MS],
                value: vec![0, bytes_per_second],
                quality: vec![0, 0],
            }),
        ]
    }

    fn experiment(idle: &[Wire], loaded: &[Wire]) -> Experiment {
        let (_dir, mut store) = store();
        let case = Case {
            condition: Condition("mem_read:cpu1".into()),
            ..sample::case()
        };
        let loaded = measure(&mut store, &case, &[25 * MS; 20], loaded);
        let idle = measure(&mut store, &sample::case(), &[20 * MS; 20], idle);
        let cases = [read(loaded), read(idle)];
        report::experiments(&cases, &Ask::default()).remove(0)
    }

    #[test]
    fn the_controllers_are_the_axis_where_all_points_have_them() {
        let found = experiment(&controller(2_000_000_000), &controller(9_000_000_000));
        assert_eq!(found.x_axis, XAxis::MemoryControllers);
        assert_eq!(found.points[0].x_bps, Some(9e9));
        assert_eq!(found.baseline.traffic_bps, Some(2e9));
        let document = report::document(&Found {
            run: "r1".into(),
            incomplete: None,
            slo: None,
            experiments: vec![found],
            gaps: Vec::new(),
        });
        let said = document["experiments"][0]["currency"].as_str();
        assert!(said.is_some_and(|said| said.contains("memory controllers")));
    }

    #[test]
    fn one_point_without_them_leaves_the_stressors_as_the_axis_of_all() {
        let found = experiment(&[], &controller(9_000_000_000));
        assert_eq!(found.x_axis, XAxis::Stressors);
        assert_eq!(
            found.points[0].traffic_bps,
            Some(9e9),
            "it is told all the same"
        );
        assert_eq!(found.baseline.traffic_bps, None);
        assert!(found.currency.contains("by the stressors"));
    }
}
