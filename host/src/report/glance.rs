//! The first screen: what was measured, on what, warm and cold, how sure, what limits it, which condition is
//! worst, each answered in a line with a link to where it comes from.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::compared::Compared;
use super::gather::{Chapter, Part};
use super::loads::Load;
use super::sections;
use crate::contention::limit::Limit;
use crate::contention::report::METRICS;
use crate::figure::escape;
use crate::findings::Level;
use crate::stats::interval::IntervalKind;
use crate::summary::best::{Metric, Sureness};
use crate::summary::{BoardMeanwhile, CaseSummary};
use crate::ui::stress;
use crate::ui::units;

/// A share of the window that is worth a word.
const WORTH: f64 = 0.01;
/// A CPU that works for this share of the window has nothing to wait for.
const FULL: f64 = 0.95;
/// An interval that reaches further than this to either side is told by its ends.
const NARROW: f64 = 0.1;
/// A clock below this share of its limit is not at its limit.
const FULL_CLOCK: f64 = 0.98;

/// What concerns all runs together, then one list of answers a run.
pub(super) fn section(chapters: &[Chapter], compared: Option<&Compared>) -> String {
    let mut out = String::new();
    let together = together(chapters, compared);
    if !together.is_empty() {
        out.push_str(&list(&together));
    }
    for chapter in chapters {
        // Writing to a string cannot fail.
        if chapters.len() > 1 {
            let _ = writeln!(out, "<h3>Run {}</h3>", escape(&chapter.name));
        }
        if chapter.parts.iter().any(|part| part.summary.simulated) {
            out.push_str(
                "<p class=\"alert\"><strong>Some figures are simulated and measure no model.</strong></p>\n",
            );
        }
        out.push_str(&list(&answers(chapter)));
    }
    out
}

