//! Room for samples that is made before the first one, and never grows.

use edgedyno_shared::telemetry::{NOT_READ, Quality, Samples};
use edgedyno_shared::units::Nanos;

use super::fault::Fault;

/// Samples of one record, so that it fits a frame many times over.
const PIECE: usize = 4096;

/// What one sample takes: time, value, quality.
pub(super) const SAMPLE_BYTES: usize = 8 + 8 + 1;

/// Samples of one channel. When it is full, every second one goes, and from then on half as many come:
/// a long repeat is covered to its end, more coarsely, and that is told.
#[derive(Debug)]
pub(super) struct Series {
    at: Vec<i64>,
    value: Vec<i64>,
    quality: Vec<u8>,
    capacity: usize,
    keep_every: u32,
    until_kept: u32,
    last: Option<(Nanos, Result<i64, Fault>)>,
    /// The first value that it gave.
    pub(super) first_good: Option<i64>,
    /// When it first stopped giving values, why, and how often it did.
    pub(super) lost: Option<(Nanos, Fault, u32)>,
}

impl Series {
    pub(super) fn with_room(capacity: usize) -> Self {
        let capacity = capacity.max(2);
        Self {
            at: Vec::with_capacity(capacity),
            value: Vec::with_capacity(capacity),
            quality: Vec::with_capacity(capacity),
            capacity,
            keep_every: 1,
            until_kept: 1,
            last: None,
            first_good: None,
            lost: None,
        }
    }

    pub(super) fn push(&mut self, at: Nanos, reading: Result<i64, Fault>) {
        if let (Some((_, Ok(_))), Err(fault)) = (self.last, reading) {
            let (_, _, times) = self.lost.get_or_insert((at, fault, 0));
            *times += 1;
        }
        self.first_good = self.first_good.or(reading.ok());
        self.last = Some((at, reading));
        self.until_kept -= 1;
        if self.until_kept > 0 {
            return;
        }
        self.until_kept = self.keep_every;
        if self.at.len() == self.capacity {
            self.thin();
        }
        let (value, quality) = match reading {
            Ok(value) => (value, Quality::Ok),
            Err(fault) => (NOT_READ, fault.quality),
        };
        self.at.push(at.0);
        self.value.push(value);
        self.quality.push(quality.code());
    }

    /// Keeps the first of every two samples.
    fn thin(&mut self) {
        let kept = self.at.len().div_ceil(2);
        for to in 1..kept {
            self.at[to] = self.at[2 * to];
            self.value[to] = self.value[2 * to];
            self.quality[to] = self.quality[2 * to];
        }
        self.at.truncate(kept);
        self.value.truncate(kept);
        self.quality.truncate(kept);
        self.keep_every *= 2;
        self.until_kept = self.keep_every;
    }

    /// When the newest read was, and what it gave.
    pub(super) fn last(&self) -> Option<(Nanos, Result<i64, Fault>)> {
        self.last
    }

    /// One in so many samples was kept.
    pub(super) fn kept_one_in(&self) -> u32 {
        self.keep_every
    }

    /// All samples, in records of a channel.
    pub(super) fn pieces(&self, channel: u16) -> impl Iterator<Item = Samples> + '_ {
        (0..self.at.len()).step_by(PIECE).map(move |from| {
            let to = (from + PIECE).min(self.at.len());
            Samples {
                channel,
                at_ns: self.at[from..to].to_vec(),
                value: self.value[from..to].to_vec(),
                quality: self.quality[from..to].to_vec(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(series: &Series) -> Vec<(i64, i64)> {
        let pieces = series.pieces(0);
        pieces
            .flat_map(|piece| piece.at_ns.into_iter().zip(piece.value))
            .collect()
    }

    #[test]
    fn a_full_series_thins_and_goes_on() {
        let mut series = Series::with_room(4);
        for i in 0..9 {
            series.push(Nanos(i), Ok(i * 10));
        }
        // 0 1 2 3 | full: 0 2, then every second from 4 on: 5, 7 | full: 0 5, then every fourth.
        assert!(series.kept_one_in() >= 2);
        let kept = all(&series);
        assert_eq!(kept.first(), Some(&(0, 0)));
        assert!(kept.iter().all(|(at, value)| at * 10 == *value));
    }

    #[test]
    fn what_was_lost_is_told_with_its_first_moment() {
        let mut series = Series::with_room(8);
        let gone = Fault::absent("gone");
        series.push(Nanos(1), Err(gone));
        assert_eq!(series.lost, None, "it never gave a value");
        for (at, reading) in [
            (2, Ok(5)),
            (3, Err(gone)),
            (4, Err(gone)),
            (5, Ok(0)),
            (6, Err(gone)),
        ] {
            series.push(Nanos(at), reading);
        }
        assert_eq!(series.lost, Some((Nanos(3), gone, 2)));
        let pieces: Vec<Samples> = series.pieces(7).collect();
        assert_eq!(
            pieces[0].value,
            [NOT_READ, 5, NOT_READ, NOT_READ, 0, NOT_READ]
        );
        assert_eq!(pieces[0].quality, [2, 0, 2, 2, 0, 2]);
    }

    proptest! {
        #[test]
        fn a_series_keeps_order_and_never_outgrows_its_room(room in 2_usize..50, count in 0_i64..500) {
            let mut series = Series::with_room(room);
            for i in 0..count {
                series.push(Nanos(i), Ok(i));
            }
            let kept = all(&series);
            prop_assert!(kept.len() <= room);
            prop_assert!(kept.windows(2).all(|pair| pair[0].0 < pair[1].0));
            prop_assert_eq!(kept.len() as i64 * 4 >= count.min(room as i64), true);
        }
    }
}
