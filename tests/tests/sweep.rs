//! Sweeps end to end: plan files and flags, failures that end no sweep, resuming, and what comes out.

use std::collections::BTreeMap;

use edgedyno_tests::commands::{finding_codes, make, number, small_model, summary, text};
use edgedyno_tests::schema::assert_matches_schema;
use edgedyno_tests::{Output, Sandbox};
use nix::sys::signal::Signal;
use serde_json::Value;

/// The shortest rules that still measure.
const RULES: &str = "[rules]\nwarmup = '2'\ntrials = 20\n";

/// Writes a plan for a small model and the scripted backend, and sweeps it.
fn sweep(sandbox: &Sandbox, plan: &str, args: &[&str]) -> Output {
    write(sandbox, plan);
    sandbox.edgedyno(["sweep", "plan.toml"].iter().chain(args))
}

fn write(sandbox: &Sandbox, plan: &str) {
    if !sandbox.work().join("small.onnx").exists() {
        small_model(sandbox);
    }
    sandbox.write("plan.toml", plan);
}

/// A plan of the scripted backend with these axes.
fn plan(top: &str, axes: &str) -> String {
    format!("{top}\n[axes]\nmodel = 'small.onnx'\nbackend = 'fake'\n{axes}\n{RULES}")
}

/// Cases of a document by one axis of theirs.
fn by_axis(document: &Value, axis: &str) -> BTreeMap<String, Value> {
    let cases = document["cases"].as_array().unwrap();
    let named = cases.iter().map(|case| {
        let options = &case["case"]["options"];
        let value = match axis {
            "threads" => case["case"]["threads"]["intra"].to_string(),
            "batch" => case["case"]["batch"].to_string(),
            option => text(&options[option]),
        };
        (value, case.clone())
    });
    named.collect()
}

/// Repeat, attempt and outcome of every row of a case.
fn rows(case: &Value) -> Vec<(u64, u64, String)> {
    let repeats = case["repeats"].as_array().unwrap();
    let row = |row: &Value| {
        let number = |name: &str| row[name].as_u64().unwrap();
        (number("repeat"), number("attempt"), text(&row["outcome"]))
    };
    repeats.iter().map(row).collect()
}

fn complete(repeats: u64) -> Vec<(u64, u64, String)> {
    (0..repeats)
        .map(|repeat| (repeat, 0, "complete".to_owned()))
        .collect()
}

#[test]
fn a_plan_file_measures_every_case_and_tells_the_best() {
    let sandbox = Sandbox::new();
    let plan = plan("repeats = 3", "option.latency_us = [300, 500, 900]");
    let document = sweep(&sandbox, &plan, &["--json"]).ok().json();
    assert_matches_schema(&document, "sweep");
    assert_eq!(document["status"], "complete");
    let cases = by_axis(&document, "latency_us");
    assert_eq!(cases.len(), 3);
    for case in cases.values() {
        assert_eq!(rows(case), complete(3));
    }
    let best = document["best"].as_array().unwrap();
    let p50 = best
        .iter()
        .find(|best| best["metric"] == "latency_p50_ms")
        .unwrap();
    assert_eq!(p50["case"], cases["300"]["fields"]["case_key"]);
    // 500 µs against 300 µs with 1 % of jitter leaves no doubt.
    assert_eq!(p50["sure"], true);
    assert!(
        (number(&p50["next_ratio"]) - 5.0 / 3.0).abs() < 0.1,
        "{p50}"
    );

    let table = sandbox.edgedyno(["summary", "last"]).ok().stdout;
    assert!(table.contains("option.latency_us"), "{table}");
    sandbox.finish();
}

