//! Stores with a few repeats, channels with a few samples, and points of no figures, for tests.

use std::collections::BTreeMap;

use edgedyno_shared::case::Case;
use edgedyno_shared::device::Reading;
use edgedyno_shared::load::{StressThread, StressUsed, StressWindow, WorkUnit};
use edgedyno_shared::order::OrderKey;
use edgedyno_shared::telemetry::{Channel, ChannelKind, Fidelity};
use edgedyno_shared::wire::record::Record as Wire;

use super::gap::Gaps;
use super::report::{Baseline, Point, Read};
use crate::plan::axes::case_key;
use crate::plan::condition::{Ceilings, Condition, SETTLE};
use crate::store::rows::{ChannelRow, SamplesRow};
use crate::store::sample;
use crate::store::{NewCase, Store};
use crate::telemetry::{self, Digest};
use crate::view::{CaseView, RepeatView};

/// Three rounds of a case; `more` comes before the end of each.
pub(crate) fn measure(
    store: &mut Store,
    case: &Case,
    durations: &[i64],
    more: &[Wire],
) -> CaseView {
    let repeats: Vec<(u32, Vec<i64>)> = (0..3).map(|n| (n, durations.to_vec())).collect();
    take(store, case, &repeats, more)
}

/// Repeats of a case by number, each with its durations.
pub(crate) fn take(
    store: &mut Store,
    case: &Case,
    repeats: &[(u32, Vec<i64>)],
    more: &[Wire],
) -> CaseView {
    let key = case_key(case);
    let new = NewCase {
        key,
        match_key: key,
        case,
        ..sample::new_case(case)
    };
    let run = sample::run_id("r1");
    store.add_case(&run, &new).unwrap();
    for (repeat, durations) in repeats {
        let mut records = sample::repeat(durations);
        let at = records.len() - 1;
        records.splice(at..at, more.iter().cloned());
        let order = OrderKey {
            case: key,
            ..sample::key("r1", *repeat, 0)
        };
        sample::deliver(store, order, &records).unwrap();
    }
    CaseView::read(store, &run, key).unwrap()
}

/// What an agent tells of the stressor of a condition that had such a window on CPU 1.
pub(crate) fn used(condition: &str, unit: WorkUnit, window: StressWindow) -> StressUsed {
    let condition = Condition::parse(condition).unwrap();
    let mut load = condition.load("b", &Ceilings::default(), SETTLE).unwrap();
    StressUsed {
        order: load.stressors.remove(0),
        unit,
        working_set: None,
        huge_pages: None,
        notes: Vec::new(),
        ready: None,
        started: None,
        stopped: None,
        failure: None,
        exit: None,
        tool: None,
        threads: vec![StressThread {
            cpu: 1,
            tid: 7,
            cpus_at_start: Some(vec![1]),
            cpus_at_end: Some(vec![1]),
            window: Some(window),
        }],
    }
}

pub(super) fn store() -> (tempfile::TempDir, Store) {
    let (dir, store) = sample::new_store();
    store.begin_run(&sample::new_run("r1", 1)).unwrap();
    (dir, store)
}

pub(super) fn read(view: CaseView) -> Read {
    let device = Vec::new();
    Read { view, device }
}

/// A repeat of the sample's case beside which this was watched.
pub(super) fn watched(telemetry: Vec<Digest>) -> RepeatView {
    let (_dir, mut store) = store();
    let view = measure(&mut store, &sample::case(), &[20 * sample::MS; 40], &[]);
    RepeatView {
        telemetry,
        ..view.repeats[0].clone()
    }
}

/// A condition that was measured five times, of which nothing is known.
pub(crate) fn point(condition: &str) -> Point {
    Point {
        case: "c".into(),
        condition: condition.into(),
        share: None,
        achieved_of_calibrated: None,
        target_bps: None,
        x_bps: None,
        achieved_bps: None,
        achieved_per_cpu_second_bps: None,
        traffic_bps: None,
        engine_freq_hz: None,
        temp_c: None,
        repeats: 5,
        valid_repeats: 5,
        valid: true,
        marks: Vec::new(),
        figures: BTreeMap::new(),
        slowdown: BTreeMap::new(),
        over_spin: BTreeMap::new(),
        tenants: Vec::new(),
        efficiency: None,
    }
}

/// Of five good repeats, of which no figure is known.
pub(crate) fn baseline(case: &str) -> Baseline {
    Baseline {
        case: case.into(),
        repeats: 5,
        valid_repeats: 5,
        valid: true,
        marks: Vec::new(),
        traffic_bps: None,
        engine_freq_hz: None,
        temp_c: None,
        figures: BTreeMap::new(),
    }
}

/// Gaps of which nothing is known.
pub(crate) fn gaps() -> Gaps {
    Gaps {
        axes: BTreeMap::new(),
        simulated: false,
        baseline: baseline("c"),
        points: Vec::new(),
        recovery: None,
    }
}

/// Samples a hundred nanoseconds apart.
pub(super) fn digest(name: &str, kind: ChannelKind, values: &[i64]) -> Digest {
    let channel = Channel {
        id: 1,
        name: name.into(),
        unit: String::new(),
        kind,
        source: String::new(),
        native_period: None,
        fidelity: Fidelity::Measured,
        period: None,
        probe: Reading::Ok("1".into()),
    };
    let samples = SamplesRow {
        at_ns: (0..values.len() as i64).map(|at| at * 100).collect(),
        value: values.to_vec(),
        quality: vec![0; values.len()],
    };
    telemetry::digest(&ChannelRow::from(&channel), &samples, None)
}
