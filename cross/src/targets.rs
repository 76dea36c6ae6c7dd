//! Which targets the agent is built for: `targets.toml`.

use anyhow::{Context as _, Result, anyhow};
use serde::Deserialize;

const TEXT: &str = include_str!("../targets.toml");

/// One row of `targets.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) arch: String,
    pub(crate) triple: String,
    pub(crate) floor: String,
    pub(crate) debian: String,
    pub(crate) gcc: String,
    pub(crate) boards: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    target: Vec<Target>,
}

/// All of them.
pub(crate) fn all() -> Result<Vec<Target>> {
    let file: File = toml::from_str(TEXT).context("cross/targets.toml")?;
    Ok(file.target)
}

/// The one of that name.
pub(crate) fn find(name: &str) -> Result<Target> {
    let all = all()?;
    let names: Vec<&str> = all.iter().map(|target| target.name.as_str()).collect();
    let unknown = anyhow!(
        "there is no target `{name}`; there are {}",
        names.join(", ")
    );
    let found = all.iter().find(|target| target.name == name).cloned();
    found.ok_or(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_names_its_boards_and_what_builds_it() {
        let all = all().unwrap();
        let mut names: Vec<&str> = all.iter().map(|target| target.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len(), "a name is given twice");
        for target in &all {
            assert!(!target.boards.is_empty(), "{}", target.name);
            assert!(target.triple.contains("-linux-gnu"), "{}", target.triple);
            assert!(target.floor.starts_with("2."), "{}", target.floor);
        }
    }

    #[test]
    fn an_unknown_name_is_told_with_those_that_there_are() {
        let why = find("arm64").unwrap_err().to_string();
        assert!(why.contains("arm64") && why.contains("aarch64"), "{why}");
    }
}
