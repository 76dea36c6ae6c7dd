//! What the store promises: stored once, whole or not at all, found again, refused with reasons.

use edgedyno_shared::artifact::{Artifact, ArtifactPart};
use edgedyno_shared::case::Case;
use edgedyno_shared::clocks::{
    ClockExchange, ClockMoment, ClockReading, ExchangeResult, FourStamps,
};
use edgedyno_shared::columns::Role;
use edgedyno_shared::ids::Sha256;
use edgedyno_shared::repeat::{Outcome, Stage};
use edgedyno_shared::telemetry::Samples;
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_shared::wire::record::Record;
use proptest::prelude::*;
use sha2::Digest;

use super::rows::{OutcomeKind, RunStatus, StageName};
use super::sample::{
    CASE, MS, add_run, case, deliver, end, header, key, new_run, new_store, repeat, repeat_of,
    rules, run_id, trials,
};
use super::*;

#[test]
fn a_repeat_comes_back_as_it_was_delivered() {
    let (_dir, mut store) = new_store();
    add_run(&store, "a");
    let done = deliver(&mut store, key("a", 0, 0), &repeat(&[MS, 2 * MS, 3 * MS])).unwrap();
    assert!(done.stored);
    assert_eq!(done.outcome, OutcomeKind::Complete);

    let rows = store.repeats(&run_id("a"), CASE).unwrap();
    let row = &rows[0];
    assert!(row.counts && row.reached_worker);
    assert_eq!(row.runtime.as_ref().unwrap().version, "1.27.1");
    assert_eq!(row.stages.len(), 6);
    assert_eq!(row.memory.len(), 5);
    assert_eq!(row.events[0].text, "hello from the runtime");
    assert_eq!(row.raw_records, 0);

    let columns = store.columns(row, 0).unwrap();
    assert_eq!(columns.rows(), 6);
    let took: Vec<i64> = columns
        .trials_of(Role::Measure)
        .map(|i| columns.cells[2][i] - columns.cells[1][i])
        .collect();
    assert_eq!(took, [MS, 2 * MS, 3 * MS]);
    assert_eq!(columns.column("device_ns").unwrap()[3], MS / 2);
}

#[test]
fn what_the_clocks_said_comes_back_with_its_drift() {
    let (_dir, mut store) = new_store();
    add_run(&store, "a");
    let exchange = |moment, at_ms: i64, offset: i64| {
        let at = Nanos::from_millis(at_ms).0;
        let best = FourStamps {
            asked: Nanos(at),
            received: Nanos(at + 40 + offset),
            answered: Nanos(at + 50 + offset),
            heard: Nanos(at + 90),
        };
        let result = ExchangeResult::Answered {
            best,
            rounds: 5,
            host_clock: 0xab,
            host_unix_ns: 9,
        };
        Record::ClockExchange(ClockExchange { moment, result })
    };
    let reading = ClockReading {
        monotonic: Nanos(7),
        boottime: Some(Nanos(8)),
        realtime: Some(Nanos(9)),
        raw: None,
        took: Nanos(1),
    };
    let mut records = repeat(&[MS; 3]);
    records.insert(1, exchange(ClockMoment::Before, 0, -700));
    records.insert(2, Record::ClockReading(reading));
    let last = records.len() - 1;
    records.insert(last, exchange(ClockMoment::After, 2_000, -500));
    deliver(&mut store, key("a", 0, 0), &records).unwrap();
    let row = &store.repeats(&run_id("a"), CASE).unwrap()[0];
    let exchanges = &row.clock_exchanges;
    let offsets: Vec<_> = exchanges.iter().map(|e| e.offset_ns).collect();
    assert_eq!(offsets, [Some(-700), Some(-500)]);
    assert_eq!(exchanges[0].bound_ns, Some(41));
    assert_eq!(exchanges[0].host_clock.as_deref(), Some("00000000000000ab"));
    // 200 ns in two seconds.
    assert_eq!(
        (exchanges[0].drift_ppb, exchanges[1].drift_ppb),
        (None, Some(100))
    );
    assert_eq!(exchanges[1].drift_bound_ppb, Some(42));
    let reading = row.clock_readings[0];
    assert_eq!((reading.monotonic_ns, reading.raw_ns), (7, None));
}

