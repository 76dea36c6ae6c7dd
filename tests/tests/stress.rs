//! Loads beside a case, from the command line to the curve: what is asserted is what was done, never how
//! much slower anything got.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use edgedyno_tests::commands::{
    finding_codes, number, run_beside, small_model, summary, sweep_beside, text,
};
use edgedyno_tests::schema::assert_matches_schema;
use edgedyno_tests::skip::has;
use edgedyno_tests::{Need, Output, Sandbox};
use serde_json::Value;

/// The shortest rules that still measure, a working set that is soon touched, and no shame for a busy
/// machine.
const SHORT: [&str; 5] = ["--warmup", "2", "--duration", "200ms", "--force"];

/// What only a load of stressors has a use for.
const OF_STRESSORS: [&str; 4] = ["--working-set", "8MiB", "--settle", "100ms"];

fn stress(sandbox: &Sandbox, words: &[&str]) -> Output {
    let words: Vec<&str> = OF_STRESSORS.iter().chain(words).copied().collect();
    stress_as_said(sandbox, &words)
}

fn stress_as_said(sandbox: &Sandbox, words: &[&str]) -> Output {
    if !sandbox.work().join("small.onnx").exists() {
        small_model(sandbox);
    }
    let line = ["stress", "small.onnx", "--backend", "fake"].iter();
    sandbox.edgedyno(line.chain(&SHORT).chain(words).copied())
}

fn points(document: &Value) -> &Vec<Value> {
    document["experiments"][0]["points"].as_array().unwrap()
}

