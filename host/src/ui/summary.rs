//! The summary of a case as text: sections from the first look to the fine print, 100 columns wide.

use edgedyno_shared::order::Pass;

use super::findings;
use super::table::{Table, WIDTH};
use super::units::{self, UNKNOWN};
use super::wrap::wrapped;
use crate::plan::axes::cpu_list;
use crate::stats::bound::MISS;
use crate::stats::interval::IntervalKind;
use crate::stats::summary::Quantile;
use crate::store::rows::MomentRow;
use crate::summary::{CaseSummary, DdrTraffic, Failed, Latency, Power};

/// Follows a percentile that has too few trials.
const MARK: &str = "*";

/// Follows a bound that lies below its percentile.
pub(crate) const DIFFER: &str = "†";

/// What that says; docs/statistics.md says it at length.
pub(crate) const REPEATS_DIFFER: &str = "bound below its percentile: repeats differ, and their mean is above what \
     all trials together show (see \"When repeats differ\" in docs/statistics.md)";

/// What a reader asks of a summary beside the usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wish {
    /// Withhold percentiles that have too few trials.
    pub strict: bool,
    /// Tell every finding, none folded away.
    pub every_finding: bool,
}

/// The whole summary.
pub fn text(summary: &CaseSummary, wish: Wish) -> String {
    let sections = [
        Some(head(summary)),
        cold(summary),
        Some(warm(summary, wish.strict)),
        repeats(summary),
        Some(settings(summary)),
        memory(summary),
        board(summary),
        tenants(summary),
        summary.soak.as_ref().map(super::soak::section),
        outputs(summary),
        Some(environment(summary)),
        failures(summary),
        findings::of_case(summary, wish.every_finding),
        Some(format!("cite: {}", summary.cite)),
    ];
    let sections: Vec<String> = sections.into_iter().flatten().collect();
    sections.join("\n\n")
}

fn head(summary: &CaseSummary) -> String {
    let case = &summary.case;
    let runtime = match &summary.runtime {
        Some(runtime) => format!("{} {}", case.backend, runtime.version),
        None => case.backend.clone(),
    };
    let batch = case.batch.map(|batch| format!(", batch {batch}"));
    let threads = match case.threads.intra {
        1 => "1 thread".to_owned(),
        n => format!("{n} threads"),
    };
    let simulated = match summary.simulated {
        true => "\nSIMULATED: these figures are made up and measure no model",
        false => "",
    };
    format!(
        "{} on {}: {runtime}, {threads}{}{simulated}\nrun {}, case {}",
        case.model.name,
        case.board,
        batch.unwrap_or_default(),
        summary.run.id,
        &summary.key.to_string()[..8],
    )
}

/// Other models that ran meanwhile.
fn tenants(summary: &CaseSummary) -> Option<String> {
    if summary.tenants.is_empty() {
        return None;
    }
    let mut table = Table::new()
        .text("beside it")
        .text("cpus")
        .figure("asked Hz")
        .figure("rate Hz")
        .figure("n")
        .figure("p50")
        .figure("p95")
        .figure("p99");
    let ns = |ms: Option<f64>| units::nanoseconds(ms.map(|ms| ms * 1e6));
    for seen in &summary.tenants {
        let asked = seen.tenant.millihertz.map(|rate| rate as f64 / 1e3);
        table.row([
            seen.tenant.model.name.clone(),
            cpu_list(&seen.tenant.cpus),
            asked.map_or_else(|| "all it can".to_owned(), units::figure),
            units::figure(seen.rate_hz),
            units::count(seen.trials_count),
            ns(seen.latency_p50_ms),
            ns(seen.latency_p95_ms),
            ns(seen.latency_p99_ms),
        ]);
    }
    let failures = summary.tenants.iter();
    let failures = failures.filter_map(|seen| {
        let why = seen.failure.as_ref()?;
        Some(format!("\n{} failed: {why}", seen.tenant.model.name))
    });
    Some(table.render() + &failures.collect::<String>())
}

