//! The host is killed at random points of a sweep, again and again, and resumed: nothing is lost and nothing
//! is measured twice.
//!
//! Five kills in an ordinary test run. The campaign, before a release:
//! `EDGEDYNO_CAMPAIGN_KILLS=100 cargo test --workspace --locked --test sweep_kills`.

use std::collections::BTreeMap;
use std::time::Duration;

use edgedyno_tests::Sandbox;
use edgedyno_tests::clock::Deadline;
use edgedyno_tests::commands::{number, small_model, text};
use nix::sys::signal::Signal;

/// Cases of the sweep, each measured once.
const CASES: usize = 200;

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
}

#[test]
fn a_host_killed_again_and_again_loses_nothing_and_measures_nothing_twice() {
    let kills: u64 = std::env::var("EDGEDYNO_CAMPAIGN_KILLS")
        .ok()
        .and_then(|kills| kills.parse().ok())
        .unwrap_or(5);
    let mut sandbox = Sandbox::new();
    sandbox.limit(Duration::from_secs(600));
    small_model(&sandbox);
    let batches: Vec<String> = (1..=CASES).map(|batch| batch.to_string()).collect();
    let plan = format!(
        "repeats = 1\n[axes]\nmodel = 'small.onnx'\nbackend = 'fake'\nbatch = [{}]\n\
         option.latency_us = 100\n[rules]\nwarmup = 'none'\ntrials = 11\n",
        batches.join(", ")
    );
    sandbox.write("plan.toml", plan);
    let mut random = Random(kills);
    let mut line = vec!["sweep", "plan.toml"];
    for _ in 0..kills {
        let running = sandbox.start_edgedyno(&line);
        // Anywhere: before the first order, within a delivery, or after the last.
        Deadline::after(Duration::from_millis(random.below(1500))).poll(|| None::<()>);
        running.signal(Signal::SIGKILL);
        running.wait();
        let begun = sandbox.edgedyno(["runs", "list", "--json"]);
        if begun.code == 0 && begun.stdout.contains("\"sweep\"") {
            line = vec!["sweep", "--resume", "last"];
        }
    }
    sandbox.edgedyno(&line);
    let document = sandbox.edgedyno(["summary", "last", "--json"]).ok().json();
    let cases = document["cases"].as_array().unwrap();
    assert_eq!(cases.len(), CASES);
    let mut seen = BTreeMap::new();
    for case in cases {
        let rows = case["repeats"].as_array().unwrap();
        let key = text(&case["fields"]["case_key"]);
        assert_eq!(rows.len(), 1, "measured again: {rows:?}");
        assert_eq!(rows[0]["outcome"], "complete");
        assert_eq!(number(&rows[0]["trials_count"]), 11.0);
        assert_eq!(seen.insert(key, ()), None);
    }
    assert_eq!(cases[0]["fields"]["run_status"], "complete");
    sandbox.finish();
}
