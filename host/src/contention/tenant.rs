//! Models beside the case: what each did in the window, how much slower than alone, and how well all of
//! them share the board.

use std::collections::BTreeMap;

use edgedyno_shared::case::{Case, Tenant};
use serde::Serialize;

use super::achieved::OFF_TARGET;
use super::curve::{OfRound, Ratio, slowdown};
use super::report::{METRICS, Read};
use super::trials::Worth;
use super::validity::Mark;
use crate::plan::axes::case_key;
use crate::stats::{interval, mean, quantile};
use crate::store::rows::{MomentRow, TenantRow};
use crate::view::{RepeatView, Trials};

/// One tenant of one repeat, in the window of its case.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    pub row: &'a TenantRow,
    pub trials: &'a Trials,
}

/// The tenants of a repeat, in the order of its condition.
pub fn of(repeat: &RepeatView) -> impl Iterator<Item = Seen<'_>> {
    let rows = repeat.row.tenants.iter().zip(&repeat.beside);
    rows.map(|(row, trials)| Seen { row, trials })
}

impl Seen<'_> {
    /// Trials a second asked for; none where one followed the other.
    pub fn asked_hz(&self) -> Option<f64> {
        self.row.tenant.millihertz.map(|rate| rate as f64 / 1e3)
    }

    /// How far its rate is from what was asked for, as a share of it.
    pub fn error(&self) -> Option<f64> {
        Some(self.trials.pace_hz()? / self.asked_hz()? - 1.0)
    }

    /// Whether every thread was on its CPUs when the window was over; none where that was not read.
    pub fn placed(&self) -> Option<bool> {
        let after = self.row.placements.iter();
        let after = after.filter(|placement| placement.moment == MomentRow::AfterWindow);
        let threads = after.flat_map(|placement| &placement.threads);
        let wanted = &self.row.tenant.cpus;
        let threads: Vec<&[u16]> = threads.map(|thread| thread.cpus.as_slice()).collect();
        let is_elsewhere = |cpus: &&[u16]| cpus.iter().any(|cpu| !wanted.contains(cpu));
        match threads.iter().any(is_elsewhere) {
            true => Some(false),
            false => {
                (!threads.is_empty() && threads.iter().all(|cpus| !cpus.is_empty())).then_some(true)
            }
        }
    }

    fn name(&self) -> &str {
        &self.row.tenant.model.name
    }

    /// Why the repeat was not what its condition says.
    pub fn marks(&self) -> Vec<Mark> {
        let mut out = Vec::new();
        let mut invalid = |code, text| out.push(Mark::invalid(code, text));
        let name = self.name();
        if let Some(failure) = &self.row.failure {
            let stage = self.row.failed_stage.map_or("?", |stage| stage.name());
            let text = format!("{name} failed in stage {stage}: {}", failure.detail);
            invalid("tenant_failed", text);
        } else if self.trials.failed > 0 {
            invalid(
                "tenant_failed",
                format!("{} trials of {name} failed", self.trials.failed),
            );
        }
        match self.error() {
            Some(error) if error.abs() > OFF_TARGET => {
                let text = format!("{name} ran {:+.1} % off its rate", error * 100.0);
                invalid("tenant_off_rate", text);
            }
            None if self.trials.pace_hz().is_none() => {
                let text = format!("{name} began fewer than two trials in the window");
                invalid("tenant_unknown", text);
            }
            _ => {}
        }
        match self.placed() {
            Some(true) => {}
            Some(false) => invalid("tenant_moved", format!("{name} was not on its CPUs")),
            None => invalid(
                "tenant_unknown",
                format!("nobody read on which CPUs {name} was"),
            ),
        }
        out
    }
}

/// One tenant under one condition.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TenantPoint {
    pub model: String,
    pub backend: String,
    pub cpus: Vec<u16>,
    pub asked_hz: Option<f64>,
    /// Trials a second in the windows, by the time between their beginnings.
    pub rate_hz: Option<f64>,
    /// The case of it alone on the board; none where the run has none.
    pub alone: Option<String>,
    /// Rate beside the case over that alone.
    pub relative_rate: Option<Ratio>,
    /// Latency beside the case over that alone.
    pub slowdown: BTreeMap<String, Ratio>,
}

