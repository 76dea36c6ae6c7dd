//! What held a board back within the window. A soak looks for the same at every moment, by
//! `crate::soak`: what tells it here tells it there.

use crate::soak::{Kind, NVML_THROTTLED, cooler, kind_of, rail_alarm, slowing_trip, slows_down};
use crate::telemetry::Digest;
use crate::ui::telemetry::value;
use crate::view::RepeatView;

use super::Hit;

/// What slowed the board down within the window, as telemetry shows it.
pub(super) fn throttled(repeat: &RepeatView) -> Vec<Hit> {
    let cooling = repeat.telemetry.iter().filter_map(|digest| {
        let device = cooler(&digest.channel.name)?;
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
            ["cpu", cpu, "package_throttles"] => {
                format!("the package of CPU {cpu} was slowed because it was hot")
            }
            ["power", "over_current", which] => format!("rail event {which} slowed the board"),
            _ => return None,
        };
        let times = digest.stepped().filter(|times| *times > 0)?;
        // When within the gap between two readings it was, nobody knows.
        let text = format!("{what}: counted {times} more between the readings around the window");
        Some(hit(repeat, digest, text).figure("times", times))
    });
    let capped = repeat.telemetry.iter().filter_map(|digest| {
        let (_, what) = digest.channel.name.rsplit_once('.')?;
        let lowest = digest.figures.filter(|_| what == "freq_max")?.min;
        // What it was when the watch began: it may have fallen before the first trial, and risen again.
        let before = digest.earliest.filter(|before| lowest < *before)?;
        let shown = |hz: i64| value(&digest.channel.unit, hz as f64);
        let text = format!(
            "{} fell from {} to {}",
            digest.channel.name,
            shown(before),
            shown(lowest)
        );
        Some(
            hit(repeat, digest, text)
                .figure("before", before)
                .figure("lowest", lowest),
        )
    });
    let alarms = repeat.telemetry.iter().filter_map(|digest| {
        let rail = rail_alarm(&digest.channel.name)?;
        (digest.figures?.max > 0).then(|| {
            let text = format!("power was capped: {rail} passed a limit of its monitor");
            hit(repeat, digest, text)
        })
    });
    let told = cooling.chain(counted).chain(capped).chain(alarms);
    let told: Vec<Hit> = told.collect();
    let trips = trips(repeat).into_iter();
    let said = firmware(repeat).into_iter().chain(clock_reasons(repeat));
    told.into_iter().chain(said).chain(trips).collect()
}

/// Whether any channel that [`throttled`] looks at told of the window. A value from outside of it tells nothing,
/// but for what was counted meanwhile, and for the trip that a zone is held against.
pub(super) fn would_tell_throttling(repeat: &RepeatView) -> bool {
    let find = |name: &str| repeat.telemetry.iter().find(|d| d.channel.name == name);
    repeat.telemetry.iter().any(|digest| {
        let name = &digest.channel.name;
        match (kind_of(name), slowing_trip(name)) {
            (Some(Kind::Counter), _) => digest.stepped().is_some(),
            (Some(_), _) => digest.figures.is_some(),
            (None, Some(zone)) => {
                let heat = find(&format!("{zone}.temp")).and_then(|heat| heat.figures);
                heat.is_some() && digest.latest.is_some_and(|limit| limit > 0)
            }
            (None, None) => false,
        }
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

/// What the firmware tells of the window: at a sample, or between those around it.
fn firmware(repeat: &RepeatView) -> Option<Hit> {
    let name = "power.firmware_flags";
    let digest = repeat.telemetry.iter().find(|d| d.channel.name == name)?;
    let figures = digest.figures;
    let first = digest.before.or(figures.map(|figures| figures.first))?;
    let last = digest.after.or(figures.map(|figures| figures.last))?;
    let bits = figures.map_or(0, |figures| figures.any_bits) | (last & !first) >> 16;
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
        cooler(&digest.channel.name).is_some_and(slows_down) && digest.figures.is_some()
    };
    if repeat.telemetry.iter().any(shows_state) {
        return Vec::new();
    }
    let reached = repeat.telemetry.iter().filter_map(|trip| {
        let zone = slowing_trip(&trip.channel.name)?;
        // A trip that is not in use stands at or below zero.
        let limit = trip.latest.filter(|limit| *limit > 0)?;
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

fn hit(repeat: &RepeatView, digest: &Digest, text: String) -> Hit {
    Hit::of(repeat, text).figure("channel", digest.channel.name.clone())
}
