//! Other models beside a case, from the command line to what each of them costs the other. What is asserted
//! is what was done, never how much slower anything got.

use edgedyno_tests::commands::{
    finding_codes, number, run_beside, small_model, summary, sweep_beside, text,
};
use edgedyno_tests::schema::assert_matches_schema;
use edgedyno_tests::skip::has;
use edgedyno_tests::{Need, Sandbox};
use serde_json::Value;

/// Two models of different content.
fn models(sandbox: &Sandbox) {
    let a = small_model(sandbox);
    let bytes = std::fs::read(a).unwrap();
    // An unknown field at the end changes the content and nothing else.
    let other = [bytes, vec![0xf8, 0x7f, 0x01]].concat();
    std::fs::write(sandbox.work().join("b.onnx"), other).unwrap();
}

fn cases(document: &Value) -> &Vec<Value> {
    document["cases"].as_array().unwrap()
}

#[test]
fn a_run_beside_another_model_measures_both_together_and_each_alone() {
    if !has(&[Need::Cpus(2)]) {
        return;
    }
    let sandbox = Sandbox::new();
    models(&sandbox);
    let rules = ["--duration", "500ms", "--repeat", "2", "--force"];
    run_beside(&sandbox, "model:b.onnx@20Hz:cpu0", &rules).ok();
    let document = summary(&sandbox, "last");
    assert_matches_schema(&document, "summary");
    let cases = cases(&document);
    let named = |at: usize| {
        let case = &cases[at]["case"];
        (text(&case["model"]["name"]), text(&case["condition"]))
    };
    assert_eq!(
        named(0),
        ("small.onnx".into(), "model:b.onnx@20Hz:cpu0".into())
    );
    assert_eq!(named(1), ("small.onnx".into(), "idle".into()));
    assert_eq!(named(2), ("b.onnx".into(), "idle".into()));
    assert_eq!(
        number(&cases[2]["case"]["scenario"]["rate"]["millihertz"]),
        20_000.0
    );

    let tenant = &cases[0]["tenants"][0];
    assert_eq!(text(&tenant["backend"]), "fake");
    assert_eq!(number(&tenant["repeats_count"]), 2.0);
    assert!(tenant["failure"].is_null() && number(&tenant["trials_count"]) >= 10.0);
    assert!(
        (number(&tenant["rate_hz"]) / 20.0 - 1.0).abs() < 0.03,
        "{tenant:#}"
    );
    assert!(number(&tenant["latency_p50_ms"]) > 0.0);
    assert!(cases[1]["tenants"].as_array().unwrap().is_empty());

    // Its trials are rows of a lane of their own, and of none of the case's figures.
    let pick = "last/condition=model:b.onnx@20Hz:cpu0";
    let records = sandbox.edgedyno(["records", pick, "--json"]).ok();
    let rows = records.stdout.lines();
    let rows: Vec<Value> = rows.map(|row| serde_json::from_str(row).unwrap()).collect();
    let measured = |lane: u64| {
        let of_lane = rows.iter().filter(|row| row["lane"] == lane);
        of_lane.filter(|row| row["role"] == "measure").count()
    };
    assert!(measured(1) > 0);
    let counted = number(&cases[0]["fields"]["trials_count"]);
    assert_eq!(counted, measured(0) as f64);

    let shown = sandbox
        .edgedyno(["summary", "last/condition=model:b.onnx@20Hz:cpu0"])
        .ok();
    assert!(shown.stdout.contains("beside it"), "{}", shown.stdout);
}

#[test]
fn an_experiment_says_what_each_model_pays() {
    if !has(&[Need::Cpus(2)]) {
        return;
    }
    let sandbox = Sandbox::new();
    models(&sandbox);
    let line = [
        "stress",
        "small.onnx",
        "--backend",
        "fake",
        "--condition",
        "model:b.onnx@20Hz:cpu0",
        "--condition",
        "model:b.onnx:cpu0/option.latency_us=2000",
        "--settle",
        "100ms",
        "--warmup",
        "2",
        "--duration",
        "500ms",
        "--repeat",
        "2",
        "--json",
        "--force",
    ];
    let document = sandbox.edgedyno(line).ok().json();
    assert_matches_schema(&document, "contention");
    let points = document["experiments"][0]["points"].as_array().unwrap();
    let conditions: Vec<String> = points.iter().map(|p| text(&p["condition"])).collect();
    assert_eq!(
        conditions,
        [
            "spin:cpu0",
            "model:b.onnx@20Hz:cpu0",
            "model:b.onnx:cpu0/option.latency_us=2000",
        ]
    );
    let paced = &points[1]["tenants"][0];
    assert_eq!(number(&paced["asked_hz"]), 20.0);
    assert!(
        (number(&paced["relative_rate"]["ratio"]) - 1.0).abs() < 0.1,
        "{paced:#}"
    );
    assert!(points[2]["tenants"][0]["asked_hz"].is_null());
    for point in &points[1..] {
        assert_eq!(number(&point["efficiency"]["models"]), 2.0);
        assert_eq!(number(&point["efficiency"]["rounds"]), 2.0);
        assert!(point["tenants"][0]["slowdown"]["latency_p50_ms"]["ratio"].is_number());
        assert!(point["slowdown"]["latency_p50_ms"]["ratio"].is_number());
    }
    let shown = sandbox
        .edgedyno(["stress", "--show", "last", "--force"])
        .ok();
    assert!(shown.stdout.contains("rate × alone"), "{}", shown.stdout);
    assert!(shown.stdout.contains("2 models run at"), "{}", shown.stdout);
}

