//! Samples on tmpfs as they come, so that a daemon that is killed leaves what it had watched.
//!
//! Two files of each thread beside the arena: `telemetry.N.channels`, the channels' records, and
//! `telemetry.N`, one row for each sample. A row is the channel with its quality, the time since the row
//! before, and the value less that channel's value before, each a number of seven bits a byte. Rows are
//! gathered in room made beforehand and written by one plain write a second.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use edgedyno_shared::telemetry::{Channel, NOT_READ, Quality, Samples};
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::frame::{self, kind};
use edgedyno_shared::wire::record::Record;

use super::fault::Fault;

/// Rows wait in room of this size.
const BUFFER: usize = 64 << 10;

/// The longest row: two bytes of channel and quality, and two numbers of 64 bits.
const ROW: usize = 3 + 10 + 10;

/// Rows are written this often.
const PERIOD: Nanos = Nanos::from_secs(1);

/// More of a repeat is not kept here; about three hours of a board with a hundred channels.
const MOST: u64 = 64 << 20;

/// Samples of one record.
const PIECE: usize = 4096;

/// The journal of one thread.
pub(super) struct Journal {
    channels: PathBuf,
    rows: File,
    buffer: Vec<u8>,
    /// What the row before and each channel's value before were.
    at: i64,
    values: Vec<i64>,
    flushed: Nanos,
    written: u64,
    /// Nothing more is kept: it is full, or cannot be written.
    is_over: bool,
}

impl Journal {
    /// Begins one for so many channels.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub(super) fn begin(folder: &Path, place: usize, channels: usize) -> io::Result<Self> {
        let (channels_path, rows) = paths(folder, place);
        let mut how = OpenOptions::new();
        how.append(true).create_new(true).mode(0o600);
        Ok(Self {
            channels: channels_path,
            rows: how.open(rows)?,
            buffer: Vec::with_capacity(BUFFER),
            at: 0,
            values: vec![0; channels],
            flushed: Nanos::ZERO,
            written: 0,
            is_over: false,
        })
    }

    /// Writes down what the channels are, anew when one got its name.
    pub(super) fn tell(&self, channels: impl Iterator<Item = Channel>) -> io::Result<()> {
        let mut bytes = Vec::new();
        for channel in channels {
            let frame = Record::Channel(channel).to_frame(0);
            bytes.extend(frame.map_err(io::Error::other)?.to_bytes());
        }
        let new = self.channels.with_extension("new");
        fs::write(&new, bytes)?;
        fs::rename(new, &self.channels)
    }

    /// Takes in a sample. Allocates nothing.
    pub(super) fn push(&mut self, channel: usize, at: Nanos, reading: Result<i64, Fault>) {
        if self.is_over {
            return;
        }
        if self.buffer.len() + ROW > BUFFER {
            self.flush();
        }
        let quality = reading.map_or_else(|fault| fault.quality, |_| Quality::Ok);
        put(
            &mut self.buffer,
            (channel as u64) << 3 | u64::from(quality.code()),
        );
        put(&mut self.buffer, zigzag(at.0.wrapping_sub(self.at)));
        self.at = at.0;
        if let (Ok(value), Some(before)) = (reading, self.values.get_mut(channel)) {
            put(&mut self.buffer, zigzag(value.wrapping_sub(*before)));
            *before = value;
        }
    }

    /// Writes what waits, where that is due.
    pub(super) fn flush_due(&mut self, now: Nanos) {
        if now - self.flushed >= PERIOD {
            self.flushed = now;
            self.flush();
        }
    }

    fn flush(&mut self) {
        let fits = self.written + self.buffer.len() as u64 <= MOST;
        if !fits || self.rows.write_all(&self.buffer).is_err() {
            self.is_over = true;
        }
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
    }
}

fn paths(folder: &Path, place: usize) -> (PathBuf, PathBuf) {
    let rows = folder.join(format!("telemetry.{place}"));
    (folder.join(format!("telemetry.{place}.channels")), rows)
}

/// What the threads of an earlier daemon, or one that hangs, had watched; nothing where nothing was kept.
pub fn left_over(folder: &Path) -> Vec<Record> {
    let places = 0..super::pace::THREADS;
    places.flat_map(|place| of_thread(folder, place)).collect()
}

/// The same of one thread.
pub(super) fn of_thread(folder: &Path, place: usize) -> Vec<Record> {
    let (channels, rows) = paths(folder, place);
    let (Ok(channels), Ok(rows)) = (File::open(channels), fs::read(rows)) else {
        return Vec::new();
    };
    let mut from = BufReader::new(channels);
    let frames = std::iter::from_fn(|| frame::read_blocking(&mut from, frame::LIMIT).ok()?);
    let told: Vec<Channel> = frames
        .filter(|frame| frame.kind == kind::RECORD)
        .filter_map(|frame| match Record::parse(&frame.payload) {
            Ok((_, Record::Channel(channel))) => Some(channel),
            _ => None,
        })
        .collect();
    let mut columns = vec![Columns::default(); told.len()];
    read(&rows, &mut columns);
    // A channel that never got its name has nothing.
    let named = told
        .into_iter()
        .zip(columns)
        .filter(|(channel, _)| !channel.name.is_empty());
    let records = named.flat_map(|(channel, columns)| {
        let samples = columns.pieces(channel.id);
        std::iter::once(Record::Channel(channel)).chain(samples)
    });
    records.collect()
}

