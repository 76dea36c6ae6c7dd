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
    /// By any of these bits, or by one sixteen places higher, which is kept since boot, that was not there
    /// before.
    BitsSinceBoot(i64),
    /// By a value that is no lower than this.
    AtLeast(i64),
}

/// What a channel can tell of that; none where it tells nothing.
pub(crate) fn kind_of(name: &str) -> Option<Kind> {
    let parts: Vec<&str> = name.split('.').collect();
    match parts.as_slice() {
        ["cool", device, "state"] => slows_down(device).then_some(Kind::State),
        ["cpu", _, "throttles" | "package_throttles"] | ["power", "over_current", _] => {
            Some(Kind::Counter)
        }
        ["power", "firmware_flags"] => Some(Kind::BitsSinceBoot(0xf)),
        ["nvml", _, "clock_reasons"] => Some(Kind::Bits(NVML_THROTTLED)),
        [.., "freq_max"] => Some(Kind::Limit),
        _ => rail_alarm(name).map(|_| Kind::State),
    }
}

/// The cooling device whose state a channel shows.
pub(crate) fn cooler(channel: &str) -> Option<&str> {
    channel.strip_prefix("cool.")?.strip_suffix(".state")
}

/// The rail, or the supply, of which a channel says that it is beyond a limit of its monitor. Alarms of
/// temperature sensors are left out: what comes of heat is told by what slows the board down.
pub(crate) fn rail_alarm(channel: &str) -> Option<&str> {
    let (rail, alarm) = channel.strip_prefix("hwmon.")?.rsplit_once('.')?;
    let is_supply = ["ina", "rpi_volt"]
        .iter()
        .any(|chip| rail.starts_with(chip));
    let is_limit = matches!(alarm, "alarm_crit" | "alarm_max" | "alarm_lcrit");
    (is_supply && is_limit).then_some(rail)
}

/// The zone of a trip at which the kernel slows the board down.
pub(crate) fn slowing_trip(channel: &str) -> Option<&str> {
    let (zone, kind) = channel.split_once(".trip_")?;
    let slows = ["passive", "hot", "critical"];
    slows
        .iter()
        .any(|slow| kind.ends_with(slow))
        .then_some(zone)
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
    let by_kind = channels.iter().filter_map(|(channel, samples)| {
        let name = channel.name.as_str();
        Some((name, kind_of(name)?, samples))
    });
    for (name, kind, samples) in by_kind.chain(trips(channels, window)) {
        let shown = shown(kind, samples);
        let is_inside = |one: &&Shown| one.from_ns <= window.end_ns && one.at_ns >= window.start_ns;
        let inside = shown.iter().filter(|one| one.is_shown).find(is_inside);
        let Some(Shown { at_ns: at, .. }) = inside else {
            continue;
        };
        // What happened between two readings may be read behind the window only.
        let at = (*at).min(window.end_ns);
        if first.is_none_or(|(before, _)| at < before) {
            first = Some((at, name));
        }
        // Gone at the sample behind the last that showed it.
        let last = shown.iter().rposition(|one| one.is_shown);
        let gone = last.and_then(|last| {
            let is_step = shown[last].from_ns < shown[last].at_ns;
            // Of a step that is the last to be read nothing stays.
            let behind = shown.get(last + 1).or(is_step.then_some(&shown[last]));
            behind.map(|one| one.at_ns)
        });
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

/// Temperatures of zones that the kernel slows the board down for, with the trip where it does; none where a
/// device that cools by slowing down shows its state within the window, which says it better.
fn trips(channels: &[(ChannelRow, SamplesRow)], window: Span) -> Vec<(&str, Kind, &SamplesRow)> {
    let is_inside = |at: &i64| (window.start_ns..=window.end_ns).contains(at);
    let shows_state = |(channel, samples): &(ChannelRow, SamplesRow)| {
        cooler(&channel.name).is_some_and(slows_down) && good(samples).any(|(at, _)| is_inside(&at))
    };
    if channels.iter().any(shows_state) {
        return Vec::new();
    }
    let of_zones = channels.iter().filter_map(|(channel, samples)| {
        let heat = format!("{}.temp", slowing_trip(&channel.name)?);
        // A trip that is not in use stands at or below zero.
        let (_, limit) = good(samples).last().filter(|(_, limit)| *limit > 0)?;
        let (heat, samples) = channels.iter().find(|(other, _)| other.name == heat)?;
        Some((heat.name.as_str(), Kind::AtLeast(limit), samples))
    });
    of_zones.collect()
}

/// Good samples: when, and what.
fn good(samples: &SamplesRow) -> impl Iterator<Item = (i64, i64)> + '_ {
    let cells = samples
        .at_ns
        .iter()
        .zip(&samples.value)
        .zip(&samples.quality);
    cells
        .filter(|(_, quality)| **quality == Quality::Ok.code())
        .map(|((at, value), _)| (*at, *value))
}

/// A good sample, and whether it shows that the board is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shown {
    /// Of what shows by a step, the sample before: it was at some moment between the two.
    from_ns: i64,
    at_ns: i64,
    is_shown: bool,
}

