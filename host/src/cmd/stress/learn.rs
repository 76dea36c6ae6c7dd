//! What an experiment teaches of its board besides.

use crate::cli::Global;
use crate::clock;
use crate::cmd::open_for_writing;
use crate::contention::emc;
use crate::exit::CommandError;
use crate::source::Source;
use crate::store::EmcScaleRow;
use crate::store::rows::DeviceRow;
use crate::telemetry::emc::release;
use crate::ui::print;

/// Learns the unit of the activity monitor of each Jetson that was measured, where the vendor's tool told the
/// load beside it, and keeps it.
pub(super) fn memory_controllers(source: &Source, global: &Global) -> Result<(), CommandError> {
    let run = source.run()?;
    let entries = source.cases()?;
    let devices = source.devices()?;
    for (board, device) in devices.iter().filter(|(_, device)| is_jetson(device)) {
        let mut of_board = entries.clone();
        of_board.retain(|entry| entry.case.board == *board);
        let views = source.views(&of_board)?.collect::<Result<Vec<_>, _>>()?;
        match emc::learn(&run.id.0, &views) {
            None => {}
            Some(Err(why)) => print::note(format_args!(
                "the unit of {board}'s memory activity is still unknown: {why}"
            )),
            Some(Ok(scale)) => {
                let row = EmcScaleRow {
                    board: board.clone(),
                    release: release(device),
                    scale,
                    made_unix_ns: clock::unix_ns(),
                };
                open_for_writing(global)?.put_emc_scales(&[row])?;
                print::note(format_args!(
                    "{board}'s memory activity is understood from now on: `edgedyno explain emc_load_share`"
                ));
            }
        }
    }
    Ok(())
}

fn is_jetson(device: &DeviceRow) -> bool {
    let mut facts = device.facts.iter().filter(|fact| fact.name == "soc");
    facts.any(|fact| {
        fact.value
            .as_ref()
            .is_some_and(|soc| soc.to_lowercase().contains("tegra"))
    })
}
