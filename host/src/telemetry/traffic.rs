//! Channels that count what a board's memory controllers moved: each byte once.

use super::Digest;

/// What a channel of a memory controller is called: `ddr.NAME.read_bytes`.
const FAMILY: &str = "ddr.";
const COUNTED: [&str; 3] = ["read_bytes", "write_bytes", "bytes"];

/// Sources that count the same traffic as others do: used only where the others are not there. Intel's
/// free-running counters stand beside those of the same controller
/// (Documentation in the kernel's `arch/x86/events/intel/uncore_snbep.c`).
const SECOND_CHOICE: &str = "uncore_imc_free_running";

/// Those that are all traffic together, whether they could be read or not.
pub fn counters(channels: &[Digest]) -> Vec<&Digest> {
    let all = channels.iter().filter_map(of_controller);
    let (second, first): (Vec<_>, Vec<_>) =
        all.partition(|(name, _)| name.starts_with(SECOND_CHOICE));
    let is_whole = |of: &[(&str, &Digest)]| of.iter().all(|(_, digest)| digest.growth.is_some());
    let takes_second = first.is_empty() || (!is_whole(&first) && is_whole(&second));
    let chosen = match takes_second && !second.is_empty() {
        true => second,
        false => first,
    };
    chosen.into_iter().map(|(_, digest)| digest).collect()
}

/// Bytes that all of them counted over the window, and its seconds; none where one of them is not known, for
/// a part of the traffic must not pass for all of it.
pub fn of(channels: &[Digest]) -> Option<(f64, f64)> {
    let growths = counters(channels).into_iter().map(|digest| digest.growth);
    let growths = growths.collect::<Option<Vec<_>>>()?;
    let seconds = growths.first()?.seconds;
    Some((growths.iter().map(|growth| growth.by).sum(), seconds))
}

/// Those of a board's counters that are not known while others are.
pub fn unread(channels: &[Digest]) -> Vec<&str> {
    let counters = counters(channels);
    let (known, unread): (Vec<&Digest>, Vec<&Digest>) =
        counters.into_iter().partition(|d| d.growth.is_some());
    match known.is_empty() {
        true => Vec::new(),
        false => unread.iter().map(|d| d.channel.name.as_str()).collect(),
    }
}

/// The controller whose channel it is.
fn of_controller(digest: &Digest) -> Option<(&str, &Digest)> {
    let name = digest.channel.name.strip_prefix(FAMILY)?;
    let (controller, counted) = name.rsplit_once('.')?;
    // The tool is asked where nothing better is there, and says so under its own name where it is not.
    let is_tool = controller == "hrut" && digest.all_good == 0;
    let is_there = !digest.is_of_nothing() && !is_tool;
    (COUNTED.contains(&counted) && is_there).then_some((controller, digest))
}
