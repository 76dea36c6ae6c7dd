//! Units of systemd that the agent comes with, as systemd itself reads them.

use std::path::Path;
use std::process::Command;

use edgedyno_tests::skip::has;
use edgedyno_tests::{Need, workspace};

/// `systemd-analyze verify` of a unit whose program is one that every machine has.
fn verify(name: &str, text: &str) {
    if !has(&[Need::Program("systemd-analyze")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    let output = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(&path)
        .env("SYSTEMD_LOG_LEVEL", "warning")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // It looks at units of the machine beside this one, and finds fault with those too.
    let own: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("edgedyno"))
        .collect();
    assert!(own.is_empty(), "{name}: {said}");
    assert!(
        output.status.success() || !said.contains("edgedyno"),
        "{name}: {said}"
    );
}

fn packaged(name: &str) -> String {
    let path = workspace::root().join("agent/packaging").join(name);
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_unit_of_board_add_is_one_for_systemd() {
    let unit = packaged("edgedyno-agent.service");
    for (words, target) in [
        ("", "default.target"),
        ("--listen 0.0.0.0:7447 --run-as root", "multi-user.target"),
    ] {
        let unit = unit
            .replace("@ENVIRONMENT@", "Environment=HOME=/root")
            .replace("@PROGRAM@", "/bin/true")
            .replace("@ARGUMENTS@", words)
            .replace("@TARGET@", target);
        let lines = unit.lines().filter(|line| !line.starts_with('#'));
        assert!(!lines.collect::<String>().contains('@'), "{unit}");
        verify("edgedyno-agent.service", &unit);
    }
}

#[test]
fn the_unit_for_an_ordinary_user_is_one_for_systemd_and_names_the_rights_it_needs() {
    let unit = packaged("edgedyno-agent@.service");
    let rights = unit
        .lines()
        .find(|line| line.starts_with("CapabilityBoundingSet="));
    let rights: Vec<&str> = rights.unwrap().split(['=', ' ']).skip(1).collect();
    assert!(rights.contains(&"CAP_SETUID") && rights.contains(&"CAP_PERFMON"));
    assert!(
        !rights.contains(&"CAP_DAC_OVERRIDE"),
        "nothing else is written"
    );
    let unit = unit.replace("/usr/local/bin/edgedyno-agent", "/bin/true");
    verify("edgedyno-agent@nobody.service", &unit);
    assert!(Path::new("/bin/true").exists());
}
