//! Contents that travel: a file, or a model with the files it refers to, each by its SHA-256.

use std::path::{Component, Path};

use ring::digest;
use serde::{Deserialize, Serialize};

use crate::ids::Sha256;

/// Files of one content at most.
pub const MOST_FILES: usize = 1024;

/// What the first file of a bundle is called in its manifest, so that renaming a model changes nothing.
pub const SELF_NAME: &str = ".";

/// A content as a host offers it to an agent that cannot see the host's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentOffer {
    /// What orders call it: the hash of its only file, or of the bundle's manifest.
    pub sha256: Sha256,
    /// The content's own file first; then those it refers to, by the name it uses.
    pub files: Vec<OfferedFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedFile {
    pub name: String,
    pub sha256: Sha256,
    pub bytes: u64,
}

/// Why an offer is refused whoever makes it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadOffer {
    #[error("a content has 1 to {MOST_FILES} files, not {0}")]
    Count(usize),
    #[error("the name `{0}` could lead out of the content's folder")]
    Name(String),
    #[error("the name `{0}` stands twice")]
    Twice(String),
    #[error("the file `{0}` is said to be empty, and its hash is not that of nothing")]
    Empty(String),
    #[error("the content's hash is not that of its files")]
    Hash,
}

impl ContentOffer {
    /// Checks names and hash. The first file's own name is for people only and becomes no path.
    pub fn check(&self) -> Result<(), BadOffer> {
        let [_, rest @ ..] = self.files.as_slice() else {
            return Err(BadOffer::Count(0));
        };
        if self.files.len() > MOST_FILES {
            return Err(BadOffer::Count(self.files.len()));
        }
        let mut names: Vec<&str> = rest.iter().map(|file| file.name.as_str()).collect();
        if let Some(bad) = names.iter().find(|name| !is_inside(name)) {
            return Err(BadOffer::Name(bad.chars().take(80).collect()));
        }
        let nothing = digest::digest(&digest::SHA256, &[]);
        let is_false = |file: &&OfferedFile| file.bytes == 0 && file.sha256.0 != *nothing.as_ref();
        if let Some(bad) = self.files.iter().find(is_false) {
            return Err(BadOffer::Empty(bad.name.chars().take(80).collect()));
        }
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(BadOffer::Twice(twice[0].to_owned()));
        }
        if self.sha256 != content_hash(&self.files) {
            return Err(BadOffer::Hash);
        }
        Ok(())
    }
}

/// The hash of a content: that of its only file, or of a manifest with a line `<sha256>  <name>` for each
/// file, sorted by name, the content's own file under the name `.`; `sha256sum` prints the same lines.
pub fn content_hash(files: &[OfferedFile]) -> Sha256 {
    if let [only] = files {
        return only.sha256;
    }
    let named = files.iter().enumerate();
    let named = named.map(|(index, file)| match index {
        0 => (SELF_NAME, file.sha256),
        _ => (file.name.as_str(), file.sha256),
    });
    let mut named: Vec<(&str, Sha256)> = named.collect();
    named.sort_unstable();
    let lines = named
        .into_iter()
        .map(|(name, sha256)| format!("{sha256}  {name}\n"));
    let hash = digest::digest(&digest::SHA256, lines.collect::<String>().as_bytes());
    Sha256(std::array::from_fn(|at| hash.as_ref()[at]))
}

/// Whether a name stays inside the folder it is used in, and can be a file name everywhere.
pub fn is_inside(name: &str) -> bool {
    let parts: Vec<&str> = name.split('/').collect();
    let is_plain = |part: &&str| {
        !matches!(*part, "" | "." | "..")
            && part.len() <= 255
            && !part.chars().any(|c| c.is_control() || c == '\\')
    };
    name.len() <= 1024 && parts.len() <= 8 && parts.iter().all(is_plain)
}

/// Whether a model may have data in the file of that name: it must be below the model's folder.
///
/// # Errors
/// What is wrong with it.
pub fn check_location(location: &str) -> Result<(), &'static str> {
    if location.is_empty() {
        return Err("is empty");
    }
    if location.chars().any(|c| c.is_control() || c == '\\') {
        return Err("has a control character or a backslash");
    }
    let mut has_name = false;
    for component in Path::new(location).components() {
        match component {
            Component::Normal(_) => has_name = true,
            Component::CurDir => {}
            Component::ParentDir => return Err("leaves the folder of the model"),
            Component::RootDir | Component::Prefix(_) => return Err("is an absolute path"),
        }
    }
    if has_name {
        Ok(())
    } else {
        Err("names no file")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(name: &str, sha256: u8) -> OfferedFile {
        OfferedFile {
            name: name.into(),
            sha256: Sha256([sha256; 32]),
            bytes: 1,
        }
    }

    fn offer(files: Vec<OfferedFile>) -> ContentOffer {
        let sha256 = content_hash(&files);
        ContentOffer { sha256, files }
    }

    #[test]
    fn the_manifest_is_that_of_sha256sum() {
        let files = [file("m.onnx", 0x11), file("w/b", 0x33), file("a", 0x22)];
        // printf '1111…  .\n2222…  a\n3333…  w/b\n' | sha256sum
        let text = format!(
            "{}  .\n{}  a\n{}  w/b\n",
            "11".repeat(32),
            "22".repeat(32),
            "33".repeat(32)
        );
        let expected = digest::digest(&digest::SHA256, text.as_bytes());
        assert_eq!(content_hash(&files).0, expected.as_ref());
        assert_eq!(content_hash(&files[..1]), Sha256([0x11; 32]));
    }

    #[test]
    fn offers_are_checked() {
        assert_eq!(offer(vec![file("../m", 1)]).check(), Ok(()));
        assert_eq!(offer(vec![file("m", 1), file("w/b", 2)]).check(), Ok(()));
        assert_eq!(offer(vec![]).check(), Err(BadOffer::Count(0)));
        let twice = offer(vec![file("m", 1), file("w", 2), file("w", 3)]);
        assert_eq!(twice.check(), Err(BadOffer::Twice("w".into())));
        let mut changed = offer(vec![file("m", 1), file("w", 2)]);
        changed.files[1].sha256 = Sha256([9; 32]);
        assert_eq!(changed.check(), Err(BadOffer::Hash));
    }

    #[test]
    fn names_that_lead_out_are_refused() {
        let long = "a".repeat(256);
        let deep = "a/".repeat(8) + "a";
        for name in [
            "",
            ".",
            "..",
            "/etc/passwd",
            "a/../b",
            "a//b",
            "a/",
            "a\0",
            "a\nb",
            "..\\x",
            &long,
            &deep,
        ] {
            let bad = offer(vec![file("m", 1), file(name, 2)]);
            assert!(matches!(bad.check(), Err(BadOffer::Name(_))), "{name:?}");
        }
    }

    proptest! {
        #[test]
        fn an_accepted_name_is_made_of_plain_parts(name in "[a./\\\\ \u{0}]{0,12}") {
            if is_inside(&name) {
                let plain = Path::new(&name).components().all(|c| matches!(c, Component::Normal(_)));
                prop_assert!(plain && !Path::new(&name).is_absolute());
            }
        }
    }
}
