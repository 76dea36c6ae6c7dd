//! Samples of all channels of a thread, in room that is made before the first one and never grows.
//!
//! They lie one behind the other in the order they came, whatever their channel: a round of reads writes a
//! line or two of one page. A vector for each channel would be a page or more for each value, all of them
//! cold again by the next round, which on a virtual machine cost more than reading the board.

use edgedyno_shared::telemetry::{NOT_READ, Quality, Samples};
use edgedyno_shared::units::Nanos;

use super::fault::Fault;

/// Samples of one record, so that it fits a frame many times over.
const PIECE: usize = 4096;

/// What one sample takes.
pub(super) const ROW_BYTES: usize = size_of::<Row>();

#[derive(Debug, Clone, Copy)]
struct Row {
    at: i64,
    value: i64,
    slot: u32,
    quality: u8,
}

/// What is known of one channel besides its samples.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    until_kept: u32,
    /// Whether thinning keeps the next sample that it meets.
    stays: bool,
    /// When its newest read was, and what it gave.
    pub(super) last: Option<(Nanos, Result<i64, Fault>)>,
    /// The first value that it gave.
    pub(super) first_good: Option<i64>,
    /// When it first stopped giving values, why, and how often it did.
    pub(super) lost: Option<(Nanos, Fault, u32)>,
}

/// Samples of the channels of a thread. When they fill their room, every second one of each channel goes,
/// and from then on half as many are kept: a long repeat is covered to its end, more coarsely, and that is
/// told.
#[derive(Debug)]
pub(super) struct Series {
    rows: Vec<Row>,
    channels: Vec<Known>,
    keep_every: u32,
}

impl Series {
    /// Room for so many samples of so many channels. Less than two for each channel is not given: thinning
    /// would free nothing.
    pub(super) fn with_room(samples: usize, channels: usize) -> Self {
        Self {
            rows: Vec::with_capacity(samples.max(2 * channels)),
            channels: Vec::with_capacity(channels),
            keep_every: 1,
        }
    }

    /// One more channel, behind those that are there.
    pub(super) fn add(&mut self) {
        self.channels.push(Known {
            until_kept: 1,
            stays: true,
            last: None,
            first_good: None,
            lost: None,
        });
    }

    /// What is known of each channel.
    pub(super) fn channels(&self) -> &[Known] {
        &self.channels
    }

    /// Takes in a sample of the channel at that place. Allocates nothing.
    pub(super) fn push(&mut self, slot: usize, at: Nanos, reading: Result<i64, Fault>) {
        let channel = &mut self.channels[slot];
        channel.note(at, reading);
        channel.until_kept -= 1;
        if channel.until_kept > 0 {
            return;
        }
        if self.rows.len() == self.rows.capacity() {
            self.thin();
        }
        self.channels[slot].until_kept = self.keep_every;
        let (value, quality) = match reading {
            Ok(value) => (value, Quality::Ok),
            Err(fault) => (NOT_READ, fault.quality),
        };
        self.rows.push(Row {
            at: at.0,
            value,
            slot: slot as u32,
            quality: quality.code(),
        });
    }

    /// Keeps the first of every two samples of each channel.
    fn thin(&mut self) {
        for channel in &mut self.channels {
            channel.stays = true;
        }
        let channels = &mut self.channels;
        self.rows.retain(|row| {
            let next = &mut channels[row.slot as usize].stays;
            let stays = *next;
            *next = !stays;
            stays
        });
        self.keep_every *= 2;
    }

    /// One in so many samples was kept.
    pub(super) fn kept_one_in(&self) -> u32 {
        self.keep_every
    }

    /// All samples of each channel in its place.
    pub(super) fn by_channel(&self) -> Vec<Column> {
        let mut counts = vec![0; self.channels.len()];
        for row in &self.rows {
            counts[row.slot as usize] += 1;
        }
        let columns = counts.into_iter().map(Column::with_room);
        let mut columns: Vec<Column> = columns.collect();
        for row in &self.rows {
            let column = &mut columns[row.slot as usize];
            column.at.push(row.at);
            column.value.push(row.value);
            column.quality.push(row.quality);
        }
        columns
    }
}

impl Known {
    fn note(&mut self, at: Nanos, reading: Result<i64, Fault>) {
        if let (Some((_, Ok(_))), Err(fault)) = (self.last, reading) {
            let (_, _, times) = self.lost.get_or_insert((at, fault, 0));
            *times += 1;
        }
        self.first_good = self.first_good.or(reading.ok());
        self.last = Some((at, reading));
    }
}

