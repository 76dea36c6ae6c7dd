//! Whole comparisons of stored runs whose figures are known.

use edgedyno_shared::device::{Fact, Reading};
use edgedyno_shared::ids::Sha256;
use edgedyno_shared::order::OrderKey;
use edgedyno_shared::wire::record::Record;

use super::arm::Arm;
use super::baseline::Baseline;
use super::cell::{Verdict, Why};
use super::conditions::{Weight, differences};
use super::gate::{self, Outcome};
use super::json;
use super::load;
use super::matching::{self, Between, MatchError};
use super::metric::{self, METRICS, Metric};
use super::report::{Ask, Comparison, Named};
use super::rule::Pairing;
use super::sessions::Sessions;
use crate::exit::Exit;
use crate::fields::condition::Condition;
use crate::source::Source;
use crate::stats::session::SessionSpread;
use crate::store::rows::RulesRow;
use crate::store::sample::{
    CASE, MS, case, deliver, key, new_case, new_run, new_store, repeat, run_id,
};
use crate::store::{NewCase, Store};
use crate::summary::summarise;
use crate::ui::compare::{junit, markdown, table};
use crate::view::CaseView;

const SECOND: Sha256 = Sha256([0xcb; 32]);

/// Seventy trials around `ms`, none far from it.
fn trials(ms: f64) -> Vec<i64> {
    (0..70)
        .map(|i| (ms * MS as f64) as i64 + i % 7 * 100)
        .collect()
}

/// Delivers one repeat for each centre, in milliseconds.
fn measure(store: &mut Store, run: &str, case: Sha256, centres: &[f64]) {
    measure_with(store, run, case, centres, |_| {});
}

fn measure_with(
    store: &mut Store,
    run: &str,
    case: Sha256,
    centres: &[f64],
    change: impl Fn(&mut Record),
) {
    for (round, ms) in (0..).zip(centres) {
        let mut records = repeat(&trials(*ms));
        for record in &mut records {
            if let Record::Start(start) = record {
                start.wall_unix_ns += i64::from(round) * 10_000 * MS;
            }
            change(record);
        }
        let key = OrderKey {
            case,
            ..key(run, round, 0)
        };
        deliver(store, key, &records).unwrap();
    }
}

fn begin(store: &Store, run: &str, hour: i64) {
    store
        .begin_run(&new_run(
            run,
            1_790_000_000_000_000_000 + hour * 3_600_000 * MS,
        ))
        .unwrap();
    store.add_case(&run_id(run), &new_case(&case())).unwrap();
    store
        .put_device(&run_id(run), "local", &crate::store::sample::device())
        .unwrap();
}

fn arms(store: &Store, run: &str) -> Vec<Arm> {
    let source = Source::Stored {
        store: Store::open_reading(store.dir()).unwrap(),
        run: run_id(run),
    };
    let metrics: Vec<&Metric> = METRICS.iter().collect();
    load::arms(&source, &source.cases().unwrap(), &metrics).unwrap()
}

fn ask(metrics: &[&str]) -> Ask {
    Ask {
        metrics: metrics
            .iter()
            .map(|name| metric::find(name).unwrap())
            .collect(),
        rule: None,
        min_effect: None,
        allowed: Vec::new(),
        force: false,
    }
}

fn named(name: &str) -> Named {
    Named {
        name: name.into(),
        run: None,
    }
}

fn compare(store: &Store, a: &str, b: &str, ask: Ask) -> Comparison {
    let matched = matching::two_runs(arms(store, a), arms(store, b), None).unwrap();
    let sessions = Sessions::load(store, &matched.pairs, &ask.metrics).unwrap();
    Comparison::of(named(a), named(b), matched, ask, &sessions)
}

