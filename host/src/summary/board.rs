//! What the board did while a case was measured: telemetry over the windows of the counting repeats.

use edgedyno_shared::telemetry::Quality;

use crate::findings::{foreign_share, measured_cpus, policies_of};
use crate::stats::mean;
use crate::store::rows::ChannelRow;
use crate::telemetry;
use crate::telemetry::{Digest, Figures, emc};
use crate::view::{CaseView, RepeatView};

use super::ddr::DdrTraffic;
use super::power::Power;
use super::watching;

/// Figures of all counting repeats together; none where no repeat has the channel.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BoardMeanwhile {
    /// Channels with at least one value, and channels without.
    pub watched: Option<usize>,
    pub missing: Vec<Missing>,
    /// CPU time of the worker, for each measured trial and in a second.
    pub cpu_per_trial_ns: Option<f64>,
    pub cpu_share: Option<f64>,
    /// The same for each CPU of the board.
    pub cpu_share_of_board: Option<f64>,
    pub run_delay_share: Option<f64>,
    pub foreign_share: Option<f64>,
    pub steal_share: Option<f64>,
    pub preempted_per_second: Option<f64>,
    /// Clock of the policies of the measured CPUs, and the highest that their hardware has.
    pub clock_hz: Option<Range>,
    pub clock_limit_hz: Option<f64>,
    /// The highest of all sensors, and which it was.
    pub hottest: Option<(String, f64)>,
    pub memory_available_min_bytes: Option<u64>,
    pub memory_total_bytes: Option<u64>,
    pub worker_rss_mean_bytes: Option<f64>,
    pub gpu_memory: Option<GpuMemory>,
    pub power: Option<Power>,
    pub ddr: DdrTraffic,
    /// Share of the time in which the memory controller was busy, and what tells it.
    pub emc: Option<(f64, String)>,
    /// CPU time of the threads that watched, as a share of one CPU.
    pub sampler_share: Option<f64>,
}

/// A channel without a value and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    pub channel: String,
    pub state: String,
    pub reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    pub mean: f64,
    pub min: f64,
    pub max: f64,
}

impl BoardMeanwhile {
    pub fn of(view: &CaseView) -> Self {
        let repeats: Vec<&RepeatView> = view.counting().collect();
        let watched = repeats.iter().copied().filter(|r| !r.telemetry.is_empty());
        let watched: Vec<&RepeatView> = watched.collect();
        let Some(last) = watched.last() else {
            return Self::default();
        };
        let per_second = |name: &str| rate(&watched, name);
        let per_trial = |name: &str| growth_per_trial(&watched, name);
        Self {
            watched: Some(last.telemetry.iter().filter(|d| d.all_good > 0).count()),
            missing: missing(last),
            cpu_per_trial_ns: per_trial("worker.cpu"),
            cpu_share: per_second("worker.cpu").map(|ns| ns / 1e9),
            cpu_share_of_board: per_second("worker.cpu").and_then(|ns| {
                let cpus = last.telemetry.iter().filter(|d| is_cpu(d)).count();
                (cpus > 0).then(|| ns / 1e9 / cpus as f64)
            }),
            run_delay_share: per_second("worker.run_delay").map(|ns| ns / 1e9),
            foreign_share: over(&watched, foreign_share),
            steal_share: over(&watched, |repeat| {
                let cpus: Vec<u16> = measured_cpus(repeat).collect();
                let each = cpus.iter();
                let each = each.map(|cpu| find(repeat, &format!("cpu.{cpu}.steal"))?.per_second());
                let stolen: f64 = each.sum::<Option<f64>>()?;
                (!cpus.is_empty()).then_some(stolen / 1e9)
            }),
            preempted_per_second: per_second("worker.preempted"),
            clock_hz: clock(&watched),
            clock_limit_hz: limit(last),
            hottest: hottest(&watched),
            memory_available_min_bytes: watched
                .iter()
                .filter_map(|repeat| figures(repeat, "mem.available"))
                .map(|figures| figures.min.max(0) as u64)
                .min(),
            memory_total_bytes: find(last, "mem.total")
                .and_then(|digest| digest.latest)
                .map(|bytes| bytes.max(0) as u64),
            worker_rss_mean_bytes: over(&watched, |repeat| {
                Some(figures(repeat, "worker.rss")?.mean)
            }),
            gpu_memory: GpuMemory::of(&watched),
            power: Power::of(&watched),
            ddr: DdrTraffic::of(view, &watched),
            emc: emc::load(&watched, view.emc_scale.as_ref()),
            sampler_share: watching::share(&watched),
        }
    }

    /// What p50 would be if the clock had been at its limit all the time, assuming that all of it goes with
    /// the clock: an estimate, and too low for what waits for memory.
    pub fn at_full_clock(&self, p50_ns: f64) -> Option<f64> {
        let (clock, limit) = (self.clock_hz?.mean, self.clock_limit_hz?);
        (limit > 0.0).then(|| p50_ns * clock / limit)
    }
}

