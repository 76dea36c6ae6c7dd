//! Conditions on fields, the same everywhere: `FIELD OP VALUE[unit]`, such as `p99 <= 33ms`.

use std::fmt;

use super::{Field, Unit, Value, find_for_condition};
use crate::summary::CaseSummary;

/// A condition on one field.
#[derive(Debug, Clone)]
pub struct Condition {
    /// As it was written.
    pub text: String,
    pub field: &'static Field,
    pub op: Op,
    /// In the field's unit.
    pub value: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    AtMost,
    Below,
    AtLeast,
    Above,
    Equal,
    NotEqual,
}

/// Longest first, so that `<=` is not read as `<`.
const OPS: [(&str, Op); 7] = [
    ("<=", Op::AtMost),
    (">=", Op::AtLeast),
    ("==", Op::Equal),
    ("!=", Op::NotEqual),
    ("<", Op::Below),
    (">", Op::Above),
    ("=", Op::Equal),
];

/// What became of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    Yes,
    No,
    /// It cannot be claimed either way, and why.
    Unknown(String),
}

impl Condition {
    pub fn parse(text: &str) -> Result<Self, String> {
        let needed = || format!("`{text}` is no condition; `p99 <= 33ms` is one");
        let found = OPS
            .iter()
            .filter_map(|(sign, op)| Some((text.find(sign)?, *sign, *op)));
        // The first place; of two signs there, the longer.
        let (at, sign, op) = found
            .min_by_key(|(at, sign, _)| (*at, std::cmp::Reverse(sign.len())))
            .ok_or_else(needed)?;
        let (name, value) = (text[..at].trim(), text[at + sign.len()..].trim());
        let field = find_for_condition(name).map_err(|why| format!("{why}: {}", why.hint()))?;
        let value = in_unit(value, field.unit).ok_or_else(|| {
            format!(
                "`{value}` is no value of {} in {}",
                field.name,
                field.unit.name()
            )
        })?;
        Ok(Self {
            text: text.trim().to_owned(),
            field,
            op,
            value,
        })
    }

    /// Whether a number fulfils it.
    pub fn holds(&self, number: f64) -> bool {
        match self.op {
            Op::AtMost => number <= self.value,
            Op::Below => number < self.value,
            Op::AtLeast => number >= self.value,
            Op::Above => number > self.value,
            Op::Equal => number == self.value,
            Op::NotEqual => number != self.value,
        }
    }

    /// Whether it holds for a case.
    ///
    /// An upper limit on a percentile holds when the percentile's bound is below it: then the true value
    /// is, in 99 of 100 experiments. It fails when the measured one is not. Between them, and below the
    /// minimum count, nothing is claimed.
    pub fn check(&self, summary: &CaseSummary) -> Held {
        let value = (self.field.get)(summary);
        let Some(number) = value.as_f64() else {
            return Held::Unknown(match value {
                Value::Unknown => format!("{} was not measured", self.field.name),
                _ => format!("{} is no number", self.field.name),
            });
        };
        let bound = match self.op {
            Op::AtMost | Op::Below => self.bound(),
            _ => None,
        };
        match (self.holds(number), bound) {
            (false, _) => Held::No,
            (true, None) => Held::Yes,
            (true, Some(bound)) => match (bound.get)(summary).as_f64() {
                Some(bound) if self.holds(bound) => Held::Yes,
                Some(bound) => Held::Unknown(format!(
                    "{} is {}, and its bound at 99 % is {}: more trials would tell",
                    self.field.name,
                    shown(number),
                    shown(bound)
                )),
                None => Held::Unknown(format!(
                    "{} is {}, from too few independent trials to claim it",
                    self.field.name,
                    shown(number)
                )),
            },
        }
    }