/// Runs `a` and `b` of one case, b slower by `shift`.
fn two_runs(shift: f64) -> (tempfile::TempDir, Store) {
    let (dir, mut store) = new_store();
    begin(&store, "a", 0);
    begin(&store, "b", 1);
    let around = |factor: f64| [10.0, 10.01, 9.99, 10.0].map(|ms| ms * factor);
    measure(&mut store, "a", CASE, &around(1.0));
    measure(&mut store, "b", CASE, &around(1.0 + shift));
    (dir, store)
}

#[test]
fn two_runs_are_separate_and_carry_the_session_spread() {
    let (_dir, store) = two_runs(0.05);
    let comparison = compare(&store, "a", "b", ask(&["p50"]));
    let cell = &comparison.cells[0];
    assert_eq!(comparison.pairs[0].pairing, Pairing::Separate);
    assert_eq!(cell.verdict, Verdict::Larger);
    assert_eq!(cell.verdict.words(cell.metric), "slower");
    assert_eq!(cell.sessions, Some(SessionSpread::Unknown { sessions: 1 }));
    // The repeats alone would say 5.00 % to a tenth; the unknown spread adds 3 % on each side.
    assert!((cell.change().unwrap() - 0.05).abs() < 1e-4);
    let (low, high) = cell.interval().unwrap();
    assert!((low - (1.05 / 1.03 - 1.0)).abs() < 1e-3, "{low}");
    assert!((high - (1.05 * 1.03 - 1.0)).abs() < 1e-3, "{high}");

    let back = compare(&store, "b", "a", ask(&["p50"]));
    assert_eq!(back.cells[0].verdict, Verdict::Smaller);
    assert_eq!(back.cells[0].verdict.words(cell.metric), "faster");
}

#[test]
fn a_small_difference_of_two_runs_is_undecided_with_the_reason() {
    let (_dir, store) = two_runs(0.01);
    let comparison = compare(&store, "a", "b", ask(&["p50"]));
    assert_eq!(
        comparison.cells[0].verdict,
        Verdict::Undecided(Why::Sessions)
    );
    assert_eq!(comparison.exit(false), Exit::GOOD);
    assert!(table(&comparison).contains("--rerun"));
}

#[test]
fn earlier_sessions_take_the_place_of_the_assumption() {
    let (_dir, mut store) = two_runs(0.015);
    // Two more sessions before, 0.1 % around: with `a` there are three.
    for (run, hour, centre) in [("s1", -2, 9.99), ("s2", -1, 10.01)] {
        begin(&store, run, hour);
        measure(&mut store, run, CASE, &[centre, centre * 1.0005]);
    }
    let mut wish = ask(&["p50"]);
    wish.min_effect = Some(0.01);
    let comparison = compare(&store, "a", "b", wish);
    let cell = &comparison.cells[0];
    let Some(SessionSpread::Measured { sessions: 3, .. }) = cell.sessions else {
        panic!("{:?}", cell.sessions);
    };
    assert_eq!(cell.verdict, Verdict::Larger);
    let decision = cell.decision.unwrap();
    assert!(decision.half_width >= decision.over_sessions.unwrap());
    assert!(decision.half_width < 0.01);
    assert!(table(&comparison).contains("3 earlier sessions"));
}

/// Sessions that came after both runs, however many, are no past of theirs.
#[test]
fn the_spread_of_two_old_runs_is_that_of_the_sessions_before_them() {
    let (_dir, mut store) = two_runs(0.015);
    for (run, hour, centre) in [("s1", -2, 9.99), ("s2", -1, 10.01)] {
        begin(&store, run, hour);
        measure(&mut store, run, CASE, &[centre, centre * 1.0005]);
    }
    for hour in 2..17_u32 {
        let run = format!("later{hour}");
        begin(&store, &run, hour.into());
        measure(&mut store, &run, CASE, &[f64::from(hour), f64::from(hour)]);
    }
    let comparison = compare(&store, "a", "b", ask(&["p50"]));
    let Some(SessionSpread::Measured {
        sessions: 3,
        deviation,
        ..
    }) = comparison.cells[0].sessions
    else {
        panic!("{:?}", comparison.cells[0].sessions);
    };
    assert!(deviation < 0.002, "{deviation}");
}