#[test]
fn a_ladder_is_calibrated_measured_in_rounds_and_read_as_a_curve() {
    if !has(&[Need::Cpus(2)]) {
        return;
    }
    let sandbox = Sandbox::new();
    let words = [
        "--levels",
        "50,100",
        "--stressor",
        "mem_copy",
        "--repeat",
        "2",
        "--json",
    ];
    let document = stress(&sandbox, &words).json();
    assert_matches_schema(&document, "contention");
    let points = points(&document);
    let conditions: Vec<String> = points
        .iter()
        .map(|point| text(&point["condition"]))
        .collect();
    let (spin, half, full) = (&conditions[0], &conditions[1], &conditions[2]);
    assert!(spin.starts_with("spin:cpu"), "{conditions:?}");
    assert!(
        half.contains("@50%/ws=8MiB") && half.starts_with("mem_copy:cpu"),
        "{conditions:?}"
    );
    assert!(
        full.ends_with("/ws=8MiB") && !full.contains('@'),
        "{conditions:?}"
    );
    assert_eq!(number(&points[0]["achieved_bps"]), 0.0);
    assert_eq!(number(&points[1]["share"]), 0.5);
    assert!(points[1]["target_bps"].is_number() && points[2]["target_bps"].is_null());
    for point in points {
        assert_eq!(number(&point["repeats"]), 2.0, "{point:#}");
        assert!(
            point["slowdown"]["latency_p50_ms"]["ratio"].is_number(),
            "{point:#}"
        );
    }
    // A spin that somebody else kept from running takes nothing off.
    assert_eq!(
        points[1]["over_spin"]["latency_p50_ms"]["ratio"].is_number(),
        points[0]["valid"] == true
    );
    assert!(
        points[1]["slowdown"]["device_p50_ms"]["ratio"].is_number(),
        "fake tells device time"
    );
    let experiment = &document["experiments"][0];
    assert_eq!(number(&experiment["recovery"]["repeats"]), 3.0);
    // Two rounds, and a look at the idle board behind eight repeats.
    assert_eq!(number(&experiment["baseline"]["repeats"]), 3.0);
    assert!(
        points[2]["achieved_of_calibrated"].is_number(),
        "{:#}",
        points[2]
    );
    assert!(
        points[0]["achieved_of_calibrated"].is_null(),
        "spin was not calibrated"
    );

    // Calibrated once, and by a run of its own.
    let runs = sandbox.edgedyno(["runs", "list", "--json"]).ok().json();
    let commands: Vec<String> = runs["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| text(&r["command"]))
        .collect();
    assert_eq!(commands, ["stress", "calibrate"]);
    stress(&sandbox, &words).json();
    let runs = sandbox.edgedyno(["runs", "list", "--json"]).ok().json();
    assert_eq!(text(&runs["runs"][0]["command"]), "stress");
    assert_eq!(
        text(&runs["runs"][1]["command"]),
        "stress",
        "the calibration is used again"
    );

    // Each round holds each condition once, before the next begins.
    let shown = summary(&sandbox, "last");
    let mut began: Vec<(i64, u64, String)> = Vec::new();
    for case in shown["cases"].as_array().unwrap() {
        for repeat in case["repeats"].as_array().unwrap() {
            let at = repeat["began_unix_ns"].as_i64().unwrap();
            began.push((
                at,
                repeat["repeat"].as_u64().unwrap(),
                text(&case["case"]["condition"]),
            ));
        }
    }
    began.sort();
    let ladder: Vec<u64> = began
        .iter()
        .filter(|(_, _, c)| c != "idle")
        .map(|(_, r, _)| *r)
        .collect();
    assert_eq!(ladder, [0, 0, 0, 1, 1, 1], "{began:?}");
    assert!(
        began[began.len() - 3..].iter().all(|(_, _, c)| c == "idle"),
        "recovery comes last"
    );

    // A stored experiment is shown again, and exported.
    let again = sandbox
        .edgedyno(["stress", "--show", "last", "--force", "--json"])
        .json();
    let exported = [
        "export",
        "last",
        "--format",
        "contention",
        "--output",
        "contention.json",
    ];
    sandbox.edgedyno(exported).ok();
    let file = fs::read_to_string(sandbox.work().join("contention.json")).unwrap();
    let file: Value = serde_json::from_str(&file).unwrap();
    assert_eq!(file, again);
    assert_matches_schema(&file, "contention");

    // Counters of the stressor are channels like any other.
    let samples = sandbox
        .edgedyno(["samples", "last", "--channel", "stress", "--json"])
        .ok()
        .json();
    assert!(
        samples.to_string().contains("stress.0.mem_copy.cpu"),
        "{samples:#}"
    );
}

#[test]
fn a_condition_is_an_axis_of_a_sweep_and_its_level_is_in_the_results() {
    if !has(&[Need::Cpus(2)]) {
        return;
    }
    let sandbox = Sandbox::new();
    small_model(&sandbox);
    let conditions = "idle,mem_read:cpu0@200MB/s/ws=8MiB";
    let rules = ["--trials", "100", "--repeat", "1", "--force"];
    sweep_beside(&sandbox, conditions, &rules).ok();
    let shown = summary(&sandbox, "last");
    let cases = shown["cases"].as_array().unwrap();
    let (idle, loaded) = (&cases[0], &cases[1]);
    assert_eq!(text(&idle["case"]["condition"]), "idle");
    assert!(idle["fields"]["load_bps"].is_null(), "unknown is not zero");
    let fields = &loaded["fields"];
    assert_eq!(number(&fields["load_target_bps"]), 2e8);
    let error = number(&fields["load_per_cpu_second_bps"]) / 2e8 - 1.0;
    assert!(error.abs() <= 0.03, "{error}");
    assert!(number(&fields["load_bps"]) > 0.0);
    assert_ne!(idle["fields"]["case_key"], fields["case_key"]);
}

#[test]
fn what_starves_a_load_is_a_finding_and_the_point_does_not_count() {
    if !has(&[Need::Cpus(2)]) {
        return;
    }
    let sandbox = Sandbox::new();
    small_model(&sandbox);
    // Two on one CPU get half of it each.
    let conditions = "idle,cpu_int:cpu0+mem_read:cpu0/ws=8MiB";
    let rules = ["--trials", "300", "--repeat", "2"];
    let swept = sweep_beside(&sandbox, conditions, &rules);
    assert_eq!(swept.code, 6, "measured, and invalid");
    let shown = summary(&sandbox, "last");
    let codes = finding_codes(&shown["cases"][1]);
    assert!(codes.iter().any(|code| code == "load_starved"), "{codes:?}");
    let document = sandbox.edgedyno(["stress", "--show", "last", "--json"]);
    assert_eq!(document.code, 6);
    let document = document.json();
    assert_eq!(points(&document)[0]["valid"], false);
    let marks = points(&document)[0]["marks"].to_string();
    assert!(marks.contains("load_starved"), "{marks}");
}

/// An idle case and one beside a tool of somebody else's; what is told of its count.
fn told_of_a_tool(sandbox: &Sandbox, tool: &str, condition: &str) -> String {
    small_model(sandbox);
    let rules = ["--duration", "500ms", "--repeat", "2", "--force"];
    sweep_beside(sandbox, &format!("idle,{condition}"), &rules).ok();
    let document = sandbox.edgedyno(["stress", "--show", "last", "--force", "--json"]);
    let document = document.json();
    assert_matches_schema(&document, "contention");
    let point = &points(&document)[0];
    assert_eq!(text(&point["condition"]), condition);
    for unknown in ["achieved_bps", "achieved_per_cpu_second_bps"] {
        assert!(point[unknown].is_null(), "nobody of ours counts: {point:#}");
    }
    let marks: Vec<&Value> = point["marks"].as_array().unwrap().iter().collect();
    let is_elsewhere = marks.iter().any(|mark| mark["code"] == "load_moved");
    assert!(!is_elsewhere, "{marks:?}");
    let shown = summary(sandbox, "last");
    let case = &shown["cases"][1];
    let mut repeats = case["repeats"].as_array().unwrap().iter();
    assert!(repeats.all(|row| row["outcome"] == "complete"), "{case:#}");
    assert!(number(&case["fields"]["load_cpu_share"]) > 0.0);
    assert!(case["fields"]["load_bps"].is_null());
    // It is listed where a board describes itself.
    let info = sandbox
        .edgedyno(["board", "info", "local", "--json"])
        .ok()
        .stdout;
    assert!(info.contains(&format!("stressor.{tool}")), "{info}");
    let uncounted = marks.iter().find(|mark| mark["code"] == "load_uncounted");
    text(&uncounted.unwrap()["text"])
}

#[test]
fn the_real_stress_ng_runs_where_it_was_told_and_keeps_its_own_count() {
    if !has(&[Need::Cpus(2), Need::Program("stress-ng")]) {
        return;
    }
    let sandbox = Sandbox::new();
    let said = told_of_a_tool(&sandbox, "stress-ng", "stress-ng:cpu0/with=memcpy");
    assert!(said.contains("bogo operations a second"), "{said}");
}

#[test]
fn the_real_stressapptest_runs_where_it_was_told_and_keeps_its_own_count() {
    if !has(&[Need::Cpus(2), Need::Program("stressapptest")]) {
        return;
    }
    let sandbox = Sandbox::new();
    let said = told_of_a_tool(&sandbox, "stressapptest", "stressapptest:cpu0/ws=64MiB");
    let (rate, _) = said
        .rsplit_once(" MiB/s")
        .unwrap_or_else(|| panic!("{said}"));
    let rate: f64 = rate.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(rate > 0.0, "{said}");
}

#[test]
fn gaps_are_cases_and_their_cost_is_told() {
    let sandbox = Sandbox::new();
    let words = ["--gap", "0,5ms", "--repeat", "2", "--json"];
    let document = stress_as_said(&sandbox, &words).json();
    assert_matches_schema(&document, "contention");
    let gaps = &document["gaps"][0]["points"];
    assert_eq!(number(&gaps[0]["repeats"]), 2.0);
    assert!(gaps[0]["valid"].is_boolean() && gaps[0]["marks"].is_array());
    let recovery = &document["gaps"][0]["recovery"];
    assert_eq!(number(&recovery["repeats"]), 3.0);
    assert_eq!(number(&gaps[0]["gap_ms"]), 5.0);
    assert!(gaps[0]["slowdown"]["latency_p50_ms"]["ratio"].is_number());
    // Trials of the case with gaps are that far apart.
    let cases = summary(&sandbox, "last");
    let gapped = &cases["cases"][1]["fields"];
    assert!(number(&gapped["rate_hz"]) < 200.0, "{gapped:#}");
    // What would be ignored is refused.
    let asked = ["stress", "--show", "last", "--force", "--slo", "p99=33ms"];
    let refused = sandbox.edgedyno(asked).expect_code(2);
    assert!(
        refused.stderr.contains("has gaps and no load"),
        "{}",
        refused.stderr
    );
}

#[test]
fn what_makes_no_experiment_says_why() {
    let sandbox = Sandbox::new();
    for (words, says) in [
        (&["--stressor", "mem_raed"][..], "did you mean mem_read?"),
        (&["--levels", "0.01"], "from 0.1 % to 100 %"),
        (&["--stress-cpus", "999"], "CPU 999"),
        (&["--slo", "rate=30"], "latency_p50_ms"),
        (&["--gap", "10s"], "5 s at most"),
        // What would be ignored is refused.
        (&["--levels=-10,50"], "from 0 to 100"),
        (&["--levels", "NaN"], "from 0 to 100"),
        (&["--worst", "--levels", "50"], "cannot be used with"),
        (&["--worst", "--throttle", "sleep"], "cannot be used with"),
        (
            &["--gap", "5ms", "--stress-cpus", "0"],
            "cannot be used with",
        ),
        (&["--gap", "5ms", "--settle", "1s"], "cannot be used with"),
        (
            &["--gap", "5ms", "--working-set", "8MiB"],
            "cannot be used with",
        ),
        (&["--gap", "5ms", "--recalibrate"], "cannot be used with"),
        (
            &["--gap", "5ms", "--throttle", "sleep"],
            "cannot be used with",
        ),
        (&["--gap", "5ms", "--levels", "50"], "cannot be used with"),
        (
            &["--condition", "spin:cpu0", "--levels", "50"],
            "--levels says nothing",
        ),
        (
            &["--condition", "spin:cpu0", "--throttle", "spin"],
            "--throttle says nothing",
        ),
        (
            &["--condition", "spin:cpu0", "--working-set", "8MiB"],
            "--working-set says nothing",
        ),
        (
            &["--condition", "spin:cpu0", "--stress-cpus", "0"],
            "--stress-cpus says nothing",
        ),
    ] {
        let output = stress_as_said(&sandbox, words);
        assert_eq!(output.code, 2, "{words:?}");
        assert!(output.stderr.contains(says), "{words:?}: {}", output.stderr);
    }
}

const POLICY: &str = "sys/devices/system/cpu/cpufreq/policy0";

fn set(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// An idle case and a loaded one on a board whose kernel files lie below `root`; marks of the loaded one.
fn marks_on_board(sandbox: &mut Sandbox, root: &Path) -> (bool, Vec<String>) {
    sandbox.env("EDGEDYNO_AGENT_ROOT", root);
    small_model(sandbox);
    let rules = ["--duration", "600ms", "--repeat", "2", "--force"];
    sweep_beside(sandbox, "idle,spin:cpu0", &rules).ok();
    let document = sandbox.edgedyno(["stress", "--show", "last", "--json"]);
    assert_eq!(
        document.code, 6,
        "a point does not count: {}",
        document.stderr
    );
    let document = document.json();
    let point = &points(&document)[0];
    let marks = point["marks"].as_array().unwrap().iter();
    let codes = marks.map(|mark| text(&mark["code"])).collect();
    (point["valid"].as_bool().unwrap(), codes)
}

#[test]
fn a_point_on_a_board_that_was_held_back_does_not_count() {
    if !has(&[Need::Cpus(2)]) {
        return;
    }
    let mut sandbox = Sandbox::new();
    let root = sandbox.work().join("board");
    let device = "sys/class/thermal/cooling_device0";
    set(&root, &format!("{device}/type"), "thermal-cpufreq-0\n");
    set(&root, &format!("{device}/cur_state"), "2\n");
    set(&root, &format!("{device}/max_state"), "5\n");
    let (valid, codes) = marks_on_board(&mut sandbox, &root);
    assert!(
        !valid && codes.iter().any(|code| code == "throttled"),
        "{codes:?}"
    );
}

/// Moves a clock by more than one per cent several times in every window, until this is dropped.
struct Mover {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Mover {
    fn start(root: PathBuf, clock: String) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let mut speeds = ["1700000\n", "1800000\n"].iter().cycle();
            while !ends.load(Relaxed) {
                set(&root, &clock, speeds.next().unwrap());
                std::thread::sleep(Duration::from_millis(120));
            }
        });
        Self {
            is_over,
            thread: Some(thread),
        }
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[test]
fn a_point_whose_clock_moved_does_not_count() {
    if !has(&[Need::Cpus(2)]) {
        return;
    }
    let mut sandbox = Sandbox::new();
    let root = sandbox.work().join("board");
    let clock = format!("{POLICY}/scaling_cur_freq");
    set(&root, &clock, "1800000\n");
    set(&root, &format!("{POLICY}/scaling_max_freq"), "1800000\n");
    let mover = Mover::start(root.clone(), clock);
    let (valid, codes) = marks_on_board(&mut sandbox, &root);
    drop(mover);
    assert!(
        !valid && codes.iter().any(|code| code == "clock_moved"),
        "{codes:?}"
    );
}

/// The ladder of a document that is counted in this.
fn ladder<'a>(document: &'a Value, option: &str) -> &'a Value {
    let ladders = document["experiments"][0]["ladders"].as_array().unwrap();
    let found = ladders.iter().find(|ladder| ladder["option"] == option);
    found.unwrap_or_else(|| panic!("no {option}: {ladders:#?}"))
}

