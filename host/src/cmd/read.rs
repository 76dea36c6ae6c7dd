//! What the reading commands share: a run or profile by name, and the cases asked for.

use std::collections::{BTreeMap, HashSet};

use clap::Args;

use crate::cli::Global;
use crate::contention;
use crate::contention::limit::Limit;
use crate::exit::CommandError;
use crate::source::{self, Opened, Source, SourceError};
use crate::store::rows::CaseEntry;
use crate::summary::{CaseSummary, summarise};
use crate::ui::stress;

/// A run to read, and which cases of it.
#[derive(Debug, Clone, Args)]
pub struct ReadOptions {
    /// The run: its id, the beginning of it, a tag, or `last`; RUN/CASE for one case; or a profile file
    pub run: String,
    /// A case of the run: the beginning of its key, or axes such as threads=2,batch=1
    #[arg(long = "case", value_name = "KEY")]
    pub case: Option<String>,
}

/// An opened run and the cases picked.
pub(super) struct Picked {
    pub(super) source: Source,
    pub(super) cases: Vec<CaseEntry>,
}

impl ReadOptions {
    pub(super) fn open(&self, global: &Global) -> Result<Picked, CommandError> {
        let here = super::here()?;
        let Opened { source, key } = Source::open(&self.run, global.store(), &here)?;
        let wanted = match (key, &self.case) {
            (Some(_), Some(_)) => {
                let what = "a case is named twice: after the slash and with --case";
                return Err(CommandError::usage(what).hint("leave one of them out"));
            }
            (key, case) => key.or_else(|| case.clone()),
        };
        let all = source.cases()?;
        let cases = source::matching(&all, wanted.as_deref())?;
        let cases = cases.into_iter().cloned().collect();
        Ok(Picked { source, cases })
    }
}

impl Picked {
    pub(super) fn summaries(&self) -> Result<Vec<CaseSummary>, CommandError> {
        summaries(&self.source, &self.cases)
    }
}

pub(super) fn summaries(
    source: &Source,
    cases: &[CaseEntry],
) -> Result<Vec<CaseSummary>, CommandError> {
    let mut facts = HashSet::new();
    let summarised = source.views(cases)?.map(|view| {
        let mut summary = summarise(&view?);
        summary.environment.share(&mut facts);
        Ok(summary)
    });
    Ok(summarised.collect::<Result<_, SourceError>>()?)
}

/// What the conditions of a run say of the limit that it was started with; none where there is none.
pub(super) fn limit(source: &Source) -> Result<Option<String>, CommandError> {
    // Every trial is read for it, which most runs need not pay for.
    if Limit::from_json(&source.run()?.plan["slo"]).is_none() {
        return Ok(None);
    }
    let found = contention::read::read(source, &source.cases()?, None)?;
    Ok(stress::of_limit(&found))
}

/// How each case is called when there are several: the axes in which they differ, else its key.
pub(super) fn labels(cases: &[CaseEntry]) -> BTreeMap<String, String> {
    let label = |pick: source::Pick| {
        let axes: Vec<String> = pick.axes.iter().map(|(a, v)| format!("{a}={v}")).collect();
        let text = match axes.is_empty() {
            true => pick.key.clone(),
            false => format!("{} {}", pick.key, axes.join(",")),
        };
        (pick.key, text)
    };
    source::describe(cases).into_iter().map(label).collect()
}
