//! The pages of `docs/` as a book: every link leads somewhere, and every page is in the table of contents.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use edgedyno_tests::{book, golden, workspace};
use serde_json::Value;

/// Pages of people's own words: all that is in `docs/`, and those beside it.
fn pages() -> BTreeMap<PathBuf, String> {
    let root = workspace::root();
    let mut pages = BTreeMap::new();
    let mut open = ["docs", "changes", "examples"]
        .map(|name| root.join(name))
        .to_vec();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => open.push(path),
                false if path.extension().is_some_and(|ending| ending == "md") => {
                    let text = fs::read_to_string(&path).unwrap();
                    pages.insert(path.strip_prefix(root).unwrap().to_owned(), text);
                }
                false => {}
            }
        }
    }
    for name in [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
    ] {
        pages.insert(name.into(), fs::read_to_string(root.join(name)).unwrap());
    }
    pages
}

#[test]
fn every_link_leads_to_a_file_and_to_a_heading_of_it() {
    let pages = pages();
    let mut wrong = Vec::new();
    for (page, text) in &pages {
        for link in book::links(text) {
            let said = format!(
                "{}:{}: {}#{}",
                page.display(),
                link.line,
                link.path,
                link.anchor.clone().unwrap_or_default()
            );
            let Some(target) = book::target(page, &link.path) else {
                wrong.push(format!("{said} leads out of the sources"));
                continue;
            };
            if page.starts_with("docs") && !target.starts_with("docs") {
                wrong.push(format!("{said} leads out of the book"));
            }
            if !workspace::root().join(&target).exists() {
                wrong.push(format!("{said} leads nowhere"));
                continue;
            }
            let anchors = pages.get(&target).map(|text| book::anchors(text));
            if let (Some(anchor), Some(anchors)) = (link.anchor, anchors)
                && !anchors.contains(&anchor)
            {
                wrong.push(format!("{said} is no heading"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_page_is_in_the_table_of_contents() {
    let pages = pages();
    let summary = Path::new("docs/SUMMARY.md");
    let listed: BTreeSet<PathBuf> = book::links(&pages[summary])
        .iter()
        .filter_map(|link| book::target(summary, &link.path))
        .collect();
    let there: BTreeSet<PathBuf> = pages
        .keys()
        .filter(|page| page.starts_with("docs") && *page != summary)
        .cloned()
        .collect();
    assert_eq!(
        there,
        listed.into_iter().filter(|page| page != summary).collect()
    );
}

/// Who reads documents finds the form of each: every schema stands on the page by its title.
#[test]
fn every_schema_is_on_the_page_of_documents() {
    let mut rows = BTreeSet::new();
    for entry in fs::read_dir(workspace::root().join("docs/schema")).unwrap() {
        let path = entry.unwrap().path();
        let schema: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let (name, title) = (path.file_name().unwrap(), schema["title"].as_str().unwrap());
        let name = name.to_string_lossy();
        rows.insert(format!("| [{name}](schema/{name}) | {title} |\n"));
    }
    let page = "docs/documents.md";
    let kept = fs::read_to_string(workspace::root().join(page)).unwrap();
    let (begin, end) = ("|---|---|\n", "\n<!-- end of schemas -->");
    let (head, rest) = kept.split_once(begin).unwrap();
    let (_, tail) = rest.split_once(end).unwrap();
    let rows: String = rows.into_iter().collect();
    golden::check(page, &format!("{head}{begin}{rows}{end}{tail}"));
}
