//! Whoever is stopped or killed, what was finished stays, is stored once, and the plan can go on.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use edgedyno_tests::commands::{finding_codes, make, number, run_line, small_model, summary, text};
use edgedyno_tests::schema::assert_matches_schema;
use edgedyno_tests::{Running, Sandbox};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Long enough to be met in the middle, with some tens of trials read by then.
const MIDDLE: Duration = Duration::from_millis(500);

fn start(sandbox: &Sandbox, model: &Path, repeats: &str) -> Running {
    let rules = ["--repeat", repeats, "--warmup", "2", "--duration", "1.5s"];
    sandbox.start_edgedyno(run_line(model, "fake", &rules))
}

/// Waits until the first repeat measures, and returns the processes of daemon and worker.
fn wait_for_window(sandbox: &Sandbox, running: &mut Running) -> (Pid, Pid) {
    let find = |word: &str| {
        let all = sandbox.processes();
        all.iter()
            .find(|(_, line)| line.contains(word))
            .map(|(pid, _)| *pid)
    };
    running.wait_until("a worker", |_| find("worker --control").is_some());
    std::thread::sleep(MIDDLE);
    let found = (find("serve --on-demand"), find("worker --control"));
    (found.0.expect("a daemon"), found.1.expect("a worker"))
}

/// Repeat, attempt and outcome of every attempt of the only case.
fn attempts(document: &Value) -> Vec<(u64, u64, String)> {
    let repeats = document["cases"][0]["repeats"].as_array().unwrap();
    repeats
        .iter()
        .map(|row| {
            let count = |name: &str| row[name].as_u64().unwrap();
            (count("repeat"), count("attempt"), text(&row["outcome"]))
        })
        .collect()
}

/// The lines of `records`, by repeat and attempt. Trial numbers must be 0, 1, 2 ...: none twice, none
/// missing.
fn records(sandbox: &Sandbox) -> BTreeMap<(u64, u64), Vec<String>> {
    let output = sandbox.edgedyno(["records", "last", "--json"]);
    let mut all: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for line in output.stdout.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let count = |name: &str| record[name].as_u64().unwrap();
        let lines = all.entry((count("repeat"), count("attempt"))).or_default();
        assert_eq!(
            count("trial"),
            lines.len() as u64,
            "a trial twice or none: {line}"
        );
        lines.push(line.to_owned());
    }
    all
}

fn expected(list: &[(u64, u64, &str)]) -> Vec<(u64, u64, String)> {
    list.iter()
        .map(|&(repeat, attempt, outcome)| (repeat, attempt, outcome.to_owned()))
        .collect()
}

#[test]
fn an_interrupt_lets_the_running_repeat_finish_and_resume_does_the_rest() {
    let sandbox = Sandbox::new();
    let mut running = start(&sandbox, &small_model(&sandbox), "3");
    wait_for_window(&sandbox, &mut running);
    running.signal(Signal::SIGINT);
    let output = running.wait().expect_code(130);
    assert!(
        output.stderr.contains("stopping after this repeat"),
        "{}",
        output.stderr
    );

    let stopped = summary(&sandbox, "last");
    assert_eq!(attempts(&stopped), expected(&[(0, 0, "complete")]));
    assert_eq!(stopped["cases"][0]["fields"]["run_status"], "interrupted");
    let before = records(&sandbox);

    sandbox.edgedyno(["run", "--resume", "last"]).ok();
    let whole = summary(&sandbox, "last");
    let all = [(0, 0, "complete"), (1, 0, "complete"), (2, 0, "complete")];
    assert_eq!(attempts(&whole), expected(&all));
    assert_eq!(whole["cases"][0]["fields"]["run_status"], "complete");
    assert_eq!(
        records(&sandbox)[&(0, 0)],
        before[&(0, 0)],
        "measured again"
    );
    sandbox.edgedyno(["run", "--resume", "last"]).expect_code(2);
    sandbox.finish();
}

/// Whoever looks at it later sees what it is without looking elsewhere.
#[test]
fn an_interrupted_experiment_says_how_much_of_it_there_is() {
    let sandbox = Sandbox::new();
    small_model(&sandbox);
    let line = [
        "stress",
        "small.onnx",
        "--backend",
        "fake",
        "--gap",
        "0,5ms",
    ];
    let rules = ["--warmup", "2", "--duration", "1.5s", "--repeat", "2"];
    let mut running = sandbox.start_edgedyno(line.iter().chain(&rules));
    wait_for_window(&sandbox, &mut running);
    running.signal(Signal::SIGINT);
    running.wait().expect_code(130);

    let show = ["stress", "--show", "last", "--force"];
    let shown = sandbox.edgedyno(show);
    // Two rounds of two cases, and three looks at the end; no sentinel comes behind fewer than eight.
    let said = "not complete (interrupted): 1 of 7 planned repeats measured";
    assert!(shown.stdout.starts_with(said), "{}", shown.stdout);
    let document = sandbox.edgedyno(show.iter().chain(&["--json"])).json();
    assert_matches_schema(&document, "contention");
    let incomplete = &document["incomplete"];
    assert_eq!(incomplete["status"], "interrupted");
    let count = |name: &str| number(&incomplete[name]);
    let counts = ["repeats_planned", "repeats_complete", "repeats_failed"].map(count);
    assert_eq!(counts, [7.0, 1.0, 0.0]);
}

