//! The first member of a bundle: what is in it, and what is not.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::strip::LeftOut;

/// Names the form of a bundle; a later form that this version cannot read has another number.
pub const DOCUMENT: &str = "edgedyno/bundle/1";

/// The name of this member.
pub(super) const NAME: &str = "manifest.json";

/// The report, which nobody needs to read the bundle.
pub(super) const REPORT: &str = "report.html";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub document: String,
    /// Layout of the store whose rows these are.
    pub layout: i64,
    pub tool_version: String,
    pub run: String,
    /// The store it was measured into, as it names itself.
    pub store: String,
    /// Private facts are in it.
    pub private: bool,
    /// Kinds of content that were asked for beside the usual.
    pub with: Vec<String>,
    /// Places that something was left out of, and what was not asked for.
    pub left_out: Vec<Value>,
    pub members: Vec<Member>,
}

/// A file of the bundle, in the order in which they follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub name: String,
    pub bytes: u64,
    pub sha256: String,
}

impl LeftOut {
    pub(super) fn to_json(&self) -> Value {
        json!({ "at": self.at, "what": self.what, "count": self.count })
    }
}

/// A name that can lead nowhere: parts of plain letters, at most 99 bytes in all.
pub(super) fn is_safe(name: &str) -> bool {
    let plain = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b))
    };
    name.len() < 100 && name.split('/').all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_safe() {
        for good in [
            "manifest.json",
            "repeats/000012.json",
            "contents/ab-1.000.bin",
        ] {
            assert!(is_safe(good), "{good}");
        }
        let long = "a".repeat(100);
        for bad in [
            "",
            "/etc/passwd",
            "../x",
            "a/../b",
            "a//b",
            "a/",
            ".hidden",
            "A",
            "a\\b",
            "a\0",
            "c:x",
            &long,
        ] {
            assert!(!is_safe(bad), "{bad}");
        }
    }
}
