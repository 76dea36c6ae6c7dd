//! Rules about clocks and heat, by what was watched during the window.

use crate::soak::{NVML_THROTTLED, slows_down};
use crate::telemetry::{Digest, Figures};
use crate::ui::telemetry::value;
use crate::view::RepeatView;

use super::{Evidence, Hit, Level, Rule, measured_cpus};

/// A clock that moved by more than this share of its highest value within the window.
const RAMP: f64 = 0.05;

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "clock_not_as_asked",
        level: Level::Invalid,
        meaning: "Clocks were to be held, and a governor or a limit read back was not what was written, or a held CPU clock was seen more than 5 % below its limit within the window.",
        check: clock_not_as_asked,
    },
    Rule {
        code: "cool_down_failed",
        level: Level::Warning,
        meaning: "A repeat was to begin on a cool board and did not: the sensor did not fall in time, or there is none.",
        check: cool_down_failed,
    },
    Rule {
        code: "clock_ramp",
        level: Level::Warning,
        meaning: "A clock that matters (of the measured CPUs, of GPU, NPU or memory) moved by more than 5 % within the window: trials ran at different speeds.",
        check: clock_ramp,
    },
    Rule {
        code: "governor_not_fixed",
        level: Level::Warning,
        meaning: "The governor of a measured CPU may change its clock at any time. `--fix-clocks` holds it.",
        check: governor_not_fixed,
    },
];

/// What slowed the board down within the window, as telemetry shows it.
pub(super) fn throttled(repeat: &RepeatView) -> Vec<Hit> {
    let cooling = repeat.telemetry.iter().filter_map(|digest| {
        let device = digest
            .channel
            .name
            .strip_prefix("cool.")?
            .strip_suffix(".state")?;
        let max = digest.figures?.max;
        (max > 0 && slows_down(device)).then(|| {
            let text = format!("cooling held {device} back, up to step {max}");
            hit(repeat, digest, text).figure("step", max)
        })
    });
    let counted = repeat.telemetry.iter().filter_map(|digest| {
        let name = &digest.channel.name;
        let what = match name.split('.').collect::<Vec<_>>().as_slice() {
            ["cpu", cpu, "throttles"] => format!("CPU {cpu} was slowed because it was hot"),
            ["cpu", _, "package_throttles"] => "the package was slowed because it was hot".into(),
            ["power", "over_current", which] => format!("rail event {which} slowed the board"),
            _ => return None,
        };
        let times = digest.growth?.by;
        (times > 0.5).then(|| {
            let text = format!("{what}, {times:.0} times");
            hit(repeat, digest, text).figure("times", times.round())
        })
    });
    let capped = repeat.telemetry.iter().filter_map(|digest| {
        let (_, what) = digest.channel.name.rsplit_once('.')?;
        let figures = digest.figures.filter(|_| what == "freq_max")?;
        (figures.last < figures.first).then(|| {
            let shown = |hz: i64| value(&digest.channel.unit, hz as f64);
            let text = format!(
                "{} fell from {} to {}",
                digest.channel.name,
                shown(figures.first),
                shown(figures.last)
            );
            hit(repeat, digest, text)
                .figure("before", figures.first)
                .figure("after", figures.last)
        })
    });
    let told: Vec<Hit> = cooling.chain(counted).chain(capped).collect();
    let trips = trips(repeat).into_iter();
    let said = firmware(repeat).into_iter().chain(clock_reasons(repeat));
    told.into_iter().chain(said).chain(trips).collect()
}

/// Whether any channel that [`throttled`] looks at gave a value.
pub(super) fn would_tell_throttling(repeat: &RepeatView) -> bool {
    repeat.telemetry.iter().any(|digest| {
        let name = digest.channel.name.as_str();
        let tells = match name.split_once('.') {
            Some(("cool", device)) => {
                let device = device.strip_suffix(".state");
                device.is_some_and(slows_down)
            }
            Some(("cpu", rest)) => rest.ends_with("throttles"),
            Some(("power", rest)) => rest == "firmware_flags" || rest.starts_with("over_current."),
            _ => name.ends_with(".clock_reasons") || name.contains(".trip_"),
        };
        let is_limit = name.ends_with(".freq_max");
        (tells || is_limit) && (digest.figures.is_some() || digest.latest.is_some())
    })
}

