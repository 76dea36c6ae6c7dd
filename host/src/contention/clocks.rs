//! The clocks of a repeat's window that make another board of it when they are others: of the CPUs that the
//! model and its load ran on, of the memory, and of accelerators.

use super::validity::Mark;
use crate::findings::{policies_of, policies_of_cpus};
use crate::stats::mean;
use crate::telemetry::engines::{self, Engine, Used};
use crate::telemetry::{self, Digest, Figures};
use crate::ui::telemetry::value;
use crate::ui::units::percent;
use crate::view::RepeatView;

/// A clock that moved by more than this made another board of it.
pub const CLOCK_MOVED: f64 = 0.01;

/// What a clock drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Drives {
    Model,
    Load,
    Engine(Engine),
}

/// A clock, or the highest that is allowed, over a window.
struct Clock<'a> {
    name: &'a str,
    drives: Drives,
    figures: Figures,
}

fn of(repeat: &RepeatView) -> Vec<Clock<'_>> {
    let policies = Policies::of(repeat);
    let clock = |digest: &'_ Digest| -> Option<(Drives, Figures)> {
        let drives = drives(&digest.channel.name, &policies)?;
        // An accelerator that sleeps between two jobs shows a clock of zero, and no other is known of then.
        let figures = digest.figures.filter(|figures| figures.min > 0)?;
        Some((drives, figures))
    };
    let all = repeat.telemetry.iter().filter_map(|digest| {
        let (drives, figures) = clock(digest)?;
        let name = digest.channel.name.as_str();
        Some(Clock {
            name,
            drives,
            figures,
        })
    });
    all.collect()
}

/// Clock policies of the CPUs that take part.
struct Policies {
    /// None where nobody knows which CPUs the model had: any may be its own.
    model: Option<Vec<u16>>,
    load: Vec<u16>,
}

impl Policies {
    fn of(repeat: &RepeatView) -> Self {
        let stress = repeat.row.stress.iter().flat_map(|row| &row.cpus);
        let tenants = repeat.row.tenants.iter();
        let tenants = tenants.flat_map(|row| &row.tenant.cpus);
        let model = policies_of(repeat);
        Self {
            model: (!model.is_empty()).then_some(model),
            load: policies_of_cpus(repeat, stress.chain(tenants).copied()),
        }
    }

    fn drive(&self, policy: u16) -> Option<Drives> {
        match &self.model {
            None => Some(Drives::Model),
            Some(model) if model.contains(&policy) => Some(Drives::Model),
            Some(_) => self.load.contains(&policy).then_some(Drives::Load),
        }
    }
}

fn drives(name: &str, policies: &Policies) -> Option<Drives> {
    let (clock, what) = name.rsplit_once('.')?;
    if !matches!(what, "freq" | "freq_max") {
        return None;
    }
    match clock.strip_prefix("cpu.policy") {
        Some(policy) => policies.drive(policy.parse().ok()?),
        // A limit is of the engine that its clock is of.
        None => engines::of_clock(&format!("{clock}.freq")).map(Drives::Engine),
    }
}

/// Clocks that did not stay within the window.
pub(super) fn moved(repeat: &RepeatView, used: Used) -> Vec<Mark> {
    let mark = |clock: Clock<'_>| {
        let moved = 1.0 - clock.figures.min as f64 / clock.figures.max as f64;
        let text = format!("{} moved by {} in the window", clock.name, share(moved));
        (moved > CLOCK_MOVED).then(|| clock.mark("clock_moved", text, used))
    };
    of(repeat).into_iter().filter_map(mark).collect()
}

/// How far the clock of the load moved at most within the window, as a share of its highest.
pub fn most_of_load(repeat: &RepeatView) -> f64 {
    let own = of(repeat).into_iter().filter(|clock| {
        let is_memory = clock.drives == Drives::Engine(Engine::Memory);
        is_memory || matches!(clock.drives, Drives::Load | Drives::Model)
    });
    let moved = own.map(|clock| 1.0 - clock.figures.min as f64 / clock.figures.max as f64);
    moved.fold(0.0, f64::max)
}

/// That no clock of the model's CPUs was seen, where none was.
pub(super) fn unknown(repeat: &RepeatView) -> Option<Mark> {
    let mut clocks = of(repeat).into_iter();
    let is_seen =
        clocks.any(|clock| clock.drives == Drives::Model && clock.name.ends_with(".freq"));
    (!is_seen).then(|| {
        let text = "no clock of the model's CPUs was seen: whether it stayed is not known";
        Mark::note("clock_unknown", text.into())
    })
}

impl Clock<'_> {
    /// What an engine does that the model does not use is others' work.
    fn mark(&self, code: &'static str, text: String, used: Used) -> Mark {
        match self.drives {
            Drives::Engine(engine) if !used.has(engine) => Mark::note(code, text),
            _ => Mark::invalid(code, text),
        }
    }
}

/// Mean clocks of the idle board, by name.
pub(super) struct Idle(Vec<(String, f64)>);

