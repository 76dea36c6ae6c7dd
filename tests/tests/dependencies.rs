//! What our crates may depend on: licences, sources, banned packages, direction, and where the few
//! dangerous words may stand. The lists are in `deny.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;

use cargo_metadata::{Package, PackageId};
use edgedyno_tests::deny::Deny;
use edgedyno_tests::source::{has_word, rust_files};
use edgedyno_tests::spdx::Licence;
use edgedyno_tests::workspace;

/// Who may depend on which of ours, in any way. Everything not named here is refused.
const MAY_USE: &[(&str, &[&str])] = &[
    ("edgedyno-shared", &[]),
    ("edgedyno-sys", &[]),
    ("edgedyno-agent", &["edgedyno-shared", "edgedyno-sys"]),
    ("edgedyno", &["edgedyno-shared", "edgedyno-agent"]),
    ("edgedyno-cross", &["edgedyno-sys"]),
    (
        "edgedyno-tests",
        // The last for the bare loop that a benchmark compares with.
        &[
            "edgedyno-shared",
            "edgedyno-agent",
            "edgedyno",
            "edgedyno-sys",
        ],
    ),
];

/// The only crate with unsafe code, its tests included.
const UNSAFE_FOLDER: &str = "agent/sys";

#[test]
fn every_package_has_an_allowed_licence() {
    let deny = Deny::read().unwrap();
    let faults: Vec<String> = packages()
        .filter(|package| {
            let licence = package
                .license
                .as_deref()
                .and_then(|text| Licence::parse(text).ok());
            let is_listed = |name: &str| deny.licences.iter().any(|allowed| allowed == name);
            !licence.is_some_and(|licence| licence.is_allowed(&is_listed))
        })
        .map(|package| {
            format!(
                "{} {}: {:?}",
                package.name, package.version, package.license
            )
        })
        .collect();
    assert!(
        faults.is_empty(),
        "not allowed by deny.toml:\n{}",
        faults.join("\n")
    );
}

#[test]
fn every_package_comes_from_the_registry_or_the_workspace() {
    let strangers: Vec<&str> = packages()
        .filter(|package| match &package.source {
            Some(source) => !source.is_crates_io(),
            None => !workspace::metadata()
                .workspace_members
                .contains(&package.id),
        })
        .map(|package| package.name.as_str())
        .collect();
    assert!(strangers.is_empty(), "from elsewhere: {strangers:?}");
}

#[test]
fn a_banned_package_is_used_only_by_those_who_may() {
    let metadata = workspace::metadata();
    let names: BTreeMap<&PackageId, &str> = packages()
        .map(|package| (&package.id, package.name.as_str()))
        .collect();
    let resolve = metadata.resolve.as_ref().unwrap();
    let mut faults = Vec::new();
    for ban in Deny::read().unwrap().bans {
        for node in &resolve.nodes {
            let user = names[&node.id];
            let uses = node
                .deps
                .iter()
                .any(|dependency| names[&dependency.pkg] == ban.name);
            if uses && !ban.wrappers.iter().any(|wrapper| wrapper == user) {
                faults.push(format!("{user} uses {}: {}", ban.name, ban.reason));
            }
        }
    }
    assert!(
        faults.is_empty(),
        "banned by deny.toml:\n{}",
        faults.join("\n")
    );
}

#[test]
fn the_agent_is_free_of_everything_banned() {
    let tree = agent_tree();
    assert!(
        tree.contains("rten") && tree.contains("edgedyno-shared"),
        "not a tree: {tree:?}"
    );
    let faults: Vec<String> = (Deny::read().unwrap().bans.iter())
        .filter(|ban| tree.contains(&ban.name))
        .map(|ban| format!("{}: {}", ban.name, ban.reason))
        .collect();
    assert!(
        faults.is_empty(),
        "in the agent's tree:\n{}",
        faults.join("\n")
    );
}

#[test]
fn our_crates_depend_in_one_direction() {
    let ours = workspace::metadata().workspace_packages();
    for package in &ours {
        let (_, may_use) = MAY_USE
            .iter()
            .find(|(name, _)| package.name == *name)
            .unwrap_or_else(|| panic!("{} is not in MAY_USE", package.name));
        for dependency in &package.dependencies {
            let is_ours = ours.iter().any(|other| other.name == dependency.name);
            let is_free = !is_ours || may_use.contains(&dependency.name.as_str());
            assert!(is_free, "{} must not use {}", package.name, dependency.name);
        }
    }
}

#[test]
fn the_host_touches_the_agent_library_in_one_file_only() {
    let users: Vec<String> = rust_files(&workspace::root().join("host/src"))
        .iter()
        .filter(|file| has_word(&read(file), "edgedyno_agent"))
        .map(|file| relative(file))
        .collect();
    assert!(users.len() <= 1, "the agent library is used in {users:?}");
}

#[test]
fn unsafe_code_stays_in_its_crate() {
    let allowed = workspace::root().join(UNSAFE_FOLDER);
    let strays: Vec<String> = ["shared", "agent", "host", "cross", "tests"]
        .iter()
        .flat_map(|folder| rust_files(&workspace::root().join(folder)))
        .filter(|file| !file.starts_with(&allowed) && has_word(&read(file), "unsafe"))
        .map(|file| relative(&file))
        .collect();
    assert!(
        strays.is_empty(),
        "unsafe outside {UNSAFE_FOLDER}: {strays:?}"
    );
}

/// Not a rule: two versions of a small crate are no reason to hold a change, but somebody should see.
#[test]
fn packages_in_several_versions_are_printed() {
    let mut versions: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for package in packages() {
        versions
            .entry(package.name.as_str())
            .or_default()
            .insert(package.version.to_string());
    }
    versions.retain(|_, versions| versions.len() > 1);
    // Past the capture of the test runner, which hides what a passing test prints.
    writeln!(std::io::stderr(), "in several versions: {versions:?}").unwrap();
}

fn packages() -> impl Iterator<Item = &'static Package> {
    workspace::metadata().packages.iter()
}

/// Names of all that is compiled into the agent for any system. From `cargo tree` and not from the
/// metadata: there, features that only the host or a test asks for are switched on as well.
fn agent_tree() -> BTreeSet<String> {
    // The metadata come first: they fetch what is missing.
    workspace::metadata();
    let output = workspace::cargo()
        .args([
            "tree",
            "--locked",
            "--offline",
            "-p",
            "edgedyno-agent",
            "--features",
            "builtin",
        ])
        .args([
            "--edges", "normal", "--target", "all", "--prefix", "none", "--format", "{p}",
        ])
        .output()
        .expect("cargo starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).expect("a source file is text")
}

fn relative(file: &Path) -> String {
    file.strip_prefix(workspace::root())
        .unwrap_or(file)
        .display()
        .to_string()
}
