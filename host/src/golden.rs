//! Checked-in files that a test makes again and compares; `EDGEDYNO_REWRITE=1` writes them instead.

use std::path::{Path, PathBuf};

pub(crate) fn path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(relative)
}

pub(crate) fn check(relative: &str, made: &str) {
    let path = path(relative);
    if std::env::var_os("EDGEDYNO_REWRITE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, made).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let first = kept.lines().zip(made.lines()).find(|(a, b)| a != b);
    assert!(
        kept == made,
        "{relative} is not what the program makes (first difference: {first:?}); \
         run the test with EDGEDYNO_REWRITE=1 and look at the change"
    );
}

/// The document fits `docs/schema/NAME.json`, and the schema refuses a document without its parts.
pub(crate) fn fits(name: &str, document: &serde_json::Value) {
    let text = std::fs::read_to_string(path(&format!("docs/schema/{name}.json"))).unwrap();
    let schema = serde_json::from_str(&text).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(document)
        .map(|error| format!("{error} at {}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{name}: {errors:#?}");
    assert!(
        !validator.is_valid(&serde_json::json!({})),
        "{name} takes anything"
    );
}