#[test]
fn an_option_of_the_tenant_is_an_axis_and_its_content_is_in_the_key() {
    if !has(&[Need::Cpus(2)]) {
        return;
    }
    let sandbox = Sandbox::new();
    models(&sandbox);
    let plan = || {
        let quota = ["--axis", "tenant.option.latency_us=500,2000"];
        let rules = ["--duration", "500ms", "--repeat", "1", "--force"];
        let more = [&quota[..], &rules].concat();
        sweep_beside(&sandbox, "idle;model:b.onnx:cpu0", &more).ok();
    };
    plan();
    let document = summary(&sandbox, "last");
    let keys = |document: &Value| -> Vec<(String, String)> {
        let of = |case: &Value| {
            let condition = text(&case["case"]["condition"]);
            (condition, text(&case["fields"]["case_key"]))
        };
        cases(document).iter().map(of).collect()
    };
    let before = keys(&document);
    let conditions: Vec<&str> = before
        .iter()
        .map(|(condition, _)| condition.as_str())
        .collect();
    let expected = [
        "idle",
        "model:b.onnx:cpu0/option.latency_us=500",
        "model:b.onnx:cpu0/option.latency_us=2000",
        // Each of them alone.
        "idle",
        "idle",
    ];
    assert_eq!(conditions, expected);
    let alone = |at: usize| text(&cases(&document)[at]["case"]["options"]["latency_us"]);
    assert_eq!((alone(3), alone(4)), ("500".into(), "2000".into()));

    // The same names with another content are other cases.
    let path = sandbox.work().join("b.onnx");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, [bytes, vec![0xf8, 0x7f, 0x02]].concat()).unwrap();
    plan();
    let after = keys(&summary(&sandbox, "last"));
    assert_eq!(before[0], after[0]);
    assert_eq!(before[1].0, after[1].0);
    assert_ne!(before[1].1, after[1].1);
}

#[test]
fn a_tenant_that_fails_is_a_row_with_its_reason() {
    if !has(&[Need::Cpus(2)]) {
        return;
    }
    let sandbox = Sandbox::new();
    models(&sandbox);
    let run = |condition: &str, duration: &str| {
        run_beside(&sandbox, condition, &["--duration", duration])
    };
    // It cannot begin: some cases have only failure rows.
    let output = run("model:b.onnx:cpu0/option.no_such=1", "500ms");
    assert_eq!(output.code, 8, "{}", output.stderr);
    let document = summary(&sandbox, "last");
    let case = &cases(&document)[0];
    assert_eq!(text(&case["failures"][0]["code"]), "tenant_failed");
    assert!(
        text(&case["tenants"][0]["failure"]).contains("option_refused"),
        "{case:#}"
    );
    // It dies in the middle: measured, and invalid. Within the second of settling it cannot have done more
    // than a thousand trials of a millisecond.
    let condition = "model:b.onnx:cpu0/option.fault=crash/option.at=1010";
    let output = run(condition, "5s");
    assert_eq!(output.code, 6, "{}", output.stderr);
    let document = summary(&sandbox, "last");
    let codes = finding_codes(&cases(&document)[0]);
    assert!(
        codes.iter().any(|code| code == "tenant_failed"),
        "{codes:?}"
    );
}

#[test]
fn what_makes_no_tenant_says_why() {
    let sandbox = Sandbox::new();
    models(&sandbox);
    for (condition, says) in [
        ("model:b.onnx", "CPUs are needed"),
        ("model:gone.onnx:cpu0", "gone.onnx"),
        ("model:b.onnx:cpu999", "CPU 999"),
        ("model:b.onnx@0Hz:cpu0", "0.01Hz"),
    ] {
        let line = [
            "run",
            "small.onnx",
            "--backend",
            "fake",
            "--condition",
            condition,
        ];
        let output = sandbox.edgedyno(line);
        assert_eq!(output.code, 2, "{condition}: {}", output.stderr);
        assert!(
            output.stderr.contains(says),
            "{condition}: {}",
            output.stderr
        );
    }
}
