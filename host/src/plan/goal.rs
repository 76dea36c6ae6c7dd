//! What `--optimize` looks for: `max rate where p99 <= 33ms`.

use super::figures::CaseFigures;
use crate::stats::{bound, interval, mean};

/// A figure to make as large or small as it goes, under conditions.
#[derive(Debug, Clone, PartialEq)]
pub struct Goal {
    /// As it was written.
    pub text: String,
    pub sense: Sense,
    pub objective: Figure,
    pub conditions: Vec<Condition>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sense {
    Max,
    Min,
}

/// A figure of a case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Figure {
    Rate,
    Mean,
    /// By its level, such as 0.99.
    Quantile(f64),
}

/// `p99 <= 33ms`, with the value in nanoseconds or hertz.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    pub text: String,
    pub figure: Figure,
    pub at_most: bool,
    pub value: f64,
}

/// Whether a condition holds for a case, by what was measured.
#[derive(Debug, Clone, PartialEq)]
pub enum Judgement {
    /// The bound is on the right side.
    Holds,
    Fails,
    /// Not known yet, and what it would take.
    Undecided(String),
}

/// Names of figures, short and as fields.
const FIGURES: [(&str, &str, Figure); 8] = [
    ("rate", "rate_hz", Figure::Rate),
    ("mean", "latency_mean_ms", Figure::Mean),
    ("p50", "latency_p50_ms", Figure::Quantile(0.5)),
    ("p90", "latency_p90_ms", Figure::Quantile(0.9)),
    ("p95", "latency_p95_ms", Figure::Quantile(0.95)),
    ("p99", "latency_p99_ms", Figure::Quantile(0.99)),
    ("p99.9", "latency_p99_9_ms", Figure::Quantile(0.999)),
    ("p99.99", "latency_p99_99_ms", Figure::Quantile(0.9999)),
];

impl Goal {
    /// `max FIELD [where CONDITION [and CONDITION ...]]`, or `min`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let needed = || "a goal such as \"max rate where p99 <= 33ms\" is needed".to_owned();
        let (what, conditions) = match text.split_once(" where ") {
            Some((what, conditions)) => (what, conditions.split(" and ").collect()),
            None => (text, Vec::new()),
        };
        let mut words = what.split_whitespace();
        let sense = match words.next() {
            Some("max") => Sense::Max,
            Some("min") => Sense::Min,
            _ => return Err(needed()),
        };
        let objective = Figure::parse(words.next().ok_or_else(needed)?)?;
        if words.next().is_some() {
            return Err(needed());
        }
        let conditions = conditions.into_iter().map(Condition::parse);
        Ok(Self {
            text: text.trim().to_owned(),
            sense,
            objective,
            conditions: conditions.collect::<Result<_, _>>()?,
        })
    }

    /// Whether all conditions hold; one that fails decides.
    pub fn judge(&self, figures: &CaseFigures) -> Judgement {
        let mut undecided = None;
        for condition in &self.conditions {
            match condition.judge(figures) {
                Judgement::Fails => return Judgement::Fails,
                Judgement::Undecided(why) => undecided = undecided.or(Some(why)),
                Judgement::Holds => {}
            }
        }
        undecided.map_or(Judgement::Holds, Judgement::Undecided)
    }

    /// The objective's value; larger is better, so that a latency to make small is below zero.
    pub fn score(&self, figures: &CaseFigures) -> Option<f64> {
        let value = self.objective.value(figures)?;
        Some(match self.sense {
            Sense::Max => value,
            Sense::Min => -value,
        })
    }

    /// The scores that the objective lies between at 95 %; none before a second repeat.
    pub fn span(&self, figures: &CaseFigures) -> Option<(f64, f64)> {
        let by_repeat = match self.objective {
            Figure::Rate => &figures.rate_hz,
            Figure::Quantile(0.5) => &figures.p50_ns,
            // Only these are kept by repeat; by others no case is dropped for being worse.
            Figure::Mean | Figure::Quantile(_) => return None,
        };
        let estimate = interval::over_repeats(by_repeat, 0.95)?;
        Some(match self.sense {
            Sense::Max => (estimate.low, estimate.high),
            Sense::Min => (-estimate.high, -estimate.low),
        })
    }
}