#[test]
fn a_second_delivery_changes_nothing() {
    let (_dir, mut store) = new_store();
    add_run(&store, "a");
    let records = repeat(&[MS; 20]);
    assert!(
        deliver(&mut store, key("a", 0, 0), &records)
            .unwrap()
            .stored
    );
    let again = deliver(&mut store, key("a", 0, 0), &records).unwrap();
    assert!(!again.stored);
    assert_eq!(again.outcome, OutcomeKind::Complete);
    let rows = store.repeats(&run_id("a"), CASE).unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(store.columns(&rows[0], 0).unwrap().rows(), 23);
}

#[test]
fn a_segment_that_breaks_off_leaves_nothing() {
    let (_dir, mut store) = new_store();
    add_run(&store, "a");
    let header = header(&store, key("a", 0, 0));
    let mut segment = store.segment(&header).unwrap();
    for (i, record) in repeat(&[MS]).iter().take(5).enumerate() {
        let frame = record.to_frame(i as u64).unwrap();
        segment.record(&frame.payload).unwrap();
    }
    let why = segment.commit().unwrap_err().to_string();
    assert!(why.contains("last record"), "{why}");
    assert!(store.done_keys(&run_id("a")).unwrap().is_empty());
}

#[test]
fn gaps_strangers_and_latecomers_are_refused() {
    let (_dir, mut store) = new_store();
    add_run(&store, "a");
    let good = header(&store, key("a", 0, 0));
    let last = end(Outcome::Complete, 0, 0);
    let mut segment = store.segment(&good).unwrap();
    let gap = segment.record(&last.to_frame(1).unwrap().payload);
    assert!(
        gap.unwrap_err()
            .to_string()
            .contains("record 1 came where 0")
    );
    drop(segment);

    let mut segment = store.segment(&good).unwrap();
    segment.record(&last.to_frame(0).unwrap().payload).unwrap();
    assert!(segment.record(&last.to_frame(1).unwrap().payload).is_err());
    drop(segment);

    let mut other_store = good.clone();
    other_store.store.0[0] ^= 1;
    assert!(matches!(
        store.segment(&other_store),
        Err(StoreError::Segment { .. })
    ));
    let mut other_run = good.clone();
    other_run.key.run = run_id("b");
    assert!(matches!(
        store.segment(&other_run),
        Err(StoreError::NoSuchRun { .. })
    ));
    let mut other_case = good;
    other_case.key.case = Sha256([1; 32]);
    assert!(matches!(
        store.segment(&other_case),
        Err(StoreError::NoSuchCase { .. })
    ));
}

#[test]
fn records_of_another_schema_are_kept_raw_with_their_trials() {
    let (_dir, mut store) = new_store();
    add_run(&store, "a");
    let mut foreign = header(&store, key("a", 0, 0));
    foreign.schema = [9; 32];
    let records = repeat(&[MS, MS]);
    let mut segment = store.segment(&foreign).unwrap();
    for (i, record) in records.iter().enumerate() {
        let received = segment
            .record(&record.to_frame(i as u64).unwrap().payload)
            .unwrap();
        match record {
            Record::Chunk(_) => assert_eq!(received, Received::Chunk { lane: 0, rows: 5 }),
            Record::End(_) => assert_eq!(received, Received::End(OutcomeKind::Raw)),
            _ => assert_eq!(received, Received::Raw),
        }
    }
    assert_eq!(segment.commit().unwrap().outcome, OutcomeKind::Raw);
    let rows = store.repeats(&run_id("a"), CASE).unwrap();
    assert_eq!(rows[0].raw_records as usize, records.len() - 1);
    let columns = store.columns(&rows[0], 0).unwrap();
    assert_eq!(columns.column("end_ns").unwrap().len(), 5);
    assert_eq!(columns.column("column_4").unwrap()[3], MS / 2);
}

#[test]
fn the_highest_complete_attempt_counts_and_the_others_stay() {
    let (_dir, mut store) = new_store();
    add_run(&store, "a");
    let failed = |detail: &str| {
        let failure = Failure::new(FailureCode::Crash, detail);
        end(
            Outcome::Failed {
                stage: Stage::Measure,
                failure,
            },
            0,
            0,
        )
    };
    deliver(&mut store, key("a", 0, 0), &[failed("SIGSEGV")]).unwrap();
    deliver(&mut store, key("a", 0, 1), &repeat(&[MS])).unwrap();
    deliver(&mut store, key("a", 0, 2), &repeat(&[2 * MS])).unwrap();
    deliver(&mut store, key("a", 0, 3), &[failed("again")]).unwrap();
    let rows = store.repeats(&run_id("a"), CASE).unwrap();
    let counting: Vec<_> = rows.iter().map(|row| row.counts).collect();
    assert_eq!(counting, [false, false, true, false]);
    assert_eq!(rows[0].failure.as_ref().unwrap().code, "crash");
    assert_eq!(rows[0].stage, Some(StageName::Measure));
}