#[test]
fn flags_make_the_same_cases_as_a_plan_file() {
    let sandbox = Sandbox::new();
    write(
        &sandbox,
        &plan("", "option.latency_us = [300, 500]\nthreads = [1, 2]"),
    );
    let keys = |output: Output| {
        let document = output.ok().json();
        assert_matches_schema(&document, "sweep-plan");
        let cases = document["cases"].as_array().unwrap().clone();
        (
            cases,
            document["sequence"].clone(),
            document["fingerprint"].clone(),
        )
    };
    let from_file = keys(sandbox.edgedyno(["sweep", "plan.toml", "--dry-run", "--json"]));
    let flags = [
        "sweep",
        "small.onnx",
        "--axis",
        "backend=fake",
        "--axis",
        "option.latency_us=300,500",
        "--axis",
        "threads=1,2",
        "--warmup",
        "2",
        "--trials",
        "20",
        "--dry-run",
        "--json",
    ];
    assert_eq!(keys(sandbox.edgedyno(flags)), from_file);
    assert_eq!(from_file.0.len(), 4);
    assert!(!sandbox.store().exists(), "a dry run makes no store");
}

#[test]
fn a_dry_run_shows_cases_order_and_time() {
    let sandbox = Sandbox::new();
    let plan = plan("repeats = 2\nseed = 5", "threads = [1, 2, 4]")
        .replace("trials = 20", "duration = '2s'");
    let shown = sweep(&sandbox, &plan, &["--dry-run"]).ok().stdout;
    for words in [
        "3 cases, 6 repeats",
        "order: interleaved, seed 5: ",
        "expected time: at least 12 s",
    ] {
        assert!(shown.contains(words), "no {words:?} in\n{shown}");
    }
    assert!(
        shown.lines().all(|line| line.chars().count() <= 100),
        "{shown}"
    );
    // The same seed gives the same order.
    assert_eq!(sweep(&sandbox, &plan, &["--dry-run"]).ok().stdout, shown);
}

