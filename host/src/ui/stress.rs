//! What a load did, for the terminal: a table, a figure of intervals, and what the curves say.

use crate::contention::curve::Ratio;
use crate::contention::gap::Gaps;
use crate::contention::incomplete::Incomplete;
use crate::contention::knee::Slope;
use crate::contention::ladder::Ladder;
use crate::contention::levels::{Curve, Slo};
use crate::contention::limit::{Answer, Asked, Limit, Told};
use crate::contention::read::Found;
use crate::contention::recovery::{Board, Recovery};
use crate::contention::report::{Baseline, DEVICE, Experiment, METRICS, OfRepeat, Point};
use crate::contention::validity::Mark;
use crate::contention::worst::Slowest;
use crate::summary::CaseSummary;

use super::cases;
use super::table::Table;
use super::units::{UNKNOWN, count, figure, percent, things};
use super::wrap::prose;

/// Columns of the figure between its margins.
const WIDTH: usize = 48;

/// All experiments of a run. Cases that belong to none are listed as a sweep lists them.
pub fn text(found: &Found, summaries: &[CaseSummary]) -> String {
    let mut parts: Vec<String> = found.incomplete.iter().map(of_incomplete).collect();
    if found.experiments.is_empty() && found.gaps.is_empty() {
        parts.extend([cases::text(summaries), nothing_to_compare(found)]);
        return parts.join("\n");
    }
    for experiment in &found.experiments {
        parts.push(of_experiment(experiment));
    }
    for gaps in &found.gaps {
        parts.push(of_gaps(gaps));
    }
    parts.push(prose(&format!(
        "run {run}; `edgedyno summary {run}` shows every case, `edgedyno export {run} --format contention` writes it all",
        run = found.run
    )));
    parts.join("\n")
}

/// That an experiment is not whole, before anything that it says.
fn of_incomplete(incomplete: &Incomplete) -> String {
    let there = incomplete.repeats_complete;
    let there = match incomplete.repeats_planned {
        Some(planned) => format!("{} of {} planned repeats", count(there), count(planned)),
        None => things(there, "repeat"),
    };
    let failed = match incomplete.repeats_failed {
        0 => String::new(),
        failed => format!(", {} failed", count(failed)),
    };
    let open = match incomplete.repeats_planned {
        Some(_) => "",
        None => "; its plan does not say of how many",
    };
    prose(&format!(
        "not complete ({}): {there} measured{failed}{open}",
        incomplete.status.name()
    ))
}

fn nothing_to_compare(found: &Found) -> String {
    let line =
        "no load to compare: an idle case and a loaded one that differ in nothing else are needed";
    let asked = found
        .slo
        .as_ref()
        .map(|limit| format!("asked: {}", untold(limit)));
    prose(
        &asked
            .into_iter()
            .chain([line.to_owned()])
            .collect::<Vec<_>>()
            .join("\n"),
    )
}

fn of_experiment(experiment: &Experiment) -> String {
    let mut out = heading(&experiment.axes, experiment.simulated);
    let idle = |metric: &str| {
        let ms = experiment
            .baseline
            .figures
            .get(metric)
            .map(|figure| figure.ms);
        let of = experiment.baseline.figures.get(metric);
        let mark = of.map_or("", |of| if of.lack(metric).is_some() { FEW } else { "" });
        ms.map_or_else(
            || UNKNOWN.to_owned(),
            |ms| format!("{} ms{mark}", figure(ms)),
        )
    };
    let baseline = &experiment.baseline;
    out.push_str(&prose(&format!(
        "idle: p50 {}, p95 {}, p99 {} ({}{})",
        idle(METRICS[0]),
        idle(METRICS[1]),
        idle(METRICS[2]),
        things(baseline.repeats as u64, "repeat"),
        of_baseline(baseline),
    )));
    out.push('\n');
    out.push_str(&table(experiment));
    out.push('\n');
    out.push_str(&chart(&experiment.points, experiment.x_axis.short()));
    out.push_str(&tenants(&experiment.points));
    if let Some(asked) = &experiment.slo {
        out.push_str(&said(asked));
    }
    for curve in &experiment.curves {
        out.push_str(&prose(&of_curve(curve)));
    }
    for ladder in &experiment.ladders {
        out.push_str(&prose(&of_ladder(ladder)));
    }
    if let Some(slowest) = &experiment.slowest {
        out.push_str(&prose(&of_slowest(slowest, &experiment.points)));
    }
    if let Some(recovery) = &experiment.recovery {
        let line = format!("idle again at the end: {}", of_recovery(recovery));
        out.push_str(&prose(&line));
    }
    out.push_str(&prose(&format!("in short: {}", experiment.verdict.words())));
    let idle = ("idle", baseline.repeats, baseline.marks.as_slice());
    let points = experiment.points.iter().map(marked);
    let all = std::iter::once(idle).chain(points);
    let all = all.chain(experiment.recovery.as_ref().map(at_the_end));
    out.push_str(&prose(&marks(&all.collect::<Vec<_>>())));
    let ratios = experiment.points.iter().flat_map(|point| {
        let tenants = point
            .tenants
            .iter()
            .flat_map(|tenant| tenant.slowdown.values());
        point.slowdown.values().chain(tenants)
    });
    out.push_str(few(ratios));
    out.push_str(&prose(&format!("GB/s: {}", experiment.currency)));
    out
}

