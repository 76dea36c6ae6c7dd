//! Comparing through the real path: scripted shifts, gates, baselines, arms that take turns.

use std::sync::{Mutex, MutexGuard, PoisonError};

use edgedyno_tests::commands::{number, small_model, text};
use edgedyno_tests::schema::assert_matches_schema;
use edgedyno_tests::{Output, Sandbox};
use serde_json::Value;

/// Runs the scripted backend with this mean latency and names the run.
fn measure(sandbox: &Sandbox, latency_us: f64, tag: &str) {
    let option = format!("latency_us={latency_us}");
    let line = [
        "run",
        "small.onnx",
        "--backend",
        "fake",
        "--option",
        &option,
        "--warmup",
        "3",
        "--trials",
        "150",
        "--repeat",
        "3",
        "--tag",
        tag,
        "--force",
    ];
    sandbox.edgedyno(line).ok();
}

/// One measuring test at a time: two that spin on the same CPUs would measure each other.
static ALONE: Mutex<()> = Mutex::new(());

/// A sandbox with a model file, and the right to measure.
fn sandbox() -> (Sandbox, MutexGuard<'static, ()>) {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let sandbox = Sandbox::new();
    small_model(&sandbox);
    (sandbox, alone)
}

/// A busy machine may hide a difference, and it is measured again then; it may never turn one round.
fn slower_in_the_end(what: &str, mut attempt: impl FnMut(usize) -> Value) -> Value {
    for number in 0..4 {
        let document = attempt(number);
        match text(&cell(&document)["verdict"]).as_str() {
            "slower" => return document,
            "undecided" => {}
            wrong => panic!("{what} is called {wrong}: {document:#}"),
        }
    }
    panic!("{what} was hidden four times");
}

fn compare(sandbox: &Sandbox, args: &[&str]) -> Output {
    sandbox.edgedyno(["compare"].iter().chain(args).chain(&["--json"]))
}

fn document(output: Output, code: i32) -> Value {
    let document = output.expect_code(code).json();
    assert_matches_schema(&document, "compare");
    document
}

fn cell(document: &Value) -> &Value {
    &document["cells"][0]
}

/// Shifts of 0, 1, 2 and 5 %, both arms measured taking turns.
#[test]
fn scripted_shifts_are_found_and_none_is_not() {
    let (sandbox, _alone) = sandbox();
    measure(&sandbox, 400.0, "before");
    measure(&sandbox, 400.0, "same");
    measure(&sandbox, 404.0, "one");
    measure(&sandbox, 408.0, "two");
    measure(&sandbox, 420.0, "five");
    let rerun = |name: &str| {
        let args = [
            "before",
            name,
            "--between",
            "option.latency_us",
            "--rerun",
            "--repeat",
            "5",
            "--force",
        ];
        document(compare(&sandbox, &args), 0)
    };
    let check = |name: &str, document: &Value| {
        let found = cell(document);
        assert_eq!(found["pairing"], "interleaved");
        assert_eq!(found["rule"], "paired-t");
        assert_eq!(number(&found["min_effect_share"]), 0.01);
        assert_eq!(found["halves"], name == "same");
        assert_eq!(number(&found["a"]["figures"]["repeats_count"]), 5.0);
    };
    for name in ["two", "five"] {
        check(name, &slower_in_the_end(name, |_| rerun(name)));
    }
    // A shift of exactly the minimum effect is found or not; equal arms seldom are, and then by chance.
    for name in ["same", "one"] {
        check(name, &rerun(name));
    }
}

#[test]
fn two_stored_runs_carry_the_spread_between_sessions() {
    let (sandbox, _alone) = sandbox();
    let tags = [["a0", "b0"], ["a1", "b1"], ["a2", "b2"], ["a3", "b3"]];
    let mut used = tags[0];
    let all = slower_in_the_end("10 %", |attempt| {
        used = tags[attempt];
        measure(&sandbox, 300.0, used[0]);
        measure(&sandbox, 330.0, used[1]);
        let args = [used[0], used[1], "--between", "option.latency_us"];
        document(compare(&sandbox, &args), 0)
    });
    let [a, b] = used;
    let args = [a, b, "--between", "option.latency_us"];
    let found = cell(&all);
    assert_eq!(
        (text(&found["verdict"]), text(&found["pairing"])),
        ("slower".into(), "separate".into())
    );
    assert_eq!(found["sessions"]["known"], false);
    assert!(number(&found["half_width_over_sessions"]) > 0.029);
    assert!(number(&found["low_share"]) < number(&found["change_share"]) - 0.025);

    let gated = |pct: &'static str| [&args[..], &["--fail-over", pct]].concat();
    assert_eq!(
        document(compare(&sandbox, &gated("3%")), 5)["gates"][0]["outcome"],
        "tripped"
    );
    assert_eq!(
        document(compare(&sandbox, &gated("50%")), 0)["gates"][0]["outcome"],
        "passed"
    );
    let back = [b, a, "--between", "option.latency_us", "--fail-over", "3%"];
    assert_eq!(
        cell(&document(compare(&sandbox, &back), 0))["verdict"],
        "faster"
    );

    let require = |condition: &'static str| [&args[..], &["--require", condition]].concat();
    document(compare(&sandbox, &require("p50 <= 1us")), 5);
    document(compare(&sandbox, &require("p50 <= 10s")), 0);
    // 450 trials cannot claim p99.99.
    document(compare(&sandbox, &require("p99.99 <= 100s")), 6);
    document(
        compare(
            &sandbox,
            &[&require("p99.99 <= 100s")[..], &["--force"]].concat(),
        ),
        0,
    );
}

