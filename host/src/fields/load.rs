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
        definition: "bytes a second that stressors moved in the window by the wall, each byte read and each byte written once; the mean over repeats, and 0 under a load that moves none",
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
        definition: "bytes a second that the stressors were told to move; none at full effort",
        source: "order",
        get: |s| Value::number(s.load.target_bps),
    },
    Field {
        name: "load_cpu_share",
        unit: Unit::Share,
        definition: "CPU time of a stressor's thread as a share of the window: the least of all threads and repeats",
        source: "counted by the stressors",
        get: |s| Value::number(s.load.cpu_share),
    },
];
