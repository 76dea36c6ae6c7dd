//! Power and energy: of the whole window, and above what the board takes when it is idle.

use super::rails::Rails;
use crate::stats::interval::half_width;
use crate::store::rows::FidelityRow;
use crate::view::RepeatView;

/// Intervals of energy are at this level.
const LEVEL: f64 = 0.95;

/// Power of the whole board or of what comes nearest to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Power {
    /// The channel it is taken from, or those that it is the sum of.
    pub rail: String,
    /// Of several channels, the longest.
    pub native_period_ns: Option<i64>,
    pub fidelity: FidelityRow,
    pub mean_watts: f64,
    pub joules_per_trial: Option<f64>,
    /// Power of the idle board just before the repeats; none where that was not watched.
    pub idle_watts: Option<f64>,
    pub above_idle: Option<AboveIdle>,
}

/// What trials cost above the idle board.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AboveIdle {
    pub joules_per_trial: f64,
    /// Half the width of its 95 % interval: over repeats where there are several, else by parts of the
    /// window and of the idle time.
    pub uncertainty_joules: Option<f64>,
}

impl Power {
    /// All windows are one: energy is summed over them, and divided by their seconds or by their trials. So a
    /// longer window counts for more, and what is told of power, energy and energy above idle belongs together.
    pub fn of(repeats: &[&RepeatView]) -> Option<Self> {
        let rails = Rails::of(&repeats.last()?.telemetry)?;
        // A repeat where one of them is not known has no power: a part must not pass for all of it.
        let known = repeats.iter().copied();
        let known = known.filter_map(|repeat| Some((repeat, Each::of(repeat, &rails)?)));
        let (known, each): (Vec<&RepeatView>, Vec<Each>) = known.unzip();
        let last = known.last()?;
        let all: Vec<Window> = each.iter().map(|each| each.window).collect();
        let all = Window::sum(&all);
        let beside_idle: Vec<Above> = each.iter().filter_map(|each| each.above).collect();
        Some(Self {
            rail: rails.name(),
            native_period_ns: rails.native_period_ns(last),
            fidelity: rails.fidelity(last)?,
            mean_watts: all.joules / all.seconds,
            joules_per_trial: all.joules_per_trial(),
            idle_watts: idle_watts(&beside_idle),
            above_idle: above_idle(&beside_idle),
        })
    }
}

/// Energy of a window, or of several.
#[derive(Debug, Clone, Copy)]
struct Window {
    joules: f64,
    seconds: f64,
    trials: f64,
}

impl Window {
    fn sum(all: &[Self]) -> Self {
        let none = Self {
            joules: 0.0,
            seconds: 0.0,
            trials: 0.0,
        };
        all.iter().fold(none, |sum, one| Self {
            joules: sum.joules + one.joules,
            seconds: sum.seconds + one.seconds,
            trials: sum.trials + one.trials,
        })
    }

    fn joules_per_trial(self) -> Option<f64> {
        (self.trials > 0.0).then(|| self.joules / self.trials)
    }
}

/// One repeat.
struct Each {
    window: Window,
    /// Where the idle board was watched before it.
    above: Option<Above>,
}

/// A window, with its energy above that of the idle board.
#[derive(Debug, Clone, Copy)]
struct Above {
    window: Window,
    idle_watts: f64,
    /// Half the width of the interval of its energy for each trial, by parts of window and idle time.
    uncertainty_joules: Option<f64>,
}

impl Each {
    fn of(repeat: &RepeatView, rails: &Rails) -> Option<Self> {
        let watts = rails.watts(repeat)?;
        let seconds = repeat.trials.window?.length_ns() as f64 / 1e9;
        let trials = repeat.trials.measured.len() as f64;
        let window = |watts: f64| Window {
            joules: watts * seconds,
            seconds,
            trials,
        };
        let above = rails.idle_watts(repeat).map(|idle_watts| Above {
            window: window(watts - idle_watts),
            idle_watts,
            uncertainty_joules: uncertainty(repeat, rails)
                .filter(|_| trials > 0.0)
                .map(|watts| watts * seconds / trials),
        });
        (seconds > 0.0).then_some(Self {
            window: window(watts),
            above,
        })
    }
}

