//! The main job: a real model on a real runtime, measured, stored and read back.

use std::fs;
use std::path::Path;

use edgedyno_tests::commands::{QUICK, finding_codes, number, run, sha256, small_model, text};
use edgedyno_tests::schema::assert_matches_schema;
use edgedyno_tests::{Sandbox, runtime};
use serde_json::Value;

/// What every run of a real model must hold, whatever the runtime.
#[track_caller]
fn assert_measured(document: &Value, model: &Path) {
    assert_matches_schema(document, "summary");
    let case = &document["cases"][0];
    let fields = &case["fields"];
    for stage in ["read", "load", "bind", "first", "second", "total"] {
        let time = number(&fields[format!("cold_{stage}_ms")]);
        assert!(time > 0.0, "cold_{stage}_ms is {time}");
    }
    let trials = number(&fields["trials_count"]);
    assert!(trials >= 11.0, "{trials} trials");
    assert_eq!(number(&fields["warmup_trials_count"]), 2.0);
    let [min, p50, p99, max] =
        ["min", "p50", "p99", "max"].map(|name| number(&fields[format!("latency_{name}_ms")]));
    assert!(0.0 < min && min <= p50 && p50 <= p99 && p99 <= max);
    assert!(number(&fields["rate_hz"]) <= 1000.0 / min);

    assert_eq!(number(&fields["threads_requested_count"]), 1.0);
    assert_eq!(fields["cpus_wanted"], fields["cpus_observed"]);
    assert!(number(&fields["threads_observed_count"]) >= 1.0);

    let memory = ["spawned", "dlopened", "loaded", "before_window", "peak"]
        .map(|moment| number(&fields[format!("rss_{moment}_bytes")]));
    assert!(memory[0] > 0.0 && memory[2] > memory[0], "{memory:?}");
    assert!(memory.iter().all(|rss| *rss <= memory[4]), "{memory:?}");

    assert_eq!(text(&fields["model_sha256"]), sha256(model));
    assert_eq!(fields["run_status"], "complete");
    assert_eq!(fields["simulated"], false);
    assert_eq!(number(&fields["outputs_nonfinite_count"]), 0.0);
    assert!(text(&fields["cite"]).contains(&text(&fields["runtime_version"])));
}

#[test]
fn a_light_model_is_measured_on_onnx_runtime() {
    let (Some(model), Some(library)) = (runtime::light_model("squeezenet"), runtime::onnxruntime())
    else {
        return;
    };
    let sandbox = Sandbox::new();
    let path = library.to_str().unwrap();
    let args = [&QUICK[..], &["--runtime", path, "--json"]].concat();
    let document = run(&sandbox, &model, "onnxruntime", &args).ok().json();
    assert_measured(&document, &model);

    let fields = &document["cases"][0]["fields"];
    assert!(number(&fields["cold_dlopen_ms"]) > 0.0);
    assert_eq!(text(&fields["runtime_version"]), runtime::ONNXRUNTIME);
    assert_eq!(text(&fields["runtime_sha256"]), sha256(&library));
    assert_eq!(text(&fields["runtime_path"]), path);
    assert_eq!(text(&fields["input_shapes"]), "data_0 f32 1x3x224x224");
    assert_eq!(
        text(&fields["output_shapes"]),
        "softmaxout_1 f32 1x1000x1x1"
    );
    sandbox.finish();
}

#[test]
fn a_light_model_is_measured_on_the_built_in_runtime() {
    let Some(model) = runtime::light_model("squeezenet") else {
        return;
    };
    let sandbox = Sandbox::new();
    let args = [&QUICK[..], &["--json"]].concat();
    let document = run(&sandbox, &model, "rten", &args).ok().json();
    assert_measured(&document, &model);
    // It is part of the agent: there is no library and no file to hash.
    let fields = &document["cases"][0]["fields"];
    assert_eq!(fields["runtime_path"], Value::Null);
    assert_eq!(fields["cold_dlopen_ms"], Value::Null);
}

#[test]
fn both_runtimes_come_to_the_same_output() {
    let Some(library) = runtime::onnxruntime() else {
        return;
    };
    let sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    let save = [&QUICK[..], &["--save-outputs", "saved", "--runtime"]].concat();
    let save = [&save[..], &[library.to_str().unwrap()]].concat();
    run(&sandbox, &model, "onnxruntime", &save).ok();
    let saved: Vec<_> = fs::read_dir(sandbox.work().join("saved"))
        .unwrap()
        .collect();
    assert_eq!(saved.len(), 1, "one output, one file");

    let compare = [&QUICK[..], &["--reference", "saved", "--json"]].concat();
    let document = run(&sandbox, &model, "rten", &compare).ok().json();
    let fields = &document["cases"][0]["fields"];
    assert!(number(&fields["outputs_max_abs_error"]) < 1e-3);
    assert!(number(&fields["outputs_cosine"]) > 0.9999);
}

#[test]
fn two_versions_of_a_runtime_are_told_apart() {
    let (Some(newer), Some(older)) = (runtime::onnxruntime(), runtime::onnxruntime_older()) else {
        return;
    };
    let sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    for library in [&newer, &older] {
        let path = library.to_str().unwrap();
        let args = [&QUICK[..], &["--runtime", path, "--json"]].concat();
        let document = run(&sandbox, &model, "onnxruntime", &args).ok().json();
        let fields = &document["cases"][0]["fields"];
        assert_eq!(text(&fields["runtime_sha256"]), sha256(library));
        let version = text(&fields["runtime_version"]);
        assert!(path.ends_with(&version), "{version} from {path}");
        let summary = sandbox.edgedyno(["summary", "last"]).ok().stdout;
        assert!(
            summary.contains(&format!("onnxruntime {version}")),
            "{summary}"
        );
    }
}

