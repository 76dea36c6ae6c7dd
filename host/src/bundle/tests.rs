use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use edgedyno_shared::artifact::{Artifact, ArtifactPart};
use edgedyno_shared::ids::RunId;
use edgedyno_shared::repeat::TextEvent;
use edgedyno_shared::wire::record::Record;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;
use tempfile::TempDir;

use super::clean::Words;
use super::places::{self, PLACES, Treatment};
use super::write::Wish;
use super::*;
use crate::source::Source;
use crate::store::Store;
use crate::store::copy::tables::{Kind, TABLES};
use crate::store::rows::FindingRow;
use crate::store::sample::{MS, add_run, deliver, key, new_store, repeat, run_id, watched};

const WHOLE: Wish = Wish {
    private: true,
    outputs: true,
    models: false,
    report: true,
};
const USUAL: Wish = Wish {
    private: false,
    outputs: false,
    models: false,
    report: true,
};

/// A run of one case whose repeats told things that are nobody's business.
fn talkative() -> (TempDir, Store) {
    let (dir, mut store) = new_store();
    let mut run = crate::store::sample::new_run("a", 1_790_000_000_000_000_000);
    run.argv = [
        "edgedyno",
        "run",
        "/home/alice/secret/net.onnx",
        "--board",
        "lab-x5",
    ]
    .map(str::to_owned)
    .into();
    run.plan_json = serde_json::json!({
        "document": "edgedyno/plan/1",
        "board": "lab-x5",
        "contents": [{"sha256": "11", "files": [{"name": "net.onnx", "path": "/home/alice/secret/net.onnx"}]}],
        "library": "/home/alice/lib/libonnxruntime.so",
        "save_outputs": null,
    });
    store.begin_run(&run).unwrap();
    let mut case = crate::store::sample::case();
    case.board = "lab-x5".into();
    case.parameters = vec![("prompt".into(), "tell me about alice".into())];
    store
        .add_case(&run_id("a"), &crate::store::sample::new_case(&case))
        .unwrap();
    let mut device = crate::store::sample::device();
    device
        .facts
        .push(crate::store::sample::fact("board_serial", "SN-0042"));
    store.put_device(&run_id("a"), "lab-x5", &device).unwrap();
    let finding = FindingRow {
        code: "x".into(),
        level: "note".into(),
        repeat: Some(1),
        text: "seen on lab-x5 by alice".into(),
        figures: serde_json::Map::new(),
    };
    store.put_finding(&run_id("a"), None, &finding).unwrap();
    for number in 0..3 {
        deliver(&mut store, key("a", number, 0), &records()).unwrap();
    }
    (dir, store)
}

fn records() -> Vec<Record> {
    let mut records = repeat(&(1..=11).map(|i| i * MS).collect::<Vec<_>>());
    let end = records.len() - 1;
    let bytes = b"tensor of alice".to_vec();
    let artifact = Record::Artifact(Artifact {
        number: 0,
        name: "y".into(),
        kind: "output_tensor".into(),
        sha256: crate::board::content::sha256(&bytes),
        bytes: bytes.len() as u64,
    });
    let part = Record::ArtifactPart(ArtifactPart { number: 0, bytes });
    let said = Record::Event(TextEvent {
        lane: 0,
        trial: Some(1),
        code: "stderr_tail".into(),
        text: "alice@lab-host: cannot read /home/alice/.cache/x from 10.1.2.3:22".into(),
    });
    let more = watched(1, "cpu0.freq", "hz", &[(101, Some(5)), (102, None)]);
    records.splice(end..end, more.into_iter().chain([said, artifact, part]));
    records
}

fn secrets() -> Words {
    let boards = BTreeMap::from([("lab-x5".to_owned(), "board-1".to_owned())]);
    let names = ["alice", "lab-host"].map(str::to_owned);
    Words::new(names, boards, Some("/home/alice".into()))
}

fn bundle(store: &Store, wish: &Wish, dir: &TempDir) -> (PathBuf, Bundled) {
    let path = dir.path().join("run.tar.gz");
    let made = write(store, &run_id("a"), wish, &secrets(), &path).unwrap();
    (path, made)
}