/// Stages of a fresh process up to its second run.
fn cold(summary: &CaseSummary) -> Option<String> {
    let cold = &summary.cold;
    let stages = [
        ("spawn", cold.spawn_ns),
        ("read", cold.read_ns),
        ("dlopen", cold.dlopen_ns),
        ("load", cold.load_ns),
        ("compile", cold.compile_ns),
        ("bind", cold.bind_ns),
        ("first run", cold.first_ns),
        ("second run", cold.second_ns),
        ("to first result", cold.total_ns),
    ];
    let known: Vec<_> = stages.into_iter().filter(|(_, ns)| ns.is_some()).collect();
    let titles = known.iter().map(|(title, _)| *title);
    let figures = known.iter().map(|(_, ns)| units::nanoseconds(*ns));
    (!known.is_empty()).then(|| wide("cold", titles, figures))
}

/// A table of one row under a title of its own; what does not fit beside it goes below.
fn wide<'a>(
    name: &str,
    titles: impl Iterator<Item = &'a str>,
    figures: impl Iterator<Item = String>,
) -> String {
    /// Blanks between two columns.
    const GAP: usize = 3;
    let cells: Vec<(&str, String)> = titles.zip(figures).collect();
    let width =
        |(title, figure): &(&str, String)| title.chars().count().max(figure.chars().count()) + GAP;
    let mut tables = Vec::new();
    let mut rest = cells.as_slice();
    while !rest.is_empty() {
        let mut left = usize::from(WIDTH).saturating_sub(name.chars().count());
        let fits = rest.iter().take_while(|cell| {
            let fits = left >= width(cell);
            left = left.saturating_sub(width(cell));
            fits
        });
        let (row, more) = rest.split_at(fits.count().max(1));
        rest = more;
        let title = if tables.is_empty() {
            name.to_owned()
        } else {
            " ".repeat(name.len())
        };
        let mut table = row
            .iter()
            .fold(Table::new().text(&title), |table, (title, _)| {
                table.figure(title)
            });
        table.row(std::iter::once("").chain(row.iter().map(|(_, figure)| figure.as_str())));
        tables.push(table.render());
    }
    tables.join("\n")
}

fn warm(summary: &CaseSummary, strict: bool) -> String {
    let Some(latency) = &summary.latency else {
        return unmeasured(summary);
    };
    let distribution = &latency.distribution;
    let quantile = |q: &Quantile| quantile_text(q, strict);
    let quantiles = [
        ("p50", quantile(&distribution.p50)),
        ("p90", quantile(&distribution.p90)),
        ("p95", quantile(&distribution.p95)),
        ("p99", quantile(&distribution.p99)),
        ("mean", units::nanoseconds(distribution.mean)),
        ("std", units::nanoseconds(distribution.std)),
        ("min", units::nanoseconds(distribution.min as f64)),
        ("max", units::nanoseconds(distribution.max as f64)),
    ];
    let titles = quantiles.iter().map(|(title, _)| *title);
    let figures = quantiles.iter().map(|(_, figure)| figure.clone());
    let mut lines = vec![wide("warm", titles, figures)];
    lines.push(format!(
        "n {}   rate {}{}",
        latency.count_text(),
        units::hertz(latency.rate_hz),
        interval(latency),
    ));
    let shown = [
        distribution.p50,
        distribution.p90,
        distribution.p95,
        distribution.p99,
    ];
    lines.extend(bounds(&shown));
    if shown.iter().any(Quantile::repeats_differ) {
        let why = format!("{DIFFER} {REPEATS_DIFFER}");
        lines.push(wrapped(&why, usize::from(WIDTH), 2));
    }
    lines.push(warmup(summary));
    if shown.iter().any(|q| !q.enough) {
        let what = if strict { "withheld" } else { "too few" };
        lines.push(format!(
            "{MARK} {what}: not enough independent trials for this percentile"
        ));
    }
    lines.join("\n")
}

