//! Warm latency and rate.

use crate::stats::interval::Estimate;
use crate::stats::summary::{Distribution, Quantile};
use crate::summary::{CaseSummary, Latency};

use super::{Field, Subject, Unit, Value};

pub(super) const SUBJECT: Subject = Subject {
    name: "latency",
    title: "Latency and rate",
    fields: FIELDS,
};

const FIELDS: &[Field] = &[
    Field {
        name: "latency_p50_ms",
        unit: Unit::Milliseconds,
        definition: "time that 50 % of warm trials stay below (linear interpolation, type 7); the geometric mean over repeats",
        source: "measured trials, end_ns - start_ns",
        get: |s| distribution(s, |d| d.p50.value.into()),
    },
    Field {
        name: "latency_p90_ms",
        unit: Unit::Milliseconds,
        definition: "time that 90 % of warm trials stay below (linear interpolation, type 7); the geometric mean over repeats",
        source: "measured trials, end_ns - start_ns",
        get: |s| distribution(s, |d| d.p90.value.into()),
    },
    Field {
        name: "latency_p95_ms",
        unit: Unit::Milliseconds,
        definition: "time that 95 % of warm trials stay below (linear interpolation, type 7); the geometric mean over repeats",
        source: "measured trials, end_ns - start_ns",
        get: |s| distribution(s, |d| d.p95.value.into()),
    },
    Field {
        name: "latency_p99_ms",
        unit: Unit::Milliseconds,
        definition: "time that 99 % of warm trials stay below (linear interpolation, type 7); the geometric mean over repeats",
        source: "measured trials, end_ns - start_ns",
        get: |s| distribution(s, |d| d.p99.value.into()),
    },
    Field {
        name: "latency_p99_9_ms",
        unit: Unit::Milliseconds,
        definition: "time that 99.9 % of warm trials stay below (linear interpolation, type 7); the geometric mean over repeats",
        source: "measured trials, end_ns - start_ns",
        get: |s| distribution(s, |d| d.p99_9.value.into()),
    },
    Field {
        name: "latency_p99_99_ms",
        unit: Unit::Milliseconds,
        definition: "time that 99.99 % of warm trials stay below (linear interpolation, type 7); the geometric mean over repeats",
        source: "measured trials, end_ns - start_ns",
        get: |s| distribution(s, |d| d.p99_99.value.into()),
    },
    Field {
        name: "latency_mean_ms",
        unit: Unit::Milliseconds,
        definition: "arithmetic mean of warm trials",
        source: "measured trials, end_ns - start_ns",
        get: |s| distribution(s, |d| d.mean.into()),
    },
    Field {
        name: "latency_std_ms",
        unit: Unit::Milliseconds,
        definition: "sample standard deviation of warm trials within a repeat",
        source: "measured trials, end_ns - start_ns",
        get: |s| distribution(s, |d| d.std),
    },
    Field {
        name: "latency_min_ms",
        unit: Unit::Milliseconds,
        definition: "fastest warm trial of all repeats",
        source: "measured trials, end_ns - start_ns",
        get: |s| distribution(s, |d| Some(d.min as f64)),
    },
    Field {
        name: "latency_max_ms",
        unit: Unit::Milliseconds,
        definition: "slowest warm trial of all repeats",
        source: "measured trials, end_ns - start_ns",
        get: |s| distribution(s, |d| Some(d.max as f64)),
    },
    Field {
        name: "latency_p50_bound_ms",
        unit: Unit::Milliseconds,
        definition: "upper bound of the true p50 at 99 % confidence, from the pooled trials; null below the minimum count",
        source: "measured trials, end_ns - start_ns",
        get: |s| distribution(s, |d| d.p50.bound),
    },
    Field {
        name: "latency_p90_bound_ms",
        unit: Unit::Milliseconds,
        definition: "upper bound of the true p90 at 99 % confidence, from the pooled trials; null below the minimum count",
        source: "measured trials, end_ns - start_ns",
        get: |s| distribution(s, |d| d.p90.bound),
    },
    Field {
        name: "latency_p95_bound_ms",
        unit: Unit::Milliseconds,
        definition: "upper bound of the true p95 at 99 % confidence, from the pooled trials; null below the minimum count",
        source: "measured trials, end_ns - start_ns",
        get: |s| distribution(s, |d| d.p95.bound),
    },
    Field {
        name: "latency_p99_bound_ms",
        unit: Unit::Milliseconds,
        definition: "upper bound of the true p99 at 99 % confidence, from the pooled trials; null below the minimum count",
        source: "measured trials, end_ns - start_ns",
        get: |s| distribution(s, |d| d.p99.bound),
    },
    Field {
        name: "latency_p99_9_bound_ms",
        unit: Unit::Milliseconds,
        definition: "upper bound of the true p99.9 at 99 % confidence, from the pooled trials; null below the minimum count",
        source: "measured trials, end_ns - start_ns",
        get: |s| distribution(s, |d| d.p99_9.bound),
    },
    Field {
        name: "latency_p99_99_bound_ms",
        unit: Unit::Milliseconds,
        definition: "upper bound of the true p99.99 at 99 % confidence, from the pooled trials; null below the minimum count",
        source: "measured trials, end_ns - start_ns",
        get: |s| distribution(s, |d| d.p99_99.bound),
    },
    Field {
        name: "latency_p50_enough",
        unit: Unit::Flag,
        definition: "whether there are independent trials enough to claim p50",
        source: "measured trials, end_ns - start_ns",
        get: |s| quantile(s, |d| d.p50, |q| Value::Flag(q.enough)),
    },
    Field {
        name: "latency_p90_enough",
        unit: Unit::Flag,
        definition: "whether there are independent trials enough to claim p90",
        source: "measured trials, end_ns - start_ns",
        get: |s| quantile(s, |d| d.p90, |q| Value::Flag(q.enough)),
    },
    Field {
        name: "latency_p95_enough",
        unit: Unit::Flag,
        definition: "whether there are independent trials enough to claim p95",
        source: "measured trials, end_ns - start_ns",
        get: |s| quantile(s, |d| d.p95, |q| Value::Flag(q.enough)),
    },
    Field {
        name: "latency_p99_enough",
        unit: Unit::Flag,
        definition: "whether there are independent trials enough to claim p99",
        source: "measured trials, end_ns - start_ns",
        get: |s| quantile(s, |d| d.p99, |q| Value::Flag(q.enough)),
    },
    Field {
        name: "latency_p99_9_enough",
        unit: Unit::Flag,
        definition: "whether there are independent trials enough to claim p99.9",
        source: "measured trials, end_ns - start_ns",
        get: |s| quantile(s, |d| d.p99_9, |q| Value::Flag(q.enough)),
    },
    Field {
        name: "latency_p99_99_enough",
        unit: Unit::Flag,
        definition: "whether there are independent trials enough to claim p99.99",
        source: "measured trials, end_ns - start_ns",
        get: |s| quantile(s, |d| d.p99_99, |q| Value::Flag(q.enough)),
    },
    Field {
        name: "latency_p50_repeats_differ",
        unit: Unit::Flag,
        definition: "whether the bound of p50 lies below the point: repeats differ, and their mean is above what all trials together show",
        source: "measured trials, end_ns - start_ns",
        get: |s| quantile(s, |d| d.p50, |q| Value::Flag(q.repeats_differ())),
    },
    Field {
        name: "latency_p90_repeats_differ",
        unit: Unit::Flag,
        definition: "whether the bound of p90 lies below the point: repeats differ, and their mean is above what all trials together show",
        source: "measured trials, end_ns - start_ns",
        get: |s| quantile(s, |d| d.p90, |q| Value::Flag(q.repeats_differ())),
    },
    Field {
        name: "latency_p95_repeats_differ",
        unit: Unit::Flag,
        definition: "whether the bound of p95 lies below the point: repeats differ, and their mean is above what all trials together show",
        source: "measured trials, end_ns - start_ns",
        get: |s| quantile(s, |d| d.p95, |q| Value::Flag(q.repeats_differ())),
    },
    Field {
        name: "latency_p99_repeats_differ",
        unit: Unit::Flag,
        definition: "whether the bound of p99 lies below the point: repeats differ, and their mean is above what all trials together show",
        source: "measured trials, end_ns - start_ns",
        get: |s| quantile(s, |d| d.p99, |q| Value::Flag(q.repeats_differ())),
    },
    Field {
        name: "latency_p99_9_repeats_differ",
        unit: Unit::Flag,
        definition: "whether the bound of p99.9 lies below the point: repeats differ, and their mean is above what all trials together show",
        source: "measured trials, end_ns - start_ns",
        get: |s| quantile(s, |d| d.p99_9, |q| Value::Flag(q.repeats_differ())),
    },
    Field {
        name: "latency_p99_99_repeats_differ",
        unit: Unit::Flag,
        definition: "whether the bound of p99.99 lies below the point: repeats differ, and their mean is above what all trials together show",
        source: "measured trials, end_ns - start_ns",
        get: |s| quantile(s, |d| d.p99_99, |q| Value::Flag(q.repeats_differ())),
    },
    Field {
        name: "latency_p50_n_eff",
        unit: Unit::Figure,
        definition: "independent trials that the measured ones are worth at p50 (n divided by their autocorrelation time)",
        source: "measured trials, end_ns - start_ns",
        get: |s| quantile(s, |d| d.p50, |q| Value::Number(q.n_eff)),
    },
    Field {
        name: "latency_p90_n_eff",
        unit: Unit::Figure,
        definition: "independent trials that the measured ones are worth at p90 (n divided by their autocorrelation time)",
        source: "measured trials, end_ns - start_ns",
        get: |s| quantile(s, |d| d.p90, |q| Value::Number(q.n_eff)),
    },
    Field {
        name: "latency_p95_n_eff",
        unit: Unit::Figure,
        definition: "independent trials that the measured ones are worth at p95 (n divided by their autocorrelation time)",
        source: "measured trials, end_ns - start_ns",
        get: |s| quantile(s, |d| d.p95, |q| Value::Number(q.n_eff)),
    },
    Field {
        name: "latency_p99_n_eff",
        unit: Unit::Figure,
        definition: "independent trials that the measured ones are worth at p99 (n divided by their autocorrelation time)",
        source: "measured trials, end_ns - start_ns",
        get: |s| quantile(s, |d| d.p99, |q| Value::Number(q.n_eff)),
    },
    Field {
        name: "latency_p99_9_n_eff",
        unit: Unit::Figure,
        definition: "independent trials that the measured ones are worth at p99.9 (n divided by their autocorrelation time)",
        source: "measured trials, end_ns - start_ns",
        get: |s| quantile(s, |d| d.p99_9, |q| Value::Number(q.n_eff)),
    },
    Field {
        name: "latency_p99_99_n_eff",
        unit: Unit::Figure,
        definition: "independent trials that the measured ones are worth at p99.99 (n divided by their autocorrelation time)",
        source: "measured trials, end_ns - start_ns",
        get: |s| quantile(s, |d| d.p99_99, |q| Value::Number(q.n_eff)),
    },
    Field {
        name: "latency_p50_low_ms",
        unit: Unit::Milliseconds,
        definition: "lower end of the 95 % interval of p50: over repeats, within the run when there is one",
        source: "per-repeat p50",
        get: |s| interval(s, |e| e.low),
    },
    Field {
        name: "latency_p50_high_ms",
        unit: Unit::Milliseconds,
        definition: "upper end of the same interval",
        source: "per-repeat p50",
        get: |s| interval(s, |e| e.high),
    },
    Field {
        name: "latency_outliers_count",
        unit: Unit::Count,
        definition: "trials with a modified z-score beyond 3.5 (Iglewicz and Hoaglin); they stay in every figure",
        source: "measured trials, end_ns - start_ns",
        get: |s| {
            latency(s, |l| {
                Value::count(l.outliers.map(|o| (o.low + o.high) as u64))
            })
        },
    },
    Field {
        name: "rate_hz",
        unit: Unit::Hertz,
        definition: "trials for each second from the first start to the last end of a window, gaps included",
        source: "measured trials",
        get: |s| latency(s, |l| Value::number(l.rate_hz)),
    },
    Field {
        name: "trials_count",
        unit: Unit::Count,
        definition: "measured trials that ended well, over all repeats that count",
        source: "measured trials",
        get: |s| Value::Count(s.counts.trials),
    },
    Field {
        name: "trials_failed_count",
        unit: Unit::Count,
        definition: "trials that the backend failed or whose slot made no sense, in all attempts",
        source: "column status",
        get: |s| Value::Count(s.counts.trials_failed),
    },
    Field {
        name: "warmup_trials_count",
        unit: Unit::Figure,
        definition: "warm-up trials, the arithmetic mean over repeats",
        source: "trials of role warmup",
        get: |s| Value::number(s.warmup.trials),
    },
    Field {
        name: "warmup_ms",
        unit: Unit::Milliseconds,
        definition: "length of warm-up, the arithmetic mean over repeats",
        source: "trials of role warmup",
        get: |s| Value::ms(s.warmup.time_ns),
    },
    Field {
        name: "warmup_steady",
        unit: Unit::Flag,
        definition: "whether every warm-up was steady before its maximum",
        source: "event warmup_not_steady",
        get: |s| Value::flag(s.warmup.steady),
    },
];

fn latency(summary: &CaseSummary, get: impl Fn(&Latency) -> Value) -> Value {
    summary.latency.as_ref().map_or(Value::Unknown, get)
}

fn distribution(summary: &CaseSummary, get: impl Fn(&Distribution) -> Option<f64>) -> Value {
    latency(summary, |latency| Value::ms(get(&latency.distribution)))
}

fn quantile(
    summary: &CaseSummary,
    which: impl Fn(&Distribution) -> Quantile,
    get: impl Fn(Quantile) -> Value,
) -> Value {
    latency(summary, |latency| get(which(&latency.distribution)))
}

fn interval(summary: &CaseSummary, end: impl Fn(&Estimate) -> f64) -> Value {
    latency(summary, |latency| {
        Value::ms(latency.p50_interval.as_ref().map(&end))
    })
}