#[test]
fn a_host_failure_makes_way_for_what_the_agent_delivers_and_never_replaces_it() {
    let (_dir, mut store) = new_store();
    add_run(&store, "a");
    let gone =
        Failure::new(FailureCode::SpawnFailed, "board did not answer").hint("check its power");
    store
        .put_failure(&key("a", 0, 0), Stage::Spawn, &gone)
        .unwrap();
    store
        .put_failure(&key("a", 0, 0), Stage::Spawn, &gone)
        .unwrap();
    let rows = store.repeats(&run_id("a"), CASE).unwrap();
    assert!(!rows[0].reached_worker);
    assert_eq!(
        rows[0].failure.as_ref().unwrap().hint.as_deref(),
        Some("check its power")
    );

    assert!(
        deliver(&mut store, key("a", 0, 0), &repeat(&[MS]))
            .unwrap()
            .stored
    );
    store
        .put_failure(&key("a", 0, 0), Stage::Spawn, &gone)
        .unwrap();
    let done = store.done_keys(&run_id("a")).unwrap();
    assert_eq!(done, [(key("a", 0, 0), OutcomeKind::Complete)]);
}

#[test]
fn artifacts_are_kept_once_and_damage_is_marked() {
    let (_dir, mut store) = new_store();
    add_run(&store, "a");
    let content = b"tensor bytes".to_vec();
    let hash = Sha256(sha2::Sha256::digest(&content).into());
    let announced = |number, sha256| {
        Record::Artifact(Artifact {
            number,
            name: format!("y{number}.npy"),
            kind: "output_tensor".into(),
            sha256,
            bytes: content.len() as u64,
        })
    };
    let part = |number, bytes: &[u8]| {
        let bytes = bytes.to_vec();
        Record::ArtifactPart(ArtifactPart { number, bytes })
    };
    let records = [
        announced(0, hash),
        part(0, &content[..5]),
        part(0, &content[5..]),
        announced(1, Sha256([1; 32])),
        part(1, b"something else"),
        end(Outcome::Complete, 0, 0),
    ];
    deliver(&mut store, key("a", 0, 0), &records).unwrap();
    deliver(&mut store, key("a", 1, 0), &records).unwrap();
    let rows = store.repeats(&run_id("a"), CASE).unwrap();
    for row in &rows {
        assert_eq!(
            store.content(&row.artifacts[0]).unwrap(),
            Some(content.clone())
        );
        assert_eq!(store.content(&row.artifacts[1]).unwrap(), None);
    }
    let parts: i64 = store
        .sql
        .query_row("SELECT COUNT(*) FROM contents", [], |row| row.get(0))
        .unwrap();
    assert_eq!(parts, 2);
    store.remove_run(&run_id("a")).unwrap();
    let left: i64 = store
        .sql
        .query_row("SELECT COUNT(*) FROM contents", [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 0);
}

#[test]
fn telemetry_comes_back_in_order() {
    let (_dir, mut store) = new_store();
    add_run(&store, "a");
    let samples = |from: i64| {
        Record::Samples(Samples {
            channel: 3,
            at_ns: vec![from, from + 1],
            value: vec![-from, i64::MIN],
            quality: vec![0, 2],
        })
    };
    let records = [samples(10), samples(20), end(Outcome::Complete, 0, 0)];
    deliver(&mut store, key("a", 0, 0), &records).unwrap();
    let rows = store.repeats(&run_id("a"), CASE).unwrap();
    let back = store.samples(&rows[0], 3).unwrap();
    assert_eq!(back.at_ns, [10, 11, 20, 21]);
    assert_eq!(back.value, [-10, i64::MIN, -20, i64::MIN]);
    assert_eq!(back.quality, [0, 2, 0, 2]);
    assert_eq!(store.samples(&rows[0], 4).unwrap().at_ns, [] as [i64; 0]);
}

#[test]
fn a_case_and_its_rules_can_be_ordered_again() {
    let (_dir, store) = new_store();
    add_run(&store, "a");
    let entry = &store.cases(&run_id("a")).unwrap()[0];
    assert_eq!(Case::from(&entry.case), case());
    assert_eq!(entry.rules, rules());
    assert_eq!(entry.rules.rules().measure.min_trials, 11);
    assert_eq!(entry.rules.limits().trial_factor, 50);
}

#[test]
fn a_run_begins_with_all_it_has_or_not_at_all() {
    let (_dir, store) = new_store();
    let case = case();
    let device = sample::device();
    let first = || FirstRows {
        cases: vec![sample::new_case(&case)],
        devices: vec![("local", &device)],
        findings: Vec::new(),
    };
    for table in ["cases", "devices"] {
        // Whatever keeps a later row out, a killed process or a full disk, keeps out the ones before.
        let trap = format!(
            "CREATE TRIGGER trap BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'trap'); END"
        );
        store.sql.execute_batch(&trap).unwrap();
        assert!(store.begin_run_with(&new_run("a", 1), &first()).is_err());
        store.sql.execute_batch("DROP TRIGGER trap").unwrap();
        assert!(store.runs().unwrap().is_empty(), "{table}");
        assert!(
            store.cases(&run_id("a")).is_err() || store.cases(&run_id("a")).unwrap().is_empty()
        );
    }
    store.begin_run_with(&new_run("a", 1), &first()).unwrap();
    assert_eq!(store.cases(&run_id("a")).unwrap().len(), 1);
    assert_eq!(store.devices(&run_id("a")).unwrap().len(), 1);
}

#[test]
fn runs_are_found_by_id_prefix_tag_and_last() {
    let (_dir, store) = new_store();
    for (i, id) in ["abc111", "abd222", "xyz333"].iter().enumerate() {
        store.begin_run(&new_run(id, i as i64)).unwrap();
    }
    store.tag(&run_id("abc111"), "baseline").unwrap();
    assert_eq!(store.resolve("last").unwrap(), run_id("xyz333"));
    assert_eq!(store.resolve("abc").unwrap(), run_id("abc111"));
    assert_eq!(store.resolve("baseline").unwrap(), run_id("abc111"));
    assert!(
        matches!(store.resolve("ab"), Err(StoreError::AmbiguousRun { candidates, .. }) if candidates.len() == 2)
    );
    let slip = store.resolve("basline").unwrap_err();
    assert_eq!(slip.hint().unwrap(), "did you mean baseline?");
    assert!(matches!(
        store.tag(&run_id("abc111"), "last"),
        Err(StoreError::BadTag(_))
    ));
    assert!(store.untag(&run_id("abc111"), "baseline").unwrap());
    assert!(!store.untag(&run_id("abc111"), "baseline").unwrap());
    assert!(store.resolve("").is_err());
}

#[test]
fn a_run_changes_its_status_and_can_be_removed() {
    let (_dir, mut store) = new_store();
    add_run(&store, "a");
    deliver(&mut store, key("a", 0, 0), &repeat(&[MS])).unwrap();
    store
        .set_run_status(&run_id("a"), RunStatus::Interrupted)
        .unwrap();
    assert_eq!(
        store.run(&run_id("a")).unwrap().status,
        RunStatus::Interrupted
    );
    store.remove_run(&run_id("a")).unwrap();
    assert!(store.runs().unwrap().is_empty());
    assert!(store.remove_run(&run_id("a")).is_err());
    assert!(
        store
            .set_run_status(&run_id("a"), RunStatus::Complete)
            .is_err()
    );
    let left: i64 = store
        .sql
        .query_row("SELECT COUNT(*) FROM chunks", [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 0);
}

#[test]
fn the_nearest_store_upward_is_found_and_reading_makes_none() {
    let dir = tempfile::tempdir().unwrap();
    let below = dir.path().join("a/b");
    std::fs::create_dir_all(&below).unwrap();
    assert_eq!(Store::find(None, &below).unwrap(), None);
    assert!(matches!(
        Store::open_reading(&dir.path().join(FOLDER)),
        Err(StoreError::NotReadable { .. })
    ));
    assert!(!dir.path().join(FOLDER).exists());
    assert_eq!(Store::find_or_new(None, &below), below.join(FOLDER));

    let id = Store::open_writing(&dir.path().join(FOLDER)).unwrap().id();
    let found = Store::find(None, &below).unwrap().unwrap();
    assert_eq!(found, dir.path().join(FOLDER));
    assert_eq!(Store::find_or_new(None, &below), found);
    assert_eq!(Store::open_reading(&found).unwrap().id(), id);
    assert_eq!(Store::open_writing(&found).unwrap().id(), id);
    assert!(Store::find(Some(&below), &below).is_err());
}

#[test]
fn a_newer_store_is_left_alone() {
    let (dir, store) = new_store();
    let folder = dir.path().join(FOLDER);
    store.sql.pragma_update(None, "user_version", 99).unwrap();
    drop(store);
    for opened in [Store::open_reading(&folder), Store::open_writing(&folder)] {
        let error = opened.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Incompatible);
        assert!(error.to_string().contains("layout 99"), "{error}");
        assert!(error.hint().is_some());
    }
}

#[test]
fn a_place_that_cannot_be_written_is_an_argument_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "text").unwrap();
    for place in [file.join("store"), "/proc/no/store".into()] {
        let error = Store::open_writing(&place).unwrap_err();
        assert!(matches!(error, StoreError::NotWritable { .. }), "{error}");
        assert_eq!(error.class(), ErrorClass::Argument);
    }
}