/// 100 numbers of threads by 1 000 sizes of batches, each with a finding of its own, and no time for any.
#[test]
fn a_plan_of_a_hundred_thousand_cases_is_laid_out_stored_and_summed_up() {
    let mut sandbox = Sandbox::new();
    sandbox.limit(std::time::Duration::from_secs(300));
    let list = |last: u32| {
        let numbers: Vec<String> = (1..=last).map(|n| n.to_string()).collect();
        numbers.join(", ")
    };
    let axes = format!(
        "threads = [{}]\nbatch = [{}]\n\
         shape.x = {{ values = ['1x30x30'], align = {{ multiple = 32, mode = 'ceil' }} }}",
        list(100),
        list(1000)
    );
    let text = plan("repeats = 2\nseed = 11\ntime_budget = '1us'", &axes);
    let dry = sweep(&sandbox, &text, &["--dry-run", "--json"]).ok().json();
    assert_eq!(dry["cases_count"], 100_000);
    let sequence = dry["sequence"].as_array().unwrap();
    assert_eq!(sequence.len(), 200_000);
    // Every case once in each round, and not in the order of the axes.
    let keys = |value: &Value| text_of(&value[0]);
    for round in sequence.chunks(100_000) {
        let unique: std::collections::BTreeSet<String> = round.iter().map(keys).collect();
        assert_eq!(unique.len(), 100_000);
    }
    let first: Vec<String> = sequence[..100].iter().map(keys).collect();
    let planned = dry["cases"].as_array().unwrap();
    let planned: Vec<String> = planned[..100].iter().map(|c| text_of(&c["key"])).collect();
    assert_ne!(first, planned);

    let outcome = sandbox.edgedyno(["sweep", "plan.toml"]);
    assert_eq!(outcome.code, 3, "nothing is measured: {}", outcome.stderr);
    let unmeasured = outcome.stdout.matches("not run").count();
    assert_eq!(unmeasured, 100_000);
    assert!(
        outcome.stdout.contains("with 200000 repeats to go"),
        "{}",
        outcome.stdout.lines().last().unwrap_or_default()
    );
    let one = sandbox
        .edgedyno(["summary", "last", "--case", &first[0], "--json"])
        .json();
    let codes = finding_codes(&one["cases"][0]);
    assert!(codes.contains(&"shape_aligned".to_owned()), "{codes:?}");
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

#[test]
fn a_mistake_in_a_plan_is_shown_with_line_and_column() {
    let sandbox = Sandbox::new();
    let output = sweep(
        &sandbox,
        "[axes]\nmodel = 'small.onnx'\nthraeds = [1, 2]\n",
        &[],
    );
    let stderr = output.expect_code(2).stderr;
    for words in [
        "plan.toml:3:1",
        "there is no axis `thraeds`",
        "did you mean threads?",
    ] {
        assert!(stderr.contains(words), "no {words:?} in\n{stderr}");
    }
}

#[test]
fn leaving_out_what_is_not_there_is_a_mistake() {
    let sandbox = Sandbox::new();
    small_model(&sandbox);
    let args = [
        "sweep",
        "small.onnx",
        "--axis",
        "threads=1,2",
        "--exclude",
        "threads=4",
    ];
    let stderr = sandbox.edgedyno(args).expect_code(2).stderr;
    assert!(stderr.contains("no case has threads=4"), "{stderr}");
    assert!(stderr.contains("threads is one of 1, 2"), "{stderr}");
}

#[test]
fn flags_beside_a_plan_file_are_refused() {
    let sandbox = Sandbox::new();
    // Also one that says what is usual, which the plan may not.
    for repeat in ["7", "3"] {
        let output = sweep(&sandbox, &plan("", ""), &["--repeat", repeat]);
        let stderr = output.expect_code(2).stderr;
        assert!(stderr.contains("--repeat beside a plan"), "{stderr}");
    }
}

/// What only boards and files can tell is shown with line and column as well.
#[test]
fn a_value_that_does_not_exist_is_shown_where_the_plan_names_it() {
    let sandbox = Sandbox::new();
    small_model(&sandbox);
    let base = "[axes]\nbackend = 'fake'\n";
    let cases = [
        (
            "model = ['small.onnx', 'gone.onnx']",
            "`model` is given at",
            "3:24",
        ),
        (
            "model = 'small.onnx'\nboard = 'nowhere'",
            "`board` is given at",
            "4:9",
        ),
        (
            "model = 'small.onnx'\ncpus = ['0', '999']",
            "`cpus` is given at",
            "4:14",
        ),
        (
            "model = 'small.onnx'\nprecision = 'int8'",
            "`precision` is given at",
            "4:13",
        ),
        (
            "model = 'small.onnx'\nparam.tokens = 4",
            "`param.tokens` is given at",
            "4:16",
        ),
    ];
    for (axes, words, place) in cases {
        let stderr = sweep(&sandbox, &format!("{base}{axes}\n"), &[]);
        let stderr = stderr.expect_code(2).stderr;
        assert!(
            stderr.contains(words) && stderr.contains(&format!("plan.toml:{place}")),
            "no {words} {place} in\n{stderr}"
        );
    }
}

#[test]
fn a_case_that_crashes_stops_after_its_attempts_and_stops_no_other() {
    let sandbox = Sandbox::new();
    let axes = "[[variant]]\nname = 'good'\noption.latency_us = 300\n\
                [[variant]]\nname = 'bad'\noption.latency_us = 400\noption.fault = 'crash'";
    let plan =
        format!("repeats = 4\n[axes]\nmodel = 'small.onnx'\nbackend = 'fake'\n{axes}\n{RULES}");
    // Some cases have only failure rows.
    let document = sweep(&sandbox, &plan, &["--json"]).expect_code(8).json();
    assert_matches_schema(&document, "sweep");
    assert_eq!(document["status"], "complete");
    let cases = by_axis(&document, "latency_us");
    assert_eq!(rows(&cases["300"]), complete(4));
    let failed = [(0, 0, "failed".to_owned()), (1, 0, "failed".to_owned())];
    assert_eq!(rows(&cases["400"]), failed);
    assert!(finding_codes(&cases["400"]).contains(&"given_up".to_owned()));
    assert_eq!(cases["400"]["failures"][0]["code"], "crash");
}

#[test]
fn a_model_that_crashes_on_one_shape_only_is_measured_on_the_others() {
    let sandbox = Sandbox::new();
    make(&sandbox, "open.onnx", &["--dynamic"]);
    let fits = "1x3x32x32";
    let plan = format!(
        "repeats = 1\n[axes]\nmodel = 'open.onnx'\nbackend = 'rten'\nshape.input = ['{fits}', '1x4x32x32']\n{RULES}"
    );
    sandbox.write("plan.toml", plan);
    let document = sandbox
        .edgedyno(["sweep", "plan.toml", "--json"])
        .expect_code(8)
        .json();
    let cases = document["cases"].as_array().unwrap();
    let measured = cases
        .iter()
        .filter(|case| !case["fields"]["latency_p50_ms"].is_null());
    assert_eq!(measured.count(), 1, "{document:#}");
}

/// Each item takes 8 MiB of the 100 MiB that a worker may have: batch 16 is too much.
#[test]
fn running_out_of_memory_in_the_middle_leaves_out_what_is_larger() {
    let sandbox = Sandbox::new();
    let axes = "batch = {values = [1, 4, 16, 32, 64], stop_on = 'oom'}\noption.item_bytes = 8388608\n\
                [limits]\nmemory = '100MiB'";
    let plan = plan("repeats = 2\norder = 'blocked'", axes);
    let document = sweep(&sandbox, &plan, &["--json"]).expect_code(8).json();
    assert_eq!(document["status"], "complete");
    let cases = by_axis(&document, "batch");
    for measured in ["1", "4"] {
        assert_eq!(rows(&cases[measured]), complete(2));
    }
    let failed = |repeat| (repeat, 0, "failed".to_owned());
    assert_eq!(rows(&cases["16"]), [failed(0), failed(1)]);
    assert_eq!(cases["16"]["failures"][0]["code"], "out_of_memory");
    for larger in ["32", "64"] {
        assert_eq!(rows(&cases[larger]), []);
        let codes = finding_codes(&cases[larger]);
        assert!(
            codes.contains(&"larger_than_out_of_memory".to_owned()),
            "{codes:?}"
        );
    }
    let table = sandbox.edgedyno(["summary", "last"]).stdout;
    assert!(table.contains("not run"), "{table}");
}

/// Without `stop_on` every point is tried, and each has its row.
#[test]
fn memory_that_runs_out_ends_no_sweep_by_itself() {
    let sandbox = Sandbox::new();
    let axes = "batch = [1, 32, 64]\noption.item_bytes = 8388608\n[limits]\nmemory = '100MiB'";
    let document = sweep(&sandbox, &plan("repeats = 1", axes), &["--json"])
        .expect_code(8)
        .json();
    let cases = by_axis(&document, "batch");
    for large in ["32", "64"] {
        assert_eq!(cases[large]["failures"][0]["code"], "out_of_memory");
    }
}

#[test]
fn an_interrupted_sweep_is_noticed_and_resumed() {
    let sandbox = Sandbox::new();
    let axes = "option.latency_us = [300, 400, 500]";
    let plan = plan("repeats = 4", axes).replace("trials = 20", "duration = '0.3s'");
    write(&sandbox, &plan);
    let mut running = sandbox.start_edgedyno(["sweep", "plan.toml", "--tag", "mine"]);
    running.wait_until("a first row", |_| attempts(&sandbox) > 1);
    running.signal(Signal::SIGINT);
    let stopped = running.wait().expect_code(130).stderr;
    assert!(
        stopped.contains("go on with `edgedyno sweep --resume"),
        "{stopped}"
    );
    let before = attempts(&sandbox);
    assert!((2..12).contains(&before), "{before} attempts");

    let dry = sandbox
        .edgedyno(["sweep", "--resume", "mine", "--dry-run"])
        .ok()
        .stdout;
    assert!(dry.contains("3 cases, 12 repeats"), "{dry}");
    let document = sandbox
        .edgedyno(["sweep", "--resume", "mine", "--json"])
        .ok()
        .json();
    assert_eq!(document["status"], "complete");
    for case in document["cases"].as_array().unwrap() {
        assert_eq!(rows(case), complete(4));
    }
    let again = sandbox
        .edgedyno(["sweep", "--resume", "mine"])
        .expect_code(2);
    assert!(again.stderr.contains("is complete"), "{}", again.stderr);
    sandbox.finish();
}

/// Attempts that the newest run has stored.
fn attempts(sandbox: &Sandbox) -> u64 {
    if !sandbox.store().exists() {
        return 0;
    }
    let listed = sandbox.edgedyno(["runs", "list", "--json"]);
    let document: Value = serde_json::from_str(&listed.stdout).unwrap_or_default();
    document["runs"][0]["attempts_count"].as_u64().unwrap_or(0)
}

#[test]
fn the_same_plan_begun_again_says_that_it_was_not_finished() {
    let sandbox = Sandbox::new();
    let plan = plan("repeats = 30\ntime_budget = '0.4s'", "threads = [1, 2]");
    sweep(&sandbox, &plan, &[]);
    let first = text(&sandbox.edgedyno(["runs", "list", "--json"]).json()["runs"][0]["id"]);
    let again = sweep(&sandbox, &plan, &[]);
    let notice = format!("`edgedyno sweep --resume {first}` goes on with it");
    assert!(again.stderr.contains(&notice), "{}", again.stderr);
}

#[test]
fn a_time_budget_ends_a_sweep_that_resume_goes_on_with() {
    let sandbox = Sandbox::new();
    let plan = plan(
        "repeats = 200\ntime_budget = '1s'",
        "option.latency_us = [100, 200]",
    );
    let document = sweep(&sandbox, &plan, &["--json"]).json();
    assert_eq!(document["status"], "interrupted");
    let case = &document["cases"][0];
    assert!(finding_codes(case).contains(&"out_of_time".to_owned()));
    assert!(rows(case).len() < 200);
}

#[test]
fn a_stop_rule_adds_repeats_only_where_they_are_needed() {
    let sandbox = Sandbox::new();
    let axes = "[[variant]]\nname = 'steady'\noption.latency_us = 500\n\
                [[variant]]\nname = 'wild'\noption.latency_us = 600\noption.jitter_percent = 60";
    let plan = format!(
        "repeats = 2\n[axes]\nmodel = 'small.onnx'\nbackend = 'fake'\n{axes}\n\
         [rules]\nwarmup = '2'\ntrials = 12\np50_within = '5%'\nmax_repeats = 6\n"
    );
    let document = sweep(&sandbox, &plan, &["--json"]).json();
    let cases = by_axis(&document, "latency_us");
    let repeats = |name: &str| rows(&cases[name]).len();
    assert!(
        repeats("500") <= repeats("600"),
        "{} {}",
        repeats("500"),
        repeats("600")
    );
    assert!((2..=6).contains(&repeats("600")));
    assert_eq!(cases["600"]["rules"]["repeats"], Value::Null);
}

#[test]
fn a_sentinel_is_measured_again_and_again() {
    let sandbox = Sandbox::new();
    let top = "repeats = 1\nsentinel = { every = 2, case = { threads = 1 } }";
    let document = sweep(&sandbox, &plan(top, "threads = [1, 2, 3, 4]"), &["--json"])
        .ok()
        .json();
    let cases = by_axis(&document, "threads");
    assert_eq!(rows(&cases["1"]), complete(3));
    assert_eq!(rows(&cases["2"]), complete(1));
}

/// `wrong_output` of the scripted backend has no tensor to be wrong in, so two real networks stand in:
/// under one name, with other weights.
#[test]
fn a_case_whose_outputs_differ_from_the_reference_is_marked_wrong() {
    let sandbox = Sandbox::new();
    small_model(&sandbox);
    make(&sandbox, "other.onnx", &["--seed", "9"]);
    let plan = format!(
        "repeats = 1\nreference = {{ backend = 'rten' }}\n[axes]\n\
         model = {{ name = 'net', rten = 'small.onnx', onnx = 'other.onnx' }}\n\
         backend = ['rten', 'onnxruntime']\n{RULES}"
    );
    let Some(library) = edgedyno_tests::runtime::onnxruntime() else {
        return;
    };
    let mut sandbox = sandbox;
    sandbox.env("EDGEDYNO_ONNXRUNTIME", library);
    sandbox.write("plan.toml", &plan);
    let document = sandbox
        .edgedyno(["sweep", "plan.toml", "--json"])
        .expect_code(6)
        .json();
    let cases = document["cases"].as_array().unwrap();
    let wrong = |case: &&Value| finding_codes(case).contains(&"wrong_outputs".to_owned());
    let wrong: Vec<&Value> = cases.iter().filter(wrong).collect();
    assert_eq!(wrong.len(), 1);
    assert_eq!(wrong[0]["case"]["backend"], "onnxruntime");
    let best = document["best"].as_array().unwrap();
    let right = cases
        .iter()
        .find(|case| case["case"]["backend"] == "rten")
        .unwrap();
    assert!(
        best.iter()
            .all(|best| best["case"] == right["fields"]["case_key"])
    );

    // With the same weights both runtimes agree.
    sandbox.write("plan.toml", plan.replace("other.onnx", "small.onnx"));
    let document = sandbox
        .edgedyno(["sweep", "plan.toml", "--json"])
        .ok()
        .json();
    for case in document["cases"].as_array().unwrap() {
        assert!(!finding_codes(case).contains(&"wrong_outputs".to_owned()));
    }
    assert_eq!(
        summary(&sandbox, "last")["cases"].as_array().unwrap().len(),
        2
    );
}

/// Rate grows with threads on no backend as surely as it falls with latency, so batch stands for the axis
/// that the grid goes through, and latency for what is looked for.
#[test]
fn a_search_drops_what_cannot_be_the_best_and_answers_by_the_bound() {
    let sandbox = Sandbox::new();
    let plan = "repeats = 6\noptimize = 'min p50 where p50 <= 2ms'\n[axes]\nmodel = 'small.onnx'\nbackend = 'fake'\n\
                option.latency_us = [300, 400, 5000]\n[rules]\nwarmup = '2'\ntrials = 80\n";
    let document = sweep(&sandbox, plan, &["--json"]).ok().json();
    assert_matches_schema(&document, "sweep");
    let cases = by_axis(&document, "latency_us");
    let answer = &document["answer"];
    assert_eq!(answer["goal"], "min p50 where p50 <= 2ms");
    assert_eq!(answer["case"], cases["300"]["fields"]["case_key"]);
    assert!((number(&answer["value"]) - 0.3).abs() < 0.05, "{answer}");
    assert_eq!(rows(&cases["300"]).len(), 6);
    // 5 ms is over the limit at once; 0.4 ms is worse for sure after a few repeats.
    assert_eq!(rows(&cases["5000"]).len(), 1);
    assert!(rows(&cases["400"]).len() < 6, "{:?}", rows(&cases["400"]));
    assert!(finding_codes(&cases["5000"]).contains(&"left_out_by_goal".to_owned()));
}

#[test]
fn a_search_without_the_trials_for_its_condition_says_what_it_takes() {
    let sandbox = Sandbox::new();
    let args = [
        "sweep",
        "small.onnx",
        "--axis",
        "backend=fake",
        "--axis",
        "option.latency_us=300,400",
        "--warmup",
        "2",
        "--trials",
        "20",
        "--repeat",
        "1",
        "--optimize",
        "min p50 where p99 <= 2ms",
        "--json",
    ];
    small_model(&sandbox);
    let document = sandbox.edgedyno(args).ok().json();
    assert_eq!(document["answer"]["case"], Value::Null);
    let needs = text(&document["answer"]["contenders"][0]["needs"]);
    assert!(needs.contains("of the 662"), "{needs}");
    let wrong = sandbox
        .edgedyno(["sweep", "small.onnx", "--optimize", "max speed"])
        .expect_code(2);
    assert!(
        wrong.stderr.contains("no field `speed`"),
        "{}",
        wrong.stderr
    );
}

#[test]
fn a_run_and_a_sweep_are_measured_again_by_their_plans() {
    let sandbox = Sandbox::new();
    let plan = plan("repeats = 2", "option.latency_us = [300, 400]");
    let first = sweep(&sandbox, &plan, &["--json"]).ok().json();
    let again = sandbox
        .edgedyno(["rerun", "last", "--tag", "again", "--json"])
        .ok()
        .json();
    assert_matches_schema(&again, "sweep");
    let keys = |document: &Value| {
        let cases = document["cases"].as_array().unwrap().clone();
        let keys = cases.iter().map(|case| text(&case["fields"]["case_key"]));
        keys.collect::<Vec<_>>()
    };
    assert_eq!(keys(&again), keys(&first));
    assert_ne!(again["run"], first["run"]);

    let run = [
        "run",
        "small.onnx",
        "--backend",
        "fake",
        "--repeat",
        "2",
        "--warmup",
        "2",
        "--trials",
        "20",
    ];
    sandbox.edgedyno(run).ok();
    let again = sandbox
        .edgedyno(["rerun", "last", "--board", "local", "--json"])
        .ok()
        .json();
    assert_eq!(rows(&again["cases"][0]), complete(2));
    let nowhere = sandbox
        .edgedyno(["rerun", "last", "--board", "moon"])
        .expect_code(2);
    assert!(nowhere.stderr.contains("moon"), "{}", nowhere.stderr);
}

#[test]
fn memory_over_an_axis_is_a_table_with_a_line_for_every_failure() {
    let sandbox = Sandbox::new();
    let axes = "batch = {values = [1, 4, 16, 32], stop_on = 'oom'}\noption.item_bytes = 8388608\n\
                [limits]\nmemory = '100MiB'";
    sweep(&sandbox, &plan("repeats = 1\norder = 'blocked'", axes), &[]).expect_code(8);
    let csv = sandbox
        .edgedyno(["export", "last", "--format", "memory"])
        .ok()
        .stdout;
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let expected = "frames,status,requested_height,requested_width,effective_height,effective_width,\
                    backend,dtype,seconds,peak_allocated_gib,peak_reserved_gib,error";
    assert_eq!(lines[0].join(","), expected);
    let column = |at: usize| lines[1..].iter().map(|line| line[at]).collect::<Vec<_>>();
    assert_eq!(column(0), ["1", "4", "16"]);
    assert_eq!(column(1), ["ok", "ok", "oom"]);
    assert_eq!(
        (column(8)[2], column(9)[2]),
        ("", ""),
        "seconds and peak of what ran out of memory"
    );
    let peak = |at: usize| column(9)[at].parse::<f64>().unwrap();
    // Three items more, of 8 MiB each: 0.0234 GiB, within what else differs.
    assert!((peak(1) - peak(0) - 0.0234).abs() < 0.005, "{csv}");
    assert!(column(11)[2].contains("memory"), "{csv}");
}

#[test]
fn a_shape_brought_to_a_multiple_keeps_what_was_asked() {
    let sandbox = Sandbox::new();
    make(&sandbox, "open.onnx", &["--dynamic"]);
    let plan = format!(
        "repeats = 1\n[axes]\nmodel = 'open.onnx'\nbackend = 'rten'\n\
         shape.input = {{ values = [[1, 3, 38, 51]], align = {{ multiple = 14, mode = 'floor' }} }}\n{RULES}"
    );
    sandbox.write("plan.toml", plan);
    let document = sandbox
        .edgedyno(["sweep", "plan.toml", "--json"])
        .ok()
        .json();
    let case = &document["cases"][0];
    assert_eq!(
        case["case"]["shapes"][0]["dims"],
        serde_json::json!([1, 3, 28, 42])
    );
    let findings = case["findings"].as_array().unwrap();
    let aligned = findings
        .iter()
        .find(|finding| finding["code"] == "shape_aligned")
        .unwrap();
    assert_eq!(aligned["figures"]["requested"], "1x3x38x51");
    let csv = sandbox
        .edgedyno(["export", "last", "--format", "memory"])
        .ok()
        .stdout;
    assert!(
        csv.lines()
            .nth(1)
            .unwrap()
            .starts_with("1,ok,38,51,28,42,rten,f32,"),
        "{csv}"
    );
}

#[test]
fn shapes_that_become_one_are_one_case_that_keeps_what_was_asked_in_each() {
    let sandbox = Sandbox::new();
    make(&sandbox, "open.onnx", &["--dynamic"]);
    let plan = format!(
        "repeats = 1\n[axes]\nmodel = 'open.onnx'\nbackend = 'rten'\n\
         shape.input = {{ values = ['1x3x30x30', '1x3x33x33'], align = {{ multiple = 14, mode = 'floor' }} }}\n{RULES}"
    );
    sandbox.write("plan.toml", plan);
    let document = sandbox
        .edgedyno(["sweep", "plan.toml", "--json"])
        .ok()
        .json();
    let cases = document["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 1, "{document:#}");
    let asked = cases[0]["findings"].as_array().unwrap().iter();
    let asked = asked.filter(|finding| finding["code"] == "shape_aligned");
    let asked: Vec<String> = asked
        .map(|finding| text_of(&finding["figures"]["requested"]))
        .collect();
    assert_eq!(asked, ["1x3x30x30", "1x3x33x33"]);
    let csv = sandbox
        .edgedyno(["export", "last", "--format", "memory"])
        .ok()
        .stdout;
    let lines: Vec<&str> = csv.lines().skip(1).collect();
    assert!(
        lines[0].starts_with("1,ok,30,30,28,28") && lines[1].starts_with("1,ok,33,33,28,28"),
        "{csv}"
    );
}

#[test]
fn windows_show_a_run_that_slows_down() {
    let sandbox = Sandbox::new();
    // 30 % more over each thousand trials of 500 µs: 0.15 ms per 1000.
    let axes = "option.latency_us = 500\noption.drift_percent = 30\noption.jitter_percent = 0";
    let plan = plan("repeats = 1", axes).replace("trials = 20", "trials = 1000");
    sweep(&sandbox, &plan, &[]);
    let document = sandbox.edgedyno(["windows", "last", "--json"]).ok().json();
    assert_matches_schema(&document, "windows");
    let windows = &document["variants"][0]["repeats"][0];
    assert_eq!(windows["total_frames"], 1000);
    assert_eq!(
        (&windows["frame_lo"], &windows["frame_hi"]),
        (&100.into(), &900.into())
    );
    assert!(
        (number(&windows["drift_ms_per_1000"]) - 0.15).abs() < 0.05,
        "{windows}"
    );
    assert_eq!(windows["trace"].as_array().unwrap().len(), 9);
    let shown = sandbox.edgedyno(["windows", "last"]).ok().stdout;
    assert!(
        shown.contains("fps at 90 %") && shown.contains("every 100th trial"),
        "{shown}"
    );
}