/// The samples of one channel.
#[derive(Debug)]
pub(super) struct Column {
    at: Vec<i64>,
    value: Vec<i64>,
    quality: Vec<u8>,
}

impl Column {
    fn with_room(samples: usize) -> Self {
        Self {
            at: Vec::with_capacity(samples),
            value: Vec::with_capacity(samples),
            quality: Vec::with_capacity(samples),
        }
    }

    /// In records of that channel.
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

    fn series(room: usize, channels: usize) -> Series {
        let mut series = Series::with_room(room, channels);
        (0..channels).for_each(|_| series.add());
        series
    }

    fn all(series: &Series, slot: usize) -> Vec<(i64, i64)> {
        let columns = series.by_channel();
        let pieces = columns[slot].pieces(0);
        pieces
            .flat_map(|piece| piece.at_ns.into_iter().zip(piece.value))
            .collect()
    }

    #[test]
    fn full_room_thins_each_channel_and_goes_on() {
        let mut series = series(8, 2);
        for i in 0..5 {
            series.push(0, Nanos(i), Ok(i * 10));
            series.push(1, Nanos(i), Ok(i * 100));
        }
        // Both 0 1 2 3 | full: both 0 2, and 4 | from then on every second.
        assert_eq!(series.kept_one_in(), 2);
        assert_eq!(all(&series, 0), [(0, 0), (2, 20), (4, 40)]);
        for i in 5..7 {
            series.push(0, Nanos(i), Ok(i * 10));
            series.push(1, Nanos(i), Ok(i * 100));
        }
        assert_eq!(all(&series, 0), [(0, 0), (2, 20), (4, 40), (6, 60)]);
        let of_other = all(&series, 1);
        assert_eq!(of_other[..2], [(0, 0), (2, 200)]);
        assert!(of_other.iter().all(|(at, value)| at * 100 == *value));
    }

    #[test]
    fn what_was_lost_is_told_with_its_first_moment() {
        let mut series = series(8, 2);
        let gone = Fault::absent("gone");
        series.push(1, Nanos(1), Err(gone));
        assert_eq!(series.channels()[1].lost, None, "it never gave a value");
        for (at, reading) in [
            (2, Ok(5)),
            (3, Err(gone)),
            (4, Err(gone)),
            (5, Ok(0)),
            (6, Err(gone)),
        ] {
            series.push(1, Nanos(at), reading);
        }
        let known = series.channels()[1];
        assert_eq!(known.lost, Some((Nanos(3), gone, 2)));
        assert_eq!(known.first_good, Some(5));
        assert_eq!(known.last, Some((Nanos(6), Err(gone))));
        let columns = series.by_channel();
        let pieces: Vec<Samples> = columns[1].pieces(7).collect();
        assert_eq!(
            pieces[0].value,
            [NOT_READ, 5, NOT_READ, NOT_READ, 0, NOT_READ]
        );
        assert_eq!(pieces[0].quality, [2, 0, 2, 2, 0, 2]);
        assert_eq!(columns[0].pieces(6).count(), 0);
    }

    proptest! {
        #[test]
        fn samples_keep_their_order_and_channel_and_never_outgrow_their_room(
            room in 0_usize..50,
            channels in 1_usize..6,
            slots in prop::collection::vec(0_usize..6, 0..400),
        ) {
            let mut series = series(room, channels);
            let given = series.rows.capacity();
            let mut counts = vec![0; channels];
            for (i, slot) in slots.into_iter().enumerate() {
                let slot = slot % channels;
                counts[slot] += 1;
                series.push(slot, Nanos(i as i64), Ok((i * channels + slot) as i64));
            }
            prop_assert_eq!(series.rows.capacity(), given);
            for (slot, count) in counts.into_iter().enumerate() {
                let kept = all(&series, slot);
                prop_assert!(kept.windows(2).all(|pair| pair[0].0 < pair[1].0));
                prop_assert!(kept.iter().all(|(at, value)| at * channels as i64 + slot as i64 == *value));
                // The first is never lost, and what goes is what thinning took.
                prop_assert_eq!(kept.is_empty(), count == 0);
                if series.kept_one_in() == 1 {
                    prop_assert_eq!(kept.len(), count);
                }
            }
        }
    }
}
