//! How a cell and its figures are written.

use std::collections::{BTreeMap, BTreeSet};

use crate::compare::cell::{Cell, Side};
use crate::compare::matching::Pair;
use crate::compare::metric::{Metric, Quantity};
use crate::compare::report::Comparison;
use crate::ui::units::{self, UNKNOWN};

/// How each pair is called: the axes in which the pairs differ, and what is compared where that is not
/// the same for all; else its key.
pub(crate) fn pairs(comparison: &Comparison) -> Vec<String> {
    let pairs = &comparison.pairs;
    let names: BTreeSet<&String> = pairs.iter().flat_map(|pair| pair.a.axes.keys()).collect();
    let values = |name: &str| -> BTreeSet<Option<&String>> {
        pairs.iter().map(|pair| pair.a.axes.get(name)).collect()
    };
    let compared = |name: &str| {
        pairs
            .iter()
            .any(|pair| pair.compared.iter().any(|c| c == name))
    };
    let telling: Vec<&String> = names
        .into_iter()
        .filter(|name| values(name).len() > 1 && !compared(name))
        .collect();
    pairs.iter().map(|pair| label(pair, &telling)).collect()
}

fn label(pair: &Pair, telling: &[&String]) -> String {
    let axis = |name: &&String| {
        let value = pair.a.axes.get(*name).map_or(UNKNOWN, String::as_str);
        format!("{name}={value}")
    };
    let own = telling.iter().map(axis);
    // A backend brings its runtime and options along; its name says enough.
    let has_backend = pair.compared.iter().any(|axis| axis == "backend");
    let follows = |axis: &str| has_backend && (axis == "runtime" || axis.starts_with("option."));
    let compared = pair
        .compared
        .iter()
        .filter(|axis| !follows(axis))
        .map(|axis| {
            let of = |axes: &BTreeMap<String, String>| {
                axes.get(axis).map_or(UNKNOWN.to_owned(), Clone::clone)
            };
            format!("{axis} {} → {}", of(&pair.a.axes), of(&pair.b.axes))
        });
    let parts: Vec<String> = own.chain(compared).collect();
    match parts.is_empty() {
        true => pair.b.key.to_string()[..8].to_owned(),
        false => parts.join(", "),
    }
}

pub(crate) fn figure(metric: &Metric, side: &Side) -> String {
    let text = match metric.quantity {
        Quantity::Time => units::nanoseconds(side.value),
        Quantity::Rate => units::hertz(side.value),
        Quantity::Memory => units::bytes(side.value),
    };
    match side.enough {
        Some(false) => format!("{text}*"),
        _ => text,
    }
}

/// `+4.2 %`.
pub(crate) fn change(share: Option<f64>) -> String {
    let Some(share) = share.filter(|share| share.is_finite()) else {
        return UNKNOWN.to_owned();
    };
    format!("{} %", signed(share * 100.0))
}

/// `+2.1 … +6.5 %`.
pub(crate) fn interval(cell: &Cell) -> String {
    match cell.interval() {
        Some((low, high)) => format!("{} … {} %", signed(low * 100.0), signed(high * 100.0)),
        None => UNKNOWN.to_owned(),
    }
}

/// Two decimals below 10, one below 100: finer than any interval here is.
fn signed(percent: f64) -> String {
    match percent.abs() {
        p if p < 10.0 => format!("{percent:+.2}"),
        p if p < 100.0 => format!("{percent:+.1}"),
        _ => format!("{percent:+.0}"),
    }
}

pub(crate) fn verdict(cell: &Cell) -> String {
    let words = cell.verdict.words(cell.metric);
    match &cell.confirmation {
        Some(second) if second.first == cell.verdict => format!("{words}, confirmed"),
        Some(_) => format!("{words}, not confirmed"),
        None => words.to_owned(),
    }
}

/// `5 + 5`, or `5 pairs`.
pub(crate) fn repeats(cell: &Cell, pair: &Pair) -> String {
    use crate::compare::rule::Pairing;
    match pair.pairing {
        Pairing::Interleaved => {
            let all = cell.a.repeats + cell.b.repeats - cell.unpaired;
            format!("{} pairs", all / 2)
        }
        Pairing::Separate => format!("{} + {}", cell.a.repeats, cell.b.repeats),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_have_a_sign() {
        assert_eq!(change(Some(0.0421)), "+4.21 %");
        assert_eq!(change(Some(-0.5)), "-50.0 %");
        assert_eq!(change(None), UNKNOWN);
    }
}
