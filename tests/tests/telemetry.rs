//! The board is watched while it measures, and what spoils a figure is told.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use edgedyno::preflight::QUIET;
use edgedyno_tests::clock::Deadline;
use edgedyno_tests::commands::{finding_codes, number, run, small_model, text};
use edgedyno_tests::schema::assert_matches_schema;
use edgedyno_tests::{Output, Sandbox};
use nix::sys::signal::Signal;
use serde_json::Value;

/// Two seconds of the fake backend in one process.
const SHORT: [&str; 6] = ["--repeat", "1", "--warmup", "2", "--duration", "1.2s"];

fn channel<'a>(samples: &'a Value, name: &str) -> Option<&'a Value> {
    let channels = samples["cases"][0]["repeats"][0]["channels"].as_array()?;
    channels.iter().find(|channel| channel["name"] == name)
}

#[test]
fn a_run_is_watched_and_its_samples_are_read_back() {
    let sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    let document = run(
        &sandbox,
        &model,
        "fake",
        &[&SHORT[..], &["--json"]].concat(),
    );
    let document = document.json();
    assert_matches_schema(&document, "summary");
    let fields = &document["cases"][0]["fields"];
    assert!(number(&fields["channels_watched_count"]) > 10.0);
    assert!(number(&fields["memory_available_min_bytes"]) > 1e6);
    // The fake backend spins: it has most of a CPU, and never more than one.
    let share = number(&fields["worker_cpu_share"]);
    assert!(0.2 < share && share < 1.05, "{share}");
    let p50 = number(&fields["latency_p50_ms"]);
    let cpu = number(&fields["cpu_time_per_trial_ms"]);
    assert!(cpu < 3.0 * p50, "{cpu} ms of CPU in {p50} ms");

    let samples = sandbox.edgedyno(["samples", "last", "--json"]).ok().json();
    assert_matches_schema(&samples, "samples");
    let worker = channel(&samples, "worker.cpu").unwrap();
    assert_eq!(text(&worker["state"]), "ok");
    assert!(number(&worker["samples"]) >= 5.0);
    for wanted in ["mem.available", "worker.run_delay", "sampler.cpu"] {
        assert!(channel(&samples, wanted).is_some(), "{wanted}");
    }

    let csv = sandbox.edgedyno([
        "samples",
        "last",
        "--channel",
        "worker.cpu",
        "--format",
        "csv",
    ]);
    let csv = csv.ok().stdout;
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows[0][3..6], ["channel", "unit", "at_ns"]);
    let stamps: Vec<i64> = rows[1..]
        .iter()
        .map(|row| row[5].parse().unwrap())
        .collect();
    assert!(stamps.len() >= 10 && stamps.is_sorted(), "{stamps:?}");
    let good = rows[1..].iter().filter(|row| row[8] == "ok");
    let values: Vec<i64> = good.map(|row| row[7].parse().unwrap()).collect();
    assert!(values.is_sorted(), "a counter only grows: {values:?}");

    let wrong = sandbox.edgedyno(["samples", "last", "--channel", "therm.nowhere"]);
    assert!(wrong.expect_code(2).stderr.contains("therm.nowhere"));
    sandbox.finish();
}

#[test]
fn a_run_without_telemetry_has_none_and_says_so() {
    let sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    let args = [&SHORT[..], &["--no-telemetry", "--json"]].concat();
    let document = run(&sandbox, &model, "fake", &args).json();
    let fields = &document["cases"][0]["fields"];
    assert_eq!(fields["channels_watched_count"], Value::Null);
    assert_eq!(fields["worker_cpu_share"], Value::Null);
    let codes = finding_codes(&document["cases"][0]);
    assert!(!codes.contains(&"not_watched".to_owned()), "{codes:?}");
    let shown = sandbox.edgedyno(["samples", "last"]).ok();
    assert!(
        shown.stdout.contains("no telemetry was recorded"),
        "{}",
        shown.stdout
    );
    sandbox.finish();
}

