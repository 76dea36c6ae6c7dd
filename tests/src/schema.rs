//! Holding JSON output against the checked-in schemas, `docs/schema/NAME.json`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use jsonschema::{Draft, Registry};
use serde_json::{Value, json};

use crate::workspace;

/// Stands for the folder of schemas, so that they can refer to each other by file name.
const BASE: &str = "schema:///";

/// Holds `value` against the schema of that name: `assert_matches_schema(&output.json(), "run")`.
///
/// # Panics
/// When it does not match, with the path of each fault in the value.
#[track_caller]
pub fn assert_matches_schema(value: &Value, name: &str) {
    let folder = folder();
    match faults(value, &folder, name) {
        Ok(faults) if faults.is_empty() => {}
        Ok(faults) => panic!(
            "does not match {name}.json:\n  {}\n{value:#}",
            faults.join("\n  ")
        ),
        Err(error) => panic!("cannot use {}/{name}.json: {error:#}", folder.display()),
    }
}

/// The folder of the checked-in schemas.
pub fn folder() -> PathBuf {
    workspace::root().join("docs/schema")
}

/// What is wrong with a value, one line for each fault: where in the value, and what.
pub fn faults(value: &Value, folder: &Path, name: &str) -> Result<Vec<String>> {
    let mut registry = Registry::new().draft(Draft::Draft202012);
    let mut is_known = false;
    for entry in fs::read_dir(folder).with_context(|| format!("no folder {}", folder.display()))? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            let text = fs::read_to_string(&path)?;
            let schema: Value =
                serde_json::from_str(&text).with_context(|| path.display().to_string())?;
            let file = path
                .file_name()
                .context("a file has a name")?
                .to_string_lossy();
            is_known |= file == format!("{name}.json").as_str();
            registry = registry.add(format!("{BASE}{file}"), schema)?;
        }
    }
    anyhow::ensure!(is_known, "no such schema");
    let registry = registry.prepare()?;
    let validator = jsonschema::options()
        .with_draft(Draft::Draft202012)
        .with_registry(&registry)
        .offline()
        .build(&json!({ "$ref": format!("{BASE}{name}.json") }))
        .map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(validator
        .iter_errors(value)
        .map(|fault| format!("{}: {fault}", at(fault.instance_path().as_str())))
        .collect())
}

fn at(pointer: &str) -> &str {
    if pointer.is_empty() { "/" } else { pointer }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schemas() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let run = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": { "cases": { "type": "array", "items": { "$ref": "case.json" } } },
            "required": ["cases"],
        });
        let case = json!({ "type": "object", "properties": { "threads": { "type": "integer" } } });
        fs::write(folder.path().join("run.json"), run.to_string()).unwrap();
        fs::write(folder.path().join("case.json"), case.to_string()).unwrap();
        folder
    }

    #[test]
    fn a_matching_value_has_no_fault() {
        let value = json!({ "cases": [{ "threads": 2 }] });
        assert!(faults(&value, schemas().path(), "run").unwrap().is_empty());
    }

    #[test]
    fn every_fault_is_listed_with_its_place() {
        let value = json!({ "cases": [{ "threads": 2 }, { "threads": "two" }, 3] });
        let faults = faults(&value, schemas().path(), "run").unwrap();
        assert_eq!(faults.len(), 2);
        assert!(faults[0].starts_with("/cases/1/threads: "), "{faults:?}");
        assert!(faults[1].starts_with("/cases/2: "), "{faults:?}");
    }

    #[test]
    fn an_unknown_schema_is_an_error() {
        assert!(faults(&json!({}), schemas().path(), "sweep").is_err());
    }

    #[test]
    fn every_checked_in_schema_can_be_used() {
        let Ok(entries) = fs::read_dir(folder()) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some(name) = name.strip_suffix(".json") {
                faults(&json!({}), &folder(), name).unwrap();
            }
        }
    }
}
