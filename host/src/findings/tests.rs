//! Each rule fires when it should and is quiet when it should be.

use std::collections::BTreeSet;

use edgedyno_shared::case::Tenant;
use edgedyno_shared::clocks::ClockReading;
use edgedyno_shared::columns::Role;
use edgedyno_shared::ids::Sha256;
use edgedyno_shared::load::TenantUsed;
use edgedyno_shared::repeat::{
    Moment, Outcome, OutputCheck, Placement, Stage, TextEvent, ThreadPlace,
};
use edgedyno_shared::telemetry::TelemetryMode;
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_shared::wire::record::Record;

use crate::contention::achieved::tests::row as stress_row;
use crate::golden;
use crate::store::rows::{EffortRow, FindingRow, StressRow, TenantRow, UnitRow};
use crate::store::sample::{MS, add_run, case, end, new_store, repeat, run_id, watched};
use crate::summary::summarise;
use crate::summary::tests::{hand_worked, view, view_of};
use crate::view::CaseView;

use super::*;

/// A thousand trials around 2 ms, without trend: long enough for p99 and steady.
fn quiet() -> Vec<i64> {
    (0..1000).map(|i| 2 * MS + (i * 7919) % 1009 * 10).collect()
}

fn codes(view: &CaseView) -> Vec<&'static str> {
    summarise(view).findings.iter().map(|f| f.code).collect()
}

/// Findings of a quiet repeat after its records were changed.
fn after(change: impl FnOnce(&mut Vec<Record>)) -> Vec<Finding> {
    let mut records = repeat(&quiet());
    change(&mut records);
    summarise(&view_of(&records)).findings
}

fn only(findings: Vec<Finding>) -> Finding {
    let codes: Vec<_> = findings.iter().map(|f| f.code).collect();
    assert_eq!(codes.len(), 1, "{codes:?}");
    findings.into_iter().next().unwrap()
}

pub(crate) fn before_the_end(records: &mut Vec<Record>, record: Record) {
    records.insert(records.len() - 1, record);
}

fn event(code: &str) -> Record {
    Record::Event(TextEvent {
        lane: 0,
        trial: None,
        code: code.into(),
        text: String::new(),
    })
}

fn set_end_fact(records: &mut [Record], name: &str, value: &str) {
    let Some(Record::End(end)) = records.last_mut() else {
        panic!("the last record is the end");
    };
    let fact = end.environment.iter_mut().find(|f| f.name == name).unwrap();
    fact.value = edgedyno_shared::device::Reading::Ok(value.into());
}

#[test]
fn a_quiet_case_has_no_findings() {
    assert_eq!(codes(&view_of(&repeat(&quiet()))), [] as [&str; 0]);
}

#[test]
fn codes_are_unique_and_documented() {
    let codes: BTreeSet<_> = rules().map(|rule| rule.code).collect();
    assert_eq!(codes.len(), rules().count());
    golden::check("docs/findings.md", &page());
}

#[test]
fn few_samples_names_the_lowest_percentile_that_lacks_them() {
    let (_dir, store) = hand_worked();
    let found = only(summarise(&view(&store)).findings);
    assert_eq!((found.code, found.level), ("few_samples", Level::Note));
    // 33 trials reach the 11 of p50, not the 64 of p90.
    assert_eq!(found.figures["percentile"], "p90");
    assert_eq!(found.figures["needed"], 64);
}

#[test]
fn threads_outside_the_mask_are_told_with_their_cpus() {
    let found = only(after(|records| {
        let astray = Record::Placement(Placement {
            moment: Moment::Loaded,
            wanted: vec![2, 3],
            threads: vec![ThreadPlace {
                tid: 100,
                cpus: vec![0, 2],
                cpu_time: Some(Nanos(0)),
            }],
        });
        records.insert(5, astray);
    }));
    assert_eq!(found.code, "placement_outside_mask");
    assert_eq!(found.figures["cpus"], serde_json::json!([0]));
    assert!(found.text.contains("bound again"), "{}", found.text);
}

#[test]
fn fewer_and_more_busy_threads_than_asked_are_told() {
    let with_times = |times: &[i64]| {
        only(after(|records| {
            records
                .retain(|r| !matches!(r, Record::Placement(p) if p.moment == Moment::AfterWindow));
            let placed = crate::store::sample::placement(Moment::AfterWindow, times);
            before_the_end(records, placed);
        }))
    };
    // The window is 2 s long, so 5 % are 100 ms.
    let fewer = with_times(&[1900 * MS, 90 * MS]);
    assert_eq!(
        (fewer.code, &fewer.figures["busy"]),
        ("threads_fewer", &1.into())
    );
    let more = with_times(&[1900 * MS, 1900 * MS, 1900 * MS]);
    assert_eq!(
        (more.code, &more.figures["busy"]),
        ("threads_more", &3.into())
    );
}

#[test]
fn a_setting_or_shape_that_differs_is_told() {
    let found = only(after(|records| {
        for record in records {
            if let Record::Effective(effective) = record {
                effective.observed = Some("basic".into());
            }
        }
    }));
    assert_eq!(found.code, "effective_differs");
    assert_eq!(found.text, "graph_optimization is basic, all was asked for");
    let shape = only(after(|records| {
        for record in records {
            if let Record::Model(model) = record {
                model.inputs[0].effective = Some(vec![1, 3, 160, 160]);
            }
        }
    }));
    assert_eq!(
        shape.figures["observed"],
        serde_json::json!([1, 3, 160, 160])
    );
}

