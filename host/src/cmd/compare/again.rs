//! Measuring both arms again, now and taking turns.

use edgedyno_shared::case::Case;
use serde_json::Value;

use super::options::CompareArgs;
use super::sides::Side;
use crate::board::content::Content;
use crate::cli::Global;
use crate::cmd::run::execute::{self, Begin};
use crate::cmd::run::inventory::{Inquiry, find_board};
use crate::cmd::run::prepare::Prepared;
use crate::cmd::run::resume;
use crate::cmd::stress::calibrate;
use crate::cmd::{block_on, read};
use crate::compare::arm::Arm;
use crate::compare::load;
use crate::compare::matching::{self, Pair};
use crate::compare::report::Ask;
use crate::compare::rule::Pairing;
use crate::drive::DriveEnd;
use crate::exit::{CommandError, Exit};
use crate::plan::axes::case_key;
use crate::plan::check;
use crate::plan::fixed::Conduct;
use crate::plan::schedule::Schedule;
use crate::store::rows::CaseEntry;
use crate::summary::CaseSummary;

/// Decides which of two repeats in a row goes to which side, where both sides are the same case.
const COIN: u64 = 0x0a_0a;

/// Pairs to be measured again.
pub(super) struct Again {
    pairs: Vec<(First, CaseEntry)>,
    contents: Vec<Content>,
    /// Libraries to be looked at first, with the backend of each.
    libraries: Vec<(String, String)>,
}

/// Side A of a pair.
enum First {
    Again(Box<CaseEntry>),
    /// Figures from a file, which has no plan to measure by: they stay what they are.
    Kept(Box<Arm>),
}

impl First {
    fn entry(&self) -> Option<&CaseEntry> {
        match self {
            Self::Again(entry) => Some(entry),
            Self::Kept(_) => None,
        }
    }
}

/// Libraries that the agent must have looked at: a plan of `run` names one, that of a sweep one for each
/// board and backend.
fn libraries<'a>(entry: &CaseEntry, plan: &'a Value) -> Vec<&'a str> {
    let is_meant = |library: &&Value| {
        library["board"] == *entry.case.board && library["backend"] == *entry.case.backend
    };
    let of_sweep = plan["libraries"].as_array().into_iter().flatten();
    let of_sweep = of_sweep.filter(is_meant).map(|library| &library["path"]);
    let all = std::iter::once(&plan["library"]).chain(of_sweep);
    all.filter_map(Value::as_str).collect()
}

/// What came out.
pub(super) struct Remeasured {
    pub(super) run: String,
    pub(super) pairs: Vec<Pair>,
    pub(super) end: DriveEnd,
    /// Cases of side B.
    pub(super) summaries: Vec<CaseSummary>,
}

impl Again {
    /// With `keeps`, figures of a file on side A are held against a second measurement of side B.
    pub(super) fn of(
        pairs: &[Pair],
        a: &Side,
        b: &Side,
        keeps: bool,
    ) -> Result<Self, CommandError> {
        let mut again = Self {
            pairs: Vec::new(),
            contents: Vec::new(),
            libraries: Vec::new(),
        };
        for pair in pairs {
            let first = match keeps && a.is_file() {
                true => First::Kept(Box::new(pair.a.clone())),
                false => {
                    let (entry_a, plan_a) = a.plan_of(&pair.a)?;
                    again.take(&entry_a, &plan_a)?;
                    First::Again(Box::new(entry_a))
                }
            };
            let (entry_b, plan_b) = b.plan_of(&pair.b)?;
            again.take(&entry_b, &plan_b)?;
            again.pairs.push((first, entry_b));
        }
        Ok(again)
    }

    /// Files and library of a case; files must be what they were.
    fn take(&mut self, entry: &CaseEntry, plan: &Value) -> Result<(), CommandError> {
        for content in resume::contents(plan)? {
            if self
                .contents
                .iter()
                .all(|known| known.sha256 != content.sha256)
            {
                self.contents.push(content);
            }
        }
        for library in libraries(entry, plan) {
            let pair = (entry.case.backend.clone(), library.to_owned());
            if !self.libraries.contains(&pair) {
                self.libraries.push(pair);
            }
        }
        Ok(())
    }

