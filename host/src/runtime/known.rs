//! The published builds this tool has seen.

use super::error::RuntimeError;
use crate::model::digest::Digest;

/// What the table says about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judgement {
    Published,
    /// No row: another package, version or architecture.
    Unlisted,
}

/// Compares a file of a package with the published one.
pub(super) fn judge(
    package: &str,
    version: &str,
    architecture: &str,
    file: &str,
    found: Digest,
) -> Result<Judgement, RuntimeError> {
    let row = FILES
        .iter()
        .find(|row| (PACKAGE, row.0, row.1, row.2) == (package, version, architecture, file));
    match row {
        None => Ok(Judgement::Unlisted),
        Some(row) if found.to_string() == row.3 => Ok(Judgement::Published),
        Some(row) => Err(RuntimeError::Mismatch {
            package: package.to_owned(),
            version: version.to_owned(),
            file: file.to_owned(),
            found,
            published: row.3,
        }),
    }
}

/// Whether any published library has these bytes, for a file that came without a package.
pub(super) fn is_published(found: Digest) -> bool {
    let found = found.to_string();
    FILES.iter().any(|row| row.3 == found)
}

const PACKAGE: &str = "onnxruntime";

/// Version, architecture, file, sha256; from the wheels themselves, downloaded on 2026-11-29. The
/// wheels of one version for CPython 3.11 to 3.14 hold the same libraries (checked for the two newest).
const FILES: &[(&str, &str, &str, &str)] = &[
    (
        "1.32.0",
        "x86_64",
        "libonnxruntime.so.1.32.0",
        "6c1585d1bbf45b0712ea4a21b705c5fcb4ba04ff2e30f1fbf81a49faf658638f",
    ),
    (
        "1.32.0",
        "x86_64",
        "libonnxruntime_providers_shared.so",
        "8ef51f6bf2c621fc129f625b22241fa6f9a5870bc08eaf2fdd279169ec40d09a",
    ),
    (
        "1.32.0",
        "aarch64",
        "libonnxruntime.so.1.32.0",
        "49852228a93995158b2a813d4df487d47a1b76b0eaa894507ef49e91b6d7954a",
    ),
    (
        "1.32.0",
        "aarch64",
        "libonnxruntime_providers_shared.so",
        "f91fa2b0a2b8dba9cbc319254d342fa8201fd94b5912b9ce717f82e2207ee3d5",
    ),
    (
        "1.31.1",
        "x86_64",
        "libonnxruntime.so.1.31.1",
        "fc44112fbe06d7d689c57e11d3862031f64711007e4ee020f8eed5185fd2c1d3",
    ),
    (
        "1.31.1",
        "x86_64",
        "libonnxruntime_providers_shared.so",
        "086ec1d5388f64153d9c63470d126693db9a182c8ce236d3a1119068471b8a0d",
    ),
    (
        "1.31.1",
        "aarch64",
        "libonnxruntime.so.1.31.1",
        "8aa3b76b28c778a2b1dd660d34161adb1d508c9ccd04ff9dc80e26eca5df8467",
    ),
    (
        "1.31.1",
        "aarch64",
        "libonnxruntime_providers_shared.so",
        "3b6be288fbfb7dff8770d08a23defdde18e8f7e0f5a2b344a0e5e238c999ea88",
    ),
    (
        "1.30.0",
        "x86_64",
        "libonnxruntime.so.1.30.0",
        "c902c70b3003c0e99fada202f37478c515ae9bba7944c2b2abd0017bae0c82ed",
    ),
    (
        "1.30.0",
        "x86_64",
        "libonnxruntime_providers_shared.so",
        "086ec1d5388f64153d9c63470d126693db9a182c8ce236d3a1119068471b8a0d",
    ),
    (
        "1.30.0",
        "aarch64",
        "libonnxruntime.so.1.30.0",
        "8a218e1e446880131115c368ec7005969a5022af9a15a26173de648fef0b7789",
    ),
    (
        "1.30.0",
        "aarch64",
        "libonnxruntime_providers_shared.so",
        "3b6be288fbfb7dff8770d08a23defdde18e8f7e0f5a2b344a0e5e238c999ea88",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_row_is_a_digest_and_stands_once() {
        let mut keys = HashSet::new();
        for row in FILES {
            assert!(row.3.parse::<Digest>().is_ok(), "{row:?}");
            assert!(keys.insert((row.0, row.1, row.2)), "{row:?}");
        }
    }

    #[test]
    fn a_file_is_published_unlisted_or_an_error() {
        let row = FILES[0];
        let digest: Digest = row.3.parse().unwrap();
        let judge = |version, found| judge(PACKAGE, version, row.1, row.2, found);
        assert_eq!(judge(row.0, digest).unwrap(), Judgement::Published);
        assert_eq!(judge("0.0.1", digest).unwrap(), Judgement::Unlisted);
        let error = judge(row.0, Digest::of(b"other")).unwrap_err();
        assert!(matches!(error, RuntimeError::Mismatch { .. }));
        assert!(is_published(digest) && !is_published(Digest::of(b"other")));
    }
}
