//! A profile says what the store says, and cases are found by key and by axes.

use std::fs;

use crate::store::ErrorClass;
use crate::store::rows::CaseEntry;
use crate::store::sample::{
    CASE, MS, add_run, case, deliver, key, new_store, repeat, rules, run_id,
};
use crate::summary::summarise;
use crate::summary::tests::hand_worked;

use super::*;

fn stored(store: Store) -> Source {
    let run = run_id("a");
    Source::Stored { store, run }
}

#[test]
fn a_profile_reads_back_as_the_store_does() {
    let (dir, store) = hand_worked();
    let from_store = stored(store);
    let cases = from_store.cases().unwrap();
    let profile = Profile::of(&from_store, &cases[0]).unwrap();
    let path = dir.path().join("profile.json");
    fs::write(&path, serde_json::to_string(&profile).unwrap()).unwrap();

    let opened = Source::open("profile.json", None, dir.path()).unwrap();
    let from_file = opened.source;
    let (a, b) = (
        from_store.view(CASE).unwrap(),
        from_file.view(CASE).unwrap(),
    );
    assert_eq!(summarise(&a), summarise(&b));
    assert_eq!(*a.run, from_file.run().unwrap());
    assert_eq!(from_store.devices().unwrap(), from_file.devices().unwrap());
    let (of_a, of_b) = (&a.repeats[1].row, &b.repeats[1].row);
    assert_eq!(
        from_store.lanes(of_a).unwrap(),
        from_file.lanes(of_b).unwrap()
    );
    let columns = from_file.columns(of_b, 0).unwrap();
    assert_eq!(columns, from_store.columns(of_a, 0).unwrap());
    assert_eq!(columns.rows(), 14);
}

#[test]
fn cells_that_were_not_measured_survive_a_profile() {
    let columns = Columns {
        specs: Vec::new(),
        cells: vec![vec![1, edgedyno_shared::columns::NULL], vec![-5, 7]],
    };
    let json = serde_json::to_value(&columns).unwrap();
    assert_eq!(json["cells"], serde_json::json!([[1, null], [-5, 7]]));
    assert_eq!(serde_json::from_value::<Columns>(json).unwrap(), columns);
}

