//! Power and energy: of the whole window, and above what the board takes when it is idle.

use super::board::{figures, find, over, rate};
use crate::stats::interval::half_width;
use crate::stats::mean;
use crate::store::rows::FidelityRow;
use crate::telemetry::Digest;
use crate::view::RepeatView;

/// Rails that stand for the whole board, the best first.
const WHOLE: [&str; 8] = [
    "rail.vdd_in.power",
    "rail.vin.power",
    "rail.pom_5v_in.power",
    "rail.vin_sys_5v0.power",
    "rail.sys_vin_mv.power",
    "power.rapl.psys.energy",
    "power.rapl.package_0.energy",
    "tegrastats.vdd_in.power",
];

/// Intervals of energy are at this level.
const LEVEL: f64 = 0.95;

/// Power of the whole board or of what comes nearest to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Power {
    /// The channel it is taken from.
    pub rail: String,
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
    pub fn of(repeats: &[&RepeatView]) -> Option<Self> {
        let last = repeats.last()?;
        let rail = WHOLE
            .iter()
            .find(|name| find(last, name).is_some_and(|digest| digest.figures.is_some()));
        let rail = *rail?;
        let digest = find(last, rail)?;
        let watts = match digest.is_counter() {
            true => rate(repeats, rail)? / 1e6,
            false => over(repeats, |repeat| Some(figures(repeat, rail)?.mean))? / 1e6,
        };
        let seconds: f64 = repeats.iter().filter_map(|repeat| seconds(repeat)).sum();
        let trials: usize = repeats.iter().map(|r| r.trials.measured.len()).sum();
        let each: Vec<Each> = repeats
            .iter()
            .filter_map(|repeat| Each::of(repeat, rail))
            .collect();
        let idle: Vec<f64> = each.iter().map(|each| each.idle_watts).collect();
        Some(Self {
            rail: rail.into(),
            native_period_ns: digest.channel.native_period_ns,
            fidelity: digest.channel.fidelity,
            mean_watts: watts,
            joules_per_trial: (trials > 0).then(|| watts * seconds / trials as f64),
            idle_watts: mean::arithmetic(&idle),
            above_idle: above_idle(&each),
        })
    }
}

/// One repeat.
struct Each {
    idle_watts: f64,
    joules_per_trial: f64,
    uncertainty_joules: Option<f64>,
}

impl Each {
    fn of(repeat: &RepeatView, rail: &str) -> Option<Self> {
        let digest = find(repeat, rail)?;
        let idle_watts = mean::arithmetic(&digest.idle_parts)? / 1e6;
        let watts = match digest.is_counter() {
            true => digest.per_second()?,
            false => digest.mean()?,
        } / 1e6;
        let trials = Some(repeat.trials.measured.len()).filter(|n| *n > 0)? as f64;
        let per_trial = seconds(repeat)? / trials;
        Some(Self {
            idle_watts,
            joules_per_trial: (watts - idle_watts) * per_trial,
            uncertainty_joules: uncertainty(digest).map(|watts| watts * per_trial),
        })
    }
}

/// Both means are uncertain, independently of each other.
fn uncertainty(digest: &Digest) -> Option<f64> {
    let window = half_width(&digest.parts, LEVEL)?;
    let idle = half_width(&digest.idle_parts, LEVEL)?;
    Some(window.hypot(idle) / 1e6)
}

fn seconds(repeat: &RepeatView) -> Option<f64> {
    Some(repeat.trials.window?.length_ns() as f64 / 1e9)
}

fn above_idle(each: &[Each]) -> Option<AboveIdle> {
    let joules: Vec<f64> = each.iter().map(|each| each.joules_per_trial).collect();
    let uncertainty_joules = match each {
        [only] => only.uncertainty_joules,
        _ => half_width(&joules, LEVEL),
    };
    Some(AboveIdle {
        joules_per_trial: mean::arithmetic(&joules)?,
        uncertainty_joules,
    })
}

#[cfg(test)]
mod tests {
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
}
