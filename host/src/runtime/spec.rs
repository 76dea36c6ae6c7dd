//! What to install, as the user writes it.

use std::fmt;
use std::str::FromStr;

use super::error::RuntimeError;

/// Packages that hold a library this tool can open.
pub const PACKAGES: &[&str] = &["onnxruntime"];

/// A package, and the version if it matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    package: String,
    version: Option<String>,
}

impl Spec {
    /// The newest version of a package.
    pub(super) fn any(package: &str) -> Self {
        Self {
            package: package.to_owned(),
            version: None,
        }
    }

    /// Name of the package.
    pub fn package(&self) -> &str {
        &self.package
    }

    /// The version asked for; none means the newest.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }
}

impl FromStr for Spec {
    type Err = RuntimeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (package, version) = match text.split_once("==") {
            Some((package, version)) => (package, Some(version)),
            None => (text, None),
        };
        if version.is_some_and(|version| !is_version(version)) || package.is_empty() {
            return Err(RuntimeError::Spec {
                text: text.to_owned(),
            });
        }
        if !PACKAGES.contains(&package) {
            let known = PACKAGES.join(", ");
            return Err(RuntimeError::UnknownRuntime {
                name: package.to_owned(),
                known,
            });
        }
        Ok(Self {
            package: package.to_owned(),
            version: version.map(str::to_owned),
        })
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.version {
            Some(version) => write!(f, "{}=={version}", self.package),
            None => f.write_str(&self.package),
        }
    }
}

/// A version is also the name of a folder and an argument of pip, so it is kept plain.
pub(super) fn is_version(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || ".+_-!".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_and_without_a_version_is_read_and_written() {
        for text in [
            "onnxruntime",
            "onnxruntime==1.32.0",
            "onnxruntime==1.25.0.dev20260417008",
        ] {
            assert_eq!(text.parse::<Spec>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn nothing_that_could_be_a_flag_or_a_path_passes() {
        for text in [
            "",
            "==1",
            "onnxruntime==",
            "onnxruntime==--pre",
            "onnxruntime==../x",
            "onnxruntime==..",
        ] {
            assert!(
                matches!(text.parse::<Spec>(), Err(RuntimeError::Spec { .. })),
                "{text}"
            );
        }
        for text in ["tensorrt", "onnxruntime>=1", "--pre", "Onnxruntime"] {
            assert!(
                matches!(
                    text.parse::<Spec>(),
                    Err(RuntimeError::UnknownRuntime { .. })
                ),
                "{text}"
            );
        }
    }
}
