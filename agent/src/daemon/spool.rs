//! Finished repeats on disk until their host has committed them: one file each.
//!
//! `spool/STORE/NUMBER.seg` appears whole, by rename, and goes when it is acknowledged. Numbers grow and
//! never repeat for a store, also after everything was deleted.
//!
//! A file is a magic word, then frames as on the wire, each with a CRC-32C between head and payload. What
//! a disk damaged all the same is set aside as `NUMBER.bad`, and what stands before the damage becomes a
//! failed attempt with its trials.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use edgedyno_shared::columns::Chunk;
use edgedyno_shared::ids::StoreId;
use edgedyno_shared::order::OrderKey;
use edgedyno_shared::repeat::{Outcome, RepeatEnd, Stage};
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_shared::wire::frame::{Frame, kind};
use edgedyno_shared::wire::record::{Record, SegmentHeader};
use edgedyno_shared::wire::request::WaitingResults;

use super::repeat_folder::RepeatFolder;
use super::spool_file::{self, MAGIC};
use crate::clock::{self, Clock, Monotonic};
use crate::disk;

/// Unacknowledged bytes beyond which no new repeat starts, in place of the default.
pub const QUOTA_VARIABLE: &str = "EDGEDYNO_AGENT_SPOOL";

const QUOTA: u64 = 1 << 30;

/// The spool folder.
#[derive(Debug, Clone)]
pub struct Spool {
    root: PathBuf,
    /// More unacknowledged bytes than this, and no new repeat starts.
    pub quota: u64,
}

/// A finished repeat that waits for its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    pub number: u64,
    pub key: OrderKey,
}

impl Spool {
    pub fn new(state: &Path) -> Self {
        let quota = std::env::var(QUOTA_VARIABLE).ok();
        let quota = quota.and_then(|text| text.trim().parse().ok());
        Self {
            root: state.join("spool"),
            quota: quota.unwrap_or(QUOTA),
        }
    }

    fn folder(&self, store: StoreId) -> PathBuf {
        self.root.join(store.to_string())
    }

    fn path(&self, store: StoreId, number: u64) -> PathBuf {
        self.folder(store).join(format!("{number:020}.seg"))
    }

    /// Writes a repeat's records, its trials and its end as one durable file; returns its number.
    pub fn seal(
        &self,
        folder: &RepeatFolder,
        mut header: SegmentHeader,
        mut end: RepeatEnd,
    ) -> io::Result<u64> {
        let place = self.folder(header.store);
        disk::private_folder(&place)?;
        header.segment = self.next_number(&place)?;
        let path = self.path(header.store, header.segment);
        disk::write_with(&path, |file| {
            let mut out = BufWriter::with_capacity(1 << 20, file);
            out.write_all(&MAGIC)?;
            spool_file::write(&mut out, &header.to_frame())?;
            let mut sequence = 0;
            for record in folder.records()? {
                sequence += 1;
                spool_file::write(&mut out, &record)?;
            }
            let mut put = |record: &Record| {
                let frame = record.to_frame(sequence).map_err(io::Error::other)?;
                sequence += 1;
                spool_file::write(&mut out, &frame)
            };
            for (lane, columns, mut sealed) in folder.settle()? {
                if lane == 0 {
                    end.trials = sealed.slots(columns);
                }
                end.chunks += sealed.for_each_chunk(columns, |chunk| {
                    put(&Record::Chunk(Chunk { lane, ..chunk }))
                })?;
            }
            put(&Record::End(end))?;
            out.flush()
        })?;
        Ok(header.segment)
    }

    /// The next number, made durable before it is used.
    fn next_number(&self, place: &Path) -> io::Result<u64> {
        let counter = place.join("next");
        let stored = match fs::read_to_string(&counter) {
            // One that a disk damaged goes on beyond all that it can have been.
            Ok(text) => text
                .trim()
                .parse()
                .unwrap_or_else(|_| clock::wall_unix_ns().unsigned_abs()),
            Err(why) if why.kind() == io::ErrorKind::NotFound => 0,
            Err(why) => return Err(why),
        };
        let last = disk::names(place, ".seg")?
            .last()
            .and_then(|name| number_of(name));
        let number = stored.max(last.map_or(0, |n| n + 1));
        disk::write_whole(&counter, (number + 1).to_string().as_bytes())?;
        Ok(number)
    }