fn values(ladder: &Value) -> Vec<f64> {
    let levels = ladder["levels"].as_array().unwrap().iter();
    levels.map(|level| number(&level["value"])).collect()
}

#[test]
fn arithmetic_is_a_ladder_over_its_share_of_the_time_and_bears_no_traffic() {
    if !has(&[Need::Cpus(2)]) {
        return;
    }
    let sandbox = Sandbox::new();
    let words = [
        "--stressor",
        "cpu_int",
        "--levels",
        "25,50,100",
        "--repeat",
        "2",
        "--slo",
        "p99=10s",
        "--json",
    ];
    let document = stress(&sandbox, &words).json();
    assert_matches_schema(&document, "contention");
    let ladder = ladder(&document, "duty_percent");
    assert_eq!(ladder["model"], "cpu_int");
    // A window of 200 ms may begin and end within turns of 10 ms.
    for (value, wanted) in values(ladder).iter().zip([25.0, 50.0, 100.0]) {
        assert!((value / wanted - 1.0).abs() <= 0.1, "{value} {wanted}");
    }
    assert_eq!(values(ladder).len(), 3);
    let curves = document["experiments"][0]["curves"].as_array().unwrap();
    assert!(curves.is_empty(), "{curves:#?}");
    let shown = sandbox.edgedyno(["stress", "--show", "last", "--force"]);
    assert!(!shown.stdout.contains("kept up to"), "{}", shown.stdout);
    let shown = summary(&sandbox, "last");
    let of_condition = |end: &str| {
        let mut cases = shown["cases"].as_array().unwrap().iter();
        let is_it = |case: &&Value| text(&case["case"]["condition"]).ends_with(end);
        &cases.find(is_it).unwrap()["fields"]
    };
    let fields = of_condition("@25%");
    assert_eq!(number(&fields["load_target_duty_share"]), 0.25);
    let duty = number(&fields["load_duty_share"]);
    assert!((duty / 0.25 - 1.0).abs() <= 0.1, "{duty}");
    assert!(of_condition("idle")["load_duty_share"].is_null());
    let samples = sandbox
        .edgedyno(["samples", "last", "--channel", "stress", "--json"])
        .ok()
        .stdout;
    assert!(samples.contains("stress.0.cpu_int.cpu") && samples.contains(".worked"));
}