impl Idle {
    pub(super) fn of(repeats: &[&RepeatView]) -> Self {
        let mut all: Vec<(String, Vec<f64>)> = Vec::new();
        for clock in repeats.iter().flat_map(|repeat| of(repeat)) {
            match all.iter_mut().find(|(name, _)| name == clock.name) {
                Some((_, means)) => means.push(clock.figures.mean),
                None => all.push((clock.name.to_owned(), vec![clock.figures.mean])),
            }
        }
        let all = all.into_iter();
        Self(
            all.filter_map(|(name, means)| Some((name, mean::arithmetic(&means)?)))
                .collect(),
        )
    }

    /// Clocks that stood elsewhere than on the idle board. A CPU that has nothing to do but the load has
    /// another clock on the idle board, which is nobody's loss; that of the model's CPU is a note, since a
    /// processor that chooses its clock by how many of its cores work has another one beside any load, which
    /// spin has too.
    pub(super) fn differ(&self, repeat: &RepeatView, used: Used) -> Vec<Mark> {
        let mark = |clock: Clock<'_>| {
            let (_, idle) = self.0.iter().find(|(name, _)| name == clock.name)?;
            let off = clock.figures.mean / idle - 1.0;
            let text = format!(
                "{} was {} on average, {} {} than on the idle board",
                clock.name,
                value("hz", clock.figures.mean),
                share(off.abs()),
                if off < 0.0 { "lower" } else { "higher" }
            );
            let is_other = off.abs() > CLOCK_MOVED && clock.drives != Drives::Load;
            is_other.then(|| match clock.drives {
                Drives::Model => Mark::note("clock_differs", text),
                _ => clock.mark("clock_differs", text, used),
            })
        };
        of(repeat).into_iter().filter_map(mark).collect()
    }
}

/// Mean clock of what the model ran on: of accelerators that its backend uses where they show a clock, else of
/// its CPUs.
pub(super) fn engine_hz(repeat: &RepeatView, used: Used) -> Option<f64> {
    let clocks = of(repeat);
    let mean_of = |is_own: &dyn Fn(Drives) -> bool| {
        let own = clocks.iter().filter(|clock| is_own(clock.drives));
        let own = own.filter(|clock| clock.name.ends_with(".freq"));
        mean::arithmetic(&own.map(|clock| clock.figures.mean).collect::<Vec<_>>())
    };
    let accelerator = |drives: Drives| match drives {
        Drives::Engine(Engine::Memory) | Drives::Model | Drives::Load => false,
        Drives::Engine(engine) => used.has(engine),
    };
    mean_of(&accelerator).or_else(|| mean_of(&|drives| drives == Drives::Model))
}

/// Mean of the hottest sensor over the window, in °C.
pub(super) fn hottest_c(repeat: &RepeatView) -> Option<f64> {
    let sensors = telemetry::heat(&repeat.telemetry);
    let means = sensors.filter_map(|digest| Some(digest.figures?.mean / 1e3));
    means.reduce(f64::max)
}

