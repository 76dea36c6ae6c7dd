//! `edgedyno __agent` and `edgedyno-agent` are the same agent: same columns, same findings.

use edgedyno_tests::commands::{QUICK, finding_codes, run, small_model, text};
use edgedyno_tests::{Sandbox, binaries};
use serde_json::Value;

/// Findings that speak of the moment and not of the agent.
const OF_THE_MOMENT: [&str; 18] = [
    "bimodal",
    "few_samples",
    "load_high",
    "not_steady",
    "outliers",
    "steal_time",
    "arena_stall",
    "foreign_load",
    "run_queue_delay",
    "clock_ramp",
    "memory_near_full",
    "swapping",
    "slow_moment",
    "channel_lost",
    "sampler_over_budget",
    "sensor_dear",
    "throttled",
    "traffic_incomplete",
];

/// A run, the header of its records, and who served it.
fn measure(sandbox: &Sandbox, backend: &str, args: &[&str]) -> (Value, String, String) {
    let model = small_model(sandbox);
    let args = [&QUICK[..], args, &["--json"]].concat();
    let document = run(sandbox, &model, backend, &args).ok().json();
    let served = sandbox
        .processes()
        .into_iter()
        .map(|(_, line)| line)
        .find(|line| line.contains("serve --on-demand"))
        .expect("the daemon stays a few seconds");
    let csv = sandbox.edgedyno(["records", "last"]).ok().stdout;
    let header = csv.lines().next().unwrap_or_default().to_owned();
    (document["cases"][0].clone(), header, served)
}

fn lasting(case: &Value) -> Vec<String> {
    let mut codes = finding_codes(case);
    codes.retain(|code| !OF_THE_MOMENT.contains(&code.as_str()));
    codes
}

/// The names of a document at every depth; values differ, shape does not.
fn shape(value: &Value, at: &str, into: &mut Vec<String>) {
    if let Value::Object(members) = value {
        for (name, member) in members {
            let at = format!("{at}/{name}");
            shape(member, &at, into);
            into.push(at);
        }
    }
}

#[test]
fn both_agents_give_the_same_columns_and_findings() {
    for (backend, args) in [
        ("rten", &["--cpus", "0"][..]),
        (
            "fake",
            &["--cpus", "0", "--option", "phases=4", "--option", "steps=3"],
        ),
    ] {
        let own = Sandbox::new();
        let mut separate = Sandbox::new();
        separate.env("EDGEDYNO_AGENT", &binaries().agent);
        let (first, first_header, first_served) = measure(&own, backend, args);
        let (second, second_header, second_served) = measure(&separate, backend, args);

        assert!(first_served.contains("__agent"), "{first_served}");
        assert!(!second_served.contains("__agent"), "{second_served}");
        assert_eq!(first_header, second_header);
        assert_eq!(lasting(&first), lasting(&second), "{backend}");
        assert_eq!(
            text(&first["fields"]["case_key"]),
            text(&second["fields"]["case_key"])
        );

        let (mut left, mut right) = (Vec::new(), Vec::new());
        for (case, names) in [(&first, &mut left), (&second, &mut right)] {
            shape(&case["fields"], "", names);
            shape(&case["settings"], "", names);
            shape(&case["rules"], "", names);
        }
        assert_eq!(left, right);

        // The build stands beside the figures, and is the one that the program itself names.
        let version = separate.agent(["version"]).ok().stdout;
        let build = text(&second["fields"]["agent_build"]);
        assert!(
            !build.is_empty() && version.contains(&build),
            "{build} in {version}"
        );
        assert!(!text(&first["fields"]["agent_build"]).is_empty());
    }
}
