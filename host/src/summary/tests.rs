//! A case whose figures were worked out by hand.

use edgedyno_shared::repeat::{Outcome, Stage};
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_shared::wire::record::Record;
use tempfile::TempDir;

use crate::store::rows::MomentRow;
use crate::store::sample::{
    CASE, MS, add_run, case, deliver, end, key, new_case, new_run, new_store, repeat, run_id,
};
use crate::store::{Store, sample};
use crate::view::CaseView;

use super::*;

/// 1, 2 ... 11 ms: median 6 ms, type-7 p90 at rank 9 (from 0) exactly, 10 ms.
pub(crate) fn eleven() -> Vec<i64> {
    (1..=11).map(|i| i * MS).collect()
}

/// A run `a` of three repeats with the trials of [`eleven`].
pub(crate) fn hand_worked() -> (TempDir, Store) {
    let (dir, mut store) = new_store();
    add_run(&store, "a");
    for n in 0..3 {
        deliver(&mut store, key("a", n, 0), &repeat(&eleven())).unwrap();
    }
    (dir, store)
}

pub(crate) fn view(store: &Store) -> CaseView {
    CaseView::read(store, &run_id("a"), CASE).unwrap()
}

/// A case with these measured trials, repeat by repeat.
pub(crate) fn summary_of(repeats: &[Vec<i64>]) -> CaseSummary {
    let (_dir, mut store) = new_store();
    add_run(&store, "a");
    for (n, trials) in (0..).zip(repeats) {
        deliver(&mut store, key("a", n, 0), &repeat(trials)).unwrap();
    }
    summarise(&view(&store))
}

/// A view of one case whose only repeat has these records.
pub(crate) fn view_of(records: &[Record]) -> CaseView {
    let (_dir, mut store) = new_store();
    add_run(&store, "a");
    deliver(&mut store, key("a", 0, 0), records).unwrap();
    view(&store)
}

fn close(found: Option<f64>, expected: f64) {
    let found = found.unwrap();
    assert!(
        (found / expected - 1.0).abs() < 1e-9,
        "{found} is not {expected}"
    );
}

#[test]
fn warm_latency_and_rate_match_hand_worked_values() {
    let (_dir, store) = hand_worked();
    let latency = summarise(&view(&store)).latency.unwrap();
    let d = latency.distribution;
    close(Some(d.p50.value), 6e6);
    close(Some(d.p90.value), 10e6);
    close(Some(d.mean), 6e6);
    // Sum of squared distances from 6: 2 (25 + 16 + 9 + 4 + 1) = 110, over 10: 11.
    close(d.std, 11_f64.sqrt() * 1e6);
    assert_eq!((d.min, d.max, d.n, d.repeats), (MS, 11 * MS, 33, 3));
    // 11 trials back to back in 1 + 2 + ... + 11 = 66 ms.
    close(latency.rate_hz, 11.0 / 0.066);
    assert_eq!(latency.count_text(), "3x11");
    // Equal repeats: an interval without width.
    close(latency.p50_interval.map(|e| e.high), 6e6);
}

#[test]
fn cold_stages_match_hand_worked_values() {
    let (_dir, store) = hand_worked();
    let cold = summarise(&view(&store)).cold;
    close(cold.dlopen_ns, 10e6);
    close(cold.load_ns, 30e6);
    assert_eq!(cold.compile_ns, Some(0.0));
    close(cold.first_ns, 20e6);
    close(cold.second_ns, 5e6);
    // 2 + 10 + 3 + 30 + 0 + 5 ms of stages and 20 ms of the first run.
    close(cold.total_ns, 70e6);
}

#[test]
fn requested_stands_beside_observed() {
    let (_dir, store) = hand_worked();
    let summary = summarise(&view(&store));
    let placement = &summary.placement;
    assert_eq!(placement.threads_requested, Some(2));
    assert_eq!(placement.threads_busy, Some(2));
    assert_eq!(placement.cpus_observed, Some(vec![2, 3]));
    assert_eq!(summary.memory.rss_at(MomentRow::Loaded), Some(60 << 20));
    assert_eq!(
        summary.memory.rss_at(MomentRow::AfterWindow),
        Some(71 << 20)
    );
    assert_eq!(summary.memory.peak_bytes, Some(73 << 20));
    assert_eq!(summary.environment.fact("kernel_release"), Some("6.12.0"));
    assert_eq!(
        summary.environment.facts_of("governor").as_deref(),
        Some("performance")
    );
    assert_eq!(summary.tool.cpu_ns, Some(9 * MS));
    close(summary.tool.cpu_share(), 0.003);
    assert_eq!(summary.counts.repeats_complete, 3);
    assert_eq!(summary.warmup.trials, Some(1.0));
    assert_eq!(summary.warmup.time_ns, Some(4e6));
    assert_eq!(summary.warmup.steady, Some(true));
}