#[test]
fn a_disk_is_written_to_by_the_wall_and_its_points_count() {
    if !has(&[Need::Cpus(2)]) {
        return;
    }
    let sandbox = Sandbox::new();
    small_model(&sandbox);
    // A piece is 1 MiB: one more or less in a window of 2 s is 1.3 % of these.
    let rules = ["--duration", "2s", "--repeat", "2", "--force"];
    sweep_beside(&sandbox, "idle,io:cpu0@40MB/s", &rules).ok();
    let shown = summary(&sandbox, "last");
    let case = &shown["cases"][1];
    let mut repeats = case["repeats"].as_array().unwrap().iter();
    assert!(repeats.all(|row| row["outcome"] == "complete"), "{case:#}");
    let fields = &case["fields"];
    assert_eq!(number(&fields["load_bps"]), 0.0, "it is no memory");
    assert!(fields["load_target_bps"].is_null());
    let written = number(&fields["load_disk_bps"]);
    let codes = finding_codes(case);
    let has = |code: &str| codes.iter().any(|found| found == code);
    if has("foreign_load") {
        eprintln!("skipped: others of this machine keep it from its CPU");
        return;
    }
    assert!(
        !has("load_starved"),
        "waiting for a disk is no starvation: {codes:?}"
    );
    if written < 0.97 * 4e7 {
        eprintln!("skipped: the disk of this machine takes {written:.0} bytes a second");
        return;
    }
    assert!(written <= 1.03 * 4e7, "{written}");
    assert!(!has("load_off_target"), "{codes:?}");
}

