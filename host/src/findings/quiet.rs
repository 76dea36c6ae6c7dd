//! Whether a board was as quiet as `--require quiet` asks for, and whether that can be known.

use std::collections::BTreeSet;

use crate::preflight::QUIET;
use crate::telemetry::engines::{self, Used};
use crate::view::{CaseView, RepeatView};

use super::measured::start_facts;
use super::{Finding, clocks, load, policies_of};

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
        unknown: view.counting().flat_map(|r| unknown(view, r)).collect(),
    }
}

/// What is not known of a repeat: for each code of [`QUIET`] what it is told by, as far as the case could be
/// disturbed so. An engine that it does not use, and a clock that the board has none of beside its CPUs, need not
/// be seen.
fn unknown(view: &CaseView, repeat: &RepeatView) -> Vec<&'static str> {
    if repeat.telemetry.is_empty() {
        return vec!["what the board did: no telemetry was recorded"];
    }
    let used = Used::of_case(&view.entry.case);
    let is_held = view.entry.rules.fix_clocks;
    let fact = |name: &str| start_facts(repeat).any(|(known, _)| known == name);
    let seen = [
        (fact("load_average"), "how busy the board was before"),
        (
            load::foreign_share(repeat).is_some(),
            "what others used of its CPUs",
        ),
        (
            load::run_delay(repeat).is_some(),
            "how long it waited for a CPU",
        ),
        (load::stolen(repeat).is_some(), "what a hypervisor took"),
        (
            match is_held {
                true => clocks::were_read_back(repeat),
                false => governors_known(repeat, used),
            },
            "what governs its clocks",
        ),
        (clocks::were_seen(repeat, used), "its clocks"),
        (
            repeat.row.cost.is_some(),
            "whether a CPU was left for the agent",
        ),
        (
            load::memory_left(repeat).is_some(),
            "how much memory was left",
        ),
        (
            accelerator_users_known(repeat, used),
            "who else used an accelerator",
        ),
    ];
    let unseen = seen.iter().filter(|(is_seen, _)| !is_seen);
    unseen.map(|(_, what)| *what).collect()
}

/// Governors of every clock policy of the measured CPUs were read, and so were those of the devices that matter as
/// far as the board has them.
fn governors_known(repeat: &RepeatView, used: Used) -> bool {
    let policies = policies_of(repeat);
    let known = |policy: &u16| {
        let name = format!("governor.policy{policy}");
        start_facts(repeat).any(|(fact, _)| fact == name)
    };
    let all = repeat.row.start.iter().flat_map(|start| &start.environment);
    let unread = all.filter(|fact| fact.value.is_none());
    let mut devices = unread.filter_map(|fact| fact.name.strip_prefix("governor.devfreq."));
    let is_used = |device: &str| engines::of_device(device).is_some_and(|engine| used.has(engine));
    !policies.is_empty() && policies.iter().all(known) && !devices.any(is_used)
}

