//! Findings as people are told them: those of one kind together, the worst few of them, the rest folded away.
//!
//! One rule for the terminal and for reports. Documents, queries and traces have every finding by itself.

use std::collections::{BTreeSet, HashMap};

use super::{Finding, Level, rules};
use crate::ui::units::things;

/// So many of a kind are told at once.
const AT_ONCE: usize = 3;

/// By which figure findings of a kind are worse than others. Those that are not here stand in the order of
/// cases and repeats.
const WORST_BY: [(&str, &str); 8] = [
    ("correlated", "autocorrelation_time"),
    ("foreign_load", "share_of_one_cpu"),
    ("load_high", "load"),
    ("load_starved", "kept_from_running_share"),
    ("memory_growth", "share"),
    ("run_queue_delay", "share_of_window"),
    ("slow_moment", "took_ms"),
    ("steal_time", "share_of_one_cpu"),
];

/// All findings of one code and level.
#[derive(Debug, Clone, PartialEq)]
pub struct Kind<'a> {
    pub level: Level,
    pub code: &'static str,
    /// The worst first.
    pub told: Vec<Told<'a>>,
    count: usize,
    cases: BTreeSet<&'a str>,
    repeats: BTreeSet<(&'a str, u32)>,
}

/// What was found, and the cases that have it.
#[derive(Debug, Clone, PartialEq)]
pub struct Told<'a> {
    pub text: String,
    pub cases: Vec<&'a str>,
    weight: f64,
}

/// Where words of a kind stand among those told of it.
type Known = HashMap<(Level, &'static str, String), usize>;

/// Kinds of these findings, each with the name of its case: the gravest first, within a level in the order of
/// the rules.
pub fn kinds<'a>(findings: impl IntoIterator<Item = (&'a str, &'a Finding)>) -> Vec<Kind<'a>> {
    let mut kinds: Vec<Kind<'a>> = Vec::new();
    // Many cases may have thousands of them, each in words of its own.
    let mut known: Known = HashMap::new();
    for (case, finding) in findings {
        let is_same =
            |kind: &&mut Kind<'a>| (kind.level, kind.code) == (finding.level, finding.code);
        match kinds.iter_mut().find(is_same) {
            Some(kind) => kind.add(case, finding, &mut known),
            None => {
                let mut kind = Kind::new(finding);
                kind.add(case, finding, &mut known);
                kinds.push(kind);
            }
        }
    }
    let place = |kind: &Kind<'_>| rules().position(|rule| rule.code == kind.code);
    kinds.sort_by_key(|kind| (std::cmp::Reverse(kind.level), place(kind)));
    for kind in &mut kinds {
        kind.told.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    }
    kinds
}

impl<'a> Kind<'a> {
    fn new(finding: &Finding) -> Self {
        Self {
            level: finding.level,
            code: finding.code,
            told: Vec::new(),
            count: 0,
            cases: BTreeSet::new(),
            repeats: BTreeSet::new(),
        }
    }

    fn add(&mut self, case: &'a str, finding: &Finding, known: &mut Known) {
        self.count += 1;
        self.cases.insert(case);
        self.repeats
            .extend(finding.repeat.map(|repeat| (case, repeat)));
        let text = finding.told();
        let next = self.told.len();
        let same = (self.level, self.code, text.clone());
        let at = *known.entry(same).or_insert(next);
        if at == next {
            self.told.push(Told {
                text,
                cases: Vec::new(),
                weight: weight(finding),
            });
        }
        // A case comes with all its findings, one after the other.
        let cases = &mut self.told[at].cases;
        if cases.last() != Some(&case) {
            cases.push(case);
        }
    }

    /// What is told at once, and what is folded away.
    pub fn split(&self) -> (&[Told<'a>], &[Told<'a>]) {
        self.told.split_at(self.told.len().min(AT_ONCE))
    }

    /// Words before the few that are told, where others are folded away: `15 times in 5 repeats, the worst:`.
    pub fn heading(&self) -> Option<String> {
        let (_, folded) = self.split();
        let is_ordered = WORST_BY.iter().any(|(code, _)| *code == self.code);
        let which = if is_ordered { "worst" } else { "first" };
        (!folded.is_empty()).then(|| format!("{}, the {which}:", self.extent()))
    }

    /// `15 times in 5 repeats of 2 cases`.
    fn extent(&self) -> String {
        let number = |n: usize, what: &str| things(n as u64, what);
        let times = number(self.count, "time");
        let cases = number(self.cases.len(), "case");
        let repeats = number(self.repeats.len(), "repeat");
        let (places, within) = match (self.repeats.len(), self.cases.len()) {
            (0, 1) => return times,
            (0, in_cases) => (in_cases, format!("in {cases}")),
            (in_repeats, 1) => (in_repeats, format!("in {repeats}")),
            (in_repeats, _) => (in_repeats, format!("in {repeats} of {cases}")),
        };
        match places == self.count {
            true => within,
            false => format!("{times} {within}"),
        }
    }
}

impl Told<'_> {
    /// All of them where they are few, else some and how many more.
    pub fn shown_cases(&self) -> String {
        match self.cases.as_slice() {
            few if few.len() <= AT_ONCE => few.join("; "),
            many => format!("{} and {} more cases", many[..2].join("; "), many.len() - 2),
        }
    }
}

