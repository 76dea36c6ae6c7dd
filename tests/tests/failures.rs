//! What goes wrong in a worker becomes a stored row, and the rest of the plan goes on.

use edgedyno_tests::commands::{
    QUICK, finding_codes, make, number, run, small_model, summary, text,
};
use edgedyno_tests::schema::assert_matches_schema;
use edgedyno_tests::{Sandbox, runtime};
use serde_json::Value;

/// Runs the scripted backend with a fault and returns the case that the store then holds.
fn fail(sandbox: &Sandbox, fault: &str, at: &str, args: &[&str]) -> Value {
    let model = small_model(sandbox);
    let (fault, at) = (format!("fault={fault}"), format!("at={at}"));
    let script = ["--option", &fault, "--option", &at, "--repeat", "2"];
    let rules = ["--warmup", "2", "--duration", "0.1s"];
    let args = [&script[..], &rules, args].concat();
    run(sandbox, &model, "fake", &args).expect_code(3);
    let document = sandbox
        .edgedyno(["summary", "last", "--json"])
        .expect_code(3)
        .json();
    assert_matches_schema(&document, "summary");
    document["cases"][0].clone()
}

/// Every repeat was tried, and each left a row of that stage and code.
#[track_caller]
fn assert_rows(case: &Value, stage: &str, code: &str, detail: &str) {
    let rows = case["failures"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "one row for each repeat: {rows:#?}");
    for (index, row) in rows.iter().enumerate() {
        assert_eq!(row["repeat"], index);
        assert_eq!((&row["stage"], &row["code"]), (&stage.into(), &code.into()));
        let found = text(&row["detail"]);
        assert!(found.contains(detail), "{found:?} holds no {detail:?}");
    }
    assert_eq!(number(&case["fields"]["repeats_failed_count"]), 2.0);
    assert_eq!(case["fields"]["latency_p50_ms"], Value::Null);
}

#[test]
fn a_crash_names_its_signal() {
    let sandbox = Sandbox::new();
    let case = fail(&sandbox, "crash", "5", &[]);
    assert_rows(&case, "measure", "crash", "SIGSEGV");
    // Two cold trials, two of warm-up and the first measured one were over before it.
    assert_eq!(case["failures"][0]["trials_count"], 5);
    let records = sandbox.edgedyno(["records", "last", "--json"]).ok().stdout;
    assert_eq!(records.lines().count(), 10);
    sandbox.finish();
}

#[test]
fn an_abort_leaves_its_last_words() {
    let sandbox = Sandbox::new();
    let case = fail(&sandbox, "abort", "5", &[]);
    assert_rows(&case, "measure", "crash", "SIGABRT");
    assert!(text(&case["failures"][0]["stderr"]).contains("last words"));
    let table = sandbox.edgedyno(["summary", "last"]).stdout;
    assert!(table.contains("last words"), "{table}");
}

#[test]
fn a_kill_from_outside_is_not_called_out_of_memory() {
    let sandbox = Sandbox::new();
    let case = fail(&sandbox, "kill", "5", &[]);
    assert_rows(&case, "measure", "killed", "cause unknown");
}

#[test]
fn a_hang_is_ended_at_its_stages_time_out() {
    for (at, stage, limit) in [
        ("6", "measure", ["--timeout-trial", "0.3s"]),
        ("load", "load", ["--timeout-load", "0.3s"]),
        ("1", "cold", ["--timeout-compile", "0.3s"]),
    ] {
        let sandbox = Sandbox::new();
        let case = fail(&sandbox, "hang", at, &limit);
        assert_rows(&case, stage, "hang", "0.3 s");
        sandbox.finish();
    }
}

#[test]
fn leaving_early_is_a_failure_even_with_code_0() {
    for (fault, detail) in [("exit", "exit code 3"), ("quiet_exit", "exit code 0")] {
        let sandbox = Sandbox::new();
        let case = fail(&sandbox, fault, "5", &[]);
        assert_rows(&case, "measure", "exit", detail);
    }
}