#[test]
fn only_the_attempt_that_counts_enters_the_figures() {
    let (_dir, mut store) = new_store();
    add_run(&store, "a");
    deliver(&mut store, key("a", 0, 0), &repeat(&[100 * MS; 20])).unwrap();
    deliver(&mut store, key("a", 0, 1), &repeat(&[2 * MS; 20])).unwrap();
    let failure = Failure::new(FailureCode::Crash, "SIGSEGV in libx.so");
    let stage = Stage::Measure;
    deliver(
        &mut store,
        key("a", 1, 0),
        &[end(Outcome::Failed { stage, failure }, 0, 0)],
    )
    .unwrap();
    let summary = summarise(&view(&store));
    assert_eq!(summary.latency.as_ref().unwrap().count_text(), "1x20");
    close(
        summary.latency.as_ref().map(|l| l.distribution.p50.value),
        2e6,
    );
    assert_eq!(summary.repeats.len(), 3);
    assert_eq!(summary.counts.repeats_failed, 1);
    assert_eq!(summary.failures[0].failure.as_ref().unwrap().code, "crash");
}

#[test]
fn the_point_is_the_geometric_mean_over_repeats() {
    let (_dir, mut store) = new_store();
    add_run(&store, "a");
    deliver(&mut store, key("a", 0, 0), &repeat(&[MS; 20])).unwrap();
    deliver(&mut store, key("a", 1, 0), &repeat(&[4 * MS; 30])).unwrap();
    let latency = summarise(&view(&store)).latency.unwrap();
    close(Some(latency.distribution.p50.value), 2e6);
    // 1000 and 250 trials in each second.
    close(latency.rate_hz, 500.0);
    assert_eq!(latency.count_text(), "2x20–30");
}

#[test]
fn nothing_measured_is_unknown_and_not_zero() {
    let (_dir, store) = new_store();
    add_run(&store, "a");
    let summary = summarise(&view(&store));
    assert!(summary.latency.is_none());
    assert_eq!(summary.cold, ColdStart::default());
    assert_eq!(summary.memory, MemoryUse::default());
    assert_eq!(summary.tool, ToolCost::default());
    assert!(summary.cite.contains("no trial measured"));
}

#[test]
fn a_result_can_be_cited_in_one_line() {
    let (_dir, store) = hand_worked();
    assert_eq!(
        summarise(&view(&store)).cite,
        "net.onnx on onnxruntime 1.27.1 (2 threads, batch 1), Test CPU @ 3.0GHz, kernel 6.12.0, \
         governor performance: p50 6 ms, p99 10.9 ms (too few trials), n 3x11; EdgeDyno 0.1.0, a/cacacaca"
    );
}

#[test]
fn simulated_figures_say_so_first() {
    let (_dir, store) = new_store();
    store.begin_run(&new_run("a", 0)).unwrap();
    let mut fake = case();
    fake.backend = "fake".into();
    store.add_case(&run_id("a"), &new_case(&fake)).unwrap();
    let summary = summarise(&view(&store));
    assert!(summary.simulated);
    assert!(summary.cite.starts_with("SIMULATED: "));
    assert!(summary.findings.iter().any(|f| f.code == "simulated"));
}

#[test]
fn the_fingerprint_changes_with_a_lasting_fact_only() {
    let (_dir, store) = hand_worked();
    let mut view = view(&store);
    let print = |view: &CaseView| summarise(view).environment.fingerprint.unwrap();
    let before = print(&view);
    let mut set = |name: &str, value: &str| {
        let start = view.repeats[2].row.start.as_mut().unwrap();
        let fact = start
            .environment
            .iter_mut()
            .find(|f| f.name == name)
            .unwrap();
        fact.value = Some(value.into());
        print(&view)
    };
    assert_eq!(set("load_average", "3.0 2.0 1.0 1/1 1"), before);
    assert_ne!(set("governor.policy0", "powersave"), before);
}

#[test]
fn failed_trials_are_counted_and_left_out() {
    let mut records = repeat(&[]);
    let timed = [
        [3, 0, MS, 0, 0],
        [3, MS, 9 * MS, 1, 0],
        [3, 9 * MS, 10 * MS, 2, 0],
    ];
    let chunk = edgedyno_shared::columns::Chunk::from_slots(0, 9, 5, timed.as_flattened());
    records.insert(records.len() - 1, Record::Chunk(chunk));
    let view = view_of(&records);
    let trials = &view.repeats[0].trials;
    assert_eq!(trials.measured, [MS]);
    assert_eq!((trials.failed, trials.corrupt), (1, 1));
    assert_eq!(trials.window.unwrap().length_ns(), 9 * MS);
    assert_eq!(sample::trials(&[]).len() as u64 + 3, trials.all);
}

#[test]
fn equal_facts_of_several_cases_are_kept_once() {
    let (_dir, store) = hand_worked();
    let mut known = std::collections::HashSet::new();
    let mut share = || {
        let mut summary = summarise(&view(&store));
        let before = summary.environment.clone();
        summary.environment.share(&mut known);
        assert_eq!(summary.environment, before, "what is shared is equal");
        summary.environment.facts
    };
    let (one, other) = (share(), share());
    assert!(!one.is_empty());
    let pairs = one.iter().zip(&other);
    assert!(pairs.into_iter().all(|(a, b)| Arc::ptr_eq(a, b)));
}