/// What the true percentiles stay below, for those that have trials enough to say so.
fn bounds(shown: &[Quantile; 4]) -> Option<String> {
    let names = ["p50", "p90", "p95", "p99"].iter().zip(shown);
    let known =
        names.filter_map(|(name, quantile)| Some(format!("{name} {}", bound_text(quantile)?)));
    let known: Vec<String> = known.collect();
    let sure = units::percent(1.0 - MISS);
    (!known.is_empty()).then(|| format!("bounds at {sure}: {}", known.join(", ")))
}

/// A bound as shown everywhere; none where there are too few trials for it.
pub(crate) fn bound_text(quantile: &Quantile) -> Option<String> {
    let bound = units::nanoseconds(quantile.bound?);
    let mark = if quantile.repeats_differ() {
        DIFFER
    } else {
        ""
    };
    Some(format!("{bound}{mark}"))
}

/// Trials of attempts that did not complete are rows, and in no statistic.
fn unmeasured(summary: &CaseSummary) -> String {
    let trials: u64 = summary.repeats.iter().map(|repeat| repeat.trials).sum();
    match trials {
        0 => "warm: no trial was measured".into(),
        n => format!(
            "warm: no repeat was completed; {} trials of unfinished ones are in `records` and in no figure",
            units::count(n)
        ),
    }
}

fn quantile_text(quantile: &Quantile, strict: bool) -> String {
    match (quantile.enough, strict) {
        (true, _) => units::nanoseconds(quantile.value),
        (false, true) => format!("{UNKNOWN}{MARK}"),
        (false, false) => format!("{}{MARK}", units::nanoseconds(quantile.value)),
    }
}

fn interval(latency: &Latency) -> String {
    let Some(estimate) = &latency.p50_interval else {
        return String::new();
    };
    let of = match estimate.kind {
        IntervalKind::OverRepeats => "over repeats",
        IntervalKind::WithinRun => "within this one process",
    };
    format!(
        "   p50 {} to {} at {} {of}",
        units::nanoseconds(estimate.low),
        units::nanoseconds(estimate.high),
        units::percent(estimate.level),
    )
}

fn warmup(summary: &CaseSummary) -> String {
    let warmup = &summary.warmup;
    let steady = match warmup.steady {
        Some(true) => ", then steady",
        Some(false) => ", not steady at its end",
        None => "",
    };
    if warmup.trials == Some(0.0) {
        return "no warm-up".into();
    }
    format!(
        "warm-up {} trials in {}{steady}",
        units::figure(warmup.trials),
        units::nanoseconds(warmup.time_ns),
    )
}

/// Each attempt, when there is more than one.
fn repeats(summary: &CaseSummary) -> Option<String> {
    if summary.repeats.len() < 2 {
        return None;
    }
    let mut table = Table::new()
        .text("repeat")
        .text("outcome")
        .figure("n")
        .figure("p50")
        .figure("p99")
        .figure("mean")
        .figure("rate")
        .figure("window");
    for figures in &summary.repeats {
        let attempt = match figures.attempt {
            0 => String::new(),
            n => format!(", attempt {n}"),
        };
        let pass = match figures.pass {
            Pass::Honest => "",
            Pass::Attributed => ", attributed",
        };
        table.row([
            format!("{}{attempt}{pass}", figures.repeat),
            figures.outcome.to_string(),
            units::count(figures.trials),
            units::nanoseconds(figures.p50_ns),
            units::nanoseconds(figures.p99_ns),
            units::nanoseconds(figures.mean_ns),
            units::hertz(figures.rate_hz),
            units::nanoseconds(figures.window_ns.map(|ns| ns as f64)),
        ]);
    }
    Some(table.render())
}