/// A board that was noisy once and no longer is; names sort the other way round than times.
#[test]
fn of_very_many_sessions_the_newest_count() {
    let (_dir, mut store) = two_runs(0.015);
    for age in 1..=20_u32 {
        let run = format!("s{age:02}");
        begin(&store, &run, -i64::from(age));
        // The nine newest, and `a` itself, lie within 0.1 %; older ones differ by halves.
        let centre = match age {
            1..=9 => 10.0 + 0.01 * f64::from(age % 2),
            _ => 5.0 + f64::from(age),
        };
        measure(&mut store, &run, CASE, &[centre, centre]);
    }
    let comparison = compare(&store, "a", "b", ask(&["p50"]));
    let Some(SessionSpread::Measured {
        sessions: 10,
        deviation,
        ..
    }) = comparison.cells[0].sessions
    else {
        panic!("{:?}", comparison.cells[0].sessions);
    };
    assert!(deviation < 0.002, "{deviation}");
}

/// Sweeps before, of other cases, had a sentinel: it tells how far sessions of this board lie apart.
#[test]
fn a_sentinel_tells_the_spread_of_a_case_without_sessions() {
    let (_dir, mut store) = two_runs(0.015);
    let mut watched = case();
    watched.threads.intra = 4;
    for (run, hour, centre) in [("s1", -3, 29.97), ("s2", -2, 30.03), ("s3", -1, 30.0)] {
        let mut new = new_run(run, 1_790_000_000_000_000_000 + hour * 3_600_000 * MS);
        new.plan_json = serde_json::json!({ "sentinel": { "case": SECOND.to_string() } });
        store.begin_run(&new).unwrap();
        let watched = NewCase {
            key: SECOND,
            match_key: SECOND,
            ..new_case(&watched)
        };
        store.add_case(&run_id(run), &watched).unwrap();
        let device = crate::store::sample::device();
        store.put_device(&run_id(run), "local", &device).unwrap();
        measure(&mut store, run, SECOND, &[centre, centre * 1.0005]);
    }
    let comparison = compare(&store, "a", "b", ask(&["p50"]));
    let Some(SessionSpread::Measured {
        sessions: 3,
        sentinel: true,
        deviation,
        ..
    }) = comparison.cells[0].sessions
    else {
        panic!("{:?}", comparison.cells[0].sessions);
    };
    // Logarithms 0.1 % below, 0.1 % above and in the middle: a deviation of 0.1 %.
    assert!((deviation - 0.001).abs() < 1e-5, "{deviation}");
    let shown = table(&comparison);
    assert!(
        shown.contains("3 earlier sessions of a sentinel"),
        "{shown}"
    );
}

#[test]
fn arms_of_one_run_are_paired_by_round() {
    let (_dir, mut store) = new_store();
    begin(&store, "r", 0);
    let mut other = case();
    other.threads.intra = 4;
    let second = NewCase {
        key: SECOND,
        match_key: SECOND,
        ..new_case(&other)
    };
    store.add_case(&run_id("r"), &second).unwrap();
    // The board drifts by 20 % meanwhile; every round the second case is slower by 2 %.
    let drift = [10.0, 10.5, 11.0, 11.5, 12.0];
    measure(&mut store, "r", CASE, &drift);
    let slower: Vec<f64> = drift.iter().map(|ms| ms * 1.02).collect();
    measure(&mut store, "r", SECOND, &slower[..4]);
    let between = Between::parse("threads").unwrap();
    let matched = matching::within(&arms(&store, "r"), &between).unwrap();
    assert_eq!(matched.pairs[0].compared, ["threads"]);
    let none = Sessions::default();
    let comparison = Comparison::of(
        named("r"),
        named("r"),
        matched,
        ask(&["p50", "rate"]),
        &none,
    );
    let cell = &comparison.cells[0];
    assert_eq!(comparison.pairs[0].pairing, Pairing::Interleaved);
    assert_eq!((cell.verdict, cell.unpaired), (Verdict::Larger, 1));
    assert_eq!((cell.min_effect, cell.sessions), (0.01, None));
    assert!((cell.change().unwrap() - 0.02).abs() < 2e-4, "{cell:?}");
    // The rate falls by the same share: slower too, in the metric's own direction.
    let rate = &comparison.cells[1];
    assert_eq!(rate.verdict, Verdict::Smaller);
    assert_eq!(rate.verdict.words(rate.metric), "slower");
    assert!(rate.verdict.is_worse(rate.metric));
    let fits = json::document(&comparison);
    crate::golden::fits("compare", &fits);
    assert_eq!(fits["cells"][0]["verdict"], "slower");
    assert_eq!(fits["cells"][0]["pairing"], "interleaved");
}

