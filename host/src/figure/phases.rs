//! Where the time of a trial goes: the phases that a backend tells, one bar for each case.

use super::stack::{Bar, Row, Words, stack};
use super::{Figure, Labelled};

/// Different phases of one figure; what comes after them is drawn as one.
const MOST_PHASES: usize = 5;

/// What lies in no phase, or in phases that are drawn as one.
const REST: &str = "everything else";

/// Mean lengths of one case in nanoseconds, over its measured trials. Means add up, medians do not.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Phases {
    /// In the order in which they were declared, occurrences of one phase together.
    pub phases: Vec<(String, f64)>,
    /// Of a whole trial.
    pub trial: f64,
}

/// One bar a case; none where no backend told any phase.
pub fn phases(cases: &[Labelled<Phases>]) -> Option<Figure> {
    let mut parts: Vec<String> = Vec::new();
    for (name, _) in cases.iter().flat_map(|case| &case.of.phases) {
        if !parts.contains(name) {
            parts.push(name.clone());
        }
    }
    parts.truncate(MOST_PHASES);
    let row = |case: &Labelled<Phases>| {
        let length = |part: &String| {
            let found = case.of.phases.iter().find(|(name, _)| name == part);
            found.map(|(_, ns)| *ns)
        };
        let mut of: Vec<Option<f64>> = parts.iter().map(length).collect();
        let told: f64 = of.iter().flatten().sum();
        // Phases that overlap come to more than the trial, and leave no rest.
        of.push(Some(case.of.trial - told).filter(|rest| *rest > 0.0));
        Row {
            label: case.label.clone(),
            of: Bar::of(of),
        }
    };
    let told = cases.iter().filter(|case| !case.of.phases.is_empty());
    let rows: Vec<Row> = told.map(row).collect();
    parts.push(REST.into());
    let words = Words {
        name: "phases",
        title: "Where the time of a run goes",
        about: "Phases as the backend tells them, means over the measured trials of up to six repeats; what it does \
                more than once in a trial is added up. A bar is as long as the mean trial, and longer only where \
                phases overlap."
            .into(),
        parts: &parts,
    };
    stack(words, &rows)
}
