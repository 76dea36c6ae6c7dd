//! Rules about the watching itself: what was not seen, and what cannot be believed.

use crate::store::rows::TelemetryRow;
use crate::telemetry::{Digest, traffic};
use crate::ui::units;
use crate::view::RepeatView;

use super::{Evidence, Hit, Level, Rule};

/// A sensor that gave the same value so often, over so long, does not measure.
const DEAD_SAMPLES: u64 = 100;
const DEAD_SECONDS: f64 = 30.0;

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "not_watched",
        level: Level::Warning,
        meaning: "Telemetry was asked for and none was recorded, so nothing is known of what the board did meanwhile.",
        check: not_watched,
    },
    Rule {
        code: "sensor_dead",
        level: Level::Note,
        meaning: "A sensor of temperature, power, voltage or current gave one value only, a hundred times and more over half a minute: it does not measure, or not now.",
        check: sensor_dead,
    },
    Rule {
        code: "counter_wrapped",
        level: Level::Note,
        meaning: "A counter stood lower than before and its range is not known: what it grew by is left out.",
        check: counter_wrapped,
    },
    Rule {
        code: "traffic_incomplete",
        level: Level::Warning,
        meaning: "Some of the board's counters of memory traffic could be read over the window and others could not: a part of the traffic is no figure, so the repeat has none.",
        check: traffic_incomplete,
    },
    Rule {
        code: "traffic_above_peak",
        level: Level::Warning,
        meaning: "Counters of the memory controller tell more traffic than memory of this board can move: they count something else, or the data file of peaks is wrong for this board.",
        check: traffic_above_peak,
    },
    Rule {
        code: "memory_saturated",
        level: Level::Note,
        meaning: "Memory moved 85 % or more of the most that a stressor moved on this board: the model waits for memory, and whatever else runs will slow it down.",
        check: memory_saturated,
    },
    Rule {
        code: "sampler_over_budget",
        level: Level::Warning,
        meaning: "Watching cost more of a core than it may (0.5 %, fast 1 %), so it went on half as often, until a minute was calm.",
        check: |e| told_under(e, "sampler_slowed"),
    },
    told_by_agent(
        "sensor_dear",
        Level::Warning,
        "Processes that tell what files do not (a vendor's tool or library) cost more of a core than all reading may (0.5 %, fast 1 %). They cannot be asked more seldom: `sensor.NAME.cpu` shows what each cost.",
    ),
    told_by_agent(
        "telemetry_thinned",
        Level::Note,
        "A repeat was so long that samples were kept one in two, or fewer.",
    ),
    told_by_agent(
        "channel_lost",
        Level::Note,
        "A channel that had values stopped giving them.",
    ),
    told_by_agent(
        "sampler_wedged",
        Level::Warning,
        "A read did not come back from a driver: what that thread had watched is lost.",
    ),
];

/// A rule that fires where an agent tells an event of the same code.
const fn told_by_agent(code: &'static str, level: Level, meaning: &'static str) -> Rule {
    Rule {
        code,
        level,
        meaning,
        check: |e| told_under(e, e.code),
    }
}

fn not_watched(e: &Evidence<'_>) -> Vec<Hit> {
    if e.view.entry.rules.telemetry == TelemetryRow::Off {
        return Vec::new();
    }
    e.counting()
        .filter(|repeat| repeat.telemetry.is_empty())
        .map(|repeat| Hit::of(repeat, "no telemetry was recorded"))
        .collect()
}

fn sensor_dead(e: &Evidence<'_>) -> Vec<Hit> {
    each_channel(e, |digest| {
        let is_sensor = matches!(
            digest.channel.unit.as_str(),
            "millicelsius" | "microwatt" | "microvolt" | "microampere"
        );
        // What is read once has one value by nature.
        let seconds = digest.all_good as f64 * digest.channel.period_ns? as f64 / 1e9;
        let is_dead = is_sensor
            && !digest.ever_changed
            && digest.all_good >= DEAD_SAMPLES
            && seconds >= DEAD_SECONDS;
        is_dead.then(|| format!("{} never changed", digest.channel.name))
    })
}

fn counter_wrapped(e: &Evidence<'_>) -> Vec<Hit> {
    each_channel(e, |digest| {
        let text = || format!("{} stood lower than before", digest.channel.name);
        digest.fell.then(text)
    })
}

/// Counters and clocks are read at different moments.
const ABOVE: f64 = 1.02;

/// From this share on memory is full.
const SATURATED: f64 = 0.85;

fn traffic_incomplete(e: &Evidence<'_>) -> Vec<Hit> {
    let of_repeat = |repeat: &RepeatView| {
        let unread = traffic::unread(&repeat.telemetry);
        (!unread.is_empty()).then(|| {
            let text = format!(
                "memory traffic is not told: {} could not be read over the whole window",
                unread.join(", ")
            );
            Hit::of(repeat, text).figure("channels", unread)
        })
    };
    e.counting().filter_map(of_repeat).collect()
}

fn traffic_above_peak(e: &Evidence<'_>) -> Vec<Hit> {
    let ddr = &e.summary.board.ddr;
    let share = ddr.share_of_peak().or_else(|| ddr.share_of_clock_peak());
    share_hit(
        share.filter(|share| *share > ABOVE),
        "the peak of this board's memory",
    )
}

fn memory_saturated(e: &Evidence<'_>) -> Vec<Hit> {
    let share = e.summary.board.ddr.share_of_ceiling();
    share_hit(
        share.filter(|share| *share >= SATURATED),
        "what stressors moved here",
    )
}

fn share_hit(share: Option<f64>, of: &str) -> Vec<Hit> {
    let hit = share.map(|share| {
        let text = format!("memory moved {} of {of}", units::percent(share));
        Hit::new(text).figure("share", share)
    });
    hit.into_iter().collect()
}

/// One hit for each channel of a case, at the first repeat that shows it.
fn each_channel(e: &Evidence<'_>, look: impl Fn(&Digest) -> Option<String>) -> Vec<Hit> {
    let mut hits: Vec<Hit> = Vec::new();
    for repeat in e.counting() {
        for digest in &repeat.telemetry {
            if let Some(text) = look(digest)
                && hits.iter().all(|hit| hit.text != text)
            {
                hits.push(Hit::of(repeat, text).figure("channel", digest.channel.name.clone()));
            }
        }
    }
    hits
}

/// Repeats whose agent told an event of that code, with what it said first.
fn told_under(e: &Evidence<'_>, code: &str) -> Vec<Hit> {
    let of_repeat = |repeat: &RepeatView| {
        let mut events = repeat.row.events.iter().filter(|event| event.code == code);
        let first = events.next()?;
        let times = 1 + events.count();
        let hit = Hit::of(repeat, first.text.clone());
        Some(hit.figure("times", times as u64))
    };
    e.counting().filter_map(of_repeat).collect()
}
