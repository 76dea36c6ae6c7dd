use std::collections::{BTreeMap, BTreeSet};

use edgedyno_shared::artifact::{Artifact, ArtifactPart};
use edgedyno_shared::ids::Sha256;
use edgedyno_shared::order::OrderKey;
use edgedyno_shared::repeat::Stage;
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_shared::wire::record::Record;
use proptest::prelude::*;

use super::tables::{NOT_OF_A_RUN, TABLES};
use super::*;
use crate::store::rows::{FindingRow, RunStatus};
use crate::store::sample::{CASE, MS, add_run, deliver, key, new_store, repeat, run_id, watched};
use crate::store::{Store, StoreError};
use crate::summary::tests::hand_worked;

fn origin() -> Origin {
    Origin {
        source: "elsewhere".into(),
        store: "s".into(),
        sha256: None,
        left_out: Vec::new(),
        tool_version: "0".into(),
        imported_unix_ns: 1,
    }
}

fn finding(code: &str) -> FindingRow {
    FindingRow {
        code: code.into(),
        level: "note".into(),
        repeat: None,
        text: format!("text of {code}"),
        figures: Map::new(),
    }
}

/// A repeat with everything that a repeat can tell.
fn rich() -> Vec<Record> {
    let mut records = repeat(&[2 * MS, 3 * MS]);
    let end = records.len() - 1;
    let bytes = b"profile".to_vec();
    let artifact = Record::Artifact(Artifact {
        number: 0,
        name: "ops.json".into(),
        kind: "profile".into(),
        sha256: crate::board::content::sha256(&bytes),
        bytes: bytes.len() as u64,
    });
    let part = Record::ArtifactPart(ArtifactPart { number: 0, bytes });
    let more = watched(1, "cpu0.freq", "hz", &[(101, Some(5)), (102, None)]);
    records.splice(end..end, more.into_iter().chain([artifact, part]));
    records
}

/// Everything of all runs but where they came from, in an order of its own.
fn contents(store: &Store) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for run in store.runs().unwrap() {
        let copied = store.copy_out(&run.id).unwrap();
        let mut pieces = vec![copied.head().unwrap()];
        pieces.extend(copied.cases().unwrap());
        for id in copied.repeats().unwrap() {
            pieces.push(copied.repeat(id).unwrap());
        }
        let held = all.entry(run.id.0.clone()).or_default();
        for mut piece in pieces {
            // A finding has no name: its number says when it came.
            for row in piece.rows.get_mut("findings").into_iter().flatten() {
                row.remove("number");
            }
            if piece.rows.contains_key("repeats") {
                held.insert(format!("{piece:?}"));
                continue;
            }
            let rows = piece.rows.iter();
            held.extend(
                rows.flat_map(|(table, rows)| {
                    rows.iter().map(move |row| format!("{table} {row:?}"))
                }),
            );
        }
        for (sha256, _) in copied.contents().unwrap() {
            held.insert(format!("{:?}", copied.content(&sha256).unwrap()));
        }
    }
    all
}

#[test]
fn every_table_and_column_is_listed() {
    let (_dir, store) = new_store();
    let names = |sql: &str| -> BTreeSet<String> {
        store
            .list("list", sql, [], |row| row.get(0))
            .unwrap()
            .into_iter()
            .collect()
    };
    let found = names("SELECT name FROM sqlite_master WHERE type = 'table'");
    let listed = TABLES
        .iter()
        .map(|table| table.name)
        .chain(NOT_OF_A_RUN.iter().copied());
    assert_eq!(found, listed.map(str::to_owned).collect());
    for table in TABLES {
        let found = names(&format!(
            "SELECT name FROM pragma_table_info('{}')",
            table.name
        ));
        let own: BTreeSet<String> = table
            .columns
            .iter()
            .map(|column| column.name.to_owned())
            .chain(table.owner.map(str::to_owned))
            // The one table whose rows belong to a run and have a number of their own.
            .chain((table.name == "repeats").then(|| "run_id".to_owned()))
            .collect();
        assert_eq!(found, own, "{}", table.name);
    }
}

