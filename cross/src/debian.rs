//! A rustc with the std of another architecture, unpacked from Debian's packages.
//!
//! rustc and std must be of one build, and rustup may have no std for a target or no network for one.
//! Debian ships both. Nothing is installed: the packages are unpacked into the target folder, and rustc
//! finds its libraries there. The mirrors are those that this machine's apt uses.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::place::{self, run, text};
use crate::targets::Target;

/// Debian's rustc that keeps up with what web browsers need.
const COMPILER: &str = "rustc-web";

/// What of its dependencies is not on every Debian machine.
const OWN: [&str; 4] = ["libstd-rust-web", "libllvm", "libz3", "libedit"];

/// Whether packages can be had this way at all.
pub(crate) fn is_possible() -> bool {
    ["apt-get", "apt-cache", "dpkg", "dpkg-deb"]
        .iter()
        .all(|program| place::has(program))
}

/// A rustc that has the std of `target`, unpacked when it is not there.
pub(crate) fn rustc(target: &Target) -> Result<PathBuf> {
    let _one_at_a_time = place::lock("debian")?;
    let prefix = place::folder("debian/rust")?;
    let wrapper = prefix.join("rustc");
    if has_std(&wrapper, target) {
        return Ok(wrapper);
    }
    let apt = Apt::with(&target.debian)?;
    apt.unpack(&apt.packages(target)?, &prefix)?;
    write_wrapper(&wrapper, &prefix)?;
    ensure!(
        has_std(&wrapper, target),
        "Debian's rustc was unpacked into {} but does not know {}",
        prefix.display(),
        target.triple
    );
    Ok(wrapper)
}