#[test]
fn a_disk_is_calibrated_by_the_wall_and_its_levels_are_a_ladder() {
    if !has(&[Need::Cpus(2)]) {
        return;
    }
    let sandbox = Sandbox::new();
    let words = [
        "--stressor",
        "io",
        "--levels",
        "25,50",
        "--repeat",
        "2",
        "--json",
    ];
    let output = stress(&sandbox, &words);
    if output.stderr.contains("io was kept from running") {
        eprintln!("skipped: this machine has no CPU to spare");
        return;
    }
    // How far its repeats were apart is told when it is calibrated.
    assert!(output.stderr.contains("io on CPU"), "{}", output.stderr);
    assert!(output.stderr.contains("spread "), "{}", output.stderr);
    let document = output.json();
    assert_matches_schema(&document, "contention");
    let ladder = ladder(&document, "disk_mb_per_second");
    // It writes 200 MB/s at most: half of that, and what one piece of 1 MiB makes in 200 ms.
    let values = values(ladder);
    assert_eq!(values.len(), 2, "{ladder:#}");
    assert!(
        values[0] > 0.0 && values[1] <= 100.0 + 2.0 * 5.3,
        "{values:?}"
    );
    let curves = document["experiments"][0]["curves"].as_array().unwrap();
    assert!(curves.is_empty(), "{curves:#?}");
    for point in points(&document) {
        assert_eq!(number(&point["achieved_bps"]), 0.0, "{point:#}");
    }
}

