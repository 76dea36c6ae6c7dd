//! Several hosts that want one board: each gets it in its turn, and one that slept too long is told.

use edgedyno_tests::commands::{QUICK, small_model};
use edgedyno_tests::lab::{Lab, line};
use nix::sys::signal::Signal;
use serde_json::Value;

/// Outcomes of the attempts in a store, by repeat.
fn repeats(lab: &Lab, store: &str) -> Vec<(u64, String)> {
    let words = ["summary", "last", "--json", "--store", store];
    let document = lab.sandbox.edgedyno(words).ok().json();
    let rows = document["cases"][0]["repeats"].as_array().unwrap().clone();
    let of = |row: &Value| {
        let outcome = row["outcome"].as_str().unwrap().to_owned();
        (row["repeat"].as_u64().unwrap(), outcome)
    };
    rows.iter().map(of).collect()
}

fn complete(count: u64) -> Vec<(u64, String)> {
    (0..count)
        .map(|repeat| (repeat, "complete".into()))
        .collect()
}

fn lease_epoch(lab: &Lab) -> u64 {
    let info = lab.sandbox.edgedyno(["board", "info", "x", "--json"]).ok();
    info.json()["lease_epoch"].as_u64().unwrap()
}

#[test]
fn eight_hosts_race_and_each_measures_alone() {
    let lab = Lab::paired("run");
    let model = small_model(&lab.sandbox);
    let stores: Vec<String> = (0..8).map(|host| format!("store{host}")).collect();
    let hosts: Vec<_> = stores
        .iter()
        .map(|store| {
            let own = ["--backend", "fake", "--store", store, "--wait"];
            lab.sandbox
                .start_edgedyno(line(&model, &[&QUICK[..], &own].concat()))
        })
        .collect();
    for host in hosts {
        host.wait().ok();
    }
    for store in &stores {
        assert_eq!(repeats(&lab, store), complete(1));
    }
    assert_eq!(lease_epoch(&lab), 8, "each had it once, and nobody twice");
    // Windows by the board's clock: no two overlap.
    let mut windows: Vec<(i64, i64)> = stores
        .iter()
        .map(|store| {
            let words = ["records", "last", "--json", "--store", store];
            let lines = lab.sandbox.edgedyno(words).ok().stdout;
            let of = |name: &str| -> Vec<i64> {
                let values = lines.lines().map(|line| {
                    let record: Value = serde_json::from_str(line).unwrap();
                    record[name].as_i64().unwrap()
                });
                values.collect()
            };
            let starts = of("start_ns");
            let ends = of("end_ns");
            (*starts.iter().min().unwrap(), *ends.iter().max().unwrap())
        })
        .collect();
    windows.sort_unstable();
    assert!(
        windows.windows(2).all(|pair| pair[0].1 < pair[1].0),
        "{windows:?}"
    );
}

#[test]
fn a_host_that_was_stopped_past_its_lease_orders_nothing_more() {
    let lab = Lab::paired("run");
    let model = small_model(&lab.sandbox);
    let plan = ["--backend", "fake", "--warmup", "2", "--store"];
    let first = [&plan[..], &["a", "--repeat", "12", "--duration", "0.1s"]].concat();
    let mut first = lab.sandbox.start_edgedyno(line(&model, &first));
    first.wait_until("a worker", |_| lab.has_worker());
    first.signal(Signal::SIGSTOP);
    // The board works its queue off, then waits some seconds for who does not come back.
    let second = [
        &plan[..],
        &["b", "--wait", "--repeat", "4", "--duration", "2s"],
    ]
    .concat();
    let mut second = lab.sandbox.start_edgedyno(line(&model, &second));
    second.wait_until("its turn", |_| {
        let info = lab.sandbox.edgedyno(["board", "info", "x", "--json"]).ok();
        info.json()["lease_epoch"] == 2
    });
    first.signal(Signal::SIGCONT);
    let refused = first.wait().expect_code(4);
    assert!(
        refused.stderr.contains("board x is in use"),
        "{}",
        refused.stderr
    );
    second.wait().ok();
    assert_eq!(repeats(&lab, "b"), complete(4));
    let resume = ["run", "--resume", "last", "--store", "a"];
    lab.sandbox.edgedyno(resume).ok();
    assert_eq!(repeats(&lab, "a"), complete(12));
    assert_eq!(lease_epoch(&lab), 3);
}

#[test]
fn no_time_is_lost_when_hosts_take_turns() {
    let lab = Lab::paired("run");
    let model = small_model(&lab.sandbox);
    // A host that ends well gives the board back at once: nobody waits for its lease to run out.
    let own = |store: &'static str| [&QUICK[..], &["--backend", "fake", "--store", store]].concat();
    for store in ["a", "b", "c"] {
        lab.run(&model, &own(store)).ok();
    }
    assert_eq!(lease_epoch(&lab), 3);
}