#[test]
fn an_error_of_the_backend_is_told_in_its_words() {
    for (at, stage) in [("load", "load"), ("bind", "bind"), ("5", "measure")] {
        let sandbox = Sandbox::new();
        let case = fail(&sandbox, "error", at, &[]);
        assert_rows(&case, stage, "backend_error", "fake backend error 17");
    }
}

#[test]
fn running_out_under_a_memory_limit_is_out_of_memory() {
    let sandbox = Sandbox::new();
    let case = fail(&sandbox, "oom", "5", &["--memory-limit", "64MiB"]);
    assert_rows(&case, "measure", "out_of_memory", "67108864 bytes");
    assert!(text(&case["failures"][0]["hint"]).contains("--memory-limit"));
}

#[test]
fn the_table_shows_stage_code_and_every_repeat() {
    let sandbox = Sandbox::new();
    fail(&sandbox, "crash", "5", &[]);
    let table = sandbox.edgedyno(["summary", "last"]).expect_code(3).stdout;
    for words in [
        "repeat 0 failed in measure",
        "repeat 1 failed in measure",
        "cause: crash",
        "warm: no repeat was completed; 2 trials of unfinished ones",
    ] {
        assert!(table.contains(words), "no {words:?} in\n{table}");
    }
}

#[test]
fn an_operator_that_is_missing_is_named_with_its_node() {
    let Some(model) = runtime::light_model("bvlc_alexnet") else {
        return;
    };
    let sandbox = Sandbox::new();
    run(&sandbox, &model, "rten", &QUICK).expect_code(3);
    let row = summary(&sandbox, "last")["cases"][0]["failures"][0].clone();
    assert_eq!(row["stage"], "load");
    let detail = text(&row["detail"]);
    assert!(
        detail.contains("LRN") && detail.contains("\"n2\""),
        "{detail}"
    );
}

/// What only a loaded model can tell is a row, on either runtime in the same words.
#[test]
fn a_shape_that_does_not_fit_is_a_row() {
    let Some(library) = runtime::onnxruntime() else {
        return;
    };
    let library = ["--runtime", library.to_str().unwrap()];
    let sandbox = Sandbox::new();
    let fixed = small_model(&sandbox);
    let open = make(&sandbox, "open.onnx", &["--dynamic"]);
    for (model, shape, words) in [
        (&fixed, Some("input=1x3"), "2 dims"),
        (&fixed, Some("nosuch=1x3x32x32"), "no input `nosuch`"),
        (&open, None, "`input` dim 0 (N), 2 (H), 3 (W)"),
    ] {
        let shape: Vec<&str> = shape.iter().flat_map(|shape| ["--shape", shape]).collect();
        for (backend, library) in [("rten", &[][..]), ("onnxruntime", &library[..])] {
            let args = [&QUICK[..], &shape, library].concat();
            run(&sandbox, model, backend, &args).expect_code(3);
            let row = summary(&sandbox, "last")["cases"][0]["failures"][0].clone();
            assert_eq!(row["stage"], "load", "{row:#}");
            assert!(text(&row["detail"]).contains(words), "{row:#}");
        }
    }
    let shape = ["--shape", "input=1x3x32x32"];
    run(&sandbox, &open, "rten", &[&QUICK[..], &shape].concat()).ok();
}

#[test]
fn an_output_that_is_not_finite_is_a_finding() {
    let sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    let args = [&QUICK[..], &["--option", "wrong_output=true", "--json"]].concat();
    let document = run(&sandbox, &model, "fake", &args).json();
    let case = &document["cases"][0];
    assert!(number(&case["fields"]["outputs_nonfinite_count"]) > 0.0);
    let codes = finding_codes(case);
    assert!(
        codes.iter().any(|code| code.contains("nonfinite")),
        "{codes:?}"
    );
}

/// A library that writes to stdout and stderr spoils neither the result nor the run.
#[test]
fn noise_of_a_library_does_not_reach_the_result() {
    let sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    let args = [&QUICK[..], &["--option", "flood_bytes=10000000", "--json"]].concat();
    let output = run(&sandbox, &model, "fake", &args).ok();
    assert_matches_schema(&output.json(), "summary");
    assert!(
        output.stderr.len() < 10_000,
        "{} bytes",
        output.stderr.len()
    );
}