fn shown(kind: Kind, samples: &SamplesRow) -> Vec<Shown> {
    let mut before: Option<(i64, i64)> = None;
    let mut begin: Option<i64> = None;
    good(samples)
        .map(|(at_ns, value)| {
            let begin = *begin.get_or_insert(value);
            let (since, last) = before.unwrap_or((at_ns, value));
            let (is_level, is_step) = match kind {
                Kind::State => (value > 0, false),
                Kind::Counter => (false, value > last),
                Kind::Limit => (value < begin, false),
                Kind::Bits(mask) => (value & mask != 0, false),
                Kind::BitsSinceBoot(mask) => (value & mask != 0, (value & !last) >> 16 & mask != 0),
                Kind::AtLeast(limit) => (value >= limit, false),
            };
            before = Some((at_ns, value));
            Shown {
                from_ns: if is_step { since } else { at_ns },
                at_ns,
                is_shown: is_level || is_step,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::samples;
    use super::*;
    use crate::store::rows::KindRow;
    use crate::telemetry::tests::channel;

    fn all(kind: Kind, values: &[i64]) -> Vec<bool> {
        let cells = values.iter().zip(0..).map(|(value, at)| (at, *value));
        let shown = shown(kind, &samples(cells));
        shown.iter().map(|one| one.is_shown).collect()
    }

    #[test]
    fn each_kind_shows_it_in_its_own_way() {
        assert_eq!(all(Kind::State, &[0, 2, 0]), [false, true, false]);
        assert_eq!(
            all(Kind::Counter, &[7, 7, 9, 9]),
            [false, false, true, false]
        );
        assert_eq!(all(Kind::Limit, &[5, 4, 5]), [false, true, false]);
        assert_eq!(all(Kind::Bits(0x24), &[1, 0x21, 0]), [false, true, false]);
        assert_eq!(all(Kind::AtLeast(5), &[4, 5, 6]), [false, true, true]);
        // 0x50000 is of some time since boot; 0x20000 more is of between two samples.
        let flags = Kind::BitsSinceBoot(0xf);
        let values = [0x50000, 0x50004, 0x50000, 0x70000, 0x70000];
        assert_eq!(all(flags, &values), [false, true, false, true, false]);
    }

    #[test]
    fn a_step_is_of_the_time_between_its_two_samples() {
        let window = Span {
            start_ns: 100,
            end_ns: 300,
        };
        let is_seen = |name: &str, cells: &[(i64, i64)]| {
            let samples = samples(cells.iter().copied());
            let board = [(channel(name, "", KindRow::Counter), samples)];
            of(&board, window).first.is_some()
        };
        for (name, step) in [("cpu.0.throttles", 1), ("power.firmware_flags", 0x40000)] {
            // Once, at some moment around the window.
            assert!(is_seen(name, &[(0, 0), (1000, step)]), "{name}");
            assert!(is_seen(name, &[(0, 0), (200, 0), (1000, step)]), "{name}");
            // Before it, and behind it.
            assert!(!is_seen(name, &[(0, 0), (50, step), (400, step)]), "{name}");
            assert!(!is_seen(name, &[(0, 0), (350, 0), (400, step)]), "{name}");
        }
    }

    #[test]
    fn a_trip_counts_where_no_cooling_device_shows_its_state() {
        let channel = |name: &str, cells: &[(i64, i64)]| {
            (
                channel(name, "", KindRow::Gauge),
                samples(cells.iter().copied()),
            )
        };
        let window = Span {
            start_ns: 100,
            end_ns: 300,
        };
        let mut board = vec![
            channel(
                "therm.cpu.temp",
                &[(50, 96), (150, 80), (200, 95), (250, 94)],
            ),
            channel("therm.cpu.trip_1_passive", &[(0, 95)]),
            channel("therm.cpu.trip_0_active", &[(0, 60)]),
            channel("therm.cpu.trip_2_passive", &[(0, -274)]),
        ];
        let signs = of(&board, window);
        let sign = signs.first.unwrap();
        assert_eq!(sign.channel, "therm.cpu.temp");
        assert!((sign.after_seconds - 100e-9).abs() < 1e-15);
        assert_eq!(signs.gone_at_ns, Some(300));
        board.push(channel("cool.thermal_cpufreq_0.state", &[(150, 0)]));
        assert!(of(&board, window).first.is_none());
    }

    #[test]
    fn fans_and_sensors_tell_nothing_of_it() {
        assert_eq!(kind_of("cool.pwm_fan.state"), None);
        assert_eq!(kind_of("cool.thermal_devfreq_ddr.state"), Some(Kind::State));
        assert_eq!(kind_of("therm.cpu.temp"), None);
        assert_eq!(kind_of("cpu.policy0.freq_max"), Some(Kind::Limit));
        assert_eq!(kind_of("cpu.policy0.freq"), None);
        // Of a rail and of a supply, not of a sensor of heat.
        for alarm in [
            "hwmon.ina3221.curr1.alarm_crit",
            "hwmon.rpi_volt.in0.alarm_lcrit",
        ] {
            assert_eq!(kind_of(alarm), Some(Kind::State), "{alarm}");
        }
        for other in [
            "hwmon.coretemp.temp1_package_id_0.alarm_crit",
            "hwmon.ina3221.curr1.current",
        ] {
            assert_eq!(kind_of(other), None, "{other}");
        }
    }
}