#[test]
fn a_second_interrupt_kills_the_repeat_and_keeps_its_trials() {
    let sandbox = Sandbox::new();
    let mut running = start(&sandbox, &small_model(&sandbox), "2");
    wait_for_window(&sandbox, &mut running);
    running.signal(Signal::SIGINT);
    running.wait_until("an answer", |running| {
        running.stderr_so_far().contains("stopping")
    });
    running.signal(Signal::SIGINT);
    running.wait().expect_code(130);

    let stopped = summary(&sandbox, "last");
    assert_eq!(attempts(&stopped), expected(&[(0, 0, "cancelled")]));
    let kept = records(&sandbox)[&(0, 0)].clone();
    assert!(kept.len() > 4, "{} trials", kept.len());

    sandbox.edgedyno(["run", "--resume", "last"]).ok();
    let whole = summary(&sandbox, "last");
    let all = [(0, 0, "cancelled"), (0, 1, "complete"), (1, 0, "complete")];
    assert_eq!(attempts(&whole), expected(&all));
    assert_eq!(records(&sandbox)[&(0, 0)], kept);
    // Only complete attempts count.
    assert_eq!(number(&whole["cases"][0]["fields"]["repeats_count"]), 2.0);
}

/// As a terminal does it: the whole group gets the signal, and the daemon is not in it.
#[test]
fn an_interrupt_of_the_whole_group_reaches_neither_daemon_nor_worker() {
    let sandbox = Sandbox::new();
    let mut running = start(&sandbox, &small_model(&sandbox), "1");
    wait_for_window(&sandbox, &mut running);
    running.signal_group(Signal::SIGINT);
    running.wait();
    assert_eq!(
        attempts(&summary(&sandbox, "last")),
        expected(&[(0, 0, "complete")])
    );
}

#[test]
fn a_killed_host_loses_nothing_and_measures_nothing_twice() {
    let sandbox = Sandbox::new();
    let mut running = start(&sandbox, &small_model(&sandbox), "3");
    wait_for_window(&sandbox, &mut running);
    running.signal(Signal::SIGKILL);
    running.wait().expect_code(137);

    sandbox.edgedyno(["run", "--resume", "last"]).ok();
    let all = [(0, 0, "complete"), (1, 0, "complete"), (2, 0, "complete")];
    assert_eq!(attempts(&summary(&sandbox, "last")), expected(&all));
    assert_eq!(records(&sandbox).len(), 3);
    sandbox.finish();
}

#[test]
fn a_killed_daemon_costs_one_attempt_and_the_plan_goes_on() {
    let sandbox = Sandbox::new();
    let mut running = start(&sandbox, &small_model(&sandbox), "2");
    let (daemon, _) = wait_for_window(&sandbox, &mut running);
    kill(daemon, Signal::SIGKILL).unwrap();
    running.wait().ok();

    let document = summary(&sandbox, "last");
    let all = [(0, 0, "failed"), (0, 1, "complete"), (1, 0, "complete")];
    assert_eq!(attempts(&document), expected(&all));
    let case = &document["cases"][0];
    assert_eq!(case["failures"][0]["code"], "agent_restarted");
    assert!(finding_codes(case).contains(&"agent_restarted".to_owned()));
    // What stood in the arena when the daemon died was read by the next one.
    assert!(records(&sandbox)[&(0, 0)].len() > 4);
    assert_eq!(number(&case["fields"]["repeats_count"]), 2.0);
}

#[test]
fn a_killed_worker_costs_its_repeat_alone() {
    let sandbox = Sandbox::new();
    let mut running = start(&sandbox, &small_model(&sandbox), "2");
    let (_, worker) = wait_for_window(&sandbox, &mut running);
    kill(worker, Signal::SIGKILL).unwrap();
    running.wait().ok();
    let document = summary(&sandbox, "last");
    assert_eq!(
        attempts(&document),
        expected(&[(0, 0, "failed"), (1, 0, "complete")])
    );
    assert_eq!(document["cases"][0]["failures"][0]["code"], "killed");
    assert!(records(&sandbox)[&(0, 0)].len() > 4);
}

/// Repeats of one case must be of one model: another file under the same name is refused.
#[test]
fn a_run_goes_on_only_with_the_same_model() {
    let sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    let mut running = start(&sandbox, &model, "2");
    wait_for_window(&sandbox, &mut running);
    running.signal(Signal::SIGINT);
    running.wait().expect_code(130);
    let resume = ["run", "--resume", "last"];

    let kept = std::fs::read(&model).unwrap();
    std::fs::remove_file(&model).unwrap();
    let gone = sandbox.edgedyno(resume).expect_code(2);
    assert!(gone.stderr.contains("does not exist"), "{}", gone.stderr);
    make(&sandbox, "small.onnx", &["--seed", "2"]);
    let other = sandbox.edgedyno(resume).expect_code(2);
    assert!(other.stderr.contains("not what it was"), "{}", other.stderr);
    std::fs::write(&model, kept).unwrap();
    sandbox.edgedyno(resume).ok();
}