fn list(answers: &[(&'static str, String)]) -> String {
    let one =
        |(question, answer): &(&str, String)| format!("<dt>{question}</dt><dd>{answer}</dd>\n");
    let all: String = answers.iter().map(one).collect();
    format!("<dl class=\"glance\">\n{all}</dl>\n")
}

/// The comparison, and what differs between runs and boards.
fn together(chapters: &[Chapter], compared: Option<&Compared>) -> Vec<(&'static str, String)> {
    let mut out = Vec::new();
    out.extend(compared.map(|compared| {
        let headline = escape(&compared.headline);
        ("Compared", format!("<a href=\"#compared\">{headline}</a>"))
    }));
    out.extend(sections::differences(chapters).map(|names| {
        let words = match names.as_slice() {
            [] => "nothing that was read of boards and settings".to_owned(),
            names => format!("<b>{}</b>", escape(&names.join(", "))),
        };
        ("Different", format!("<a href=\"#environment\">{words}</a>"))
    }));
    out
}

/// Questions and answers; an answer is HTML.
fn answers(chapter: &Chapter) -> Vec<(&'static str, String)> {
    let mut out = vec![
        ("What was measured", measured(chapter)),
        ("On what", escape(&board(chapter))),
        ("Warm", warm(chapter)),
        ("Cold", escape(&cold(chapter))),
        ("How sure", sure(chapter)),
        ("What limits it", limits(chapter)),
    ];
    out.extend(best(chapter).map(|best| ("Best case", best)));
    out.extend(worst(chapter).map(|worst| ("Worst condition", worst)));
    out.extend(limit(chapter).map(|limit| ("Limit asked for", limit)));
    out
}

/// Values of all cases, each once.
fn each(chapter: &Chapter, of: impl Fn(&Part) -> Option<String>) -> String {
    let all: BTreeSet<String> = chapter.parts.iter().filter_map(of).collect();
    all.into_iter().collect::<Vec<_>>().join(", ")
}

fn measured(chapter: &Chapter) -> String {
    let models = each(chapter, |part| Some(part.summary.case.model.name.clone()));
    let inputs = each(chapter, |part| {
        let model = part.summary.model.as_ref()?;
        let inputs = model.inputs.iter().map(|input| {
            let dims = input.effective.as_deref().map(crate::plan::axes::dims);
            format!(
                "{} {}",
                dims.unwrap_or_else(|| units::UNKNOWN.into()),
                input.dtype
            )
        });
        let inputs: Vec<String> = inputs.collect();
        (!inputs.is_empty()).then(|| inputs.join(" and "))
    });
    let inputs = if inputs.is_empty() {
        inputs
    } else {
        format!(", input {inputs}")
    };
    let axes: BTreeSet<&str> = chapter
        .parts
        .iter()
        .flat_map(|part| part.axes.keys().map(String::as_str))
        .collect();
    let cases = match chapter.parts.len() {
        1 => "one <a href=\"#cases\">case</a>".to_owned(),
        n => format!(
            "{} <a href=\"#cases\">cases</a> over {}",
            units::count(n as u64),
            escape(&axes.into_iter().collect::<Vec<_>>().join(", "))
        ),
    };
    let tags = match chapter.run.tags.as_slice() {
        [] => String::new(),
        tags => format!(" ({})", tags.join(", ")),
    };
    format!(
        "<b>{}</b>{}: {cases}; run <code>{}</code>{}, {}",
        escape(&models),
        escape(&inputs),
        escape(&chapter.run.id.0),
        escape(&tags),
        chapter.run.status.name()
    )
}

fn board(chapter: &Chapter) -> String {
    let boards = each(chapter, |part| {
        let environment = &part.summary.environment;
        let mut words = vec![format!("board {}", environment.board)];
        words.extend(environment.facts_of("board_model"));
        words.extend(environment.facts_of("cpu_model"));
        words.extend(environment.cpus.map(|cpus| format!("{cpus} CPUs")));
        let memory = environment.memory_bytes;
        words.extend(memory.map(|bytes| units::bytes(bytes as f64)));
        words.extend(environment.os.clone());
        Some(words.join(", "))
    });
    let runtimes = each(chapter, |part| {
        Some(match &part.summary.runtime {
            Some(runtime) => format!("{} {}", part.summary.case.backend, runtime.version),
            None => part.summary.case.backend.clone(),
        })
    });
    let threads = each(chapter, |part| {
        let placement = &part.summary.placement;
        let busy = placement.threads_busy?;
        Some(match placement.threads_requested {
            Some(asked) if asked != busy => format!("{busy} busy threads of {asked} asked for"),
            _ if busy == 1 => "1 busy thread".into(),
            _ => format!("{busy} busy threads"),
        })
    });
    let parts = [boards, runtimes, threads];
    let known: Vec<&str> = parts
        .iter()
        .map(String::as_str)
        .filter(|p| !p.is_empty())
        .collect();
    known.join("; ")
}

/// Cases whose figures may be used; all of them where none may.
fn usable(chapter: &Chapter) -> Vec<&Part> {
    let is_usable = |part: &&Part| !is_invalid(&part.summary);
    let usable: Vec<&Part> = chapter.parts.iter().filter(is_usable).collect();
    match usable.is_empty() {
        true => chapter.parts.iter().collect(),
        false => usable,
    }
}

fn is_invalid(summary: &CaseSummary) -> bool {
    let mut findings = summary.findings.iter();
    findings.any(|finding| finding.level == Level::Invalid)
}

/// Least and most of a figure with the cases that have them; one figure where there is one case.
fn range(
    chapter: &Chapter,
    figure: impl Fn(&CaseSummary) -> Option<f64>,
    show: impl Fn(f64) -> String,
) -> Option<String> {
    let known = usable(chapter).into_iter();
    let known = known.filter_map(|part| Some((figure(&part.summary)?, part.label.as_str())));
    let mut known: Vec<(f64, &str)> = known.collect();
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    match known.as_slice() {
        [] => None,
        [(only, _)] => Some(show(*only)),
        [(low, least), .., (high, most)] => Some(format!(
            "{} ({least}) to {} ({most})",
            show(*low),
            show(*high)
        )),
    }
}

fn time(ns: f64) -> String {
    units::nanoseconds(ns)
}

fn p50(summary: &CaseSummary) -> Option<f64> {
    Some(summary.latency.as_ref()?.distribution.p50.value)
}

fn warm(chapter: &Chapter) -> String {
    let Some(middle) = range(chapter, p50, time) else {
        return "no trial was measured; <a href=\"#findings\">findings</a> say why".into();
    };
    let p99 = range(
        chapter,
        |s| Some(s.latency.as_ref()?.distribution.p99.value),
        time,
    );
    let rate = range(chapter, |s| s.latency.as_ref()?.rate_hz, units::hertz);
    let enough = usable(chapter).iter().all(|part| {
        let latency = part.summary.latency.as_ref();
        latency.is_none_or(|latency| latency.distribution.p99.enough)
    });
    let mark = if enough {
        ""
    } else {
        " (too few trials for a sure p99)"
    };
    let left_out = match chapter.parts.len() - usable(chapter).len() {
        0 => "",
        _ => "; cases that must not be used are left out",
    };
    let more = |name: &str, text: Option<String>| {
        text.map_or_else(String::new, |text| format!("; {name} {}", escape(&text)))
    };
    format!(
        "a run takes <b>{}</b> (p50){}{mark}{}{left_out}",
        escape(&middle),
        more("p99", p99),
        more("rate", rate)
    )
}

fn cold(chapter: &Chapter) -> String {
    let first = range(chapter, |s| s.cold.first_ns, time);
    let total = range(chapter, |s| s.cold.total_ns, time);
    let times = |ns: fn(&CaseSummary) -> Option<f64>| {
        let show = |ratio: f64| format!("{} times", units::figure(ratio));
        let ratio = move |s: &CaseSummary| Some(ns(s)? / p50(s)?);
        let known = usable(chapter).into_iter();
        let known = known.filter_map(|part| ratio(&part.summary));
        let (low, high) = known.fold((f64::MAX, f64::MIN), |(low, high), ratio| {
            (low.min(ratio), high.max(ratio))
        });
        match low <= high {
            true if units::figure(low) == units::figure(high) => {
                format!(", {} its warm p50", show(low))
            }
            true => format!(", {} to {} their warm p50", units::figure(low), show(high)),
            false => String::new(),
        }
    };
    let mut parts = Vec::new();
    parts.extend(first.map(|text| format!("first run {text}{}", times(|s| s.cold.first_ns))));
    parts.extend(total.map(|text| {
        format!(
            "from process start to first result {text}{}",
            times(|s| s.cold.total_ns)
        )
    }));
    match parts.is_empty() {
        true => "not recorded".into(),
        false => parts.join("; "),
    }
}

fn sure(chapter: &Chapter) -> String {
    let summaries = || chapter.parts.iter().map(|part| &part.summary);
    let repeats: u32 = summaries().map(|s| s.counts.repeats_complete).sum();
    let trials: u64 = summaries().map(|s| s.counts.trials).sum();
    let mut out = format!(
        "{} trials in {} fresh processes",
        units::count(trials),
        units::count(u64::from(repeats))
    );
    let estimates = usable(chapter).into_iter();
    let estimates = estimates.filter_map(|part| part.summary.latency.as_ref()?.p50_interval);
    let (over, within): (Vec<_>, Vec<_>) =
        estimates.partition(|estimate| estimate.kind == IntervalKind::OverRepeats);
    let half =
        |estimate: &crate::stats::interval::Estimate| (estimate.high / estimate.low).sqrt() - 1.0;
    let widest = over.iter().filter(|estimate| half(estimate).is_finite());
    if let Some(widest) = widest.max_by(|a, b| half(a).total_cmp(&half(b))) {
        let several = over.len() > 1;
        let share = (half(widest) * 1e3).round() / 1e3;
        let _ = match share <= NARROW {
            true => write!(
                out,
                "; the 95 % interval of p50 is ±{}{}",
                units::percent(share),
                if several {
                    ", at most, for each case"
                } else {
                    ""
                }
            ),
            false => write!(
                out,
                "; <b>the 95 % interval of p50 reaches from {} to {}</b>{}",
                time(widest.low),
                time(widest.high),
                if several {
                    " for the least sure case"
                } else {
                    ""
                }
            ),
        };
    }
    if !within.is_empty() {
        let _ = write!(
            out,
            "; <b>{} with one process only</b>: another process may well differ",
            if over.is_empty() {
                "measured".to_owned()
            } else {
                format!("{} cases", within.len())
            }
        );
    }
    let unmeasured = summaries().filter(|s| s.latency.is_none()).count();
    if unmeasured > 0 {
        let _ = write!(out, "; <b>{unmeasured} cases have no figure</b>");
    }
    let warnings = summaries().flat_map(|s| &s.findings);
    let warnings = warnings.filter(|finding| finding.level == Level::Warning);
    let warnings: Vec<&str> = warnings.map(|finding| finding.code).collect();
    let of_kinds = match warnings.iter().collect::<BTreeSet<_>>().len() {
        0 | 1 => String::new(),
        kinds => format!(" of {kinds} kinds"),
    };
    let invalid = summaries().filter(|s| is_invalid(s)).count();
    let _ = match (invalid, warnings.len()) {
        (0, 0) => write!(out, "; no finding speaks against it"),
        (0, warnings) => write!(
            out,
            "; <a href=\"#findings\">{warnings} warnings{of_kinds}</a>, none of which makes a figure invalid"
        ),
        (invalid, _) => write!(
            out,
            "; <a href=\"#findings\"><b>{invalid} of {} cases must not be used</b></a>",
            chapter.parts.len()
        ),
    };
    out
}

/// What telemetry, loads and findings say of it; what nobody watched is named.
fn limits(chapter: &Chapter) -> String {
    let mut out: Vec<String> = Vec::new();
    let simulated = chapter.parts.iter().all(|part| part.summary.simulated);
    if simulated {
        return "nothing real: the figures are simulated".into();
    }
    let boards = || chapter.parts.iter().map(|part| &part.summary.board);
    let span = |of: fn(&BoardMeanwhile) -> Option<f64>| -> Option<(f64, f64)> {
        let known = boards().filter_map(of);
        known.fold(None, |so_far: Option<(f64, f64)>, value| {
            let (low, high) = so_far.unwrap_or((value, value));
            Some((low.min(value), high.max(value)))
        })
    };
    let shown = |(low, high): (f64, f64)| match units::percent(low) == units::percent(high) {
        true => units::percent(low),
        false => format!("{} to {}", units::percent(low), units::percent(high)),
    };
    let busy = |part: &Part| {
        let cpus = f64::from(part.summary.placement.threads_busy?.max(1));
        Some(part.summary.board.cpu_share? / cpus)
    };
    let busy = chapter.parts.iter().filter_map(busy).reduce(f64::min);
    match busy {
        Some(least) if least >= FULL => out.push(format!(
            "its own computing: its threads used at least {} of a CPU each",
            units::percent(least.min(1.0))
        )),
        Some(least) => out.push(format!(
            "not computing alone: its threads were on a CPU for {} of the window in the least busy case",
            units::percent(least)
        )),
        None => {}
    }
    let waits = [
        (
            span(|b| b.run_delay_share),
            "its threads together waited for a CPU for",
        ),
        (span(|b| b.foreign_share), "others used its CPUs for"),
        (span(|b| b.steal_share), "the hypervisor took its CPUs for"),
    ];
    for (share, words) in waits {
        if let Some(share) = share.filter(|(_, high)| *high >= WORTH) {
            out.push(format!("{words} {} of the window", shown(share)));
        }
    }
    let clock = span(|b| Some(b.clock_hz?.mean / b.clock_limit_hz?));
    if let Some(share) = clock.filter(|(low, _)| *low < FULL_CLOCK) {
        out.push(format!(
            "its CPU clock was at {} of its limit",
            shown(share)
        ));
    }
    let codes = ["throttled", "swapping", "memory_near_full"];
    let found = chapter.parts.iter().flat_map(|part| &part.summary.findings);
    let found = found.filter(|finding| codes.contains(&finding.code));
    out.extend(found.map(|finding| finding.text.clone()).take(1));
    let mut out: Vec<String> = out.iter().map(|line| escape(line)).collect();
    out.extend(memory_sensitivity(chapter));
    let unknown = [
        ("CPU clock", span(|b| Some(b.clock_hz?.mean)).is_none()),
        ("temperature", boards().all(|b| b.hottest.is_none())),
        ("memory traffic", span(|b| b.ddr.bytes_per_second).is_none()),
        ("power", boards().all(|b| b.power.is_none())),
    ];
    let unknown: Vec<&str> = unknown
        .iter()
        .filter(|(_, is)| *is)
        .map(|(name, _)| *name)
        .collect();
    if out.is_empty() {
        out.push("not known: nothing that was watched tells".into());
    }
    if !unknown.is_empty() {
        out.push(format!(
            "<span class=\"quiet\">not recorded: {}</span>",
            unknown.join(", ")
        ));
    }
    out.join("; ")
}

/// What loads on the memory did, where some were tried.
fn memory_sensitivity(chapter: &Chapter) -> Option<String> {
    let points = chapter
        .loads
        .iter()
        .flat_map(|load| &load.experiment.points);
    let moving =
        points.filter(|point| point.valid && point.achieved_bps.is_some_and(|bps| bps > 0.0));
    let over = moving.filter_map(|point| {
        let over_spin = point.over_spin.get(METRICS[0]);
        let ratio = over_spin.or(point.slowdown.get(METRICS[0]))?;
        Some((point, ratio, over_spin.is_some()))
    });
    let (point, ratio, is_over_spin) = over.max_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio))?;
    let gbps = units::figure(point.achieved_bps? / 1e9);
    let against = match is_over_spin {
        true => "beyond what busy CPUs do",
        false => "against the idle board",
    };
    let measured = match ratio.ci95 {
        Some((low, high)) => format!("p50 × {:.3}, {low:.3} … {high:.3}", ratio.ratio),
        None => format!("p50 × {:.3}", ratio.ratio),
    };
    let slows = match ratio.ci95.is_some_and(|(low, _)| low > 1.0) {
        true => "slows",
        false => "was not shown to slow",
    };
    let words =
        format!("memory traffic of others {slows} it {against}: {measured} beside {gbps} GB/s");
    Some(format!("<a href=\"#loads\">{}</a>", escape(&words)))
}

