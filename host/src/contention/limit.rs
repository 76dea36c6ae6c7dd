//! A limit that was asked for: which conditions keep it, which break it, and of which nothing can be said.

use serde::Serialize;
use serde_json::{Value, json};

use super::report::{Figure, Point};

/// A figure and the most it may be, as `--slo p99=33ms` asks.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// One of [`METRICS`](super::report::METRICS).
    pub metric: String,
    pub ns: f64,
}

impl Limit {
    /// As it is kept with a plan.
    pub fn to_json(&self) -> Value {
        json!({ "metric": self.metric, "limit_ns": self.ns as i64 })
    }

    /// What a plan keeps; none where no limit was asked for.
    pub fn from_json(kept: &Value) -> Option<Self> {
        Some(Self {
            metric: kept["metric"].as_str()?.to_owned(),
            ns: kept["limit_ns"].as_f64()?,
        })
    }
}

/// A limit and what every condition says of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Asked {
    pub metric: String,
    pub limit_ms: f64,
    /// The idle board first.
    pub conditions: Vec<Told>,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Told {
    pub condition: String,
    pub answer: Answer,
    /// That it rests on fewer trials than the percentile needs: then nothing keeps the limit surely. One that
    /// is broken stays broken, since a percentile of few trials is small rather than large.
    pub too_few_trials: Option<String>,
    /// The figure with its 95 % interval over repeats; none where nothing was measured.
    pub figure: Option<Figure>,
}

/// What a condition says of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The whole interval is within the limit.
    Kept,
    /// The whole interval is beyond it.
    Broken,
    /// The limit lies inside the interval, or there is no interval, or too few trials to say that it is kept.
    Undecided,
    /// The load was not what the condition says, or the board changed meanwhile.
    Invalid,
    Unmeasured,
}

impl Asked {
    /// Asks each of these conditions.
    pub(super) fn of<'a>(limit: &Limit, points: impl IntoIterator<Item = &'a Point>) -> Self {
        let limit_ms = limit.ns / 1e6;
        let told = |point: &Point| {
            let figure = point.figures.get(&limit.metric).copied();
            let lack = figure.and_then(|figure| figure.lack(&limit.metric));
            Told {
                condition: point.condition.clone(),
                answer: Answer::of(figure, point.valid, lack.is_none(), limit_ms),
                too_few_trials: lack,
                figure,
            }
        };
        Self {
            metric: limit.metric.clone(),
            limit_ms,
            conditions: points.into_iter().map(told).collect(),
        }
    }
}

impl Answer {
    fn of(figure: Option<Figure>, is_valid: bool, has_enough: bool, limit_ms: f64) -> Self {
        let Some(figure) = figure else {
            return Self::Unmeasured;
        };
        match figure.ci95 {
            _ if !is_valid => Self::Invalid,
            Some((_, high)) if high <= limit_ms && has_enough => Self::Kept,
            Some((low, _)) if low > limit_ms => Self::Broken,
            _ => Self::Undecided,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::testing::point;
    use super::super::trials::Worth;
    use super::*;

    const P99: &str = "latency_p99_ms";

    fn limit(ns: f64) -> Limit {
        Limit {
            metric: P99.into(),
            ns,
        }
    }

    fn measured(condition: &str, ci95: Option<(f64, f64)>, valid: bool) -> Point {
        let figure = Figure {
            ms: 10.0,
            ci95,
            trials: None,
        };
        Point {
            valid,
            figures: BTreeMap::from([(P99.to_owned(), figure)]),
            ..point(condition)
        }
    }

    #[test]
    fn whole_intervals_keep_and_break_a_limit_and_the_rest_decides_nothing() {
        let points = [
            measured("within", Some((9.0, 12.0)), true),
            measured("beyond", Some((12.1, 13.0)), true),
            measured("across", Some((11.0, 12.1)), true),
            measured("one repeat", None, true),
            measured("starved", Some((9.0, 10.0)), false),
            point("never run"),
        ];
        let asked = Asked::of(&limit(12e6), &points);
        let answers: Vec<Answer> = asked.conditions.iter().map(|told| told.answer).collect();
        let expected = [
            Answer::Kept,
            Answer::Broken,
            Answer::Undecided,
            Answer::Undecided,
            Answer::Invalid,
            Answer::Unmeasured,
        ];
        assert_eq!(answers, expected);
        assert_eq!(asked.limit_ms, 12.0);
    }

    #[test]
    fn a_percentile_of_few_trials_keeps_nothing_and_breaks_what_it_breaks() {
        let few = |ci95| {
            let mut point = measured("few", ci95, true);
            let figure = point.figures.get_mut(P99).unwrap();
            figure.trials = Worth::of([&[10_i64; 150][..]; 3], 0.99);
            point
        };
        let points = [few(Some((9.0, 11.0))), few(Some((12.5, 13.0)))];
        let asked = Asked::of(&limit(12e6), &points);
        let answers: Vec<Answer> = asked.conditions.iter().map(|told| told.answer).collect();
        assert_eq!(answers, [Answer::Undecided, Answer::Broken]);
        for told in &asked.conditions {
            let why = told.too_few_trials.as_deref();
            assert_eq!(why, Some("not enough trials for p99: 450 of 662"));
        }
    }

    #[test]
    fn a_plan_keeps_a_limit_and_none_is_none() {
        let kept = limit(33e6);
        assert_eq!(Limit::from_json(&kept.to_json()), Some(kept));
        assert_eq!(Limit::from_json(&Value::Null), None);
    }
}
