//! What the board did meanwhile.

use super::{Field, Subject, Unit, Value};
use crate::summary::{AboveIdle, CaseSummary};

pub(super) const SUBJECT: Subject = Subject {
    name: "board",
    title: "The board meanwhile",
    fields: FIELDS,
};

fn above_idle(s: &CaseSummary) -> Option<AboveIdle> {
    s.board.power.as_ref()?.above_idle
}

const FIELDS: &[Field] = &[
    Field {
        name: "cpu_time_per_trial_ms",
        unit: Unit::Milliseconds,
        definition: "CPU time of the worker's threads inside the windows for each measured trial",
        source: "telemetry worker.cpu",
        get: |s| Value::ms(s.board.cpu_per_trial_ns),
    },
    Field {
        name: "worker_cpu_share",
        unit: Unit::Share,
        definition: "CPU time of the worker inside the windows in a second; 2 means two CPUs",
        source: "telemetry worker.cpu",
        get: |s| Value::number(s.board.cpu_share),
    },
    Field {
        name: "worker_cpu_of_board_share",
        unit: Unit::Share,
        definition: "the same for each CPU of the board; 1 means all of them",
        source: "telemetry worker.cpu",
        get: |s| Value::number(s.board.cpu_share_of_board),
    },
    Field {
        name: "worker_rss_mean_bytes",
        unit: Unit::Bytes,
        definition: "mean resident memory of the worker inside the windows, arena included",
        source: "telemetry worker.rss",
        get: |s| Value::count(s.board.worker_rss_mean_bytes.map(|bytes| bytes as u64)),
    },
    Field {
        name: "gpu_memory_mean_bytes",
        unit: Unit::Bytes,
        definition: "mean memory of GPUs in use inside the windows: the worker's where a DRM driver tells that it has some, else everybody's, as gpu_memory_by says",
        source: "telemetry worker.drm.memory, nvml.N.memory_used",
        get: |s| Value::count(s.board.gpu_memory.as_ref().map(|m| m.mean_bytes as u64)),
    },
    Field {
        name: "gpu_memory_by",
        unit: Unit::Text,
        definition: "the channel that tells it, and whether that is everybody's memory",
        source: "telemetry",
        get: |s| Value::text(s.board.gpu_memory.as_ref().map(|m| m.told_by())),
    },
    Field {
        name: "run_delay_share",
        unit: Unit::Share,
        definition: "time in which the worker's threads wanted to run and waited for a CPU, in a second of the windows",
        source: "telemetry worker.run_delay",
        get: |s| Value::number(s.board.run_delay_share),
    },
    Field {
        name: "foreign_load_share",
        unit: Unit::Share,
        definition: "what others used of the measured CPUs, as a share of one CPU; unknown for windows under half a second",
        source: "telemetry cpu.N.busy, worker.cpu",
        get: |s| Value::number(s.board.foreign_share),
    },
    Field {
        name: "steal_share",
        unit: Unit::Share,
        definition: "what a hypervisor took of the measured CPUs, as a share of one CPU",
        source: "telemetry cpu.N.steal",
        get: |s| Value::number(s.board.steal_share),
    },
    Field {
        name: "clock_mean_hz",
        unit: Unit::Hertz,
        definition: "mean clock of the measured CPUs' policies inside the windows",
        source: "telemetry cpu.POLICY.freq",
        get: |s| Value::number(s.board.clock_hz.map(|clock| clock.mean)),
    },
    Field {
        name: "clock_min_hz",
        unit: Unit::Hertz,
        definition: "lowest clock of the measured CPUs' policies seen inside the windows",
        source: "telemetry cpu.POLICY.freq",
        get: |s| Value::number(s.board.clock_hz.map(|clock| clock.min)),
    },
    Field {
        name: "clock_max_hz",
        unit: Unit::Hertz,
        definition: "highest clock of the measured CPUs' policies seen inside the windows",
        source: "telemetry cpu.POLICY.freq",
        get: |s| Value::number(s.board.clock_hz.map(|clock| clock.max)),
    },
    Field {
        name: "latency_p50_at_full_clock_ms",
        unit: Unit::Milliseconds,
        definition: "an estimate: latency_p50_ms times the mean clock of the measured CPUs over the highest that their hardware has, as if all of it went with the clock; too low for what waits for memory",
        source: "telemetry cpu.POLICY.freq, cpu.POLICY.freq_limit, trials",
        get: |s| {
            let p50 = s.latency.as_ref().map(|l| l.distribution.p50.value);
            Value::ms(p50.and_then(|p50| s.board.at_full_clock(p50)))
        },
    },
    Field {
        name: "temperature_max_c",
        unit: Unit::Celsius,
        definition: "the highest temperature that any sensor showed inside the windows",
        source: "telemetry therm.*.temp, hwmon.*.temp",
        get: |s| Value::number(s.board.hottest.as_ref().map(|(_, celsius)| *celsius)),
    },
    Field {
        name: "temperature_sensor",
        unit: Unit::Text,
        definition: "the sensor that showed it",
        source: "telemetry",
        get: |s| Value::text(s.board.hottest.as_ref().map(|(name, _)| name.clone())),
    },
    Field {
        name: "memory_available_min_bytes",
        unit: Unit::Bytes,
        definition: "the least memory that was available to new work inside the windows",
        source: "telemetry mem.available",
        get: |s| Value::count(s.board.memory_available_min_bytes),
    },
    Field {
        name: "power_mean_w",
        unit: Unit::Watts,
        definition: "energy of all windows over their seconds, so that a longer one counts for more, of the rail that power_rail names, or of the sum of all that it names; nothing is taken off for the idle board",
        source: "telemetry rail.*.power, power.rapl.*.energy, nvml.*.energy or .power",
        get: |s| Value::number(s.board.power.as_ref().map(|power| power.mean_watts)),
    },
    Field {
        name: "power_rail",
        unit: Unit::Text,
        definition: "the channel that power and energy are taken from: the board's input where it is measured, else the sum of those named, the board's rails or a computer's packages, memory and GPUs; what belongs to it and could not be read is named too",
        source: "telemetry",
        get: |s| Value::text(s.board.power.as_ref().map(|power| power.rail.clone())),
    },
    Field {
        name: "power_native_period_ms",
        unit: Unit::Milliseconds,
        definition: "how often that channel's source itself changes, of a sum the slowest, where it is known: windows of a few of them say little",
        source: "telemetry",
        get: |s| {
            let power = s.board.power.as_ref();
            Value::ms(power.and_then(|p| p.native_period_ns).map(|ns| ns as f64))
        },
    },
    Field {
        name: "power_idle_w",
        unit: Unit::Watts,
        definition: "power of the idle board by the same rail, just before the repeats, each for as long as its window took; known where --idle-power watched it",
        source: "telemetry before the worker started",
        get: |s| Value::number(s.board.power.as_ref().and_then(|power| power.idle_watts)),
    },
    Field {
        name: "energy_above_idle_per_trial_j",
        unit: Unit::Joules,
        definition: "energy of the windows above that of the idle board for each measured trial: (power_mean_w - power_idle_w) x seconds of all windows / their trials, of repeats before which the idle board was watched",
        source: "telemetry, trials",
        get: |s| Value::number(above_idle(s).map(|above| above.joules_per_trial)),
    },
    Field {
        name: "energy_above_idle_uncertainty_j",
        unit: Unit::Joules,
        definition: "half the width of its 95 % interval: over repeats, or with one repeat by equal parts of window and idle time, which leaves out errors of the sensor itself",
        source: "telemetry, trials",
        get: |s| Value::number(above_idle(s).and_then(|above| above.uncertainty_joules)),
    },
    Field {
        name: "trials_per_joule_above_idle",
        unit: Unit::Figure,
        definition: "the inverse of energy_above_idle_per_trial_j, where that is above its uncertainty",
        source: "telemetry, trials",
        get: |s| {
            let sure = |above: &AboveIdle| {
                above.joules_per_trial > above.uncertainty_joules.unwrap_or(0.0)
            };
            let above = above_idle(s).filter(sure);
            Value::number(above.map(|above| 1.0 / above.joules_per_trial))
        },
    },
    Field {
        name: "energy_per_trial_j",
        unit: Unit::Joules,
        definition: "energy of all windows over all their measured trials, by that rail, the idle board's share included",
        source: "telemetry, trials",
        get: |s| Value::number(s.board.power.as_ref().and_then(|p| p.joules_per_trial)),
    },
    Field {
        name: "trials_per_joule",
        unit: Unit::Figure,
        definition: "the inverse of energy_per_trial_j",
        source: "telemetry, trials",
        get: |s| {
            let joules = s.board.power.as_ref().and_then(|p| p.joules_per_trial);
            Value::number(
                joules
                    .filter(|joules| *joules > 0.0)
                    .map(|joules| 1.0 / joules),
            )
        },
    },
    Field {
        name: "ddr_per_trial_bytes",
        unit: Unit::Bytes,
        definition: "bytes to and from memory inside the windows for each measured trial, by counters of the memory controller: everybody's, not the worker's alone",
        source: "telemetry ddr.*_bytes",
        get: |s| Value::count(s.board.ddr.bytes_per_trial.map(|bytes| bytes as u64)),
    },
    Field {
        name: "ddr_per_second_bytes",
        unit: Unit::Bytes,
        definition: "the same in a second",
        source: "telemetry ddr.*_bytes",
        get: |s| Value::count(s.board.ddr.bytes_per_second.map(|bytes| bytes as u64)),
    },
    Field {
        name: "ddr_peak_per_second_bytes",
        unit: Unit::Bytes,
        definition: "what memory of this board can move in a second by its data sheet: transfers times width of the bus; unknown for boards that the data file does not know",
        source: "host/src/telemetry/ddr_peaks.toml by board_model and soc",
        get: |s| Value::count(s.board.ddr.peak_per_second().map(|bytes| bytes as u64)),
    },
    Field {
        name: "ddr_peak_source",
        unit: Unit::Text,
        definition: "the board it was taken for, and where that figure is from",
        source: "host/src/telemetry/ddr_peaks.toml",
        get: |s| {
            let peak = s.board.ddr.peak;
            Value::text(peak.map(|peak| format!("{}: {}", peak.name, peak.source)))
        },
    },
    Field {
        name: "ddr_peak_share",
        unit: Unit::Share,
        definition: "ddr_per_second_bytes as a share of ddr_peak_per_second_bytes; 60 to 90 % is what boards reach in practice",
        source: "telemetry ddr.*_bytes",
        get: |s| Value::number(s.board.ddr.share_of_peak()),
    },
    Field {
        name: "ddr_clock_peak_share",
        unit: Unit::Share,
        definition: "the same of what memory can move at the clock it had inside the windows",
        source: "telemetry ddr.*_bytes and the memory's clock",
        get: |s| Value::number(s.board.ddr.share_of_clock_peak()),
    },
    Field {
        name: "ddr_ceiling_per_second_bytes",
        unit: Unit::Bytes,
        definition: "the most that a stressor moved through memory of this board as it was, by its own count of useful bytes; kept by the calibrations of `stress`",
        source: "calibrations of the store",
        get: |s| Value::count(s.board.ddr.ceiling.as_ref().map(|c| c.bytes_per_second)),
    },
    Field {
        name: "ddr_ceiling_by",
        unit: Unit::Text,
        definition: "the stressor that did, and its CPUs",
        source: "calibrations of the store",
        get: |s| Value::text(s.board.ddr.ceiling.as_ref().map(|c| c.by.clone())),
    },
    Field {
        name: "ddr_ceiling_share",
        unit: Unit::Share,
        definition: "ddr_per_second_bytes as a share of ddr_ceiling_per_second_bytes; the one counts all traffic, the other useful bytes",
        source: "telemetry ddr.*_bytes, calibrations of the store",
        get: |s| Value::number(s.board.ddr.share_of_ceiling()),
    },
    Field {
        name: "emc_load_share",
        unit: Unit::Share,
        definition: "share of the time in which a Jetson's memory controller was busy inside the windows, at the clock it had: by its activity monitor where `stress` learned the unit of that on this board, else as tegrastats told root",
        source: "telemetry emc.activity, emc.freq, tegrastats.emc.load",
        get: |s| Value::number(s.board.emc.as_ref().map(|(share, _)| *share)),
    },
    Field {
        name: "emc_load_by",
        unit: Unit::Text,
        definition: "which of the two told it, and how well the unit that was learned explains the tool",
        source: "telemetry, what the store learned of the board",
        get: |s| Value::text(s.board.emc.as_ref().map(|(_, by)| by.clone())),
    },
    Field {
        name: "channels_watched_count",
        unit: Unit::Count,
        definition: "channels that gave at least one value",
        source: "telemetry",
        get: |s| Value::count(s.board.watched.map(|n| n as u64)),
    },
    Field {
        name: "channels_missing_count",
        unit: Unit::Count,
        definition: "channels that gave none; `edgedyno samples RUN` tells why",
        source: "telemetry",
        get: |s| Value::count(s.board.watched.map(|_| s.board.missing.len() as u64)),
    },
    Field {
        name: "sampler_cpu_share",
        unit: Unit::Share,
        definition: "CPU time inside the windows of what watches: the agent's threads and the processes that they ask, as a share of one CPU",
        source: "telemetry sampler*.cpu, sensor.*.cpu",
        get: |s| Value::number(s.board.sampler_share),
    },
];