/// A case on CPUs has none. Of one that may use any, a board without one says so.
fn accelerator_users_known(repeat: &RepeatView, used: Used) -> bool {
    let mut start = repeat.row.start.iter().flat_map(|start| &start.environment);
    let Some(users) = start.find(|fact| fact.name == "accelerator_users") else {
        return !used.has_any();
    };
    let has_none = users.state == "absent" && used == Used::ALL;
    users.value.is_some() || has_none || !used.has_any()
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::device::{Fact, Reading};
    use edgedyno_shared::wire::record::Record;

    use super::*;
    use crate::findings::tests::before_the_end;
    use crate::store::sample::{MS, repeat, watched};
    use crate::summary::summarise;
    use crate::summary::tests::view_of;

    const S: i64 = 1_000_000_000;

    /// A quiet board: CPUs 2 and 3 are the worker's, for two seconds of trials of 2 ms. Counters grow by so much
    /// in three seconds; gauges stand there.
    const QUIETLY: [(&str, i64); 9] = [
        ("cpu.2.busy", 2 * S),
        ("cpu.3.busy", S),
        ("worker.cpu", 3 * S),
        ("worker.run_delay", 0),
        ("cpu.2.steal", 0),
        ("cpu.3.steal", 0),
        ("cpu.policy0.freq", S),
        ("mem.available", S),
        ("mem.total", S),
    ];

    fn watched_repeat(trials: usize, channels: &[(&str, i64)]) -> Vec<Record> {
        let mut records = repeat(&vec![2 * MS; trials]);
        for (id, (name, by)) in (0..).zip(channels) {
            let is_gauge = name.starts_with("mem.") || name.ends_with(".freq");
            let first = if is_gauge { *by } else { 0 };
            let middle = first + (by - first) / 2;
            let cells = [(0, Some(first)), (1500, Some(middle)), (3000, Some(*by))];
            for record in watched(id, name, "ns", &cells) {
                before_the_end(&mut records, record);
            }
        }
        records
    }

    fn quiet(trials: usize, channels: &[(&str, i64)]) -> Quiet {
        quiet_of(&view_of(&watched_repeat(trials, channels)))
    }

    fn quiet_of(view: &CaseView) -> Quiet {
        of(view, &summarise(view).findings)
    }

    /// What is unknown of a quiet board of a case of that backend after its facts were changed.
    fn with_facts(backend: &str, change: impl Fn(&mut Vec<Fact>)) -> Vec<&'static str> {
        let mut records = watched_repeat(1000, &QUIETLY);
        for record in &mut records {
            if let Record::Start(start) = record {
                let none = Reading::Ok("none".into());
                put(&mut start.environment, "accelerator_users", none);
                change(&mut start.environment);
            }
        }
        let mut view = view_of(&records);
        view.entry.case.backend = backend.into();
        quiet_of(&view).unknown.into_iter().collect()
    }

    fn put(facts: &mut Vec<Fact>, name: &str, value: Reading) {
        facts.retain(|fact| fact.name != name);
        facts.push(Fact {
            name: name.into(),
            value,
        });
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
        for lost in [1, 2, 3, 4, 6, 7, 8] {
            let mut channels = QUIETLY.to_vec();
            channels.remove(lost);
            let found = quiet(1000, &channels);
            assert_eq!(
                (found.disturbed.len(), found.unknown.len()),
                (0, 1),
                "{lost}"
            );
        }
        // A tenth of a second is too short for shares of a CPU, and neither clock nor memory was read in it.
        assert_eq!(quiet(50, &QUIETLY).unknown.len(), 5);
    }

    #[test]
    fn a_fact_that_was_not_read_is_not_taken_for_quiet() {
        let denied = || Reading::Denied("not for you".into());
        let lost = |backend: &str, name: &str, value: Reading| {
            with_facts(backend, |facts| put(facts, name, value.clone()))
        };
        for (name, what) in [
            ("load_average", "how busy the board was before"),
            ("governor.policy0", "what governs its clocks"),
            ("governor.devfreq.dmc", "what governs its clocks"),
        ] {
            assert_eq!(lost("rten", name, denied()), [what], "{name}");
        }
        // An engine that the case does not use may be anybody's.
        for name in ["governor.devfreq.fb000000.gpu", "accelerator_users"] {
            assert_eq!(lost("rten", name, denied()), [] as [&str; 0], "{name}");
            assert_eq!(lost("rknn", name, denied()).len(), 1, "{name}");
        }
        let none = || Reading::Absent("/dev has no accelerator that is known here".into());
        for value in [none(), Reading::Ok("none".into())] {
            let found = lost("openvino", "accelerator_users", value);
            assert_eq!(found, [] as [&str; 0]);
        }
    }

    #[test]
    fn a_clock_of_an_engine_in_use_must_be_seen_where_the_board_has_it() {
        let blind = |backend: &str| {
            let mut records = watched_repeat(1000, &QUIETLY);
            for record in watched(90, "npu.0.freq", "hz", &[(0, None), (1500, None)]) {
                before_the_end(&mut records, record);
            }
            for record in &mut records {
                if let Record::Start(start) = record {
                    let none = Reading::Ok("none".into());
                    put(&mut start.environment, "accelerator_users", none);
                }
            }
            let mut view = view_of(&records);
            view.entry.case.backend = backend.into();
            quiet_of(&view).unknown.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(blind("rten"), [] as [&str; 0]);
        assert_eq!(blind("rknn"), ["its clocks"]);
    }
}