#[test]
fn the_board_is_shown_as_it_is_now() {
    let sandbox = Sandbox::new();
    let shown = sandbox
        .edgedyno(["top", "--json", "--every", "300ms"])
        .ok()
        .json();
    assert_matches_schema(&shown, "top");
    let channels = shown["channels"].as_array().unwrap();
    let find = |name: &str| channels.iter().find(|channel| channel["name"] == name);
    assert!(number(&find("mem.available").unwrap()["value"]) > 0.0);
    let busy = channels
        .iter()
        .find(|c| text(&c["name"]).ends_with(".busy"))
        .unwrap();
    assert!(number(&busy["per_second"]) >= 0.0);
    let missing = channels.iter().find(|channel| channel["state"] != "ok");
    assert!(missing.is_none_or(|channel| !text(&channel["reason"]).is_empty()));
    sandbox.finish();
}

/// Files of a board that is not this one.
fn board(sandbox: &Sandbox, files: &[(&str, &str)]) -> PathBuf {
    let root = sandbox.work().join("board");
    for (file, text) in files {
        set(&root, file, text);
    }
    root
}

fn set(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

const POLICY: &str = "sys/devices/system/cpu/cpufreq/policy0";

#[test]
fn a_board_that_is_held_back_makes_the_run_invalid() {
    let mut sandbox = Sandbox::new();
    let root = board(
        &sandbox,
        &[
            ("sys/class/thermal/thermal_zone0/type", "cpu-thermal\n"),
            ("sys/class/thermal/thermal_zone0/temp", "96000\n"),
            (
                "sys/class/thermal/cooling_device0/type",
                "thermal-cpufreq-0\n",
            ),
            ("sys/class/thermal/cooling_device0/cur_state", "2\n"),
            ("sys/class/thermal/cooling_device0/max_state", "5\n"),
        ],
    );
    sandbox.env("EDGEDYNO_AGENT_ROOT", &root);
    let model = small_model(&sandbox);
    let args = [&SHORT[..], &["--json"]].concat();
    let document = run(&sandbox, &model, "fake", &args).expect_code(6).json();
    let case = &document["cases"][0];
    assert!(finding_codes(case).contains(&"throttled".to_owned()));
    assert_eq!(number(&case["fields"]["temperature_max_c"]), 96.0);
    assert_eq!(
        text(&case["fields"]["temperature_sensor"]),
        "therm.cpu_thermal.temp"
    );
    sandbox.edgedyno(["summary", "last", "--force"]).ok();
    sandbox.finish();
}

/// A board whose clocks are free between 0.4 and 1.8 GHz.
fn free_clocks(sandbox: &Sandbox) -> PathBuf {
    let file = |name: &str| format!("{POLICY}/{name}");
    board(
        sandbox,
        &[
            (
                &file("scaling_available_governors"),
                "schedutil performance\n",
            ),
            (&file("scaling_governor"), "schedutil\n"),
            (&file("scaling_min_freq"), "400000\n"),
            (&file("scaling_max_freq"), "1800000\n"),
            (&file("scaling_cur_freq"), "1800000\n"),
        ],
    )
}

#[test]
fn clocks_are_held_for_a_repeat_and_put_back() {
    let mut sandbox = Sandbox::new();
    let file = |name: &str| format!("{POLICY}/{name}");
    let root = free_clocks(&sandbox);
    sandbox.env("EDGEDYNO_AGENT_ROOT", &root);
    let model = small_model(&sandbox);
    let args = [&SHORT[..], &["--fix-clocks", "--json"]].concat();
    let document = run(&sandbox, &model, "fake", &args).json();
    let settings = document["cases"][0]["settings"].as_array().unwrap();
    let of = |name: &str| {
        settings
            .iter()
            .find(|setting| setting["name"] == name)
            .unwrap()
    };
    assert_eq!(
        text(&of("clocks.policy0.governor")["observed"]),
        "performance"
    );
    assert_eq!(text(&of("clocks.policy0.min_khz")["observed"]), "1800000");
    let now = |name: &str| fs::read_to_string(root.join(file(name))).unwrap();
    assert_eq!(now("scaling_governor").trim(), "schedutil");
    assert_eq!(now("scaling_min_freq").trim(), "400000");
    // A clock that does not stay where it was put is no clock that was held.
    set(&root, &file("scaling_cur_freq"), "900000\n");
    // On a processor that chooses its clock by itself, nobody can tell, and it is a warning.
    let (exit, code) = match std::env::consts::ARCH {
        "x86" | "x86_64" => (0, "turbo_free"),
        _ => (6, "clock_not_as_asked"),
    };
    let output = run(&sandbox, &model, "fake", &args).expect_code(exit);
    let codes = finding_codes(&output.json()["cases"][0]);
    assert!(codes.contains(&code.to_owned()), "{codes:?}");
    sandbox.finish();
}

/// By a service manager, by Ctrl-C, by closing the terminal.
#[test]
fn clocks_are_put_back_by_whatever_signal_ends_the_agent() {
    for (signal, code) in [
        (Signal::SIGTERM, 143),
        (Signal::SIGINT, 130),
        (Signal::SIGHUP, 129),
        (Signal::SIGQUIT, 131),
    ] {
        let mut sandbox = Sandbox::new();
        let root = free_clocks(&sandbox);
        sandbox.env("EDGEDYNO_AGENT_ROOT", &root);
        let governor = || {
            let path = root.join(format!("{POLICY}/scaling_governor"));
            fs::read_to_string(path).unwrap().trim().to_owned()
        };
        let mut agent = sandbox.start_agent(["serve"]);
        let socket = sandbox.state().join("agent.sock");
        agent.wait_until("the socket", |_| socket.exists());
        let model = small_model(&sandbox);
        let model = model.to_str().unwrap();
        let words = ["run", model, "--backend", "fake", "--fix-clocks"];
        let long = ["--repeat", "1", "--duration", "60s"];
        let mut running = sandbox.start_edgedyno(words.iter().chain(&long));
        running.wait_until("held clocks", |_| governor() == "performance");
        // It would start the next agent at once, which measures anew.
        running.signal(Signal::SIGSTOP);
        agent.signal(signal);
        assert_eq!(agent.wait().code, code, "{signal}");
        assert_eq!(governor(), "schedutil", "{signal}");
        running.signal(Signal::SIGKILL);
        running.wait();
    }
}

/// A run of `fake` on CPU 1 that is good for nothing on a board that is not quiet.
fn run_quietly(sandbox: &Sandbox, more: &[&str]) -> Output {
    let model = small_model(sandbox);
    let quietly = ["--cpus", "1", "--require", "quiet"];
    let args = [&SHORT[..], &quietly, more].concat();
    run(sandbox, &model, "fake", &args)
}

#[test]
fn a_board_that_is_not_quiet_is_not_measured_where_that_is_required() {
    let mut sandbox = Sandbox::new();
    let load = [("proc/loadavg", "9.00 9.00 9.00 9/300 4242\n")];
    sandbox.env("EDGEDYNO_AGENT_ROOT", board(&sandbox, &load));
    let refused = run_quietly(&sandbox, &[]).expect_code(5);
    assert!(
        refused.stderr.contains("is not quiet"),
        "{}",
        refused.stderr
    );
    assert!(
        refused.stderr.contains("load average"),
        "{}",
        refused.stderr
    );
    assert_eq!(refused.stdout, "");
    sandbox.finish();
}

#[test]
fn what_was_not_watched_is_not_known_to_be_quiet() {
    let mut sandbox = Sandbox::new();
    for off in [&["--no-telemetry"][..], &["--telemetry", "off"]] {
        let refused = run_quietly(&sandbox, off).expect_code(2);
        assert!(refused.stderr.contains("--require"), "{}", refused.stderr);
    }
    // A board that tells its load and nothing of its CPUs.
    let load = [("proc/loadavg", "0.00 0.00 0.00 1/300 4242\n")];
    sandbox.env("EDGEDYNO_AGENT_ROOT", board(&sandbox, &load));
    let unknown = run_quietly(&sandbox, &["--json"]).expect_code(5);
    let codes = finding_codes(&unknown.json()["cases"][0]);
    let is_disturbed = QUIET.iter().any(|code| codes.contains(&(*code).to_owned()));
    assert!(!is_disturbed, "{codes:?}");
    let words = "not known to have been quiet";
    assert!(unknown.stderr.contains(words), "{}", unknown.stderr);
    sandbox.finish();
}

/// Whether this machine is quiet is its own affair; that the exit says what was found is not.
#[test]
fn the_exit_says_whether_the_board_was_quiet() {
    let sandbox = Sandbox::new();
    let output = run_quietly(&sandbox, &["--json"]);
    if output.stderr.contains("is not quiet") {
        output.expect_code(5);
        return sandbox.finish();
    }
    let case = &output.json()["cases"][0];
    let codes = finding_codes(case);
    let was_disturbed = QUIET.iter().any(|code| codes.contains(&(*code).to_owned()));
    let shares = ["foreign_load_share", "run_delay_share", "steal_share"];
    let is_known = shares.iter().all(|name| !case["fields"][name].is_null());
    let is_said = output.stderr.contains("quiet");
    // Clocks, memory and governors must have been seen as well.
    let is_good = !was_disturbed && is_known;
    assert!(is_said || is_good, "{codes:?}");
    output.expect_code(if is_said { 5 } else { 0 });
    sandbox.finish();
}

#[test]
fn the_idle_board_is_watched_under_the_clocks_of_its_worker() {
    let mut sandbox = Sandbox::new();
    let file = |name: &str| format!("{POLICY}/{name}");
    let root = free_clocks(&sandbox);
    sandbox.env("EDGEDYNO_AGENT_ROOT", &root);
    let model = small_model(&sandbox);
    let idle = ["--fix-clocks", "--idle-power", "2s", "--json"];
    let document = run(&sandbox, &model, "fake", &[&SHORT[..], &idle].concat()).json();
    let csv = ["--channel", "cpu.policy0.freq_min", "--format", "csv"];
    let csv = sandbox
        .edgedyno([&["samples", "last"][..], &csv].concat())
        .ok()
        .stdout;
    let values: Vec<&str> = csv
        .lines()
        .skip(1)
        .filter_map(|line| line.split(',').nth(7))
        .collect();
    // Once a second: two of the idle board at least, and some of the worker.
    assert!(values.len() >= 4, "{values:?}");
    assert!(
        values.iter().all(|hertz| *hertz == "1800000000"),
        "{values:?}"
    );
    // What is told of the board is what stood there before, and stands there again.
    let governor = text(&document["cases"][0]["fields"]["governor"]);
    assert_eq!(governor, "schedutil");
    let codes = finding_codes(&document["cases"][0]);
    assert!(
        !codes.contains(&"environment_changed".to_owned()),
        "{codes:?}"
    );
    let now = fs::read_to_string(root.join(file("scaling_governor"))).unwrap();
    assert_eq!(now.trim(), "schedutil");
    sandbox.finish();
}

#[test]
fn a_repeat_waits_until_the_board_is_cool() {
    let sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    let hot = [
        "--option",
        "temperature_c=70",
        "--option",
        "cooling_c_per_s=20",
    ];
    let args = [&SHORT[..], &hot, &["--cool-down", "60", "--json"]].concat();
    let document = run(&sandbox, &model, "fake", &args).json();
    let case = &document["cases"][0];
    let codes = finding_codes(case);
    assert!(!codes.contains(&"cool_down_failed".to_owned()), "{codes:?}");
    assert_eq!(case["rules"]["cool_down"]["below_millicelsius"], 60_000);

    let args = [
        &SHORT[..],
        &hot,
        &["--cool-down", "0", "--cool-down-limit", "1s", "--json"],
    ];
    let document = run(&sandbox, &model, "fake", &args.concat()).json();
    let codes = finding_codes(&document["cases"][0]);
    assert!(codes.contains(&"cool_down_failed".to_owned()), "{codes:?}");
    sandbox.finish();
}

/// Waits until a worker has loaded its model, which it says by how wide its trials are.
fn wait_for_the_worker(runtime: &Path) {
    let below = |folder: PathBuf| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path())
    };
    let is_there = || {
        // One folder for each daemon, in it one for each repeat.
        let mut repeats = below(runtime.join("edgedyno")).flat_map(below);
        repeats
            .any(|repeat| repeat.join("columns").exists())
            .then_some(())
    };
    let seen = Deadline::after(Duration::from_secs(60)).poll(is_there);
    assert!(seen.is_some(), "no worker has loaded its model");
}

