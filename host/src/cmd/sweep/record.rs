//! The plan of a sweep as JSON: kept with the run, read again by `--resume` and `rerun`, shown by
//! `--dry-run` together with its cases.

use std::collections::BTreeMap;
use std::time::Duration;

use edgedyno_shared::ids::{RunId, Sha256};
use edgedyno_shared::units::Nanos;
use serde_json::{Map, Value, json};

use super::prepare::{Library, Prepared};
use crate::board::content::{self, Content};
use crate::contention::limit::Limit;
use crate::plan::axes::{axes, dims};
use crate::plan::condition::Ceilings;
use crate::plan::goal::Goal;
use crate::plan::schedule::{Order, Recovery, Schedule, Sentinel, Within};
use crate::plan::sweep::Tolerance;
use crate::store::rows::RulesRow;

/// Names the form of the document.
pub(super) const DOCUMENT: &str = "edgedyno/sweep-plan/1";

/// Rules and wishes as stored with each case.
pub(super) fn rules_row(prepared: &Prepared) -> RulesRow {
    let conduct = &prepared.conduct;
    // A stop rule decides as it goes how many there are.
    let decides = prepared.schedule.within.is_some() || prepared.goal.is_some();
    let repeats = (!decides).then_some(conduct.repeats);
    RulesRow::new(
        repeats,
        &conduct.rules,
        &conduct.limits,
        conduct.cold,
        &conduct.outputs,
    )
    .watched(conduct.telemetry)
    .prepared(&conduct.preparation)
}

/// All but the cases, which the store has in a table of its own.
pub(super) fn plan_value(prepared: &Prepared) -> Value {
    let schedule = &prepared.schedule;
    let keys = |keys: &[Sha256]| keys.iter().map(Sha256::to_string).collect::<Vec<_>>();
    json!({
        "document": DOCUMENT,
        "name": prepared.name,
        "boards": prepared.devices.keys().collect::<Vec<_>>(),
        "cases_count": prepared.cases.len(),
        "fingerprint": fingerprint(prepared).to_string(),
        "order": schedule.order.name(),
        "order_seed": prepared.conduct.seed,
        "repeats": prepared.conduct.repeats,
        "p50_within": schedule.within.map(|within| within.share),
        "max_repeats": schedule.within.map(|within| within.max_repeats),
        "optimize": prepared.goal.as_ref().map(|goal| goal.text.as_str()),
        "slo": prepared.slo.as_ref().map(Limit::to_json),
        "max_attempts": schedule.max_attempts,
        "time_budget_ns": schedule.time_budget.map(|budget| budget.as_nanos() as u64),
        "sentinel": schedule.sentinel.map(|sentinel| json!({
            "case": sentinel.case.to_string(),
            "every": sentinel.every,
        })),
        "stop_on_oom": schedule.stop_on_oom,
        "recovery": schedule.recovery.map(|recovery| json!({
            "case": recovery.case.to_string(),
            "repeats": recovery.repeats,
            "from": recovery_from(prepared, recovery.case),
        })),
        "ceilings": schedule.ceilings.to_json(),
        "settle_ns": schedule.settle.map(|settle| settle.0),
        "references": prepared.references.as_deref().map(keys),
        "tolerance": {
            "cosine": prepared.tolerance.cosine,
            "cosine_int8": prepared.tolerance.cosine_int8,
            "max_abs": prepared.tolerance.max_abs,
        },
        "rules": serde_json::to_value(rules_row(prepared)).unwrap_or_default(),
        "contents": prepared.contents.iter().map(content_value).collect::<Vec<_>>(),
        "libraries": prepared.libraries.iter().map(|library| json!({
            "board": library.board,
            "backend": library.backend,
            "path": library.path,
        })).collect::<Vec<_>>(),
    })
}

/// The number of the first repeat of the recovery, on the board of its case.
fn recovery_from(prepared: &Prepared, case: Sha256) -> Option<u32> {
    let planned = prepared.cases.iter().find(|planned| planned.key == case)?;
    let none = RunId(String::new());
    super::execute::planner(&none, prepared, &planned.case.board).recovery_from()
}

/// The same for the same plan: cases, rules and order.
fn fingerprint(prepared: &Prepared) -> Sha256 {
    let keys: Vec<String> = prepared.cases.iter().map(|c| c.key.to_string()).collect();
    let schedule = &prepared.schedule;
    let text = json!([
        keys,
        prepared.conduct.repeats,
        prepared.conduct.seed,
        schedule.order.name(),
        serde_json::to_value(rules_row(prepared)).unwrap_or_default(),
        format!("{:?}", (schedule, &prepared.goal)),
    ]);
    content::sha256(text.to_string().as_bytes())
}

fn content_value(content: &Content) -> Value {
    let files = content.files.iter().map(|(name, path)| {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        json!({ "name": name, "path": absolute.display().to_string() })
    });
    json!({ "sha256": content.sha256.to_string(), "files": files.collect::<Vec<_>>() })
}

