//! What the board's memory controllers moved in a window, where the kernel lets them be counted.

use crate::telemetry::{Digest, traffic};
use crate::view::RepeatView;

/// Bytes a second that all controllers together read and wrote, by the wall; none where there are none, or
/// where one of them could not be read to the end.
pub(super) fn bytes_per_second(repeat: &RepeatView) -> Option<f64> {
    of(&repeat.telemetry)
}

fn of(channels: &[Digest]) -> Option<f64> {
    let (bytes, seconds) = traffic::of(channels)?;
    Some(bytes / seconds)
}

#[cfg(test)]
mod tests {
    use super::super::testing::digest;
    use super::*;
    use edgedyno_shared::telemetry::ChannelKind;

    /// A counter that grew by so many bytes in the 100 ns of its samples.
    fn counter(name: &str, bytes: i64) -> Digest {
        digest(name, ChannelKind::Counter, &[5, 5 + bytes])
    }

    #[test]
    fn all_controllers_add_up_and_one_that_is_unknown_leaves_the_sum_unknown() {
        let mut channels = vec![
            counter("ddr.uncore_imc_0.read_bytes", 100),
            counter("ddr.uncore_imc_0.write_bytes", 50),
            counter("ddr.uncore_imc_1.read_bytes", 25),
            counter("cpu.0.busy", 1_000),
            counter("ddr.load", 7),
        ];
        // 175 bytes in 100 ns.
        assert_eq!(of(&channels), Some(1.75e9));
        channels.push(digest(
            "ddr.uncore_imc_1.write_bytes",
            ChannelKind::Counter,
            &[],
        ));
        assert_eq!(of(&channels), None);
        assert_eq!(of(&channels[3..4]), None, "no controller is not no traffic");
    }

    #[test]
    fn a_kind_of_counter_that_the_board_has_none_of_hides_no_other() {
        let none = |name: &str| digest(name, ChannelKind::Counter, &[]);
        let channels = [
            none("ddr.PMU.read_bytes"),
            none("ddr.hrut.read_bytes"),
            counter("ddr.axi_mon.read_bytes", 100),
        ];
        assert_eq!(of(&channels), Some(1e9));
    }

    #[test]
    fn traffic_that_two_sources_count_is_counted_once() {
        let free_running = counter("ddr.uncore_imc_free_running_0.read_bytes", 100);
        let channels = [
            free_running.clone(),
            counter("ddr.uncore_imc_0.read_bytes", 90),
        ];
        assert_eq!(of(&channels), Some(0.9e9));
        assert_eq!(of(&[free_running]), Some(1e9));
    }
}
