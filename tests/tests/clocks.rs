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

/// Both exchanges were answered, and every stamp of the board lies outside the window.
fn assert_clocks(rows: &[(RepeatRow, i64, i64)]) {
    assert_eq!(rows.len(), 3);
    for (row, start, end) in rows {
        let exchanges = &row.clock_exchanges;
        assert_eq!(exchanges.len(), 2, "{exchanges:?}");
        assert!(
            exchanges.iter().all(|e| e.state == "answered"),
            "{exchanges:?}"
        );
        assert!(exchanges[0].heard_ns.unwrap() < *start);
        assert!(exchanges[1].asked_ns.unwrap() > *end);
        assert_eq!(exchanges[0].host_clock, exchanges[1].host_clock);
        assert!(exchanges[1].drift_ppb.is_some());
        let readings = &row.clock_readings;
        assert_eq!(readings.len(), 2, "shorter than ten seconds: {readings:?}");
        assert!(readings[0].monotonic_ns < *start && readings[1].monotonic_ns > *end);
    }
}

/// Host and board are one machine here, so the true offset is nought.
fn assert_true_offset_inside(rows: &[(RepeatRow, i64, i64)]) {
    for exchange in rows.iter().flat_map(|(row, ..)| &row.clock_exchanges) {
        let (offset, bound) = (exchange.offset_ns.unwrap(), exchange.bound_ns.unwrap());
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
    assert_clocks(&rows);
    assert_true_offset_inside(&rows);

    let document = summary(&sandbox, "last");
    let fields = &document["cases"][0]["fields"];
    assert_eq!(number(&fields["clock_exchanges_count"]), 6.0);
    let bound = number(&fields["clock_offset_bound_ms"]);
    let widest = rows.iter().flat_map(|(row, ..)| &row.clock_exchanges);
    let widest = widest.map(|e| e.bound_ns.unwrap()).max().unwrap();
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
    assert_eq!(states(last), ["no_host", "no_host"]);
    assert!(last.clock_exchanges[0].offset_ns.is_none());
    assert_eq!(
        last.clock_readings.len(),
        2,
        "the board's own clocks need no host"
    );
    let fields = &summary(&lab.sandbox, "last")["cases"][0]["fields"];
    assert!(number(&fields["clock_exchanges_count"]) < 16.0);
}