fn best(chapter: &Chapter) -> Option<String> {
    let best = chapter
        .best
        .iter()
        .find(|best| best.metric == Metric::P50)?;
    let part = chapter
        .parts
        .iter()
        .find(|part| part.summary.key == best.case)?;
    let sureness = match &best.sureness {
        Sureness::Alone => "the only one with a figure".to_owned(),
        Sureness::Sure => "surely better than all others".into(),
        Sureness::Unknown => "too few repeats to tell whether it is".into(),
        Sureness::FewTrials => "too few independent trials to tell whether it is".into(),
        Sureness::Undecided(others) => format!("not told apart from {} others", others.len()),
    };
    Some(format!(
        "<b>{}</b> by p50, {}; <a href=\"#cases\">{}</a>",
        escape(&part.label),
        units::nanoseconds(best.value),
        escape(&sureness)
    ))
}

/// Which experiment a line is about, where there are several.
fn whose(load: &Load) -> String {
    match load.label.as_str() {
        "" => String::new(),
        label => format!("{}: ", escape(label)),
    }
}

/// What conditions say of the limit that the run was started with.
fn limit(chapter: &Chapter) -> Option<String> {
    let lines = chapter.loads.iter().filter_map(|load| {
        let asked = load.experiment.slo.as_ref()?;
        let told = escape(&stress::of_asked(asked));
        Some(format!("{}<a href=\"#loads\">{told}</a>", whose(load)))
    });
    let lines: Vec<String> = lines.collect();
    match lines.is_empty() {
        true => Limit::from_json(&chapter.run.plan["slo"]).map(|it| escape(&stress::untold(&it))),
        false => Some(lines.join("<br>")),
    }
}