/// Two digits are enough.
fn share(of: f64) -> String {
    percent((of * 1e3).round() / 1e3)
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::telemetry::ChannelKind;

    use super::super::testing::{digest, watched};
    use super::*;

    /// What a backend uses of which nothing is known.
    const ALL: Used = Used::ALL;

    fn codes(marks: &[Mark]) -> Vec<(&'static str, bool)> {
        marks.iter().map(|mark| (mark.code, mark.invalid)).collect()
    }

    fn clock(name: &str, values: &[i64]) -> Digest {
        digest(name, ChannelKind::Gauge, values)
    }

    /// The model of the sample runs on CPUs 2 and 3.
    #[test]
    fn clocks_of_model_memory_and_accelerator_must_stay_and_those_of_others_need_not() {
        let moves = |name: &str| codes(&moved(&watched(vec![clock(name, &[2_000, 1_900])]), ALL));
        let invalid = vec![("clock_moved", true)];
        for name in [
            "cpu.policy0.freq",
            "cpu.policy0.freq_max",
            "emc.freq",
            "tegrastats.emc.freq",
            "devfreq.dmc.freq",
            "devfreq.3d400000_memory_controller.freq",
            "devfreq.17000000_gpu.freq",
            "devfreq.bwmgr.freq",
            "devfreq.dmc.freq_max",
            "bpu.0.freq",
            "npu.0.freq",
            "nvml.0.freq",
        ] {
            assert_eq!(moves(name), invalid, "{name}");
        }
        for other in ["cpu.policy0.freq_min", "cpu.policy0.freq_limit", "mem.free"] {
            assert_eq!(moves(other), [], "{other}");
        }
        let steady = watched(vec![clock("emc.freq", &[2_000, 1_985])]);
        assert_eq!(moved(&steady, ALL), []);
        let asleep = watched(vec![clock("npu.0.freq", &[0, 1_400, 0])]);
        assert_eq!(moved(&asleep, ALL), []);
    }

    #[test]
    fn a_policy_of_cpus_that_nobody_used_is_left_out() {
        let little = clock("cpu.policy0.freq", &[1_000, 500]);
        let big = clock("cpu.policy2.freq", &[2_000, 2_000]);
        let others = watched(vec![little.clone(), big.clone()]);
        assert_eq!(moved(&others, ALL), []);
        let mut loaded = watched(vec![little, big]);
        let spin = crate::store::rows::EffortRow::Full;
        loaded.row.stress = vec![super::super::achieved::tests::row("spin", spin, 0, 999)];
        assert_eq!(
            codes(&moved(&loaded, ALL)),
            [("clock_moved", true)],
            "CPU 1 spins"
        );
    }

    #[test]
    fn an_accelerator_that_the_model_does_not_use_is_a_note() {
        let repeat = watched(vec![clock("devfreq.gpu.freq", &[2_000, 1_000])]);
        let on_cpu = Used::of("onnxruntime", None);
        assert_eq!(codes(&moved(&repeat, on_cpu)), [("clock_moved", false)]);
        let on_gpu = Used::of("onnxruntime", Some("CUDAExecutionProvider"));
        assert_eq!(codes(&moved(&repeat, on_gpu)), [("clock_moved", true)]);
        // A disk's controller is nobody's engine.
        let storage = watched(vec![clock("devfreq.1d84000_ufshc.freq", &[2_000, 1_000])]);
        assert_eq!(moved(&storage, ALL), []);
    }

    #[test]
    fn a_clock_is_held_against_that_of_the_idle_board() {
        let with = |policy: i64, memory: i64| {
            watched(vec![
                clock("cpu.policy2.freq", &[policy, policy]),
                clock("emc.freq", &[memory, memory]),
                clock("cpu.policy0.freq", &[policy / 2, policy / 2]),
            ])
        };
        let idle = [with(2_000, 3_000), with(2_000, 3_000)];
        let idle = Idle::of(&idle.iter().collect::<Vec<_>>());
        assert_eq!(idle.differ(&with(2_010, 3_000), ALL), []);
        let found = idle.differ(&with(1_900, 3_060), ALL);
        assert_eq!(
            codes(&found),
            [("clock_differs", false), ("clock_differs", true)],
            "a processor may choose its clock; the memory is another"
        );
        assert!(found[0].text.contains("5 % lower"), "{}", found[0].text);
        assert!(found[1].text.contains("2 % higher"), "{}", found[1].text);
        // A clock that the idle board did not show is no other clock.
        assert_eq!(Idle::of(&[]).differ(&with(1_900, 3_000), ALL), []);
    }

    #[test]
    fn a_load_is_as_unsure_as_its_clock_moved() {
        let moved = |channels: Vec<Digest>| most_of_load(&watched(channels));
        let cpu = clock("cpu.policy0.freq", &[2_000, 1_800]);
        let memory = clock("emc.freq", &[1_000, 750]);
        assert!((moved(vec![cpu.clone()]) - 0.1).abs() < 1e-12);
        assert!((moved(vec![cpu, memory]) - 0.25).abs() < 1e-12);
        // What a stressor does not run on moves nothing of it.
        let gpu = clock("devfreq.17000000_gpu.freq", &[2_000, 1_000]);
        assert!(moved(vec![gpu]).abs() < 1e-12 && moved(Vec::new()).abs() < 1e-12);
    }

    #[test]
    fn what_was_not_seen_is_said() {
        let codes = |repeat: &RepeatView| unknown(repeat).map(|mark| (mark.code, mark.invalid));
        assert_eq!(codes(&watched(Vec::new())), Some(("clock_unknown", false)));
        let limit = watched(vec![clock("cpu.policy0.freq_max", &[2_000])]);
        assert_eq!(codes(&limit), Some(("clock_unknown", false)));
        let seen = watched(vec![clock("cpu.policy0.freq", &[2_000])]);
        assert_eq!(codes(&seen), None);
        assert_eq!(engine_hz(&seen, ALL), Some(2_000.0));
        assert_eq!(engine_hz(&watched(Vec::new()), ALL), None);
    }

    #[test]
    fn the_engine_is_the_accelerator_where_there_is_one_and_heat_is_that_of_the_hottest() {
        let sensor = |name: &str, values: &[i64]| {
            let mut digest = clock(name, values);
            digest.channel.unit = "millicelsius".into();
            digest
        };
        let repeat = watched(vec![
            clock("cpu.policy0.freq", &[2_000, 2_000]),
            clock("bpu.0.freq", &[900, 1_100]),
            sensor("therm.a.temp", &[40_000, 42_000]),
            sensor("therm.b.temp", &[30_000, 31_000]),
        ]);
        assert_eq!(engine_hz(&repeat, ALL), Some(1_000.0));
        assert_eq!(hottest_c(&repeat), Some(41.0));
        assert_eq!(hottest_c(&watched(Vec::new())), None);
    }
}
