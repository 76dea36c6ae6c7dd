//! Text about runtimes: what a board has, and what was installed.

use super::table::Table;
use super::units;
use crate::board::local::there;
use crate::runtime::cache::Installed;
use crate::runtime::listing::{BackendListing, Choice, Library, Listing, Verdict};

/// Digits of a hash that are enough to tell two files apart by eye.
const SHORT_HASH: usize = 12;

/// Everything `runtime list` says.
pub fn listing(listing: &Listing) -> String {
    let mut parts = vec![backends(listing)];
    for backend in &listing.backends {
        parts.extend(
            backend
                .libraries
                .iter()
                .map(|found| library(backend, found)),
        );
    }
    for broken in &listing.broken {
        parts.push(format!(
            "broken installation: {}\n  cause: {}\n  hint: install that version again, or delete the folder",
            broken.folder, broken.reason
        ));
    }
    parts.push(default(listing));
    parts.join("\n\n")
}

fn backends(listing: &Listing) -> String {
    let mut table = Table::new()
        .text("backend")
        .text("version")
        .text("state")
        .text("what it is, or why the place was looked at");
    for backend in &listing.backends {
        if backend.libraries.is_empty() {
            let version = backend.version.as_deref().unwrap_or(units::UNKNOWN);
            table.row([&backend.name, version, state(backend), &backend.summary]);
        }
        for found in &backend.libraries {
            let (version, state) = match &found.verdict {
                Verdict::Usable { version, .. } => (version.as_str(), "usable"),
                Verdict::Refused { .. } => (units::UNKNOWN, "refused"),
            };
            table.row([&backend.name, version, state, &found.origin]);
        }
    }
    table.render()
}

fn state(backend: &BackendListing) -> &'static str {
    match backend {
        backend if backend.simulated => "simulated",
        backend if backend.built_in => "built in",
        _ => "no library",
    }
}

fn library(backend: &BackendListing, found: &Library) -> String {
    match &found.verdict {
        Verdict::Usable {
            version,
            sha256,
            providers,
            ..
        } => format!(
            "{} {version}: {}\n  sha256 {}, providers: {}",
            backend.name,
            found.path,
            sha256.as_deref().map_or(units::UNKNOWN, short),
            providers.join(", ")
        ),
        Verdict::Refused { code, reason, hint } => {
            let hint = hint.iter().map(|hint| format!("\n  hint: {hint}"));
            let hint: String = hint.collect();
            format!(
                "{} refused: {}\n  cause: {reason} ({code}){hint}",
                backend.name, found.path
            )
        }
    }
}

fn default(listing: &Listing) -> String {
    let there = there(&listing.board);
    let install = format!("`edgedyno runtime install onnxruntime{there}`");
    let Some(choice) = &listing.default else {
        return format!("nothing here can run a model: {install}");
    };
    let used = format!(
        "`edgedyno run MODEL{there}` takes {}; --backend and --runtime choose another",
        chosen(listing, choice)
    );
    match choice.library {
        Some(_) => used,
        None => format!("{used}\n{install} fetches an ONNX Runtime"),
    }
}

/// Name and version of what is taken.
pub(super) fn chosen(listing: &Listing, choice: &Choice) -> String {
    let backend = listing.backends.iter().find(|b| b.name == choice.backend);
    let library = backend.and_then(|backend| {
        let mut libraries = backend.libraries.iter();
        libraries.find(|found| Some(&found.path) == choice.library.as_ref())
    });
    let version = match library.map(|found| &found.verdict) {
        Some(Verdict::Usable { version, .. }) => Some(version),
        _ => backend.and_then(|backend| backend.version.as_ref()),
    };
    match version {
        Some(version) => format!("{} {version}", choice.backend),
        None => choice.backend.clone(),
    }
}

/// What `runtime install` came to.
pub fn installed(installed: &Installed, is_new: bool, verdict: &Verdict, board: &str) -> String {
    let Installed {
        package,
        version,
        sha256,
        ..
    } = installed;
    let how = match is_new {
        true => "installed",
        false => "already installed:",
    };
    let known = match installed.known {
        true => "known: the published file",
        false => "unknown: not a published file that this version of edgedyno has seen",
    };
    let mut lines = vec![
        format!("{how} {package} {version}"),
        format!("  library  {}", installed.path.display()),
        format!("  size     {}", units::bytes(installed.bytes as f64)),
        format!("  sha256   {sha256}"),
        format!("           {known}"),
    ];
    if let Verdict::Usable { providers, .. } = verdict {
        lines.push(format!(
            "  opens    yes; providers: {}",
            providers.join(", ")
        ));
        let there = there(board);
        lines.push(format!(
            "`edgedyno run MODEL{there}` takes the newest one installed"
        ));
    }
    lines.join("\n")
}

fn short(hash: &str) -> &str {
    hash.get(..SHORT_HASH).unwrap_or(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backend(name: &str, version: Option<&str>) -> BackendListing {
        BackendListing {
            name: name.into(),
            summary: "s".into(),
            built_in: version.is_some(),
            simulated: false,
            formats: Vec::new(),
            version: version.map(str::to_owned),
            libraries: Vec::new(),
        }
    }

    fn of(board: &str, default: Option<Choice>) -> String {
        listing(&Listing {
            board: board.into(),
            arch: "aarch64".into(),
            backends: vec![backend("onnxruntime", None), backend("rten", Some("0.27"))],
            default,
            broken: Vec::new(),
        })
    }

    #[test]
    fn commands_that_are_shown_go_to_the_board_that_was_asked() {
        let rten = || {
            Some(Choice {
                backend: "rten".into(),
                library: None,
            })
        };
        let there = of("x5", rten());
        for command in [
            "`edgedyno run MODEL --board x5` takes rten 0.27",
            "`edgedyno runtime install onnxruntime --board x5` fetches",
        ] {
            assert!(there.contains(command), "{there}");
        }
        let nothing = of("x5", None);
        assert!(nothing.contains("`edgedyno runtime install onnxruntime --board x5`"));
        let here = of("local", rten());
        assert!(!here.contains("--board"), "{here}");
        assert!(here.contains("`edgedyno run MODEL` takes rten 0.27"));
    }

    #[test]
    fn what_was_installed_is_run_where_it_is() {
        let library = Installed {
            package: "onnxruntime".into(),
            version: "1.30.0".into(),
            architecture: "aarch64".into(),
            path: "/x/libonnxruntime.so".into(),
            sha256: crate::model::digest::Digest::of(b""),
            bytes: 1,
            known: true,
        };
        let usable = Verdict::Usable {
            version: "1.30.0".into(),
            sha256: None,
            build: None,
            build_id: None,
            providers: Vec::new(),
        };
        let text = |board| installed(&library, true, &usable, board);
        assert!(
            text("x5").ends_with("`edgedyno run MODEL --board x5` takes the newest one installed")
        );
        assert!(text("local").ends_with("`edgedyno run MODEL` takes the newest one installed"));
    }
}
