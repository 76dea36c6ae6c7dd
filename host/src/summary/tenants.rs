//! Other models that ran beside a case.

use serde::Serialize;

use super::centre;
use crate::contention::tenant::{self, Seen};
use crate::stats::quantile;
use crate::store::rows::TenantRefRow;
use crate::view::{CaseView, RepeatView};

/// One of them, over the repeats that count.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TenantSeen {
    /// Its trials are those of this lane.
    pub lane: u16,
    #[serde(flatten)]
    pub tenant: TenantRefRow,
    pub repeats_count: usize,
    /// Trials that began in the windows, and how many of them failed.
    pub trials_count: u64,
    pub trials_failed_count: u64,
    pub rate_hz: Option<f64>,
    pub latency_p50_ms: Option<f64>,
    pub latency_p95_ms: Option<f64>,
    pub latency_p99_ms: Option<f64>,
    /// Why it failed, the first of its failures in any attempt.
    pub failure: Option<String>,
}

impl TenantSeen {
    /// Every tenant of a case, in the order of its condition.
    pub fn all(view: &CaseView) -> Vec<Self> {
        let tenants = view.entry.case.tenants.iter().enumerate();
        tenants
            .map(|(number, tenant)| Self::of(view, number, tenant))
            .collect()
    }

    fn of(view: &CaseView, number: usize, tenant: &TenantRefRow) -> Self {
        let lane = number as u16 + 1;
        let seen = view.counting().filter_map(|repeat| of_lane(repeat, lane));
        let seen: Vec<Seen<'_>> = seen.collect();
        let latency = |level: f64| {
            let of_repeat = |seen: &Seen<'_>| quantile::of(&seen.trials.measured, level);
            centre(seen.iter().map(of_repeat)).map(|ns| ns / 1e6)
        };
        let failed = |repeat: &RepeatView| {
            let failure = of_lane(repeat, lane)?.row.failure.as_ref()?;
            Some(format!("{}: {}", failure.code, failure.detail))
        };
        Self {
            lane,
            tenant: tenant.clone(),
            repeats_count: seen.len(),
            trials_count: seen.iter().map(|seen| seen.trials.all).sum(),
            trials_failed_count: seen.iter().map(|seen| seen.trials.failed).sum(),
            rate_hz: centre(seen.iter().map(|seen| seen.trials.pace_hz())),
            latency_p50_ms: latency(0.5),
            latency_p95_ms: latency(0.95),
            latency_p99_ms: latency(0.99),
            failure: view.repeats.iter().find_map(failed),
        }
    }
}

fn of_lane(repeat: &RepeatView, lane: u16) -> Option<Seen<'_>> {
    tenant::of(repeat).find(|seen| seen.row.lane == lane)
}
