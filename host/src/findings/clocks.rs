//! Rules about clocks and heat, by what was watched during the window.

use edgedyno_shared::telemetry::Quality;

use crate::telemetry::engines::{self, Used};
use crate::telemetry::{Digest, Figures};
use crate::ui::telemetry::value;
use crate::view::RepeatView;

use super::measured::{busy_policies_of, start_facts};
use super::{Evidence, Hit, Level, Rule, governors, policies_of};

/// A clock that moved by more than this share of its highest value within the window.
const RAMP: f64 = 0.05;

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "clock_not_as_asked",
        level: Level::Invalid,
        meaning: "Clocks were to be held, and a governor or a limit read back was not what was written, or the clock of a measured CPU that was at work was seen more than 5 % below its limit within the window. Processors that choose their clock by themselves (x86) are told as turbo_free instead.",
        check: clock_not_as_asked,
    },
    Rule {
        code: "turbo_free",
        level: Level::Warning,
        meaning: "Clocks were to be held, and a processor that chooses its clock by itself (x86, with its turbo free) ran a measured CPU at work more than 5 % below its base clock, or below the limit where the base clock is not told: the limit is what one core alone may reach, and no governor makes all of them run so.",
        check: turbo_free,
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
        meaning: "A clock that matters (of the measured CPUs, of memory, of a GPU or NPU that the backend uses) moved by more than 5 % within the window: trials ran at different speeds. Times at which it stood still do not count.",
        check: clock_ramp,
    },
    Rule {
        code: "governor_not_fixed",
        level: Level::Warning,
        meaning: "The governor of a measured CPU, of memory, or of a GPU or NPU that the backend uses may change its clock at any time. `--fix-clocks` holds it.",
        check: governor_not_fixed,
    },
];

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
        let slow = match chooses_its_clock(e) {
            true => Vec::new(),
            false => below_limit(repeat),
        };
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

fn turbo_free(e: &Evidence<'_>) -> Vec<Hit> {
    match e.view.entry.rules.fix_clocks && chooses_its_clock(e) {
        true => e.counting().flat_map(below_limit).collect(),
        false => Vec::new(),
    }
}

/// Whether a limit of the clock is no more than a wish: on x86, and where nobody knows what it is.
fn chooses_its_clock(e: &Evidence<'_>) -> bool {
    let arch = e.view.device.as_ref().map(|device| device.arch.as_str());
    arch.is_none_or(|arch| arch.starts_with("x86"))
}

/// Policies of measured CPUs at work whose clock was seen below its limit, or below the clock that a processor
/// keeps up without its boost, where that is told. One that idles may rest.
fn below_limit(repeat: &RepeatView) -> Vec<Hit> {
    let slow = busy_policies_of(repeat).into_iter().filter_map(|policy| {
        let find = |what: &str| {
            let name = format!("cpu.policy{policy}.{what}");
            repeat.telemetry.iter().find(|d| d.channel.name == name)
        };
        let (freq, limit) = (find("freq")?, find("freq_max")?);
        let (lowest, limit) = (freq.figures?.min, limit.figures?.max);
        let limit = base_hz(repeat, policy).map_or(limit, |base| base.min(limit));
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
    slow.collect()
}

fn base_hz(repeat: &RepeatView, policy: u16) -> Option<i64> {
    let name = format!("base_frequency.policy{policy}");
    let (_, hz) = start_facts(repeat).find(|(fact, _)| *fact == name)?;
    hz.parse().ok()
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
    let used = used(e);
    let of_repeat = |repeat: &RepeatView| -> Vec<Hit> {
        let policies = policies_of(repeat);
        let moved = repeat.telemetry.iter().filter_map(|digest| {
            let name = &digest.channel.name;
            let is_measured = |policy: &u16| *name == format!("cpu.policy{policy}.freq");
            let matters = match engines::of_clock(name) {
                Some(engine) => used.has(engine) && !is_idle_card(repeat, name),
                None => policies.iter().any(is_measured),
            };
            let figures = digest.figures.filter(|_| matters)?;
            // A clock at zero is one of a device that slept, between two trials or always.
            let Figures { max, .. } = figures;
            let min = figures.min_above_zero?;
            let share = (max - min) as f64 / max as f64;
            (share > RAMP).then(|| {
                let clock = name.strip_suffix(".freq").unwrap_or(name);
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

/// Whether the clock of every policy of the measured CPUs was seen, and of each engine in use that the board shows
/// one of; a device that slept through the window has none.
pub(super) fn were_seen(repeat: &RepeatView, used: Used) -> bool {
    let find = |name: &str| repeat.telemetry.iter().find(|d| d.channel.name == name);
    let policies = policies_of(repeat);
    let is_seen = |policy: &u16| {
        let clock = find(&format!("cpu.policy{policy}.freq"));
        clock.is_some_and(|digest| digest.figures.is_some())
    };
    let slept = |digest: &Digest| {
        let busy = digest.faults[usize::from(Quality::Busy.code())];
        busy > 0 && busy == digest.samples
    };
    let mut clocks = repeat.telemetry.iter().filter(|digest| {
        let engine = engines::of_clock(&digest.channel.name);
        engine.is_some_and(|engine| used.has(engine)) && !digest.is_of_nothing()
    });
    !policies.is_empty()
        && policies.iter().all(is_seen)
        && clocks.all(|digest| digest.figures.is_some() || slept(digest))
}

/// Whether clocks that were to be held were read back.
pub(super) fn were_read_back(repeat: &RepeatView) -> bool {
    let mut clocks = repeat
        .row
        .effective
        .iter()
        .filter(|each| is_clock(&each.name));
    let first = clocks.next();
    first.is_some_and(|first| first.observed.is_some())
        && clocks.all(|each| each.observed.is_some())
}

/// Of several cards one may be used; one that did nothing is not it.
fn is_idle_card(repeat: &RepeatView, clock: &str) -> bool {
    let card = clock.strip_prefix("nvml.").and_then(|n| n.split_once('.'));
    let load = card.map(|(number, _)| format!("nvml.{number}.load"));
    let mut channels = repeat.telemetry.iter();
    let load = load.and_then(|load| channels.find(|digest| digest.channel.name == load));
    load.and_then(|digest| digest.figures)
        .is_some_and(|figures| figures.max == 0)
}

/// Accelerators of the case.
fn used(e: &Evidence<'_>) -> Used {
    Used::of_case(&e.view.entry.case)
}

fn governor_not_fixed(e: &Evidence<'_>) -> Vec<Hit> {
    let Some(repeat) = e.counting().next() else {
        return Vec::new();
    };
    // Facts are read before clocks are held; what became of that has a rule of its own.
    if e.view.entry.rules.fix_clocks {
        return Vec::new();
    }
    let free = governors::free(start_facts(repeat), &policies_of(repeat), used(e));
    if free.is_empty() {
        return Vec::new();
    }
    let text = format!("the governor is {}", free.join(", "));
    vec![Hit::new(text).figure("governors", free.join(", "))]
}

fn hit(repeat: &RepeatView, digest: &Digest, text: String) -> Hit {
    Hit::of(repeat, text).figure("channel", digest.channel.name.clone())
}
