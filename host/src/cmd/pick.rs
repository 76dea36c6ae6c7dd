//! Runs and cases by the names people give them: `RUN`, `RUN/CASE`, `--case threads=2`.

use clap::Args;
use edgedyno_shared::case::Case;
use edgedyno_shared::ids::{RunId, Sha256};

use crate::exit::CommandError;
use crate::near;
use crate::plan::axes::axes;
use crate::store::Store;
use crate::store::rows::CaseEntry;

#[derive(Debug, Clone, Args)]
pub struct CaseOption {
    /// A case of the run: the beginning of its key, or axes such as threads=2,batch=1
    #[arg(long = "case", value_name = "KEY")]
    pub case: Option<String>,
}

/// Cases of a run that were asked for; all of them when none was named.
pub(super) struct Picked {
    pub(super) run: RunId,
    pub(super) cases: Vec<CaseEntry>,
}

impl Picked {
    /// Finds what `RUN[/CASE]` and `--case` mean.
    pub(super) fn find(
        store: &Store,
        name: &str,
        option: &CaseOption,
    ) -> Result<Self, CommandError> {
        let (run, in_name) = match name.split_once('/') {
            Some((run, case)) => (run, Some(case)),
            None => (name, None),
        };
        let run = store.resolve(run)?;
        let cases = store.cases(&run)?;
        let wanted = match (in_name, option.case.as_deref()) {
            (Some(_), Some(_)) => {
                let what = "a case is named twice: after the slash and with --case";
                return Err(CommandError::usage(what));
            }
            (one, other) => one.or(other),
        };
        let cases = match wanted {
            None => cases,
            Some(wanted) => select(&run, cases, wanted)?,
        };
        Ok(Self { run, cases })
    }

    /// The one case there is.
    ///
    /// # Errors
    /// When there are several, listing their keys.
    pub(super) fn only(&self) -> Result<Sha256, CommandError> {
        match self.cases.as_slice() {
            [one] => Ok(one.key),
            [] => Err(CommandError::usage(format!("run {} has no case", self.run))),
            several => {
                let what = format!("run {} has {} cases", self.run, several.len());
                let error = several
                    .iter()
                    .fold(CommandError::usage(what), |error, entry| {
                        error.cause(describe(entry))
                    });
                Err(error.hint(format!(
                    "name one: {}/{} or --case AXIS=VALUE",
                    self.run,
                    short(several[0].key)
                )))
            }
        }
    }
}

fn short(key: Sha256) -> String {
    key.to_string()[..8].to_owned()
}

fn describe(entry: &CaseEntry) -> String {
    let axes = axes_of(entry).into_iter();
    let axes: Vec<String> = axes
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    format!("{} {}", short(entry.key), axes.join(","))
}

fn axes_of(entry: &CaseEntry) -> Vec<(String, String)> {
    axes(&Case::from(&entry.case))
}

fn select(
    run: &RunId,
    cases: Vec<CaseEntry>,
    wanted: &str,
) -> Result<Vec<CaseEntry>, CommandError> {
    let pairs = match wanted.contains('=') {
        true => Some(pairs(wanted, &cases)?),
        false => None,
    };
    let fits = |entry: &CaseEntry| match &pairs {
        None => entry.key.to_string().starts_with(wanted),
        Some(pairs) => {
            let axes = axes_of(entry);
            pairs.iter().all(|pair| axes.contains(pair))
        }
    };
    let (found, others): (Vec<_>, Vec<_>) = cases.into_iter().partition(fits);
    if found.is_empty() {
        let what = format!("run {run} has no case `{wanted}`");
        let error = others
            .iter()
            .fold(CommandError::usage(what), |error, entry| {
                error.cause(describe(entry))
            });
        return Err(error.hint("use the beginning of a key, or axes such as threads=2,batch=1"));
    }
    if pairs.is_none() && found.len() > 1 {
        let what = format!("`{wanted}` begins the keys of {} cases", found.len());
        return Err(CommandError::usage(what).hint("give more of the key"));
    }
    Ok(found)
}

/// `threads=2,batch=1`; an axis that no case has is an error with near matches.
fn pairs(wanted: &str, cases: &[CaseEntry]) -> Result<Vec<(String, String)>, CommandError> {
    let known: Vec<String> = cases
        .iter()
        .flat_map(|entry| axes_of(entry).into_iter().map(|(name, _)| name))
        .collect();
    let mut out: Vec<(String, String)> = Vec::new();
    for part in wanted.split(',') {
        match part.split_once('=') {
            Some((name, value)) if known.iter().any(|axis| axis == name) => {
                out.push((name.to_owned(), value.to_owned()));
            }
            Some((name, _)) => {
                let near = near::matches(name, known.iter().map(String::as_str));
                let hint = match near.first() {
                    Some(near) => format!("did you mean {near}?"),
                    None => "`edgedyno summary RUN --json` lists the axes".into(),
                };
                return Err(CommandError::usage(format!("there is no axis `{name}`")).hint(hint));
            }
            // A value may hold commas: `cpus=0-1,3`.
            None => match out.last_mut() {
                Some((_, value)) => *value = format!("{value},{part}"),
                None => {
                    let what = format!("`{part}` is no AXIS=VALUE");
                    return Err(CommandError::usage(what));
                }
            },
        }
    }
    Ok(out)
}