#[test]
fn a_drift_and_a_step_are_not_steady() {
    let drifting: Vec<i64> = (0..).zip(quiet()).map(|(i, t)| t + i * 200).collect();
    // A drift is dependence too, so the percentiles lose what they stand on.
    let found = summarise(&view_of(&repeat(&drifting))).findings;
    let drift = &found[0];
    assert_eq!((drift.code, found[1].code), ("not_steady", "few_samples"));
    assert!(drift.figures["drift"].as_f64().unwrap() > 0.08);
    let warmup = only(after(|records| {
        before_the_end(records, event("warmup_not_steady"))
    }));
    assert_eq!(warmup.code, "not_steady");
}

#[test]
fn many_outliers_are_a_note() {
    let mut trials = quiet();
    trials.iter_mut().step_by(50).for_each(|t| *t *= 5);
    let found = summarise(&view_of(&repeat(&trials))).findings;
    let outliers = found.iter().find(|f| f.code == "outliers").unwrap();
    assert_eq!(outliers.figures["high"], 20);
    // 20 of 1000 is no mode, and is not told in the words of one.
    let words = "20 slow and 0 fast stragglers among 1\u{202f}000 trials; `records";
    assert!(outliers.text.starts_with(words), "{}", outliers.text);
    let farthest = outliers.figures["farthest"].as_array().unwrap();
    assert_eq!(farthest.len(), 5);
    // The longest of every fiftieth trial, five times as long as it was.
    let longest = trials.iter().max().unwrap();
    let at = trials.iter().position(|t| t == longest).unwrap();
    assert_eq!(farthest[0]["measured_trial"], at);
    assert_eq!(farthest[0]["latency_ms"], *longest as f64 / 1e6);
}

#[test]
fn two_groups_of_latencies_are_told_within_a_repeat_and_between_repeats() {
    // Three of ten trials take half as long again.
    let slow_at_times = |i: usize| if i * 7 % 10 < 3 { 3 } else { 2 };
    let two: Vec<i64> = quiet()
        .iter()
        .enumerate()
        .map(|(i, t)| t * slow_at_times(i) / 2)
        .collect();
    let found = summarise(&view_of(&repeat(&two))).findings;
    let bimodal = found.iter().find(|f| f.code == "bimodal").unwrap();
    assert_eq!((bimodal.repeat, bimodal.level), (Some(0), Level::Warning));
    let figure = |name: &str| bimodal.figures[name].as_f64().unwrap();
    assert!((figure("upper_share") - 0.3).abs() < 0.02, "{bimodal:?}");
    assert!((figure("high_ms") / figure("low_ms") - 1.5).abs() < 0.02);
    assert!(bimodal.text.starts_with("two modes"), "{}", bimodal.text);
    assert!(!bimodal.text.contains("stragglers"), "{}", bimodal.text);

    // Every repeat is quiet in itself, and every second one is slower by a half.
    let (_dir, mut store) = new_store();
    add_run(&store, "a");
    for n in 0..4 {
        let trials: Vec<i64> = quiet()
            .iter()
            .map(|t| if n % 2 == 1 { t * 3 / 2 } else { *t })
            .collect();
        let key = crate::store::sample::key("a", n, 0);
        crate::store::sample::deliver(&mut store, key, &repeat(&trials)).unwrap();
    }
    let found = summarise(&view(&store)).findings;
    let bimodal = found.iter().find(|f| f.code == "bimodal").unwrap();
    assert_eq!(bimodal.repeat, None);
    assert!(bimodal.text.starts_with("from repeat to repeat, two modes"));
}

#[test]
fn a_changed_board_is_told_and_throttling_is_invalid() {
    let changed = only(after(|r| set_end_fact(r, "governor.policy0", "powersave")));
    assert_eq!(
        (changed.code, changed.level),
        ("environment_changed", Level::Warning)
    );
    let clock = only(after(|r| set_end_fact(r, "clock_khz.policy0", "2400000")));
    assert_eq!(clock.code, "environment_changed");
    let throttled = only(after(|r| {
        set_end_fact(r, "clock_max_khz.policy0", "1800000")
    }));
    assert_eq!(
        (throttled.code, throttled.level),
        ("throttled", Level::Invalid)
    );
    let load = after(|r| set_end_fact(r, "load_average", "9.9 1.0 1.0 1/1 1"));
    assert_eq!(load, []);
}

#[test]
fn load_and_stolen_time_are_told() {
    let load = only(after(|records| {
        for record in records {
            if let Record::Start(start) = record {
                let fact = start
                    .environment
                    .iter_mut()
                    .find(|f| f.name == "load_average");
                fact.unwrap().value =
                    edgedyno_shared::device::Reading::Ok("3.50 1.00 0.50 2/300 77".into());
            }
        }
    }));
    assert_eq!(
        (load.code, &load.figures["load"]),
        ("load_high", &3.5.into())
    );
    // 6 ticks are 60 ms, 3 % of the 2 s that the repeat took; 1 tick is half a percent.
    let steal = only(after(|r| set_end_fact(r, "steal_ticks", "1006")));
    assert_eq!(steal.code, "steal_time");
    assert!((steal.figures["share_of_one_cpu"].as_f64().unwrap() - 0.03).abs() < 1e-12);
    assert_eq!(after(|r| set_end_fact(r, "steal_ticks", "1001")), []);
}

