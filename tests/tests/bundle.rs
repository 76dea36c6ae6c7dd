//! Bundles and shared stores with the real program: what goes out comes in, and nothing private goes with it.

use std::fs;

use edgedyno_tests::commands::small_model;
use edgedyno_tests::schema::assert_matches_schema;
use edgedyno_tests::{Sandbox, workspace};
use serde_json::Value;

/// A sweep on the built-in runtime, with telemetry.
fn sweep(sandbox: &Sandbox, tag: &str) {
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
        "60",
        "--repeat",
        "2",
        "--tag",
        tag,
    ];
    sandbox.edgedyno(line).ok();
}

/// What the reading commands say of a run.
fn said(sandbox: &Sandbox, run: &str, store: &str) -> Vec<String> {
    let lines: [&[&str]; 6] = [
        &["summary", run],
        &["summary", run, "--json"],
        &["get", run, "--json"],
        &["records", run, "--json"],
        &["samples", run, "--json"],
        &["export", run, "--format", "csv"],
    ];
    let mut said: Vec<String> = lines
        .iter()
        .map(|line| {
            sandbox
                .edgedyno(line.iter().copied().chain(["--store", store]))
                .ok()
                .stdout
        })
        .collect();
    let page = format!("{run}-report.html");
    sandbox
        .edgedyno(["report", run, "-o", &page, "--store", store])
        .ok();
    said.push(fs::read_to_string(sandbox.work().join(page)).unwrap());
    said
}

fn own_store(sandbox: &Sandbox) -> String {
    sandbox.store().display().to_string()
}

#[test]
fn a_run_in_a_bundle_is_the_run_it_was_made_of() {
    let sandbox = Sandbox::new();
    sweep(&sandbox, "first");
    let made = sandbox
        .edgedyno([
            "export",
            "first",
            "--bundle",
            "whole.tar.gz",
            "--private",
            "--with",
            "outputs,models",
            "--json",
        ])
        .ok()
        .json();
    assert_matches_schema(&made, "bundled");
    let line = [
        "import",
        "whole.tar.gz",
        "--store",
        "other",
        "--models",
        "models",
        "--json",
    ];
    let taken = sandbox.edgedyno(line).ok().json();
    assert_matches_schema(&taken, "imported");
    assert_eq!(taken["runs"][0]["sha256"], made["sha256"]);
    assert_eq!(taken["runs"][0]["attempts_count"], 4);
    assert_eq!(
        said(&sandbox, "first", "other"),
        said(&sandbox, "first", &own_store(&sandbox))
    );
    let model = fs::read(sandbox.work().join("small.onnx")).unwrap();
    assert_eq!(
        fs::read(sandbox.work().join("models/small.onnx")).unwrap(),
        model
    );

    let again = sandbox.edgedyno(line).ok().json();
    assert_eq!(
        (
            &again["runs"][0]["new"],
            &again["runs"][0]["attempts_known_count"]
        ),
        (&false.into(), &4.into())
    );
    let listed = sandbox
        .edgedyno(["runs", "list", "--store", "other", "--json"])
        .ok()
        .json();
    assert_matches_schema(&listed, "runs");
    assert_eq!(listed["runs"][0]["imported"]["source"], "whole.tar.gz");
    let shown = sandbox
        .edgedyno(["runs", "show", "first", "--store", "other", "--json"])
        .ok()
        .json();
    assert_matches_schema(&shown, "run");

    // What was measured elsewhere is not gone on with here.
    let resumed = sandbox.edgedyno(["sweep", "--resume", "first", "--store", "other"]);
    assert!(resumed.expect_code(2).stderr.contains("rerun"));
}