    /// Repeats of a store that wait, in order. A file whose header cannot be read is left out.
    pub fn waiting(&self, store: StoreId) -> io::Result<Vec<Waiting>> {
        let numbers = self.numbers(store)?.into_iter();
        Ok(numbers
            .filter_map(|number| self.waiting_one(store, number).ok())
            .collect())
    }

    /// Numbers of the segments of a store, in order, whatever is in them.
    pub fn numbers(&self, store: StoreId) -> io::Result<Vec<u64>> {
        let names = disk::names(&self.folder(store), ".seg")?;
        Ok(names.iter().filter_map(|name| number_of(name)).collect())
    }

    fn waiting_one(&self, store: StoreId, number: u64) -> io::Result<Waiting> {
        let first = self.frames(store, number)?.next().transpose()?;
        let header = first.and_then(|frame| SegmentHeader::parse(&frame.payload).ok());
        let header = header.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok(Waiting {
            number,
            key: header.key,
        })
    }

    /// The frames of a segment as they go over the wire.
    pub fn frames(
        &self,
        store: StoreId,
        number: u64,
    ) -> io::Result<impl Iterator<Item = io::Result<Frame>> + use<>> {
        let from = BufReader::with_capacity(1 << 18, File::open(self.path(store, number))?);
        spool_file::frames(from)
    }

    /// Deletes what a host has committed; deleting it twice is no error.
    pub fn acknowledge(&self, store: StoreId, number: u64) -> io::Result<()> {
        disk::remove(&self.path(store, number))
    }

    /// Sets a damaged segment aside for a person to look at, and puts in its place what stands before the
    /// damage, as an attempt that failed. Where not even its name can be read, nothing takes its place: its
    /// order is not known here any more, and the host sends it again. Returns whether there was anything to
    /// repair: another session may have seen the damage first, or a host taken the repeat.
    ///
    /// # Errors
    /// When it cannot be read now, which says nothing of what is in it, or there is no room for what is left.
    pub fn repair(&self, store: StoreId, number: u64) -> io::Result<bool> {
        let path = self.path(store, number);
        match File::open(&path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(false),
            found => drop(found?),
        }
        if self.is_whole(store, number)? {
            return Ok(false);
        }
        let (frames, why) = self.sound(store, number)?;
        let kept = path.with_extension("bad");
        disk::remove(&kept)?;
        fs::hard_link(&path, &kept)?;
        let is_named = frames
            .first()
            .is_some_and(|f| SegmentHeader::parse(&f.payload).is_ok());
        if !is_named {
            disk::remove(&path)?;
            disk::sync_folder(&self.folder(store))?;
            return Ok(true);
        }
        let end = damaged_end(&frames, &why, &kept);
        disk::write_with(&path, |file| {
            let mut out = BufWriter::with_capacity(1 << 20, file);
            out.write_all(&MAGIC)?;
            frames
                .iter()
                .try_for_each(|frame| spool_file::write(&mut out, frame))?;
            let sequence = frames.len() as u64 - 1;
            let end = Record::End(end)
                .to_frame(sequence)
                .map_err(io::Error::other)?;
            spool_file::write(&mut out, &end)?;
            out.flush()
        })?;
        Ok(true)
    }

    /// The frames before the damage, without an end, and what the damage is.
    fn sound(&self, store: StoreId, number: u64) -> io::Result<(Vec<Frame>, String)> {
        let frames = match self.frames(store, number) {
            Ok(frames) => frames,
            Err(why) if is_damage(&why) => return Ok((Vec::new(), why.to_string())),
            Err(why) => return Err(why),
        };
        let mut sound = Vec::new();
        for frame in frames {
            match frame {
                Ok(frame) if spool_file::is_end(&frame) => break,
                Ok(frame) => sound.push(frame),
                Err(why) if is_damage(&why) => return Ok((sound, why.to_string())),
                Err(why) => return Err(why),
            }
        }
        Ok((sound, "its end is missing".into()))
    }

    /// Whether a segment can be read to its end, which takes as long as reading it does.
    ///
    /// # Errors
    /// When it cannot be read now, for whatever is in it.
    pub fn is_whole(&self, store: StoreId, number: u64) -> io::Result<bool> {
        let last = self
            .frames(store, number)
            .and_then(|mut frames| frames.try_fold(None, |_, frame| frame.map(Some)));
        match last {
            Ok(last) => Ok(last.is_some_and(|frame| spool_file::is_end(&frame))),
            Err(why) if is_damage(&why) => Ok(false),
            Err(why) => Err(why),
        }
    }