#[test]
fn a_soak_tells_when_the_board_was_held_back() {
    let mut sandbox = Sandbox::new();
    let state = "sys/class/thermal/cooling_device0/cur_state";
    let heat = "sys/class/thermal/thermal_zone0/temp";
    let root = board(
        &sandbox,
        &[
            ("sys/class/thermal/thermal_zone0/type", "cpu-thermal\n"),
            (heat, "50000\n"),
            (
                "sys/class/thermal/cooling_device0/type",
                "thermal-cpufreq-0\n",
            ),
            (state, "0\n"),
            ("sys/class/thermal/cooling_device0/max_state", "5\n"),
        ],
    );
    sandbox.env("EDGEDYNO_AGENT_ROOT", &root);
    let model = small_model(&sandbox);
    let runtime = sandbox.runtime().to_owned();
    let time_line = std::thread::spawn(move || {
        wait_for_the_worker(&runtime);
        std::thread::sleep(Duration::from_secs(2));
        set(&root, heat, "90000\n");
        set(&root, state, "3\n");
        std::thread::sleep(Duration::from_secs(2));
        set(&root, heat, "60000\n");
        set(&root, state, "0\n");
    });
    let args = ["--soak", "7s", "--json"];
    let document = run(&sandbox, &model, "fake", &args).json();
    time_line.join().unwrap();
    assert_matches_schema(&document, "summary");
    let case = &document["cases"][0];
    let soak = &case["soak"];
    assert_eq!(soak["throttled"]["channel"], "cool.thermal_cpufreq_0.state");
    let after = number(&soak["throttled"]["after_seconds"]);
    assert!(after > 0.5 && after < 6.5, "{after}");
    // It was over before the last trial.
    assert_eq!(number(&soak["recovered_after_seconds"]), 0.0);
    assert!(number(&soak["watched_after_seconds"]) > 0.3);
    assert!(soak["slices"].as_array().unwrap().len() > 10);
    assert!(
        number(&soak["heat"]["to_celsius"]) > 85.0,
        "{}",
        soak["heat"]
    );
    let first = number(&case["fields"]["soak_first_rate_hz"]);
    assert!(first > 1.0, "{first}");
    let codes = finding_codes(case);
    assert!(codes.contains(&"soak_throttled".to_owned()), "{codes:?}");
    assert!(!codes.contains(&"throttled".to_owned()), "{codes:?}");
    let shown = sandbox.edgedyno(["summary", "last"]).stdout;
    assert!(shown.contains("held back after"), "{shown}");
    let refused = run(
        &sandbox,
        &model,
        "fake",
        &["--soak", "7s", "--telemetry", "off"],
    );
    assert!(refused.expect_code(2).stderr.contains("--soak"));
    sandbox.finish();
}

