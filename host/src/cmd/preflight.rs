//! What is said before a board measures, and what is refused.

use std::collections::BTreeSet;

use edgedyno_shared::case::Case;
use edgedyno_shared::device::DeviceInfo;

use super::read;
use crate::exit::{CommandError, Exit};
use crate::options::telemetry::{Requirement, TelemetryOptions};
use crate::preflight::{QUIET, concerns};
use crate::source::Source;
use crate::ui::print;

/// Tells what will spoil the figures; with `--require quiet` nothing is measured then.
///
/// # Errors
/// When a quiet board is required and this one is not.
pub(super) fn look(
    board: &str,
    device: &DeviceInfo,
    cases: &[Case],
    options: &TelemetryOptions,
) -> Result<(), CommandError> {
    let concerns = concerns(device, cases, options.fix_clocks);
    if options.require != Some(Requirement::Quiet) || concerns.is_empty() {
        for concern in concerns {
            print::note(format_args!("note: {}", concern.text));
        }
        return Ok(());
    }
    let texts: Vec<String> = concerns.into_iter().map(|concern| concern.text).collect();
    let what = format!("board {board} is not quiet, and --require quiet was asked for");
    Err(CommandError::new(Exit::GATE, what)
        .because(anyhow::anyhow!(texts.join("; ")))
        .hint("make it quiet, or measure without --require"))
}

/// Whether the board was as quiet as was required, by the findings of what was measured.
///
/// # Errors
/// When the run cannot be read.
pub(super) fn was_quiet(source: &Source, options: &TelemetryOptions) -> Result<Exit, CommandError> {
    if options.require != Some(Requirement::Quiet) {
        return Ok(Exit::GOOD);
    }
    let summaries = read::summaries(source, &source.cases()?)?;
    let findings = summaries.iter().flat_map(|summary| &summary.findings);
    let codes: BTreeSet<&str> = findings
        .map(|finding| finding.code)
        .filter(|code| QUIET.contains(code))
        .collect();
    if codes.is_empty() {
        return Ok(Exit::GOOD);
    }
    let codes: Vec<&str> = codes.into_iter().collect();
    print::note(format_args!(
        "the board was not quiet: {}",
        codes.join(", ")
    ));
    Ok(Exit::GATE)
}
