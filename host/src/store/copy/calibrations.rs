//! Calibrations of boards, which stores share beside their runs: of two of the same thing the later counts.

use rusqlite::params;
use serde::{Deserialize, Serialize};

use crate::store::{Result, Store};

/// One stored calibration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CalibrationRow {
    pub board: String,
    pub fingerprint: String,
    pub stressor: String,
    pub cpus: String,
    pub working_set: i64,
    pub per_second: i64,
    pub spread_share: f64,
    pub repeats: i64,
    pub run_id: String,
    pub made_unix_ns: i64,
}

impl Store {
    pub fn all_calibrations(&self) -> Result<Vec<CalibrationRow>> {
        self.list(
            "read the calibrations",
            "SELECT board, fingerprint, stressor, cpus, working_set, per_second, spread_share, repeats,
                    run_id, made_unix_ns
             FROM calibrations ORDER BY board, fingerprint, stressor, cpus, working_set",
            [],
            |row| {
                Ok(CalibrationRow {
                    board: row.get(0)?,
                    fingerprint: row.get(1)?,
                    stressor: row.get(2)?,
                    cpus: row.get(3)?,
                    working_set: row.get(4)?,
                    per_second: row.get(5)?,
                    spread_share: row.get(6)?,
                    repeats: row.get(7)?,
                    run_id: row.get(8)?,
                    made_unix_ns: row.get(9)?,
                })
            },
        )
    }

    /// Takes calibrations in, all or none; says how many were new or later.
    pub fn merge_calibrations(&self, rows: &[CalibrationRow]) -> Result<u64> {
        let explain = self.explain("merge calibrations");
        let change = self.begin()?;
        let mut changed = 0;
        for row in rows {
            changed += change
                .execute(
                    // Of two made at the same moment any fixed choice will do.
                    "INSERT INTO calibrations
                         (board, fingerprint, stressor, cpus, working_set, per_second, spread_share, repeats,
                          run_id, made_unix_ns)
                     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
                     ON CONFLICT (board, fingerprint, stressor, cpus, working_set) DO UPDATE SET
                         per_second = excluded.per_second, spread_share = excluded.spread_share,
                         repeats = excluded.repeats, run_id = excluded.run_id,
                         made_unix_ns = excluded.made_unix_ns
                     WHERE (excluded.made_unix_ns, excluded.run_id, excluded.per_second)
                         > (calibrations.made_unix_ns, calibrations.run_id, calibrations.per_second)",
                    params![
                        row.board,
                        row.fingerprint,
                        row.stressor,
                        row.cpus,
                        row.working_set,
                        row.per_second,
                        row.spread_share,
                        row.repeats,
                        row.run_id,
                        row.made_unix_ns,
                    ],
                )
                .map_err(&explain)?;
        }
        change.commit().map_err(&explain)?;
        Ok(changed as u64)
    }
}