#[test]
fn arms_one_after_the_other_are_no_pairs_though_of_one_run() {
    let (_dir, mut store) = new_store();
    begin(&store, "r", 0);
    let mut other = case();
    other.threads.intra = 4;
    let second = NewCase {
        key: SECOND,
        match_key: SECOND,
        ..new_case(&other)
    };
    store.add_case(&run_id("r"), &second).unwrap();
    measure(&mut store, "r", CASE, &[10.0, 10.0, 10.0]);
    measure_with(&mut store, "r", SECOND, &[10.0, 10.0, 10.0], |record| {
        if let Record::Start(start) = record {
            start.wall_unix_ns += 1_000_000 * MS;
        }
    });
    let between = Between::parse("threads=2,4").unwrap();
    let matched = matching::within(&arms(&store, "r"), &between).unwrap();
    assert_eq!(matched.pairs[0].pairing, Pairing::Separate);
}

fn set(name: &str, value: &str) -> impl Fn(&mut Record) {
    let changed = Fact {
        name: name.into(),
        value: Reading::Ok(value.into()),
    };
    move |record: &mut Record| {
        if let Record::Start(start) = record {
            start.environment.retain(|fact| fact.name != changed.name);
            start.environment.push(changed.clone());
        }
        if let Record::End(end) = record {
            end.environment.retain(|fact| fact.name != changed.name);
            end.environment.push(changed.clone());
        }
    }
}

#[test]
fn unequal_conditions_are_refused_with_the_difference() {
    let (_dir, mut store) = new_store();
    begin(&store, "a", 0);
    begin(&store, "b", 1);
    measure(&mut store, "a", CASE, &[10.0, 10.0, 10.0]);
    let powersave = set("governor.policy0", "powersave");
    measure_with(&mut store, "b", CASE, &[20.0, 20.0, 20.0], powersave);
    let comparison = compare(&store, "a", "b", ask(&["p50"]));
    assert_eq!(comparison.cells[0].verdict, Verdict::NotComparable);
    assert_eq!(comparison.exit(false), Exit::INVALID);
    assert_eq!(comparison.exit(true), Exit::GOOD);
    let text = table(&comparison);
    assert!(
        text.contains("governor is not equal: A performance, B powersave"),
        "{text}"
    );

    let mut accepted = ask(&["p50"]);
    accepted.allowed = vec!["governor".into()];
    let comparison = compare(&store, "a", "b", accepted);
    assert_eq!(comparison.cells[0].verdict, Verdict::Larger);
    assert_eq!(comparison.differences[0][0].weight, Weight::Marked);
}

