//! Rules about long runs.

use crate::soak::SLOWER;
use crate::ui::units;

use super::{Evidence, Hit, Level, Rule, environment};

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "not_sustained",
        level: Level::Warning,
        meaning: "A `--soak` kept up less than 95 % of the rate that its first minute (or first tenth) had.",
        check: not_sustained,
    },
    Rule {
        code: "soak_throttled",
        level: Level::Warning,
        meaning: "The board was held back during a `--soak`, as a short run would be told by `throttled`: here it is what was looked for. Figures over the whole window mix both states; `first` and `sustained` do not.",
        check: soak_throttled,
    },
];

fn not_sustained(e: &Evidence<'_>) -> Vec<Hit> {
    let Some(soak) = &e.summary.soak else {
        return Vec::new();
    };
    let share = soak.sustained.rate_hz / soak.first.rate_hz;
    if share >= SLOWER {
        return Vec::new();
    }
    let text = format!(
        "the last quarter ran at {} a second, the first {} at {}: {}",
        units::figure(soak.sustained.rate_hz),
        units::nanoseconds(soak.first.seconds * 1e9),
        units::figure(soak.first.rate_hz),
        units::percent(share),
    );
    vec![
        Hit::new(text)
            .figure("share", share)
            .figure("first_hz", soak.first.rate_hz)
            .figure("sustained_hz", soak.sustained.rate_hz),
    ]
}

fn soak_throttled(e: &Evidence<'_>) -> Vec<Hit> {
    match e.view.entry.rules.is_soak() {
        true => environment::held_back(e),
        false => Vec::new(),
    }
}
