//! What was learned of the activity monitors of Jetsons' memory controllers, by board and release.

use rusqlite::params;

use super::rows::DeviceRow;
use super::{Result, Store};
use crate::telemetry::emc::{self, EmcScale};

/// One of them as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct EmcScaleRow {
    pub board: String,
    pub release: String,
    pub scale: EmcScale,
    pub made_unix_ns: i64,
}

impl Store {
    /// Keeps some, all or none; of two of the same board and release the later counts. Says how many were new
    /// or later.
    pub fn put_emc_scales(&self, rows: &[EmcScaleRow]) -> Result<u64> {
        let explain = self.explain("keep what was learned of memory controllers");
        let change = self.begin()?;
        let mut changed = 0;
        for row in rows {
            changed += change
                .execute(
                    "INSERT INTO emc_scales
                         (board, release, scale, r2, bytes_r2, repeats, run_id, made_unix_ns)
                     VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
                     ON CONFLICT (board, release) DO UPDATE SET
                         scale = excluded.scale, r2 = excluded.r2, bytes_r2 = excluded.bytes_r2,
                         repeats = excluded.repeats, run_id = excluded.run_id,
                         made_unix_ns = excluded.made_unix_ns
                     WHERE (excluded.made_unix_ns, excluded.run_id)
                         > (emc_scales.made_unix_ns, emc_scales.run_id)",
                    params![
                        row.board,
                        row.release,
                        row.scale.scale,
                        row.scale.r2,
                        row.scale.bytes_r2,
                        row.scale.repeats,
                        row.scale.run,
                        row.made_unix_ns,
                    ],
                )
                .map_err(&explain)?;
        }
        change.commit().map_err(&explain)?;
        Ok(changed as u64)
    }

    pub fn all_emc_scales(&self) -> Result<Vec<EmcScaleRow>> {
        self.list(
            "read what was learned of memory controllers",
            "SELECT board, release, scale, r2, bytes_r2, repeats, run_id, made_unix_ns
             FROM emc_scales ORDER BY board, release",
            [],
            |row| {
                Ok(EmcScaleRow {
                    board: row.get(0)?,
                    release: row.get(1)?,
                    scale: EmcScale {
                        scale: row.get(2)?,
                        r2: row.get(3)?,
                        bytes_r2: row.get(4)?,
                        repeats: row.get(5)?,
                        run: row.get(6)?,
                    },
                    made_unix_ns: row.get(7)?,
                })
            },
        )
    }

    /// That of a board with the release that it has.
    pub fn emc_scale(&self, board: &str, device: &DeviceRow) -> Result<Option<EmcScale>> {
        let release = emc::release(device);
        let all = self.all_emc_scales()?.into_iter();
        let mut of_board = all.filter(|row| row.board == board && row.release == release);
        Ok(of_board.next().map(|row| row.scale))
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::FactRow;
    use super::super::sample::{self, new_store};
    use super::*;

    fn row(release: &str, scale: f64, made_unix_ns: i64) -> EmcScaleRow {
        EmcScaleRow {
            board: "b".into(),
            release: release.into(),
            scale: EmcScale {
                scale,
                r2: 0.99,
                bytes_r2: None,
                repeats: 40,
                run: "r".into(),
            },
            made_unix_ns,
        }
    }

    #[test]
    fn a_unit_is_that_of_its_board_and_release_and_a_later_one_counts() {
        let (_dir, store) = new_store();
        let mut device = DeviceRow::from(&sample::device());
        device.facts.retain(|fact| fact.name != "kernel_release");
        for (name, value) in [("vendor_release", "R36"), ("kernel_release", "5.15")] {
            device.facts.push(FactRow {
                name: name.into(),
                state: "ok".into(),
                value: Some(value.into()),
                reason: None,
            });
        }
        let here = "R36; Linux 5.15";
        assert_eq!(store.emc_scale("b", &device).unwrap(), None);
        let rows = [row(here, 1.5, 5), row("R35; Linux 5.10", 9.0, 9)];
        assert_eq!(store.put_emc_scales(&rows).unwrap(), 2);
        assert_eq!(store.put_emc_scales(&[row(here, 2.5, 4)]).unwrap(), 0);
        let scale = |board| store.emc_scale(board, &device).unwrap().map(|s| s.scale);
        assert_eq!((scale("b"), scale("c")), (Some(1.5), None));
        assert_eq!(store.put_emc_scales(&[row(here, 2.5, 6)]).unwrap(), 1);
        assert_eq!(scale("b"), Some(2.5));
        assert_eq!(store.all_emc_scales().unwrap().len(), 2);
    }
}
