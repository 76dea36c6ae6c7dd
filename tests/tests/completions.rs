//! Completions and manual pages as shells and `man` take them.

use std::process::Command;

use edgedyno_tests::Sandbox;
use edgedyno_tests::schema::assert_matches_schema;
use edgedyno_tests::skip::{Need, skip};

/// What bash offers after these words, once it has read our completions.
fn offered(sandbox: &Sandbox, words: &[&str]) -> Vec<String> {
    let script = sandbox.edgedyno(["completions", "bash"]).ok().stdout;
    let path = sandbox.work().join("completions.bash");
    std::fs::write(&path, script).unwrap();
    let line = words.join(" ");
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    // As readline calls it: the words, the one at the cursor, and the function's arguments.
    let ask = format!(
        "set -eu; source '{}'; COMP_WORDS=({}); COMP_CWORD={}; COMP_LINE='{line}'; COMP_POINT={}; \
         _edgedyno edgedyno '{}' '{}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        path.display(),
        quoted.join(" "),
        words.len() - 1,
        line.len(),
        words[words.len() - 1],
        words
            .len()
            .checked_sub(2)
            .map_or("", |before| words[before]),
    );
    let output = Command::new("bash")
        .args(["--norc", "--noprofile", "-c", &ask])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(str::to_owned)
        .collect()
}

#[test]
fn bash_completes_commands_flags_and_values() {
    if Command::new("bash").arg("--version").output().is_err() {
        skip(Need::Program("bash"), "bash");
        return;
    }
    let sandbox = Sandbox::new();
    let commands = offered(&sandbox, &["edgedyno", "su"]);
    assert_eq!(commands, ["summary"]);
    let nested = offered(&sandbox, &["edgedyno", "runs", "pu"]);
    assert_eq!(nested, ["push", "pull"]);
    let flags = offered(&sandbox, &["edgedyno", "export", "--bun"]);
    assert_eq!(flags, ["--bundle"]);
    let values = offered(&sandbox, &["edgedyno", "export", "last", "--with", "m"]);
    assert_eq!(values, ["models"]);
}

#[test]
fn every_shell_has_completions() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = sandbox.edgedyno(["completions", shell]).ok().stdout;
        assert!(
            script.contains("edgedyno") && script.contains("summary"),
            "{shell}"
        );
        let document = sandbox
            .edgedyno(["completions", shell, "--json"])
            .ok()
            .json();
        assert_matches_schema(&document, "completions");
        assert_eq!(document["script"], script, "{shell}");
    }
    let unknown = sandbox.edgedyno(["completions", "tcsh"]).expect_code(2);
    assert!(unknown.stderr.contains("powershell"), "{}", unknown.stderr);
}

#[test]
fn manual_pages_are_written_and_can_be_read() {
    let sandbox = Sandbox::new();
    let document = sandbox.edgedyno(["man", "pages", "--json"]).ok().json();
    assert_matches_schema(&document, "man");
    let files = document["files"].as_array().unwrap();
    assert!(files.len() > 30, "{} pages", files.len());
    for file in files {
        let path = sandbox
            .work()
            .join("pages")
            .join(file["name"].as_str().unwrap());
        assert_eq!(
            std::fs::metadata(&path).unwrap().len(),
            file["bytes"].as_u64().unwrap()
        );
        // groff says what it cannot read; where there is none, form was looked at in a unit test.
        if let Ok(shown) = Command::new("groff")
            .args(["-man", "-Tascii", "-ww"])
            .arg(&path)
            .output()
        {
            assert!(
                shown.stderr.is_empty(),
                "{}: {}",
                path.display(),
                String::from_utf8_lossy(&shown.stderr)
            );
        }
    }
    let nowhere = sandbox.write("file", "");
    let refused = sandbox.edgedyno(["man", nowhere.to_str().unwrap()]);
    assert!(refused.expect_code(2).stderr.contains("cannot be written"));
}