/// The load that slows it most, of each experiment.
fn worst(chapter: &Chapter) -> Option<String> {
    let lines = chapter.loads.iter().map(|load| {
        let experiment = &load.experiment;
        let whose = whose(load);
        let Some(worst) = &experiment.worst else {
            return format!("{whose}not known: <a href=\"#loads\">no load is valid</a>");
        };
        let point = experiment
            .points
            .iter()
            .find(|point| point.condition == *worst);
        let ratio = point.and_then(|point| point.slowdown.get(METRICS[0]));
        let is_shown = ratio.and_then(|r| r.ci95).is_some_and(|(low, _)| low > 1.0);
        let shown = if is_shown {
            ""
        } else {
            ", not shown to differ from idle"
        };
        let near = experiment.slowest.as_ref();
        let near = near.map_or(0, |slowest| slowest.not_separable.len());
        let near = match near {
            0 => String::new(),
            n => format!(", not told from {}", units::things(n as u64, "other")),
        };
        let left_out = experiment
            .points
            .iter()
            .filter(|point| !point.valid)
            .count();
        let left_out = match left_out {
            0 => String::new(),
            n => format!(
                "; {n} of {} conditions are invalid and left out",
                experiment.points.len()
            ),
        };
        format!(
            "{whose}<b>{}</b>, p50 <a href=\"#loads\">× {} of idle</a>{shown}{near}{left_out}",
            escape(worst),
            escape(&stress::of_ratio(ratio))
        )
    });
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| lines.join("<br>"))
}