/// What was asked for beside what was read back.
fn settings(summary: &CaseSummary) -> String {
    let mut table = Table::new()
        .text("setting")
        .text("requested")
        .text("observed");
    let placement = &summary.placement;
    let known = |text: Option<String>| text.unwrap_or_else(|| UNKNOWN.to_owned());
    let cpus = |cpus: &Option<Vec<u16>>| cpus.as_deref().map(cpu_list);
    let threads = placement.threads_requested.map(|n| n.to_string());
    table.row([
        "busy threads".to_owned(),
        threads.unwrap_or_else(|| "runtime's choice".into()),
        known(placement.threads_busy.map(|n| n.to_string())),
    ]);
    table.row([
        "cpus".to_owned(),
        cpus(&placement.cpus_requested).unwrap_or_else(|| "agent's choice".into()),
        known(cpus(&placement.cpus_observed)),
    ]);
    if let Some(limit) = summary.rules.limits.memory_bytes {
        let limit = units::bytes(limit as f64);
        table.row([
            "memory limit (RLIMIT_DATA)".to_owned(),
            limit.clone(),
            limit,
        ]);
    }
    for setting in &summary.settings {
        table.row([
            setting.name.clone(),
            known(setting.requested.clone()),
            known(setting.observed.clone()),
        ]);
    }
    for input in summary.model.iter().flat_map(|model| &model.inputs) {
        let effective = input.effective.as_deref();
        let effective = effective.map(crate::plan::axes::dims);
        let asked = summary.case.shapes.iter().find(|s| s.input == input.name);
        table.row([
            format!("shape of {}", input.name),
            known(asked.map(|shape| crate::plan::axes::dims(&shape.dims))),
            known(effective.map(|dims| format!("{dims} {}", input.dtype))),
        ]);
    }
    table.render()
}

fn memory(summary: &CaseSummary) -> Option<String> {
    let memory = &summary.memory;
    let moments = [
        ("spawned", MomentRow::Spawned),
        ("library open", MomentRow::Dlopened),
        ("loaded", MomentRow::Loaded),
        ("before window", MomentRow::BeforeWindow),
        ("after window", MomentRow::AfterWindow),
    ];
    let mut known: Vec<(&str, u64)> = moments
        .into_iter()
        .filter_map(|(title, moment)| Some((title, memory.rss_at(moment)?)))
        .collect();
    known.extend(memory.peak_bytes.map(|peak| ("peak", peak)));
    let titles = known.iter().map(|(title, _)| *title);
    let figures = known.iter().map(|(_, bytes)| units::bytes(*bytes as f64));
    (!known.is_empty()).then(|| wide("memory", titles, figures))
}