#[test]
fn a_usual_bundle_has_every_figure_and_nothing_private() {
    let mut sandbox = Sandbox::new();
    sandbox.env("USER", "grace-hopper");
    sweep(&sandbox, "first");
    let bundle = sandbox.work().join("usual.tar.gz");
    sandbox
        .edgedyno(["export", "first", "--bundle", "usual.tar.gz"])
        .ok();
    let machine = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let folder = sandbox.work().parent().unwrap().display().to_string();
    // Members lie in it as they are once it is unpacked by the usual means.
    let unpacked = std::process::Command::new("gzip")
        .arg("-dc")
        .arg(&bundle)
        .output()
        .unwrap();
    assert!(unpacked.status.success());
    let text = String::from_utf8_lossy(&unpacked.stdout);
    // A short name is part of many words: `vm` of `vmstat`.
    let machine = Some(machine.as_str()).filter(|name| name.len() > 5);
    for word in ["grace-hopper", &folder, "/home/"]
        .into_iter()
        .chain(machine)
    {
        assert!(!text.contains(word), "{word}");
    }
    sandbox
        .edgedyno(["import", "usual.tar.gz", "--store", "other"])
        .ok();
    let figures = |store: &str| {
        let all = sandbox
            .edgedyno(["get", "first", "--json", "--store", store])
            .ok()
            .json();
        let cases = all["cases"].as_array().unwrap().clone();
        cases.iter().map(Value::to_string).collect::<Vec<_>>()
    };
    assert_eq!(figures("other"), figures(&own_store(&sandbox)));
    let trials = |store: &str| {
        sandbox
            .edgedyno(["records", "first", "--json", "--store", store])
            .ok()
            .stdout
    };
    assert_eq!(trials("other"), trials(&own_store(&sandbox)));
    let rerun = sandbox.edgedyno(["rerun", "first", "--store", "other"]);
    let rerun = rerun.expect_code(2);
    assert!(
        rerun.stderr.contains("came in a bundle"),
        "{}",
        rerun.stderr
    );
}

#[test]
fn a_bundle_that_was_cut_short_leaves_the_store_as_it_was() {
    let sandbox = Sandbox::new();
    sweep(&sandbox, "first");
    sandbox
        .edgedyno(["export", "first", "--bundle", "good.tar.gz", "--no-report"])
        .ok();
    let good = fs::read(sandbox.work().join("good.tar.gz")).unwrap();
    fs::write(sandbox.work().join("cut.tar.gz"), &good[..good.len() / 2]).unwrap();
    let refused = sandbox.edgedyno(["import", "cut.tar.gz", "--store", "other"]);
    let refused = refused.expect_code(2);
    assert!(
        refused.stderr.contains("no sound bundle") && refused.stderr.contains("hint:"),
        "{}",
        refused.stderr
    );
    let listed = sandbox
        .edgedyno(["runs", "list", "--store", "other", "--json"])
        .ok()
        .json();
    assert_eq!(listed["runs"], Value::Array(Vec::new()));
    for wrong in [
        &["export", "first/0", "--bundle", "x.tar.gz"][..],
        &["export", "first", "--bundle", "missing/x.tar.gz"],
        &["export", "first", "--private", "--format", "csv"],
        &["export", "first"],
        &["import", "missing.tar.gz"],
    ] {
        sandbox.edgedyno(wrong).expect_code(2);
    }
}

#[test]
fn stores_come_to_hold_the_same_runs() {
    let sandbox = Sandbox::new();
    sweep(&sandbox, "first");
    let pushed = sandbox
        .edgedyno(["runs", "push", "team", "--json"])
        .ok()
        .json();
    assert_matches_schema(&pushed, "merged");
    assert_eq!(pushed["runs"][0]["new"], true);
    sweep(&sandbox, "second");
    sandbox.edgedyno(["runs", "push", "team", "second"]).ok();
    let pulled = sandbox
        .edgedyno(["runs", "pull", "team", "--json"])
        .ok()
        .json();
    assert_matches_schema(&pulled, "merged");
    for run in pulled["runs"].as_array().unwrap() {
        assert_eq!(
            (&run["new"], &run["attempts_count"]),
            (&false.into(), &0.into())
        );
        assert_eq!(run["attempts_known_count"], 4);
    }
    assert_eq!(
        said(&sandbox, "second", "team"),
        said(&sandbox, "second", &own_store(&sandbox))
    );
    let itself = own_store(&sandbox);
    let refused = sandbox.edgedyno(["runs", "push", &itself]);
    assert!(refused.expect_code(2).stderr.contains("this store itself"));
    let nowhere = sandbox.edgedyno(["runs", "pull", "missing"]);
    assert_eq!(nowhere.code, 2, "{}", nowhere.stderr);
}

/// `docs/bundles.md` does what it says.
#[test]
fn every_command_of_the_page_of_bundles_runs() {
    let page = fs::read_to_string(workspace::root().join("docs/bundles.md")).unwrap();
    let mut sandbox = Sandbox::new();
    sandbox.env_remove("EDGEDYNO_STORE");
    small_model(&sandbox);
    fs::rename(
        sandbox.work().join("small.onnx"),
        sandbox.work().join("net.onnx"),
    )
    .unwrap();
    let (_, commands) = page.split_once("```sh\n").unwrap();
    let (commands, _) = commands.split_once("```").unwrap();
    for line in commands.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[0], "edgedyno");
        sandbox.edgedyno(&words[1..]).ok();
    }
}