#[test]
fn a_file_that_is_no_profile_is_refused_with_reasons() {
    let dir = tempfile::tempdir().unwrap();
    let open = |text: &str| {
        fs::write(dir.path().join("p.json"), text).unwrap();
        Source::open("p.json", None, dir.path()).unwrap_err()
    };
    assert!(matches!(open("no json"), SourceError::NotAProfile { .. }));
    assert!(matches!(
        open(r#"{"document": "other/thing/1"}"#),
        SourceError::NotAProfile { .. }
    ));
    let newer = open(r#"{"document": "edgedyno/profile/2", "what": "ever"}"#);
    assert_eq!(newer.class(), ErrorClass::Incompatible);
    let missing = Source::open("missing.json", None, dir.path()).unwrap_err();
    assert!(matches!(missing, SourceError::Unreadable { .. }));
    let told = crate::exit::CommandError::from(missing);
    assert_eq!(told.exit, crate::exit::Exit::USAGE);
    assert!(told.what.contains("missing.json"), "{told:?}");
    assert_eq!(told.causes.len(), 1, "{told:?}");
}

#[test]
fn a_run_may_be_named_with_its_case() {
    let (dir, store) = hand_worked();
    drop(store);
    let opened = Source::open("last/caca", None, dir.path()).unwrap();
    assert_eq!(opened.key.as_deref(), Some("caca"));
    let cases = opened.source.cases().unwrap();
    assert_eq!(one(&cases, opened.key.as_deref()).unwrap().key, CASE);
    let nowhere = Source::open("last", None, Path::new("/proc")).unwrap_err();
    assert!(nowhere.hint().is_some());
    assert!(Source::open("b", None, dir.path()).is_err());
}

fn cases() -> Vec<CaseEntry> {
    let entry = |n: u8, threads, batch| {
        let mut case = case();
        case.threads.intra = threads;
        case.batch = batch;
        CaseEntry {
            key: Sha256([n; 32]),
            match_key: Sha256([n; 32]),
            case: (&case).into(),
            rules: rules(),
        }
    };
    vec![
        entry(0x11, 1, Some(1)),
        entry(0x12, 2, Some(1)),
        entry(0x20, 2, None),
    ]
}

#[test]
fn cases_are_picked_by_key_and_by_axes() {
    let cases = cases();
    let keys = |wanted| {
        let found = matching(&cases, wanted).unwrap();
        found.iter().map(|case| case.key.0[0]).collect::<Vec<_>>()
    };
    assert_eq!(keys(None), [0x11, 0x12, 0x20]);
    assert_eq!(keys(Some("20")), [0x20]);
    assert_eq!(keys(Some("threads=2")), [0x12, 0x20]);
    assert_eq!(keys(Some("threads=2, batch=1")), [0x12]);
    assert!(matches!(
        matching(&cases, Some("1")),
        Err(SourceError::SeveralCases { .. })
    ));
    assert!(matches!(
        matching(&cases, Some("9")),
        Err(SourceError::NoSuchCase(_))
    ));
    assert!(matches!(
        matching(&cases, Some("threads=3")),
        Err(SourceError::NoSuchCase(_))
    ));
    let slip = matching(&cases, Some("thread=2")).unwrap_err();
    assert!(slip.hint().unwrap().contains("threads"), "{slip:?}");
    let needs_one = one(&cases, None).unwrap_err();
    assert!(
        needs_one
            .hint()
            .unwrap()
            .contains("11111111, 12121212, 20202020")
    );
}

#[test]
fn listed_cases_show_the_axes_in_which_they_differ() {
    let picks = describe(&cases());
    assert_eq!(picks[0].key, "11111111");
    let axes: Vec<&str> = picks[0]
        .axes
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(axes, ["batch", "threads"]);
    assert!(describe(&[]).is_empty());
}

#[test]
#[ignore = "prints how fast trials are stored and summarised; run with --release -- --ignored --nocapture"]
#[expect(clippy::disallowed_methods, reason = "prints a time, asserts none")]
fn time_of_a_million_trials() {
    let (_dir, mut store) = new_store();
    add_run(&store, "a");
    let durations: Vec<i64> = (0..1_000_000).map(|i| MS + (i * 7919) % 100_003).collect();
    let wide = wide_repeat(&durations);
    let frames: Vec<Vec<u8>> = (0..)
        .zip(&wide)
        .map(|(i, r)| r.to_frame(i).unwrap().payload)
        .collect();
    let bytes: usize = frames.iter().map(Vec::len).sum();
    let header = crate::store::sample::header(&store, key("a", 0, 0));
    let start = std::time::Instant::now();
    let mut segment = store.segment(&header).unwrap();
    for frame in &frames {
        segment.record(frame).unwrap();
    }
    segment.commit().unwrap();
    let took = start.elapsed();
    println!(
        "ingest: {bytes} bytes in {took:?}, {:.1} M trials/s",
        1.0 / took.as_secs_f64()
    );
    let start = std::time::Instant::now();
    let view = CaseView::read(&store, &run_id("a"), CASE).unwrap();
    println!("read: {:?}", start.elapsed());
    let again = std::time::Instant::now();
    let summary = summarise(&view);
    println!(
        "summarise: {:?}, both {:?}",
        again.elapsed(),
        start.elapsed()
    );
    assert_eq!(summary.counts.trials, 1_000_000);
    let start = std::time::Instant::now();
    let columns = store.columns(&view.repeats[0].row, 0).unwrap();
    println!(
        "all columns: {:?}, {} rows",
        start.elapsed(),
        columns.rows()
    );
    deliver(&mut store, key("a", 1, 0), &repeat(&[MS])).unwrap();
}

/// A repeat whose trials have eight columns.
fn wide_repeat(durations: &[i64]) -> Vec<edgedyno_shared::wire::record::Record> {
    use edgedyno_shared::columns::{Chunk, ColumnSpec, TrialSchema};
    use edgedyno_shared::wire::record::Record;
    let mut records = repeat(&[]);
    records.retain(|record| !matches!(record, Record::Chunk(_)));
    for record in &mut records {
        if let Record::Schema { schema, .. } = record {
            let extra = ["device_ns", "h2d_ns", "d2h_ns", "post_ns"];
            *schema = TrialSchema::with(extra.map(|name| ColumnSpec::new(name, "ns")).to_vec());
        }
    }
    let mut at = 100 * MS;
    let slots: Vec<i64> = durations
        .iter()
        .flat_map(|&d| {
            at += d + 100;
            [3, at - d, at, 0, d / 2, d / 7, d / 9, d / 11]
        })
        .collect();
    let last = records.len() - 1;
    let chunks = slots.chunks(8 * 8192).enumerate();
    let chunks: Vec<_> = chunks
        .map(|(number, slots)| Record::Chunk(Chunk::from_slots(0, number as u32, 8, slots)))
        .collect();
    records.splice(last..last, chunks);
    records
}
