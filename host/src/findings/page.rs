//! The documentation page of the rule table.

use super::{Rule, rules};

/// `docs/findings.md`.
pub fn page() -> String {
    let mut out = String::from(
        "# Findings\n\n\
         <!-- Generated from host/src/findings by `EDGEDYNO_REWRITE=1 cargo test -p edgedyno`. -->\n\n\
         A finding is a rule that fired. A `note` is worth knowing, a `warning` means that figures may not\n\
         mean what they seem to, `invalid` that they must not be used (exit code 6). Findings are worked out\n\
         from what is stored whenever a result is read, so a later version may find more.\n\n\
         `summary` and reports tell those of one kind together: the worst three, and how many more.\n\
         `summary --findings` and a report unfold the others; JSON, `query` and traces have each by itself, with\n\
         its repeat and trials.\n\n\
         | code | level | meaning |\n|---|---|---|\n",
    );
    out.extend(rules().map(row));
    out
}

fn row(rule: &Rule) -> String {
    format!(
        "| `{}` | {} | {} |\n",
        rule.code,
        rule.level.name(),
        rule.meaning
    )
}
