//! The fragments of the changelog have a form that a release can collect.

use edgedyno_tests::workspace;

const KINDS: [&str; 4] = ["added-", "changed-", "fixed-", "removed-"];

#[test]
fn every_fragment_is_one_sentence_under_a_known_name() {
    for entry in std::fs::read_dir(workspace::root().join("changes")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name == "README.md" {
            continue;
        }
        let is_known = KINDS.iter().any(|kind| name.starts_with(kind)) && name.ends_with(".md");
        assert!(
            is_known,
            "{name}: not KIND-SUBJECT.md, see changes/README.md"
        );
        let text = std::fs::read_to_string(&path).unwrap();
        let is_sentence = text.starts_with(|first: char| first.is_uppercase() || first == '`')
            && text.ends_with(".\n")
            && text.lines().all(|line| !line.trim().is_empty());
        assert!(
            is_sentence,
            "{name}: not one sentence with a capital and a full stop"
        );
    }
}
