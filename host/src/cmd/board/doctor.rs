//! `board doctor`: the chain from this host to a measurement, link by link.

use crate::board::known::KnownBoards;
use crate::board::settings::Settings;
use crate::board::{any, local};
use crate::cmd::block_on;
use crate::doctor::{self, Report, State};
use crate::documents;
use crate::exit::{CommandResult, Exit};
use crate::ui::{self, print};

pub(super) const EXAMPLES: &str = "\
examples:
  edgedyno board doctor x5
  edgedyno board doctor                  this machine
  edgedyno board doctor x5 --json | jq '.checks[] | select(.state != \"good\")'";

pub(super) fn run(name: &str, settings: &Settings, json: bool) -> CommandResult {
    let report = match name {
        local::NAME => block_on(async { Ok(doctor::local().await) })?,
        name => {
            let boards = KnownBoards::read(settings)?;
            let Some(board) = boards.get(name) else {
                let names = boards.iter().map(|(name, _)| name).chain([local::NAME]);
                return Err(any::unknown(name, names));
            };
            let identity = settings.identity()?;
            block_on(async { Ok(doctor::remote(name, board, &identity).await) })?
        }
    };
    match json {
        true => print::json(&documents::doctor(name, &report)),
        false => print::result(ui::board::doctor(name, &report)),
    }
    Ok(exit(&report))
}

fn exit(report: &Report) -> Exit {
    let failed = report
        .checks
        .iter()
        .find(|check| check.state == State::Failed);
    match failed.map(|check| check.name) {
        None => Exit::GOOD,
        Some("version") => Exit::INCOMPATIBLE,
        Some(_) => Exit::BOARD,
    }
}