/// Both means are uncertain, independently of each other.
fn uncertainty(repeat: &RepeatView, rails: &Rails) -> Option<f64> {
    let window = rails.half_width(repeat, LEVEL, |digest| &digest.parts)?;
    let idle = rails.half_width(repeat, LEVEL, |digest| &digest.idle_parts)?;
    Some(window.hypot(idle) / 1e6)
}

/// The idle board's power, for as long as each window took.
fn idle_watts(each: &[Above]) -> Option<f64> {
    let joules = each.iter().map(|one| one.idle_watts * one.window.seconds);
    let (joules, seconds) = joules
        .zip(each.iter().map(|one| one.window.seconds))
        .fold((0.0, 0.0), |(a, b), (joules, seconds)| {
            (a + joules, b + seconds)
        });
    (seconds > 0.0).then(|| joules / seconds)
}

fn above_idle(each: &[Above]) -> Option<AboveIdle> {
    let windows: Vec<Window> = each.iter().map(|one| one.window).collect();
    let joules_per_trial = Window::sum(&windows).joules_per_trial()?;
    let uncertainty_joules = match each {
        [only] => only.uncertainty_joules,
        _ => half_width_of_ratio(&windows, joules_per_trial),
    };
    Some(AboveIdle {
        joules_per_trial,
        uncertainty_joules,
    })
}

/// Half the width of the interval of a ratio of two sums over repeats, by what each repeat is off it (Cochran,
/// Sampling Techniques, 3rd ed., 6.4). Where all have as many trials it is that of their mean.
fn half_width_of_ratio(windows: &[Window], joules_per_trial: f64) -> Option<f64> {
    let trials = Window::sum(windows).trials / windows.len() as f64;
    let off = windows
        .iter()
        .map(|one| (one.joules - joules_per_trial * one.trials) / trials);
    half_width(&off.collect::<Vec<_>>(), LEVEL)
}

#[cfg(test)]
mod tests {
    use super::{Above, Window, above_idle, idle_watts};
    use crate::fields;
    use crate::store::sample::{MS, repeat, watched};
    use crate::summary::summarise;
    use crate::summary::tests::view_of;

    /// A field of a case whose only repeat has a hundred trials of 20 ms, with its rail.
    fn field(name: &str, cells: &[(i64, Option<i64>)], idle_begins: bool) -> Option<f64> {
        let mut records = repeat(&[20 * MS; 100]);
        let end = records.len() - 1;
        for record in &mut records {
            if let edgedyno_shared::wire::record::Record::Start(start) = record {
                // The worker was started at 90 ms where the idle board was watched before.
                start.mono.0 = if idle_begins { 90 * MS } else { -1 };
            }
        }
        for record in watched(0, "rail.vdd_in.power", "microwatt", cells)
            .into_iter()
            .rev()
        {
            records.insert(end, record);
        }
        let summary = summarise(&view_of(&records));
        let field = fields::all().find(|field| field.name == name).unwrap();
        match (field.get)(&summary) {
            fields::Value::Number(number) => Some(number),
            _ => None,
        }
    }

    #[test]
    fn energy_above_idle_matches_a_hand_worked_value() {
        // Idle at 2 W, in the window 5 W: 3 W for each of its 20 ms is 60 mJ.
        let idle = (-4900..90).step_by(100).map(|at| (at, Some(2_000_000)));
        let window = (100..2200).step_by(100).map(|at| (at, Some(5_000_000)));
        let cells: Vec<(i64, Option<i64>)> = idle.chain(window).collect();
        let near = |name: &str, expected: f64| {
            let found = field(name, &cells, true).unwrap();
            assert!((found / expected - 1.0).abs() < 1e-9, "{name}: {found}");
        };
        near("power_idle_w", 2.0);
        near("power_mean_w", 5.0);
        near("energy_above_idle_per_trial_j", 0.06);
        near("trials_per_joule_above_idle", 1.0 / 0.06);
        near("energy_per_trial_j", 0.1);
        near("trials_per_joule", 10.0);
    }

    #[test]
    fn its_uncertainty_is_that_of_both_means() {
        // Five seconds of idle in 8 parts of 625 ms, four at 1.9 W and four at 2.1 W: s = 0.2/sqrt(7) * sqrt(2)
        // = 0.106904 W, half-width 2.364624 s / sqrt(8) = 0.089374 W. The window, two seconds in 4 parts of
        // 500 ms, is flat: 0.089374 W * 20 ms = 1.78748 mJ.
        let idle = (-4910..90).step_by(100).map(|at| {
            let part = (at + 4910) / 625;
            (at, Some(if part % 2 == 0 { 1_900_000 } else { 2_100_000 }))
        });
        let window = (100..2200).step_by(100).map(|at| (at, Some(5_000_000)));
        let cells: Vec<(i64, Option<i64>)> = idle.chain(window).collect();
        let found = field("energy_above_idle_uncertainty_j", &cells, true).unwrap();
        assert!((found / 1.78748e-3 - 1.0).abs() < 1e-4, "{found}");
    }