fn take(path: &Path) -> (TempDir, Result<(Store, Taken), BundleError>) {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("store");
    let taken = read(path, None, 5, || Ok(Store::open_writing(&place)?));
    let both = taken.map(|taken| (Store::open_writing(&place).unwrap(), taken));
    (dir, both)
}

/// What the reading commands say of a run: every field, every trial, the report.
fn said(store: &Store) -> (String, String, String) {
    let source = Source::Stored {
        store: Store::open_reading(store.dir()).unwrap(),
        run: run_id("a"),
    };
    let cases = source.cases().unwrap();
    let views = source.views(&cases).unwrap();
    let summaries: Vec<_> = views
        .map(|view| crate::summary::summarise(&view.unwrap()))
        .collect();
    let mut trials = String::new();
    for case in &cases {
        crate::records::each_lane(&source, case.key, |lane| {
            trials.extend(
                lane.records()
                    .map(|record| format!("{}\n", record.to_json())),
            );
            Ok::<(), crate::source::SourceError>(())
        })
        .unwrap();
    }
    let chapter = crate::report::gather("a", &source, &cases, crate::report::Room::USUAL).unwrap();
    let page = crate::report::page("a", &[chapter], None);
    (
        crate::summary::to_json(&summaries).to_string(),
        trials,
        page,
    )
}

#[test]
fn a_whole_bundle_comes_back_as_it_was() {
    let (dir, store) = talkative();
    let (path, made) = bundle(&store, &WHOLE, &dir);
    let (_other, taken) = take(&path);
    let (there, taken) = taken.unwrap();
    assert_eq!(said(&there), said(&store));
    assert_eq!(taken.sha256, made.sha256);
    assert_eq!((taken.merged.repeats, taken.merged.contents), (3, 1));
    let origin = there.origin(&run_id("a")).unwrap().unwrap();
    assert_eq!(
        (origin.source.as_str(), origin.imported_unix_ns),
        ("run.tar.gz", 5)
    );
    assert_eq!(origin.sha256.as_ref(), Some(&made.sha256));
    let mut report = Vec::new();
    each_member(&path, |name, bytes| {
        if name == "report.html" {
            report = bytes.to_vec();
        }
    });
    assert_eq!(String::from_utf8(report).unwrap(), said(&there).2);
}

#[test]
fn the_same_run_makes_the_same_bundle_and_taking_it_in_twice_changes_nothing() {
    let (dir, store) = talkative();
    let (path, first) = bundle(&store, &USUAL, &dir);
    let (_, second) = bundle(&store, &USUAL, &dir);
    assert_eq!(first, second);
    let place = dir.path().join("place");
    let open = || Ok(Store::open_writing(&place)?);
    let taken = read(&path, None, 1, open).unwrap();
    assert!(taken.merged.is_new && taken.merged.conflicts.is_empty());
    let again = read(&path, None, 2, open).unwrap();
    assert!(!again.merged.changed() && again.merged.conflicts.is_empty());
    assert_eq!(again.merged.known, 3);
    // The run itself is there: a bundle of it brings nothing and is no other run.
    let home = read(&path, None, 3, || Ok(Store::open_writing(store.dir())?)).unwrap();
    assert!(!home.merged.changed());
    assert_eq!(home.merged.conflicts, [""; 0]);
    assert!(store.origin(&run_id("a")).unwrap().is_none());
}

