//! A comparison as JUnit XML: each cell is a test, which fails where a gate trips on it, and is skipped
//! where nothing could be decided.

use super::label;
use crate::compare::cell::{Cell, Verdict};
use crate::compare::gate::{self, Outcome};
use crate::compare::report::Comparison;

pub fn junit(comparison: &Comparison) -> String {
    let labels = label::pairs(comparison);
    let tests: Vec<String> = comparison
        .cells
        .iter()
        .map(|cell| test(comparison, cell, &labels[cell.pair]))
        .chain(
            comparison
                .gates
                .iter()
                .filter(|g| !is_fail_over(&g.gate))
                .map(requirement),
        )
        .collect();
    let count = |what: &str| tests.iter().filter(|test| test.contains(what)).count();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuites>\n  <testsuite name=\"edgedyno compare {} {}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n{}\n  </testsuite>\n</testsuites>",
        escaped(&comparison.a.name),
        escaped(&comparison.b.name),
        tests.len(),
        count("<failure "),
        count("<skipped "),
        tests.join("\n"),
    )
}

fn is_fail_over(gate: &str) -> bool {
    gate.starts_with("--fail-over")
}

fn test(comparison: &Comparison, cell: &Cell, name: &str) -> String {
    let said = format!(
        "{}: {} against {}, {} ({})",
        label::verdict(cell),
        label::figure(cell.metric, &cell.b),
        label::figure(cell.metric, &cell.a),
        label::change(cell.change()),
        label::interval(cell),
    );
    let tripped = comparison
        .fail_over
        .is_some_and(|share| gate::trips(cell, share));
    let body = match cell.verdict {
        _ if tripped => format!("<failure message=\"{}\"/>", escaped(&said)),
        Verdict::Undecided(_) | Verdict::NotComparable => {
            format!("<skipped message=\"{}\"/>", escaped(&said))
        }
        _ => format!("<system-out>{}</system-out>", escaped(&said)),
    };
    format!(
        "    <testcase classname=\"{}\" name=\"{}\">{body}</testcase>",
        escaped(cell.metric.name),
        escaped(name)
    )
}

fn requirement(gate: &gate::GateResult) -> String {
    let said = escaped(&gate.reasons.join("; "));
    let body = match gate.outcome {
        Outcome::Passed => String::new(),
        Outcome::Tripped => format!("<failure message=\"{said}\"/>"),
        Outcome::Undecided => format!("<skipped message=\"{said}\"/>"),
    };
    format!(
        "    <testcase classname=\"require\" name=\"{}\">{body}</testcase>",
        escaped(&gate.gate)
    )
}

/// Text that XML takes: its own signs named, control characters replaced.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_the_document() {
        assert_eq!(
            escaped("a<b>&\"c\"\u{1}"),
            "a&lt;b&gt;&amp;&quot;c&quot;\u{fffd}"
        );
    }
}