    #[test]
    fn windows_of_different_length_count_by_their_length() {
        // 10 s at 3 W above an idle of 2 W with 300 trials, and 2 s at 6 W above one of 1 W with 20: 42 J of 320
        // trials, and an idle board of 22 J in 12 s.
        let one = |watts: f64, idle_watts: f64, seconds: f64, trials: f64| Above {
            window: Window {
                joules: watts * seconds,
                seconds,
                trials,
            },
            idle_watts,
            uncertainty_joules: None,
        };
        let each = [one(3.0, 2.0, 10.0, 300.0), one(6.0, 1.0, 2.0, 20.0)];
        let near = |found: f64, expected: f64| {
            assert!((found / expected - 1.0).abs() < 1e-9, "{found}");
        };
        let above = above_idle(&each).unwrap();
        near(above.joules_per_trial, 0.13125);
        near(idle_watts(&each).unwrap(), 22.0 / 12.0);
        // 30 - 39.375 and 12 - 2.625 J off, each of 160 trials: s = 0.05859375 * sqrt(2), and t of one degree of
        // freedom, 12.7062047, times s / sqrt(2).
        near(above.uncertainty_joules.unwrap(), 0.744_504_184);
        // The same watts and trials a second in both: (3 W * 10 s + 3 W * 2 s) / 360.
        let even = [one(3.0, 2.0, 10.0, 300.0), one(3.0, 2.0, 2.0, 60.0)];
        near(above_idle(&even).unwrap().joules_per_trial, 0.1);
        assert!(above_idle(&even).unwrap().uncertainty_joules.unwrap() < 1e-12);
        assert_eq!((above_idle(&[]), idle_watts(&[])), (None, None));
    }

    #[test]
    fn without_an_idle_time_nothing_is_taken_off() {
        let window: Vec<(i64, Option<i64>)> = (0..2200)
            .step_by(100)
            .map(|at| (at, Some(5_000_000)))
            .collect();
        for name in [
            "power_idle_w",
            "energy_above_idle_per_trial_j",
            "trials_per_joule_above_idle",
        ] {
            assert_eq!(field(name, &window, false), None, "{name}");
        }
        let energy = field("energy_per_trial_j", &window, false).unwrap();
        assert!((energy - 0.1).abs() < 1e-9);
    }

    /// The summary of a hundred trials of 20 ms, each channel with a value from before to after the window:
    /// of a counter what it grows by in a second.
    fn board(channels: &[(&str, Option<i64>)]) -> crate::summary::CaseSummary {
        let mut records = repeat(&[20 * MS; 100]);
        for (id, (name, value)) in (0..).zip(channels) {
            let is_counter = name.ends_with(".energy");
            let cell = |at: i64| {
                let value = value.map(|v| if is_counter { v * at / 1000 } else { v });
                (at, value)
            };
            let cells: Vec<(i64, Option<i64>)> = (0..2300).step_by(100).map(cell).collect();
            let unit = if is_counter {
                "microjoule"
            } else {
                "microwatt"
            };
            let end = records.len() - 1;
            records.splice(end..end, watched(id, name, unit, &cells));
        }
        summarise(&view_of(&records))
    }

    fn told(channels: &[(&str, Option<i64>)]) -> Option<(String, f64)> {
        let power = board(channels).board.power?;
        Some((power.rail, (power.mean_watts * 1e6).round()))
    }

    /// The rails of tests/boards/agx-orin.tree; 4 976 mV times 150 mA is the one that it does not list.
    const AGX_ORIN: [(&str, Option<i64>); 4] = [
        ("rail.vdd_gpu_soc.power", Some(2_338_720)),
        ("rail.vdd_cpu_cv.power", Some(746_400)),
        ("rail.vin_sys_5v0.power", Some(4_557_600)),
        ("rail.vddq_vdd2_1v8ao.power", Some(597_120)),
    ];

