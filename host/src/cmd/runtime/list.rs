//! `runtime list`: what the agent found, and why it refused what it refused.

use edgedyno_shared::device::{BackendInfo, DeviceInfo, RuntimeFound, RuntimeVerdict};
use serde_json::{Value, json};

use crate::cli::Global;
use crate::cmd::block_on;
use crate::cmd::run::inventory::{Inquiry, find_board};
use crate::exit::{CommandResult, Exit};
use crate::ui::{print, table::Table};

pub(super) fn run(name: &str, global: &Global) -> CommandResult {
    let board = find_board(name)?;
    let device = block_on(async { Inquiry::open(&board).await?.device().await })?;
    match global.json {
        true => print::json(&document(name, &device)),
        false => print::result(text(&device)),
    }
    Ok(Exit::GOOD)
}

fn document(board: &str, device: &DeviceInfo) -> Value {
    json!({
        "document": "edgedyno/runtimes/1",
        "board": board,
        "backends": device.backends.iter().map(backend).collect::<Vec<_>>(),
    })
}

fn backend(backend: &BackendInfo) -> Value {
    json!({
        "name": backend.name,
        "summary": backend.summary,
        "simulated": backend.simulated,
        "built_in": backend.built_in,
        "formats": backend.formats,
        "version": backend.version,
        "runtimes": backend.runtimes.iter().map(found).collect::<Vec<_>>(),
    })
}

fn found(found: &RuntimeFound) -> Value {
    match &found.verdict {
        RuntimeVerdict::Usable(facts) => json!({
            "path": found.path,
            "origin": found.origin,
            "usable": true,
            "version": facts.version,
            "sha256": facts.sha256.to_string(),
            "build": facts.build,
            "build_id": facts.build_id,
            "providers": facts.providers,
        }),
        RuntimeVerdict::Refused { code, reason, hint } => json!({
            "path": found.path,
            "origin": found.origin,
            "usable": false,
            "code": code,
            "reason": reason,
            "hint": (!hint.is_empty()).then_some(hint),
        }),
    }
}

fn text(device: &DeviceInfo) -> String {
    let mut backends = Table::new().text("backend").text("runtime").text("");
    for backend in &device.backends {
        let usable = |found: &&RuntimeFound| matches!(found.verdict, RuntimeVerdict::Usable(_));
        let runtime = match (&backend.version, backend.built_in) {
            (Some(version), _) => format!("built in, {version}"),
            (None, true) => "built in".to_owned(),
            (None, false) => format!(
                "{} found, {} usable",
                backend.runtimes.len(),
                backend.runtimes.iter().filter(usable).count()
            ),
        };
        backends.row([backend.name.clone(), runtime, backend.summary.clone()]);
    }
    let sections = device.backends.iter().flat_map(|backend| {
        let libraries = backend.runtimes.iter();
        libraries.map(|found| library(&backend.name, found))
    });
    let sections: Vec<String> = std::iter::once(backends.render()).chain(sections).collect();
    sections.join("\n\n")
}

/// One library in a few lines: paths are too long for a table.
fn library(backend: &str, found: &RuntimeFound) -> String {
    let (path, origin) = (&found.path, &found.origin);
    match &found.verdict {
        RuntimeVerdict::Usable(facts) => format!(
            "{backend} {}: {path}\n  from: {origin}\n  sha256: {}\n  providers: {}",
            facts.version,
            facts.sha256,
            facts.providers.join(", ")
        ),
        RuntimeVerdict::Refused { reason, hint, .. } => {
            let hint = match hint.as_str() {
                "" => String::new(),
                hint => format!("\n  hint: {hint}"),
            };
            format!("{backend} refused: {path}\n  from: {origin}\n  reason: {reason}{hint}")
        }
    }
}
