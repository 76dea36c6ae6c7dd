//! Host or agent is killed at random points of a run of fifty repeats, again and again: nothing finished is
//! lost, nothing is stored twice, and what was under way is tried again.
//!
//! Thirty kills a side in a strict test run, ten elsewhere. The campaign:
//! `EDGEDYNO_CAMPAIGN_RUN_KILLS=1000 cargo test --workspace --locked --test run_kills`.

use std::collections::BTreeMap;
use std::time::Duration;

use edgedyno_tests::Sandbox;
use edgedyno_tests::clock::Deadline;
use edgedyno_tests::commands::{run_line, small_model, summary, text};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const REPEATS: u64 = 50;
const TRIALS: u64 = 40;

/// SplitMix64, so that a failing campaign can be run again.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % most
    }

    fn pause(&mut self, most: u64) {
        Deadline::after(Duration::from_millis(self.below(most))).poll(|| None::<()>);
    }
}

fn kills() -> u64 {
    let asked = std::env::var("EDGEDYNO_CAMPAIGN_RUN_KILLS").ok();
    let is_strict = std::env::var_os("EDGEDYNO_TEST_STRICT").is_some_and(|strict| strict == "1");
    let asked = asked.and_then(|kills| kills.parse().ok());
    asked.unwrap_or(if is_strict { 30 } else { 10 })
}

fn sandbox() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.limit(Duration::from_secs(600));
    sandbox
}

fn plan(sandbox: &Sandbox) -> Vec<String> {
    let model = small_model(sandbox);
    let (repeats, trials) = (REPEATS.to_string(), TRIALS.to_string());
    let rules = ["--repeat", &repeats, "--trials", &trials, "--warmup", "2"];
    let script = ["--option", "latency_us=500"];
    run_line(&model, "fake", &[&rules[..], &script].concat())
}

fn resume() -> Vec<String> {
    ["run", "--resume", "last"].map(str::to_owned).to_vec()
}

/// Outcomes of each repeat of the last run, every attempt once, whole ones with all their trials.
fn attempts(sandbox: &Sandbox) -> BTreeMap<u64, Vec<String>> {
    let document = summary(sandbox, "last");
    let mut all: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let mut keys = Vec::new();
    for row in document["cases"][0]["repeats"].as_array().unwrap() {
        let number = |name: &str| row[name].as_u64().unwrap();
        let outcome = text(&row["outcome"]);
        match outcome.as_str() {
            "complete" => assert_eq!(number("trials_count"), TRIALS, "{row}"),
            _ => assert!(number("trials_count") <= TRIALS, "{row}"),
        }
        keys.push((number("repeat"), number("attempt")));
        all.entry(number("repeat")).or_default().push(outcome);
    }
    let count = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), count, "an attempt stands twice");
    assert_eq!(all.len() as u64, REPEATS, "a repeat is missing");
    all
}

/// What the agent keeps of finished repeats.
fn spooled(sandbox: &Sandbox) -> usize {
    let stores = std::fs::read_dir(sandbox.state().join("spool"));
    let stores = stores.into_iter().flatten().flatten();
    let files = stores.flat_map(|store| std::fs::read_dir(store.path()).into_iter().flatten());
    let ends = |file: &std::fs::DirEntry| file.path().extension().is_some_and(|e| e == "seg");
    files.flatten().filter(ends).count()
}

#[test]
fn a_host_killed_at_any_point_loses_nothing_and_measures_nothing_twice() {
    let sandbox = sandbox();
    let first = plan(&sandbox);
    let mut random = Random(1);
    let mut left = kills();
    while left > 0 {
        // One run after the other, until all kills are done.
        let mut line = first.clone();
        loop {
            let mut running = sandbox.start_edgedyno(&line);
            random.pause(400);
            if left == 0 || running.has_ended() {
                running.wait().ok();
                break;
            }
            running.signal(Signal::SIGKILL);
            running.wait();
            left -= 1;
            // What was begun can be gone on with, and anything else was never begun.
            let begun = sandbox.edgedyno(["runs", "list", "--json"]);
            let is_begun = begun.code == 0
                && begun.json()["runs"]
                    .get(0)
                    .is_some_and(|newest| newest["status"] != "complete");
            line = if is_begun { resume() } else { first.clone() };
        }
        let all = attempts(&sandbox);
        let once = |outcomes: &Vec<String>| outcomes == &["complete"];
        assert!(
            all.values().all(once),
            "measured again, or not at all: {all:?}"
        );
    }
    assert_eq!(spooled(&sandbox), 0);
    sandbox.finish();
}

#[test]
fn an_agent_killed_at_any_point_loses_no_trial_that_it_had_and_tries_again() {
    let sandbox = sandbox();
    let line = plan(&sandbox);
    let mut random = Random(2);
    let mut left = kills();
    let mut lost = 0;
    while left > 0 {
        let mut running = sandbox.start_edgedyno(&line);
        while left > 0 && !running.has_ended() {
            random.pause(600);
            let lock = std::fs::read_to_string(sandbox.state().join("agent.lock"));
            let process = lock.ok().and_then(|text| text.trim().parse().ok());
            // A daemon that left by itself took its lock along.
            let is_there = |pid: &i32| {
                let all = sandbox.processes();
                all.iter()
                    .any(|(found, line)| found.as_raw() == *pid && line.contains("serve"))
            };
            if let Some(process) = process.filter(is_there) {
                left -= u64::from(kill(Pid::from_raw(process), Signal::SIGKILL).is_ok());
            }
        }
        let ended = running.wait();
        match ended.code {
            0 | 8 => {}
            // Killed too often in a row for one connection's patience.
            4 => {
                let resumed = sandbox.edgedyno(resume());
                assert!([0, 8].contains(&resumed.code), "{}", resumed.stderr);
            }
            _ => panic!("{}", ended.stderr),
        }
        for (repeat, outcomes) in attempts(&sandbox) {
            let complete = outcomes
                .iter()
                .filter(|outcome| *outcome == "complete")
                .count();
            let failed = outcomes
                .iter()
                .filter(|outcome| *outcome == "failed")
                .count();
            assert_eq!(
                complete + failed,
                outcomes.len(),
                "repeat {repeat}: {outcomes:?}"
            );
            let fits = complete == 1 || (complete == 0 && failed == 2);
            let said = format!("exit {}\n{}", ended.code, ended.stderr);
            assert!(fits, "repeat {repeat}: {outcomes:?} after {said}");
            lost += failed;
        }
        let document = summary(&sandbox, "last");
        for row in document["cases"][0]["failures"].as_array().unwrap() {
            assert_eq!(row["code"], "agent_restarted", "{row}");
        }
    }
    assert_eq!(spooled(&sandbox), 0);
    assert!(
        lost as u64 <= kills(),
        "{lost} attempts were lost with fewer kills"
    );
}
