//! One measured number as text and as JSON.

use std::fmt;

use serde_json::{Value, json};

use super::verdict::{Goal, Interval, Verdict, judge};

/// A measured number beside its goal.
#[derive(Debug, Clone)]
pub struct Figure {
    /// Name of the benchmark.
    pub name: &'static str,
    pub what: String,
    /// Empty for a ratio.
    pub unit: &'static str,
    /// One for each repetition, in the order in which they were measured.
    pub samples: Vec<f64>,
    pub goal: Goal,
    /// Ratios of the same thing to itself, from the same run.
    pub control: Vec<f64>,
    pub beside: Vec<Beside>,
}

/// A number to read the figure by; it has no goal.
#[derive(Debug, Clone)]
pub struct Beside {
    pub what: String,
    pub unit: &'static str,
    pub samples: Vec<f64>,
}

impl Beside {
    pub fn new(what: impl Into<String>, unit: &'static str, samples: Vec<f64>) -> Self {
        Self {
            what: what.into(),
            unit,
            samples,
        }
    }
}

impl Figure {
    pub fn verdict(&self) -> Verdict {
        let (measured, control) = (Interval::over(&self.samples), Interval::over(&self.control));
        judge(measured.as_ref(), self.goal, control.as_ref())
    }

    pub fn to_json(&self) -> Value {
        let beside = self.beside.iter().map(|beside| {
            json!({
                "what": beside.what,
                "unit": beside.unit,
                "value": estimate(&beside.samples),
            })
        });
        json!({
            "name": self.name,
            "what": self.what,
            "unit": self.unit,
            "value": estimate(&self.samples),
            "samples": self.samples,
            "goal": self.goal.to_string(),
            "verdict": self.verdict().words(),
            "control": estimate(&self.control),
            "beside": beside.collect::<Vec<_>>(),
        })
    }
}

fn estimate(samples: &[f64]) -> Value {
    match Interval::over(samples) {
        Some(interval) => json!({
            "point": interval.point,
            "low": interval.low,
            "high": interval.high,
            "count": samples.len(),
        }),
        None => json!({ "point": samples.first(), "count": samples.len() }),
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name, what, unit, ..
        } = self;
        writeln!(f, "{name}: {what}")?;
        writeln!(f, "  measured  {}", Shown(&self.samples, unit))?;
        let goal = format!("{} {unit}", self.goal);
        writeln!(
            f,
            "  goal      {}: {}",
            goal.trim_end(),
            self.verdict().words()
        )?;
        write!(f, "  A/A       {}", Shown(&self.control, ""))?;
        for Beside {
            what,
            unit,
            samples,
        } in &self.beside
        {
            write!(f, "\n  beside    {what}: {}", Shown(samples, unit))?;
        }
        Ok(())
    }
}

/// Samples as a point, an interval and their number.
struct Shown<'a>(&'a [f64], &'static str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(samples, unit) = self;
        let gap = if unit.is_empty() { "" } else { " " };
        match (Interval::over(samples), samples) {
            (Some(Interval { point, low, high }), _) => {
                let decimals = decimals(high);
                let n = samples.len();
                write!(
                    f,
                    "{point:.decimals$}{gap}{unit}  [{low:.decimals$}, {high:.decimals$}]  n = {n}"
                )
            }
            (None, [only]) => write!(f, "{only:.*}{gap}{unit}  n = 1", decimals(*only)),
            (None, _) => write!(f, "none"),
        }
    }
}

/// Four significant digits of numbers below 1 000.
fn decimals(value: f64) -> usize {
    match value {
        v if v >= 1000.0 => 0,
        v if v >= 100.0 => 1,
        v if v >= 10.0 => 2,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(samples: &[f64]) -> Figure {
        Figure {
            name: "loop",
            what: "period".into(),
            unit: "ns",
            samples: samples.into(),
            goal: Goal::AtMost(100.0),
            control: vec![1.0, 1.0],
            beside: vec![Beside::new("two clock reads", "ns", vec![41.5])],
        }
    }

    #[test]
    fn a_figure_is_shown_with_goal_verdict_and_noise() {
        let text = figure(&[60.0, 60.0]).to_string();
        let expected = "loop: period\n  measured  60.00 ns  [60.00, 60.00]  n = 2\n  goal      at most 100 ns: met\n  \
            A/A       1.0000  [1.0000, 1.0000]  n = 2\n  beside    two clock reads: 41.50 ns  n = 1";
        assert_eq!(text, expected);
    }

    #[test]
    fn one_sample_has_no_interval_in_json_either() {
        let json = figure(&[60.0]).to_json();
        assert_eq!(json["value"], json!({"point": 60.0, "count": 1}));
        assert_eq!(json["verdict"], Verdict::NotJudged.words());
    }
}
