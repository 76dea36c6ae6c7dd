//! Findings: rules that look at a case and say what a reader must know before trusting its figures.
//!
//! One row of `RULES` makes a rule known to `summary`, to its JSON and to `docs/findings.md`.

mod clocks;
mod environment;
pub(crate) mod governors;
mod held_back;
pub mod kinds;
mod load;
mod measured;
mod outcome;
mod outputs;
mod page;
mod placement;
pub mod quiet;
mod soak;
mod stress;
pub mod sweep;
mod telemetry;
mod tool;
mod window;

#[cfg(test)]
pub(crate) mod tests;

use edgedyno_shared::ids::Sha256;
use serde_json::{Map, Value};

use crate::summary::CaseSummary;
use crate::view::{CaseView, RepeatView};

pub(crate) use environment::throttling;
pub(crate) use load::foreign_share;
pub(crate) use measured::{measured_cpus, policies_of};
pub use page::page;
pub use window::CORRELATED;

/// A rule that fired.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    pub code: &'static str,
    pub level: Level,
    pub case: Sha256,
    /// None when it is about the case as a whole.
    pub repeat: Option<u32>,
    /// Measured trials it is about, counted from the first of the window, the end left out.
    pub span: Option<(u64, u64)>,
    pub figures: Map<String, Value>,
    pub text: String,
}

impl Finding {
    /// Its words where it is read among those of other repeats. Some begin with their repeat already, because
    /// they are read alone elsewhere.
    pub fn told(&self) -> String {
        let repeat = self.repeat.map(|repeat| format!("repeat {repeat}"));
        match repeat.filter(|repeat| !self.text.starts_with(repeat.as_str())) {
            Some(repeat) => format!("{repeat}: {}", self.text),
            None => self.text.clone(),
        }
    }
}

/// How much a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Worth knowing.
    Note,
    /// Figures may not mean what they seem to.
    Warning,
    /// Figures must not be used.
    Invalid,
}

/// One rule.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    pub code: &'static str,
    pub level: Level,
    /// When it fires and what that means.
    pub meaning: &'static str,
    check: fn(&Evidence<'_>) -> Vec<Hit>,
}

/// What rules look at.
#[derive(Debug, Clone, Copy)]
struct Evidence<'a> {
    view: &'a CaseView,
    summary: &'a CaseSummary,
    /// Of the rule that looks.
    code: &'static str,
}

/// Where and with which figures a rule fired.
#[derive(Debug, Clone, PartialEq, Default)]
struct Hit {
    repeat: Option<u32>,
    span: Option<(u64, u64)>,
    figures: Map<String, Value>,
    text: String,
}

/// The rules, by subject.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    RULES.iter().copied().flatten()
}

const RULES: &[&[Rule]] = &[
    outcome::RULES,
    placement::RULES,
    window::RULES,
    environment::RULES,
    clocks::RULES,
    load::RULES,
    outputs::RULES,
    stress::RULES,
    sweep::RULES,
    tool::RULES,
    telemetry::RULES,
    soak::RULES,
];

/// All findings of a case, the gravest first, in the order of the rules within a level.
pub fn check(view: &CaseView, summary: &CaseSummary) -> Vec<Finding> {
    let fire = |rule: &'static Rule| {
        let evidence = Evidence {
            view,
            summary,
            code: rule.code,
        };
        let hits = (rule.check)(&evidence).into_iter();
        hits.map(move |hit| Finding::new(rule, view.entry.key, hit))
    };
    let mut findings: Vec<Finding> = rules().flat_map(fire).collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    findings
}

impl Finding {
    fn new(rule: &'static Rule, case: Sha256, hit: Hit) -> Self {
        Self {
            code: rule.code,
            level: rule.level,
            case,
            repeat: hit.repeat,
            span: hit.span,
            figures: hit.figures,
            text: hit.text,
        }
    }

    pub fn to_json(&self) -> Value {
        serde_json::json!({
            "code": self.code,
            "level": self.level.name(),
            "case": self.case.to_string(),
            "repeat": self.repeat,
            "span": self.span.map(|(from, to)| [from, to]),
            "figures": self.figures,
            "text": self.text,
        })
    }
}

impl Level {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Invalid => "invalid",
        }
    }
}

impl Hit {
    fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    fn of(repeat: &RepeatView, text: impl Into<String>) -> Self {
        Self {
            repeat: Some(repeat.row.key.repeat),
            ..Self::new(text)
        }
    }

    fn figure(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.figures.insert(name.into(), value.into());
        self
    }

    fn span(mut self, from: u64, to: u64) -> Self {
        self.span = Some((from, to));
        self
    }
}

impl Evidence<'_> {
    fn counting(&self) -> impl Iterator<Item = &RepeatView> {
        self.view.counting()
    }

    /// Findings that were stored with the case under the code of the rule.
    fn noted(&self) -> Vec<Hit> {
        let notes = self.view.notes.iter();
        let notes = notes.filter(|note| note.code == self.code);
        notes
            .map(|note| Hit {
                repeat: note.repeat,
                span: None,
                figures: note.figures.clone(),
                text: note.text.clone(),
            })
            .collect()
    }
}