/// Behind the number of repeats of what all is held against.
pub(crate) fn of_baseline(baseline: &Baseline) -> String {
    match baseline.valid {
        true if baseline.valid_repeats == baseline.repeats => String::new(),
        true => format!(", {} of them count", baseline.valid_repeats),
        false => format!(
            ", {} of them count: INVALID, and all below with it",
            baseline.valid_repeats
        ),
    }
}

/// Which condition slows it most, and how sure that is.
pub(crate) fn of_slowest(slowest: &Slowest, points: &[Point]) -> String {
    let point = points
        .iter()
        .find(|point| point.condition == slowest.condition);
    let ratio = point.and_then(|point| point.slowdown.get(METRICS[0]));
    let mut line = format!(
        "slowest under {}: p50 × {}",
        slowest.condition,
        of_ratio(ratio)
    );
    match slowest.not_separable.as_slice() {
        _ if slowest.of < 2 => {}
        [] => line.push_str(", slower than under each of the others"),
        others => line.extend([", not told from ".to_owned(), others.join(", ")]),
    }
    if slowest.of > 2 {
        line.extend([format!(
            "; the largest of {} figures is larger than it would be again",
            slowest.of
        )]);
    }
    line
}

/// Behind a figure that rests on too few trials.
const FEW: &str = "*";

/// What the mark means, where one of these has it.
fn few<'a>(mut ratios: impl Iterator<Item = &'a Ratio>) -> &'static str {
    match ratios.any(|ratio| !ratio.enough) {
        true => {
            "* not enough independent trials for this percentile: a longer --duration has more\n"
        }
        false => "",
    }
}

fn heading(axes: &std::collections::BTreeMap<String, String>, simulated: bool) -> String {
    let of = |name: &str| axes.get(name).map_or(UNKNOWN, String::as_str);
    let simulated = if simulated {
        " (simulated: no measurement of a model)"
    } else {
        ""
    };
    prose(&format!(
        "{} on {}, board {}, CPU {}{simulated}",
        of("model"),
        of("backend"),
        of("board"),
        of("cpus")
    ))
}

/// What every condition did to the latency, and beside it what is left once the busy CPU is taken off.
fn table(experiment: &Experiment) -> String {
    let mut latency = Table::new()
        .text("condition")
        .figure("GB/s")
        .figure("p50 × idle")
        .figure("p95 × idle")
        .figure("p99 × idle")
        .text("");
    let mut parts = Table::new()
        .text("condition")
        .figure("p50 × spin")
        .figure("p99 × spin")
        .figure("device p50 × idle");
    for point in &experiment.points {
        let name = point.condition.clone();
        latency.row([
            name.clone(),
            gbps(point),
            of_ratio(point.slowdown.get(METRICS[0])),
            of_ratio(point.slowdown.get(METRICS[1])),
            of_ratio(point.slowdown.get(METRICS[2])),
            if point.valid {
                String::new()
            } else {
                "invalid".into()
            },
        ]);
        parts.row([
            name,
            of_ratio(point.over_spin.get(METRICS[0])),
            of_ratio(point.over_spin.get(METRICS[2])),
            of_ratio(point.slowdown.get(DEVICE)),
        ]);
    }
    format!("{}\n\n{}\n", latency.render(), parts.render())
}

