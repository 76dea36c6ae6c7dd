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