#[test]
fn a_throttled_arm_is_compared_with_nothing() {
    let (_dir, mut store) = two_runs(0.0);
    begin(&store, "hot", 2);
    measure_with(&mut store, "hot", CASE, &[10.0, 10.0], |record| {
        if let Record::End(end) = record {
            set("clock_max_khz.policy0", "1500000")(&mut Record::End(end.clone()));
            for fact in &mut end.environment {
                if fact.name == "clock_max_khz.policy0" {
                    fact.value = Reading::Ok("1500000".into());
                }
            }
        }
    });
    let comparison = compare(&store, "a", "hot", ask(&["p50"]));
    assert_eq!(comparison.cells[0].verdict, Verdict::NotComparable);
    assert!(table(&comparison).contains("throttled: B in repeat 0"));
}

#[test]
fn another_model_file_or_kernel_is_marked_and_compared() {
    let (_dir, mut store) = two_runs(0.0);
    begin(&store, "k", 2);
    let kernel = set("kernel_release", "6.13.0");
    measure_with(&mut store, "k", CASE, &[10.6, 10.61, 10.6], kernel);
    let comparison = compare(&store, "a", "k", ask(&["p50"]));
    assert_eq!(comparison.cells[0].verdict, Verdict::Larger);
    let found = &comparison.differences[0];
    assert!(found.iter().all(|d| d.weight == Weight::Marked));
    assert!(found.iter().any(|d| d.name == "kernel_release"));
}

#[test]
fn what_only_one_side_could_read_is_marked() {
    let (_dir, store) = two_runs(0.0);
    let (a, mut b) = (arms(&store, "a").remove(0), arms(&store, "b").remove(0));
    b.conditions.remove("governor");
    let found = differences(&a, &b, &[], &[]);
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].weight, found[0].b.clone()),
        (Weight::Marked, None)
    );
}

/// Repeats that went on until p50 was known well enough are not held against a planned number of them.
#[test]
fn repeats_that_the_result_ended_are_not_compared_with_planned_ones() {
    let (_dir, mut store) = two_runs(0.0);
    let case = case();
    let searched = NewCase {
        rules: RulesRow {
            repeats: None,
            ..new_case(&case).rules
        },
        ..new_case(&case)
    };
    store
        .begin_run(&new_run("s", 1_790_000_000_000_000_000 + 7_200_000 * MS))
        .unwrap();
    store.add_case(&run_id("s"), &searched).unwrap();
    let device = crate::store::sample::device();
    store.put_device(&run_id("s"), "local", &device).unwrap();
    measure(&mut store, "s", CASE, &[10.6, 10.61, 10.6]);
    let comparison = compare(&store, "a", "s", ask(&["p50"]));
    assert_eq!(comparison.cells[0].verdict, Verdict::NotComparable);
    assert!(table(&comparison).contains("stop is not equal"));
}

#[test]
fn a_consequence_of_what_is_compared_is_compared() {
    let (_dir, store) = two_runs(0.0);
    let (a, mut b) = (arms(&store, "a").remove(0), arms(&store, "b").remove(0));
    b.axes.insert("shape.x".into(), "1x3x320x320".into());
    b.conditions.insert("inputs_sha256".into(), "00".into());
    b.conditions
        .insert("shapes".into(), "x f32 1x3x320x320".into());
    let weights = |compared: &[String]| {
        let found = differences(&a, &b, compared, &[]);
        found.iter().map(|d| d.weight).collect::<Vec<_>>()
    };
    assert_eq!(weights(&[]), [Weight::Refused; 3]);
    assert_eq!(weights(&["shape.x".into()]), [Weight::Compared; 3]);
}

#[test]
fn cases_without_a_counterpart_are_told() {
    let (_dir, mut store) = two_runs(0.0);
    let mut other = case();
    other.threads.intra = 4;
    let second = NewCase {
        key: SECOND,
        match_key: SECOND,
        ..new_case(&other)
    };
    store.add_case(&run_id("a"), &second).unwrap();
    measure(&mut store, "a", SECOND, &[5.0, 5.0]);
    let comparison = compare(&store, "a", "b", ask(&["p50"]));
    assert_eq!((comparison.only_a.len(), comparison.only_b.len()), (1, 0));
    assert_eq!(
        gate::fail_over(&comparison, 0.03).outcome,
        Outcome::Undecided
    );

    let mut far = arms(&store, "b");
    far[0].axes.insert("batch".into(), "8".into());
    let nothing = matching::two_runs(arms(&store, "a"), far, None).unwrap_err();
    assert_eq!(
        nothing,
        MatchError::NothingMatches {
            differing: vec!["batch".into()]
        }
    );
    assert!(nothing.hint().contains("--between batch"));
}