    /// Removes what a crash left unfinished.
    pub fn clear(&self) -> io::Result<()> {
        for store in disk::names(&self.root, "")? {
            let folder = self.root.join(store);
            for name in disk::names(&folder, ".tmp")? {
                disk::remove(&folder.join(name))?;
            }
        }
        Ok(())
    }

    /// Every segment, of all stores.
    pub fn all(&self) -> io::Result<Vec<(StoreId, u64)>> {
        let mut all = Vec::new();
        for name in disk::names(&self.root, "")? {
            if let Ok(store) = name.parse() {
                all.extend(self.numbers(store)?.into_iter().map(|n| (store, n)));
            }
        }
        Ok(all)
    }

    /// What waits for each store that has something waiting.
    pub fn by_store(&self) -> io::Result<Vec<WaitingResults>> {
        let mut all = Vec::new();
        for name in disk::names(&self.root, "")? {
            let Ok(store) = name.parse() else {
                continue;
            };
            let mut waiting = WaitingResults {
                store,
                repeats: 0,
                bytes: 0,
                oldest_unix_ns: None,
            };
            for number in self.numbers(store)? {
                // Acknowledged meanwhile.
                let Ok(found) = fs::metadata(self.path(store, number)) else {
                    continue;
                };
                waiting.repeats += 1;
                waiting.bytes += found.len();
                let finished = found.mtime() * 1_000_000_000 + found.mtime_nsec();
                let oldest = waiting.oldest_unix_ns.get_or_insert(finished);
                *oldest = finished.min(*oldest);
            }
            if waiting.repeats > 0 {
                all.push(waiting);
            }
        }
        Ok(all)
    }

    /// Throws away what waits for a store, and what of it was set aside; returns how many repeats that were.
    /// Its numbers go on from where they are.
    pub fn drop_all(&self, store: StoreId) -> io::Result<u32> {
        let folder = self.folder(store);
        let waiting = disk::names(&folder, ".seg")?;
        for name in waiting.iter().chain(&disk::names(&folder, ".bad")?) {
            disk::remove(&folder.join(name))?;
        }
        if folder.is_dir() {
            disk::sync_folder(&folder)?;
        }
        Ok(waiting.len() as u32)
    }

    /// Bytes and files that wait, of all stores.
    pub fn load(&self) -> io::Result<(u64, u32)> {
        let (mut bytes, mut files) = (0, 0);
        for store in disk::names(&self.root, "")? {
            let folder = self.root.join(store);
            for name in disk::names(&folder, ".seg")? {
                bytes += fs::metadata(folder.join(name)).map_or(0, |m| m.len());
                files += 1;
            }
        }
        Ok((bytes, files))
    }
}

fn damaged_end(frames: &[Frame], why: &str, kept: &Path) -> RepeatEnd {
    let (mut trials, mut chunks) = (0, 0);
    for record in frames.iter().filter(|frame| frame.kind == kind::RECORD) {
        if let Ok((_, Record::Chunk(chunk))) = Record::parse(&record.payload) {
            chunks += 1;
            trials += if chunk.lane == 0 {
                u64::from(chunk.rows)
            } else {
                0
            };
        }
    }
    let kept = kept.display();
    let detail = format!("the repeat was damaged on the board's disk: {why}; {kept} has it");
    RepeatEnd {
        outcome: Outcome::Failed {
            stage: Stage::Teardown,
            failure: Failure::new(FailureCode::SpoolDamaged, detail)
                .hint("see to the board's disk or card"),
        },
        wall_unix_ns: clock::wall_unix_ns(),
        mono: Monotonic.now(),
        environment: Vec::new(),
        trials,
        chunks,
    }
}

/// What is wrong with the bytes, as a disk that cannot read them also says. Descriptors, memory and rights may
/// be there later.
fn is_damage(why: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, UnexpectedEof};
    let is_unreadable = why.raw_os_error() == Some(nix::libc::EIO);
    matches!(why.kind(), InvalidData | UnexpectedEof) || is_unreadable
}