#[test]
fn a_run_comes_into_another_store_as_it_was_and_says_from_where() {
    let (_dir, mut from) = hand_worked();
    deliver(&mut from, key("a", 3, 0), &rich()).unwrap();
    from.tag(&run_id("a"), "first").unwrap();
    from.put_finding(&run_id("a"), Some(CASE), &finding("x"))
        .unwrap();
    let (_other, into) = new_store();
    let done = merge_stores(&from, &into, None, 7, |_| {}).unwrap();
    let [run] = done.runs.as_slice() else {
        panic!("{done:?}")
    };
    assert!(run.is_new && run.conflicts.is_empty());
    assert_eq!(
        (run.cases, run.repeats, run.tags, run.findings, run.contents),
        (1, 4, 1, 1, 1)
    );
    assert_eq!(contents(&from), contents(&into));
    let marked = into.origin(&run_id("a")).unwrap().unwrap();
    assert_eq!(
        (marked.store, marked.imported_unix_ns),
        (from.id().to_string(), 7)
    );
    assert_eq!(from.origin(&run_id("a")).unwrap(), None);
    let artifact = &into.repeats(&run_id("a"), CASE).unwrap()[3].artifacts[0];
    assert_eq!(
        into.content(artifact).unwrap().as_deref(),
        Some(&b"profile"[..])
    );
}

#[test]
fn the_same_again_changes_nothing_and_a_run_that_comes_home_is_not_marked() {
    let (_dir, from) = hand_worked();
    let (_other, into) = new_store();
    merge_stores(&from, &into, None, 1, |_| {}).unwrap();
    let before = contents(&into);
    let again = merge_stores(&from, &into, None, 2, |_| {}).unwrap();
    assert!(!again.runs[0].changed());
    assert_eq!(again.runs[0].known, 3);
    assert_eq!(contents(&into), before);
    assert_eq!(
        into.origin(&run_id("a")).unwrap().unwrap().imported_unix_ns,
        1
    );
    from.remove_run(&run_id("a")).unwrap();
    merge_stores(&into, &from, None, 3, |_| {}).unwrap();
    assert_eq!(from.origin(&run_id("a")).unwrap(), None);
}

#[test]
fn what_differs_under_one_name_is_told_and_stays_on_both_sides() {
    let (_dir, mut left) = new_store();
    let (_other, mut right) = new_store();
    for (store, took) in [(&mut left, 2), (&mut right, 3)] {
        add_run(store, "a");
        deliver(store, key("a", 0, 0), &repeat(&[took * MS])).unwrap();
    }
    let before = contents(&right);
    let done = merge_stores(&left, &right, None, 1, |_| {}).unwrap();
    let conflicts: Vec<&str> = done.conflicts().collect();
    assert_eq!(
        conflicts,
        ["run a: repeat 0 of case cacacaca, attempt 0, differs"]
    );
    assert_eq!(contents(&right), before);
    // Another run of the same name brings nothing at all.
    let (_third, other) = new_store();
    other
        .begin_run(&crate::store::sample::new_run("a", 5))
        .unwrap();
    other.tag(&run_id("a"), "t").unwrap();
    let done = merge_stores(&left, &other, None, 1, |_| {}).unwrap();
    assert_eq!(done.conflicts().count(), 1);
    assert!(!done.runs[0].changed());
    assert_eq!(other.counts(&run_id("a")).unwrap(), (0, 0));
}

#[test]
fn what_an_agent_delivered_takes_the_place_of_what_a_host_noted() {
    let failure = Failure {
        code: FailureCode::LoadFailed,
        detail: "no answer".into(),
        hint: None,
    };
    let (_dir, mut agent) = new_store();
    add_run(&agent, "a");
    deliver(&mut agent, key("a", 0, 0), &repeat(&[MS])).unwrap();
    let (_other, host) = new_store();
    add_run(&host, "a");
    host.put_failure(&key("a", 0, 0), Stage::Spawn, &failure)
        .unwrap();
    merge_stores(&host, &agent, None, 1, |_| {}).unwrap();
    assert_eq!(
        agent.repeats(&run_id("a"), CASE).unwrap()[0].outcome.name(),
        "complete"
    );
    merge_stores(&agent, &host, None, 1, |_| {}).unwrap();
    assert_eq!(contents(&host), contents(&agent));
}