/// How well models share a board.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Efficiency {
    /// The sum of the relative rates of all models: as many as there are models when none disturbs another,
    /// 1 when they do no better together than by turns.
    ///
    /// This is the weighted speedup of Snavely and Tullsen (ASPLOS 2000), the system throughput of Eyerman
    /// and Eeckhout (IEEE Micro 28(3), 2008).
    pub sum: f64,
    pub ci95: Option<(f64, f64)>,
    pub models: usize,
    pub rounds: usize,
}

/// A figure of one tenant's trials, in nanoseconds.
fn figure(trials: &Trials, level: f64) -> Option<f64> {
    quantile::of(&trials.measured, level)
}

const LEVELS: [f64; 3] = [0.5, 0.95, 0.99];

/// What the tenants of these repeats of a case came to, each against its own case among `cases`.
pub fn points(case: &Case, repeats: &[&RepeatView], cases: &[Read]) -> Vec<TenantPoint> {
    let tenants = case.tenants.iter().enumerate();
    tenants
        .map(|(number, tenant)| point(case, number, tenant, repeats, cases))
        .collect()
}

fn point(
    case: &Case,
    number: usize,
    tenant: &Tenant,
    repeats: &[&RepeatView],
    cases: &[Read],
) -> TenantPoint {
    let beside = |of: &dyn Fn(&Trials) -> Option<f64>| -> Vec<OfRound> {
        let figures = repeats.iter().filter_map(|repeat| {
            let value = of(repeat.beside.get(number)?)?;
            let round = repeat.row.key.repeat;
            Some(OfRound { round, value })
        });
        figures.collect()
    };
    let key = case_key(&case.alone(tenant));
    let alone = cases.iter().find(|read| read.view.entry.key == key);
    let against = |of: &dyn Fn(&Trials) -> Option<f64>| {
        let own = rounds(alone?.view.counting(), of);
        slowdown(&own, &beside(of)).filter(|ratio| ratio.rounds > 0)
    };
    let enough = |level: f64| {
        let here = repeats
            .iter()
            .filter_map(|repeat| repeat.beside.get(number));
        let own = alone.into_iter().flat_map(|read| read.view.counting());
        let sides = [
            Worth::of(here.map(|trials| trials.measured.as_slice()), level),
            Worth::of(own.map(|repeat| repeat.trials.measured.as_slice()), level),
        ];
        sides.iter().flatten().all(|worth| worth.enough)
    };
    let slower = METRICS.iter().zip(LEVELS);
    let rates: Vec<f64> = beside(&Trials::pace_hz).iter().map(|of| of.value).collect();
    TenantPoint {
        model: tenant.model.name.clone(),
        backend: tenant.backend.clone(),
        cpus: tenant.cpus.clone(),
        asked_hz: tenant.millihertz.map(|rate| rate as f64 / 1e3),
        rate_hz: mean::over_repeats(&rates),
        alone: alone.map(|read| read.view.entry.key.to_string()),
        relative_rate: against(&Trials::pace_hz),
        slowdown: slower
            .filter_map(|(name, level)| {
                let ratio = against(&|trials| figure(trials, level))?;
                let enough = enough(level);
                Some(((*name).to_owned(), Ratio { enough, ..ratio }))
            })
            .collect(),
    }
}

fn rounds<'a>(
    repeats: impl Iterator<Item = &'a RepeatView>,
    of: &dyn Fn(&Trials) -> Option<f64>,
) -> Vec<OfRound> {
    let figures = repeats.filter_map(|repeat| {
        let value = of(&repeat.trials)?;
        let round = repeat.row.key.repeat;
        Some(OfRound { round, value })
    });
    figures.collect()
}

