//! Reading `deny.toml`, the lists of what may be in our dependency trees.

use std::fs;

use anyhow::{Context as _, Result};
use toml::{Table, Value};

use crate::workspace;

/// The lists that the dependency tests hold. The file is cargo-deny's; other keys are its alone.
#[derive(Debug)]
pub struct Deny {
    /// Licences that any package may have.
    pub licences: Vec<String>,
    /// Packages that are refused.
    pub bans: Vec<Ban>,
}

/// A refused package.
#[derive(Debug)]
pub struct Ban {
    /// Its name.
    pub name: String,
    /// Who may depend on it nonetheless; nobody when empty. The agent's tree never holds it.
    pub wrappers: Vec<String>,
    /// Why it is refused.
    pub reason: String,
}

impl Deny {
    /// Reads the file of the workspace.
    pub fn read() -> Result<Self> {
        let text = fs::read_to_string(workspace::root().join("deny.toml"))?;
        Self::parse(&text).context("deny.toml")
    }

    fn parse(text: &str) -> Result<Self> {
        let file: Table = text.parse()?;
        let list = |section: &str, key: &str| {
            let value = file.get(section).and_then(|section| section.get(key));
            value
                .and_then(Value::as_array)
                .with_context(|| format!("no list {section}.{key}"))
        };
        Ok(Self {
            licences: strings(list("licenses", "allow")?),
            bans: list("bans", "deny")?
                .iter()
                .map(Ban::parse)
                .collect::<Result<_>>()?,
        })
    }
}

impl Ban {
    fn parse(entry: &Value) -> Result<Self> {
        let text = |key: &str| {
            let value = entry.get(key).and_then(Value::as_str).map(str::to_owned);
            value.with_context(|| format!("a ban without {key}: {entry}"))
        };
        let wrappers = entry.get("wrappers").and_then(Value::as_array);
        Ok(Self {
            name: text("crate")?,
            wrappers: wrappers.map(|list| strings(list)).unwrap_or_default(),
            reason: text("reason")?,
        })
    }
}

fn strings(list: &[Value]) -> Vec<String> {
    list.iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_and_bans_are_read() {
        let deny = Deny::parse(
            r#"
            licenses.allow = ["MIT"]
            bans.deny = [{ crate = "a", reason = "r" }, { crate = "b", wrappers = ["c"], reason = "r" }]
            "#,
        )
        .unwrap();
        assert_eq!(deny.licences, ["MIT"]);
        assert!(deny.bans[0].wrappers.is_empty());
        assert_eq!(deny.bans[1].wrappers, ["c"]);
    }

    #[test]
    fn a_ban_says_why() {
        assert!(Deny::parse("licenses.allow = []\nbans.deny = [{ crate = \"a\" }]").is_err());
    }
}