#[test]
fn rows_that_no_store_would_write_are_refused_and_leave_nothing() {
    let (_dir, from) = hand_worked();
    let copied = from.copy_out(&run_id("a")).unwrap();
    let head = copied.head().unwrap();
    let cases = copied.cases().unwrap();
    let good = copied.repeat(copied.repeats().unwrap()[0]).unwrap();
    let change = |table: &str, column: &str, value: Value| {
        let mut piece = good.clone();
        piece.rows.get_mut(table).unwrap()[0].insert(column.into(), value);
        piece
    };
    let mut short = good.clone();
    short.blobs.pop();
    let mut wide = good.clone();
    for row in wide.rows.get_mut("chunks").unwrap() {
        row.insert("column_count".into(), u32::MAX.into());
    }
    let mut torn = good.clone();
    torn.blobs.iter_mut().for_each(|blob| blob.fill(0xff));
    let bad = [
        change("repeats", "case_key", "../../etc/passwd".into()),
        change("repeats", "case_key", "00".repeat(32).into()),
        change("repeats", "repeat", "many".into()),
        change("repeats", "outcome", "splendid".into()),
        change("repeats", "run_id", "other".into()),
        change("records", "body", serde_json::json!({"no": "start"})),
        change("chunks", "row_count", (-1).into()),
        change("chunks", "bytes", 1.into()),
        short,
        wide,
        torn,
        Piece::default(),
    ];
    for (number, bad) in bad.iter().enumerate() {
        let (_other, into) = new_store();
        let mut merge = into.merge(&head, true).unwrap();
        merge.cases(&cases[0]).unwrap();
        let refused = merge
            .repeat(bad)
            .and_then(|()| merge.finish(&origin(), true).map(drop));
        assert!(
            matches!(refused, Err(StoreError::Foreign(_))),
            "{number}: {refused:?}"
        );
        assert!(into.runs().unwrap().is_empty(), "{number}");
    }
    for bad in ["", "UP", "a/b", "a\u{0}"] {
        let mut head = head.clone();
        head.rows.get_mut("runs").unwrap()[0].insert("id".into(), bad.into());
        let (_other, into) = new_store();
        assert!(
            matches!(into.merge(&head, true), Err(StoreError::Foreign(_))),
            "{bad}"
        );
    }
}

#[test]
fn later_calibrations_count_whichever_store_they_come_from() {
    let (_dir, left) = new_store();
    let (_other, right) = new_store();
    let row = |made_unix_ns, per_second| CalibrationRow {
        board: "local".into(),
        fingerprint: "f".into(),
        stressor: "mem_read".into(),
        cpus: "1".into(),
        working_set: 0,
        per_second,
        spread_share: 0.1,
        repeats: 3,
        run_id: "a".into(),
        made_unix_ns,
    };
    left.merge_calibrations(&[row(1, 10)]).unwrap();
    right.merge_calibrations(&[row(2, 20)]).unwrap();
    merge_stores(&left, &right, None, 1, |_| {}).unwrap();
    merge_stores(&right, &left, None, 1, |_| {}).unwrap();
    assert_eq!(left.all_calibrations().unwrap(), [row(2, 20)]);
    assert_eq!(right.all_calibrations().unwrap(), [row(2, 20)]);
}

/// A run by its number: repeats and attempts that it has, whether it ended, tags and findings.
type HeldRun = (u8, BTreeSet<(u32, u32)>, bool, BTreeSet<u8>);

/// What may be in one store.
#[derive(Debug, Clone)]
struct Held {
    runs: Vec<HeldRun>,
}

