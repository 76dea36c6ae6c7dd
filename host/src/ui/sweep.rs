//! A sweep as text: its plan before it runs, and what came of it.

use std::collections::{BTreeMap, BTreeSet};

use edgedyno_shared::case::Case;
use edgedyno_shared::ids::Sha256;
use edgedyno_shared::order::{OrderKey, Preparation, Rules};

use super::progress::duration;
use super::table::Table;
use super::{cases, units};
use crate::plan::answer::Answer;
use crate::plan::axes::axes;
use crate::plan::goal::{Figure, Goal};
use crate::plan::schedule::Order;
use crate::summary::CaseSummary;
use crate::summary::best::{Best, Metric, Sureness};

/// More cases than this are not listed one by one before they are measured.
const MOST_LISTED: usize = 100;

/// More repeats than this are not spelled out in their order.
const MOST_ORDERED: usize = 40;

/// A plan as it is shown.
#[derive(Debug)]
pub struct Plan<'a> {
    pub cases: Vec<(Sha256, &'a Case)>,
    /// In the order of measurement, board after board.
    pub order: Vec<OrderKey>,
    pub how: Order,
    pub seed: u64,
    pub boards: Vec<String>,
    pub span: Expected,
}

/// How long a plan takes: windows and warm-up, without loading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected {
    pub least_seconds: f64,
    /// None where the rules set no end.
    pub most_seconds: Option<f64>,
    /// Repeats may wait for the board to cool.
    pub waits: bool,
}

impl Expected {
    /// So many repeats one after the other.
    pub fn of(rules: &Rules, repeats: usize) -> Self {
        let seconds = |nanos: edgedyno_shared::units::Nanos| nanos.0 as f64 / 1e9;
        let (warmup, measure) = (&rules.warmup, &rules.measure);
        let least = seconds(warmup.min_time) + seconds(measure.duration);
        // A number of trials takes as long as it takes.
        let counts_trials =
            measure.duration.0 == 0 || (!warmup.until_steady && warmup.min_trials > 0);
        let most = seconds(warmup.max_time) + seconds(measure.duration);
        Self {
            least_seconds: least * repeats as f64,
            most_seconds: (!counts_trials).then_some(most * repeats as f64),
            waits: false,
        }
    }

    /// Around each of so many repeats the idle board is watched, and it may be waited for to cool.
    pub fn with_preparation(self, preparation: &Preparation, repeats: usize) -> Self {
        let wish = preparation.cool_down.as_ref();
        let longest = wish.map_or(0.0, |wish| wish.at_most.as_secs_f64());
        let watched = preparation.watch_before + preparation.watch_after;
        let watched = watched.as_secs_f64() * repeats as f64;
        Self {
            least_seconds: self.least_seconds + watched,
            most_seconds: self
                .most_seconds
                .map(|most| most + watched + longest * repeats as f64),
            waits: wish.is_some(),
        }
    }

    fn text(self) -> String {
        match self.most_seconds {
            Some(most) if most > self.least_seconds * 1.01 => format!(
                "{} to {}, by how soon it is steady{}",
                duration(self.least_seconds),
                duration(most),
                if self.waits { " and cool" } else { "" }
            ),
            Some(most) => duration(most),
            None if self.least_seconds > 0.0 => {
                format!("at least {}", duration(self.least_seconds))
            }
            None => "as long as the trials take".into(),
        }
    }
}

/// Cases, their order and the time they take.
pub fn plan(plan: &Plan<'_>) -> String {
    let mut sections = vec![listed(plan)];
    let counted = format!(
        "{}, {}{}",
        units::things(plan.cases.len() as u64, "case"),
        units::things(plan.order.len() as u64, "repeat"),
        match plan.boards.as_slice() {
            [_] => String::new(),
            several => format!(", on {} at the same time", several.join(" and ")),
        }
    );
    sections.push(format!(
        "{counted}\norder: {}, seed {}{}\nexpected time: {}, and loading",
        plan.how.name(),
        plan.seed,
        ordered(plan),
        plan.span.text()
    ));
    sections.join("\n\n")
}

