//! Whether a board was as quiet as `--require quiet` asks for, and whether that can be known.

use std::collections::BTreeSet;

use crate::preflight::QUIET;
use crate::view::{CaseView, RepeatView};

use super::{Finding, load};

/// What is to be said of a case's quiet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quiet {
    /// Findings that a quiet board has none of.
    pub disturbed: BTreeSet<&'static str>,
    /// What was not seen in some repeat, so that nobody can say that it was quiet.
    pub unknown: BTreeSet<&'static str>,
}

/// Looks at one case. One without a counting repeat has nothing that could have been disturbed.
pub fn of(view: &CaseView, findings: &[Finding]) -> Quiet {
    let codes = findings.iter().map(|finding| finding.code);
    Quiet {
        disturbed: codes.filter(|code| QUIET.contains(code)).collect(),
        unknown: view.counting().flat_map(unknown).collect(),
    }
}

/// What is not known of a repeat.
fn unknown(repeat: &RepeatView) -> Vec<&'static str> {
    if repeat.telemetry.is_empty() {
        return vec!["what the board did: no telemetry was recorded"];
    }
    let seen = [
        (load::foreign_share(repeat), "what others used of its CPUs"),
        (load::run_delay(repeat), "how long it waited for a CPU"),
        (load::stolen(repeat), "what a hypervisor took"),
    ];
    let unseen = seen.iter().filter(|(share, _)| share.is_none());
    unseen.map(|(_, what)| *what).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::before_the_end;
    use crate::store::sample::{MS, repeat, watched};
    use crate::summary::summarise;
    use crate::summary::tests::view_of;

    const S: i64 = 1_000_000_000;

    /// A quiet board: CPUs 2 and 3 are the worker's, for two seconds of trials of 2 ms.
    const QUIETLY: [(&str, i64); 6] = [
        ("cpu.2.busy", 2 * S),
        ("cpu.3.busy", S),
        ("worker.cpu", 3 * S),
        ("worker.run_delay", 0),
        ("cpu.2.steal", 0),
        ("cpu.3.steal", 0),
    ];

    /// Trials of 2 ms, and counters that grow by so much in three seconds.
    fn quiet(trials: usize, channels: &[(&str, i64)]) -> Quiet {
        let mut records = repeat(&vec![2 * MS; trials]);
        for (id, (name, by)) in (0..).zip(channels) {
            let cells = [(0, Some(0)), (1500, Some(by / 2)), (3000, Some(*by))];
            for record in watched(id, name, "ns", &cells) {
                before_the_end(&mut records, record);
            }
        }
        let view = view_of(&records);
        of(&view, &summarise(&view).findings)
    }

    #[test]
    fn a_quiet_board_is_known_to_be() {
        assert_eq!(quiet(1000, &QUIETLY), Quiet::default());
    }

    #[test]
    fn what_disturbed_it_is_named() {
        let mut channels = QUIETLY;
        channels[1].1 = 2 * S;
        channels[3].1 = S;
        let found = quiet(1000, &channels);
        let expected = BTreeSet::from(["foreign_load", "run_queue_delay"]);
        assert_eq!((found.disturbed, found.unknown.len()), (expected, 0));
    }

    #[test]
    fn what_was_not_seen_is_not_taken_for_quiet() {
        assert_eq!(quiet(1000, &[]).unknown.len(), 1);
        for lost in [1, 2, 3, 4] {
            let mut channels = QUIETLY.to_vec();
            channels.remove(lost);
            let found = quiet(1000, &channels);
            assert_eq!(
                (found.disturbed.len(), found.unknown.len()),
                (0, 1),
                "{lost}"
            );
        }
        // A tenth of a second is too short for shares of a CPU.
        assert_eq!(quiet(50, &QUIETLY).unknown.len(), 3);
    }
}
