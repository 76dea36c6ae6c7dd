//! Where the tests stand: the checkout, the build folder, and the cargo that built them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context as _, Result, bail};
use cargo_metadata::{Metadata, MetadataCommand};

/// The folder of the workspace's `Cargo.toml`.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests crate lies one folder below the workspace")
}

/// How the running test was built, read off its own path: `TARGET[/TRIPLE]/PROFILE/deps/NAME`.
#[derive(Debug)]
pub struct Build {
    /// The build folder.
    pub target: PathBuf,
    /// The triple, when one was named on the command line.
    pub triple: Option<String>,
    /// The profile, by the name cargo takes.
    pub profile: String,
}

/// The build that the running test belongs to.
pub fn build() -> &'static Build {
    static BUILD: OnceLock<Build> = OnceLock::new();
    BUILD.get_or_init(|| {
        let exe = std::env::current_exe().expect("a running program has a path");
        Build::of(&exe).expect("tests run where cargo built them")
    })
}

impl Build {
    fn of(exe: &Path) -> Result<Self> {
        // Cargo marks its build folder with this file (a convention for backup tools).
        let target = exe
            .ancestors()
            .find(|folder| folder.join("CACHEDIR.TAG").is_file())
            .with_context(|| format!("no build folder of cargo above {}", exe.display()))?;
        let inner: Vec<String> = exe
            .strip_prefix(target)?
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        let (triple, profile) = match inner.as_slice() {
            [profile, deps, _] if deps == "deps" => (None, profile),
            [triple, profile, deps, _] if deps == "deps" => (Some(triple.clone()), profile),
            _ => bail!("{} is not where cargo puts tests", exe.display()),
        };
        Ok(Self {
            target: target.to_path_buf(),
            triple,
            // The dev profile is the one whose folder has another name.
            profile: if profile == "debug" { "dev" } else { profile }.to_owned(),
        })
    }
}

/// The cargo that runs the tests.
pub fn cargo_program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// A cargo command in the workspace.
pub fn cargo() -> Command {
    let mut command = Command::new(cargo_program());
    command
        .current_dir(root())
        .stdin(std::process::Stdio::null());
    // A test runs with its own package's variables. A build script that asks to run again when they
    // change (ring's does) would be built anew, with all above it, here and then again outside.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// The dependency graph of the lock file, for all systems at once.
pub fn metadata() -> &'static Metadata {
    static METADATA: OnceLock<Metadata> = OnceLock::new();
    METADATA.get_or_init(|| {
        // Needs every package in the lock file, other systems' too. A build fetches only its own, so
        // the first try fails on a machine that never ran `cargo fetch`.
        read_metadata(&["--locked", "--offline"])
            .or_else(|_| read_metadata(&["--locked"]))
            .expect("cargo metadata reads the lock file")
    })
}

fn read_metadata(flags: &[&str]) -> cargo_metadata::Result<Metadata> {
    MetadataCommand::new()
        .cargo_path(cargo_program())
        .current_dir(root())
        .other_options(
            flags
                .iter()
                .map(|flag| (*flag).to_owned())
                .collect::<Vec<_>>(),
        )
        .exec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_is_read_off_the_path_of_the_test() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("CACHEDIR.TAG"), "").unwrap();

        let plain = Build::of(&folder.path().join("debug/deps/run-0123")).unwrap();
        assert_eq!((plain.triple, plain.profile.as_str()), (None, "dev"));

        let cross = Build::of(
            &folder
                .path()
                .join("aarch64-unknown-linux-gnu/release/deps/run-0"),
        )
        .unwrap();
        assert_eq!(cross.triple.as_deref(), Some("aarch64-unknown-linux-gnu"));
        assert_eq!(cross.profile, "release");

        assert!(Build::of(&folder.path().join("run")).is_err());
    }
}