#[test]
fn a_missing_library_is_said_and_the_built_in_runtime_used() {
    let sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    let line = ["run", model.to_str().unwrap(), "--offline", "--json"];
    let output = sandbox.edgedyno(line.iter().chain(&QUICK)).ok();
    assert_eq!(output.json()["cases"][0]["fields"]["backend"], "rten");
    assert!(output.stderr.contains("rten"), "{}", output.stderr);
}

/// Every reading command must come to the number that `run` printed.
#[test]
fn every_reading_command_shows_the_same_run() {
    let sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    let args = [
        &QUICK[..],
        &["--json", "--tag", "before", "--tag", "spring"],
    ]
    .concat();
    let document = run(&sandbox, &model, "rten", &args).ok().json();
    let fields = &document["cases"][0]["fields"];
    let (id, p50) = (text(&fields["run_id"]), number(&fields["latency_p50_ms"]));

    for name in ["last", "before", "spring", id.as_str(), &id[..6]] {
        let again = sandbox.edgedyno(["summary", name, "--json"]).ok().json();
        assert_eq!(again, document, "named {name}");
    }
    let bare = sandbox
        .edgedyno(["get", "last", "latency_p50_ms"])
        .ok()
        .stdout;
    assert_eq!(bare.trim_end().parse::<f64>().unwrap(), p50);
    let got = sandbox
        .edgedyno(["get", "last", "latency_p50_ms", "--json"])
        .ok()
        .json();
    assert_matches_schema(&got, "get");
    assert_eq!(number(&got["values"][0]["value"]), p50);

    let records = sandbox.edgedyno(["records", "last", "--json"]).ok().stdout;
    let records: Vec<Value> = records
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let with_role = |role: &str| {
        records
            .iter()
            .filter(|record| record["role"] == role)
            .count()
    };
    assert_eq!(with_role("measure") as f64, number(&fields["trials_count"]));
    assert_eq!((with_role("cold"), with_role("warmup")), (2, 2));
    for record in &records {
        assert_matches_schema(record, "records");
    }

    let listed = sandbox.edgedyno(["runs", "list", "--json"]).ok().json();
    assert_matches_schema(&listed, "runs");
    assert_eq!(listed["runs"].as_array().unwrap().len(), 1);
    assert_eq!(
        listed["runs"][0]["tags"],
        serde_json::json!(["before", "spring"])
    );
    sandbox
        .edgedyno(["runs", "tag", "last", "spring", "--remove"])
        .ok();
    sandbox.edgedyno(["summary", "spring"]).expect_code(2);

    let explained = sandbox.edgedyno(["explain", "--json"]).ok().json();
    assert_matches_schema(&explained, "explain");
    let known: Vec<&Value> = explained["fields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|field| &field["name"])
        .collect();
    for name in fields.as_object().unwrap().keys() {
        assert!(
            known.iter().any(|field| *field == name),
            "{name} is not explained"
        );
    }
}

#[test]
fn an_export_holds_every_trial_and_can_be_read_back() {
    let sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    run(&sandbox, &model, "rten", &QUICK).ok();
    let p50 = sandbox
        .edgedyno(["get", "last", "latency_p50_ms"])
        .ok()
        .stdout;
    let records = sandbox.edgedyno(["records", "last", "--json"]).ok().stdout;
    let count = records.lines().count();

    let jsonl = sandbox
        .edgedyno(["export", "last", "--format", "jsonl"])
        .ok()
        .stdout;
    assert_eq!(jsonl, records);
    let csv = sandbox
        .edgedyno(["export", "last", "--format", "csv"])
        .ok()
        .stdout;
    assert_eq!(
        csv.lines().count(),
        count + 1,
        "a header and a line for each trial"
    );
    let columns = csv.lines().next().unwrap().split(',').count();
    assert!(csv.lines().all(|line| line.split(',').count() == columns));

    let written = sandbox
        .edgedyno(["export", "last", "--format", "dir", "-o", "all", "--json"])
        .ok()
        .json();
    assert_matches_schema(&written, "export");
    for file in written["files"].as_array().unwrap() {
        let path = sandbox.work().join("all").join(text(&file["name"]));
        assert_eq!(text(&file["sha256"]), sha256(&path), "{}", path.display());
    }

    sandbox
        .edgedyno(["export", "last", "--format", "profile", "-o", "one"])
        .ok();
    sandbox.edgedyno(["runs", "rm", "last", "--yes"]).ok();
    // The store no longer knows the run: what is read now comes from the file alone.
    sandbox.edgedyno(["summary", "last"]).expect_code(2);
    let profile = "one/profile.json";
    assert_eq!(
        sandbox
            .edgedyno(["get", profile, "latency_p50_ms"])
            .ok()
            .stdout,
        p50
    );
    assert_eq!(
        sandbox.edgedyno(["records", profile, "--json"]).ok().stdout,
        records
    );
    let summary = sandbox.edgedyno(["summary", profile, "--json"]).ok().json();
    assert_matches_schema(&summary, "summary");
    assert!(!finding_codes(&summary["cases"][0]).contains(&"simulated".to_owned()));
}