/// Forgets what was kept.
///
/// # Errors
/// When a file cannot be removed.
pub fn forget(folder: &Path) -> io::Result<()> {
    for place in 0..super::pace::THREADS {
        let (channels, rows) = paths(folder, place);
        crate::disk::remove(&channels)?;
        crate::disk::remove(&rows)?;
    }
    Ok(())
}

#[derive(Clone, Default)]
struct Columns {
    at_ns: Vec<i64>,
    value: Vec<i64>,
    quality: Vec<u8>,
}

impl Columns {
    fn pieces(self, channel: u16) -> Vec<Record> {
        let starts = (0..self.at_ns.len()).step_by(PIECE);
        let pieces = starts.map(|from| {
            let to = (from + PIECE).min(self.at_ns.len());
            Record::Samples(Samples {
                channel,
                at_ns: self.at_ns[from..to].to_vec(),
                value: self.value[from..to].to_vec(),
                quality: self.quality[from..to].to_vec(),
            })
        });
        pieces.collect()
    }
}

/// Rows up to the first that is cut short or makes no sense.
fn read(bytes: &[u8], columns: &mut [Columns]) {
    let mut rest = bytes;
    let mut at = 0_i64;
    let mut values = vec![0_i64; columns.len()];
    while let Some(head) = take(&mut rest) {
        let (channel, code) = ((head >> 3) as usize, (head & 7) as u8);
        let (Some(quality), Some(column)) = (Quality::from_code(code), columns.get_mut(channel))
        else {
            return;
        };
        let Some(since) = take(&mut rest) else { return };
        let value = match quality {
            Quality::Ok => {
                let Some(by) = take(&mut rest) else { return };
                values[channel] = values[channel].wrapping_add(unzigzag(by));
                values[channel]
            }
            _ => NOT_READ,
        };
        at = at.wrapping_add(unzigzag(since));
        column.at_ns.push(at);
        column.value.push(value);
        column.quality.push(code);
    }
}

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn take(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, more) = rest.split_first()?;
        *rest = more;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    ((value >> 1) as i64) ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LOST: Fault = Fault::absent("gone");

    fn back(bytes: &[u8], channels: usize) -> Vec<Columns> {
        let mut columns = vec![Columns::default(); channels];
        read(bytes, &mut columns);
        columns
    }

    #[test]
    fn a_known_row_has_known_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::begin(folder.path(), 0, 2).unwrap();
        journal.push(1, Nanos(100), Ok(-3));
        journal.push(1, Nanos(160), Err(LOST));
        journal.push(1, Nanos(161), Ok(-3));
        journal.flush_due(Nanos::from_secs(1));
        // 1 << 3 with quality 0; +100 and -3 zigzagged are 200 and 5; then +60, no value; +1, by 0.
        let rows = fs::read(folder.path().join("telemetry.0")).unwrap();
        assert_eq!(rows, [8, 0xc8, 1, 5, 10, 120, 8, 2, 0]);
        let columns = back(&rows, 2);
        assert_eq!(columns[1].at_ns, [100, 160, 161]);
        assert_eq!(columns[1].value, [-3, NOT_READ, -3]);
        assert_eq!(columns[1].quality, [0, 2, 0]);
        assert!(columns[0].at_ns.is_empty());
    }

    proptest! {
        #[test]
        fn every_row_comes_back_and_a_cut_one_ends_it(
            rows in proptest::collection::vec((0_usize..5, any::<i64>(), proptest::option::of(any::<i64>())), 0..60),
            cut in 0_usize..20,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let mut journal = Journal::begin(folder.path(), 0, 5).unwrap();
            for (channel, at, value) in &rows {
                journal.push(*channel, Nanos(*at), value.ok_or(LOST));
            }
            journal.flush_due(Nanos::from_secs(1));
            let bytes = fs::read(folder.path().join("telemetry.0")).unwrap();
            let whole = back(&bytes, 5);
            for (channel, columns) in whole.iter().enumerate() {
                let of_channel = rows.iter().filter(|row| row.0 == channel);
                let (at, value): (Vec<i64>, Vec<i64>) =
                    of_channel.map(|row| (row.1, row.2.unwrap_or(NOT_READ))).unzip();
                prop_assert_eq!(&columns.at_ns, &at);
                prop_assert_eq!(&columns.value, &value);
            }
            let shorter = back(&bytes[..bytes.len().saturating_sub(cut)], 5);
            for (less, all) in shorter.iter().zip(&whole) {
                prop_assert!(all.at_ns.starts_with(&less.at_ns));
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            back(&bytes, 3);
        }
    }
}