fn number_of(name: &str) -> Option<u64> {
    name.strip_suffix(".seg")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::columns::TrialSchema;
    use edgedyno_shared::ids::{BootId, RunId, Sha256};
    use edgedyno_shared::order::Pass;
    use edgedyno_shared::repeat::Outcome;
    use edgedyno_shared::units::Nanos;

    use super::super::repeat_folder;
    use super::*;

    const STORE: StoreId = StoreId([7; 16]);

    fn sealed_repeat(base: &Path, spool: &Spool, repeat: u32) -> u64 {
        sealed_for(STORE, base, spool, repeat)
    }

    fn sealed_for(store: StoreId, base: &Path, spool: &Spool, repeat: u32) -> u64 {
        let case = Sha256([1; 32]);
        let key = OrderKey {
            run: RunId("a".into()),
            case,
            repeat,
            attempt: 0,
            pass: Pass::Honest,
        };
        let header = repeat_folder::header(store, BootId(1), key);
        let mut folder =
            RepeatFolder::create(&base.join("run"), &base.join("spill"), &header).unwrap();
        folder
            .log(&Record::Schema {
                lane: 0,
                schema: TrialSchema::with(vec![]),
            })
            .unwrap();
        folder.lane(0).keep_columns(4).unwrap();
        folder
            .lane(0)
            .sealed()
            .unwrap()
            .append(&[3, 10, 20, 0, 3, 30, 45, 0])
            .unwrap();
        let end = RepeatEnd {
            outcome: Outcome::Complete,
            wall_unix_ns: 0,
            mono: Nanos(0),
            environment: vec![],
            trials: 0,
            chunks: 0,
        };
        let number = spool.seal(&folder, header, end).unwrap();
        folder.remove().unwrap();
        number
    }

    #[test]
    fn a_sealed_repeat_has_its_trials_between_schema_and_end() {
        let base = tempfile::tempdir().unwrap();
        let spool = Spool::new(base.path());
        let number = sealed_repeat(base.path(), &spool, 0);
        let frames: Vec<Frame> = spool
            .frames(STORE, number)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let records: Vec<Record> = frames[1..]
            .iter()
            .map(|f| Record::parse(&f.payload).unwrap().1)
            .collect();
        let Record::Chunk(chunk) = &records[1] else {
            panic!("{records:?}")
        };
        assert_eq!(chunk.columns().unwrap()[2], [20, 45]);
        let Record::End(end) = &records[2] else {
            panic!("{records:?}")
        };
        assert_eq!((end.trials, end.chunks), (2, 1));
    }

    /// Repairs all that is damaged; returns how many segments that were.
    fn tidy(spool: &Spool) -> usize {
        let all = spool.all().unwrap().into_iter();
        all.filter(|(store, number)| spool.repair(*store, *number).unwrap())
            .count()
    }

    fn all(spool: &Spool, number: u64) -> Vec<Frame> {
        let frames = spool.frames(STORE, number).unwrap();
        frames.map(Result::unwrap).collect()
    }

    #[test]
    fn a_flipped_bit_anywhere_is_seen_and_costs_only_what_follows() {
        let base = tempfile::tempdir().unwrap();
        let spool = Spool::new(base.path());
        let number = sealed_repeat(base.path(), &spool, 0);
        let path = spool.path(STORE, number);
        let whole = fs::read(&path).unwrap();
        let sound = all(&spool, number);
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1_u8 << (at % 8);
            fs::write(&path, bytes).unwrap();
            assert_eq!(tidy(&spool), 1, "byte {at} is not seen");
            assert_eq!(tidy(&spool), 0);
            assert!(path.with_extension("bad").exists());
            let waiting = spool.waiting(STORE).unwrap();
            let left = waiting.first().map(|one| all(&spool, one.number));
            let Some((end, before)) = left.as_ref().and_then(|left| left.split_last()) else {
                continue;
            };
            assert!(sound.starts_with(before), "byte {at}: a wrong row");
            let Record::End(end) = Record::parse(&end.payload).unwrap().1 else {
                panic!("byte {at}: no end");
            };
            let Outcome::Failed { failure, .. } = end.outcome else {
                panic!("byte {at}: not a failure");
            };
            assert_eq!(failure.code, FailureCode::SpoolDamaged);
            let has_chunk = before.len() == 3;
            assert_eq!(end.trials, if has_chunk { 2 } else { 0 });
        }
    }

    #[test]
    fn what_a_crash_left_unfinished_goes_and_nothing_else() {
        let base = tempfile::tempdir().unwrap();
        let spool = Spool::new(base.path());
        spool.clear().unwrap();
        let number = sealed_repeat(base.path(), &spool, 0);
        let path = spool.path(STORE, number);
        fs::write(path.with_extension("tmp"), "half of the next").unwrap();
        spool.clear().unwrap();
        assert!(!path.with_extension("tmp").exists());
        assert_eq!(spool.all().unwrap(), [(STORE, number)]);
        // What is whole, or gone, is not repaired, and nothing that was set aside is lost by it.
        fs::write(path.with_extension("bad"), "an earlier one").unwrap();
        assert!(!spool.repair(STORE, number).unwrap());
        spool.acknowledge(STORE, number).unwrap();
        assert!(!spool.repair(STORE, number).unwrap());
        assert!(path.with_extension("bad").exists());
    }

    #[test]
    fn what_cannot_be_opened_now_is_no_damage() {
        let base = tempfile::tempdir().unwrap();
        let spool = Spool::new(base.path());
        let number = sealed_repeat(base.path(), &spool, 0);
        let path = spool.path(STORE, number);
        let whole = base.path().join("whole");
        fs::rename(&path, &whole).unwrap();
        // Nobody can open a socket as a file, not even root: ENXIO.
        let socket = base.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        std::os::unix::fs::symlink(&socket, &path).unwrap();
        spool.is_whole(STORE, number).unwrap_err();
        spool.repair(STORE, number).unwrap_err();
        assert!(path.exists() && !path.with_extension("bad").exists());
        fs::rename(&whole, &path).unwrap();
        assert!(!spool.repair(STORE, number).unwrap());
        assert_eq!(all(&spool, number).len(), 4);
    }

    #[test]
    fn a_torn_tail_is_cut_off() {
        let base = tempfile::tempdir().unwrap();
        let spool = Spool::new(base.path());
        let number = sealed_repeat(base.path(), &spool, 0);
        let path = spool.path(STORE, number);
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(tidy(&spool), 1, "{length} bytes");
            assert!(spool.waiting(STORE).unwrap().len() <= 1);
            assert_eq!(tidy(&spool), 0);
        }
    }

    #[test]
    fn what_is_dropped_is_one_stores_and_its_numbers_go_on() {
        let base = tempfile::tempdir().unwrap();
        let spool = Spool::new(base.path());
        let lost = StoreId([8; 16]);
        assert_eq!(spool.by_store().unwrap(), []);
        for repeat in 0..3 {
            sealed_for(lost, base.path(), &spool, repeat);
        }
        let kept = sealed_repeat(base.path(), &spool, 0);
        fs::write(spool.folder(lost).join("00000000000000000009.bad"), "x").unwrap();
        let all = spool.by_store().unwrap();
        let counts: Vec<_> = all.iter().map(|w| (w.store, w.repeats)).collect();
        assert_eq!(counts, [(STORE, 1), (lost, 3)]);
        let bytes: u64 = all.iter().map(|waiting| waiting.bytes).sum();
        assert_eq!(spool.load().unwrap(), (bytes, 4));
        // Written a moment ago.
        let age = clock::wall_unix_ns() - all[1].oldest_unix_ns.unwrap();
        assert!((0..600_000_000_000).contains(&age), "{age}");

        assert_eq!(spool.drop_all(lost).unwrap(), 3);
        assert_eq!(spool.drop_all(lost).unwrap(), 0);
        assert_eq!(spool.drop_all(StoreId([9; 16])).unwrap(), 0);
        let left = spool.by_store().unwrap();
        assert_eq!((left.len(), left[0].store), (1, STORE));
        assert_eq!(spool.numbers(STORE).unwrap(), [kept]);
        assert!(!spool.folder(lost).join("00000000000000000009.bad").exists());
        assert_eq!(sealed_for(lost, base.path(), &spool, 9), 3);
    }

    #[test]
    fn numbers_never_repeat_even_when_all_was_acknowledged() {
        let base = tempfile::tempdir().unwrap();
        let spool = Spool::new(base.path());
        for expected in 0..3 {
            assert_eq!(
                sealed_repeat(base.path(), &spool, expected as u32),
                expected
            );
            assert_eq!(spool.waiting(STORE).unwrap().len(), 1);
            spool.acknowledge(STORE, expected).unwrap();
            spool.acknowledge(STORE, expected).unwrap();
            assert_eq!(spool.load().unwrap(), (0, 0));
        }
        assert_eq!(spool.waiting(StoreId([8; 16])).unwrap(), []);
        // A session that has sent number 2 would never look at a 0 again.
        fs::write(spool.folder(STORE).join("next"), "\u{1}").unwrap();
        let beyond = sealed_repeat(base.path(), &spool, 3);
        assert!(beyond > 2, "{beyond}");
        assert_eq!(sealed_repeat(base.path(), &spool, 4), beyond + 1);
    }
}
