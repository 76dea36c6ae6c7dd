//! The host's clock is asked for before and after each repeat, never while trials are measured.

use edgedyno::store::{RepeatRow, Store};
use edgedyno::view::CaseView;
use edgedyno_shared::ids::RunId;
use edgedyno_tests::Sandbox;
use edgedyno_tests::commands::{number, run_line, small_model, summary, text};
use edgedyno_tests::lab::{Lab, line};

const PLAN: [&str; 6] = ["--repeat", "3", "--warmup", "2", "--duration", "0.2s"];

/// The repeats of the only case of the last run, each with its window.
fn repeats(sandbox: &Sandbox) -> Vec<(RepeatRow, i64, i64)> {
    let document = summary(sandbox, "last");
    let run = RunId(text(&document["cases"][0]["fields"]["run_id"]));
    let store = Store::open_reading(&sandbox.store()).unwrap();
    let case = store.cases(&run).unwrap().remove(0);
    let view = CaseView::read(&store, &run, case.key).unwrap();
    let with_window = view.repeats.into_iter().map(|repeat| {
        let window = repeat.trials.window.unwrap();
        (repeat.row, window.start_ns, window.end_ns)
    });
    with_window.collect()
}

/// How many exchanges were answered: all, but for a machine so busy that its host did not come to answer in
/// time. Every stamp of the board lies outside the window.
fn assert_clocks(rows: &[(RepeatRow, i64, i64)]) -> usize {
    assert_eq!(rows.len(), 3);
    let mut answered = 0;
    for (row, start, end) in rows {
        let exchanges = &row.clock_exchanges;
        let states: Vec<&str> = exchanges.iter().map(|e| e.state.as_str()).collect();
        assert_eq!(states.len(), 2, "{exchanges:?}");
        let is_known = |state: &&str| ["answered", "silent"].contains(state);
        assert!(states.iter().all(is_known), "{exchanges:?}");
        answered += states.iter().filter(|state| **state == "answered").count();
        assert!(exchanges[0].heard_ns.is_none_or(|heard| heard < *start));
        assert!(exchanges[1].asked_ns.is_none_or(|asked| asked > *end));
        let both = states == ["answered", "answered"];
        assert_eq!(exchanges[1].drift_ppb.is_some(), both);
        let readings = &row.clock_readings;
        assert_eq!(readings.len(), 2, "shorter than ten seconds: {readings:?}");
        assert!(readings[0].monotonic_ns < *start && readings[1].monotonic_ns > *end);
    }
    assert!(answered > 0, "{rows:?}");
    answered
}

/// Host and board are one machine here, so the true offset is nought.
fn assert_true_offset_inside(rows: &[(RepeatRow, i64, i64)]) {
    for exchange in rows.iter().flat_map(|(row, ..)| &row.clock_exchanges) {
        let (Some(offset), Some(bound)) = (exchange.offset_ns, exchange.bound_ns) else {
            continue;
        };
        assert!(
            offset.abs() <= bound,
            "{offset} is further off than {bound}"
        );
        assert!(bound > 0);
    }
}

#[test]
fn exchanges_bracket_every_repeat_on_this_machine() {
    let sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    sandbox.edgedyno(run_line(&model, "fake", &PLAN)).ok();
    let rows = repeats(&sandbox);
    let answered = assert_clocks(&rows);
    assert_true_offset_inside(&rows);

    let document = summary(&sandbox, "last");
    let fields = &document["cases"][0]["fields"];
    assert_eq!(number(&fields["clock_exchanges_count"]), answered as f64);
    let bound = number(&fields["clock_offset_bound_ms"]);
    let widest = rows.iter().flat_map(|(row, ..)| &row.clock_exchanges);
    let widest = widest.filter_map(|e| e.bound_ns).max().unwrap();
    assert_eq!(bound, widest as f64 / 1e6);
    // The wall clocks are one, too.
    let apart = number(&fields["clock_wall_offset_ms"]);
    assert!(apart.abs() < 1000.0, "{apart} ms");
    let shown = sandbox
        .edgedyno(["get", "last", "clock_offset_bound_ms"])
        .ok();
    assert_eq!(shown.stdout.trim().parse::<f64>().unwrap(), bound);
    let exchanges = &document["cases"][0]["repeats"][0]["clock_exchanges"];
    assert_eq!(exchanges[0]["moment"], "before");
    assert_eq!(exchanges[1]["moment"], "after");
}

#[test]
fn exchanges_bracket_every_repeat_on_the_network() {
    let lab = Lab::paired("run");
    let model = small_model(&lab.sandbox);
    let plan = [&["--backend", "fake"][..], &PLAN].concat();
    lab.sandbox.edgedyno(line(&model, &plan)).ok();
    let rows = repeats(&lab.sandbox);
    assert_clocks(&rows);
    assert_true_offset_inside(&rows);
}

#[test]
fn a_repeat_that_was_measured_while_the_host_was_away_says_so() {
    let lab = Lab::paired("run");
    let relay = lab.through(edgedyno_tests::udp_relay::Weather::default(), 1);
    let model = small_model(&lab.sandbox);
    let plan = ["--backend", "fake", "--repeat", "8", "--warmup", "2"];
    let plan = [&plan[..], &["--duration", "0.8s"]].concat();
    let mut running = lab.sandbox.start_edgedyno(line(&model, &plan));
    running.wait_until("a worker", |_| lab.has_worker());
    relay.cut(true);
    running.wait_until("the plan in the spool", |_| lab.spooled() == 8);
    relay.cut(false);
    running.wait().ok();
    let rows = repeats(&lab.sandbox);
    let states = |row: &RepeatRow| -> Vec<String> {
        let all = row.clock_exchanges.iter();
        all.map(|exchange| exchange.state.clone()).collect()
    };
    let last = &rows.iter().find(|(row, ..)| row.key.repeat == 7).unwrap().0;
    // The board learns only after twenty seconds that its host is not there any more.
    let is_without = |state: &String| ["no_host", "silent"].contains(&state.as_str());
    assert!(states(last).iter().all(is_without), "{:?}", states(last));
    assert!(last.clock_exchanges[0].offset_ns.is_none());
    assert_eq!(
        last.clock_readings.len(),
        2,
        "the board's own clocks need no host"
    );
    let fields = &summary(&lab.sandbox, "last")["cases"][0]["fields"];
    assert!(number(&fields["clock_exchanges_count"]) < 16.0);
}