    #[test]
    fn a_board_without_an_input_rail_has_the_sum_of_its_rails() {
        let (rail, microwatts) = told(&AGX_ORIN).unwrap();
        assert_eq!(microwatts, 8_239_840.0);
        assert_eq!(
            rail,
            "sum of rail.vdd_cpu_cv.power, rail.vdd_gpu_soc.power, rail.vddq_vdd2_1v8ao.power, rail.vin_sys_5v0.power"
        );
        // 8.23984 W for 20 ms.
        let power = board(&AGX_ORIN).board.power.unwrap();
        assert!((power.joules_per_trial.unwrap() / 0.164_796_8 - 1.0).abs() < 1e-9);
        // Its input is the whole, where there is one: the others are parts of it.
        let input = ("rail.vdd_in.power", Some(9_000_000));
        let whole = told(&[&AGX_ORIN[..], &[input]].concat());
        assert_eq!(whole, Some((input.0.into(), 9e6)));
    }

    #[test]
    fn what_could_not_be_read_of_a_sum_is_named() {
        let mut rails = AGX_ORIN;
        rails[1].1 = None;
        let (rail, microwatts) = told(&rails).unwrap();
        assert_eq!(microwatts, 7_493_440.0);
        assert!(
            rail.ends_with("(not read: rail.vdd_cpu_cv.power)"),
            "{rail}"
        );
        let none = told(&[("rail.vdd_in.power", None)]);
        assert_eq!(none, None);
    }

    #[test]
    fn a_computer_is_its_packages_their_memory_and_its_gpus() {
        let packages = [
            ("power.rapl.package_0.energy", Some(30_000_000)),
            ("power.rapl.package_1.energy", Some(20_000_000)),
            ("power.rapl.core.energy", Some(10_000_000)),
            ("power.rapl.dram.energy", Some(4_000_000)),
        ];
        // One GPU counts its energy, the other only tells its power.
        let gpus = [
            ("nvml.0.energy", Some(100_000_000)),
            ("nvml.0.power", Some(99_000_000)),
            ("nvml.1.energy", None),
            ("nvml.1.power", Some(50_000_000)),
        ];
        let (rail, microwatts) = told(&[&packages[..], &gpus].concat()).unwrap();
        assert_eq!(microwatts, 204e6);
        assert_eq!(
            rail,
            "sum of nvml.0.energy, nvml.1.power, power.rapl.dram.energy, power.rapl.package_0.energy, power.rapl.package_1.energy"
        );
        let one = told(&packages[..1]).unwrap();
        assert_eq!(one, ("power.rapl.package_0.energy".into(), 30e6));
        let denied = [("power.rapl.package_0.energy", None), gpus[0]];
        assert_eq!(
            told(&denied).unwrap().0,
            "nvml.0.energy (not read: power.rapl.package_0.energy)"
        );
        // A whole board has its GPU in it.
        let psys = ("power.rapl.psys.energy", Some(80_000_000));
        let whole = told(&[&packages[..], &gpus, &[psys]].concat());
        assert_eq!(whole, Some((psys.0.into(), 80e6)));
    }

    #[test]
    fn energy_above_idle_of_a_sum_is_that_of_its_rails() {
        let of = |watts: i64| {
            let idle = (-4900..90).step_by(100).map(|at| (at, Some(1_000_000)));
            let window = (100..2200).step_by(100);
            let cells = idle.chain(window.map(move |at| (at, Some(watts))));
            cells.collect::<Vec<(i64, Option<i64>)>>()
        };
        let mut records = repeat(&[20 * MS; 100]);
        if let Some(edgedyno_shared::wire::record::Record::Start(start)) = records.first_mut() {
            start.mono.0 = 90 * MS;
        }
        for (id, name, watts) in [
            (0, "rail.a.power", 2_000_000),
            (1, "rail.b.power", 4_000_000),
        ] {
            let end = records.len() - 1;
            records.splice(end..end, watched(id, name, "microwatt", &of(watts)));
        }
        let power = summarise(&view_of(&records)).board.power.unwrap();
        // 6 W in the window, 2 W idle: 4 W for 20 ms.
        assert!((power.idle_watts.unwrap() - 2.0).abs() < 1e-9);
        let above = power.above_idle.unwrap().joules_per_trial;
        assert!((above - 0.08).abs() < 1e-9, "{above}");
    }
}