/// Cases with their axes, for `--dry-run`.
pub(super) fn cases_value(prepared: &Prepared) -> Value {
    let one = |planned: &super::prepare::Planned| {
        let axes = axes(&planned.case).into_iter();
        let axes: Map<String, Value> = axes.map(|(name, value)| (name, value.into())).collect();
        let mut from: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for shape in &planned.aligned_from {
            from.entry(&shape.input)
                .or_default()
                .push(dims(&shape.dims));
        }
        let from = from.into_iter();
        let from: Map<String, Value> = from
            .map(|(input, asked)| (input.to_owned(), asked.join(", ").into()))
            .collect();
        json!({ "key": planned.key.to_string(), "axes": axes, "aligned_from": from })
    };
    prepared.cases.iter().map(one).collect()
}

/// What a stored plan says beside what the cases say.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) name: Option<String>,
    pub(super) seed: u64,
    pub(super) repeats: u32,
    pub(super) schedule: Schedule,
    pub(super) references: Option<Vec<Sha256>>,
    pub(super) tolerance: Tolerance,
    pub(super) libraries: Vec<Library>,
    pub(super) goal: Option<Goal>,
    pub(super) slo: Option<Limit>,
}

/// Names the plans of `run`, which have one order and no more.
const RUN_DOCUMENT: &str = "edgedyno/plan/1";

/// Reads a plan of [`plan_value`] or of `run`; none when it is something else.
pub(super) fn read(plan: &Value) -> Option<Recorded> {
    match plan["document"].as_str()? {
        DOCUMENT => read_sweep(plan),
        RUN_DOCUMENT => read_run(plan),
        _ => None,
    }
}

/// Its library belongs to the one backend of its cases, whichever that is.
fn read_run(plan: &Value) -> Option<Recorded> {
    Some(Recorded {
        name: None,
        seed: plan["order_seed"].as_u64()?,
        repeats: plan["repeats"].as_u64()? as u32,
        schedule: Schedule {
            ceilings: Ceilings::from_json(&plan["ceilings"]),
            ..Schedule::default()
        },
        references: None,
        tolerance: Tolerance::USUAL,
        libraries: Vec::new(),
        goal: None,
        slo: None,
    })
}

fn read_sweep(plan: &Value) -> Option<Recorded> {
    let number = |name: &str| plan[name].as_u64();
    let small = |name: &str| number(name).and_then(|n| u32::try_from(n).ok());
    let key = |value: &Value| value.as_str().and_then(|text| text.parse::<Sha256>().ok());
    let references: Option<Vec<Sha256>> = plan["references"]
        .as_array()
        .map(|keys| keys.iter().filter_map(key).collect());
    let within = plan["p50_within"].as_f64().map(|share| Within {
        share,
        max_repeats: small("max_repeats").unwrap_or(0),
    });
    let sentinel = &plan["sentinel"];
    let sentinel = key(&sentinel["case"]).map(|case| Sentinel {
        case,
        every: sentinel["every"].as_u64().unwrap_or(1) as u32,
    });
    let tolerance = |name: &str, usual: f64| plan["tolerance"][name].as_f64().unwrap_or(usual);
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let stop_on_oom = plan["stop_on_oom"].as_array().into_iter().flatten();
    let libraries = plan["libraries"].as_array().into_iter().flatten();
    Some(Recorded {
        name: text(&plan["name"]),
        goal: plan["optimize"]
            .as_str()
            .and_then(|text| Goal::parse(text).ok()),
        slo: Limit::from_json(&plan["slo"]),
        seed: number("order_seed")?,
        repeats: small("repeats")?,
        schedule: Schedule {
            order: Order::from_name(plan["order"].as_str()?)?,
            max_attempts: small("max_attempts"),
            time_budget: number("time_budget_ns").map(Duration::from_nanos),
            within,
            sentinel,
            stop_on_oom: stop_on_oom.filter_map(text).collect(),
            keeps_outputs: references.is_some(),
            recovery: key(&plan["recovery"]["case"]).map(|case| Recovery {
                case,
                repeats: plan["recovery"]["repeats"].as_u64().unwrap_or(0) as u32,
            }),
            ceilings: Ceilings::from_json(&plan["ceilings"]),
            settle: plan["settle_ns"].as_i64().map(Nanos),
            ..Schedule::default()
        },
        references,
        tolerance: Tolerance {
            cosine: tolerance("cosine", Tolerance::USUAL.cosine),
            cosine_int8: tolerance("cosine_int8", Tolerance::USUAL.cosine_int8),
            max_abs: tolerance("max_abs", Tolerance::USUAL.max_abs),
        },
        libraries: libraries
            .filter_map(|library| {
                Some(Library {
                    board: text(&library["board"])?,
                    backend: text(&library["backend"])?,
                    path: text(&library["path"])?,
                })
            })
            .collect(),
    })
}
