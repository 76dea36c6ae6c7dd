//! What `--optimize` looks for: `max rate where p99 <= 33ms`.

use super::figures::CaseFigures;
use crate::fields::condition::{Condition, Op};
use crate::fields::{Field, Unit, find_for_condition};
use crate::stats::{bound, interval, mean};

/// A figure to make as large or small as it goes, under conditions.
#[derive(Debug, Clone, PartialEq)]
pub struct Goal {
    /// As it was written.
    pub text: String,
    pub sense: Sense,
    pub objective: Figure,
    pub limits: Vec<Limit>,
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

/// A condition that a search can judge as it goes: `p99 <= 33ms`, in nanoseconds or hertz.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
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

/// Fields that figures stand for.
const FIGURES: [(&str, Figure); 8] = [
    ("rate_hz", Figure::Rate),
    ("latency_mean_ms", Figure::Mean),
    ("latency_p50_ms", Figure::Quantile(0.5)),
    ("latency_p90_ms", Figure::Quantile(0.9)),
    ("latency_p95_ms", Figure::Quantile(0.95)),
    ("latency_p99_ms", Figure::Quantile(0.99)),
    ("latency_p99_9_ms", Figure::Quantile(0.999)),
    ("latency_p99_99_ms", Figure::Quantile(0.9999)),
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
        let limits = conditions.into_iter().map(Limit::parse);
        Ok(Self {
            text: text.trim().to_owned(),
            sense,
            objective,
            limits: limits.collect::<Result<_, _>>()?,
        })
    }

    /// Whether all conditions hold; one that fails decides.
    pub fn judge(&self, figures: &CaseFigures) -> Judgement {
        let mut undecided = None;
        for limit in &self.limits {
            match limit.judge(figures) {
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
        let field = find_for_condition(name).map_err(|why| format!("{why}: {}", why.hint()))?;
        Self::of(field)
    }

    /// Only what is known of a case while the sweep goes on can be searched by.
    fn of(field: &Field) -> Result<Self, String> {
        let found = FIGURES.iter().find(|(name, _)| *name == field.name);
        found.map(|(_, figure)| *figure).ok_or_else(|| {
            let names: Vec<&str> = FIGURES.iter().map(|(name, _)| *name).collect();
            let (name, all) = (field.name, names.join(", "));
            format!("{name} cannot be searched by; it is one of {all}")
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

impl Limit {
    fn parse(text: &str) -> Result<Self, String> {
        let condition = Condition::parse(text)?;
        let to_base = match condition.field.unit {
            Unit::Milliseconds => 1e6,
            _ => 1.0,
        };
        let at_most = match condition.op {
            Op::AtMost | Op::Below => true,
            Op::AtLeast | Op::Above => false,
            Op::Equal | Op::NotEqual => {
                return Err(format!("`{condition}` is no limit; <= or >= makes one"));
            }
        };
        let limit = Self {
            figure: Figure::of(condition.field)?,
            at_most,
            value: condition.value * to_base,
            text: condition.text,
        };
        match limit.value > 0.0 {
            true => Ok(limit),
            false => Err(format!("`{}`: a limit is above 0", limit.text)),
        }
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
        // A case that fails is not measured again, so that must be as sure as that it holds.
        if found.floor.is_some_and(|floor| floor > self.value) {
            return Judgement::Fails;
        }
        match found.bound {
            Some(bound) if bound <= self.value => Judgement::Holds,
            Some(_) => Judgement::Undecided(
                "its bounds lie on both sides of the limit: more trials narrow them".into(),
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

#[cfg(test)]
pub(super) mod tests {
    use super::super::figures::QuantileFigure;
    use super::*;

    /// Figures of a case: rate by repeat, and p50 and p99 in milliseconds with the bound of p99; lower
    /// bounds are 2 % below.
    pub(crate) fn figures(rates: &[f64], p99_ms: f64, bound_ms: Option<f64>) -> CaseFigures {
        let quantile = |level, ms: f64, bound: Option<f64>| QuantileFigure {
            level,
            value: ms * 1e6,
            bound: bound.map(|ms| ms * 1e6),
            floor: Some(ms * 0.98e6),
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
        assert_eq!(goal.limits[0].value, 33e6);
        assert_eq!(goal.limits[1].value, 10.0);
        assert!(!goal.limits[1].at_most);
        assert_eq!(
            Goal::parse("min latency_p99_ms").unwrap().objective,
            Figure::Quantile(0.99)
        );
        assert_eq!(Limit::parse("p50 < 500us").unwrap().value, 5e5);
        for wrong in [
            "",
            "rate",
            "max",
            "max rate p99",
            "max speed",
            "max rate where p99",
            "max rate where p99 <= fast",
            "max rate where p99 == 3ms",
            "max rate where p99 <= 0ms",
            "max rate where rss_peak_bytes <= 1MiB",
            "max run_id",
        ] {
            assert!(Goal::parse(wrong).is_err(), "{wrong}");
        }
        let slip = Goal::parse("max rate_h").unwrap_err();
        assert!(slip.contains("did you mean rate_hz"), "{slip}");
    }

    #[test]
    fn a_condition_is_judged_on_the_bound_and_not_on_the_point() {
        let limit = Limit::parse("p99 <= 33ms").unwrap();
        let judge = |p99, bound| limit.judge(&figures(&[1.0], p99, bound));
        assert_eq!(judge(30.0, Some(32.0)), Judgement::Holds);
        assert_eq!(judge(34.0, Some(36.0)), Judgement::Fails);
        assert!(matches!(judge(30.0, Some(34.0)), Judgement::Undecided(_)));
        // The point is above the limit, and it may yet be below.
        assert!(matches!(judge(33.5, Some(36.0)), Judgement::Undecided(_)));
        // Too few trials for a bound are enough to see that it fails.
        assert_eq!(judge(70.0, None), Judgement::Fails);
    }

    /// 662 independent trials are the least for p99: with 100 it takes 6.6 times as many.
    #[test]
    fn what_is_undecided_says_what_it_takes() {
        let limit = Limit::parse("p99 <= 33ms").unwrap();
        let Judgement::Undecided(why) = limit.judge(&figures(&[1.0], 30.0, None)) else {
            panic!("decided without a bound");
        };
        assert!(
            why.contains("100 of the 662") && why.contains("6.6 times"),
            "{why}"
        );
    }

    #[test]
    fn a_rate_is_judged_by_its_interval_over_repeats() {
        let limit = Limit::parse("rate >= 100").unwrap();
        let judge = |rates: &[f64]| limit.judge(&figures(rates, 1.0, None));
        assert_eq!(judge(&[110.0, 111.0, 112.0]), Judgement::Holds);
        assert_eq!(judge(&[90.0, 90.5, 91.0]), Judgement::Fails);
        assert!(matches!(judge(&[90.0, 110.0]), Judgement::Undecided(_)));
        assert!(matches!(judge(&[110.0]), Judgement::Undecided(_)));
    }
}