/// What other models did beside the case, each against itself alone, and how all of them share the board.
fn tenants(points: &[Point]) -> String {
    let mut table = Table::new()
        .text("beside it")
        .figure("asked Hz")
        .figure("rate Hz")
        .figure("rate × alone")
        .figure("p50 × alone")
        .figure("p99 × alone");
    let mut shared = String::new();
    let mut is_empty = true;
    for point in points {
        for tenant in &point.tenants {
            is_empty = false;
            table.row([
                match point.tenants.len() {
                    1 => point.condition.clone(),
                    _ => format!("{} of {}", tenant.model, point.condition),
                },
                tenant
                    .asked_hz
                    .map_or_else(|| "all it can".to_owned(), figure),
                figure(tenant.rate_hz),
                of_ratio(tenant.relative_rate.as_ref()),
                of_ratio(tenant.slowdown.get(METRICS[0])),
                of_ratio(tenant.slowdown.get(METRICS[2])),
            ]);
        }
        shared.push_str(&efficiency(point));
    }
    match is_empty {
        true => String::new(),
        false => format!("{}\n\n{}", table.render(), prose(&shared)),
    }
}

fn efficiency(point: &Point) -> String {
    let Some(efficiency) = &point.efficiency else {
        return String::new();
    };
    let interval = efficiency.ci95;
    let interval = interval.map(|(low, high)| format!(" ({} to {})", figure(low), figure(high)));
    format!(
        "{}: {} models run at {}{} of their rates alone, summed up; {} would be undisturbed, 1 no better than by turns\n",
        point.condition,
        efficiency.models,
        figure(efficiency.sum),
        interval.unwrap_or_default(),
        efficiency.models
    )
}

fn gbps(point: &Point) -> String {
    figure(point.x_bps.map(|bps| bps / 1e9))
}

/// Whether the board at the end was that of the experiment.
pub(crate) fn of_recovery(recovery: &Recovery) -> String {
    let of = things(recovery.repeats as u64, "repeat");
    let of = match recovery.valid_repeats == recovery.repeats {
        true => of,
        false => format!("{of}, {} of them valid", recovery.valid_repeats),
    };
    let ratio = recovery.ratio;
    let ratio = ratio.map_or_else(
        || format!("p50 of before and now cannot be compared ({of})"),
        |ratio| format!("p50 × {} of before ({of})", figure(ratio)),
    );
    let verdict = match (recovery.board, recovery.ci95) {
        (Board::Other, _) => "the board is NOT what it was: it drifted, or is still hot".to_owned(),
        (Board::Same, _) => "the board is what it was".to_owned(),
        (Board::Undecided, None) => {
            "too few valid repeats to tell whether the board is the same".to_owned()
        }
        (Board::Undecided, Some((low, high))) => format!(
            "no change is shown, but one to × {} or × {} is not ruled out",
            figure(low),
            figure(high)
        ),
    };
    format!("{ratio}: {verdict}")
}

/// Where an interval reaches this far to either side, it is no longer as wide above as below.
const NARROW: f64 = 0.1;

/// `1.083 ±1.2 %`: half the width of the interval, as a share of the ratio; the whole of a wide interval:
/// `1.762 (0.77…4.03)`. A star behind the ratio says that its percentile rests on too few trials.
pub(crate) fn of_ratio(ratio: Option<&Ratio>) -> String {
    let Some(ratio) = ratio else {
        return UNKNOWN.to_owned();
    };
    let mark = if ratio.enough { "" } else { FEW };
    let point = format!("{}{mark}", figure(ratio.ratio));
    match ratio.ci95 {
        Some((low, high)) => {
            let half = round((high / low).sqrt() - 1.0);
            match half <= NARROW {
                true => format!("{point} ±{}", percent(half)),
                false => format!("{point} ({low:.2}…{high:.2})"),
            }
        }
        None => point,
    }
}

/// Two digits of a width are enough.
fn round(share: f64) -> f64 {
    (share * 1e3).round() / 1e3
}