/// How bad a finding is among those of its kind.
fn weight(finding: &Finding) -> f64 {
    let by = WORST_BY.iter().find(|(code, _)| *code == finding.code);
    let figure = by.and_then(|(_, figure)| finding.figures.get(*figure)?.as_f64());
    figure.unwrap_or(f64::NEG_INFINITY)
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::ids::Sha256;
    use serde_json::{Map, json};

    use super::*;

    fn finding(code: &'static str, level: Level, repeat: Option<u32>, text: &str) -> Finding {
        Finding {
            code,
            level,
            case: Sha256([1; 32]),
            repeat,
            span: None,
            figures: Map::new(),
            text: text.into(),
        }
    }

    fn slow(repeat: u32, trial: u64, took_ms: f64) -> Finding {
        Finding {
            span: Some((trial, trial + 1)),
            figures: Map::from_iter([("took_ms".to_owned(), json!(took_ms))]),
            ..finding(
                "slow_moment",
                Level::Note,
                Some(repeat),
                &format!("trial {trial} took {took_ms} ms"),
            )
        }
    }

    fn texts<'a>(told: &'a [Told<'_>]) -> Vec<&'a str> {
        told.iter().map(|told| told.text.as_str()).collect()
    }

    /// Three moments in each of two repeats: one kind with the slowest three of all first, and each of them
    /// still says its repeat and its trial.
    #[test]
    fn moments_of_all_repeats_are_one_kind_with_the_worst_first() {
        let all = [
            slow(0, 10, 3.1),
            slow(0, 20, 3.0),
            slow(0, 30, 2.9),
            slow(1, 40, 9.5),
            slow(1, 50, 3.05),
            slow(1, 60, 2.0),
        ];
        let kinds = kinds(all.iter().map(|finding| ("a", finding)));
        let [kind] = kinds.as_slice() else {
            panic!("{kinds:?}");
        };
        let (first, folded) = kind.split();
        let expected = [
            "repeat 1: trial 40 took 9.5 ms",
            "repeat 0: trial 10 took 3.1 ms",
            "repeat 1: trial 50 took 3.05 ms",
        ];
        assert_eq!(texts(first), expected);
        assert_eq!(folded.len(), 3);
        let heading = kind.heading().unwrap();
        assert_eq!(heading, "6 times in 2 repeats, the worst:");
    }

    #[test]
    fn the_same_words_of_many_cases_are_told_once_with_all_their_cases() {
        let names: Vec<String> = (0..40).map(|n| format!("case {n}")).collect();
        let one = finding("no_spare_cpu", Level::Warning, None, "no CPU was left");
        let kinds = kinds(names.iter().map(|name| (name.as_str(), &one)));
        assert_eq!(kinds.len(), 1);
        assert_eq!((kinds[0].told.len(), kinds[0].told[0].cases.len()), (1, 40));
        assert_eq!(kinds[0].heading(), None, "nothing is folded away");
    }

    #[test]
    fn words_that_differ_in_their_figures_are_still_one_kind() {
        let many: Vec<Finding> = (0..40)
            .map(|n| finding("few_samples", Level::Note, None, &format!("{n} trials")))
            .collect();
        let names: Vec<String> = (0..40).map(|n| format!("case {n}")).collect();
        let kinds = kinds(names.iter().map(String::as_str).zip(&many));
        let (first, folded) = kinds[0].split();
        assert_eq!((first.len(), folded.len()), (3, 37));
        let heading = kinds[0].heading().unwrap();
        assert_eq!(heading, "in 40 cases, the first:");
    }

    #[test]
    fn the_gravest_come_first_and_levels_stay_apart() {
        let all = [
            finding("outliers", Level::Note, None, "many"),
            finding("simulated", Level::Note, None, "made up"),
            finding("load_moved", Level::Invalid, Some(0), "elsewhere"),
            finding("bimodal", Level::Warning, Some(0), "two"),
        ];
        let kinds = kinds(all.iter().map(|finding| ("a", finding)));
        let levels: Vec<Level> = kinds.iter().map(|kind| kind.level).collect();
        let expected = [Level::Invalid, Level::Warning, Level::Note, Level::Note];
        assert_eq!(levels, expected);
    }

    #[test]
    fn what_kinds_are_ordered_by_belongs_to_rules() {
        for (code, _) in WORST_BY {
            assert!(rules().any(|rule| rule.code == code), "no rule {code}");
        }
    }
}