fn held() -> impl Strategy<Value = Held> {
    let repeats = proptest::collection::btree_set((0_u32..4, 0_u32..2), 0..5);
    let marks = proptest::collection::btree_set(0_u8..4, 0..3);
    let run = (0_u8..3, repeats, any::<bool>(), marks);
    proptest::collection::vec(run, 0..4).prop_map(|runs| Held { runs })
}

/// A repeat is the same wherever it is, so that stores conflict nowhere.
fn fill(store: &mut Store, held: &Held) {
    let mut begun = BTreeSet::new();
    for (run, repeats, ended, marks) in &held.runs {
        let name = format!("run{run}");
        if begun.insert(*run) {
            add_run(store, &name);
        }
        for (repeat_number, attempt) in repeats {
            let at: OrderKey = key(&name, *repeat_number, *attempt);
            let took = i64::from(1 + run * 20) * MS + i64::from(repeat_number * 3 + attempt);
            deliver(store, at, &repeat(&[took, 2 * took])).unwrap();
        }
        let id = run_id(&name);
        if *ended {
            store.set_run_status(&id, RunStatus::Complete).unwrap();
        }
        for mark in marks {
            store.tag(&id, &format!("tag{mark}")).unwrap();
            let code = format!("code{mark}");
            let there = store.findings(&id).unwrap();
            if !there.iter().any(|(_, finding)| finding.code == code) {
                store.put_finding(&id, None, &finding(&code)).unwrap();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn merging_is_commutative_and_idempotent(a in held(), b in held(), c in held()) {
        let merged = |order: [&Held; 3]| {
            let (_dir, into) = new_store();
            for held in order {
                let (_other, mut from) = new_store();
                fill(&mut from, held);
                for _ in 0..2 {
                    let done = merge_stores(&from, &into, None, 1, |_| {}).unwrap();
                    prop_assert_eq!(done.conflicts().count(), 0);
                }
            }
            Ok(contents(&into))
        };
        let one = merged([&a, &b, &c])?;
        prop_assert_eq!(&one, &merged([&c, &a, &b])?);
        prop_assert_eq!(&one, &merged([&b, &c, &a])?);
    }
}

#[test]
fn a_content_that_is_not_what_its_name_says_is_refused() {
    let (_dir, mut from) = new_store();
    add_run(&from, "a");
    deliver(&mut from, key("a", 0, 0), &rich()).unwrap();
    let copied = from.copy_out(&run_id("a")).unwrap();
    let (_other, into) = new_store();
    let mut merge = into.merge(&copied.head().unwrap(), true).unwrap();
    merge.cases(&copied.cases().unwrap()[0]).unwrap();
    merge
        .repeat(&copied.repeat(copied.repeats().unwrap()[0]).unwrap())
        .unwrap();
    let contents = copied.contents().unwrap();
    let (sha256, kinds) = &contents[0];
    assert_eq!(kinds, &["profile"]);
    assert!(sha256.parse::<Sha256>().is_ok());
    let mut piece = copied.content(sha256).unwrap();
    piece.blobs[0][0] ^= 1;
    assert!(matches!(
        merge.content(sha256, &piece),
        Err(StoreError::Foreign(_))
    ));
    drop(merge);
    // Without it the artifact is named, and has no bytes.
    let mut merge = into.merge(&copied.head().unwrap(), true).unwrap();
    merge.cases(&copied.cases().unwrap()[0]).unwrap();
    merge
        .repeat(&copied.repeat(copied.repeats().unwrap()[0]).unwrap())
        .unwrap();
    merge.finish(&origin(), true).unwrap();
    let artifact = into.repeats(&run_id("a"), CASE).unwrap()[0].artifacts[0].clone();
    assert!(!artifact.damaged);
    assert_eq!(into.content(&artifact).unwrap(), None);
    drop(copied);
    // They come with the next copy that has them.
    merge_stores(&from, &into, None, 1, |_| {}).unwrap();
    assert_eq!(
        into.content(&artifact).unwrap().as_deref(),
        Some(&b"profile"[..])
    );
}
