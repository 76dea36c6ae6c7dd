//! What a planner is told of a case: its figures so far, from the store.

use crate::plan::figures::{CaseFigures, QuantileFigure};
use crate::stats::bound;
use crate::stats::summary::Quantile;
use crate::summary::{Latency, RepeatFigures};
use crate::view::CaseView;

/// Figures of the repeats that count by now.
pub fn of(view: &CaseView) -> CaseFigures {
    let repeats: Vec<RepeatFigures> = view.counting().map(RepeatFigures::of).collect();
    let latency = Latency::of(view);
    let quantiles = latency.as_ref().map(|latency| {
        let all = latency.distribution.quantiles().into_iter();
        let measured = view.counting().flat_map(|repeat| &repeat.trials.measured);
        let mut pooled: Vec<i64> = measured.copied().collect();
        let figure = |(level, quantile): (f64, Quantile)| QuantileFigure {
            level,
            value: quantile.value,
            bound: quantile.bound,
            floor: bound::lower(&mut pooled, quantile.n_eff, level),
            n_eff: quantile.n_eff,
        };
        all.map(figure).collect()
    });
    CaseFigures {
        p50_ns: repeats.iter().filter_map(|repeat| repeat.p50_ns).collect(),
        rate_hz: repeats.iter().filter_map(|repeat| repeat.rate_hz).collect(),
        quantiles: quantiles.unwrap_or_default(),
        mean_ns: latency.map(|latency| latency.distribution.mean),
    }
}