impl Figure {
    fn parse(name: &str) -> Result<Self, String> {
        let found = FIGURES
            .iter()
            .find(|(short, field, _)| name == *short || name == *field);
        found.map(|(_, _, figure)| *figure).ok_or_else(|| {
            let names: Vec<&str> = FIGURES.iter().map(|(short, ..)| *short).collect();
            match crate::near::matches(name, names.iter().copied()).first() {
                Some(near) => format!("there is no figure `{name}`; did you mean {near}?"),
                None => format!(
                    "there is no figure `{name}`; it is one of {}",
                    names.join(", ")
                ),
            }
        })
    }

    /// In nanoseconds or hertz.
    pub fn value(self, figures: &CaseFigures) -> Option<f64> {
        match self {
            Self::Rate => mean::over_repeats(&figures.rate_hz),
            Self::Mean => figures.mean_ns,
            Self::Quantile(level) => {
                let found = figures.quantiles.iter().find(|q| q.level == level);
                found.map(|quantile| quantile.value)
            }
        }
    }
}

impl Condition {
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let needed = || format!("`{text}` is no condition; one such as p99 <= 33ms is needed");
        let at = text.find(['<', '>']).ok_or_else(needed)?;
        let figure = Figure::parse(text[..at].trim())?;
        let at_most = text[at..].starts_with('<');
        let value = text[at + 1..].strip_prefix('=').unwrap_or(&text[at + 1..]);
        let value = match figure {
            Figure::Rate => hertz(value.trim()),
            Figure::Mean | Figure::Quantile(_) => nanoseconds(value.trim()),
        };
        Ok(Self {
            text: text.to_owned(),
            figure,
            at_most,
            value: value.ok_or_else(needed)?,
        })
    }

    /// A latency at most so long holds by its bound and not by its point.
    pub fn judge(&self, figures: &CaseFigures) -> Judgement {
        match (self.figure, self.at_most) {
            (Figure::Quantile(level), true) => self.judge_quantile(level, figures),
            _ => self.judge_interval(figures),
        }
    }

    fn judge_quantile(&self, level: f64, figures: &CaseFigures) -> Judgement {
        let Some(found) = figures.quantiles.iter().find(|q| q.level == level) else {
            return Judgement::Undecided("nothing is measured".into());
        };
        // A lower quantile above the limit settles it with far fewer trials.
        let median = figures.quantiles.iter().find(|q| q.level == 0.5);
        let is_beyond = |at: f64| at > self.value;
        if median.is_some_and(|m| m.bound.is_some() && is_beyond(m.value)) {
            return Judgement::Fails;
        }
        match found.bound {
            Some(bound) if bound <= self.value => Judgement::Holds,
            Some(_) if is_beyond(found.value) => Judgement::Fails,
            Some(_) => Judgement::Undecided(
                "its bound is above the limit and its point below: more trials narrow it".into(),
            ),
            None => {
                let needs = bound::minimum_count(level).unwrap_or(u64::MAX);
                let times = needs as f64 / found.n_eff.max(1.0);
                Judgement::Undecided(format!(
                    "it has {:.0} of the {needs} independent trials that a bound takes: {:.1} times as \
                     many would tell",
                    found.n_eff,
                    times.max(1.1)
                ))
            }
        }
    }

    /// By the 95 % interval over repeats.
    fn judge_interval(&self, figures: &CaseFigures) -> Judgement {
        let by_repeat = match self.figure {
            Figure::Rate => figures.rate_hz.clone(),
            Figure::Quantile(0.5) => figures.p50_ns.clone(),
            Figure::Mean | Figure::Quantile(_) => Vec::new(),
        };
        let Some(estimate) = interval::over_repeats(&by_repeat, 0.95) else {
            return Judgement::Undecided("two repeats at least are needed".into());
        };
        let (good, bad) = match self.at_most {
            true => (estimate.high <= self.value, estimate.low > self.value),
            false => (estimate.low >= self.value, estimate.high < self.value),
        };
        match (good, bad) {
            (true, _) => Judgement::Holds,
            (_, true) => Judgement::Fails,
            _ => {
                Judgement::Undecided("its interval holds the limit: more repeats narrow it".into())
            }
        }
    }
}