#[test]
fn energy_is_told_above_the_idle_board() {
    let mut sandbox = Sandbox::new();
    let current = "sys/class/hwmon/hwmon0/curr1_input";
    let root = board(
        &sandbox,
        &[
            ("sys/class/hwmon/hwmon0/name", "ina3221\n"),
            ("sys/class/hwmon/hwmon0/in1_label", "VDD_IN\n"),
            ("sys/class/hwmon/hwmon0/in1_input", "5000\n"),
            (current, "400\n"),
        ],
    );
    sandbox.env("EDGEDYNO_AGENT_ROOT", &root);
    let model = small_model(&sandbox);
    let runtime = sandbox.runtime().to_owned();
    let time_line = std::thread::spawn(move || {
        wait_for_the_worker(&runtime);
        set(&root, current, "1000\n");
    });
    let args = [
        "--repeat",
        "1",
        "--warmup",
        "1s",
        "--duration",
        "2s",
        "--idle-power",
        "2s",
        "--json",
    ];
    let document = run(&sandbox, &model, "fake", &args).json();
    time_line.join().unwrap();
    let fields = &document["cases"][0]["fields"];
    assert_eq!(text(&fields["power_rail"]), "rail.vdd_in.power");
    // 5 V and 0.4 A before, 1 A from then on.
    let near = |name: &str, expected: f64| {
        let found = number(&fields[name]);
        assert!((found / expected - 1.0).abs() < 1e-6, "{name}: {found}");
    };
    near("power_idle_w", 2.0);
    near("power_mean_w", 5.0);
    let (whole, above) = (
        number(&fields["energy_per_trial_j"]),
        number(&fields["energy_above_idle_per_trial_j"]),
    );
    assert!(
        (above / whole - 0.6).abs() < 1e-6,
        "3 of 5 W: {above} of {whole}"
    );
    assert_eq!(
        document["cases"][0]["rules"]["watch_before_ns"],
        2_000_000_000_i64
    );
    sandbox.finish();
}