#[test]
fn outputs_that_are_not_finite_or_not_the_reference_are_told() {
    let with = |change: fn(&mut OutputCheck)| {
        only(after(|records| {
            for record in records {
                if let Record::Output(output) = record {
                    change(output);
                }
            }
        }))
    };
    let nan = with(|output| output.nonfinite = 3);
    assert_eq!(
        (nan.code, &nan.figures["nonfinite"]),
        ("nonfinite_outputs", &3.into())
    );
    let wrong = with(|output| {
        output.compared = Some(edgedyno_shared::repeat::Comparison {
            max_abs_error_bits: 0.5_f64.to_bits(),
            reference_range_bits: 1e6_f64.to_bits(),
            cosine_bits: Some(0.9_f64.to_bits()),
        });
    });
    assert_eq!(
        (wrong.code, &wrong.figures["cosine"]),
        ("reference_mismatch", &0.9.into())
    );
}

/// Findings when every output has this type, error, range of the reference and cosine.
fn compared(dtype: &str, error: f64, range: f64, cosine: Option<f64>) -> usize {
    let found = after(|records| {
        for record in records {
            if let Record::Output(output) = record {
                output.dtype = dtype.into();
                output.compared = Some(edgedyno_shared::repeat::Comparison {
                    max_abs_error_bits: error.to_bits(),
                    reference_range_bits: range.to_bits(),
                    cosine_bits: cosine.map(f64::to_bits),
                });
            }
        }
    });
    assert!(found.iter().all(|f| f.code == "reference_mismatch"));
    found.len()
}

#[test]
fn a_matching_reference_is_quiet() {
    assert_eq!(compared("f32", 9e-4, 1.0, Some(0.999_95)), 0);
    assert_eq!(compared("f32", 9e-2, 100.0, Some(1.0)), 0);
    assert_eq!(compared("f32", 9e-4, 0.0, None), 0);
    assert_eq!(compared("i8", 3.0, 255.0, Some(0.991)), 0);
    assert_eq!(compared("u8", 0.0, 0.0, None), 0);
}

#[test]
fn neither_scale_nor_one_wrong_element_hides_behind_the_cosine() {
    // Twice the reference: the cosine is 1.
    assert_eq!(compared("f32", 1.0, 1.0, Some(1.0)), 1);
    assert_eq!(compared("f32", 0.25, 1.65, Some(0.9995)), 1);
    assert_eq!(compared("f32", 0.0, 1.0, Some(0.9998)), 1);
    assert_eq!(compared("i8", 3.0, 255.0, Some(0.98)), 1);
    assert_eq!(compared("f32", f64::INFINITY, 1.0, Some(1.0)), 1);
}

#[test]
fn the_tool_tells_on_itself() {
    let with = |change: fn(&mut edgedyno_shared::repeat::AgentCost)| {
        let found = after(|records| {
            for record in records {
                if let Record::AgentCost(cost) = record {
                    change(cost);
                }
            }
        });
        only(found).code
    };
    assert_eq!(with(|cost| cost.cpus.clear()), "no_spare_cpu");
    assert_eq!(with(|cost| cost.arena_stalls = 2), "arena_stall");
    assert_eq!(with(|cost| cost.spilled.0 = 9), "arena_spilled");
    let on_disk = only(after(|records| {
        before_the_end(records, event("arena_on_disk"))
    }));
    assert_eq!(on_disk.code, "arena_on_disk");
}

fn clocks(monotonic_s: i64, realtime_ms: i64, boottime_ms: i64) -> Record {
    Record::ClockReading(ClockReading {
        monotonic: Nanos::from_secs(monotonic_s),
        boottime: Some(Nanos::from_millis(boottime_ms)),
        realtime: Some(Nanos::from_millis(realtime_ms)),
        raw: None,
        took: Nanos(300),
    })
}

#[test]
fn a_wall_clock_that_was_set_and_a_board_that_slept_are_told() {
    let with = |readings: [Record; 3]| {
        after(|records| {
            for reading in readings {
                before_the_end(records, reading);
            }
        })
    };
    // Slewed as fast as a kernel does it, 5 ms in 10 s: nothing to tell.
    let slewed = [
        clocks(0, 1_000, 0),
        clocks(10, 11_005, 10_000),
        clocks(20, 21_010, 20_000),
    ];
    assert_eq!(with(slewed), []);
    let set = [
        clocks(0, 1_000, 0),
        clocks(10, 11_000, 10_000),
        clocks(20, 20_500, 20_000),
    ];
    let found = only(with(set));
    assert_eq!(found.code, "wall_clock_set");
    assert_eq!(found.figures["wall_step_ms"], -500.0);
    // Asleep for a minute: the wall clock went on with the boot clock, and the other stood.
    let slept = [
        clocks(0, 1_000, 0),
        clocks(10, 11_000, 10_000),
        clocks(20, 81_000, 80_000),
    ];
    let codes: Vec<_> = with(slept).iter().map(|f| f.code).collect();
    assert_eq!(codes, ["board_slept"]);
}

#[test]
fn failures_restarts_and_failed_trials_are_told() {
    let failed = |code, detail: &str| {
        let failure = Failure::new(code, detail);
        let stage = Stage::Measure;
        codes(&view_of(&[end(Outcome::Failed { stage, failure }, 0, 0)]))
    };
    assert_eq!(failed(FailureCode::Crash, "SIGSEGV"), ["failed_repeat"]);
    assert_eq!(
        failed(FailureCode::AgentRestarted, "power"),
        ["failed_repeat", "agent_restarted"]
    );
    let found = only(after(|records| {
        let slot = [Role::Measure.code(), 0, 1, 1, 0];
        let chunk = edgedyno_shared::columns::Chunk::from_slots(0, 99, 5, &slot);
        before_the_end(records, Record::Chunk(chunk));
    }));
    assert_eq!(
        (found.code, &found.figures["failed"]),
        ("trial_failed", &1.into())
    );
}