fn listed(plan: &Plan<'_>) -> String {
    let telling = telling(plan.cases.iter().map(|(_, case)| axes(case)));
    let shown = plan.cases.iter().take(MOST_LISTED);
    let all: Vec<BTreeMap<String, String>> = shown
        .map(|(_, case)| axes(case).into_iter().collect())
        .collect();
    let mut table = Table::new().figure("#").text("case");
    for axis in &telling {
        table = table.text(axis);
    }
    for (number, ((key, _), axes)) in (0_u64..).zip(plan.cases.iter().zip(&all)) {
        let own = telling.iter().map(|axis| cases::value(axes, axis));
        let row = [number.to_string(), short(*key)].into_iter().chain(own);
        table.row(row.collect::<Vec<_>>());
    }
    match plan.cases.len().saturating_sub(MOST_LISTED) {
        0 => table.render(),
        more => format!(
            "{}\nand {} more; --json lists all",
            table.render(),
            units::count(more as u64)
        ),
    }
}

/// Names of axes on which cases differ, sorted; of very many cases, looked at one by one.
fn telling(mut cases: impl Iterator<Item = Vec<(String, String)>>) -> BTreeSet<String> {
    let first = cases.next().unwrap_or_default();
    let mut telling = BTreeSet::new();
    for axes in cases {
        let only_here = |of: &[(String, String)], other: &[(String, String)]| {
            let differing = of.iter().filter(|axis| !other.contains(axis));
            differing.map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        if axes != first {
            telling.extend(only_here(&axes, &first));
            telling.extend(only_here(&first, &axes));
        }
    }
    telling
}

/// `: 2 0 1, 1 0 2`: rounds of numbers of cases.
fn ordered(plan: &Plan<'_>) -> String {
    if plan.order.len() > MOST_ORDERED || plan.boards.len() > 1 {
        return String::new();
    }
    let number = |key: &OrderKey| plan.cases.iter().position(|(case, _)| *case == key.case);
    let numbers = |round: &[OrderKey]| {
        let numbers = round.iter().filter_map(number).map(|n| n.to_string());
        numbers.collect::<Vec<_>>().join(" ")
    };
    let rounds = plan.order.chunk_by(|a, b| a.repeat == b.repeat);
    let rounds: Vec<String> = match plan.how {
        Order::Interleaved => rounds.map(numbers).collect(),
        Order::Random | Order::Blocked => vec![numbers(&plan.order)],
    };
    format!(": {}", rounds.join(", "))
}

/// All cases, the best of them, and what a reader must know of the sweep as a whole.
pub fn outcome(summaries: &[CaseSummary], best: &[Best], notes: &[String]) -> String {
    let mut sections = vec![cases::text(summaries)];
    if summaries.len() > 1 && !best.is_empty() {
        sections.push(bests(best));
    }
    if !notes.is_empty() {
        sections.push(notes.join("\n"));
    }
    sections.join("\n\n")
}

fn bests(best: &[Best]) -> String {
    let several = best.iter().any(|b| b.model != best[0].model);
    let mut table = Table::new().text("best by");
    if several {
        table = table.text("model");
    }
    table = table
        .text("case")
        .figure("value")
        .figure("next")
        .text("how sure");
    for one in best {
        let model = several.then(|| one.model.clone());
        let next = one.next.map(|(_, ratio)| units::percent(ratio - 1.0));
        let row = [Some(title(one.metric).to_owned()), model];
        let rest = [
            Some(short(one.case)),
            Some(value(one)),
            Some(next.map_or_else(|| units::UNKNOWN.into(), |next| format!("+{next}"))),
            Some(sureness(one)),
        ];
        table.row(row.into_iter().chain(rest).flatten().collect::<Vec<_>>());
    }
    table.render()
}

/// What a search came to.
pub fn answer(goal: &Goal, answer: &Answer) -> String {
    let value = |value: f64| match goal.objective {
        Figure::Rate => units::hertz(value),
        Figure::Mean | Figure::Quantile(_) => units::nanoseconds(value),
    };
    let head = match &answer.best {
        Some((case, best)) => format!("{}: case {}, {}", goal.text, short(*case), value(*best)),
        None if answer.contenders.is_empty() && answer.failing > 0 => format!(
            "{}: surely none of the {} measured does",
            goal.text,
            units::things(answer.failing as u64, "case")
        ),
        None => format!("{}: no case is known to do", goal.text),
    };
    let contenders = answer.contenders.iter().map(|contender| {
        let (case, found) = (short(contender.case), value(contender.value));
        format!("  case {case} may be better ({found}): {}", contender.needs)
    });
    let lines: Vec<String> = std::iter::once(head).chain(contenders).collect();
    lines.join("\n")
}

fn title(metric: Metric) -> &'static str {
    match metric {
        Metric::P50 => "p50",
        Metric::P99 => "p99",
        Metric::Rate => "rate",
        Metric::Items => "items",
        Metric::Memory => "memory",
    }
}