/// One line a point: where its interval of p50 lies.
fn chart(points: &[Point], whose: &str) -> String {
    let known = points.iter().filter_map(|point| {
        let ratio = point.slowdown.get(METRICS[0])?;
        Some((point, *ratio, ratio.ci95?))
    });
    let mut known: Vec<(&Point, Ratio, (f64, f64))> = known.collect();
    if known.len() < 2 {
        return String::new();
    }
    let reached = |point: &Point| point.x_bps.unwrap_or(0.0);
    known.sort_by(|a, b| reached(a.0).total_cmp(&reached(b.0)));
    let least = known
        .iter()
        .map(|(_, _, (low, _))| *low)
        .fold(1.0, f64::min);
    let most = known
        .iter()
        .map(|(_, _, (_, high))| *high)
        .fold(1.0, f64::max);
    let span = (most - least).max(1e-9);
    let column = |value: f64| (((value - least) / span) * (WIDTH - 1) as f64).round() as usize;
    let mut out = format!(
        "{:>8}  p50 × idle, 95 % intervals, over GB/s {whose}; │ is 1\n{:>8}  {}{}{}\n",
        "GB/s",
        "",
        figure(least),
        " ".repeat(
            WIDTH.saturating_sub(figure(least).chars().count() + figure(most).chars().count())
        ),
        figure(most)
    );
    for (point, ratio, (low, high)) in known {
        let mut line: Vec<char> = vec![' '; WIDTH];
        line[column(1.0)] = '│';
        for cell in &mut line[column(low)..=column(high)] {
            *cell = '─';
        }
        line[column(ratio.ratio)] = if point.valid { '●' } else { '○' };
        let line: String = line.into_iter().collect();
        out.extend([format!("{:>8}  {line}  {}\n", gbps(point), point.condition)]);
    }
    out.push('\n');
    out
}

/// What a curve says, in lines.
pub(crate) fn of_curve(curve: &Curve) -> String {
    let mut out = format!("{}: ", curve.stressor);
    let Some(fit) = &curve.fit else {
        out.push_str("too few valid levels for a curve\n");
        return out + &curve.slo.as_ref().map(of_slo).unwrap_or_default();
    };
    match &fit.knee {
        Some(knee) => {
            let (low, high) = knee.ci95;
            let end = |end: Option<f64>, open: &str| end.map_or_else(|| open.to_owned(), figure);
            out.extend([format!(
                "knee at {} GB/s ({} to {}); p50 {} a GB/s before it, {} behind it",
                figure(knee.at),
                end(low, "below the levels"),
                end(high, "beyond the levels"),
                a_gb(&knee.before),
                a_gb(&knee.after)
            )]);
        }
        None => out.extend([format!("no knee shown; p50 {} a GB/s", a_gb(&fit.slope))]),
    }
    if let Some(slope) = &curve.sensitivity_ms_per_gbps {
        out.extend([format!(", which is {} ms", of_slope(slope, 1.0))]);
    }
    out.push('\n');
    out + &curve.slo.as_ref().map(of_slo).unwrap_or_default()
}

/// What the levels of an option, or of a stressor that is no traffic, cost; one line.
pub(crate) fn of_ladder(ladder: &Ladder) -> String {
    let values: Vec<String> = ladder
        .levels
        .iter()
        .map(|level| figure(level.value))
        .collect();
    let name = format!(
        "{}, {} at {}",
        ladder.condition,
        ladder.option,
        values.join(", ")
    );
    let Some(fit) = &ladder.fit else {
        return format!("{name}: too few valid levels for a curve\n");
    };
    match &fit.knee {
        Some(knee) => format!(
            "{name}: knee at {}; p50 {} a unit before it, {} behind it\n",
            figure(knee.at),
            a_gb(&knee.before),
            a_gb(&knee.after)
        ),
        None => format!("{name}: no knee shown; p50 {} a unit\n", a_gb(&fit.slope)),
    }
}

/// A slope of ratios as a percentage.
fn a_gb(slope: &Slope) -> String {
    format!("{} %", of_slope(slope, 100.0))
}

fn of_slope(slope: &Slope, factor: f64) -> String {
    let signed = |value: f64| format!("{}{}", if value > 0.0 { "+" } else { "" }, figure(value));
    match slope.ci95 {
        Some((low, high)) => format!(
            "{} ({} to {})",
            signed(slope.value * factor),
            signed(low * factor),
            signed(high * factor)
        ),
        None => signed(slope.value * factor),
    }
}

/// What was asked of the conditions of a run, for outputs that show cases and no experiment; nothing where
/// nothing was.
pub fn of_limit(found: &Found) -> Option<String> {
    let limit = found.slo.as_ref()?;
    let lines = found.experiments.iter().filter_map(|experiment| {
        let whose = match found.experiments.len() {
            1 => String::new(),
            _ => heading(&experiment.axes, experiment.simulated),
        };
        Some(whose + &said(experiment.slo.as_ref()?))
    });
    let lines: String = lines.collect();
    Some(
        match lines.is_empty() {
            true => prose(&format!("asked: {}", untold(limit))),
            false => lines,
        }
        .trim_end()
        .to_owned(),
    )
}