/// What the board did meanwhile, and what was not watched.
fn board(summary: &CaseSummary) -> Option<String> {
    let board = &summary.board;
    board.watched?;
    let percent = |share: Option<f64>| share.map(units::percent);
    let clock = board.clock_hz.map(|clock| {
        let (min, max) = (units::hertz(clock.min), units::hertz(clock.max));
        match min == max {
            true => min,
            false => format!("{min} to {max}"),
        }
    });
    let heat = board.hottest.as_ref();
    let power = board.power.as_ref();
    let figures = [
        ("worker's CPUs", board.cpu_share.map(units::figure)),
        ("waiting for CPU", percent(board.run_delay_share)),
        ("others", percent(board.foreign_share)),
        ("stolen", percent(board.steal_share)),
        ("clock", clock),
        (
            "hottest",
            heat.map(|(_, celsius)| format!("{} °C", units::figure(*celsius))),
        ),
        (
            "memory left",
            board
                .memory_available_min_bytes
                .map(|bytes| units::bytes(bytes as f64)),
        ),
        (
            match board.gpu_memory.as_ref().is_some_and(|m| !m.is_workers) {
                true => "GPU memory, of all",
                false => "GPU memory",
            },
            board
                .gpu_memory
                .as_ref()
                .map(|m| units::bytes(m.mean_bytes)),
        ),
        (
            "power",
            power.map(|power| format!("{} W", units::figure(power.mean_watts))),
        ),
        (
            "energy a trial",
            power
                .and_then(|power| power.joules_per_trial)
                .map(|joules| super::telemetry::value("microjoule", joules * 1e6)),
        ),
        ("above idle", power.and_then(above_idle)),
        ("memory traffic", traffic(&board.ddr)),
    ];
    let known = figures
        .into_iter()
        .filter_map(|(title, figure)| Some((title, figure?)));
    let known: Vec<(&str, String)> = known.collect();
    let titles = known.iter().map(|(title, _)| *title);
    let mut lines = Vec::new();
    if !known.is_empty() {
        lines.push(wide(
            "board",
            titles,
            known.iter().map(|(_, figure)| figure.clone()),
        ));
    }
    if !board.missing.is_empty() {
        let names = board
            .missing
            .iter()
            .map(|missing| format!("{} ({})", missing.channel, missing.state));
        let names: Vec<String> = names.collect();
        const SHOWN: usize = 6;
        let more = names.len().saturating_sub(SHOWN);
        let mut names: Vec<String> = names.into_iter().take(SHOWN).collect();
        names.extend((more > 0).then(|| format!("{more} more")));
        let text = format!(
            "not watched: {}; `edgedyno samples {}` tells why",
            names.join(", "),
            summary.run.id
        );
        lines.push(wrapped(&text, usize::from(WIDTH), 2));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Energy of a trial above the idle board, with its uncertainty.
fn above_idle(power: &Power) -> Option<String> {
    let above = power.above_idle?;
    let joules = |joules: f64| super::telemetry::value("microjoule", joules * 1e6);
    let uncertainty = above.uncertainty_joules;
    let uncertainty = uncertainty.map_or_else(String::new, |u| format!(" ± {}", joules(u)));
    Some(format!("{}{uncertainty}", joules(above.joules_per_trial)))
}

/// Traffic of memory, and the share of what it can move that is known best.
fn traffic(ddr: &DdrTraffic) -> Option<String> {
    let rate = format!("{}/s", units::bytes(ddr.bytes_per_second?));
    let shares = [
        (ddr.share_of_ceiling(), "calibrated"),
        (ddr.share_of_clock_peak(), "peak at its clock"),
        (ddr.share_of_peak(), "peak"),
    ];
    let known = shares.iter().find_map(|(share, of)| Some(((*share)?, *of)));
    Some(match known {
        Some((share, of)) => format!("{rate}, {} of {of}", units::percent(share)),
        None => rate,
    })
}

/// Outputs, where they were compared or are not finite.
fn outputs(summary: &CaseSummary) -> Option<String> {
    let telling =
        |output: &&crate::store::rows::OutputRow| output.compared.is_some() || output.nonfinite > 0;
    let mut table = Table::new()
        .text("output")
        .figure("elements")
        .figure("not finite")
        .figure("max abs error")
        .figure("cosine");
    let telling: Vec<_> = summary.outputs.iter().filter(telling).collect();
    for output in &telling {
        let compared = output.compared.as_ref();
        table.row([
            output.name.clone(),
            units::count(output.elements),
            units::count(output.nonfinite),
            units::figure(compared.and_then(|c| c.max_abs_error)),
            units::figure(compared.and_then(|c| c.cosine)),
        ]);
    }
    (!telling.is_empty()).then(|| table.render())
}

fn environment(summary: &CaseSummary) -> String {
    let environment = &summary.environment;
    let runtime = summary.runtime.as_ref();
    // Each cluster of CPUs may have its own.
    let clock = |subject: &str| {
        let khz = environment.facts_of(subject)?;
        let shown = khz.split(", ").map(|text| match text.parse::<f64>() {
            Ok(khz) => units::hertz(khz * 1e3),
            Err(_) => text.to_owned(),
        });
        Some(shown.collect::<Vec<_>>().join(", "))
    };
    let rows = [
        ("cpu", environment.fact("cpu_model").map(str::to_owned)),
        (
            "kernel",
            environment.fact("kernel_release").map(str::to_owned),
        ),
        ("governor", environment.facts_of("governor")),
        ("highest clock", clock("clock_max_khz")),
        ("clock before", clock("clock_khz")),
        ("runtime file", runtime.and_then(|r| r.path.clone())),
        (
            "runtime sha256",
            runtime
                .filter(|r| r.path.is_some())
                .and_then(|r| r.sha256.as_ref())
                .map(|hash| hash.to_string()[..16].to_owned()),
        ),
        (
            "model sha256",
            Some(summary.case.model.sha256.to_string()[..16].to_owned()),
        ),
        ("fingerprint", environment.fingerprint.clone()),
        ("host's clock", host_clock(summary)),
        (
            "tool's own cost",
            tool(summary).or_else(|| Some("not measured".into())),
        ),
    ];
    let mut table = Table::new().text("environment").text("");
    for (name, value) in rows {
        let value = value.unwrap_or_else(|| "not readable".into());
        let may_lack = name.starts_with("runtime") || name == "host's clock";
        if !(may_lack && value == "not readable") {
            table.row([name.to_owned(), value]);
        }
    }
    table.render()
}

/// How well the host's clock is known on the board.
fn host_clock(summary: &CaseSummary) -> Option<String> {
    let clock = &summary.clock;
    let bound = units::nanoseconds(clock.bound_ns? as f64);
    let ppm = |ppb: i64| ppb as f64 / 1e3;
    let drift = match (clock.drift_ppb, clock.drift_bound_ppb) {
        (Some(ppb), Some(bound)) => {
            format!(", drift {:.1} ppm ± {:.1}", ppm(ppb), ppm(bound))
        }
        _ => ", drift not known".into(),
    };
    Some(format!("known within {bound}{drift}"))
}

/// What the agent did inside the windows.
fn tool(summary: &CaseSummary) -> Option<String> {
    let tool = &summary.tool;
    let share = tool.cpu_share()?;
    let stalls = tool.arena_stalls.filter(|n| *n > 0);
    let stalls = stalls.map(|n| format!(", {} stalls", units::count(n)));
    let cpus = tool.cpus.as_deref().filter(|cpus| !cpus.is_empty());
    let place = cpus.map_or_else(
        || "on the worker's CPUs".into(),
        |cpus| format!("on CPU {}", cpu_list(cpus)),
    );
    Some(format!(
        "{} of one CPU {place}, {} reads of the arena, {} of progress{}",
        units::percent(share),
        units::count(tool.arena_reads),
        units::bytes(tool.progress_bytes.map(|bytes| bytes as f64)),
        stalls.unwrap_or_default(),
    ))
}

fn failures(summary: &CaseSummary) -> Option<String> {
    let failures: Vec<String> = summary.failures.iter().map(failure).collect();
    (!failures.is_empty()).then(|| failures.join("\n"))
}

fn failure(failed: &Failed) -> String {
    let stage = failed
        .stage
        .map_or_else(String::new, |stage| format!("in {} ", stage.name()));
    let attempt = match failed.attempt {
        0 => String::new(),
        n => format!(", attempt {n},"),
    };
    let mut lines = vec![format!(
        "repeat {}{attempt} {} {stage}after {} trials of all stages",
        failed.repeat,
        failed.outcome,
        units::count(failed.trials)
    )];
    if let Some(failure) = &failed.failure {
        lines.push(format!("  cause: {}: {}", failure.code, failure.detail));
        lines.extend(failure.hint.iter().map(|hint| format!("  hint: {hint}")));
    }
    let tail = failed.stderr.as_deref().unwrap_or_default();
    let last: Vec<&str> = tail.lines().rev().take(5).collect();
    lines.extend(last.iter().rev().map(|line| format!("  stderr: {line}")));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::summarise;
    use crate::summary::tests::{hand_worked, view};

    #[test]
    fn a_bound_below_its_percentile_is_marked_and_the_mark_explained() {
        let (_dir, store) = hand_worked();
        let mut summary = summarise(&view(&store));
        assert!(!text(&summary, Wish::default()).contains(DIFFER));
        let p95 = &mut summary.latency.as_mut().unwrap().distribution.p95;
        (p95.value, p95.bound, p95.enough) = (2.769e6, Some(2.755e6), true);
        let text = text(&summary, Wish::default());
        for words in [
            "p95 2.755 ms†",
            "\n† bound below its percentile: repeats differ",
        ] {
            assert!(text.contains(words), "no {words:?} in {text}");
        }
        assert_eq!(text.matches(DIFFER).count(), 2, "p50 has a bound above it");
    }
}