#[test]
fn a_store_opened_for_reading_refuses_to_change() {
    let (dir, store) = new_store();
    drop(store);
    let reading = Store::open_reading(&dir.path().join(FOLDER)).unwrap();
    let error = reading.begin_run(&new_run("a", 0)).unwrap_err();
    assert!(matches!(error, StoreError::NotWritable { .. }), "{error}");
}

#[test]
fn a_full_disk_keeps_what_was_stored() {
    let (_dir, mut store) = new_store();
    add_run(&store, "a");
    deliver(&mut store, key("a", 0, 0), &repeat(&[MS; 100])).unwrap();
    let pages: i64 = store
        .sql
        .query_row("PRAGMA page_count", [], |r| r.get(0))
        .unwrap();
    store
        .sql
        .query_row(
            &format!("PRAGMA max_page_count = {}", pages + 1),
            [],
            |_| Ok(()),
        )
        .unwrap();
    let durations: Vec<i64> = (0..200_000).map(|i| MS + (i * 7919) % 100_000).collect();
    let error = deliver(&mut store, key("a", 1, 0), &repeat(&durations)).unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert!(error.hint().unwrap().contains("--resume"));
    let done = store.done_keys(&run_id("a")).unwrap();
    assert_eq!(done, [(key("a", 0, 0), OutcomeKind::Complete)]);
}