#[test]
fn axes_are_compared_by_value_and_wrong_ones_say_what_there_is() {
    let (_dir, store) = two_runs(0.0);
    let both = [arms(&store, "a"), arms(&store, "b")].concat();
    let within = |text: &str| matching::within(&both, &Between::parse(text).unwrap());
    assert_eq!(
        within("colour").unwrap_err(),
        MatchError::NoSuchAxis("colour".into())
    );
    let NoSuch { hint } = no_such(within("threads=2,3").unwrap_err());
    assert_eq!(hint, "it has 2");
    assert!(matches!(
        within("threads"),
        Err(MatchError::NeedsValues { .. })
    ));
    assert!(Between::parse("threads=2").is_err());
    assert_eq!(
        matching::named(both[0].clone(), both[0].clone()),
        Err(MatchError::Itself)
    );
}

struct NoSuch {
    hint: String,
}

fn no_such(error: MatchError) -> NoSuch {
    NoSuch { hint: error.hint() }
}

#[test]
fn a_percentile_without_its_trials_is_no_claim() {
    let (_dir, store) = two_runs(0.2);
    let comparison = compare(&store, "a", "b", ask(&["p50", "p99"]));
    // 280 trials a side: enough for p50, not for p99, which needs 662.
    assert_eq!(comparison.cells[0].verdict, Verdict::Larger);
    assert_eq!(
        comparison.cells[1].verdict,
        Verdict::Undecided(Why::FewTrials(662))
    );
    // What may not be claimed is no test: the other keeps its 95 %.
    assert_eq!(comparison.cells[0].decision.unwrap().level, Some(0.95));
}

#[test]
fn one_repeat_has_no_interval_and_says_how_many_it_takes() {
    let (_dir, mut store) = two_runs(0.0);
    begin(&store, "one", 2);
    measure(&mut store, "one", CASE, &[20.0]);
    let comparison = compare(&store, "a", "one", ask(&["p50"]));
    assert_eq!(
        comparison.cells[0].verdict,
        Verdict::Undecided(Why::FewRepeats(2))
    );
    assert!((comparison.cells[0].change().unwrap() - 1.0).abs() < 1e-3);
    assert!(table(&comparison).contains("--repeat 5"));
}

#[test]
fn a_gate_trips_on_what_is_slower_by_enough() {
    let (_dir, store) = two_runs(0.05);
    let outcome = |share: f64| {
        let mut comparison = compare(&store, "a", "b", ask(&["p50"]));
        let result = gate::fail_over(&comparison, share);
        let outcome = result.outcome;
        comparison.gates.push(result);
        (outcome, comparison.exit(false))
    };
    assert_eq!(outcome(0.03), (Outcome::Tripped, Exit::GATE));
    assert_eq!(outcome(0.06), (Outcome::Passed, Exit::GOOD));
    let faster = compare(&store, "b", "a", ask(&["p50"]));
    assert_eq!(gate::fail_over(&faster, 0.03).outcome, Outcome::Passed);
    let undecided = two_runs(0.01);
    let mut comparison = compare(&undecided.1, "a", "b", ask(&["p50"]));
    comparison.gates.push(gate::fail_over(&comparison, 0.03));
    assert_eq!(comparison.exit(false), Exit::INVALID);
}

