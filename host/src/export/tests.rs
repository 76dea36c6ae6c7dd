//! Every exporter writes what its format promises, where it was told to, or says why not.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use edgedyno_shared::ids::Sha256;
use serde_json::Value;

use crate::golden;
use crate::source::Source;
use crate::store::sample::{CASE, case, deliver, key, new_case, repeat, run_id};
use crate::store::{NewCase, Store};
use crate::summary::tests::{eleven, hand_worked};

use super::*;

fn source(store: Store) -> Source {
    let run = run_id("a");
    Source::Stored { store, run }
}

fn export(source: &Source, format: &str, to: &Path) -> Result<Vec<String>, ExportError> {
    let exporter = find(format).unwrap();
    let mut output = Output::at(to, exporter.makes_folder())?;
    let cases = source.cases()?;
    exporter.write(source, &cases.iter().collect::<Vec<_>>(), &mut output)?;
    Ok(output.written().iter().map(|w| w.name.clone()).collect())
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn names_are_unique_and_found() {
    let names: BTreeSet<&str> = EXPORTERS.iter().map(|e| e.name()).collect();
    assert_eq!(names.len(), EXPORTERS.len());
    assert!(
        EXPORTERS
            .iter()
            .all(|e| find(e.name()).is_some() && !e.about().is_empty())
    );
    assert!(find("xml").is_none());
}

#[test]
fn a_folder_holds_everything() {
    let (dir, store) = hand_worked();
    let out = dir.path().join("out");
    let written = export(&source(store), "dir", &out).unwrap();
    assert_eq!(
        written,
        [
            "records.jsonl",
            "records.csv",
            "summary.json",
            "summary.csv",
            "manifest.json"
        ]
    );
    let lines = fs::read_to_string(out.join("records.jsonl")).unwrap();
    // Three repeats of two cold trials, one of warm-up and eleven measured.
    assert_eq!(lines.lines().count(), 3 * 14);
    let manifest = read(&out.join("manifest.json"));
    assert_eq!(manifest["document"], "edgedyno/export/1");
    assert_eq!(manifest["files"].as_array().unwrap().len(), 4);
    let summary = fs::read_to_string(out.join("summary.csv")).unwrap();
    assert_eq!(summary.lines().count(), 2);
}

#[test]
fn trials_match_the_golden_files() {
    let (dir, store) = hand_worked();
    let source = source(store);
    for (format, file) in [("csv", "records.csv"), ("jsonl", "records.jsonl")] {
        let out = dir.path().join(file);
        export(&source, format, &out).unwrap();
        let made = fs::read_to_string(&out).unwrap();
        golden::check(&format!("tests/golden/export/{file}"), &made);
    }
}

#[test]
fn one_case_is_one_profile_and_more_have_an_index() {
    let (dir, store) = hand_worked();
    let mut source = source(store);
    let one = dir.path().join("one");
    assert_eq!(export(&source, "profile", &one).unwrap(), ["profile.json"]);
    let file = dir.path().join("named.json");
    export(&source, "profile", &file).unwrap();
    assert_eq!(read(&file)["document"], "edgedyno/profile/1");

    let Source::Stored { store, .. } = &mut source else {
        panic!("made from a store");
    };
    let key_of_second = Sha256([2; 32]);
    let same = case();
    let second = NewCase {
        key: key_of_second,
        ..new_case(&same)
    };
    store.add_case(&run_id("a"), &second).unwrap();
    let mut order = key("a", 0, 0);
    order.case = key_of_second;
    deliver(store, order, &repeat(&eleven())).unwrap();
    let two = dir.path().join("two");
    let written = export(&source, "profile", &two).unwrap();
    assert_eq!(
        written,
        [
            "profiles/cacacacacacacaca.json",
            "profiles/0202020202020202.json",
            "index.json"
        ]
    );
    let back = Source::open("two", None, dir.path()).unwrap().source;
    assert_eq!(back.cases().unwrap(), source.cases().unwrap());
    assert_eq!(back.view(CASE).unwrap().repeats.len(), 3);
    let file = export(&source, "profile", &dir.path().join("both.json")).unwrap_err();
    assert!(matches!(file, ExportError::NeedsFolder(_)), "{file}");
}

#[test]
fn a_profile_exports_like_the_run_it_came_from() {
    let (dir, store) = hand_worked();
    let source = source(store);
    export(&source, "profile", &dir.path().join("p")).unwrap();
    let profile = Source::open("p", None, dir.path()).unwrap().source;
    let [a, b] = [(&source, "a.csv"), (&profile, "b.csv")].map(|(source, name)| {
        let path = dir.path().join(name);
        export(source, "csv", &path).unwrap();
        fs::read(path).unwrap()
    });
    assert!(a == b);
}

/// Every format that is one file, under a name that none of them would choose.
#[test]
fn a_file_is_told_by_the_name_that_it_was_given() {
    let (dir, store) = hand_worked();
    let source = source(store);
    for exporter in EXPORTERS.iter().filter(|exporter| !exporter.makes_folder()) {
        let path = dir.path().join(format!("my-{}.out", exporter.name()));
        let written = export(&source, exporter.name(), &path).unwrap();
        assert_eq!(written, [path.display().to_string()], "{}", exporter.name());
        assert!(path.is_file());
    }
    let folder = dir.path().join("folder/");
    fs::create_dir(&folder).unwrap();
    let written = export(&source, "csv", &folder).unwrap();
    assert_eq!(written, ["records.csv"]);
}

#[test]
fn a_place_that_cannot_be_written_is_found_before_any_work() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let at = |path: &str, folder| Output::at(&dir.path().join(path), folder).err().unwrap();
    assert!(matches!(
        at("file/x", true),
        ExportError::NotWritable { .. }
    ));
    assert!(matches!(
        at("no/where.csv", false),
        ExportError::NotWritable { .. }
    ));
    let full = at("", true);
    assert!(matches!(full, ExportError::NotEmpty(_)) && full.hint().is_some());
}

#[test]
fn a_file_stays_as_it_was_until_the_export_begins() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("old.csv");
    fs::write(&path, "old").unwrap();
    drop(Output::at(&path, false).unwrap());
    assert_eq!(fs::read(&path).unwrap(), b"old");
}

#[test]
fn names_from_a_board_stay_inside_the_folder() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("out/");
    let mut output = Output::at(&folder, true).unwrap();
    output.file("../../x/../y", |_| Ok(())).unwrap();
    assert!(folder.join("x/y").is_file());
    assert!(!dir.path().join("y").exists());
}

#[test]
fn cells_with_commas_and_quotes_are_quoted() {
    let mut line = Vec::new();
    let cells = ["a,b", "say \"hi\"", "plain", ""].map(String::from);
    csv::line(&mut line, cells.into_iter()).unwrap();
    assert_eq!(line, b"\"a,b\",\"say \"\"hi\"\"\",plain,\n");
}