#[test]
fn what_is_not_a_database_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("store.db"),
        "this is text, and more of it".repeat(100),
    )
    .unwrap();
    for opened in [
        Store::open_reading(dir.path()),
        Store::open_writing(dir.path()),
    ] {
        assert!(matches!(opened, Err(StoreError::Damaged { .. })));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn any_trials_come_back_from_any_number_of_chunks(
        durations in prop::collection::vec(0_i64..i64::MAX / 4, 0..40),
        size in 1_usize..9,
    ) {
        let (_dir, mut store) = new_store();
        add_run(&store, "a");
        let timed: Vec<_> = durations.iter().map(|&d| (Role::Measure, d / 3, d)).collect();
        let mut records = repeat_of(&[]);
        let at = records.len() - 1;
        let chunks = timed.chunks(size).enumerate();
        let chunks: Vec<_> = chunks
            .map(|(n, rows)| Record::Chunk(sample::chunk_of(n as u32, rows)))
            .collect();
        records.splice(at..at, chunks);
        deliver(&mut store, key("a", 0, 0), &records).unwrap();
        let rows = store.repeats(&run_id("a"), CASE).unwrap();
        let columns = store.columns(&rows[0], 0).unwrap();
        prop_assert_eq!(&columns.cells[2], &durations.iter().map(|d| d / 3 + d).collect::<Vec<_>>());
    }
}

#[test]
fn a_sample_run_has_the_trials_its_comments_say() {
    assert_eq!(trials(&[MS, MS])[4], (Role::Measure, 101 * MS, MS));
}