#[test]
fn nothing_private_is_in_a_usual_bundle_and_all_else_is() {
    let (dir, store) = talkative();
    let (path, made) = bundle(&store, &USUAL, &dir);
    each_member(&path, |name, bytes| {
        let text = String::from_utf8_lossy(bytes);
        for word in [
            "alice", "lab-host", "lab-x5", "SN-0042", "10.1.2.3", "/home/", "tell me", "secret",
        ] {
            assert!(!text.contains(word), "{word} in {name}");
        }
    });
    let counted: BTreeMap<String, u64> = made
        .manifest
        .left_out
        .iter()
        .map(|left| {
            (
                left["at"].as_str().unwrap().to_owned(),
                left["count"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(counted["runs.argv"], 2);
    assert_eq!(counted["runs.plan.contents[].files[].path"], 1);
    assert_eq!(counted["events.text"], 3);
    assert_eq!(counted["cases.definition.parameters.*"], 1);
    assert_eq!((counted["outputs"], counted["models"]), (1, 1));
    let (_other, taken) = take(&path);
    let (there, _) = taken.unwrap();
    let (figures, trials, page) = said(&there);
    assert_eq!(trials, said(&store).1.replace("lab-x5", "board-1"));
    assert!(page.contains("board-1"));
    // Every figure is the same: what differs is words.
    let numbers = |text: &str| {
        let value: Value = serde_json::from_str(text).unwrap();
        let case = &value["cases"][0];
        ["latency", "memory", "cold", "placement"].map(|part| case[part].to_string())
    };
    assert_eq!(numbers(&figures), numbers(&said(&store).0));
    let artifact = there
        .repeats(&run_id("a"), crate::store::sample::CASE)
        .unwrap()[0]
        .artifacts[0]
        .clone();
    assert_eq!(there.content(&artifact).unwrap(), None);
}

#[test]
fn every_stored_text_is_at_a_place_of_the_list() {
    for table in TABLES {
        for column in table.columns {
            // The body of a record is what its kind says.
            if (table.name, column.name) == ("records", "body") {
                continue;
            }
            let at = format!("{}.{}", table.name, column.name);
            let found = PLACES.iter().any(|place| {
                place.at == at
                    || place.at.starts_with(&format!("{at}."))
                    || place.at.starts_with(&format!("{at}[]"))
            });
            let wide = places::find(&at).is_some();
            assert!(found || wide, "{at}");
            if column.kind == Kind::Blob && column.name != "raw" {
                assert_eq!(
                    places::find(&at).unwrap().treatment,
                    Treatment::Keep,
                    "{at}"
                );
            }
        }
    }
    let (_dir, store) = talkative();
    let copied = store.copy_out(&RunId("a".into())).unwrap();
    let mut pieces = vec![copied.head().unwrap()];
    pieces.extend(copied.cases().unwrap());
    pieces.push(copied.repeat(copied.repeats().unwrap()[0]).unwrap());
    for (table, rows) in pieces.iter().flat_map(|piece| &piece.rows) {
        for row in rows {
            for (column, value) in row {
                let path = match (table.as_str(), column.as_str()) {
                    ("records", "body") => format!("records.{}", row["kind"].as_str().unwrap()),
                    _ => format!("{table}.{column}"),
                };
                leaves(&path, value, &mut |path| {
                    assert!(places::find(path).is_some(), "{path} is at no place");
                });
            }
        }
    }
}

fn leaves(path: &str, value: &Value, each: &mut dyn FnMut(&str)) {
    match value {
        // A fact is one thing.
        Value::Object(members)
            if members.contains_key("state")
                && members.contains_key("reason")
                && members.contains_key("value") =>
        {
            each(path)
        }
        Value::Object(members) => members
            .iter()
            .for_each(|(name, value)| leaves(&format!("{path}.{name}"), value, each)),
        Value::Array(items) => items
            .iter()
            .for_each(|item| leaves(&format!("{path}[]"), item, each)),
        Value::String(_) => each(path),
        _ => {}
    }
}

#[test]
fn the_page_about_bundles_has_the_list() {
    let path = crate::golden::path("docs/bundles.md");
    let page = fs::read_to_string(&path).unwrap_or_default();
    let (begin, end) = ("<!-- places -->\n", "<!-- end of places -->");
    let (head, rest) = page
        .split_once(begin)
        .expect("docs/bundles.md marks where the list begins");
    let (_, tail) = rest
        .split_once(end)
        .expect("docs/bundles.md marks where the list ends");
    let made = format!("{head}{begin}\n{}\n{end}{tail}", places::table());
    crate::golden::check("docs/bundles.md", &made);
}

/// Unpacked members with their names.
fn each_member(path: &Path, mut each: impl FnMut(&str, &[u8])) {
    let mut archive = tar::Archive::new(GzDecoder::new(fs::File::open(path).unwrap()));
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().to_str().unwrap().to_owned();
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut bytes).unwrap();
        each(&name, &bytes);
    }
}

fn members(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    each_member(path, |name, bytes| {
        all.push((name.to_owned(), bytes.to_vec()))
    });
    all
}

/// An archive of these members as they are; `shape` may change each header.
fn pack(path: &Path, members: &[(String, Vec<u8>)], shape: impl Fn(usize, &mut tar::Header)) {
    let mut tar = tar::Builder::new(GzEncoder::new(
        fs::File::create(path).unwrap(),
        Compression::default(),
    ));
    for (number, (name, bytes)) in members.iter().enumerate() {
        let mut header = tar::Header::new_ustar();
        // Written as they are: a builder would not take a name that leads elsewhere.
        let field = &mut header.as_old_mut().name;
        field[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(tar::EntryType::Regular);
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        shape(number, &mut header);
        header.set_cksum();
        tar.append(&header, bytes.as_slice()).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap();
}

/// The members with a list that fits them again.
fn relisted(
    mut members: Vec<(String, Vec<u8>)>,
    change: impl Fn(&mut Value),
) -> Vec<(String, Vec<u8>)> {
    let mut list: Value = serde_json::from_slice(&members[0].1).unwrap();
    let listed = members[1..].iter().map(|(name, bytes)| {
        let sha256 = crate::board::content::sha256(bytes).to_string();
        serde_json::json!({"name": name, "bytes": bytes.len(), "sha256": sha256})
    });
    list["members"] = listed.collect();
    change(&mut list);
    members[0].1 = list.to_string().into_bytes();
    members
}

/// The archive is refused with these words, and nothing of it is kept.
fn refused(path: &Path, words: &str) -> BundleError {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("store");
    let error = read(path, None, 5, || Ok(Store::open_writing(&place)?)).unwrap_err();
    let mut said = error.to_string();
    said.extend(std::error::Error::source(&error).map(|why| format!(": {why}")));
    assert!(said.contains(words), "{said:?} has no {words:?}");
    assert!(
        Store::open_writing(&place)
            .unwrap()
            .runs()
            .unwrap()
            .is_empty()
    );
    error
}

#[test]
fn archives_with_names_links_or_members_of_their_own_are_refused() {
    let (dir, store) = talkative();
    let (path, _) = bundle(&store, &USUAL, &dir);
    let good = members(&path);
    let bad = dir.path().join("bad.tar.gz");
    pack(&bad, &good, |_, _| {});
    take(&bad).1.unwrap();

    let renamed = |name: &str| {
        let mut members = good.clone();
        members[2].0 = name.into();
        members
    };
    for name in [
        "../evil",
        "/etc/passwd",
        "cases/../../evil",
        "C:\\evil",
        ".hidden",
    ] {
        pack(&bad, &relisted(renamed(name), |_| {}), |_, _| {});
        refused(&bad, "no safe name");
        pack(&bad, &renamed(name), |_, _| {});
        refused(&bad, "no safe name");
    }
    for (kind, link) in [
        (tar::EntryType::Symlink, true),
        (tar::EntryType::Link, true),
        (tar::EntryType::Directory, false),
        (tar::EntryType::Char, false),
        (tar::EntryType::Fifo, false),
        (tar::EntryType::GNULongName, false),
        (tar::EntryType::XHeader, false),
        (tar::EntryType::GNUSparse, false),
    ] {
        pack(&bad, &good, |number, header| {
            if number == 2 {
                header.set_entry_type(kind);
                if link {
                    header.set_link_name("/etc/passwd").unwrap();
                }
            }
        });
        refused(&bad, "no plain file");
    }
    let mut more = good.clone();
    more.push(("more.json".into(), b"{}".to_vec()));
    pack(&bad, &more, |_, _| {});
    refused(&bad, "goes on behind");
    let mut unknown = good.clone();
    unknown.push(("evil/000.json".into(), b"{}".to_vec()));
    pack(&bad, &relisted(unknown, |_| {}), |_, _| {});
    refused(&bad, "nothing that is known");
    let mut twice = good.clone();
    twice.push(good[1].clone());
    pack(&bad, &relisted(twice, |_| {}), |_, _| {});
    refused(&bad, "listed twice");
    pack(&bad, &good[..good.len() - 1], |_, _| {});
    refused(&bad, "is not there");
    let mut swapped = good.clone();
    swapped.swap(2, 3);
    pack(&bad, &swapped, |_, _| {});
    refused(&bad, "was due");
    pack(&bad, &good[1..], |_, _| {});
    refused(&bad, "was due");
    fs::write(&bad, "no archive").unwrap();
    refused(&bad, "no sound bundle");
    fs::write(&bad, "").unwrap();
    refused(&bad, "no sound bundle");
}

#[test]
fn another_form_is_told_apart_from_damage() {
    let (dir, store) = talkative();
    let (path, _) = bundle(&store, &USUAL, &dir);
    let bad = dir.path().join("bad.tar.gz");
    let with =
        |change: &dyn Fn(&mut Value)| pack(&bad, &relisted(members(&path), change), |_, _| {});
    with(&|list| list["document"] = "edgedyno/bundle/2".into());
    assert!(matches!(
        refused(&bad, "edgedyno/bundle/2"),
        BundleError::Newer { .. }
    ));
    with(&|list| list["layout"] = (Store::layout() + 1).into());
    assert!(matches!(refused(&bad, "layout"), BundleError::Newer { .. }));
    with(&|list| list["document"] = "somebody/else/1".into());
    assert!(matches!(
        refused(&bad, "somebody/else/1"),
        BundleError::Unsound { .. }
    ));
    with(&|list| list["run"] = "b".into());
    refused(&bad, "run b was due");
    with(&|list| list["members"][0]["bytes"] = (1_u64 << 40).into());
    refused(&bad, "larger than a member may be");
    with(&|list| list["members"][0]["sha256"] = "00".repeat(32).into());
    refused(&bad, "not what the list says");
}

#[test]
fn a_small_file_that_unfolds_to_very_much_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let bad = dir.path().join("bomb.tar.gz");
    let zeros = vec![0; 16 << 20];
    let names = (0..24).map(|number| (format!("models/aa.{number}.000.bin"), zeros.clone()));
    let list = serde_json::json!({
        "document": DOCUMENT, "layout": 1, "tool_version": "0", "run": "a", "store": "s",
        "private": false, "with": [], "left_out": [], "members": [],
    });
    let mut all = vec![("manifest.json".to_owned(), list.to_string().into_bytes())];
    all.extend(names);
    pack(&bad, &relisted(all, |_| {}), |_, _| {});
    assert!(fs::metadata(&bad).unwrap().len() < 2 << 20);
    refused(&bad, "unfolds to more");
}

#[test]
fn no_torn_or_flipped_bundle_is_taken_for_another() {
    let (dir, store) = talkative();
    let (path, _) = bundle(
        &store,
        &Wish {
            report: false,
            ..USUAL
        },
        &dir,
    );
    let good = fs::read(&path).unwrap();
    let (_other, taken) = take(&path);
    let expected = said(&taken.unwrap().0);
    let bad = dir.path().join("bad.tar.gz");
    // Steps that are prime to everything, so that every part is met.
    for at in (0..good.len()).step_by(211) {
        fs::write(&bad, &good[..at]).unwrap();
        refused(&bad, "no sound bundle");
        let mut flipped = good.clone();
        flipped[at] ^= 1 << (at % 8);
        fs::write(&bad, flipped).unwrap();
        // Of the packing's own head some bits say nothing of what is in it.
        let (_other, taken) = take(&bad);
        if let Ok((there, _)) = taken {
            assert_eq!(said(&there), expected, "bit {} of byte {at}", at % 8);
            assert!(at < 10, "byte {at}");
        }
    }
    let mut longer = good;
    longer.extend(b"more");
    fs::write(&bad, longer).unwrap();
    refused(&bad, "behind its end");
}

#[test]
fn a_run_with_nothing_to_hide_and_nothing_measured_makes_a_bundle_too() {
    let (dir, store) = new_store();
    add_run(&store, "a");
    let (path, made) = bundle(&store, &USUAL, &dir);
    let left: Vec<&str> = made
        .manifest
        .left_out
        .iter()
        .filter_map(|left| left["at"].as_str())
        .collect();
    assert_eq!(left, ["models"]);
    let (_other, taken) = take(&path);
    assert_eq!(taken.unwrap().1.merged.cases, 1);
}