#[test]
fn a_baseline_is_kept_in_a_file_and_holds_a_later_run_to_it() {
    let (sandbox, _alone) = sandbox();
    measure(&sandbox, 300.0, "before");
    let saved = compare(&sandbox, &["before", "--save-baseline", "base.json"]);
    document(saved, 0);
    let file = std::fs::read_to_string(sandbox.work().join("base.json")).unwrap();
    assert!(file.len() < 20_000, "{} bytes", file.len());
    assert_matches_schema(&serde_json::from_str(&file).unwrap(), "baseline");
    measure(&sandbox, 300.0, "after");
    let held = document(compare(&sandbox, &["--baseline", "base.json"]), 0);
    assert_eq!(held["b"]["name"], "last");
    assert_ne!(cell(&held)["verdict"], "slower");
    let by_tag = document(compare(&sandbox, &["--baseline", "before", "after"]), 0);
    assert_eq!(cell(&by_tag)["change_share"], cell(&held)["change_share"]);
    // What differs from a file is confirmed by another look at B, which is another session.
    let confirmed = slower_in_the_end("30 %", |attempt| {
        let tag = format!("slow{attempt}");
        measure(&sandbox, 390.0, &tag);
        let line = [
            "--baseline",
            "base.json",
            &tag,
            "--between",
            "option.latency_us",
            "--confirm",
            "--repeat",
            "3",
            "--force",
        ];
        document(compare(&sandbox, &line), 0)
    });
    let found = cell(&confirmed);
    assert_eq!(found["confirmed_by"]["first_verdict"], "slower");
    assert_eq!(found["pairing"], "separate");
    assert!(found["half_width_over_sessions"].is_number());
    // A file has no plan to measure by.
    let refused = compare(&sandbox, &["--baseline", "base.json", "after", "--rerun"]);
    let error = refused.expect_code(2).json();
    let what = text(&error["error"]["what"]);
    assert!(what.contains("holds figures and no plan"), "{what}");
}

#[test]
fn what_was_found_is_measured_again_on_request() {
    let (sandbox, _alone) = sandbox();
    let all = slower_in_the_end("10 %", |attempt| {
        let (a, b) = (format!("a{attempt}"), format!("b{attempt}"));
        measure(&sandbox, 300.0, &a);
        measure(&sandbox, 330.0, &b);
        let across = [
            "--between",
            "option.latency_us",
            "--confirm",
            "--repeat",
            "3",
            "--force",
        ];
        let args = [&[a.as_str(), &b], &across[..]].concat();
        document(compare(&sandbox, &args), 0)
    });
    let found = cell(&all);
    assert_eq!(found["pairing"], "interleaved");
    assert_eq!(found["confirmed_by"]["first_verdict"], "slower");
    let run = text(&found["confirmed_by"]["run"]);
    let runs = sandbox.edgedyno(["runs", "list", "--json"]).ok().json();
    let newest = &runs["runs"][0];
    assert_eq!(
        (text(&newest["id"]), text(&newest["command"])),
        (run, "compare".into())
    );
}

/// Both sides of every cell, `pairing` and the run of the document.
fn rerun(sandbox: &Sandbox, args: &[&str]) -> Value {
    document(compare(sandbox, args), 0)
}