#[test]
fn a_load_is_calibrated_again_when_the_board_is_another() {
    if !has(&[Need::Cpus(2)]) {
        return;
    }
    let mut sandbox = Sandbox::new();
    let root = sandbox.work().join("board");
    sandbox.env("EDGEDYNO_AGENT_ROOT", &root);
    small_model(&sandbox);
    let governor = format!("{POLICY}/scaling_governor");
    let calibrations = || {
        let rules = ["--duration", "100ms", "--repeat", "1", "--force"];
        sweep_beside(&sandbox, "idle,mem_read:cpu0@50%/ws=8MiB", &rules).ok();
        let runs = sandbox.edgedyno(["runs", "list", "--json"]).ok().json();
        let runs = runs["runs"].as_array().unwrap().iter();
        runs.filter(|run| run["command"] == "calibrate").count()
    };
    set(&root, &governor, "performance\n");
    assert_eq!(calibrations(), 1);
    assert_eq!(calibrations(), 1, "the board is what it was");
    set(&root, &governor, "powersave\n");
    assert_eq!(calibrations(), 2, "its governor is another");
    set(&root, &governor, "performance\n");
    assert_eq!(
        calibrations(),
        2,
        "what was known of it before is used again"
    );
}

#[test]
fn a_load_that_the_board_cannot_bear_is_refused_with_the_reason() {
    if !has(&[Need::Cpus(2)]) {
        return;
    }
    let mut sandbox = Sandbox::new();
    let root = sandbox.work().join("board");
    sandbox.env("EDGEDYNO_AGENT_ROOT", &root);
    small_model(&sandbox);
    let zone = "sys/class/thermal/thermal_zone0";
    let board = |temperature: &str, available_kib: u32| {
        let memory = format!("MemTotal: 8000000 kB\nMemAvailable: {available_kib} kB\n");
        set(&root, "proc/meminfo", &memory);
        set(&root, &format!("{zone}/type"), "soc\n");
        set(&root, &format!("{zone}/temp"), &format!("{temperature}\n"));
        set(&root, &format!("{zone}/trip_point_0_type"), "passive\n");
        set(&root, &format!("{zone}/trip_point_0_temp"), "85000\n");
    };
    let refused = || {
        let condition = "mem_read:cpu0@100MB/s/ws=8MiB";
        let output = run_beside(&sandbox, condition, &["--duration", "100ms"]);
        assert_eq!(output.code, 3, "{}", output.stderr);
        summary(&sandbox, "last")["cases"][0]["failures"][0].clone()
    };
    // Half of 10 MiB is less than 8.
    board("60000", 10_240);
    let row = refused();
    assert_eq!(text(&row["code"]), "load_refused");
    let detail = text(&row["detail"]);
    assert!(detail.contains("8 MiB is more than half"), "{detail}");
    assert!(text(&row["hint"]).contains("at most 5 MiB"), "{row:#}");
    // 4 °C below what the kernel slows down at.
    board("81000", 4_000_000);
    let row = refused();
    assert_eq!(text(&row["code"]), "load_refused");
    let detail = text(&row["detail"]);
    assert!(detail.contains("81.0 °C in zone soc"), "{detail}");
    // The same load on the same board when it is cool and empty.
    board("60000", 4_000_000);
    let condition = "mem_read:cpu0@100MB/s/ws=8MiB";
    let rules = ["--duration", "100ms", "--force"];
    run_beside(&sandbox, condition, &rules).ok();
}
