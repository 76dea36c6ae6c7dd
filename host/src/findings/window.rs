//! Rules about the measured trials themselves.

use crate::stats::autocorrelation::integrated_time;
use crate::stats::quantile::LEVELS;
use crate::stats::{bimodal, bound, outlier};
use crate::summary::RepeatFigures;
use crate::telemetry::{Moment, Seen};
use crate::ui::{telemetry, units};

use crate::view::RepeatView;

use super::{Evidence, Hit, Level, Rule};

/// A drift or step of this share matters when its test is at least this sure.
const UNSTEADY: f64 = 0.03;
const SURE: f64 = 0.01;

/// More outliers than this share are told.
const MANY_OUTLIERS: f64 = 0.01;

/// Beyond this share they are no stragglers any more.
const STRAGGLERS: f64 = 0.1;

/// Percentiles up to this one are expected of every run; higher ones are only marked.
const EXPECTED: f64 = 0.99;

/// Trials whose integrated autocorrelation time is above this depend on each other more than the
/// correction of n to n/τ is proved for: AR(1) up to 0.9, whose time is 19, and estimated from a few
/// thousand trials it may come out as low as this.
pub const CORRELATED: f64 = 12.0;

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "not_steady",
        level: Level::Warning,
        meaning: "Warm-up reached its maximum before it was steady, or the window drifted or stepped by 3 % or more (p < 0.01). Percentiles of such a window mix two states.",
        check: not_steady,
    },
    Rule {
        code: "outliers",
        level: Level::Note,
        meaning: "More than 1 % of the trials are stragglers: their modified z-score is beyond 3.5. They stay in every figure; `records RUN --outliers` lists each with its score. Beyond 10 % they are rather a tail or a mode (see `bimodal`).",
        check: outliers,
    },
    Rule {
        code: "bimodal",
        level: Level::Warning,
        meaning: "Latencies fall into two groups with hardly anything between them, within a repeat or from repeat to repeat: two clocks, two places in memory, a neighbour that comes and goes. One figure stands for neither, and p50 may jump from one to the other.",
        check: bimodal,
    },
    Rule {
        code: "slow_moment",
        level: Level::Note,
        meaning: "Where there are outliers: what was unlike itself on the board within 150 ms of one of the slowest trials, by telemetry, and in the way that makes trials slower. It happened at the same time, which is not yet the reason.",
        check: slow_moment,
    },
    Rule {
        code: "correlated",
        level: Level::Note,
        meaning: "Trials depend on each other over 12 and more of them: a slow wave, not noise. Bounds count far fewer trials and are less sure than they say; look for what comes and goes on the board.",
        check: correlated,
    },
    Rule {
        code: "few_samples",
        level: Level::Note,
        meaning: "There are too few independent trials to claim a percentile up to p99: it is printed with a mark and without a bound.",
        check: few_samples,
    },
];

fn not_steady(e: &Evidence<'_>) -> Vec<Hit> {
    let warmups = e
        .counting()
        .filter(|repeat| !crate::summary::warmup_was_steady(repeat))
        .map(|repeat| {
            let trials = repeat.trials.warmup_trials;
            let text = format!("warm-up was not steady after {trials} trials");
            Hit::of(repeat, text).figure("warmup_trials", trials)
        });
    let counting = e.summary.repeats.iter().filter(|repeat| repeat.counts);
    warmups.chain(counting.filter_map(moved)).collect()
}

fn correlated(e: &Evidence<'_>) -> Vec<Hit> {
    let time = |repeat: &RepeatView| {
        let trials: Vec<f64> = repeat.trials.measured.iter().map(|ns| *ns as f64).collect();
        let time = integrated_time(&trials);
        (time > CORRELATED).then(|| {
            let text = format!("{time:.0} trials in a row are worth one independent one");
            Hit::of(repeat, text).figure("autocorrelation_time", time)
        })
    };
    // A drift or a step is dependence too, and is told as what it is.
    e.counting()
        .filter(|repeat| !has_moved(e, repeat))
        .filter_map(time)
        .collect()
}