/// Bits of `power.firmware_flags` and what each says (Raspberry Pi, `vcgencmd get_throttled`); sixteen
/// places higher each is kept since boot.
const FIRMWARE: [(i64, &str); 4] = [
    (1, "the voltage was too low"),
    (2, "the clock was capped"),
    (4, "it was throttled"),
    (8, "the soft temperature limit was reached"),
];

/// What the firmware tells of the window: at a sample, or between two.
fn firmware(repeat: &RepeatView) -> Option<Hit> {
    let name = "power.firmware_flags";
    let digest = repeat.telemetry.iter().find(|d| d.channel.name == name)?;
    let figures = digest.figures?;
    let bits = figures.any_bits | (figures.last & !figures.first) >> 16;
    let said = FIRMWARE.iter().filter(|(bit, _)| bits & bit != 0);
    let said: Vec<&str> = said.map(|(_, said)| *said).collect();
    (!said.is_empty()).then(|| {
        let text = format!("the firmware says: {}", said.join(", "));
        hit(repeat, digest, text).figure("bits", bits & 15)
    })
}

/// Bits of `nvml.N.clock_reasons` that mean a GPU was slowed (nvml.h, nvmlClocksEventReasons).
const REASONS: [(i64, &str); 5] = [
    (0x4, "a power cap"),
    (0x8, "a slow-down by hardware"),
    (0x20, "heat"),
    (0x40, "a slow-down by hardware for heat"),
    (0x80, "a power brake"),
];

/// GPUs that their driver slowed at some sample of the window.
fn clock_reasons(repeat: &RepeatView) -> Vec<Hit> {
    let slowed = repeat.telemetry.iter().filter_map(|digest| {
        let gpu = digest.channel.name.strip_suffix(".clock_reasons")?;
        let bits = digest.figures?.any_bits & NVML_THROTTLED;
        let reasons = REASONS.iter().filter(|(bit, _)| bits & bit != 0);
        let reasons: Vec<&str> = reasons.map(|(_, reason)| *reason).collect();
        (bits != 0).then(|| {
            let text = format!("{gpu} was slowed: {}", reasons.join(", "));
            hit(repeat, digest, text).figure("bits", bits)
        })
    });
    slowed.collect()
}

/// Zones as hot as the trip where the kernel slows down. Where a device that cools by slowing down shows
/// its state, that says it better.
fn trips(repeat: &RepeatView) -> Vec<Hit> {
    let shows_state = |digest: &Digest| {
        let device = digest.channel.name.strip_prefix("cool.");
        let device = device.and_then(|name| name.strip_suffix(".state"));
        device.is_some_and(slows_down) && digest.figures.is_some()
    };
    if repeat.telemetry.iter().any(shows_state) {
        return Vec::new();
    }
    let reached = repeat.telemetry.iter().filter_map(|trip| {
        let (zone, kind) = trip.channel.name.split_once(".trip_")?;
        let slows = ["passive", "hot", "critical"]
            .iter()
            .any(|name| kind.ends_with(name));
        // A trip that is not in use stands at or below zero.
        let limit = trip.latest.filter(|limit| slows && *limit > 0)?;
        let heat = format!("{zone}.temp");
        let heat = repeat.telemetry.iter().find(|d| d.channel.name == heat)?;
        let max = heat.figures?.max;
        (max >= limit).then(|| {
            let shown = |value_of: i64| value("millicelsius", value_of as f64);
            let text = format!(
                "{zone} reached {}, its trip is at {}",
                shown(max),
                shown(limit)
            );
            hit(repeat, heat, text).figure("trip_millicelsius", limit)
        })
    });
    reached.collect()
}

fn clock_not_as_asked(e: &Evidence<'_>) -> Vec<Hit> {
    if !e.view.entry.rules.fix_clocks {
        return Vec::new();
    }
    let of_repeat = |repeat: &RepeatView| -> Vec<Hit> {
        let read_back = repeat
            .row
            .effective
            .iter()
            .filter(|each| is_clock(&each.name));
        let other = read_back.filter(|each| each.requested != each.observed);
        let other = other.map(|each| {
            let shown = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".into());
            let (asked, got) = (shown(&each.requested), shown(&each.observed));
            let text = format!("{} is {got}, {asked} was asked for", each.name);
            Hit::of(repeat, text)
                .figure("requested", asked)
                .figure("observed", got)
        });
        let slow = policies_of(repeat, measured_cpus(repeat))
            .into_iter()
            .filter_map(|policy| {
                let find = |what: &str| {
                    let name = format!("cpu.policy{policy}.{what}");
                    repeat.telemetry.iter().find(|d| d.channel.name == name)
                };
                let (freq, limit) = (find("freq")?, find("freq_max")?);
                let (lowest, limit) = (freq.figures?.min, limit.figures?.max);
                ((lowest as f64) < limit as f64 * (1.0 - RAMP)).then(|| {
                    let shown = |hz: i64| value("hz", hz as f64);
                    let text = format!(
                        "the clock of policy {policy} fell to {}, it was to be held at {}",
                        shown(lowest),
                        shown(limit)
                    );
                    hit(repeat, freq, text)
                        .figure("lowest_hz", lowest)
                        .figure("limit_hz", limit)
                })
            });
        let none = repeat
            .row
            .events
            .iter()
            .filter(|event| event.code == "no_clock_to_hold");
        let none = none.map(|event| Hit::of(repeat, event.text.clone()));
        other.chain(slow).chain(none).collect()
    };
    e.counting().flat_map(of_repeat).collect()
}