/// The sum of relative rates, round by round; none where a model was not measured alone.
pub fn efficiency(
    case: &Case,
    idle: &[&RepeatView],
    repeats: &[&RepeatView],
    cases: &[Read],
) -> Option<Efficiency> {
    if case.tenants.is_empty() {
        return None;
    }
    let alone: Vec<Vec<OfRound>> = case
        .tenants
        .iter()
        .map(|tenant| {
            let key = case_key(&case.alone(tenant));
            let read = cases.iter().find(|read| read.view.entry.key == key)?;
            Some(rounds(read.view.counting(), &Trials::pace_hz))
        })
        .collect::<Option<_>>()?;
    let idle = rounds(idle.iter().copied(), &Trials::pace_hz);
    let at = |of: &[OfRound], round: u32| of.iter().find(|of| of.round == round).map(|of| of.value);
    let of_round = |repeat: &&RepeatView| {
        let round = repeat.row.key.repeat;
        let own = repeat.trials.pace_hz()? / at(&idle, round)?;
        let others = repeat.beside.iter().zip(&alone);
        let others = others.map(|(trials, alone)| Some(trials.pace_hz()? / at(alone, round)?));
        let others: Vec<f64> = others.collect::<Option<_>>()?;
        (others.len() == case.tenants.len()).then(|| own + others.iter().sum::<f64>())
    };
    let sums: Vec<f64> = repeats.iter().filter_map(of_round).collect();
    let n = sums.len() as f64;
    let half = mean::deviation(&sums)
        .and_then(|deviation| Some(interval::student_t(n - 1.0, 0.95)? * deviation / n.sqrt()));
    let sum = mean::arithmetic(&sums)?;
    Some(Efficiency {
        sum,
        ci95: half.map(|half| (sum - half, sum + half)),
        models: case.tenants.len() + 1,
        rounds: sums.len(),
    })
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::case::{Condition, ModelRef};
    use edgedyno_shared::columns::{Chunk, Role, TrialSchema};
    use edgedyno_shared::ids::Sha256;
    use edgedyno_shared::load::TenantUsed;
    use edgedyno_shared::repeat::{Moment, Placement, Stage, ThreadPlace};
    use edgedyno_shared::units::Nanos;
    use edgedyno_shared::wire::failure::{Failure, FailureCode};
    use edgedyno_shared::wire::record::Record as Wire;

    use super::super::report::{self, Ask};
    use super::super::testing::{measure, read, store};
    use super::super::validity::marks;
    use super::*;
    use crate::store::sample::{self, MS};
    use crate::summary::summarise;
    use crate::telemetry::engines::Used;

    fn other(millihertz: Option<u64>) -> Tenant {
        Tenant {
            model: ModelRef {
                name: "b.onnx".into(),
                sha256: Sha256([9; 32]),
            },
            backend: "onnxruntime".into(),
            runtime: None,
            options: Vec::new(),
            threads: 1,
            cpus: vec![1],
            millihertz,
        }
    }

    fn beside(tenant: &Tenant) -> Case {
        Case {
            condition: Condition("model:b.onnx:cpu1".into()),
            tenants: vec![tenant.clone()],
            ..sample::case()
        }
    }

    /// What an agent tells of a tenant whose trials began and ended at these milliseconds.
    fn lane(tenant: &Tenant, trials: &[(i64, i64)], failure: Option<Failure>) -> Vec<Wire> {
        let slot = |&(start, end): &(i64, i64)| [Role::Measure.code(), start * MS, end * MS, 0];
        let slots: Vec<i64> = trials.iter().flat_map(slot).collect();
        let schema = TrialSchema::with(Vec::new());
        let after = Placement {
            moment: Moment::AfterWindow,
            wanted: vec![1],
            threads: vec![ThreadPlace {
                tid: 9,
                cpus: tenant.cpus.clone(),
                cpu_time: None,
            }],
        };
        let used = TenantUsed {
            lane: 1,
            tenant: tenant.clone(),
            runtime: None,
            stages: Vec::new(),
            placements: vec![after],
            memory: Vec::new(),
            effective: Vec::new(),
            ready: Some(Nanos(1)),
            started: Some(Nanos(2)),
            stopped: Some(Nanos(3)),
            failure: failure.map(|why| (Stage::Measure, why)),
            exit: Some("exit status: 0".into()),
            stderr: String::new(),
        };
        vec![
            Wire::Schema { lane: 1, schema },
            Wire::Tenant(Box::new(used)),
            Wire::Chunk(Chunk::from_slots(1, 0, 4, &slots)),
        ]
    }

    /// The case takes 20 ms alone and 25 ms beside the other, which takes 10 ms alone and 20 ms beside it.
    #[test]
    fn each_is_held_against_itself_alone_and_their_rates_add_up() {
        let (_dir, mut store) = store();
        let tenant = other(None);
        let case = beside(&tenant);
        // The window is 100 ms to 600 ms; the tenant runs from before it to behind it.
        let trials: Vec<(i64, i64)> = (0..35).map(|n| (50 + 20 * n, 70 + 20 * n)).collect();
        let loaded = measure(
            &mut store,
            &case,
            &[25 * MS; 20],
            &lane(&tenant, &trials, None),
        );
        let idle = measure(&mut store, &sample::case(), &[20 * MS; 20], &[]);
        let alone = measure(&mut store, &case.alone(&tenant), &[10 * MS; 50], &[]);
        let summary = summarise(&loaded);
        let seen = &summary.tenants[0];
        assert_eq!((seen.repeats_count, seen.trials_failed_count), (3, 0));
        // 110, 130 ... 590 begin in the window, three times.
        assert_eq!(seen.trials_count, 75);
        let is = |found: Option<f64>, wanted: f64| (found.unwrap() - wanted).abs() < 1e-9;
        assert!(
            is(seen.rate_hz, 50.0) && is(seen.latency_p50_ms, 20.0),
            "{seen:?}"
        );
        // Never mixed: the case has its own trials and no other.
        assert_eq!(summary.latency.as_ref().map(|l| l.distribution.n), Some(60));

        let cases = [read(loaded), read(idle), read(alone)];
        let experiments = report::experiments(&cases, &Ask::default());
        assert_eq!(experiments.len(), 1, "alone is no experiment of its own");
        let point = &experiments[0].points[0];
        assert_eq!(point.achieved_bps, None, "nobody counts what a model moves");
        let found = &point.tenants[0];
        assert!((found.slowdown["latency_p50_ms"].ratio - 2.0).abs() < 1e-12);
        // 75 trials beside the case are enough for p50, and for no p95.
        let enough = |name: &str| found.slowdown[name].enough;
        assert!(enough("latency_p50_ms") && !enough("latency_p95_ms"));
        assert!((found.relative_rate.unwrap().ratio - 0.5).abs() < 1e-12);
        let efficiency = point.efficiency.unwrap();
        assert!(
            (efficiency.sum - (0.8 + 0.5)).abs() < 1e-12,
            "{efficiency:?}"
        );
        assert_eq!((efficiency.models, efficiency.rounds), (2, 3));
    }

    #[test]
    fn without_its_case_alone_a_tenant_has_no_slowdown() {
        let (_dir, mut store) = store();
        let tenant = other(None);
        let trials = [(100, 120), (200, 220)];
        let more = lane(&tenant, &trials, None);
        let loaded = measure(&mut store, &beside(&tenant), &[25 * MS; 20], &more);
        let idle = measure(&mut store, &sample::case(), &[20 * MS; 20], &[]);
        let experiments = report::experiments(&[read(loaded), read(idle)], &Ask::default());
        let point = &experiments[0].points[0];
        let found = &point.tenants[0];
        assert!((found.rate_hz.unwrap() - 10.0).abs() < 1e-9 && found.alone.is_none());
        assert!(found.slowdown.is_empty() && point.efficiency.is_none());
    }

    #[test]
    fn what_was_not_as_the_condition_says_is_marked() {
        let codes = |tenant: &Tenant, trials: &[(i64, i64)], failure, cpu: u16| {
            let (_dir, mut store) = store();
            let mut more = lane(tenant, trials, failure);
            if let Wire::Tenant(used) = &mut more[1] {
                used.placements[0].threads[0].cpus = vec![cpu];
            }
            let view = measure(&mut store, &beside(tenant), &[25 * MS; 40], &more);
            let marks = marks(&view.repeats[0], Used::ALL);
            let invalid = marks.iter().filter(|mark| mark.invalid);
            invalid.map(|mark| mark.code).collect::<Vec<_>>()
        };
        let paced = other(Some(10_000));
        let on_time = [(100, 110), (200, 210), (300, 310)];
        assert!(codes(&paced, &on_time, None, 1).is_empty());
        let late = [(100, 110), (204, 210), (308, 310)];
        assert_eq!(codes(&paced, &late, None, 1), ["tenant_off_rate"]);
        assert!(
            codes(&other(None), &late, None, 1).is_empty(),
            "nothing was asked"
        );
        assert_eq!(codes(&paced, &on_time, None, 0), ["tenant_moved"]);
        assert_eq!(codes(&paced, &[(100, 110)], None, 1), ["tenant_unknown"]);
        let (_dir, mut store) = store();
        let mut unread = lane(&paced, &on_time, None);
        if let Wire::Tenant(used) = &mut unread[1] {
            used.placements.clear();
        }
        let view = measure(&mut store, &beside(&paced), &[25 * MS; 40], &unread);
        let marks = marks(&view.repeats[0], Used::ALL);
        let unknown = marks.iter().find(|mark| mark.code == "tenant_unknown");
        assert!(unknown.is_some_and(|mark| mark.invalid), "{marks:?}");
        let crash = Failure::new(FailureCode::Crash, "ended by signal 11");
        assert_eq!(codes(&paced, &on_time, Some(crash), 1), ["tenant_failed"]);
    }
}
