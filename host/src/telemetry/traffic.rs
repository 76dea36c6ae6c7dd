//! Channels that count what a board's memory controllers moved: each byte once.

use super::Digest;

/// What a channel of a memory controller is called: `ddr.NAME.read_bytes`.
const FAMILY: &str = "ddr.";
const COUNTED: [&str; 3] = ["read_bytes", "write_bytes", "bytes"];

/// Sources that count the same traffic as others do: used only where the others are not there. Intel's
/// free-running counters stand beside those of the same controller
/// (Documentation in the kernel's `arch/x86/events/intel/uncore_snbep.c`).
const SECOND_CHOICE: &str = "uncore_imc_free_running";

/// Those that are all traffic together.
pub fn counters(channels: &[Digest]) -> Vec<&Digest> {
    let all = channels.iter().filter_map(of_controller);
    let all: Vec<(&str, &Digest)> = all.collect();
    let is_second = |name: &str| name.starts_with(SECOND_CHOICE);
    let has_first = all.iter().any(|(name, _)| !is_second(name));
    let counted = all
        .into_iter()
        .filter(|(name, _)| !has_first || !is_second(name));
    counted.map(|(_, digest)| digest).collect()
}

/// The controller whose channel it is.
fn of_controller(digest: &Digest) -> Option<(&str, &Digest)> {
    let name = digest.channel.name.strip_prefix(FAMILY)?;
    let (controller, counted) = name.rsplit_once('.')?;
    COUNTED.contains(&counted).then_some((controller, digest))
}
