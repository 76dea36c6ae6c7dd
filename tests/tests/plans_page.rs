//! `docs/plans.md` does what it says: its files are written and its commands run, in order.

use edgedyno_tests::schema::assert_matches_schema;
use edgedyno_tests::{Sandbox, workspace};
use serde_json::Value;

/// A fenced block of the page: its language with the words behind it, and its lines.
struct Block {
    info: String,
    lines: Vec<String>,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), open.take()) {
            (Some(info), None) => {
                open = Some(Block {
                    info: info.to_owned(),
                    lines: Vec::new(),
                });
            }
            (Some(_), Some(block)) => blocks.push(block),
            (None, Some(mut block)) => {
                block.lines.push(line.to_owned());
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    blocks
}

/// Words as a shell splits them, with double quotes.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('"').enumerate();
    let split = parts.flat_map(|(i, part)| match i % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    split.collect()
}

#[test]
fn every_command_of_the_page_of_plans_runs() {
    let page = std::fs::read_to_string(workspace::root().join("docs/plans.md")).unwrap();
    let sandbox = Sandbox::new();
    let mut ran = 0;
    for block in blocks(&page) {
        if let Some(name) = block.info.strip_prefix("toml file=") {
            sandbox.write(name, block.lines.join("\n"));
        }
        if block.info == "sh" {
            for line in &block.lines {
                let words = words(line);
                assert_eq!(words[0], "edgedyno", "{line}");
                sandbox.edgedyno(&words[1..]).ok();
                ran += 1;
            }
        }
    }
    assert!(ran >= 10, "only {ran} commands");
    sandbox.finish();
}

/// Editors complete and check plan files by the schema: it takes what the program takes.
#[test]
fn the_plans_of_the_page_fit_the_schema_of_plan_files() {
    let page = std::fs::read_to_string(workspace::root().join("docs/plans.md")).unwrap();
    let plans = blocks(&page);
    let plans: Vec<String> = plans
        .iter()
        .filter(|block| block.info.starts_with("toml"))
        .map(|block| block.lines.join("\n"))
        .collect();
    assert_eq!(plans.len(), 2);
    for plan in &plans {
        let value: Value = toml::from_str(plan).unwrap();
        assert_matches_schema(&value, "plan-file");
    }
}