#[test]
fn stored_findings_come_back() {
    let (_dir, store) = new_store();
    add_run(&store, "a");
    let note = FindingRow {
        code: "built_in_used_because_no_library".into(),
        level: "note".into(),
        repeat: None,
        text: "no ONNX Runtime was found".into(),
        figures: Map::new(),
    };
    store.put_finding(&run_id("a"), None, &note).unwrap();
    store
        .put_finding(&run_id("a"), Some(Sha256([1; 32])), &note)
        .unwrap();
    let found = only(summarise(&view(&store)).findings);
    assert_eq!(found.text, "no ONNX Runtime was found");
}

#[test]
fn the_gravest_come_first() {
    let found = after(|records| {
        set_end_fact(records, "clock_max_khz.policy0", "1800000");
        for record in records {
            if let Record::AgentCost(cost) = record {
                cost.cpus.clear();
            }
        }
    });
    let codes: Vec<_> = found.iter().map(|f| f.code).collect();
    assert_eq!(codes, ["throttled", "no_spare_cpu"]);
}

/// Name, unit, and values at so many milliseconds.
type OneChannel<'a> = (&'a str, &'a str, &'a [(i64, Option<i64>)]);

/// A quiet repeat with one channel more; the window lies between 100 and about 2 105 ms.
fn with_channels(channels: &[OneChannel<'_>]) -> Vec<Finding> {
    after(|records| {
        for (id, (name, unit, cells)) in channels.iter().enumerate() {
            for record in watched(id as u16, name, unit, cells) {
                before_the_end(records, record);
            }
        }
    })
}

/// From the first of these to the second over the window and beyond.
fn from_to(first: i64, last: i64) -> [(i64, Option<i64>); 3] {
    let middle = first + (last - first) / 2;
    [(0, Some(first)), (1500, Some(middle)), (3000, Some(last))]
}

#[test]
fn cooling_that_slows_is_invalid_and_a_fan_is_not() {
    let state = from_to(0, 2);
    let throttled = only(with_channels(&[(
        "cool.thermal_cpufreq_0.state",
        "steps",
        &state,
    )]));
    assert_eq!(
        (throttled.code, throttled.level),
        ("throttled", Level::Invalid)
    );
    assert_eq!(
        with_channels(&[("cool.pwm_fan.state", "steps", &state)]),
        []
    );
    assert_eq!(
        with_channels(&[("cool.tcc_offset.state", "steps", &state)]),
        []
    );
    let idle = from_to(0, 0);
    assert_eq!(
        with_channels(&[("cool.processor.state", "steps", &idle)]),
        []
    );
}

#[test]
fn slow_downs_that_are_counted_are_invalid() {
    for name in ["cpu.0.throttles", "power.over_current.3"] {
        let found = only(with_channels(&[(name, "count", &from_to(5, 17))]));
        assert_eq!(found.code, "throttled", "{name}");
        assert_eq!(
            with_channels(&[(name, "count", &from_to(5, 5))]),
            [],
            "{name}"
        );
    }
}

/// The window is 2 of the 20 seconds between two readings, and one slow-down lies somewhere in those.
#[test]
fn one_slow_down_between_the_readings_around_the_window_is_invalid() {
    let once = [(-9_000, Some(4)), (11_000, Some(5))];
    for name in ["cpu.0.throttles", "cpu.4.package_throttles"] {
        let found = only(with_channels(&[(name, "count", &once)]));
        assert_eq!(found.code, "throttled", "{name}");
        assert_eq!(found.figures["times"], 1, "{name}");
        assert!(found.text.contains("around the window"), "{}", found.text);
    }
    let since_boot = [(-9_000, Some(0)), (11_000, Some(0x40000))];
    let found = only(with_channels(&[(
        "power.firmware_flags",
        "bits",
        &since_boot,
    )]));
    assert_eq!(found.code, "throttled");
}

#[test]
fn what_told_nothing_within_the_window_does_not_tell_that_nothing_was_held_back() {
    let would_tell = |channels: &[OneChannel<'_>]| {
        let mut records = repeat(&quiet());
        for (id, (name, unit, cells)) in (0..).zip(channels) {
            for record in watched(id, name, unit, cells) {
                before_the_end(&mut records, record);
            }
        }
        let view = view_of(&records);
        would_tell_throttling(view.counting().next().unwrap())
    };
    let (inside, outside) = (from_to(1, 1), [(0, Some(1)), (9_000, Some(1))]);
    for (name, unit) in [
        ("cpu.policy0.freq_max", "hz"),
        ("cool.thermal_cpufreq_0.state", "steps"),
        ("power.firmware_flags", "bits"),
    ] {
        assert!(would_tell(&[(name, unit, &inside)]), "{name}");
        assert!(!would_tell(&[(name, unit, &outside)]), "{name}");
    }
    // What is counted misses nothing between two readings, and everything where there is but one.
    let counter = |cells| would_tell(&[("cpu.0.throttles", "count", cells)]);
    assert!(counter(&outside) && !counter(&outside[..1]));
    // A trip is read once; the zone that it is of is what is watched.
    let trip = ("therm.cpu.trip_1_passive", "millicelsius", &outside[..1]);
    let zone = |cells| would_tell(&[trip, ("therm.cpu.temp", "millicelsius", cells)]);
    assert!(zone(&inside) && !zone(&outside) && !would_tell(&[trip]));
    assert!(!would_tell(&[]));
}

#[test]
fn a_clock_of_the_measured_cpus_that_moves_is_told() {
    let moved = [(200, Some(1_000_000_000)), (1900, Some(3_000_000_000))];
    let held = from_to(3_000_000_000, 3_000_000_000);
    let ramp = with_channels(&[
        ("cpu.policy0.freq", "hz", &moved),
        ("cpu.policy4.freq", "hz", &held),
    ]);
    assert_eq!(only(ramp).code, "clock_ramp");
    // The worker is bound to CPUs 2 and 3: another cluster's clock is its own affair.
    let other = with_channels(&[
        ("cpu.policy0.freq", "hz", &held),
        ("cpu.policy4.freq", "hz", &moved),
    ]);
    assert_eq!(other, []);
    for memory in ["devfreq.dmc.freq", "emc.freq", "tegrastats.emc.freq"] {
        let memory = with_channels(&[(memory, "hz", &moved)]);
        assert_eq!(only(memory).code, "clock_ramp");
    }
}

#[test]
fn clocks_of_accelerators_matter_where_the_backend_uses_them() {
    let moved = [
        (200, Some(0)),
        (500, Some(1_000_000_000)),
        (1900, Some(2_000_000_000)),
    ];
    let slept = [(200, Some(0)), (500, Some(1_000_000_000)), (1900, Some(0))];
    let ramps = |channels: &[OneChannel<'_>], provider: Option<&str>| {
        let mut records = repeat(&quiet());
        for (id, (name, unit, cells)) in (0..).zip(channels) {
            for record in watched(id, name, unit, cells) {
                before_the_end(&mut records, record);
            }
        }
        let mut view = view_of(&records);
        let options = &mut view.entry.case.options;
        options.extend(provider.map(|name| ("provider".to_owned(), name.to_owned())));
        let codes = codes(&view).into_iter();
        codes.filter(|code| *code == "clock_ramp").count()
    };
    let gpu = [
        ("devfreq.fb000000_gpu.freq", "hz", &moved[..]),
        ("nvml.0.sm_freq", "hz", &moved[..]),
    ];
    let npu = [
        ("bpu.0.freq", "hz", &moved[..]),
        ("npu.0.freq", "hz", &moved[..]),
        ("devfreq.fdab0000_npu.freq", "hz", &moved[..]),
    ];
    assert_eq!(ramps(&gpu, None), 0);
    assert_eq!(ramps(&gpu, Some("CUDA")), 2);
    assert_eq!(ramps(&npu, Some("CUDA")), 0);
    assert_eq!(ramps(&npu, Some("RKNPU")), 3);
    // Asleep between two trials is no other speed.
    assert_eq!(ramps(&[("npu.0.freq", "hz", &slept)], Some("RKNPU")), 0);
    let idle_card = [gpu[1], ("nvml.0.load", "ppm", &slept[..1])];
    assert_eq!(ramps(&idle_card, Some("CUDA")), 0);
}

#[test]
fn a_clock_that_was_to_be_held_and_was_not() {
    let found = |arch: &str, busy_ns: i64, base_hz: Option<&str>| {
        let fell = [
            (200, Some(3_000_000_000)),
            (900, Some(2_000_000_000)),
            (1900, Some(3_000_000_000)),
        ];
        let limit = from_to(3_000_000_000, 3_000_000_000);
        let busy = from_to(0, busy_ns);
        let channels: [OneChannel<'_>; 5] = [
            ("cpu.policy2.freq", "hz", &fell),
            ("cpu.policy2.freq_max", "hz", &limit),
            ("cpu.policy4.freq", "hz", &fell),
            ("cpu.policy4.freq_max", "hz", &limit),
            ("cpu.2.busy", "ns", &busy),
        ];
        let mut records = repeat(&quiet());
        for (id, (name, unit, cells)) in (0..).zip(channels) {
            for record in watched(id, name, unit, cells) {
                before_the_end(&mut records, record);
            }
        }
        for (name, cpus) in [("policy2", "2"), ("policy3", "3"), ("policy4", "4")] {
            if let Some(Record::Start(start)) = records.first_mut() {
                set_fact(&mut start.environment, &format!("policy_cpus.{name}"), cpus);
            }
        }
        if let (Some(Record::Start(start)), Some(hz)) = (records.first_mut(), base_hz) {
            set_fact(&mut start.environment, "base_frequency.policy2", hz);
        }
        let mut view = view_of(&records);
        view.entry.rules.fix_clocks = true;
        view.device.as_mut().unwrap().arch = arch.into();
        let found = summarise(&view).findings.into_iter();
        let found = found.filter(|f| ["clock_not_as_asked", "turbo_free"].contains(&f.code));
        found.map(|f| (f.code, f.level)).collect::<Vec<_>>()
    };
    // CPU 2 was at work for 2.7 of 3 s; CPU 4 is another's.
    let at_work = 2_700_000_000;
    let invalid = [("clock_not_as_asked", Level::Invalid)];
    assert_eq!(found("aarch64", at_work, None), invalid);
    // Where a processor has a turbo, its limit is one core's: no reason to throw a run away.
    let free = [("turbo_free", Level::Warning)];
    assert_eq!(found("x86_64", at_work, None), free);
    // Between its base clock and its boost it is where it may be.
    assert_eq!(found("x86_64", at_work, Some("2000000000")), []);
    assert_eq!(found("x86_64", at_work, Some("2400000000")), free);
    // A CPU that idles may rest.
    for arch in ["aarch64", "x86_64"] {
        assert_eq!(found(arch, 300_000_000, None), [], "{arch}");
    }
}

#[test]
fn a_limit_that_was_lower_for_a_while_is_told_with_how_low() {
    let cap =
        |cells: &[(i64, Option<i64>)]| with_channels(&[("cpu.policy0.freq_max", "hz", cells)]);
    let dip = [
        (200, Some(2_000_000_000)),
        (900, Some(1_200_000_000)),
        (1900, Some(2_000_000_000)),
    ];
    let found = only(cap(&dip));
    assert_eq!((found.code, found.level), ("throttled", Level::Invalid));
    assert_eq!(found.figures["lowest"], 1_200_000_000_i64);
    // It fell before the first trial and stayed there.
    let before = [
        (0, Some(2_000_000_000)),
        (200, Some(1_200_000_000)),
        (1900, Some(1_200_000_000)),
    ];
    assert_eq!(only(cap(&before)).figures["before"], 2_000_000_000_i64);
    let rises = [(0, Some(1_200_000_000)), (1900, Some(2_000_000_000))];
    assert_eq!(cap(&rises), []);
}

#[test]
fn alarms_of_rails_cap_power_and_those_of_heat_do_not() {
    let up = [(200, Some(0)), (900, Some(1)), (1900, Some(0))];
    for name in [
        "hwmon.ina3221.curr1.alarm_crit",
        "hwmon.ina3221_2.curr3_vdd_cpu_cv.alarm_max",
        "hwmon.rpi_volt.in0.alarm_lcrit",
    ] {
        let found = only(with_channels(&[(name, "flag", &up)]));
        assert_eq!((found.code, found.level), ("throttled", Level::Invalid));
        assert!(found.text.contains("power was capped"), "{}", found.text);
        let calm = from_to(0, 0);
        assert_eq!(with_channels(&[(name, "flag", &calm)]), [], "{name}");
    }
    for name in [
        "hwmon.coretemp.temp1_package_id_0.alarm_crit",
        "hwmon.nvme.temp1_composite.alarm",
    ] {
        assert_eq!(with_channels(&[(name, "flag", &up)]), [], "{name}");
    }
}

/// Whatever a short run is told to have been held back by, a soak is told of too, and nothing else.
#[test]
fn a_soak_and_a_short_run_see_the_same() {
    let twice = [(200, Some(0)), (900, Some(1)), (1900, Some(2))];
    let heat = [
        (200, Some(70_000)),
        (900, Some(95_500)),
        (1900, Some(80_000)),
    ];
    let trip = [(200, Some(95_000))];
    let counted = from_to(0, 24);
    let since_boot = [(200, Some(0)), (1900, Some(0x40000))];
    let reasons = [(200, Some(1)), (900, Some(5)), (1900, Some(1))];
    let fell = [(200, Some(9)), (900, Some(7)), (1900, Some(9))];
    let boards: [&[OneChannel<'_>]; 9] = [
        &[("cool.thermal_cpufreq_0.state", "steps", &twice)],
        &[("cool.pwm_fan.state", "steps", &twice)],
        &[("cpu.0.throttles", "count", &counted)],
        &[("hwmon.ina3221.curr1.alarm_crit", "flag", &twice)],
        &[("hwmon.nvme.temp1.alarm_crit", "flag", &twice)],
        &[("power.firmware_flags", "bits", &since_boot)],
        &[("nvml.0.clock_reasons", "bits", &reasons)],
        &[("devfreq.dmc.freq_max", "hz", &fell)],
        &[
            ("therm.cpu.temp", "millicelsius", &heat),
            ("therm.cpu.trip_1_passive", "millicelsius", &trip),
        ],
    ];
    for board in boards {
        let mut records = repeat(&quiet());
        let mut seen = Vec::new();
        for (id, (name, unit, cells)) in (0..).zip(board.iter().copied()) {
            let [channel, samples] = watched(id, name, unit, cells);
            if let (Record::Channel(channel), Record::Samples(samples)) = (&channel, &samples) {
                let samples = crate::store::rows::SamplesRow {
                    at_ns: samples.at_ns.clone(),
                    value: samples.value.clone(),
                    quality: samples.quality.clone(),
                };
                seen.push((crate::store::rows::ChannelRow::from(channel), samples));
            }
            before_the_end(&mut records, channel);
            before_the_end(&mut records, samples);
        }
        let view = view_of(&records);
        let told = codes(&view).contains(&"throttled");
        let at = 100 * MS;
        let trials: Vec<crate::view::Span> = (0..400)
            .map(|i| crate::view::Span {
                start_ns: at + i * 5 * MS,
                end_ns: at + (i + 1) * 5 * MS,
            })
            .collect();
        let soak = crate::soak::of(&trials, &seen).unwrap();
        assert_eq!(soak.throttled.is_some(), told, "{:?}", board[0].0);
        let expected = !["cool.pwm_fan.state", "hwmon.nvme.temp1.alarm_crit"].contains(&board[0].0);
        assert_eq!(told, expected, "{:?}", board[0].0);
    }
}

#[test]
fn others_on_the_measured_cpus_are_told_with_their_share() {
    // Over 3 s: CPUs 2 and 3 busy for 5.4 s together, the worker had 4.8 s: 0.2 of a CPU is others'.
    let cpus = [
        ("cpu.2.busy", "ns", &from_to(0, 2_700_000_000)[..]),
        ("cpu.3.busy", "ns", &from_to(0, 2_700_000_000)[..]),
    ];
    let worker = from_to(0, 4_800_000_000);
    let found = with_channels(&[cpus[0], cpus[1], ("worker.cpu", "ns", &worker)]);
    let found = only(found);
    assert_eq!(found.code, "foreign_load");
    let share = found.figures["share_of_one_cpu"].as_f64().unwrap();
    assert!((share - 0.2).abs() < 1e-6, "{share}");
    let all = from_to(0, 5_400_000_000);
    assert_eq!(
        with_channels(&[cpus[0], cpus[1], ("worker.cpu", "ns", &all)]),
        []
    );
    assert_eq!(
        with_channels(&[cpus[0], ("worker.cpu", "ns", &worker)]),
        [],
        "half is not known"
    );
}

#[test]
fn what_the_condition_asks_for_is_nobody_elses() {
    // CPU 2 busy for all of the 3 s, of which the worker had 1.2 s and a stressor the rest.
    let channels = [
        ("cpu.2.busy", "ns", &from_to(0, 3_000_000_000)[..]),
        ("cpu.3.busy", "ns", &from_to(0, 0)[..]),
        ("worker.cpu", "ns", &from_to(0, 1_200_000_000)[..]),
    ];
    let mut records = repeat(&quiet());
    for (id, (name, unit, cells)) in (0..).zip(channels) {
        for record in watched(id, name, unit, cells) {
            before_the_end(&mut records, record);
        }
    }
    let alone = foreign_share(&view_of(&records).repeats[0]).unwrap();
    assert!((alone - 0.6).abs() < 1e-6, "{alone}");
    // Its second of window had 600 ms of CPU, so the window of the trials has 0.6 of it.
    let stressor = |cpu: u16| {
        let mut row = stress_row("mem_read", EffortRow::Full, 1, 600);
        row.cpus = vec![cpu];
        row.threads[0].cpu = cpu;
        row
    };
    let with = |row: StressRow| {
        let mut view = view_of(&records);
        view.repeats[0].row.stress = vec![row];
        foreign_share(&view.repeats[0])
    };
    assert!(with(stressor(2)).unwrap() < 1e-6);
    assert!((with(stressor(1)).unwrap() - 0.6).abs() < 1e-6);
    let mut unseen = stressor(2);
    unseen.threads[0].window = None;
    assert_eq!(with(unseen), None);
    // A tool's threads may be on CPU 1 or on CPU 2.
    let mut tool = stressor(2);
    tool.unit = UnitRow::Own;
    assert!(with(tool.clone()).unwrap() < 1e-6);
    tool.cpus = vec![1, 2];
    assert_eq!(with(tool), None);
}

#[test]
fn beside_another_model_on_the_measured_cpus_others_are_not_known() {
    let busy = from_to(0, 3_000_000_000);
    let channels: [OneChannel<'_>; 3] = [
        ("cpu.2.busy", "ns", &busy),
        ("cpu.3.busy", "ns", &busy),
        ("worker.cpu", "ns", &busy),
    ];
    let mut records = repeat(&quiet());
    for (id, (name, unit, cells)) in (0..).zip(channels) {
        for record in watched(id, name, unit, cells) {
            before_the_end(&mut records, record);
        }
    }
    let others = |cpu: u16| {
        let used = TenantUsed {
            lane: 1,
            tenant: Tenant {
                model: case().model,
                backend: "fake".into(),
                runtime: None,
                options: Vec::new(),
                threads: 1,
                cpus: vec![cpu],
                millihertz: None,
            },
            runtime: None,
            stages: Vec::new(),
            placements: Vec::new(),
            memory: Vec::new(),
            effective: Vec::new(),
            ready: None,
            started: None,
            stopped: None,
            failure: None,
            exit: None,
            stderr: String::new(),
        };
        let mut view = view_of(&records);
        view.repeats[0].row.tenants = vec![TenantRow::from(&used)];
        foreign_share(&view.repeats[0])
    };
    assert!(others(1).is_some());
    assert_eq!(others(2), None);
}

#[test]
fn waiting_and_stolen_time_are_told() {
    let much = from_to(0, 300_000_000);
    let little = from_to(0, 3_000_000);
    let found = only(with_channels(&[("worker.run_delay", "ns", &much)]));
    assert_eq!(
        (found.code, found.level),
        ("run_queue_delay", Level::Warning)
    );
    assert_eq!(with_channels(&[("worker.run_delay", "ns", &little)]), []);
    let stolen = with_channels(&[("cpu.2.steal", "ns", &much), ("cpu.3.steal", "ns", &little)]);
    assert_eq!(only(stolen).code, "steal_time");
}

#[test]
fn memory_that_runs_out_is_told() {
    let gib = 1 << 30;
    let total = from_to(8 * gib, 8 * gib);
    let low = from_to(gib / 4, gib / 4);
    let found = with_channels(&[
        ("mem.available", "bytes", &low),
        ("mem.total", "bytes", &total),
    ]);
    assert_eq!(only(found).code, "memory_near_full");
    let found = with_channels(&[("mem.swapped_out", "pages", &from_to(0, 900))]);
    assert_eq!(only(found).code, "swapping");
    let window = [(200, Some(gib)), (1900, Some(2 * gib))];
    let found = with_channels(&[("worker.rss", "bytes", &window)]);
    assert_eq!(only(found).code, "memory_growth");
}

#[test]
fn what_cannot_be_believed_of_the_watching_is_told() {
    let steady: Vec<(i64, Option<i64>)> = (0..400).map(|i| (i * 100, Some(41_000))).collect();
    let found = with_channels(&[("therm.cpu.temp", "millicelsius", &steady)]);
    assert_eq!(only(found).code, "sensor_dead");
    let fell = [(0, Some(9)), (1500, Some(2)), (3000, Some(5))];
    let found = with_channels(&[("cpu.0.throttles", "count", &fell)]);
    assert_eq!(only(found).code, "counter_wrapped");
    for code in [
        "sampler_slowed",
        "sensor_dear",
        "telemetry_thinned",
        "channel_lost",
        "sampler_wedged",
    ] {
        let found = only(after(|r| before_the_end(r, event(code))));
        let told = match code {
            "sampler_slowed" => "sampler_over_budget",
            code => code,
        };
        assert_eq!(found.code, told);
    }
}

#[test]
fn a_repeat_that_should_have_been_watched_and_was_not_is_told() {
    let mut view = view_of(&repeat(&quiet()));
    assert_eq!(codes(&view), [] as [&str; 0]);
    view.entry.rules = view.entry.rules.clone().watched(TelemetryMode::Normal);
    assert_eq!(codes(&view), ["not_watched"]);
}

#[test]
fn a_governor_that_may_move_is_told() {
    let found = after(|records| {
        for record in records {
            let facts = match record {
                Record::Start(start) => &mut start.environment,
                Record::End(end) => &mut end.environment,
                _ => continue,
            };
            let governor = facts
                .iter_mut()
                .find(|f| f.name == "governor.policy0")
                .unwrap();
            governor.value = edgedyno_shared::device::Reading::Ok("schedutil".into());
        }
    });
    assert_eq!(only(found).code, "governor_not_fixed");
}

/// Levels that make a run exit 6, and those that `--require quiet` alone refuses.
#[test]
fn levels_are_those_that_were_promised() {
    let level = |code: &str| rules().find(|rule| rule.code == code).unwrap().level;
    for code in ["throttled", "clock_not_as_asked"] {
        assert_eq!(level(code), Level::Invalid, "{code}");
    }
    for code in crate::preflight::QUIET {
        assert_eq!(level(code), Level::Warning, "{code}");
    }
}

#[test]
fn firmware_tells_of_now_and_of_between_two_samples() {
    let flags =
        |cells: &[(i64, Option<i64>)]| with_channels(&[("power.firmware_flags", "bits", cells)]);
    // 0x50000: throttled and under voltage at some time since boot, before the window.
    let old = from_to(0x50000, 0x50000);
    assert_eq!(flags(&old), []);
    let now = only(flags(&[
        (0, Some(0)),
        (1000, Some(2)),
        (1500, Some(0)),
        (3000, Some(0x20000)),
    ]));
    assert_eq!((now.code, now.level), ("throttled", Level::Invalid));
    assert_eq!(now.figures["bits"], 2);
    let between = only(flags(&[(1000, Some(0)), (2000, Some(0x40000))]));
    assert_eq!(between.figures["bits"], 4);
}

#[test]
fn a_gpu_that_its_driver_slowed_is_told() {
    // 0x1 is idle: no slow-down. 0x20 is heat.
    let idle = from_to(1, 1);
    assert_eq!(
        with_channels(&[("nvml.0.clock_reasons", "bits", &idle)]),
        []
    );
    let hot = [(0, Some(0)), (1000, Some(0x21)), (3000, Some(0))];
    let found = only(with_channels(&[("nvml.0.clock_reasons", "bits", &hot)]));
    assert_eq!((found.code, found.level), ("throttled", Level::Invalid));
    assert!(found.text.contains("heat"), "{}", found.text);
}

#[test]
fn a_trip_counts_where_no_cooling_device_shows_its_state() {
    let heat = [
        (0, Some(70_000)),
        (1000, Some(95_500)),
        (3000, Some(80_000)),
    ];
    let trip = [(0, Some(95_000))];
    let unused = [(0, Some(-274_000))];
    let zone = ("therm.cpu.temp", "millicelsius", &heat[..]);
    let at = ("therm.cpu.trip_1_passive", "millicelsius", &trip[..]);
    let fan = ("therm.cpu.trip_0_active", "millicelsius", &trip[..]);
    let off = ("therm.cpu.trip_2_passive", "millicelsius", &unused[..]);
    let found = only(with_channels(&[zone, at, fan, off]));
    assert_eq!(found.code, "throttled");
    assert_eq!(found.figures["trip_millicelsius"], 95_000);
    assert_eq!(with_channels(&[zone, fan, off]), []);
    let calm = from_to(0, 0);
    let cooling = ("cool.thermal_cpufreq_0.state", "steps", &calm[..]);
    assert_eq!(with_channels(&[zone, at, cooling]), []);
}

fn set_fact(facts: &mut Vec<edgedyno_shared::device::Fact>, name: &str, value: &str) {
    let value = edgedyno_shared::device::Reading::Ok(value.into());
    let name = name.to_owned();
    facts.push(edgedyno_shared::device::Fact { name, value });
}

#[test]
fn an_accelerator_that_works_for_others_is_told() {
    let shared = |users: &str, times: Option<(&str, &str)>| {
        after(|records| {
            for record in records {
                match record {
                    Record::Start(start) => {
                        set_fact(&mut start.environment, "accelerator_users", users);
                        if let Some((before, _)) = times {
                            set_fact(&mut start.environment, "accelerator_foreign_ns", before);
                        }
                    }
                    Record::End(end) => {
                        if let Some((_, after)) = times {
                            set_fact(&mut end.environment, "accelerator_foreign_ns", after);
                        }
                    }
                    _ => {}
                }
            }
        })
    };
    let by_node = only(shared("camera (70) /dev/bpu0", None));
    assert_eq!(by_node.code, "accelerator_shared");
    assert!(by_node.text.contains("camera"), "{}", by_node.text);
    assert_eq!(shared("none", None), []);
    // Open and idle: the driver counts time, and none went by.
    assert_eq!(shared("x (1) /dev/dri/renderD128", Some(("5", "1005"))), []);
    let by_time = only(shared("none", Some(("0", "99000000000"))));
    assert_eq!(by_time.code, "accelerator_shared");
}
