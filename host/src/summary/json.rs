//! A summary as JSON: every field by name, and the details that are not single values.

use serde_json::{Map, Value, json};

use crate::fields;
use crate::stats::steady::Steadiness;
use crate::store::rows::{EffectiveRow, FailureRow, StageName};

use super::{CaseSummary, Failed, Missing, RepeatFigures};

/// Names the form of the document; a later form has another number.
pub const DOCUMENT: &str = "edgedyno/summary/1";

/// The document of one or more cases.
pub fn to_json(cases: &[CaseSummary]) -> Value {
    json!({
        "document": DOCUMENT,
        "cases": cases.iter().map(case_json).collect::<Vec<_>>(),
    })
}

/// The document without percentiles that have too few trials: of the case by its own count, of its repeats
/// wherever the case lacks them.
pub fn withheld(mut document: Value) -> Value {
    let cases = document["cases"].as_array_mut();
    for case in cases.into_iter().flatten() {
        let fields = case["fields"].as_object().cloned().unwrap_or_default();
        let withheld = fields.iter().filter_map(|(name, enough)| {
            let percentile = name.strip_suffix("_enough")?;
            (*enough == Value::Bool(false)).then(|| format!("{percentile}_ms"))
        });
        for name in withheld {
            case["fields"][&name] = Value::Null;
            for repeat in case["repeats"].as_array_mut().into_iter().flatten() {
                if let Some(figure) = repeat.get_mut(&name) {
                    *figure = Value::Null;
                }
            }
        }
    }
    document
}

/// What is said of one case.
pub fn case_json(summary: &CaseSummary) -> Value {
    let fields = fields::all().map(|field| (field.name.to_owned(), (&(field.get)(summary)).into()));
    json!({
        "fields": fields.collect::<Map<String, Value>>(),
        "case": summary.case,
        "rules": summary.rules,
        "repeats": summary.repeats.iter().map(repeat).collect::<Vec<_>>(),
        "settings": summary.settings.iter().map(setting).collect::<Vec<_>>(),
        "model": summary.model,
        "runtime": summary.runtime,
        "outputs": summary.outputs,
        "tenants": summary.tenants,
        "environment": summary.environment.facts,
        "not_watched": summary.board.missing.iter().map(missing).collect::<Vec<_>>(),
        "failures": summary.failures.iter().map(failure).collect::<Vec<_>>(),
        "findings": summary.findings.iter().map(crate::findings::Finding::to_json).collect::<Vec<_>>(),
    })
}

fn missing(missing: &Missing) -> Value {
    json!({
        "channel": missing.channel,
        "state": missing.state,
        "reason": missing.reason,
    })
}

fn repeat(figures: &RepeatFigures) -> Value {
    let ms = |ns: Option<f64>| ns.map(|ns| ns / 1e6);
    json!({
        "repeat": figures.repeat,
        "attempt": figures.attempt,
        "pass": figures.pass.name(),
        "outcome": figures.outcome,
        "counts": figures.counts,
        "trials_count": figures.trials,
        "trials_failed_count": figures.trials_failed,
        "warmup_trials_count": figures.warmup_trials,
        "window_ms": ms(figures.window_ns.map(|ns| ns as f64)),
        "rate_hz": figures.rate_hz,
        "latency_p50_ms": ms(figures.p50_ns),
        "latency_p99_ms": ms(figures.p99_ns),
        "latency_mean_ms": ms(figures.mean_ns),
        "steadiness": figures.steadiness.as_ref().map(steadiness),
        "began_unix_ns": figures.wall_unix_ns,
        "clock_exchanges": figures.clock_exchanges,
        "clock_readings_count": figures.clock_readings,
    })
}

fn steadiness(steadiness: &Steadiness) -> Value {
    json!({
        "drift_share": steadiness.drift.over_window,
        "drift_p_value": steadiness.drift.p_value,
        "step_at_trial": steadiness.change.at,
        "step_share": steadiness.change.shift,
        "step_p_value": steadiness.change.p_value,
    })
}

fn setting(setting: &EffectiveRow) -> Value {
    let differs = match (&setting.requested, &setting.observed) {
        (Some(requested), Some(observed)) => Some(requested != observed),
        _ => None,
    };
    json!({
        "name": setting.name,
        "requested": setting.requested,
        "observed": setting.observed,
        "differs": differs,
    })
}

fn failure(failed: &Failed) -> Value {
    let of = |get: fn(&FailureRow) -> Option<&str>| failed.failure.as_ref().and_then(get);
    json!({
        "repeat": failed.repeat,
        "attempt": failed.attempt,
        "pass": failed.pass.name(),
        "outcome": failed.outcome,
        "stage": failed.stage.map(StageName::name),
        "code": of(|f| Some(&f.code)),
        "detail": of(|f| Some(&f.detail)),
        "hint": of(|f| f.hint.as_deref()),
        "trials_count": failed.trials,
        "stderr": failed.stderr,
    })
}