pub(super) fn find<'a>(repeat: &'a RepeatView, name: &str) -> Option<&'a Digest> {
    repeat
        .telemetry
        .iter()
        .find(|digest| digest.channel.name == name)
}

pub(super) fn figures(repeat: &RepeatView, name: &str) -> Option<Figures> {
    find(repeat, name)?.figures
}

/// The mean over repeats that know the figure.
pub(super) fn over(
    repeats: &[&RepeatView],
    figure: impl Fn(&RepeatView) -> Option<f64>,
) -> Option<f64> {
    let known: Vec<f64> = repeats.iter().filter_map(|repeat| figure(repeat)).collect();
    mean::arithmetic(&known)
}

/// Growth of a counter in a second, over all windows together.
pub(super) fn rate(repeats: &[&RepeatView], name: &str) -> Option<f64> {
    let grown = repeats
        .iter()
        .filter_map(|repeat| find(repeat, name)?.growth);
    let (by, seconds) = grown.fold((0.0, 0.0), |(by, seconds), growth| {
        (by + growth.by, seconds + growth.seconds)
    });
    (seconds > 0.0).then(|| by / seconds)
}

/// Growth of a counter for each measured trial; of repeats where the growth is known.
fn growth_per_trial(repeats: &[&RepeatView], name: &str) -> Option<f64> {
    let grown = repeats.iter().filter_map(|repeat| {
        let by = find(repeat, name)?.growth?.by;
        Some((by, repeat.trials.measured.len() as f64))
    });
    let (by, trials) = grown.fold((0.0, 0.0), |(a, b), (by, trials)| (a + by, b + trials));
    (trials > 0.0).then(|| by / trials)
}

fn is_cpu(digest: &Digest) -> bool {
    let name = &digest.channel.name;
    name.starts_with("cpu.") && name.ends_with(".busy")
}

fn is_unused_device(channel: &ChannelRow) -> bool {
    channel.name.starts_with("worker.drm.") && channel.state == Quality::Busy.name()
}

fn missing(repeat: &RepeatView) -> Vec<Missing> {
    let without = repeat
        .telemetry
        .iter()
        .filter(|digest| digest.all_good == 0)
        // A worker that opened no such device has nothing there to be watched.
        .filter(|digest| !is_unused_device(&digest.channel));
    let without = without.map(|digest| Missing {
        channel: digest.channel.name.clone(),
        state: digest.channel.state.clone(),
        reason: digest.channel.reason.clone().unwrap_or_default(),
    });
    without.collect()
}

/// Channels of the clock policies of the measured CPUs: other CPUs' clocks are their own affair.
fn of_policies<'a>(repeat: &'a RepeatView, what: &str) -> Vec<&'a Digest> {
    let policies = policies_of(repeat).into_iter();
    policies
        .filter_map(|policy| find(repeat, &format!("cpu.policy{policy}.{what}")))
        .collect()
}

/// Clocks of the measured CPUs; where they have several policies, of all of them together.
fn clock(repeats: &[&RepeatView]) -> Option<Range> {
    let clocks = repeats
        .iter()
        .flat_map(|repeat| of_policies(repeat, "freq"));
    let known: Vec<Figures> = clocks.filter_map(|digest| digest.figures).collect();
    let means: Vec<f64> = known.iter().map(|figures| figures.mean).collect();
    Some(Range {
        min: known.iter().map(|f| f.min).min()? as f64,
        max: known.iter().map(|f| f.max).max()? as f64,
        mean: mean::arithmetic(&means)?,
    })
}

fn limit(repeat: &RepeatView) -> Option<f64> {
    let limits = of_policies(repeat, "freq_limit").into_iter();
    let limits: Vec<f64> = limits
        .filter_map(|d| d.latest)
        .map(|hz| hz as f64)
        .collect();
    mean::arithmetic(&limits)
}

/// Memory of GPUs: the worker's where the driver tells that, else everybody's. A worker that has none on any device
/// with a DRM driver may have it on a card that only the vendor's library tells of.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuMemory {
    pub mean_bytes: f64,
    /// The channels that tell it.
    pub by: String,
    /// It is the worker's alone.
    pub is_workers: bool,
}

