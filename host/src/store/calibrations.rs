//! What stressors could do at full effort on each board, kept until the board is another.

use edgedyno_shared::load::{Kind, kind_of};
use rusqlite::params;
use serde_json::json;

use super::rows::DeviceRow;
use super::{Result, Store};
use crate::board::content;
use crate::plan::condition::{Calibrated, Ceilings};
use crate::view::MemoryCeiling;

/// Repeats that differ by more than this leave a calibration that its shares are not sure by.
pub const WIDE: f64 = 0.05;

/// One calibration.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    pub of: Calibrated,
    /// Bytes a second: the median over repeats.
    pub per_second: u64,
    /// From the least to the most of the repeats, as a share of the median.
    pub spread: f64,
    pub repeats: u32,
    pub run: String,
    pub made_unix_ns: i64,
}

impl Calibration {
    /// How far its repeats were apart, in words.
    pub fn spread_text(&self) -> String {
        format!(
            "spread {:.1} % over {} repeats",
            self.spread * 100.0,
            self.repeats
        )
    }
}

impl Store {
    /// Keeps a calibration; one of the same thing makes way.
    pub fn put_calibration(&self, fingerprint: &str, calibration: &Calibration) -> Result<()> {
        let of = &calibration.of;
        self.sql
            .execute(
                "INSERT INTO calibrations
                     (board, fingerprint, stressor, cpus, working_set, per_second, spread_share, repeats,
                      run_id, made_unix_ns)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
                 ON CONFLICT (board, fingerprint, stressor, cpus, working_set) DO UPDATE SET
                     per_second = excluded.per_second, spread_share = excluded.spread_share,
                     repeats = excluded.repeats, run_id = excluded.run_id,
                     made_unix_ns = excluded.made_unix_ns",
                params![
                    of.board,
                    fingerprint,
                    of.stressor,
                    of.cpus,
                    of.working_set.unwrap_or(0) as i64,
                    calibration.per_second as i64,
                    calibration.spread,
                    calibration.repeats,
                    calibration.run,
                    calibration.made_unix_ns,
                ],
            )
            .map(drop)
            .map_err(self.explain("keep a calibration"))
    }

    /// Calibrations of a board that is what it was.
    pub fn calibrations(&self, board: &str, fingerprint: &str) -> Result<Vec<Calibration>> {
        self.list(
            "read the calibrations",
            "SELECT board, stressor, cpus, working_set, per_second, spread_share, repeats, run_id, made_unix_ns
             FROM calibrations WHERE board = $1 AND fingerprint = $2 ORDER BY stressor, cpus, working_set",
            [board, fingerprint],
            |row| {
                let working_set: i64 = row.get(3)?;
                Ok(Calibration {
                    of: Calibrated {
                        board: row.get(0)?,
                        stressor: row.get(1)?,
                        cpus: row.get(2)?,
                        working_set: u64::try_from(working_set).ok().filter(|bytes| *bytes > 0),
                    },
                    per_second: row.get::<_, i64>(4)? as u64,
                    spread: row.get(5)?,
                    repeats: row.get(6)?,
                    run: row.get(7)?,
                    made_unix_ns: row.get(8)?,
                })
            },
        )
    }
}

impl Store {
    /// The most that any stressor moved through memory of a board that is what it was: by calibrations
    /// whose working set no cache holds, and of no disk.
    pub fn memory_ceiling(&self, board: &str, device: &DeviceRow) -> Result<Option<MemoryCeiling>> {
        let mut known = Vec::new();
        for holds_clocks in [false, true] {
            known.extend(self.calibrations(board, &fingerprint(device, holds_clocks))?);
        }
        let through = known.iter().filter(|one| {
            let moves = kind_of(&one.of.stressor).is_some_and(Kind::moves_memory);
            moves && one.of.working_set.is_none()
        });
        let most = through.max_by_key(|one| one.per_second);
        Ok(most.map(|one| MemoryCeiling {
            bytes_per_second: one.per_second,
            by: format!(
                "{} on CPUs {} ({})",
                one.of.stressor,
                one.of.cpus,
                one.spread_text()
            ),
        }))
    }
}

/// What decides how much a stressor can do: board, kernel, governors, and the build of the agent, whose
/// kernels they are. What changes from minute to minute is left out. A board whose clocks are held while it is
/// measured is another than the same one without.
pub fn fingerprint(device: &DeviceRow, holds_clocks: bool) -> String {
    let lasting = device.facts.iter().filter(|fact| {
        let names = [
            "kernel_release",
            "cpu_model",
            "board_model",
            "transparent_hugepage",
            "smt_active",
        ];
        let families = ["governor", "clock_min_khz", "clock_max_khz"];
        let family = fact.name.split('.').next().unwrap_or_default();
        names.contains(&fact.name.as_str()) || families.contains(&family)
    });
    let lasting: Vec<(&str, Option<&str>)> = lasting
        .map(|fact| (fact.name.as_str(), fact.value.as_deref()))
        .collect();
    let mut text = json!([
        device.arch,
        device.os,
        device.allowed_cpus,
        device.memory_total_bytes,
        device.build,
        lasting,
    ]);
    // Calibrations of before keep theirs: all of them were made without.
    if let (true, Some(all)) = (holds_clocks, text.as_array_mut()) {
        all.push(json!("clocks held"));
    }
    content::sha256(text.to_string().as_bytes()).to_string()
}

