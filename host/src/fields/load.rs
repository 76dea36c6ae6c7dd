//! What else the board did meanwhile.

use super::{Field, Subject, Unit, Value};

pub(super) const SUBJECT: Subject = Subject {
    name: "load",
    title: "Load beside the case",
    fields: FIELDS,
};

const FIELDS: &[Field] = &[
    Field {
        name: "load_bps",
        unit: Unit::Figure,
        definition: "bytes a second that stressors moved through memory in the window by the wall, each byte read and each byte written once; the mean over repeats, and 0 under a load that moves none",
        source: "counted by the stressors",
        get: |s| Value::number(s.load.bps),
    },
    Field {
        name: "load_per_cpu_second_bps",
        unit: Unit::Figure,
        definition: "the same for each second of the stressors' own CPU time: other work on their CPUs does not lower it",
        source: "counted by the stressors",
        get: |s| Value::number(s.load.per_cpu_second_bps),
    },
    Field {
        name: "load_target_bps",
        unit: Unit::Figure,
        definition: "bytes a second that the stressors were told to move through memory; none at full effort",
        source: "order",
        get: |s| Value::number(s.load.target_bps),
    },
    Field {
        name: "load_disk_bps",
        unit: Unit::Figure,
        definition: "bytes a second that `io` wrote in the window, by the wall; they are no traffic of the memory and not in load_bps",
        source: "counted by the stressors",
        get: |s| Value::number(s.load.disk_bps),
    },
    Field {
        name: "load_cache_bps",
        unit: Unit::Figure,
        definition: "bytes a second of the cache lines that `cache_thrash` read and wrote, by the wall; caches hold them, so they are not in load_bps",
        source: "counted by the stressors",
        get: |s| Value::number(s.load.cache_bps),
    },
    Field {
        name: "load_cpu_share",
        unit: Unit::Share,
        definition: "CPU time of a stressor's thread as a share of the window: the least of all threads and repeats",
        source: "counted by the stressors",
        get: |s| Value::number(s.load.cpu_share),
    },
    Field {
        name: "load_duty_share",
        unit: Unit::Share,
        definition: "time in which stressors that were told to work a share of the time worked and did not rest, as a share of their CPU time, or of the window where they leave the CPU; the mean over threads and repeats",
        source: "counted by the stressors",
        get: |s| Value::number(s.load.duty),
    },
    Field {
        name: "load_target_duty_share",
        unit: Unit::Share,
        definition: "share of the time that such stressors were told to work; none where none was",
        source: "order",
        get: |s| Value::number(s.load.target_duty),
    },
];
