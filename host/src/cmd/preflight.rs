//! What is said before a board measures, and what is refused.

use std::collections::BTreeSet;

use edgedyno_shared::case::Case;
use edgedyno_shared::device::DeviceInfo;

use crate::exit::{CommandError, Exit};
use crate::findings::quiet;
use crate::options::telemetry::{Requirement, TelemetryOptions};
use crate::preflight::concerns;
use crate::source::Source;
use crate::summary::summarise;
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

/// Whether the board was as quiet as was required, by what was seen of every case while it was measured.
///
/// # Errors
/// When the run cannot be read.
pub(super) fn was_quiet(source: &Source, options: &TelemetryOptions) -> Result<Exit, CommandError> {
    if options.require != Some(Requirement::Quiet) {
        return Ok(Exit::GOOD);
    }
    let (mut disturbed, mut unknown) = (BTreeSet::new(), BTreeSet::new());
    let cases = source.cases()?;
    for view in source.views(&cases)? {
        let view = view?;
        let of_case = quiet::of(&view, &summarise(&view).findings);
        disturbed.extend(of_case.disturbed);
        unknown.extend(of_case.unknown);
    }
    let list = |of: BTreeSet<&str>| of.into_iter().collect::<Vec<_>>().join(", ");
    let told = match (disturbed.is_empty(), unknown.is_empty()) {
        (true, true) => return Ok(Exit::GOOD),
        (false, _) => format!("the board was not quiet: {}", list(disturbed)),
        (true, false) => format!(
            "the board is not known to have been quiet; not seen: {}; \
             windows under half a second tell nothing of it, --duration 1s does",
            list(unknown)
        ),
    };
    print::note(format_args!("{told}"));
    Ok(Exit::GATE)
}