    /// The bound of a percentile's field.
    fn bound(&self) -> Option<&'static Field> {
        let of_percentile = self.field.name.strip_prefix("latency_p")?;
        let level = of_percentile.strip_suffix("_ms")?;
        super::find(&format!("latency_p{level}_bound_ms")).ok()
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn shown(number: f64) -> String {
    crate::ui::units::figure(number)
}

/// A number with a unit that the field can have; without one it is in the field's own.
fn in_unit(text: &str, unit: Unit) -> Option<f64> {
    let digits = text.trim_end_matches(|c: char| c.is_alphabetic() || c == '%');
    let number: f64 = digits.trim().parse().ok()?;
    let suffix = &text[digits.len()..];
    let scale = match (unit, suffix) {
        (_, "") => 1.0,
        (Unit::Milliseconds, "ns") => 1e-6,
        (Unit::Milliseconds, "us" | "µs") => 1e-3,
        (Unit::Milliseconds, "ms") => 1.0,
        (Unit::Milliseconds, "s") => 1e3,
        (Unit::Hertz, "Hz" | "fps") => 1.0,
        (Unit::Hertz, "kHz") => 1e3,
        (Unit::Hertz, "MHz") => 1e6,
        (Unit::Bytes, "B") => 1.0,
        (Unit::Bytes, "KiB") => 1024.0,
        (Unit::Bytes, "MiB") => 1_048_576.0,
        (Unit::Bytes, "GiB") => 1_073_741_824.0,
        (Unit::Bytes, "kB") => 1e3,
        (Unit::Bytes, "MB") => 1e6,
        (Unit::Bytes, "GB") => 1e9,
        (Unit::Share, "%") => 0.01,
        (Unit::Celsius, "C" | "°C") | (Unit::Watts, "W") | (Unit::Joules, "J") => 1.0,
        (Unit::Watts, "mW") | (Unit::Joules, "mJ") => 1e-3,
        _ => return None,
    };
    let fits = !matches!(unit, Unit::Text | Unit::Flag);
    Some(number * scale).filter(|value| fits && value.is_finite())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::summary::summarise;
    use crate::summary::tests::{hand_worked, view};

    fn parsed(text: &str) -> (&'static str, Op, f64) {
        let condition = Condition::parse(text).unwrap();
        (condition.field.name, condition.op, condition.value)
    }

    #[test]
    fn conditions_are_field_sign_and_value_with_unit() {
        assert_eq!(parsed("p99 <= 33ms"), ("latency_p99_ms", Op::AtMost, 33.0));
        assert_eq!(parsed("p50<900us"), ("latency_p50_ms", Op::Below, 0.9));
        assert_eq!(parsed("rate >= 1.5 kHz"), ("rate_hz", Op::AtLeast, 1500.0));
        assert_eq!(
            parsed("rss_peak_bytes <= 2MiB"),
            ("rss_peak_bytes", Op::AtMost, 2_097_152.0)
        );
        assert_eq!(
            parsed("tool_cpu_share < 5%"),
            ("tool_cpu_share", Op::Below, 0.05)
        );
        assert_eq!(parsed("repeats_failed_count == 0").1, Op::Equal);
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        for wrong in [
            "",
            "p99",
            "p99 <= ",
            "p99 <= 3 Hz",
            "run_id == 3",
            "p98 <= 1ms",
            "<= 3",
        ] {
            assert!(Condition::parse(wrong).is_err(), "{wrong}");
        }
        let slip = Condition::parse("latency_p9_ms <= 1ms").unwrap_err();
        assert!(slip.contains("did you mean"), "{slip}");
    }

    #[test]
    fn a_percentile_is_held_against_its_bound() {
        // 33 trials of 1 to 11 ms: p50 is 6 ms; enough for a bound at p50, not at p99.
        let (_dir, store) = hand_worked();
        let summary = summarise(&view(&store));
        let check = |text| Condition::parse(text).unwrap().check(&summary);
        assert_eq!(check("p50 <= 5ms"), Held::No);
        assert_eq!(check("p50 <= 11ms"), Held::Yes);
        assert!(matches!(check("p50 <= 6.5ms"), Held::Unknown(why) if why.contains("bound")));
        assert!(matches!(check("p99 <= 20ms"), Held::Unknown(why) if why.contains("too few")));
        assert_eq!(check("p99 <= 1ms"), Held::No);
        assert_eq!(check("p50 >= 5ms"), Held::Yes);
        assert!(matches!(
            check("cold_compile_ms > 1s"),
            Held::No | Held::Unknown(_)
        ));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,24}") {
            let _ = Condition::parse(&text);
        }
    }
}
