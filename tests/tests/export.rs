//! Exports read back by programs that others wrote.

use std::path::Path;
use std::process::Command;

use edgedyno_tests::commands::small_model;
use edgedyno_tests::skip::{Need, skip};
use edgedyno_tests::{Sandbox, assets};
use serde_json::Value;

fn sweep(sandbox: &Sandbox) {
    small_model(sandbox);
    let line = [
        "sweep",
        "small.onnx",
        "--axis",
        "backend=rten",
        "--axis",
        "threads=1,2",
        "--warmup",
        "2",
        "--trials",
        "50",
        "--repeat",
        "2",
    ];
    sandbox.edgedyno(line).ok();
}

/// A Python program with a package at hand; what it prints, as JSON.
fn python(package: &Path, program: &str, words: &[&Path]) -> Value {
    let output = Command::new("python3")
        .arg("-c")
        .arg(program)
        .args(words)
        .env("PYTHONPATH", package)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

fn package(name: &str, requirement: &str) -> Option<std::path::PathBuf> {
    assets::wheel(name, requirement, |_| true)
        .map_err(|why| skip(Need::Package, format!("{requirement}: {why:#}")))
        .ok()
}

#[test]
fn prometheus_reads_the_metrics_and_finds_the_figures() {
    let Some(client) = package("prometheus-client-0.26.0", "prometheus-client==0.26.0") else {
        return;
    };
    let sandbox = Sandbox::new();
    sweep(&sandbox);
    sandbox
        .edgedyno([
            "export",
            "last",
            "--format",
            "openmetrics",
            "-o",
            "metrics.txt",
        ])
        .ok();
    let families = python(
        &client,
        "import json, sys\n\
         from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse\n\
         print(json.dumps({f.name: [f.type, f.unit, [[s.name, s.labels, s.value] for s in f.samples]] \
         for f in parse(open(sys.argv[1]).read())}))",
        &[&sandbox.work().join("metrics.txt")],
    );
    let p50 = &families["edgedyno_latency_p50_seconds"];
    assert_eq!((&p50[0], &p50[1]), (&"gauge".into(), &"seconds".into()));
    let samples = p50[2].as_array().unwrap();
    assert_eq!(samples.len(), 2);
    for sample in samples {
        let case = sample[1]["case"].as_str().unwrap();
        let shown = sandbox
            .edgedyno(["get", &format!("last/{case}"), "latency_p50_ms"])
            .ok()
            .stdout;
        let ms: f64 = shown.trim().parse().unwrap();
        let seconds = sample[2].as_f64().unwrap();
        assert!(
            (seconds * 1e3 / ms - 1.0).abs() < 1e-9,
            "{seconds} s is not {ms} ms"
        );
    }
    let info = &families["edgedyno_case"];
    assert_eq!(info[0], "info");
    assert_eq!(info[2][0][0], "edgedyno_case_info");
    assert_eq!(info[2][0][1]["backend"], "rten");
}

#[test]
fn duckdb_reads_trials_and_telemetry() {
    let Some(duckdb) = package("duckdb-2.0.0", "duckdb==2.0.0") else {
        return;
    };
    let sandbox = Sandbox::new();
    sweep(&sandbox);
    sandbox
        .edgedyno(["export", "last", "--format", "parquet", "-o", "columns"])
        .ok();
    let folder = sandbox.work().join("columns");
    let answer = python(
        &duckdb,
        "import json, sys, duckdb\n\
         ask = lambda sql: [list(row) for row in duckdb.sql(sql).fetchall()]\n\
         trials, telemetry = sys.argv[1:]\n\
         print(json.dumps({\
         'trials': ask(f\"select \\\"case\\\", repeat, count(*), sum(end_ns - start_ns)::bigint from '{trials}' \
         where role = 'measure' group by all order by all\"),\
         'latency': ask(f\"select count(*) from '{trials}' where abs(latency_ms - (end_ns - start_ns) / 1e6) > 1e-9\"),\
         'telemetry': ask(f\"select count(*), count(value), count(distinct channel) from '{telemetry}'\")}))",
        &[
            &folder.join("trials.parquet"),
            &folder.join("telemetry.parquet"),
        ],
    );
    // The same by our own words: measured trials of each repeat and how long they took together.
    let csv = sandbox
        .edgedyno(["export", "last", "--format", "csv"])
        .ok()
        .stdout;
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let at = |name: &str| head.iter().position(|found| *found == name).unwrap();
    let mut expected = std::collections::BTreeMap::new();
    for line in lines.filter(|line| line[at("role")] == "measure") {
        let number = |name: &str| line[at(name)].parse::<i64>().unwrap();
        let sum = expected
            .entry((line[at("case")].to_owned(), number("repeat")))
            .or_insert((0_i64, 0_i64));
        sum.0 += 1;
        sum.1 += number("end_ns") - number("start_ns");
    }
    let expected: Vec<Value> = expected
        .into_iter()
        .map(|((case, repeat), (count, sum))| serde_json::json!([case, repeat, count, sum]))
        .collect();
    assert_eq!(answer["trials"], Value::Array(expected));
    assert_eq!(answer["latency"][0][0], 0);
    let telemetry: Vec<i64> = answer["telemetry"][0]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_i64)
        .collect();
    assert!(
        telemetry[0] > 0 && telemetry[0] >= telemetry[1] && telemetry[2] > 1,
        "{telemetry:?}"
    );
}
