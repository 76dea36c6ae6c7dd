//! `docs/statistics.md` says what the code does: its constants are those of the code, and every promise
//! that is proved stands in its table.

use std::fs;

use edgedyno::compare::page::constants;
use edgedyno_tests::{proof, workspace};
use regex::Regex;

const PAGE: &str = "docs/statistics.md";

/// The text between two markers.
fn between<'a>(page: &'a str, name: &str) -> &'a str {
    let (_, after) = page
        .split_once(&format!("<!-- {name} -->\n"))
        .expect("a marker");
    let (block, _) = after
        .split_once(&format!("<!-- /{name} -->"))
        .expect("its end");
    block
}

#[test]
fn every_constant_on_the_page_is_one_of_the_code() {
    let path = workspace::root().join(PAGE);
    let page = fs::read_to_string(&path).unwrap();
    let block = between(&page, "constants");
    if std::env::var_os("EDGEDYNO_REWRITE").is_some() {
        let marked = |block: &str| format!("<!-- constants -->\n{block}<!-- /constants -->");
        fs::write(&path, page.replace(&marked(block), &marked(&constants()))).unwrap();
        return;
    }
    assert_eq!(block, constants(), "run with EDGEDYNO_REWRITE=1");
}

/// No percentage in the prose that is not in the table, but for examples of a change.
#[test]
fn the_prose_has_no_constants_of_its_own() {
    let page = fs::read_to_string(workspace::root().join(PAGE)).unwrap();
    let table = constants();
    let (prose, _) = page.split_once("## Constants").unwrap();
    let percent = Regex::new(r"(\d+(?:\.\d+)?) %").unwrap();
    let examples = ["2 %"];
    for found in percent.find_iter(prose) {
        let text = found.as_str();
        assert!(
            table.contains(text) || examples.contains(&text),
            "{text} is no constant of the code"
        );
    }
}

#[test]
fn the_table_of_proofs_has_every_proof_and_all_are_kept() {
    let page = fs::read_to_string(workspace::root().join(PAGE)).unwrap();
    let block = between(&page, "proof");
    for row in proof::all(2) {
        let begin = format!("| {} | {} |", row.promise, row.what);
        assert!(block.contains(&begin), "{begin} is missing");
    }
    assert!(!block.contains("NOT KEPT"));
    let experiments = Regex::new(r"\| \d+ of (\d+)").unwrap();
    let counts = experiments.captures_iter(block);
    let counts: Vec<usize> = counts.map(|found| found[1].parse().unwrap()).collect();
    assert_eq!(counts.len(), proof::all(2).len());
    assert!(counts.iter().all(|count| *count >= 900), "{counts:?}");
}
