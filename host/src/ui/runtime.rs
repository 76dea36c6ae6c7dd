//! Text about runtimes: what a board has, and what was installed.

use super::table::Table;
use super::units;
use crate::runtime::cache::Installed;
use crate::runtime::listing::{BackendListing, Library, Listing, Verdict};

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
    let Some(choice) = &listing.default else {
        return "nothing here can run a model: `edgedyno runtime install onnxruntime`".into();
    };
    let backend = listing.backends.iter().find(|b| b.name == choice.backend);
    let library = backend.and_then(|backend| {
        let mut libraries = backend.libraries.iter();
        libraries.find(|found| Some(&found.path) == choice.library.as_ref())
    });
    let used = match (library.map(|found| &found.verdict), backend) {
        (Some(Verdict::Usable { version, .. }), _) => format!("{} {version}", choice.backend),
        (
            _,
            Some(BackendListing {
                version: Some(version),
                ..
            }),
        ) => {
            format!("{} {version}", choice.backend)
        }
        _ => choice.backend.clone(),
    };
    let used = format!("`edgedyno run MODEL` takes {used}; --backend and --runtime choose another");
    match choice.library {
        Some(_) => used,
        None => format!("{used}\n`edgedyno runtime install onnxruntime` fetches an ONNX Runtime"),
    }
}

/// What `runtime install` came to.
pub fn installed(installed: &Installed, is_new: bool, verdict: &Verdict) -> String {
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
        lines.push("`edgedyno run MODEL` takes the newest one installed".into());
    }
    lines.join("\n")
}

fn short(hash: &str) -> &str {
    hash.get(..SHORT_HASH).unwrap_or(hash)
}