/// Each repeat that has two modes; where none has, the repeats taken together.
fn bimodal(e: &Evidence<'_>) -> Vec<Hit> {
    let within: Vec<Hit> = e
        .counting()
        // A drift or a step is two states too, and is told as what it is.
        .filter(|repeat| !has_moved(e, repeat))
        .filter_map(|repeat| {
            let mut hit = two_modes(&repeat.trials.measured)?;
            hit.repeat = Some(repeat.row.key.repeat);
            Some(hit)
        })
        .collect();
    let several = e.counting().nth(1).is_some();
    if !within.is_empty() || !several || e.counting().any(|repeat| has_moved(e, repeat)) {
        return within;
    }
    let measured = e.counting().map(|repeat| repeat.trials.measured.as_slice());
    let pooled: Vec<i64> = measured.collect::<Vec<_>>().concat();
    let hit = two_modes(&pooled).map(|mut hit| {
        hit.text = format!("from repeat to repeat, {}", hit.text);
        hit
    });
    hit.into_iter().collect()
}

fn two_modes(trials: &[i64]) -> Option<Hit> {
    let found = bimodal::test(trials)?;
    if !found.is_clear() {
        return None;
    }
    let (low, high) = bimodal::modes(trials, &found)?;
    let (lower, upper) = (1.0 - found.upper_share, found.upper_share);
    let text = format!(
        "two modes with hardly anything between: {} ({} of the trials) and {} ({})",
        units::nanoseconds(low),
        units::percent(lower),
        units::nanoseconds(high),
        units::percent(upper),
    );
    Some(
        Hit::new(text)
            .figure("low_ms", low / 1e6)
            .figure("high_ms", high / 1e6)
            .figure("upper_share", found.upper_share)
            .figure("separation", found.separation)
            .figure("valley", found.valley),
    )
}

/// Whether a repeat drifted or stepped.
fn has_moved(e: &Evidence<'_>, repeat: &RepeatView) -> bool {
    let same = |figures: &&RepeatFigures| figures.counts && figures.repeat == repeat.row.key.repeat;
    e.summary
        .repeats
        .iter()
        .find(same)
        .and_then(moved)
        .is_some()
}

/// The larger of drift and step, when it is large and sure.
fn moved(repeat: &RepeatFigures) -> Option<Hit> {
    let steadiness = repeat.steadiness?;
    let (drift, change) = (steadiness.drift, steadiness.change);
    let drifted = drift.over_window.abs() >= UNSTEADY && drift.p_value < SURE;
    let stepped = change.shift.abs() >= UNSTEADY && change.p_value < SURE;
    let percent = |share: f64| format!("{:+.1} %", share * 100.0);
    let text = match (drifted, stepped) {
        (true, _) => format!(
            "latency drifted by {} over the window",
            percent(drift.over_window)
        ),
        (false, true) => format!(
            "latency stepped by {} at trial {}",
            percent(change.shift),
            change.at
        ),
        (false, false) => return None,
    };
    let mut hit = Hit::new(text)
        .figure("drift", drift.over_window)
        .figure("drift_p_value", drift.p_value)
        .figure("step", change.shift)
        .figure("step_p_value", change.p_value)
        .span(if drifted { 0 } else { change.at as u64 }, repeat.trials);
    hit.repeat = Some(repeat.repeat);
    Some(hit)
}

fn outliers(e: &Evidence<'_>) -> Vec<Hit> {
    let found = e
        .summary
        .latency
        .as_ref()
        .and_then(|latency| latency.outliers);
    let Some(found) = found.filter(|found| found.share() > MANY_OUTLIERS) else {
        return Vec::new();
    };
    let count = |n: usize| units::count(n as u64);
    let mut text = format!(
        "{} slow and {} fast stragglers among {} trials",
        count(found.high),
        count(found.low),
        count(found.n),
    );
    if found.share() > STRAGGLERS {
        text.push_str(", which is a long tail or a mode");
    }
    text.push_str("; `records RUN --outliers` lists them");
    vec![
        Hit::new(text)
            .figure("share", found.share())
            .figure("low", found.low)
            .figure("high", found.high)
            .figure("farthest", farthest(e)),
    ]
}

