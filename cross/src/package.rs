//! One archive for a board: the program, what starts it, what lets it in, and whose work it is made of.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use cargo_metadata::{DependencyKind, MetadataCommand, PackageId};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::build::Wish;
use crate::place;
use crate::targets::Target;

const UNIT: &str = include_str!("../../agent/packaging/edgedyno-agent.service");
const SYSTEM_UNIT: &str = include_str!("../../agent/packaging/edgedyno-agent@.service");
const PAGE: &str = include_str!("../../agent/packaging/edgedyno-agent.1");
const RULES: &str = include_str!("../../agent/packaging/70-edgedyno.rules");

/// Packs a built program; the archive's path.
pub(crate) fn package(target: &Target, wish: &Wish, program: &Path) -> Result<PathBuf> {
    let slim = if wish.slim { "-slim" } else { "" };
    let name = format!(
        "edgedyno-agent-{}-{}{slim}",
        env!("CARGO_PKG_VERSION"),
        target.name
    );
    let path = place::folder("packages")?.join(format!("{name}.tar.gz"));
    let unfinished = path.with_extension(format!("new-{}", std::process::id()));
    let file = File::create(&unfinished)?;
    let mut archive = tar::Builder::new(GzEncoder::new(file, Compression::best()));
    let program = fs::read(program)?;
    for (file, mode, bytes) in [
        ("edgedyno-agent", 0o755, program.as_slice()),
        ("edgedyno-agent.service", 0o644, UNIT.as_bytes()),
        ("edgedyno-agent@.service", 0o644, SYSTEM_UNIT.as_bytes()),
        ("70-edgedyno.rules", 0o644, RULES.as_bytes()),
        ("edgedyno-agent.1", 0o644, PAGE.as_bytes()),
        ("LICENCES.txt", 0o644, licences(target, wish)?.as_bytes()),
        (
            "BOARDS.txt",
            0o644,
            (target.boards.join("\n") + "\n").as_bytes(),
        ),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(mode);
        // The same program makes the same archive, whenever and wherever.
        header.set_mtime(0);
        archive.append_data(&mut header, format!("{name}/{file}"), bytes)?;
    }
    archive.into_inner()?.finish()?.sync_all()?;
    fs::rename(&unfinished, &path)?;
    Ok(path)
}

/// One line for each crate that is in the program: name, version, licence.
fn licences(target: &Target, wish: &Wish) -> Result<String> {
    let mut command = MetadataCommand::new();
    command.current_dir(place::root());
    let mut options = vec!["--locked".to_owned(), "--filter-platform".to_owned()];
    options.push(target.triple.clone());
    let metadata = command
        .other_options(options)
        .exec()
        .context("cargo metadata")?;
    let packages: BTreeMap<&PackageId, _> = metadata
        .packages
        .iter()
        .map(|package| (&package.id, package))
        .collect();
    let resolve = metadata
        .resolve
        .as_ref()
        .context("cargo resolved nothing")?;
    let nodes: BTreeMap<&PackageId, _> =
        resolve.nodes.iter().map(|node| (&node.id, node)).collect();
    let agent = metadata
        .packages
        .iter()
        .find(|package| package.name == "edgedyno-agent");
    let mut open = vec![&agent.context("the workspace has an agent")?.id];
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        let dependencies = nodes
            .get(id)
            .map(|node| node.deps.as_slice())
            .unwrap_or_default();
        for dependency in dependencies {
            let is_in = dependency
                .dep_kinds
                .iter()
                .any(|kind| kind.kind == DependencyKind::Normal);
            // What a slim agent leaves out is found by its name: cargo resolves all features at once.
            let name = packages
                .get(&dependency.pkg)
                .map(|package| package.name.as_str());
            let is_out =
                wish.slim && name.is_some_and(|name| name.starts_with("rten") || name == "rayon");
            if is_in && !is_out {
                open.push(&dependency.pkg);
            }
        }
    }
    let mut text = Vec::new();
    for package in seen.iter().filter_map(|id| packages.get(id)) {
        let licence = package.license.as_deref().unwrap_or("see its source");
        writeln!(text, "{} {} {licence}", package.name, package.version)?;
    }
    Ok(String::from_utf8(text)?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;
    use crate::targets;

    #[test]
    fn a_package_holds_the_program_and_all_that_goes_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("x");
        fs::write(&program, b"\x7fELF program").unwrap();
        let target = targets::find("riscv64").unwrap();
        let wish = Wish {
            slim: true,
            profile: "agent".into(),
        };
        let path = package(&target, &wish, &program).unwrap();
        let mut archive = tar::Archive::new(GzDecoder::new(File::open(&path).unwrap()));
        let mut names = BTreeSet::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().file_name().unwrap().to_owned();
            let name = name.into_string().unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            match name.as_str() {
                "edgedyno-agent" => {
                    assert_eq!(text.as_bytes(), b"\x7fELF program");
                    assert_eq!(entry.header().mode().unwrap(), 0o755);
                }
                "LICENCES.txt" => {
                    assert!(
                        text.contains("\nquinn ") && text.contains("Apache-2.0"),
                        "{text}"
                    );
                    assert!(
                        !text.contains("proptest"),
                        "a test's crate is not in the program"
                    );
                    assert!(
                        !text.contains("rten"),
                        "a slim agent has no runtime of its own"
                    );
                }
                _ => assert!(!text.is_empty(), "{name}"),
            }
            names.insert(name);
        }
        let all = [
            "70-edgedyno.rules",
            "BOARDS.txt",
            "LICENCES.txt",
            "edgedyno-agent",
            "edgedyno-agent.1",
            "edgedyno-agent.service",
            "edgedyno-agent@.service",
        ];
        assert_eq!(names.iter().map(String::as_str).collect::<Vec<_>>(), all);
        fs::remove_file(path).unwrap();
    }
}
