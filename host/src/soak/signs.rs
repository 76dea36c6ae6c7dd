//! Channels that tell of a board being held back, and when they did.

use edgedyno_shared::telemetry::Quality;
use serde::Serialize;

use crate::store::rows::{ChannelRow, SamplesRow};
use crate::view::Span;

/// A board was held back.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sign {
    pub channel: String,
    pub after_seconds: f64,
}

/// How a channel tells that the board is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// By a value above zero.
    State,
    /// By each step up.
    Counter,
    /// By a value below the first.
    Limit,
    /// By any of these bits.
    Bits(i64),
}

/// What a channel can tell of that; none where it tells nothing.
pub(crate) fn kind_of(name: &str) -> Option<Kind> {
    let parts: Vec<&str> = name.split('.').collect();
    match parts.as_slice() {
        ["cool", device, "state"] => slows_down(device).then_some(Kind::State),
        ["cpu", _, "throttles" | "package_throttles"] | ["power", "over_current", _] => {
            Some(Kind::Counter)
        }
        // Bits of now; those since boot stand sixteen places higher.
        ["power", "firmware_flags"] => Some(Kind::Bits(0xf)),
        ["nvml", _, "clock_reasons"] => Some(Kind::Bits(NVML_THROTTLED)),
        [.., "freq_max"] => Some(Kind::Limit),
        _ => None,
    }
}

/// Software power cap, hardware slow-down, software and hardware thermal slow-down, hardware power brake
/// (nvml.h, nvmlClocksEventReasons).
pub(crate) const NVML_THROTTLED: i64 = 0x4 | 0x8 | 0x20 | 0x40 | 0x80;

/// Whether a cooling device takes speed away. Fans do not, and neither do radios and offsets.
pub(crate) fn slows_down(device: &str) -> bool {
    const SLOW: [&str; 10] = [
        "cpu",
        "processor",
        "devfreq",
        "gpu",
        "npu",
        "bpu",
        "ddr",
        "dmc",
        "emc",
        "powerclamp",
    ];
    !device.contains("fan") && SLOW.iter().any(|part| device.contains(part))
}

/// All signs of a repeat.
pub(super) struct Signs {
    pub(super) first: Option<Sign>,
    /// When the last of them was gone after the window; none where one stayed.
    pub(super) gone_at_ns: Option<i64>,
}

pub(super) fn of(channels: &[(ChannelRow, SamplesRow)], window: Span) -> Signs {
    let mut first: Option<(i64, &str)> = None;
    let mut gone_at_ns = Some(window.end_ns);
    for (channel, samples) in channels {
        let Some(kind) = kind_of(&channel.name) else {
            continue;
        };
        let shown = shown(kind, samples);
        let inside = shown
            .iter()
            .find(|(at, is_shown)| *is_shown && (window.start_ns..=window.end_ns).contains(at));
        let Some((at, _)) = inside else { continue };
        if first.is_none_or(|(before, _)| *at < before) {
            first = Some((*at, &channel.name));
        }
        // Gone at the sample behind the last that showed it.
        let last = shown.iter().rposition(|(_, is_shown)| *is_shown);
        let gone = last.and_then(|last| shown.get(last + 1)).map(|(at, _)| *at);
        gone_at_ns = gone_at_ns.zip(gone).map(|(a, b)| a.max(b));
    }
    Signs {
        gone_at_ns: gone_at_ns.filter(|_| first.is_some()),
        first: first.map(|(at, name)| Sign {
            channel: name.into(),
            after_seconds: (at - window.start_ns) as f64 / 1e9,
        }),
    }
}

/// Good samples, each with whether it shows that the board is held back.
fn shown(kind: Kind, samples: &SamplesRow) -> Vec<(i64, bool)> {
    let cells = samples
        .at_ns
        .iter()
        .zip(&samples.value)
        .zip(&samples.quality);
    let good = cells.filter(|(_, quality)| **quality == Quality::Ok.code());
    let mut before: Option<i64> = None;
    let mut begin: Option<i64> = None;
    good.map(|((at, value), _)| {
        let begin = *begin.get_or_insert(*value);
        let is_shown = match kind {
            Kind::State => *value > 0,
            Kind::Counter => before.is_some_and(|before| *value > before),
            Kind::Limit => *value < begin,
            Kind::Bits(mask) => *value & mask != 0,
        };
        before = Some(*value);
        (*at, is_shown)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::samples;
    use super::*;

    fn all(kind: Kind, values: &[i64]) -> Vec<bool> {
        let cells = values.iter().zip(0..).map(|(value, at)| (at, *value));
        shown(kind, &samples(cells))
            .iter()
            .map(|(_, is)| *is)
            .collect()
    }

    #[test]
    fn each_kind_shows_it_in_its_own_way() {
        assert_eq!(all(Kind::State, &[0, 2, 0]), [false, true, false]);
        assert_eq!(
            all(Kind::Counter, &[7, 7, 9, 9]),
            [false, false, true, false]
        );
        assert_eq!(all(Kind::Limit, &[5, 4, 5]), [false, true, false]);
        // 0x50000 is of some time since boot.
        assert_eq!(all(Kind::Bits(0xf), &[0x50000, 0x50004]), [false, true]);
    }

    #[test]
    fn fans_and_sensors_tell_nothing_of_it() {
        assert_eq!(kind_of("cool.pwm_fan.state"), None);
        assert_eq!(kind_of("cool.thermal_devfreq_ddr.state"), Some(Kind::State));
        assert_eq!(kind_of("therm.cpu.temp"), None);
        assert_eq!(kind_of("cpu.policy0.freq_max"), Some(Kind::Limit));
        assert_eq!(kind_of("cpu.policy0.freq"), None);
    }
}
