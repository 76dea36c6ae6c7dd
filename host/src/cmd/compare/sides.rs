//! One side of a comparison as it was named: a run, a case of one, a profile, a baseline.

use crate::cli::Global;
use crate::cmd::{here, read};
use crate::compare::arm::Arm;
use crate::compare::baseline::Baseline;
use crate::compare::load;
use crate::compare::metric::Metric;
use crate::compare::report::Named;
use crate::exit::CommandError;
use crate::source::{self, Source};
use crate::store::rows::CaseEntry;
use crate::summary::CaseSummary;
use crate::ui::busy::Busy;

/// A side.
pub(super) struct Side {
    name: String,
    /// The user named this one case, and not a run that happens to have one.
    pub(super) names_one_case: bool,
    pub(super) what: What,
}

pub(super) enum What {
    Measured {
        source: Source,
        cases: Vec<CaseEntry>,
    },
    File(Baseline),
}

impl Side {
    pub(super) fn open(
        name: &str,
        case: Option<&str>,
        global: &Global,
    ) -> Result<Self, CommandError> {
        let here = here()?;
        let path = here.join(name);
        if path.is_file()
            && let Some(baseline) = Baseline::load(&path)?
        {
            return Ok(Self {
                name: name.to_owned(),
                names_one_case: false,
                what: What::File(baseline),
            });
        }
        let looks_like_a_file = path.extension().is_some_and(|ending| ending == "json");
        if looks_like_a_file && !path.exists() {
            let what = format!("there is no file `{name}`");
            return Err(CommandError::usage(what)
                .hint("`edgedyno compare RUN --save-baseline FILE` writes a baseline"));
        }
        let opened = Source::open(name, global.store(), &here)?;
        let wanted = match (&opened.key, case) {
            (Some(_), Some(_)) => {
                let what = format!("a case of `{name}` is named twice");
                return Err(CommandError::usage(what).hint("leave out --case"));
            }
            (Some(key), None) => Some(key.as_str()),
            (None, case) => case,
        };
        let all = opened.source.cases()?;
        let picked = source::matching(&all, wanted)?;
        let cases: Vec<CaseEntry> = picked.into_iter().cloned().collect();
        let is_profile = matches!(opened.source, Source::Profiles(_));
        Ok(Self {
            name: name.to_owned(),
            names_one_case: cases.len() == 1 && (opened.key.is_some() || is_profile),
            what: What::Measured {
                source: opened.source,
                cases,
            },
        })
    }

    pub(super) fn arms(&self, metrics: &[&Metric]) -> Result<Vec<Arm>, CommandError> {
        match &self.what {
            What::Measured { source, cases } => {
                let count = cases.len();
                let _busy = Busy::with(format!("reading {count} cases of {}", self.name));
                Ok(load::arms(source, cases, metrics)?)
            }
            What::File(baseline) => Ok(baseline.cases.clone()),
        }
    }

    pub(super) fn named(&self) -> Named {
        let run = match &self.what {
            What::Measured { source, .. } => source.run().ok().map(|run| run.id.0),
            What::File(baseline) => baseline.cases.first().map(|arm| arm.run.clone()),
        };
        Named {
            name: self.name.clone(),
            run,
        }
    }

    pub(super) fn is_file(&self) -> bool {
        matches!(self.what, What::File(_))
    }

    /// Summaries of its cases, for conditions on them.
    pub(super) fn summaries(&self) -> Result<Vec<CaseSummary>, CommandError> {
        match &self.what {
            What::Measured { source, cases } => read::summaries(source, cases),
            What::File(_) => {
                let what = format!(
                    "`{}` holds no trials that --require could look at",
                    self.name
                );
                Err(CommandError::usage(what).hint("name the baseline as A and a run as B"))
            }
        }
    }

    /// A case of a stored run, and the plan it was measured by.
    pub(super) fn plan_of(
        &self,
        arm: &Arm,
    ) -> Result<(CaseEntry, serde_json::Value), CommandError> {
        let cannot = |why: &str| {
            let what = format!("`{}` cannot be measured again: {why}", self.name);
            CommandError::usage(what).hint("name a run that is in the store, or its tag")
        };
        match &self.what {
            What::File(_) => Err(cannot("a baseline file holds figures and no plan")),
            What::Measured { source, cases } => {
                if matches!(source, Source::Profiles(_)) {
                    return Err(cannot("a profile holds no plan"));
                }
                let entry = cases.iter().find(|entry| entry.key == arm.key());
                let entry = entry.ok_or_else(|| cannot("the case is not in the run"))?;
                Ok((entry.clone(), source.run()?.plan))
            }
        }
    }
}
