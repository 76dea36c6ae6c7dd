//! Trials one by one, as `records` prints and exports write them.

use edgedyno_shared::columns::{Role, STATUS, Status};
use edgedyno_shared::ids::Sha256;
use serde_json::{Map, Value};

use crate::source::{Source, SourceError};
use crate::stats::outlier::Scale;
use crate::store::{Columns, RepeatRow};

/// Columns of a row that say which trial it is and how it ended; the lane's own columns follow.
pub const LEADING: [&str; 9] = [
    "case",
    "repeat",
    "attempt",
    "pass",
    "lane",
    "trial",
    "role",
    "status",
    "latency_ms",
];

/// Trials of one lane of one attempt.
#[derive(Debug)]
pub struct LaneRecords {
    case: Sha256,
    repeat: RepeatRow,
    lane: u16,
    columns: Columns,
}

/// One trial.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    of: &'a LaneRecords,
    trial: usize,
}

/// Goes through all lanes of a case, attempt by attempt, one lane in memory at a time.
pub fn each_lane<E: From<SourceError>>(
    source: &Source,
    case: Sha256,
    mut look: impl FnMut(&LaneRecords) -> Result<(), E>,
) -> Result<(), E> {
    for view in source.view(case)?.repeats {
        for lane in source.lanes(&view.row)? {
            let columns = source.columns(&view.row, lane)?;
            let repeat = view.row.clone();
            look(&LaneRecords {
                case,
                repeat,
                lane,
                columns,
            })?;
        }
    }
    Ok(())
}

impl LaneRecords {
    /// Labels of the lane's own columns; role and status are among the leading ones.
    pub fn labels(&self) -> Vec<String> {
        let own = self.own().map(|at| self.columns.specs[at].label());
        own.collect()
    }

    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        (0..self.columns.rows()).map(|trial| Record { of: self, trial })
    }

    /// What the measured trials lie around, and how far apart they do.
    pub fn scale(&self) -> Option<Scale> {
        let measured: Vec<i64> = self.records().filter_map(|r| r.measured_ns()).collect();
        Scale::of(&measured)
    }

    fn own(&self) -> impl Iterator<Item = usize> + '_ {
        let specs = &self.columns.specs;
        (0..specs.len()).filter(|&at| !matches!(specs[at].name.as_str(), "role" | "status"))
    }
}

impl Record<'_> {
    /// What the trial was for.
    pub fn role(&self) -> Option<Role> {
        self.of
            .columns
            .cell(0, self.trial)
            .and_then(Role::from_code)
    }

    /// How long a measured trial took that ended well.
    pub fn measured_ns(&self) -> Option<i64> {
        let columns = &self.of.columns;
        let is_ok = columns.cell(STATUS, self.trial) == Some(Status::Ok.code());
        let stamps = columns.cell(1, self.trial).zip(columns.cell(2, self.trial));
        let (start, end) = stamps?;
        (is_ok && self.role() == Some(Role::Measure)).then(|| end - start)
    }

    /// Values of [`LEADING`], in order.
    pub fn leading(&self) -> [Value; LEADING.len()] {
        let LaneRecords {
            case,
            repeat,
            lane,
            columns,
        } = self.of;
        let status = columns.cell(STATUS, self.trial).unwrap_or(-1);
        let stamps = columns.cell(1, self.trial).zip(columns.cell(2, self.trial));
        [
            case.to_string()[..8].into(),
            repeat.key.repeat.into(),
            repeat.key.attempt.into(),
            repeat.key.pass.name().into(),
            (*lane).into(),
            self.trial.into(),
            self.role().map_or("unknown", Role::name).into(),
            Status::name(status).into(),
            stamps.map(|(start, end)| (end - start) as f64 / 1e6).into(),
        ]
    }

    /// Values of the lane's own columns, in the order of [`LaneRecords::labels`].
    pub fn own(&self) -> impl Iterator<Item = Option<i64>> + '_ {
        self.of.own().map(|at| self.of.columns.cell(at, self.trial))
    }

    /// The trial as one JSON object.
    pub fn to_json(&self) -> Value {
        let leading = LEADING
            .iter()
            .map(|name| (*name).to_owned())
            .zip(self.leading());
        let own = self
            .of
            .labels()
            .into_iter()
            .zip(self.own().map(Value::from));
        Value::Object(leading.chain(own).collect::<Map<_, _>>())
    }
}
