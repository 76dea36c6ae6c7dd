//! The plan of a run as JSON: shown by `--dry-run`, kept with the run, read again by `--resume`.

use serde_json::{Value, json};

use super::prepare::Prepared;
use crate::plan::axes::{axes, case_key};
use crate::store::rows::RulesRow;
use crate::ui::print;

/// Rules and wishes as stored with each case.
pub(super) fn rules_row(prepared: &Prepared) -> RulesRow {
    let conduct = &prepared.conduct;
    RulesRow::new(
        Some(conduct.repeats),
        &conduct.rules,
        &conduct.limits,
        conduct.cold,
        &conduct.outputs,
    )
    .watched(conduct.telemetry)
    .prepared(&conduct.preparation)
}

/// The whole plan.
pub(super) fn plan_value(prepared: &Prepared) -> Value {
    let cases = prepared.cases.iter().map(|case| {
        let axes = axes(case).into_iter();
        let axes: serde_json::Map<String, Value> =
            axes.map(|(name, value)| (name, value.into())).collect();
        json!({ "key": case_key(case).to_string(), "axes": axes })
    });
    let contents = prepared.contents.iter().map(|content| {
        let files = content.files.iter();
        let files = files.map(|(name, path)| json!({ "name": name, "path": absolute(path) }));
        json!({ "sha256": content.sha256.to_string(), "files": files.collect::<Vec<_>>() })
    });
    let unwatched = prepared.schedule.unwatched.iter();
    let unwatched = unwatched.map(|(case, repeat)| json!([case.to_string(), repeat]));
    json!({
        "document": "edgedyno/plan/1",
        "board": prepared.board,
        "cases": cases.collect::<Vec<_>>(),
        "repeats": prepared.conduct.repeats,
        "order_seed": prepared.conduct.seed,
        "rules": serde_json::to_value(rules_row(prepared)).unwrap_or_default(),
        "ceilings": prepared.schedule.ceilings.to_json(),
        "unwatched": unwatched.collect::<Vec<_>>(),
        "contents": contents.collect::<Vec<_>>(),
        "library": prepared.library,
        "save_outputs": prepared.save_outputs.as_deref().map(absolute),
    })
}

fn absolute(path: &std::path::Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute.display().to_string()
}

/// Shows the plan without making anything of it.
pub(super) fn show_plan(prepared: &Prepared, as_json: bool) {
    let plan = plan_value(prepared);
    if as_json {
        return print::json(&plan);
    }
    let mut lines = Vec::new();
    flatten("", &plan, &mut lines);
    print::result(lines.join("\n"));
}

/// One line for each leaf: `rules.measure_ns  5000000000`.
fn flatten(path: &str, value: &Value, out: &mut Vec<String>) {
    let below = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    match value {
        Value::Object(members) => {
            let members = members.iter();
            members.for_each(|(name, value)| flatten(&below(name), value, out));
        }
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(i, value)| flatten(&below(&i.to_string()), value, out));
        }
        Value::Null => out.push(format!("{path:32} -")),
        Value::String(text) => out.push(format!("{path:32} {text}")),
        leaf => out.push(format!("{path:32} {leaf}")),
    }
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::device::DeviceInfo;
    use edgedyno_shared::ids::{BootId, BuildId, Sha256};

    use super::*;
    use crate::board::content::Content;
    use crate::plan::fixed::tests::{case, conduct};
    use crate::plan::schedule::Schedule;

    #[test]
    fn a_plan_fits_its_schema_and_says_where_contents_lie() {
        let device = DeviceInfo {
            agent_version: String::new(),
            build: BuildId(String::new()),
            boot: BootId(1),
            os: String::new(),
            arch: String::new(),
            cpus: Vec::new(),
            allowed_cpus: Vec::new(),
            memory_total: None,
            readiness: edgedyno_shared::device::Readiness::default(),
            facts: Vec::new(),
            backends: Vec::new(),
        };
        let plan = plan_value(&Prepared {
            board: "local".into(),
            device,
            cases: vec![case(1), case(2)],
            conduct: conduct(3, 7),
            schedule: Schedule::default(),
            contents: vec![Content {
                sha256: Sha256([1; 32]),
                files: vec![("m".into(), "m.onnx".into())],
            }],
            unpacked: Vec::new(),
            library: None,
            save_outputs: None,
            built_in_note: None,
        });
        crate::golden::fits("plan", &plan);
        let path = plan["contents"][0]["files"][0]["path"].as_str();
        assert!(path.is_some_and(|path| path.starts_with('/')));
        let mut lines = Vec::new();
        flatten("", &plan, &mut lines);
        assert!(
            lines
                .iter()
                .any(|line| line.starts_with("cases.1.axes.threads "))
        );
    }
}