#[test]
fn two_sweeps_are_measured_again_taking_turns() {
    let (sandbox, _alone) = sandbox();
    for tag in ["first", "second"] {
        let line = [
            "sweep",
            "small.onnx",
            "--axis",
            "backend=fake",
            "--axis",
            "option.latency_us=300,400",
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
    let again = rerun(
        &sandbox,
        &["first", "second", "--rerun", "--repeat", "3", "--force"],
    );
    let cells = again["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 2);
    for cell in cells {
        assert_eq!(cell["pairing"], "interleaved");
        assert_eq!(cell["halves"], true, "one case against itself: {cell:#}");
        assert_eq!(cell["a"]["figures"]["repeats_count"], 3);
        assert_ne!(cell["verdict"], "slower");
        assert_ne!(cell["verdict"], "faster");
    }
    // What a sweep says between its own cases is confirmed by a run of its own.
    let confirmed = slower_in_the_end("a third more", |_| {
        let args = [
            "first",
            "--between",
            "option.latency_us=300,400",
            "--confirm",
            "--repeat",
            "3",
            "--force",
        ];
        rerun(&sandbox, &args)
    });
    assert_eq!(cell(&confirmed)["confirmed_by"]["first_verdict"], "slower");
}

#[test]
fn a_sweep_over_runtimes_is_measured_again_with_its_library() {
    let Some(library) = edgedyno_tests::runtime::onnxruntime() else {
        return;
    };
    let (mut sandbox, _alone) = sandbox();
    sandbox.env("EDGEDYNO_ONNXRUNTIME", library);
    let line = [
        "sweep",
        "small.onnx",
        "--axis",
        "backend=rten,onnxruntime",
        "--warmup",
        "2",
        "--trials",
        "30",
        "--repeat",
        "2",
        "--tag",
        "both",
        "--force",
    ];
    sandbox.edgedyno(line).ok();
    // The library is found by the stored plan and not by the environment.
    sandbox.env_remove("EDGEDYNO_ONNXRUNTIME");
    let across = ["both", "--between", "backend=rten,onnxruntime", "--rerun"];
    let args = [&across[..], &["--repeat", "2", "--force"]].concat();
    let again = rerun(&sandbox, &args);
    let cell = cell(&again);
    assert_eq!(cell["a"]["figures"]["repeats_count"], 2, "{cell:#}");
    assert_eq!(cell["b"]["figures"]["repeats_count"], 2, "{cell:#}");
}

/// What a share of a stressor's maximum stands for is known since the sweep, and taken from the store.
#[test]
fn a_case_under_a_share_of_a_load_is_measured_again_by_the_calibration_there_is() {
    let (sandbox, _alone) = sandbox();
    let line = [
        "sweep",
        "small.onnx",
        "--axis",
        "backend=fake",
        "--axis",
        "condition=idle,mem_read:cpu0@50%/ws=8MiB",
        "--warmup",
        "2",
        "--trials",
        "30",
        "--repeat",
        "2",
        "--tag",
        "loaded",
        "--force",
    ];
    sandbox.edgedyno(line).ok();
    let across = "condition=idle,mem_read:cpu0@50%/ws=8MiB";
    let args = [
        "loaded",
        "--between",
        across,
        "--rerun",
        "--repeat",
        "2",
        "--force",
    ];
    let again = rerun(&sandbox, &args);
    let found = cell(&again);
    assert_eq!(found["pairing"], "interleaved");
    for side in ["a", "b"] {
        assert_eq!(found[side]["figures"]["repeats_count"], 2, "{found:#}");
    }
    let runs = sandbox.edgedyno(["runs", "list", "--json"]).ok().json();
    let commands = runs["runs"].as_array().unwrap().iter();
    let commands: Vec<String> = commands.map(|run| text(&run["command"])).collect();
    assert_eq!(commands, ["compare", "sweep", "calibrate"]);
}

#[test]
fn a_tag_on_two_runs_is_an_error_that_names_both() {
    let (sandbox, _alone) = sandbox();
    for _ in 0..2 {
        measure(&sandbox, 300.0, "twice");
    }
    let runs = sandbox.edgedyno(["runs", "list", "--json"]).ok().json();
    let stderr = sandbox.edgedyno(["summary", "twice"]).expect_code(2).stderr;
    for run in runs["runs"].as_array().unwrap() {
        let id = text(&run["id"]);
        assert!(stderr.contains(&id), "no {id} in\n{stderr}");
    }
    let compared = compare(&sandbox, &["twice", "last"]).expect_code(2).stderr;
    assert!(compared.contains("twice"), "{compared}");
}

#[test]
fn cases_are_named_and_wrong_questions_are_answered() {
    let (sandbox, _alone) = sandbox();
    measure(&sandbox, 300.0, "a");
    measure(&sandbox, 330.0, "b");
    let error = |args: &[&str]| {
        let error = compare(&sandbox, args).expect_code(2).json();
        assert_matches_schema(&error, "error");
        (
            text(&error["error"]["what"]),
            error["error"]["hint"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        )
    };
    assert!(error(&["a", "b"]).1.contains("--between option.latency_us"));
    assert!(error(&["a"]).1.contains("--between"));
    // The same trials on both sides are equal whatever the board did.
    assert!(error(&["a", "a"]).0.contains("the same case"));
    assert!(error(&["--baseline", "b"]).1.contains("--rerun"));
    assert!(
        error(&["--baseline", "gone.json"])
            .1
            .contains("--save-baseline")
    );
    assert!(
        error(&["a", "b", "--fail-over", "0.05"])
            .0
            .contains("write 5%")
    );
    assert!(
        error(&["a", "b", "--metric", "colour"])
            .1
            .contains("one of")
    );
    assert!(
        error(&["a", "b", "--rule", "libreyolo", "--metric", "p99"])
            .1
            .contains("--metric rate")
    );
    assert!(
        error(&["a", "b", "--require", "p98 <= 3ms"])
            .0
            .contains("p98")
    );
    assert!(
        error(&[
            "a",
            "b",
            "--between",
            "option.latency_us",
            "--rule",
            "paired-t"
        ])
        .1
        .contains("--rerun")
    );
    // Named one by one, whatever differs is what is compared.
    let key = |tag: &str| {
        let all = sandbox.edgedyno(["summary", tag, "--json"]).json();
        format!(
            "{tag}/{}",
            &text(&all["cases"][0]["fields"]["case_key"])[..8]
        )
    };
    let named = document(
        compare(&sandbox, &[&key("a"), &key("b"), "--rule", "2se"]),
        0,
    );
    assert_eq!(cell(&named)["compared"][0], "option.latency_us");
    assert_eq!(cell(&named)["rule"], "2se");
    for format in ["table", "markdown", "junit"] {
        let line = [
            "compare",
            "a",
            "b",
            "--between",
            "option.latency_us",
            "--format",
            format,
        ];
        let output = sandbox.edgedyno(line).ok().stdout;
        assert!(output.contains("p50") && output.contains("330"), "{output}");
    }
}

/// A real model against itself: equal arms are not called different beyond chance, which one comparison
/// at 5 % with a minimum effect leaves little of.
#[test]
fn a_real_model_against_itself_takes_turns() {
    let (sandbox, _alone) = sandbox();
    let line = [
        "run",
        "small.onnx",
        "--backend",
        "rten",
        "--repeat",
        "2",
        "--warmup",
        "20",
        "--duration",
        "0.2s",
        "--tag",
        "a",
        "--force",
    ];
    sandbox.edgedyno(line).ok();
    let args = ["a", "a", "--rerun", "--repeat", "4", "--force"];
    let all = document(compare(&sandbox, &args), 0);
    let found = cell(&all);
    assert_eq!(
        (found["halves"].as_bool(), found["simulated"].as_bool()),
        (Some(true), Some(false))
    );
    assert_eq!(number(&found["a"]["figures"]["repeats_count"]), 4.0);
    assert!(found["p_value"].is_number());
}

#[test]
fn a_self_check_says_what_can_be_seen() {
    let (sandbox, _alone) = sandbox();
    let line = ["selfcheck", "--repeat", "2", "--json", "--force"];
    let report = sandbox.edgedyno(line).ok().json();
    assert_matches_schema(&report, "selfcheck");
    assert_matches_schema(&report["against_itself"], "compare");
    let period = number(&report["loop_period_ns"]);
    assert!(number(&report["empty_trial_ns"]) <= period, "{report:#}");
    assert!(number(&report["clock_resolution_ns"]) >= 1.0);
    assert!(number(&report["detours"]["observed_ns"]) > 0.0);
    assert!(number(&report["visible_here_share"]) > 0.0);
    // Every round has a repeat during which nobody looked at the board.
    let watched = &report["perturbation"];
    assert_eq!(watched["rounds_count"], 2, "{report:#}");
    assert!(number(&watched["low"]) <= number(&watched["ratio"]));
    assert!(number(&watched["control_low"]) <= number(&watched["control_high"]));
    assert!(number(&report["sampler_cpu_share"]) > 0.0);
    assert_eq!(report["allocator_calls"], 0, "{report:#}");
    let kernel = &report["system_calls"];
    let is_excused = report["not_measured"].to_string().contains("system calls");
    assert!(*kernel == 0 || kernel.is_null() && is_excused, "{report:#}");
    let plans: Vec<f64> = report["visible"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| number(&p["repeats"]))
        .collect();
    assert_eq!(plans, [2.0, 3.0, 5.0, 10.0]);
    let runs = sandbox.edgedyno(["runs", "list", "--json"]).ok().json();
    assert_eq!(runs["runs"][0]["command"], "selfcheck");
    assert_eq!(runs["runs"][0]["cases_count"], 2);
    // A runtime in Rust allocates on the thread that measures, and that is told as well.
    let words = ["get", "last", "tool_allocator_calls_count", "--json"];
    let told = sandbox.edgedyno(words).ok().json();
    let values = told["values"].as_array().unwrap();
    let network = values.iter().find(|value| value["simulated"] == false);
    assert!(
        network.is_none_or(|case| number(&case["value"]) > 0.0),
        "{told:#}"
    );
}