    /// Measures in one run, round by round, and reads the arms back.
    pub(super) fn measure(
        &self,
        args: &CompareArgs,
        ask: &Ask,
        global: &Global,
    ) -> Result<Remeasured, CommandError> {
        let prepared = self.prepare(args, global)?;
        let how = Begin::New {
            command: "compare",
            tags: &args.tags,
        };
        let (source, end) = execute::execute(&prepared, &how, &args.lease.wish(), global)?;
        let cases = source.cases()?;
        let arms = load::arms(&source, &cases, &ask.metrics)?;
        let arm_of = |entry: &CaseEntry| arms.iter().find(|arm| arm.key() == entry.key);
        let mut pairs = Vec::new();
        for (first, entry_b) in &self.pairs {
            let a = match first {
                First::Again(entry) => arm_of(entry),
                First::Kept(arm) => Some(&**arm),
            };
            let (Some(a), Some(b)) = (a, arm_of(entry_b)) else {
                continue;
            };
            if first.entry().is_some_and(|entry| entry.key == entry_b.key) {
                let (a, b) = a.halves(COIN);
                pairs.push(Pair {
                    a,
                    b,
                    compared: Vec::new(),
                    pairing: Pairing::Interleaved,
                    halves: true,
                });
            } else {
                pairs.extend(matching::named(a.clone(), b.clone())?.pairs);
            }
        }
        let of_b: Vec<CaseEntry> = cases
            .iter()
            .filter(|case| self.pairs.iter().any(|(_, b)| b.key == case.key))
            .cloned()
            .collect();
        let summaries = match args.require.is_empty() {
            true => Vec::new(),
            false => read::summaries(&source, &of_b)?,
        };
        Ok(Remeasured {
            run: source.run()?.id.0,
            pairs,
            end,
            summaries,
        })
    }

    fn prepare(&self, args: &CompareArgs, global: &Global) -> Result<Prepared, CommandError> {
        let entries = || {
            let pairs = self.pairs.iter();
            pairs.flat_map(|(a, b)| a.entry().into_iter().chain([b]))
        };
        let Some((_, first)) = self.pairs.first() else {
            return Err(CommandError::new(
                Exit::UNEXPECTED,
                "there is nothing to measure again",
            ));
        };
        let board_name = first.case.board.clone();
        if entries().any(|entry| entry.case.board != board_name) {
            return Err(CommandError::usage("arms on two boards cannot take turns")
                .hint("compare them without --rerun and --confirm"));
        }
        let board = find_board(&board_name)?;
        let device = block_on(async {
            let mut inquiry = Inquiry::open(&board).await?;
            for (backend, library) in &self.libraries {
                inquiry.probe(backend, library.as_ref()).await?;
            }
            inquiry.device().await
        })?;
        let mut cases: Vec<Case> = Vec::new();
        for case in entries().map(|entry| Case::from(&entry.case)) {
            if cases.iter().all(|known| case_key(known) != case_key(&case)) {
                cases.push(case);
            }
        }
        // A case that stands on both sides gives each of them half of its repeats.
        let is_same = |a: &First, b: &CaseEntry| a.entry().is_some_and(|entry| entry.key == b.key);
        let is_itself = self.pairs.iter().any(|(a, b)| is_same(a, b));
        let times = if is_itself { 2 } else { 1 };
        let repeats = args.repeat.get().saturating_mul(times);
        check::repeats(cases.len(), repeats)?;
        // What a share stands for now: arms that take turns must bear the same load.
        let how = calibrate::How {
            again: false,
            holds_clocks: first.rules.fix_clocks,
        };
        let ceilings = calibrate::of_board(&board_name, &device, cases.iter(), how, global)?;
        Ok(Prepared {
            board: board_name,
            device,
            cases,
            conduct: Conduct {
                repeats,
                rules: first.rules.rules(),
                limits: first.rules.limits(),
                cold: first.rules.cold.into(),
                outputs: first.rules.outputs(),
                telemetry: first.rules.telemetry.into(),
                preparation: first.rules.preparation(),
                seed: COIN,
            },
            schedule: Schedule {
                ceilings,
                ..Schedule::default()
            },
            contents: self.contents.clone(),
            unpacked: Vec::new(),
            library: self.libraries.first().map(|(_, library)| library.clone()),
            save_outputs: None,
            built_in_note: None,
        })
    }
}