/// Whether that rustc runs and has the std of the target.
pub(crate) fn has_std(rustc: &Path, target: &Target) -> bool {
    let mut command = Command::new(rustc);
    command.args(["--print", "target-libdir", "--target", &target.triple]);
    let Ok(folder) = text(&mut command) else {
        return false;
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names
        .into_iter()
        .any(|name| name.starts_with("libstd-") && name.ends_with(".rlib"))
}

/// rustc looks for its sysroot from its own place, but for its libraries where it is told.
fn write_wrapper(wrapper: &Path, prefix: &Path) -> Result<()> {
    let multiarch = format!("{}-linux-gnu", std::env::consts::ARCH);
    let lines = format!(
        "#!/bin/sh\nLD_LIBRARY_PATH={0}/usr/lib/{multiarch} exec {0}/usr/bin/rustc \"$@\"\n",
        prefix.display()
    );
    fs::write(wrapper, lines)?;
    fs::set_permissions(wrapper, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// An apt of its own: lists, cache and idea of what is installed lie in the target folder, so that other
/// architectures can be asked for without the machine's apt knowing of them.
pub(crate) struct Apt {
    folder: PathBuf,
    own: String,
}

impl Apt {
    pub(crate) fn with(architecture: &str) -> Result<Self> {
        let own = text(Command::new("dpkg").arg("--print-architecture"))?;
        let folder = place::folder(&format!("debian/apt-{architecture}"))?;
        for name in ["lists/partial", "cache/archives/partial", "debs"] {
            fs::create_dir_all(folder.join(name))?;
        }
        fs::write(folder.join("status"), "")?;
        fs::write(folder.join("sources.list"), sources()?)?;
        let apt = Self { folder, own };
        apt.configure(architecture)?;
        run(apt.command("apt-get").args(["-qq", "update"]))
            .context("Debian's list of packages cannot be fetched")?;
        Ok(apt)
    }

    fn configure(&self, architecture: &str) -> Result<()> {
        let at = self.folder.display();
        let own = &self.own;
        let text = format!(
            "Dir::State \"{at}\";\nDir::State::lists \"{at}/lists\";\nDir::State::status \"{at}/status\";\n\
             Dir::Cache \"{at}/cache\";\nDir::Etc::sourcelist \"{at}/sources.list\";\n\
             Dir::Etc::sourceparts \"-\";\nAPT::Architecture \"{own}\";\n\
             APT::Architectures {{ \"{own}\"; \"{architecture}\"; }};\nAcquire::Languages \"none\";\n\
             APT::Sandbox::User \"\";\n"
        );
        Ok(fs::write(self.folder.join("apt.conf"), text)?)
    }

    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env("APT_CONFIG", self.folder.join("apt.conf"))
            .env("LC_ALL", "C");
        command.current_dir(self.folder.join("debs"));
        command
    }

    /// The compiler, what it needs, and the std of this machine (for build scripts) and of the target.
    fn packages(&self, target: &Target) -> Result<Vec<String>> {
        let mut packages = BTreeSet::new();
        let mut open = vec![COMPILER.to_owned()];
        while let Some(package) = open.pop() {
            let listed = text(self.command("apt-cache").args(["depends", &package]))?;
            let needed = listed
                .lines()
                .filter_map(|line| line.trim().strip_prefix("Depends: "));
            let own = needed.filter(|name| OWN.iter().any(|prefix| name.starts_with(prefix)));
            open.extend(
                own.map(str::to_owned)
                    .filter(|name| !packages.contains(name)),
            );
            packages.insert(package);
        }
        ensure!(packages.len() > 1, "this Debian has no {COMPILER}");
        packages.insert(format!("libstd-rust-web-dev:{}", target.debian));
        Ok(packages.into_iter().collect())
    }

    /// Packages of an architecture with all that they need.
    pub(crate) fn closure(&self, packages: &[&str], architecture: &str) -> Result<Vec<String>> {
        let mut command = self.command("apt-cache");
        command.args(["depends", "--recurse", "--important"]);
        command.args(
            packages
                .iter()
                .map(|package| format!("{package}:{architecture}")),
        );
        let listed = text(&mut command)?;
        let suffix = format!(":{architecture}");
        let named = listed.lines().filter(|line| !line.starts_with([' ', '<']));
        // What installs and configures packages, which nothing here does.
        const NOT: [&str; 6] = [
            "debconf",
            "cdebconf",
            "dpkg:",
            "install-info",
            "libdebian-installer",
            "tar:",
        ];
        let is_wanted =
            |name: &&str| name.ends_with(&suffix) && !NOT.iter().any(|not| name.starts_with(not));
        Ok(named.filter(is_wanted).map(str::to_owned).collect())
    }

    /// Fetches packages in one go, for each start of apt costs seconds, and lays them out in a folder.
    pub(crate) fn unpack(&self, packages: &[String], into: &Path) -> Result<()> {
        let debs = self.folder.join("debs");
        fs::remove_dir_all(&debs)?;
        fs::create_dir_all(&debs)?;
        run(self
            .command("apt-get")
            .args(["-qq", "download"])
            .args(packages))
        .with_context(|| format!("cannot fetch Debian's {}", packages.join(", ")))?;
        for entry in fs::read_dir(&debs)? {
            let path = entry?.path();
            run(Command::new("dpkg-deb").arg("-x").arg(&path).arg(into))?;
            fs::remove_file(path)?;
        }
        Ok(())
    }
}

/// Debian's own mirrors among those that this machine uses; others need not have other architectures.
fn sources() -> Result<String> {
    let format = "$(REPO_URI)|$(CODENAME)|$(COMPONENT)|$(ORIGIN)";
    let mut command = Command::new("apt-get");
    command.args(["indextargets", "--format", format, "Created-By: Packages"]);
    let listed = text(&mut command)?;
    let keyring = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let mut sources = Vec::new();
    let mut seen = BTreeSet::new();
    for line in listed.lines() {
        let [uri, suite, component, "Debian"] = line.split('|').collect::<Vec<_>>()[..] else {
            continue;
        };
        if seen.insert(line) {
            writeln!(
                sources,
                "deb [signed-by={keyring}] {uri} {suite} {component}"
            )?;
        }
    }
    ensure!(
        !sources.is_empty(),
        "apt knows no Debian mirror; run `apt-get update` once"
    );
    Ok(String::from_utf8(sources)?)
}