/// The same as what shares refer to.
pub fn ceilings(calibrations: &[Calibration]) -> Ceilings {
    let pairs = calibrations.iter();
    Ceilings(pairs.map(|c| (c.of.clone(), c.per_second)).collect())
}

#[cfg(test)]
mod tests {
    use super::super::rows::FactRow;
    use super::super::sample::{self, new_store};
    use super::*;

    fn calibration(stressor: &str, working_set: Option<u64>, per_second: u64) -> Calibration {
        Calibration {
            of: Calibrated {
                board: "b".into(),
                stressor: stressor.into(),
                cpus: "1-2".into(),
                working_set,
            },
            per_second,
            spread: 0.25,
            repeats: 3,
            run: "abc".into(),
            made_unix_ns: 7,
        }
    }

    #[test]
    fn a_calibration_is_kept_for_its_board_as_it_was_and_a_later_one_counts() {
        let (_dir, store) = new_store();
        let read = calibration("mem_read", None, 5);
        let small = calibration("mem_read", Some(64), 9);
        for one in [&read, &small, &calibration("mem_copy", None, 4)] {
            store.put_calibration("f", one).unwrap();
        }
        let later = calibration("mem_copy", None, 6);
        store.put_calibration("f", &later).unwrap();
        let found = store.calibrations("b", "f").unwrap();
        assert_eq!(found, [later, read.clone(), small]);
        assert_eq!(ceilings(&found).0[&read.of], 5);
        assert!(store.calibrations("b", "g").unwrap().is_empty());
        assert!(store.calibrations("c", "f").unwrap().is_empty());
    }

    #[test]
    fn a_board_is_another_once_something_that_lasts_has_changed() {
        let device = DeviceRow::from(&sample::device());
        let mut later = device.clone();
        for fact in &mut later.facts {
            if fact.name == "load_average" {
                fact.value = Some("9.9".into());
            }
        }
        assert_eq!(fingerprint(&device, false), fingerprint(&later, false));
        let changes: [fn(&mut DeviceRow); 3] = [
            |d| d.allowed_cpus = vec![0],
            |d| d.build = "another".into(),
            |d| {
                d.facts.push(FactRow {
                    name: "governor.policy4".into(),
                    state: "ok".into(),
                    value: Some("powersave".into()),
                    reason: None,
                });
            },
        ];
        for change in changes {
            let mut other = device.clone();
            change(&mut other);
            assert_ne!(fingerprint(&device, false), fingerprint(&other, false));
        }
    }

    #[test]
    fn a_board_whose_clocks_are_held_has_calibrations_of_its_own() {
        let (_dir, store) = new_store();
        let device = DeviceRow::from(&sample::device());
        let (free, held) = (fingerprint(&device, false), fingerprint(&device, true));
        assert_ne!(free, held);
        store
            .put_calibration(&free, &calibration("mem_read", None, 5))
            .unwrap();
        store
            .put_calibration(&held, &calibration("mem_read", None, 7))
            .unwrap();
        let rates = |print: &str| -> Vec<u64> {
            let known = store.calibrations("b", print).unwrap();
            known.iter().map(|one| one.per_second).collect()
        };
        assert_eq!((rates(&free), rates(&held)), (vec![5], vec![7]));
        let most = store.memory_ceiling("b", &device).unwrap().unwrap();
        assert_eq!(most.bytes_per_second, 7);
    }

    #[test]
    fn the_ceiling_is_the_most_that_went_through_memory() {
        let (_dir, store) = new_store();
        let device = DeviceRow::from(&sample::device());
        let print = fingerprint(&device, false);
        assert_eq!(store.memory_ceiling("b", &device).unwrap(), None);
        // What a cache holds is faster than memory, and does not count.
        for one in [
            calibration("mem_read", None, 5),
            calibration("mem_copy", None, 4),
            calibration("mem_read", Some(64), 9),
            calibration("cache_thrash", None, 90),
            calibration("io", None, 80),
        ] {
            store.put_calibration(&print, &one).unwrap();
        }
        let found = store.memory_ceiling("b", &device).unwrap().unwrap();
        assert_eq!(
            (found.bytes_per_second, found.by.as_str()),
            (5, "mem_read on CPUs 1-2 (spread 25.0 % over 3 repeats)")
        );
        let other = DeviceRow {
            build: "another".into(),
            ..device
        };
        assert_eq!(store.memory_ceiling("b", &other).unwrap(), None);
    }
}