/// `33ms`; milliseconds without a unit, as the fields have them.
fn nanoseconds(text: &str) -> Option<f64> {
    let units = [
        ("ns", 1.0),
        ("us", 1e3),
        ("µs", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
    ];
    quantity(text, &units, 1e6)
}

fn hertz(text: &str) -> Option<f64> {
    quantity(
        text,
        &[("kHz", 1e3), ("Hz", 1.0), ("/s", 1.0), ("fps", 1.0)],
        1.0,
    )
}

fn quantity(text: &str, units: &[(&str, f64)], usual: f64) -> Option<f64> {
    let unit = units
        .iter()
        .find_map(|(unit, size)| Some((text.strip_suffix(unit)?, *size)));
    let (number, size) = unit.unwrap_or((text, usual));
    let number: f64 = number.trim().parse().ok()?;
    (number.is_finite() && number > 0.0).then_some(number * size)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::figures::QuantileFigure;
    use super::*;

    /// Figures of a case: rate by repeat, and p50 and p99 in milliseconds with the bound of p99.
    pub(crate) fn figures(rates: &[f64], p99_ms: f64, bound_ms: Option<f64>) -> CaseFigures {
        let quantile = |level, ms: f64, bound: Option<f64>| QuantileFigure {
            level,
            value: ms * 1e6,
            bound: bound.map(|ms| ms * 1e6),
            n_eff: 100.0,
        };
        CaseFigures {
            p50_ns: rates.iter().map(|rate| 1e9 / rate).collect(),
            rate_hz: rates.to_vec(),
            quantiles: vec![
                quantile(0.5, p99_ms / 2.0, Some(p99_ms / 2.0)),
                quantile(0.99, p99_ms, bound_ms),
            ],
            mean_ns: None,
        }
    }

    #[test]
    fn a_goal_is_read() {
        let goal = Goal::parse("max rate where p99 <= 33ms and rate >= 10").unwrap();
        assert_eq!((goal.sense, goal.objective), (Sense::Max, Figure::Rate));
        assert_eq!(goal.conditions[0].value, 33e6);
        assert_eq!(goal.conditions[1].value, 10.0);
        assert!(!goal.conditions[1].at_most);
        assert_eq!(
            Goal::parse("min latency_p99_ms").unwrap().objective,
            Figure::Quantile(0.99)
        );
        assert_eq!(Condition::parse("p50<500us").unwrap().value, 5e5);
        for wrong in [
            "",
            "rate",
            "max",
            "max rate p99",
            "max speed",
            "max rate where p99",
            "max rate where p99 <= fast",
        ] {
            assert!(Goal::parse(wrong).is_err(), "{wrong}");
        }
        assert!(
            Goal::parse("max rte")
                .unwrap_err()
                .contains("did you mean rate?")
        );
    }

    #[test]
    fn a_condition_is_judged_on_the_bound_and_not_on_the_point() {
        let condition = Condition::parse("p99 <= 33ms").unwrap();
        let judge = |p99, bound| condition.judge(&figures(&[1.0], p99, bound));
        assert_eq!(judge(30.0, Some(32.0)), Judgement::Holds);
        assert_eq!(judge(34.0, Some(36.0)), Judgement::Fails);
        assert!(matches!(judge(30.0, Some(34.0)), Judgement::Undecided(_)));
        // The median alone is above the limit.
        assert_eq!(judge(70.0, None), Judgement::Fails);
    }

    /// 662 independent trials are the least for p99: with 100 it takes 6.6 times as many.
    #[test]
    fn what_is_undecided_says_what_it_takes() {
        let condition = Condition::parse("p99 <= 33ms").unwrap();
        let Judgement::Undecided(why) = condition.judge(&figures(&[1.0], 30.0, None)) else {
            panic!("decided without a bound");
        };
        assert!(
            why.contains("100 of the 662") && why.contains("6.6 times"),
            "{why}"
        );
    }

    #[test]
    fn a_rate_is_judged_by_its_interval_over_repeats() {
        let condition = Condition::parse("rate >= 100").unwrap();
        let judge = |rates: &[f64]| condition.judge(&figures(rates, 1.0, None));
        assert_eq!(judge(&[110.0, 111.0, 112.0]), Judgement::Holds);
        assert_eq!(judge(&[90.0, 90.5, 91.0]), Judgement::Fails);
        assert!(matches!(judge(&[90.0, 110.0]), Judgement::Undecided(_)));
        assert!(matches!(judge(&[110.0]), Judgement::Undecided(_)));
    }
}