/// The figure in its unit, with a mark where there are too few trials to claim it.
pub fn value(best: &Best) -> String {
    let mark = if best.enough { "" } else { "*" };
    let value = match best.metric {
        Metric::P50 | Metric::P99 => units::nanoseconds(best.value),
        Metric::Rate => units::hertz(best.value),
        Metric::Items => format!("{}/s", units::figure(best.value)),
        Metric::Memory => units::bytes(best.value),
    };
    format!("{value}{mark}")
}

fn sureness(best: &Best) -> String {
    match &best.sureness {
        Sureness::Alone => "the only case".into(),
        Sureness::Sure => format!("better than {} (95 %)", others(best.others)),
        Sureness::Unknown if best.metric == Metric::Memory => {
            "one value a case: nothing to tell by".into()
        }
        Sureness::Unknown => "too few repeats to tell".into(),
        Sureness::FewTrials => "too few independent trials to tell".into(),
        Sureness::Undecided(keys) => {
            let named: Vec<String> = keys.iter().take(3).map(|key| short(*key)).collect();
            let more = keys.len() - named.len();
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            format!("not told apart from {}{more}", named.join(", "))
        }
    }
}

fn others(count: usize) -> String {
    match count {
        1 => "the other".into(),
        count => format!("all {count} others"),
    }
}

fn short(key: Sha256) -> String {
    key.to_string()[..8].to_owned()
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::order::{CoolDown, StopRule, WarmupRule};
    use edgedyno_shared::units::Nanos;

    use super::*;

    fn rules(warmup: (u64, i64, i64, bool), seconds: i64) -> Rules {
        Rules {
            warmup: WarmupRule {
                min_trials: warmup.0,
                min_time: Nanos::from_millis(warmup.1),
                max_time: Nanos::from_millis(warmup.2),
                until_steady: warmup.3,
            },
            measure: StopRule {
                duration: Nanos::from_secs(seconds),
                min_trials: 11,
                max_trials: 200_000,
            },
        }
    }

    #[test]
    fn the_expected_time_is_a_span_where_warm_up_decides() {
        let steady = Expected::of(&rules((5, 500, 10_000, true), 5), 10);
        assert_eq!(
            steady.text(),
            "55 s to 2 min 30 s, by how soon it is steady"
        );
        let fixed = Expected::of(&rules((0, 2_000, 2_000, false), 5), 10);
        assert_eq!(fixed.text(), "1 min 10 s");
        let wish = CoolDown {
            below_millicelsius: 60_000,
            sensor: None,
            at_most: Nanos::from_secs(6),
        };
        let preparation = Preparation {
            cool_down: Some(wish),
            ..Preparation::default()
        };
        assert_eq!(
            fixed.with_preparation(&preparation, 10).text(),
            "1 min 10 s to 2 min 10 s, by how soon it is steady and cool"
        );
        let idle = Preparation {
            watch_before: Nanos::from_secs(3),
            ..Preparation::default()
        };
        assert_eq!(fixed.with_preparation(&idle, 10).text(), "1 min 40 s");
        let trials = Expected::of(&rules((20, 0, 0, false), 5), 10);
        assert_eq!(trials.text(), "at least 50 s");
        let counted = Expected::of(&rules((20, 0, 0, false), 0), 10);
        assert_eq!(counted.text(), "as long as the trials take");
    }
}
