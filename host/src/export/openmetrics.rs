//! Figures as OpenMetrics text, for monitoring that reads it from a file or a gateway.
//!
//! The form is <https://prometheus.io/docs/specs/om/open_metrics_spec/>: base units, the unit as the end of the
//! name, metric families whole and in one place, `# EOF` at the end. A figure that is not known has no sample;
//! zero is never written in its place. There are no moments in it: what reads it stamps it.

use std::fmt::Write as _;

use crate::fields::{self, Field, Unit, Value};
use crate::source::Source;
use crate::store::rows::CaseEntry;
use crate::summary::{CaseSummary, summarise};

use super::output::while_writing;
use super::{ExportError, Exporter, Output};

pub(super) struct OpenMetrics;

const FILE: &str = "metrics.txt";

/// Fields that say which case it is; they are labels of the family `edgedyno_case`.
const INFO: [&str; 8] = [
    "board",
    "model_name",
    "backend",
    "runtime_version",
    "precision",
    "scenario",
    "io",
    "condition",
];

impl Exporter for OpenMetrics {
    fn name(&self) -> &'static str {
        "openmetrics"
    }

    fn about(&self) -> &'static str {
        "figures of each case as OpenMetrics text, for monitoring"
    }

    fn makes_folder(&self) -> bool {
        false
    }

    fn write(
        &self,
        source: &Source,
        cases: &[&CaseEntry],
        output: &mut Output,
    ) -> Result<(), ExportError> {
        let summaries: Vec<CaseSummary> = cases
            .iter()
            .map(|case| Ok(summarise(&source.view(case.key)?)))
            .collect::<Result<_, ExportError>>()?;
        let text = text(&summaries);
        output.file(FILE, |to| {
            to.write_all(text.as_bytes()).map_err(while_writing(FILE))
        })
    }
}

/// The whole exposition.
fn text(summaries: &[CaseSummary]) -> String {
    let mut out = String::new();
    info(summaries, &mut out);
    for field in fields::all() {
        family(field, summaries, &mut out);
    }
    out.push_str("# EOF\n");
    out
}

/// One family that says what is behind the keys of the others.
fn info(summaries: &[CaseSummary], out: &mut String) {
    let known = INFO.iter().filter_map(|name| fields::find(name).ok());
    let known: Vec<&Field> = known.collect();
    head(
        out,
        "edgedyno_case",
        "info",
        None,
        "what was measured, and on what",
    );
    for summary in summaries {
        let mut labels = keys(summary);
        for field in &known {
            if let Value::Text(text) = (field.get)(summary) {
                labels.push((field.name.to_owned(), text));
            }
        }
        sample(out, "edgedyno_case_info", &labels, "1");
    }
}

fn family(field: &Field, summaries: &[CaseSummary], out: &mut String) {
    let Some((name, unit, scale)) = named(field) else {
        return;
    };
    let values: Vec<(&CaseSummary, String)> = summaries
        .iter()
        .filter_map(|summary| Some((summary, number(&(field.get)(summary), scale)?)))
        .collect();
    if values.is_empty() {
        return;
    }
    head(out, &name, "gauge", unit, field.definition);
    for (summary, value) in values {
        sample(out, &name, &keys(summary), &value);
    }
}

/// Name, unit and divisor of a field; none for texts. Names keep their order of words and end in the unit.
fn named(field: &Field) -> Option<(String, Option<&'static str>, f64)> {
    let (ending, unit, scale) = match field.unit {
        Unit::Milliseconds => ("_ms", Some("seconds"), 1e3),
        Unit::Hertz => ("_hz", Some("hertz"), 1.0),
        Unit::Bytes => ("_bytes", Some("bytes"), 1.0),
        Unit::Share => ("_share", Some("ratio"), 1.0),
        Unit::Celsius => ("_c", Some("celsius"), 1.0),
        Unit::Watts => ("_w", Some("watts"), 1.0),
        Unit::Joules => ("_j", Some("joules"), 1.0),
        // `_count` ends the samples of summaries and histograms, and no family may take it.
        Unit::Count | Unit::Figure => ("_count", None, 1.0),
        Unit::Flag => ("", None, 1.0),
        Unit::Text => return None,
    };
    let bare = field.name.strip_suffix(ending).unwrap_or(field.name);
    let unit_ending = unit.map(|unit| format!("_{unit}")).unwrap_or_default();
    Some((format!("edgedyno_{bare}{unit_ending}"), unit, scale))
}

fn number(value: &Value, scale: f64) -> Option<String> {
    match value {
        Value::Number(number) => Some((number / scale).to_string()),
        Value::Count(count) => Some(count.to_string()),
        Value::Flag(flag) => Some(u8::from(*flag).to_string()),
        Value::Text(_) | Value::Unknown => None,
    }
}

fn keys(summary: &CaseSummary) -> Vec<(String, String)> {
    vec![
        ("run".into(), summary.run.id.0.clone()),
        ("case".into(), summary.key.to_string()[..16].into()),
    ]
}

fn head(out: &mut String, name: &str, kind: &str, unit: Option<&str>, help: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "# TYPE {name} {kind}");
    if let Some(unit) = unit {
        let _ = writeln!(out, "# UNIT {name} {unit}");
    }
    let _ = writeln!(out, "# HELP {name} {}", escaped(help));
}

fn sample(out: &mut String, name: &str, labels: &[(String, String)], value: &str) {
    let labels: Vec<String> = labels
        .iter()
        .map(|(label, text)| format!("{label}=\"{}\"", escaped(text)))
        .collect();
    let _ = writeln!(out, "{name}{{{}}} {value}", labels.join(","));
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::summary::tests::{hand_worked, view};

    #[test]
    fn figures_stand_in_base_units_and_what_is_not_known_has_no_sample() {
        let (_dir, store) = hand_worked();
        let summary = summarise(&view(&store));
        let text = text(std::slice::from_ref(&summary));
        let case = &summary.key.to_string()[..16];
        let labels = format!("{{run=\"a\",case=\"{case}\"}}");
        for line in [
            "# TYPE edgedyno_latency_p50_seconds gauge",
            "# UNIT edgedyno_latency_p50_seconds seconds",
            "# UNIT edgedyno_rate_hertz hertz",
            "# TYPE edgedyno_trials gauge",
            &format!("edgedyno_trials{labels} 33"),
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "no {line:?} in {text}"
            );
        }
        // A geometric mean of three times 6 ms: the last digits are those of logarithms.
        let p50 = format!("edgedyno_latency_p50_seconds{labels} ");
        let p50 = text
            .lines()
            .find_map(|line| line.strip_prefix(&p50))
            .unwrap();
        assert!(
            (p50.parse::<f64>().unwrap() / 0.006 - 1.0).abs() < 1e-12,
            "{p50}"
        );
        assert!(text.ends_with("# EOF\n"));
        assert!(!text.contains("NaN") && !text.contains("power_mean"));
    }

    #[test]
    fn names_follow_the_rules_and_are_each_one_family() {
        let mut seen = BTreeSet::new();
        for field in fields::all() {
            let Some((name, unit, _)) = named(field) else {
                continue;
            };
            assert!(seen.insert(name.clone()), "{name} twice");
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(name.chars().all(plain), "{name}");
            assert!(
                unit.is_none_or(|unit| name.ends_with(&format!("_{unit}"))),
                "{name}"
            );
            for reserved in ["_total", "_created", "_count", "_sum", "_bucket", "_info"] {
                assert!(!name.ends_with(reserved), "{name}");
            }
        }
    }

    #[test]
    fn labels_are_escaped() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