/// Outliers that a finding names; `records --outliers` lists all.
const NAMED: usize = 5;

/// The farthest outliers of all repeats, each against its own.
fn farthest(e: &Evidence<'_>) -> Vec<serde_json::Value> {
    let mut all: Vec<(f64, serde_json::Value)> = Vec::new();
    for repeat in e.counting() {
        let Some(scale) = outlier::Scale::of(&repeat.trials.measured) else {
            continue;
        };
        let trials = repeat.trials.measured.iter().zip(0_u64..);
        let far = trials.filter(|(ns, _)| scale.is_outlier(**ns as f64));
        all.extend(far.filter_map(|(ns, at)| {
            let score = scale.score(*ns as f64)?;
            let named = serde_json::json!({
                "repeat": repeat.row.key.repeat,
                "measured_trial": at,
                "latency_ms": *ns as f64 / 1e6,
                "z": score,
            });
            Some((score.abs(), named))
        }));
    }
    all.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    all.into_iter()
        .take(NAMED)
        .map(|(_, named)| named)
        .collect()
}

fn slow_moment(e: &Evidence<'_>) -> Vec<Hit> {
    if outliers(e).is_empty() {
        return Vec::new();
    }
    let of_repeat = |repeat: &RepeatView| -> Vec<Hit> {
        let told = repeat
            .moments
            .iter()
            .filter(|moment| !moment.seen.is_empty());
        told.map(|moment| of_moment(repeat, moment)).collect()
    };
    e.counting().flat_map(of_repeat).collect()
}

fn of_moment(repeat: &RepeatView, moment: &Moment) -> Hit {
    let shown = |seen: &Seen, value: f64| match seen.is_rate {
        true => telemetry::rate(&seen.unit, value),
        false => telemetry::value(&seen.unit, value),
    };
    let seen = moment.seen.iter().map(|seen| {
        let (then, usually) = (shown(seen, seen.then), shown(seen, seen.usually));
        format!("{} {then} instead of {usually}", seen.channel)
    });
    let seen: Vec<String> = seen.collect();
    let took = moment.span.length_ns() as f64;
    let text = format!(
        "trial {} took {}; around it {}",
        moment.trial,
        units::nanoseconds(took),
        seen.join(", ")
    );
    let mut hit = Hit::of(repeat, text)
        .figure("took_ms", took / 1e6)
        .span(moment.trial, moment.trial + 1);
    for seen in &moment.seen {
        let figures = serde_json::json!({ "then": seen.then, "usually": seen.usually });
        hit = hit.figure(&seen.channel, figures);
    }
    hit
}

fn few_samples(e: &Evidence<'_>) -> Vec<Hit> {
    let Some(latency) = &e.summary.latency else {
        return Vec::new();
    };
    let expected = LEVELS.iter().filter(|&&level| level <= EXPECTED).count();
    let quantiles = latency.distribution.quantiles();
    let Some((level, quantile)) = quantiles[..expected].iter().find(|(_, q)| !q.enough) else {
        return Vec::new();
    };
    let needed = bound::minimum_count(*level);
    let name = format!("p{}", level * 100.0);
    let text = format!(
        "for {name} the {} trials are worth {} independent ones; it needs {}",
        units::count(latency.distribution.n as u64),
        units::count(quantile.n_eff as u64),
        needed.map_or_else(|| "more".into(), |n| n.to_string()),
    );
    vec![
        Hit::new(text)
            .figure("percentile", name)
            .figure("n_eff", quantile.n_eff)
            .figure("needed", needed),
    ]
}