/// A limit of which no case can say anything.
pub(crate) fn untold(limit: &Limit) -> String {
    format!(
        "{}; not told: an idle case and a loaded one that differ in nothing else are needed",
        bound(&limit.metric, limit.ns / 1e6)
    )
}

fn said(asked: &Asked) -> String {
    prose(&format!("asked: {}", of_asked(asked)))
}

/// A limit, and what every condition says of it.
pub(crate) fn of_asked(asked: &Asked) -> String {
    let told = |answer: Answer| {
        let all = asked.conditions.iter();
        all.filter(move |told| told.answer == answer)
    };
    let names = |answer: Answer| -> Option<String> {
        let few = |told: &Told| match (&told.too_few_trials, answer) {
            (Some(why), Answer::Broken) => format!("{} ({why})", told.condition),
            _ => told.condition.clone(),
        };
        let names: Vec<String> = told(answer).map(few).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let undecided = told(Answer::Undecided).map(|told| {
        let interval = told.figure.and_then(|figure| figure.ci95);
        let mut why = interval.map_or_else(
            || "no interval".to_owned(),
            |(low, high)| format!("{} to {} ms", figure(low), figure(high)),
        );
        if let Some(few) = &told.too_few_trials {
            why.extend(["; ", few.as_str()]);
        }
        format!("{} ({why})", told.condition)
    });
    let undecided: Vec<String> = undecided.collect();
    let undecided = (!undecided.is_empty()).then(|| undecided.join(", "));
    let parts = [
        Some(match names(Answer::Kept) {
            Some(names) => format!("kept by {names}"),
            None => "shown to be kept by none".to_owned(),
        }),
        names(Answer::Broken).map(|names| format!("broken by {names}")),
        undecided.map(|names| format!("not decided for {names}")),
        names(Answer::Invalid).map(|names| format!("not told by {names}: invalid")),
        names(Answer::Unmeasured).map(|names| format!("not measured: {names}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let limit = bound(&asked.metric, asked.limit_ms);
    format!("{limit} with its whole 95 % interval: {}", parts.join("; "))
}

/// `p99 ≤ 33 ms`.
fn bound(metric: &str, limit_ms: f64) -> String {
    let name = metric.trim_start_matches("latency_");
    format!("{} ≤ {} ms", name.trim_end_matches("_ms"), figure(limit_ms))
}

fn of_slo(slo: &Slo) -> String {
    let kept = match slo.kept_up_to_gbps {
        Some(x) => format!("kept up to {} GB/s", figure(x)),
        None => "shown to be kept at no level".to_owned(),
    };
    let broken = match slo.broken_from_gbps {
        Some(x) => format!("broken from {} GB/s on", figure(x)),
        None => "shown to be broken at none".to_owned(),
    };
    let crossing = slo.crossing_gbps;
    let crossing = crossing.map(|x| format!("; the points cross it at {} GB/s", figure(x)));
    let few = slo.too_few_trials.as_ref();
    let few = few.map(|why| format!(" ({why} at the level that has the fewest)"));
    format!(
        "  {}: {kept}, {broken}{}{}\n",
        bound(&slo.metric, slo.limit_ms),
        crossing.unwrap_or_default(),
        few.unwrap_or_default()
    )
}

/// What marks stand on: its name, how many repeats it has, and the marks.
pub(crate) type Marked<'a> = (&'a str, usize, &'a [OfRepeat]);

pub(crate) fn marked(point: &Point) -> Marked<'_> {
    (&point.condition, point.repeats, &point.marks)
}

fn at_the_end(recovery: &Recovery) -> Marked<'_> {
    ("the end", recovery.repeats, &recovery.marks)
}

/// Why points or repeats of them do not count, each reason once a condition. What is said of all repeats of
/// all of them in the same words, and takes none out, is said once.
fn marks(all: &[Marked<'_>]) -> String {
    let mut out = String::new();
    let common = common(all);
    for mark in &common {
        out.extend([format!("everywhere: {} (note): {}\n", mark.code, mark.text)]);
    }
    for (name, repeats, marks) in all {
        let is_own = |of: &&OfRepeat| !common.contains(&of.mark);
        let mut codes: Vec<(&str, bool)> = marks
            .iter()
            .filter(is_own)
            .map(|of| (of.mark.code, of.mark.invalid))
            .collect();
        codes.sort_unstable();
        codes.dedup();
        for (code, invalid) in codes {
            let is_of = |of: &&OfRepeat| (of.mark.code, of.mark.invalid) == (code, invalid);
            let of_code: Vec<&OfRepeat> = marks.iter().filter(is_own).filter(is_of).collect();
            let Some(first) = of_code.first() else {
                continue;
            };
            let counts = if invalid { "does not count" } else { "note" };
            let mut numbers: Vec<Option<u32>> = of_code.iter().map(|of| of.repeat).collect();
            numbers.dedup();
            let times = match first.repeat {
                Some(_) => format!(" in {} of {repeats} repeats", numbers.len()),
                None => String::new(),
            };
            out.extend([format!(
                "{name}: {code}{times} ({counts}): {}\n",
                first.mark.text
            )]);
        }
    }
    out
}

/// Notes that every repeat of every one has.
pub(crate) fn common(all: &[Marked<'_>]) -> Vec<Mark> {
    let Some((_, _, first)) = all.first().filter(|_| all.len() > 1) else {
        return Vec::new();
    };
    let is_common = |mark: &&Mark| {
        !mark.invalid
            && all.iter().all(|(_, repeats, marks)| {
                let own = marks.iter().filter(|of| of.mark == **mark);
                *repeats > 0 && own.count() >= *repeats
            })
    };
    let mut common: Vec<Mark> = Vec::new();
    for mark in first.iter().map(|of| &of.mark).filter(is_common) {
        if !common.contains(mark) {
            common.push(mark.clone());
        }
    }
    common
}

fn of_gaps(gaps: &Gaps) -> String {
    let mut table = Table::new()
        .figure("gap ms")
        .figure("p50 × none")
        .figure("p95 × none")
        .figure("p99 × none")
        .text("");
    for point in &gaps.points {
        table.row([
            figure(point.gap_ms),
            of_ratio(point.slowdown.get(METRICS[0])),
            of_ratio(point.slowdown.get(METRICS[1])),
            of_ratio(point.slowdown.get(METRICS[2])),
            (if point.valid { "" } else { "invalid" }).to_owned(),
        ]);
    }
    let without = format!(
        "idle time between trials; without: {}{}",
        things(gaps.baseline.repeats as u64, "repeat"),
        of_baseline(&gaps.baseline)
    );
    let heading = heading(&gaps.axes, gaps.simulated);
    let mut out = format!("{heading}{}\n{}\n", prose(&without), table.render());
    if let Some(recovery) = &gaps.recovery {
        let line = format!("without a gap again at the end: {}", of_recovery(recovery));
        out.push_str(&prose(&line));
    }
    let names: Vec<String> = gaps
        .points
        .iter()
        .map(|point| format!("gap {} ms", figure(point.gap_ms)))
        .collect();
    let points = names.iter().zip(&gaps.points);
    let points = points.map(|(name, point)| (name.as_str(), point.repeats, point.marks.as_slice()));
    let baseline = &gaps.baseline;
    let without = ("no gap", baseline.repeats, baseline.marks.as_slice());
    let all = std::iter::once(without).chain(points);
    let all = all.chain(gaps.recovery.as_ref().map(at_the_end));
    out.push_str(&prose(&marks(&all.collect::<Vec<_>>())));
    out.push_str(few(gaps.points.iter().flat_map(|p| p.slowdown.values())));
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::contention::report::Figure;
    use crate::contention::testing;
    use crate::store::rows::RunStatus;

    fn point(condition: &str, gbps: f64, ratio: f64, half: f64, valid: bool) -> Point {
        let ratio = Ratio {
            ratio,
            ci95: Some((ratio - half, ratio + half)),
            rounds: 5,
            enough: true,
        };
        Point {
            x_bps: Some(gbps * 1e9),
            achieved_bps: Some(gbps * 1e9),
            valid_repeats: if valid { 5 } else { 0 },
            valid,
            slowdown: BTreeMap::from([(METRICS[0].to_owned(), ratio)]),
            ..testing::point(condition)
        }
    }

    #[test]
    fn the_figure_shows_where_each_interval_lies() {
        let points = [
            point("mem_read:cpu1", 8.0, 1.5, 0.5, true),
            point("spin:cpu1", 0.0, 1.0, 0.0, true),
            point("mem_read:cpu1@50%", 4.0, 1.25, 0.05, false),
        ];
        let chart = chart(&points, "of the stressors");
        let lines: Vec<&str> = chart.lines().collect();
        assert_eq!(lines.len(), 6, "{chart}");
        assert!(lines[2].ends_with("spin:cpu1") && lines[2].contains("●"));
        assert!(lines[3].contains("○") && lines[3].contains("│"));
        // From 1 to 2: the middle of the figure.
        let middle = lines[4].chars().position(|c| c == '●').unwrap();
        assert_eq!(middle, 10 + WIDTH / 2);
        assert_eq!(lines[4].matches('─').count(), WIDTH - 1);
    }

    fn told(condition: &str, answer: Answer, ci95: Option<(f64, f64)>) -> Told {
        Told {
            condition: condition.into(),
            answer,
            too_few_trials: None,
            figure: Some(Figure {
                ms: 10.0,
                ci95,
                trials: None,
            }),
        }
    }

    fn asked(conditions: Vec<Told>) -> Asked {
        Asked {
            metric: METRICS[2].into(),
            limit_ms: 33.0,
            conditions,
        }
    }

    #[test]
    fn a_limit_names_who_keeps_it_and_who_cannot_tell() {
        let all = asked(vec![
            told("idle", Answer::Kept, Some((9.0, 11.0))),
            told("spin:cpu1", Answer::Kept, Some((9.0, 12.0))),
            told("io", Answer::Broken, Some((34.0, 40.0))),
            told("mem_read:cpu1", Answer::Undecided, Some((31.2, 35.0))),
            told("chase:cpu1", Answer::Undecided, None),
            told("mem_copy:cpu1", Answer::Invalid, Some((9.0, 11.0))),
            told("mem_write:cpu1", Answer::Unmeasured, None),
        ]);
        assert_eq!(
            of_asked(&all),
            "p99 ≤ 33 ms with its whole 95 % interval: kept by idle, spin:cpu1; broken by io; \
             not decided for mem_read:cpu1 (31.2 to 35 ms), chase:cpu1 (no interval); \
             not told by mem_copy:cpu1: invalid; not measured: mem_write:cpu1"
        );
        let none = asked(vec![told("idle", Answer::Broken, Some((34.0, 40.0)))]);
        let none = of_asked(&none);
        assert!(
            none.ends_with("shown to be kept by none; broken by idle"),
            "{none}"
        );
    }

    #[test]
    fn a_limit_that_nothing_can_tell_of_says_so() {
        let mut found = Found {
            run: "r".into(),
            incomplete: None,
            slo: None,
            experiments: Vec::new(),
            gaps: Vec::new(),
        };
        assert_eq!(of_limit(&found), None);
        found.slo = Some(Limit {
            metric: METRICS[2].into(),
            ns: 33e6,
        });
        let said = of_limit(&found).unwrap();
        assert!(
            said.starts_with("asked: p99 ≤ 33 ms; not told: an idle case"),
            "{said}"
        );
    }

    #[test]
    fn what_is_not_complete_says_so_first() {
        let mut found = Found {
            run: "r".into(),
            incomplete: Some(Incomplete {
                status: RunStatus::Interrupted,
                repeats_planned: Some(43),
                repeats_complete: 17,
                repeats_failed: 2,
            }),
            slo: None,
            experiments: Vec::new(),
            gaps: Vec::new(),
        };
        let first = |found: &Found| text(found, &[]).lines().next().map(str::to_owned);
        let said = "not complete (interrupted): 17 of 43 planned repeats measured, 2 failed";
        assert_eq!(first(&found).as_deref(), Some(said));
        found.incomplete = Some(Incomplete {
            status: RunStatus::Running,
            repeats_planned: None,
            repeats_complete: 1,
            repeats_failed: 0,
        });
        let said = "not complete (running): 1 repeat measured; its plan does not say of how many";
        assert_eq!(first(&found).as_deref(), Some(said));
    }

    #[test]
    fn a_ratio_comes_with_half_the_width_of_its_interval() {
        let ratio = Ratio {
            ratio: 1.1,
            ci95: Some((1.0, 1.21)),
            rounds: 5,
            enough: true,
        };
        assert_eq!(of_ratio(Some(&ratio)), "1.1 ±10 %");
        let few = Ratio {
            enough: false,
            ..ratio
        };
        assert_eq!(of_ratio(Some(&few)), "1.1* ±10 %");
        assert_eq!(super::few([ratio].iter()), "");
        assert!(super::few([ratio, few].iter()).starts_with("* not enough"));
        assert_eq!(of_ratio(None), UNKNOWN);
    }

    #[test]
    fn a_board_is_called_the_same_only_where_the_interval_says_so() {
        let of = |board, ci95| {
            of_recovery(&Recovery {
                ratio: Some(1.01),
                ci95,
                repeats: 3,
                valid_repeats: 3,
                board,
                marks: Vec::new(),
            })
        };
        let same = of(Board::Same, Some((0.995, 1.025)));
        assert_eq!(
            same,
            "p50 × 1.01 of before (3 repeats): the board is what it was"
        );
        let wide = of(Board::Undecided, Some((0.5, 2.0)));
        assert!(wide.contains("× 0.5 or × 2 is not ruled out"), "{wide}");
        assert!(of(Board::Undecided, None).contains("too few valid repeats"));
        assert!(of(Board::Other, Some((1.005, 1.015))).contains("NOT"));
        let none = of_recovery(&Recovery {
            ratio: None,
            ci95: None,
            repeats: 3,
            valid_repeats: 1,
            board: Board::Undecided,
            marks: Vec::new(),
        });
        assert!(none.contains("(3 repeats, 1 of them valid)"), "{none}");
    }

    fn mark(repeat: Option<u32>, code: &'static str, invalid: bool) -> OfRepeat {
        let mark = Mark {
            code,
            text: format!("why {code}"),
            invalid,
        };
        OfRepeat { repeat, mark }
    }

    #[test]
    fn what_is_said_of_every_repeat_is_said_once_and_the_rest_where_it_is() {
        let unknown = |repeat| mark(Some(repeat), "clock_unknown", false);
        let idle = [unknown(0), unknown(1), mark(Some(1), "throttled", true)];
        let read = [
            unknown(0),
            unknown(1),
            mark(Some(0), "load_starved", true),
            mark(Some(0), "load_starved", true),
            mark(None, "baseline_invalid", true),
        ];
        let said = marks(&[("idle", 2, &idle), ("mem_read:cpu1", 2, &read)]);
        let expected = [
            "everywhere: clock_unknown (note): why clock_unknown",
            "idle: throttled in 1 of 2 repeats (does not count): why throttled",
            "mem_read:cpu1: baseline_invalid (does not count): why baseline_invalid",
            "mem_read:cpu1: load_starved in 1 of 2 repeats (does not count): why load_starved",
        ];
        assert_eq!(said.lines().collect::<Vec<_>>(), expected);
        // One that lacks it has its own line for each of the others.
        let said = marks(&[("idle", 2, &idle), ("spin:cpu1", 2, &[])]);
        assert!(
            said.starts_with("idle: clock_unknown in 2 of 2 repeats (note)"),
            "{said}"
        );
    }

    #[test]
    fn an_answer_of_few_trials_says_so() {
        let few = |told: Told| Told {
            too_few_trials: Some("not enough trials for p99: 30 of 662".into()),
            ..told
        };
        let all = asked(vec![
            few(told("idle", Answer::Undecided, Some((9.0, 11.0)))),
            few(told("io", Answer::Broken, Some((34.0, 40.0)))),
        ]);
        assert_eq!(
            of_asked(&all),
            "p99 ≤ 33 ms with its whole 95 % interval: shown to be kept by none; \
             broken by io (not enough trials for p99: 30 of 662); \
             not decided for idle (9 to 11 ms; not enough trials for p99: 30 of 662)"
        );
    }

    #[test]
    fn the_slowest_is_named_with_what_it_is_not_told_from() {
        let points = [point("mem_copy:cpu1", 8.0, 1.5, 0.1, true)];
        let slowest = Slowest {
            condition: "mem_copy:cpu1".into(),
            of: 12,
            not_separable: vec!["mem_read:cpu1".into()],
        };
        let said = of_slowest(&slowest, &points);
        assert!(said.contains("not told from mem_read:cpu1"), "{said}");
        assert!(said.contains("largest of 12 figures"), "{said}");
    }
}