/// 1 % slower give or take 3 %: whether it is 3 % is open, that it is not 5 % is sure.
#[test]
fn a_gate_that_asks_for_less_says_so() {
    let (_dir, store) = two_runs(0.01);
    let gated = |min_effect, share| {
        let mut wish = ask(&["p50"]);
        wish.min_effect = min_effect;
        let mut comparison = compare(&store, "a", "b", wish);
        let result = gate::fail_over(&comparison, share);
        let outcome = result.outcome;
        comparison.gates.push(result);
        comparison.fail_over = Some(share);
        (outcome, table(&comparison))
    };
    let (outcome, shown) = gated(None, 0.05);
    assert_eq!(outcome, Outcome::Undecided);
    assert!(shown.contains("--min-effect 5%"), "{shown}");
    assert_eq!(gated(Some(0.05), 0.05).0, Outcome::Passed);
    let (outcome, shown) = gated(None, 0.035);
    assert_eq!(outcome, Outcome::Undecided);
    assert!(!shown.contains("--min-effect 3.5%"), "{shown}");
}

#[test]
fn requirements_look_at_side_b() {
    let (_dir, store) = two_runs(0.05);
    let view = CaseView::read(&store, &run_id("b"), CASE).unwrap();
    let cases = [summarise(&view)];
    let outcome = |text| gate::require(&Condition::parse(text).unwrap(), &cases).outcome;
    assert_eq!(outcome("p50 <= 11ms"), Outcome::Passed);
    assert_eq!(outcome("p50 <= 10ms"), Outcome::Tripped);
    assert_eq!(outcome("p99 <= 20ms"), Outcome::Undecided);
}

#[test]
fn a_baseline_says_what_the_run_says() {
    let (dir, store) = two_runs(0.05);
    let path = dir.path().join("baseline.json");
    Baseline::of(arms(&store, "a")).save(&path).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    crate::golden::fits("baseline", &serde_json::from_str(&text).unwrap());
    let kept = Baseline::load(&path).unwrap().unwrap().cases;
    assert_eq!(kept, arms(&store, "a"));
    std::fs::write(&path, text.replace("baseline/1", "baseline/2")).unwrap();
    assert_eq!(Baseline::load(&path).unwrap_err().exit, Exit::INCOMPATIBLE);
    std::fs::write(&path, r#"{"document": "edgedyno/baseline/1"}"#).unwrap();
    assert_eq!(Baseline::load(&path).unwrap_err().exit, Exit::USAGE);
    std::fs::write(&path, "{}").unwrap();
    assert_eq!(Baseline::load(&path).unwrap(), None);
}

#[test]
fn one_case_in_two_halves_took_turns() {
    let (_dir, mut store) = new_store();
    begin(&store, "a", 0);
    measure(&mut store, "a", CASE, &[10.0, 10.1, 10.2, 10.3, 10.4]);
    let (first, second) = arms(&store, "a")[0].halves(5);
    assert_eq!((first.repeats.len(), second.repeats.len()), (2, 2));
    let p50 = metric::find("p50").unwrap();
    let mut all = [first.values(p50), second.values(p50)].concat();
    all.sort_by(f64::total_cmp);
    assert_eq!(all, arms(&store, "a")[0].values(p50)[..4]);
}

#[test]
fn texts_say_the_same_in_every_form() {
    let (_dir, store) = two_runs(0.05);
    let mut comparison = compare(&store, "a", "b", ask(&["p50", "p99"]));
    comparison.fail_over = Some(0.03);
    comparison.gates.push(gate::fail_over(&comparison, 0.03));
    insta::assert_snapshot!("compare-table", table(&comparison));
    insta::assert_snapshot!("compare-markdown", markdown(&comparison));
    insta::assert_snapshot!("compare-junit", junit(&comparison));
    let widest = table(&comparison).lines().map(|l| l.chars().count()).max();
    assert!(widest.unwrap() <= 100);
    crate::golden::fits("compare", &json::document(&comparison));
}