impl GpuMemory {
    fn of(repeats: &[&RepeatView]) -> Option<Self> {
        const OF_WORKER: &str = "worker.drm.memory";
        let mean_of = |name: &str| over(repeats, |repeat| Some(figures(repeat, name)?.mean));
        let of_worker = mean_of(OF_WORKER).map(|mean_bytes| Self {
            mean_bytes,
            by: OF_WORKER.into(),
            is_workers: true,
        });
        if of_worker.as_ref().is_some_and(|own| own.mean_bytes > 0.0) {
            return of_worker;
        }
        let last = repeats.last()?.telemetry.iter();
        let names = last.map(|digest| digest.channel.name.as_str());
        let names = names.filter(|n| n.starts_with("nvml.") && n.ends_with(".memory_used"));
        let known: Vec<(&str, f64)> = names.filter_map(|n| Some((n, mean_of(n)?))).collect();
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let of_all = (!known.is_empty()).then(|| Self {
            mean_bytes: known.iter().map(|(_, bytes)| bytes).sum(),
            by: names.join(" and "),
            is_workers: false,
        });
        of_all.or(of_worker)
    }

    /// The channels, and whose memory they tell.
    pub fn told_by(&self) -> String {
        match self.is_workers {
            true => self.by.clone(),
            false => format!("{}: everybody's", self.by),
        }
    }
}

fn hottest(repeats: &[&RepeatView]) -> Option<(String, f64)> {
    let sensors = repeats.iter().flat_map(|r| telemetry::heat(&r.telemetry));
    let known = sensors.filter_map(|digest| Some((&digest.channel.name, digest.figures?.max)));
    let (name, max) = known.max_by_key(|(_, max)| *max)?;
    Some((name.clone(), max as f64 / 1e3))
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::wire::record::Record;

    use super::*;
    use crate::findings::tests::before_the_end;
    use crate::store::sample::{MS, fact, repeat, watched};
    use crate::summary::summarise;
    use crate::summary::tests::view_of;

    /// The board while a hundred trials of 20 ms ran on CPUs 2 and 3, with these constant gauges.
    fn with(gauges: &[(&str, i64)], facts: &[(&str, &str)]) -> BoardMeanwhile {
        let mut records = repeat(&[20 * MS; 100]);
        for record in &mut records {
            if let Record::Start(start) = record {
                let facts = facts.iter().map(|(name, value)| fact(name, value));
                start.environment.extend(facts);
            }
        }
        for (id, (name, value)) in (0..).zip(gauges) {
            let cells = [(200, Some(*value)), (1900, Some(*value))];
            for record in watched(id, name, "any", &cells) {
                before_the_end(&mut records, record);
            }
        }
        summarise(&view_of(&records)).board
    }

    const CLUSTERS: [(&str, i64); 4] = [
        ("cpu.policy0.freq", 1_000_000_000),
        ("cpu.policy0.freq_limit", 2_000_000_000),
        ("cpu.policy4.freq", 3_000_000_000),
        ("cpu.policy4.freq_limit", 3_000_000_000),
    ];

    #[test]
    fn the_clock_is_that_of_the_measured_cpus() {
        // CPUs 2 and 3 are policy0's: half its limit, whatever the other cluster does.
        let board = with(&CLUSTERS, &[]);
        assert_eq!(board.clock_hz.unwrap().mean, 1e9);
        assert_eq!(board.clock_hz.unwrap().max, 1e9);
        assert_eq!(board.at_full_clock(10e6), Some(5e6));
    }

    #[test]
    fn which_cpus_are_whose_is_what_the_board_says() {
        let told = [
            ("policy_cpus.policy0", "0-1,4-5"),
            ("policy_cpus.policy4", "2-3"),
        ];
        let board = with(&CLUSTERS, &told);
        assert_eq!(board.clock_hz.unwrap().mean, 3e9);
        assert_eq!(board.at_full_clock(10e6), Some(10e6));
    }

    #[test]
    fn memory_of_a_gpu_says_whose_it_is() {
        let nvml = [
            ("nvml.0.memory_used", 3 << 30),
            ("nvml.1.memory_used", 1 << 30),
        ];
        let everybodys = with(&nvml, &[]).gpu_memory.unwrap();
        assert_eq!(everybodys.mean_bytes, (4_u64 << 30) as f64);
        assert_eq!(
            everybodys.told_by(),
            "nvml.0.memory_used and nvml.1.memory_used: everybody's"
        );
        let both = [nvml[0], ("worker.drm.memory", 1 << 20)];
        let of_worker = with(&both, &[]).gpu_memory.unwrap();
        assert_eq!(of_worker.mean_bytes, (1_u64 << 20) as f64);
        assert!(of_worker.is_workers, "{of_worker:?}");
        // A worker on a card without a DRM account has nothing on the one that has.
        let beside = [("worker.drm.memory", 0), nvml[0]];
        let told = with(&beside, &[]).gpu_memory.unwrap();
        assert_eq!(told.by, "nvml.0.memory_used");
        let none = with(&beside[..1], &[]).gpu_memory.unwrap();
        assert_eq!((none.mean_bytes, none.is_workers), (0.0, true));
        assert_eq!(with(&CLUSTERS, &[]).gpu_memory, None);
    }
}