/// Whether a setting read back is one of the clocks that were held.
pub(super) fn is_clock(setting: &str) -> bool {
    setting.starts_with("clocks.")
}

fn cool_down_failed(e: &Evidence<'_>) -> Vec<Hit> {
    let told = |repeat: &RepeatView| {
        let codes = ["cool_down_timed_out", "cool_down_no_sensor"];
        let mut events = repeat.row.events.iter();
        let event = events.find(|event| codes.contains(&event.code.as_str()))?;
        Some(Hit::of(repeat, event.text.clone()).figure("event", event.code.clone()))
    };
    e.counting().filter_map(told).collect()
}

fn clock_ramp(e: &Evidence<'_>) -> Vec<Hit> {
    let of_repeat = |repeat: &RepeatView| -> Vec<Hit> {
        let policies = policies_of(repeat, measured_cpus(repeat));
        let moved = repeat.telemetry.iter().filter_map(|digest| {
            let name = &digest.channel.name;
            let clock = name.strip_suffix(".freq")?;
            let matters = name.starts_with("devfreq.")
                || policies
                    .iter()
                    .any(|policy| clock == format!("cpu.policy{policy}"));
            let Figures { min, max, .. } = digest.figures.filter(|_| matters)?;
            let share = (max - min) as f64 / (max as f64).max(1.0);
            (share > RAMP).then(|| {
                let shown = |hz: i64| value("hz", hz as f64);
                let text = format!("{clock} moved between {} and {}", shown(min), shown(max));
                hit(repeat, digest, text)
                    .figure("min_hz", min)
                    .figure("max_hz", max)
            })
        });
        moved.collect()
    };
    e.counting().flat_map(of_repeat).collect()
}

/// Clock policies of some CPUs: a policy goes by the first of its CPUs, and has those up to the
/// next policy's.
pub(crate) fn policies_of(repeat: &RepeatView, cpus: impl IntoIterator<Item = u16>) -> Vec<u16> {
    let number = |digest: &Digest| {
        let name = digest.channel.name.strip_prefix("cpu.policy")?;
        name.strip_suffix(".freq")?.parse::<u16>().ok()
    };
    let all: Vec<u16> = repeat.telemetry.iter().filter_map(number).collect();
    let of_cpu = |cpu: u16| all.iter().copied().filter(|first| *first <= cpu).max();
    let mut policies: Vec<u16> = cpus.into_iter().filter_map(of_cpu).collect();
    policies.sort_unstable();
    policies.dedup();
    policies
}

fn governor_not_fixed(e: &Evidence<'_>) -> Vec<Hit> {
    let Some(repeat) = e.counting().next() else {
        return Vec::new();
    };
    // Facts are read before clocks are held; what became of that has a rule of its own.
    if e.view.entry.rules.fix_clocks {
        return Vec::new();
    }
    let facts = repeat.row.start.iter().flat_map(|start| &start.environment);
    let mut free: Vec<&str> = facts
        .filter(|fact| fact.name.starts_with("governor."))
        .filter_map(|fact| fact.value.as_deref())
        .filter(|governor| !matches!(*governor, "performance" | "userspace"))
        .collect();
    free.sort_unstable();
    free.dedup();
    if free.is_empty() {
        return Vec::new();
    }
    let text = format!("the governor is {}", free.join(", "));
    vec![Hit::new(text).figure("governors", free.join(", "))]
}

fn hit(repeat: &RepeatView, digest: &Digest, text: String) -> Hit {
    Hit::of(repeat, text).figure("channel", digest.channel.name.clone())
}
