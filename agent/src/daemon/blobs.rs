//! Contents that hosts uploaded: files named by their SHA-256, in bundles that models can be loaded from.
//!
//! `blobs/HASH` is a whole file, `blobs/HASH.part` one that is still coming, `bundles/HASH.offer` what a
//! content consists of, `bundles/HASH/` its files under the names that it uses for them (hard links). The
//! names were checked; no other word of a host becomes a path.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use edgedyno_shared::content::{ContentOffer, OfferedFile};
use edgedyno_shared::ids::Sha256;
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_shared::wire::frame;
use edgedyno_shared::wire::hello::schema_hash;
use edgedyno_shared::wire::request::{UPLOAD_BYTES, Upload};
use sha2::Digest;

use crate::{clock, disk};

/// Bytes that uploaded contents may take, in place of the rule below.
pub const QUOTA_VARIABLE: &str = "EDGEDYNO_AGENT_BLOBS";

/// They never take more than this,
const MOST: u64 = 8 << 30;

/// nor more than half of what is free, and always leave this for results.
const RESERVE: u64 = 64 << 20;

/// The uploaded contents. Only short calls: what takes long is done by [`Piece`] on another thread.
#[derive(Debug)]
pub struct Blobs {
    blobs: PathBuf,
    bundles: PathBuf,
    quota: Option<u64>,
    most_contents: usize,
    known: BTreeMap<Sha256, Known>,
    /// Contents that sessions rely on, and how many do.
    pins: BTreeMap<Sha256, u32>,
    /// Files that are still coming, as this life of the agent knows them.
    coming: BTreeMap<Sha256, Coming>,
}

#[derive(Debug, Default)]
struct Coming {
    so_far: Arc<Mutex<SoFar>>,
    /// Lengths that hosts said it has. The truth is the one at which the hash is right.
    lengths: BTreeSet<u64>,
}

/// Contents that are remembered: also one that lacks nothing takes a file and memory.
const MOST_CONTENTS: usize = 4096;

/// Lengths of one file that are remembered: more would be somebody making them up.
const MOST_LENGTHS: usize = 64;

/// The hash of the first bytes of a part: the last piece of a large file needs no second look at all others.
#[derive(Default)]
struct SoFar {
    bytes: u64,
    hash: sha2::Sha256,
}

impl fmt::Debug for SoFar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the hash of {} bytes", self.bytes)
    }
}

#[derive(Debug)]
struct Known {
    offer: ContentOffer,
    /// Counts offers: the lowest was used longest ago.
    last: u64,
}

impl Blobs {
    /// Reads what an earlier daemon left; what belongs to no content goes.
    pub fn open(state: &Path) -> io::Result<Self> {
        let (blobs, bundles) = (state.join("blobs"), state.join("bundles"));
        disk::private_folder(&blobs)?;
        disk::private_folder(&bundles)?;
        let quota = std::env::var_os(QUOTA_VARIABLE).as_ref().and_then(number);
        let mut this = Self {
            blobs,
            bundles,
            quota,
            most_contents: MOST_CONTENTS,
            known: BTreeMap::new(),
            pins: BTreeMap::new(),
            coming: BTreeMap::new(),
        };
        let mut found: Vec<(SystemTime, ContentOffer)> = Vec::new();
        for name in disk::names(&this.bundles, ".offer")? {
            let path = this.bundles.join(&name);
            match read_offer(&path) {
                Some(offer) => found.push((fs::metadata(&path)?.modified()?, offer)),
                None => disk::remove(&path)?,
            }
        }
        found.sort_by_key(|(modified, _)| *modified);
        for (_, offer) in found {
            this.remember(offer);
        }
        this.sweep()?;
        this.mend();
        Ok(this)
    }

    fn remember(&mut self, offer: ContentOffer) {
        let last = self
            .known
            .values()
            .map(|known| known.last + 1)
            .max()
            .unwrap_or(0);
        self.known.insert(offer.sha256, Known { offer, last });
    }

    fn whole(&self, sha256: &Sha256) -> PathBuf {
        self.blobs.join(sha256.to_string())
    }

    fn part(&self, sha256: &Sha256) -> PathBuf {
        self.blobs.join(format!("{sha256}.part"))
    }

    /// How much of a file is there.
    fn have(&self, file: &OfferedFile) -> u64 {
        let length = |path: &Path| fs::metadata(path).map(|found| found.len()).ok();
        match length(&self.whole(&file.sha256)) {
            Some(bytes) => bytes,
            None => length(&self.part(&file.sha256)).unwrap_or(0),
        }
    }

    /// What an agent that died behind the last byte of a file left to be done, since its host has nothing to
    /// send any more: such a file is checked, and thrown away when it is wrong. An empty one is whole from
    /// the beginning. To be put before the offer is taken on.
    pub fn unfinished(&mut self, offer: &ContentOffer) -> Vec<Piece> {
        if offer.check().is_err() {
            return Vec::new();
        }
        let is_left = |file: &&OfferedFile| {
            !self.whole(&file.sha256).exists() && self.have(file) >= file.bytes
        };
        let left: Vec<&OfferedFile> = offer.files.iter().filter(is_left).collect();
        let piece = |file: &OfferedFile| {
            // A file that others say is longer is not complete, and not this offer's to throw away.
            let mut lengths = self.lengths(&file.sha256);
            lengths.insert(file.bytes);
            let nothing = Upload {
                sha256: file.sha256,
                offset: file.bytes,
                bytes: Vec::new(),
            };
            self.piece_of(lengths, nothing)
        };
        left.into_iter().map(piece).collect()
    }

    /// Lengths that a file is said to have.
    fn lengths(&self, sha256: &Sha256) -> BTreeSet<u64> {
        let files = self.known.values().flat_map(|known| &known.offer.files);
        let files = files.filter(|file| file.sha256 == *sha256);
        let said = self.coming.get(sha256).map(|coming| &coming.lengths);
        let said = said.into_iter().flatten().copied();
        files.map(|file| file.bytes).chain(said).collect()
    }

    /// Whether a content was offered in the same words before.
    fn is_known(&self, offer: &ContentOffer) -> bool {
        let known = self.known.get(&offer.sha256);
        known.is_some_and(|known| known.offer == *offer)
    }

    /// Whether nothing is left to be done for an offer.
    fn is_complete(&self, offer: &ContentOffer) -> bool {
        let mut files = offer.files.iter();
        self.is_known(offer)
            && self.is_bundled(offer)
            && files.all(|file| self.whole(&file.sha256).exists())
    }

    /// Takes an offer on: says how much of each file is there, and makes room for the rest by forgetting
    /// what was used longest ago and nobody relies on (`in_use` besides what is pinned).
    ///
    /// # Errors
    /// When the offer is not sound, or there is no room: before the first byte is sent.
    pub fn offer(
        &mut self,
        offer: &ContentOffer,
        in_use: &BTreeSet<Sha256>,
    ) -> Result<Vec<u64>, Failure> {
        let protocol = |why: String| Failure::new(FailureCode::Protocol, why);
        offer.check().map_err(|why| protocol(why.to_string()))?;
        let own = main_name(&offer.files[0].name);
        if offer.files[1..].iter().any(|file| file.name == own) {
            return Err(protocol(format!(
                "`{own}` is the name of the content's own file here"
            )));
        }
        let have: Vec<u64> = offer.files.iter().map(|file| self.have(file)).collect();
        if self.is_complete(offer) {
            self.use_again(offer);
            return Ok(have);
        }
        let missing = offer.files.iter().zip(&have);
        let missing = missing.map(|(file, have)| file.bytes.saturating_sub(*have));
        let missing = missing.fold(0, u64::saturating_add);
        if missing > 0 {
            self.make_room(offer, missing, in_use)?;
        }
        if !self.known.contains_key(&offer.sha256) {
            self.make_place(in_use)?;
        }
        match self.is_known(offer) {
            true => self.use_again(offer),
            false => self.write_down(offer).map_err(|why| storage(&why))?,
        }
        let mut files = offer.files.iter();
        if files.all(|file| self.whole(&file.sha256).exists()) {
            self.bundle(offer).map_err(|why| storage(&why))?;
        }
        Ok(have)
    }

    /// Who says other lengths than another host does not take its words away: of a file that is not there whole
    /// the longest stands.
    fn write_down(&mut self, offer: &ContentOffer) -> io::Result<()> {
        let mut offer = offer.clone();
        let known = self.known.get(&offer.sha256);
        let known = known.map(|known| known.offer.files.clone());
        let known = known.unwrap_or_default();
        for file in &mut offer.files {
            if self.whole(&file.sha256).exists() {
                continue;
            }
            let lengths = &mut self.coming.entry(file.sha256).or_default().lengths;
            if lengths.len() < MOST_LENGTHS {
                lengths.insert(file.bytes);
            }
            let others = known.iter().filter(|other| other.sha256 == file.sha256);
            let longest = others.map(|other| other.bytes).max();
            file.bytes = longest.map_or(file.bytes, |longest| longest.max(file.bytes));
        }
        let mut bytes = schema_hash().to_vec();
        bytes.extend(postcard::to_stdvec(&offer).map_err(io::Error::other)?);
        disk::write_whole(&self.offer_path(&offer), &bytes)?;
        self.remember(offer);
        Ok(())
    }

    /// Notes that a content was used: a host offers all of its own whenever it connects, and each would be a
    /// file written and synced.
    fn use_again(&mut self, offer: &ContentOffer) {
        self.remember(offer.clone());
        let file = OpenOptions::new().write(true).open(self.offer_path(offer));
        let now = Duration::from_nanos(clock::wall_unix_ns().unsigned_abs());
        // Where that is not possible, the next agent may forget it a little early.
        let _ = file.and_then(|file| file.set_modified(SystemTime::UNIX_EPOCH + now));
    }

    fn offer_path(&self, offer: &ContentOffer) -> PathBuf {
        self.bundles.join(format!("{}.offer", offer.sha256))
    }

    /// Keeps a content from being forgotten until it is unpinned as often.
    pub fn pin(&mut self, sha256: Sha256) {
        *self.pins.entry(sha256).or_default() += 1;
    }

    pub fn unpin(&mut self, sha256: &Sha256) {
        if let Some(count) = self.pins.get_mut(sha256) {
            *count -= 1;
            if *count == 0 {
                self.pins.remove(sha256);
            }
        }
    }

    /// Makes room for what an offer lacks. What other offers still lack is theirs already.
    fn make_room(
        &mut self,
        offer: &ContentOffer,
        missing: u64,
        in_use: &BTreeSet<Sha256>,
    ) -> Result<(), Failure> {
        let is_needed = |blobs: &Self, sha256: &Sha256| {
            *sha256 == offer.sha256 || blobs.pins.contains_key(sha256) || in_use.contains(sha256)
        };
        let needed = |sha256: &&Sha256| is_needed(self, sha256);
        let needed: BTreeSet<Sha256> = self.known.keys().filter(needed).copied().collect();
        loop {
            let free = disk::free_bytes(&self.blobs).map_err(|why| storage(&why))?;
            let present = self.present_bytes().map_err(|why| storage(&why))?;
            let quota = self.quota.unwrap_or_else(|| MOST.min((free + present) / 2));
            let has_room = |contents: &BTreeSet<Sha256>, free: u64| {
                let promised = self.declared_bytes(contents, offer);
                promised <= quota && missing <= free.saturating_sub(RESERVE)
            };
            let all: BTreeSet<Sha256> = self.known.keys().copied().collect();
            if has_room(&all, free) {
                return Ok(());
            }
            // Nothing is forgotten for what would not fit all the same.
            let others = all
                .difference(&needed)
                .filter_map(|sha256| self.known.get_key_value(sha256));
            let oldest = others
                .min_by_key(|(_, known)| known.last)
                .map(|(sha256, _)| *sha256);
            let Some(oldest) = oldest.filter(|_| has_room(&needed, free + present)) else {
                let detail = format!(
                    "the board has no room for {missing} bytes: {free} are free in {}, and contents may take {quota}",
                    self.blobs.display()
                );
                let hint = format!("free room on the board, or set {QUOTA_VARIABLE} there");
                return Err(Failure::new(FailureCode::StorageFull, detail).hint(hint));
            };
            tracing::info!("content {oldest} is forgotten to make room");
            self.forget(&oldest).map_err(|why| storage(&why))?;
        }
    }

    /// Forgets what was used longest ago and nobody relies on while there are as many contents as may be.
    fn make_place(&mut self, in_use: &BTreeSet<Sha256>) -> Result<(), Failure> {
        while self.known.len() >= self.most_contents {
            let is_needed =
                |sha256: &Sha256| self.pins.contains_key(sha256) || in_use.contains(sha256);
            let others = self.known.iter().filter(|(sha256, _)| !is_needed(sha256));
            let oldest = others.min_by_key(|(_, known)| known.last);
            let Some(oldest) = oldest.map(|(sha256, _)| *sha256) else {
                let most = self.most_contents;
                let detail = format!("the board knows {most} contents that are in use already");
                return Err(Failure::new(FailureCode::StorageFull, detail)
                    .hint("end other commands that use the board, or split the plan"));
            };
            self.forget(&oldest).map_err(|why| storage(&why))?;
        }
        Ok(())
    }

    /// Bytes of all files of these contents and of an offer, whether they are there yet or not.
    fn declared_bytes(&self, contents: &BTreeSet<Sha256>, offer: &ContentOffer) -> u64 {
        let known = contents.iter().filter_map(|sha256| self.known.get(sha256));
        let files = known
            .flat_map(|known| &known.offer.files)
            .chain(&offer.files);
        let bytes: BTreeMap<Sha256, u64> = files.map(|file| (file.sha256, file.bytes)).collect();
        bytes.into_values().fold(0, u64::saturating_add)
    }

    fn forget(&mut self, sha256: &Sha256) -> io::Result<()> {
        self.known.remove(sha256);
        disk::remove(&self.bundles.join(format!("{sha256}.offer")))?;
        self.sweep()
    }

    /// Removes files and bundles that no known content names.
    fn sweep(&mut self) -> io::Result<()> {
        let files = self.known.values().flat_map(|known| &known.offer.files);
        let named: BTreeSet<String> = files.map(|file| file.sha256.to_string()).collect();
        self.coming
            .retain(|sha256, _| named.contains(&sha256.to_string()));
        for name in disk::names(&self.blobs, "")? {
            if !named.contains(name.trim_end_matches(".part")) {
                disk::remove(&self.blobs.join(name))?;
            }
        }
        for name in disk::names(&self.bundles, "")? {
            let is_known = name
                .parse()
                .is_ok_and(|sha256| self.known.contains_key(&sha256));
            if !is_known && !name.ends_with(".offer") {
                remove_all(&self.bundles.join(name))?;
            }
        }
        Ok(())
    }

    fn present_bytes(&self) -> io::Result<u64> {
        let names = disk::names(&self.blobs, "")?.into_iter();
        Ok(names
            .map(|name| fs::metadata(self.blobs.join(name)).map_or(0, |m| m.len()))
            .sum())
    }

    /// What is to be done with bytes that arrived.
    ///
    /// # Errors
    /// When they belong to no file that was offered, or go beyond its end.
    pub fn piece(&mut self, upload: Upload) -> Result<Piece, Failure> {
        let refuse = |why: &str| Failure::new(FailureCode::Protocol, why);
        let lengths = self.lengths(&upload.sha256);
        let Some(longest) = lengths.last() else {
            return Err(refuse("these bytes belong to no content that was offered"));
        };
        let end = upload.offset.checked_add(upload.bytes.len() as u64);
        if upload.bytes.len() > UPLOAD_BYTES || end.is_none_or(|end| end > *longest) {
            return Err(refuse(
                "these bytes are more than the file was said to have",
            ));
        }
        Ok(self.piece_of(lengths, upload))
    }

    fn piece_of(&mut self, lengths: BTreeSet<u64>, upload: Upload) -> Piece {
        Piece {
            whole: self.whole(&upload.sha256),
            part: self.part(&upload.sha256),
            so_far: Arc::clone(&self.coming.entry(upload.sha256).or_default().so_far),
            lengths,
            upload,
        }
    }

    /// Puts the contents together that have all their files now.
    pub fn settle(&mut self, sha256: &Sha256) -> Result<(), Failure> {
        let mut files = self.known.values().flat_map(|known| &known.offer.files);
        let is_named = files.any(|file| file.sha256 == *sha256);
        // What no offer names any more, or never named, is not to be remembered for ever.
        if !is_named || self.whole(sha256).exists() {
            self.coming.remove(sha256);
        }
        for known in self.known.values() {
            let files = &known.offer.files;
            let is_part = files.iter().any(|file| file.sha256 == *sha256);
            if is_part && files.iter().all(|file| self.whole(&file.sha256).exists()) {
                self.bundle(&known.offer).map_err(|why| storage(&why))?;
            }
        }
        Ok(())
    }

    /// Makes the folder of a content, whole or not at all. One that was made for a file of another ending has
    /// it under both; one that a power cut left without some of its names gets them again.
    fn bundle(&self, offer: &ContentOffer) -> io::Result<()> {
        let place = self.bundles.join(offer.sha256.to_string());
        let unfinished = self.bundles.join(format!("{}.new", offer.sha256));
        let is_new = !place.exists();
        if is_new {
            remove_all(&unfinished)?;
            disk::private_folder(&unfinished)?;
        }
        let folder = if is_new { &unfinished } else { &place };
        for (file, name) in offer.files.iter().zip(names_of(offer)) {
            let to = folder.join(name);
            fs::create_dir_all(to.parent().unwrap_or(folder))?;
            match fs::hard_link(self.whole(&file.sha256), to) {
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
                linked => linked?,
            }
        }
        // Its own name must not come to the disk before those in it.
        disk::sync_tree(folder)?;
        if is_new {
            fs::rename(&unfinished, &place)?;
        }
        disk::sync_folder(&self.bundles)
    }

    /// Whether the folder of a content has all its files.
    fn is_bundled(&self, offer: &ContentOffer) -> bool {
        let place = self.bundles.join(offer.sha256.to_string());
        names_of(offer).all(|name| place.join(name).is_file())
    }

    /// Puts folders together again that miss some of their names; orders may rely on them.
    fn mend(&self) {
        for known in self.known.values() {
            let offer = &known.offer;
            let mut files = offer.files.iter();
            if files.all(|file| self.whole(&file.sha256).exists())
                && !self.is_bundled(offer)
                && let Err(why) = self.bundle(offer)
            {
                tracing::warn!("content {} is not whole: {why}", offer.sha256);
            }
        }
    }

    /// All files of a content, its own first; none when it is not there whole.
    pub fn find_all(&self, sha256: &Sha256) -> Option<Vec<PathBuf>> {
        let offer = &self.known.get(sha256)?.offer;
        let place = self.bundles.join(sha256.to_string());
        self.is_bundled(offer)
            .then(|| names_of(offer).map(|name| place.join(name)).collect())
    }
}

/// What the content's own file is called: its ending says what format it is in, to some runtimes.
fn main_name(offered: &str) -> String {
    let ending = offered.rsplit_once('.').map(|(_, ending)| ending);
    let is_plain = |ending: &&str| {
        (1..=8).contains(&ending.len()) && ending.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    match ending.filter(is_plain) {
        Some(ending) => format!("content.{ending}"),
        None => "content".into(),
    }
}

fn names_of(offer: &ContentOffer) -> impl Iterator<Item = String> {
    let files = offer.files.iter().enumerate();
    files.map(|(at, file)| match at {
        0 => main_name(&file.name),
        _ => file.name.clone(),
    })
}

fn read_offer(path: &Path) -> Option<ContentOffer> {
    let bytes = fs::read(path).ok()?;
    let offer: ContentOffer = frame::decode(0, bytes.strip_prefix(&schema_hash())?).ok()?;
    let name = format!("{}.offer", offer.sha256);
    (path.ends_with(name) && offer.check().is_ok()).then_some(offer)
}

fn number(text: &OsString) -> Option<u64> {
    text.to_str()?.trim().parse().ok()
}

fn remove_all(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why),
        _ => Ok(()),
    }
}

fn storage(why: &io::Error) -> Failure {
    let text = format!("the agent's store of contents cannot be written: {why}");
    Failure::new(FailureCode::StorageFull, text).hint(disk::MAKE_ROOM)
}

/// Bytes to be put behind what is there; done on the thread for files, one after the other.
#[derive(Debug)]
pub struct Piece {
    whole: PathBuf,
    part: PathBuf,
    /// Lengths that the whole file is said to have: one, unless a host lies.
    lengths: BTreeSet<u64>,
    so_far: Arc<Mutex<SoFar>>,
    upload: Upload,
}

impl Piece {
    pub fn sha256(&self) -> Sha256 {
        self.upload.sha256
    }

    /// Appends the bytes where they belong, and checks the hash once all are there. Returns how many there
    /// are; bytes that are there already, or not yet due, change nothing.
    pub fn put(self) -> Result<u64, Failure> {
        if let Ok(found) = fs::metadata(&self.whole) {
            return Ok(found.len());
        }
        // Pieces of one file are put one after the other; a hash that a panic left half done is of no use.
        let mut so_far = self.so_far.lock().unwrap_or_else(|poisoned| {
            let mut so_far = poisoned.into_inner();
            *so_far = SoFar::default();
            so_far
        });
        let have = self.append(&mut so_far).map_err(|why| storage(&why))?;
        let longest = self.lengths.last().copied().unwrap_or(0);
        if have < longest && !self.lengths.contains(&have) {
            return Ok(have);
        }
        let found = self.hash(&mut so_far, have).map_err(|why| storage(&why))?;
        // Who says that a file is shorter than it is keeps nobody else from sending the rest.
        if found != self.upload.sha256 && have < longest {
            return Ok(have);
        }
        if found != self.upload.sha256 {
            *so_far = SoFar::default();
            disk::remove(&self.part).map_err(|why| storage(&why))?;
            let detail = format!("the bytes of {} have the hash {found}", self.upload.sha256);
            return Err(Failure::new(FailureCode::Protocol, detail).hint("start the run again"));
        }
        self.finish().map_err(|why| storage(&why))?;
        Ok(have)
    }

    fn append(&self, so_far: &mut SoFar) -> io::Result<u64> {
        // One that nothing is to be written to may be read-only already: earlier agents made it so too early.
        if self.upload.bytes.is_empty()
            && let Ok(found) = fs::symlink_metadata(&self.part)
            && found.is_file()
        {
            return Ok(found.len());
        }
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(nix::libc::O_NOFOLLOW)
            .open(&self.part)?;
        let have = file.metadata()?.len();
        if have != self.upload.offset {
            return Ok(have);
        }
        so_far.catch_up(&self.part, have)?;
        let folder = self.part.parent().unwrap_or(Path::new("."));
        let written = file.write_all(&self.upload.bytes);
        written.map_err(disk::room(folder, Some(self.upload.bytes.len())))?;
        so_far.add(&self.upload.bytes);
        Ok(have + self.upload.bytes.len() as u64)
    }

    /// The hash of all that is there.
    fn hash(&self, so_far: &mut SoFar, have: u64) -> io::Result<Sha256> {
        so_far.catch_up(&self.part, have)?;
        Ok(Sha256(so_far.hash.clone().finalize().into()))
    }

    fn finish(&self) -> io::Result<()> {
        let file = File::open(&self.part)?;
        file.sync_all()?;
        fs::rename(&self.part, &self.whole)?;
        // Not before: who goes on with a part that an agent left must be able to write to it.
        file.set_permissions(fs::Permissions::from_mode(0o400))?;
        disk::sync_folder(self.whole.parent().unwrap_or(Path::new(".")))
    }
}

impl SoFar {
    fn add(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// Reads what a part has beyond the bytes seen: what an earlier agent wrote, or what came to the disk of
    /// a piece that did not fit.
    fn catch_up(&mut self, part: &Path, have: u64) -> io::Result<()> {
        if self.bytes > have {
            *self = Self::default();
        }
        if self.bytes == have {
            return Ok(());
        }
        let mut file = File::open(part)?;
        file.seek(SeekFrom::Start(self.bytes))?;
        let mut buffer = vec![0; 1 << 18];
        while self.bytes < have {
            let most = (have - self.bytes).min(buffer.len() as u64) as usize;
            match file.read(&mut buffer[..most])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.add(&buffer[..count]),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn sha256(bytes: &[u8]) -> Sha256 {
        Sha256(sha2::Sha256::digest(bytes).into())
    }

    fn file(name: &str, bytes: &[u8]) -> OfferedFile {
        OfferedFile {
            name: name.into(),
            sha256: sha256(bytes),
            bytes: bytes.len() as u64,
        }
    }

    fn offer(files: Vec<OfferedFile>) -> ContentOffer {
        let sha256 = edgedyno_shared::content::content_hash(&files);
        ContentOffer { sha256, files }
    }

    fn open() -> (tempfile::TempDir, Blobs) {
        let state = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(state.path()).unwrap();
        (state, blobs)
    }

    fn put(blobs: &mut Blobs, whole: &[u8], offset: usize, bytes: &[u8]) -> Result<u64, Failure> {
        let upload = Upload {
            sha256: sha256(whole),
            offset: offset as u64,
            bytes: bytes.to_vec(),
        };
        let have = blobs.piece(upload)?.put()?;
        blobs.settle(&sha256(whole))?;
        Ok(have)
    }

    /// As a session takes an offer.
    fn take(
        blobs: &mut Blobs,
        offer: &ContentOffer,
        in_use: &BTreeSet<Sha256>,
    ) -> Result<Vec<u64>, Failure> {
        for piece in blobs.unfinished(offer) {
            let sha256 = piece.sha256();
            let _ = piece.put();
            blobs.settle(&sha256)?;
        }
        blobs.offer(offer, in_use)
    }

    fn none() -> BTreeSet<Sha256> {
        BTreeSet::new()
    }

    #[test]
    fn a_file_arrives_in_pieces_in_spite_of_a_restart_and_a_repetition() {
        let (state, mut blobs) = open();
        let whole = b"0123456789".as_slice();
        let content = offer(vec![file("m.onnx", whole)]);
        assert_eq!(take(&mut blobs, &content, &none()), Ok(vec![0]));
        assert_eq!(put(&mut blobs, whole, 0, b"0123"), Ok(4));
        assert_eq!(put(&mut blobs, whole, 0, b"0123"), Ok(4), "sent twice");
        assert_eq!(
            put(&mut blobs, whole, 6, b"67"),
            Ok(4),
            "a piece is missing before it"
        );
        assert_eq!(blobs.find_all(&content.sha256), None);
        let mut blobs = Blobs::open(state.path()).unwrap();
        assert_eq!(take(&mut blobs, &content, &none()), Ok(vec![4]));
        assert_eq!(put(&mut blobs, whole, 4, b"456789"), Ok(10));
        let found = blobs.find_all(&content.sha256).unwrap();
        assert_eq!(fs::read(&found[0]).unwrap(), whole);
        assert!(found[0].ends_with("content.onnx"), "{found:?}");
        assert_eq!(take(&mut blobs, &content, &none()), Ok(vec![10]));
    }

    #[test]
    fn an_agent_that_died_behind_the_last_byte_finishes_the_file_when_it_is_offered_again() {
        for (left, expected) in [(b"0123456789".as_slice(), 10), (b"012345678x", 0)] {
            let (state, mut blobs) = open();
            let whole = b"0123456789".as_slice();
            let content = offer(vec![file("m.onnx", whole)]);
            take(&mut blobs, &content, &none()).unwrap();
            // Every byte was written, and nothing checked yet.
            fs::write(blobs.part(&sha256(whole)), left).unwrap();
            let mut blobs = Blobs::open(state.path()).unwrap();
            assert_eq!(take(&mut blobs, &content, &none()), Ok(vec![expected]));
            put(
                &mut blobs,
                whole,
                expected as usize,
                &whole[expected as usize..],
            )
            .unwrap();
            let found = blobs.find_all(&content.sha256).unwrap();
            assert_eq!(fs::read(&found[0]).unwrap(), whole);
        }
    }

    #[test]
    fn a_part_that_was_made_read_only_too_early_is_finished() {
        let (state, mut blobs) = open();
        let whole = b"0123456789".as_slice();
        let content = offer(vec![file("m.onnx", whole)]);
        take(&mut blobs, &content, &none()).unwrap();
        let part = blobs.part(&sha256(whole));
        fs::write(&part, whole).unwrap();
        fs::set_permissions(&part, fs::Permissions::from_mode(0o400)).unwrap();
        let mut blobs = Blobs::open(state.path()).unwrap();
        assert_eq!(take(&mut blobs, &content, &none()), Ok(vec![10]));
        let found = blobs.find_all(&content.sha256).unwrap();
        assert_eq!(fs::metadata(&found[0]).unwrap().mode() & 0o777, 0o400);
    }

    #[test]
    fn an_empty_file_of_a_bundle_needs_no_byte() {
        let (_state, mut blobs) = open();
        let content = offer(vec![file("m.onnx", b"m"), file("empty.bin", b"")]);
        assert_eq!(take(&mut blobs, &content, &none()), Ok(vec![0, 0]));
        put(&mut blobs, b"m", 0, b"m").unwrap();
        let found = blobs.find_all(&content.sha256).unwrap();
        assert_eq!(fs::read(&found[1]).unwrap(), b"");
    }

    #[test]
    fn offers_that_lack_nothing_leave_nothing_behind() {
        let (_state, mut blobs) = open();
        for made_up in 0..20 {
            let mut lied = file("lie", &[made_up]);
            lied.bytes = 0;
            let refused = take(&mut blobs, &offer(vec![lied]), &none()).unwrap_err();
            assert_eq!(refused.code, FailureCode::Protocol);
        }
        take(&mut blobs, &offer(vec![file("empty", b"")]), &none()).unwrap();
        assert_eq!((blobs.coming.len(), blobs.known.len()), (0, 1));
        assert_eq!(disk::names(&blobs.blobs, "").unwrap().len(), 1);
        // One whose bytes are all there, of an offer that was never taken on.
        fs::write(blobs.part(&sha256(b"x")), b"y").unwrap();
        for piece in blobs.unfinished(&offer(vec![file("x", b"x")])) {
            piece.put().unwrap_err();
            blobs.settle(&sha256(b"x")).unwrap();
        }
        assert_eq!(blobs.coming.len(), 0);
    }

    #[test]
    fn contents_that_lack_nothing_are_counted_too() {
        let (_state, mut blobs) = open();
        blobs.most_contents = 3;
        // The same empty file under ever other names.
        let named = |name: &str| offer(vec![file("main", b""), file(name, b"")]);
        let names = ["a", "b", "c", "d", "e"];
        let [a, b, c, d, e] = names.map(named);
        for one in [&a, &b, &c] {
            take(&mut blobs, one, &none()).unwrap();
        }
        blobs.pin(a.sha256);
        take(&mut blobs, &d, &none()).unwrap();
        let known: BTreeSet<Sha256> = blobs.known.keys().copied().collect();
        let expected = BTreeSet::from([a.sha256, c.sha256, d.sha256]);
        assert_eq!(known, expected, "the oldest that nobody relies on went");
        assert_eq!(disk::names(&blobs.bundles, ".offer").unwrap().len(), 3);
        let in_use = BTreeSet::from([c.sha256, d.sha256]);
        let refused = take(&mut blobs, &e, &in_use).unwrap_err();
        assert_eq!(refused.code, FailureCode::StorageFull);
        // What is known needs no other place.
        take(&mut blobs, &a, &in_use).unwrap();
    }

    #[test]
    fn who_lies_about_a_length_keeps_nobody_from_sending_the_file() {
        for lie in [1, 3, 1 << 20] {
            let (_state, mut blobs) = open();
            let mut lied = file("lie", b"whole");
            lied.bytes = lie;
            take(&mut blobs, &offer(vec![lied]), &none()).unwrap();
            let bundle = offer(vec![file("m.onnx", b"m"), file("w.bin", b"whole")]);
            take(&mut blobs, &bundle, &none()).unwrap();
            put(&mut blobs, b"m", 0, b"m").unwrap();
            assert_eq!(put(&mut blobs, b"whole", 0, b"who"), Ok(3));
            assert_eq!(put(&mut blobs, b"whole", 3, b"le"), Ok(5));
            assert!(blobs.find_all(&bundle.sha256).is_some(), "a lie of {lie}");
        }
    }

    #[test]
    fn who_says_that_a_file_is_shorter_throws_away_nothing_of_who_sends_it() {
        let (state, mut blobs) = open();
        let whole = b"0123456789".as_slice();
        let content = offer(vec![file("m.onnx", whole)]);
        take(&mut blobs, &content, &none()).unwrap();
        put(&mut blobs, whole, 0, b"012345").unwrap();
        for lie in [1, 4, 6] {
            let mut lied = file("lie", whole);
            lied.bytes = lie;
            assert_eq!(
                take(&mut blobs, &offer(vec![lied]), &none()),
                Ok(vec![6]),
                "a lie of {lie}"
            );
        }
        // Nor after a restart, when the file is looked at from its beginning.
        let mut blobs = Blobs::open(state.path()).unwrap();
        let mut lied = file("lie", whole);
        lied.bytes = 5;
        take(&mut blobs, &offer(vec![lied]), &none()).unwrap();
        assert_eq!(put(&mut blobs, whole, 6, b"6789"), Ok(10));
        let found = blobs.find_all(&content.sha256).unwrap();
        assert_eq!(fs::read(&found[0]).unwrap(), whole);
    }

    #[test]
    fn a_content_that_is_there_is_not_written_down_again() {
        let (state, mut blobs) = open();
        let whole = b"0123456789".as_slice();
        let content = offer(vec![file("m.onnx", whole)]);
        let written = |content: &ContentOffer| {
            let path = state.path().join("bundles");
            let path = path.join(format!("{}.offer", content.sha256));
            let found = fs::metadata(path).unwrap();
            (found.ino(), found.modified().unwrap())
        };
        take(&mut blobs, &content, &none()).unwrap();
        let (first, _) = written(&content);
        put(&mut blobs, whole, 0, b"01234").unwrap();
        // In the middle of it, and when it is whole.
        assert_eq!(take(&mut blobs, &content, &none()), Ok(vec![5]));
        put(&mut blobs, whole, 5, b"56789").unwrap();
        let long_ago = SystemTime::UNIX_EPOCH;
        let place = blobs.offer_path(&content);
        let file = OpenOptions::new().write(true).open(&place).unwrap();
        file.set_modified(long_ago).unwrap();
        assert_eq!(take(&mut blobs, &content, &none()), Ok(vec![10]));
        let (last, modified) = written(&content);
        assert_eq!(first, last, "another file is in its place");
        assert!(modified > long_ago, "what was used last is forgotten last");
        // Whose bundle went is put together again.
        fs::remove_dir_all(
            state
                .path()
                .join("bundles")
                .join(content.sha256.to_string()),
        )
        .unwrap();
        assert_eq!(take(&mut blobs, &content, &none()), Ok(vec![10]));
        assert!(blobs.find_all(&content.sha256).is_some());
    }

    #[test]
    fn a_file_that_comes_again_with_another_ending_is_there_under_both() {
        let (_state, mut blobs) = open();
        let content = offer(vec![file("m.onnx", b"m")]);
        take(&mut blobs, &content, &none()).unwrap();
        put(&mut blobs, b"m", 0, b"m").unwrap();
        let first = blobs.find_all(&content.sha256).unwrap();
        let renamed = offer(vec![file("m.ort", b"m")]);
        assert_eq!(take(&mut blobs, &renamed, &none()), Ok(vec![1]));
        let second = blobs.find_all(&renamed.sha256).unwrap();
        assert!(second[0].ends_with("content.ort"), "{second:?}");
        for path in [&first[0], &second[0]] {
            assert_eq!(fs::read(path).unwrap(), b"m");
        }
    }

    #[test]
    fn a_piece_that_came_to_the_disk_in_part_is_counted_as_far_as_it_came() {
        let (_state, mut blobs) = open();
        let whole = b"0123456789".as_slice();
        let content = offer(vec![file("m.onnx", whole)]);
        take(&mut blobs, &content, &none()).unwrap();
        put(&mut blobs, whole, 0, b"0123").unwrap();
        // As a disk leaves it that became full in the middle of the next piece.
        let part = blobs.part(&sha256(whole));
        let mut file = OpenOptions::new().append(true).open(part).unwrap();
        file.write_all(b"45").unwrap();
        assert_eq!(put(&mut blobs, whole, 4, b"456789"), Ok(6));
        assert_eq!(put(&mut blobs, whole, 6, b"6789"), Ok(10));
        assert!(blobs.find_all(&content.sha256).is_some());
        assert!(blobs.coming.is_empty());
    }

    #[test]
    fn bytes_of_another_hash_are_thrown_away() {
        let (_state, mut blobs) = open();
        let content = offer(vec![file("m", b"right")]);
        take(&mut blobs, &content, &none()).unwrap();
        assert_eq!(
            put(&mut blobs, b"right", 0, b"wrong").unwrap_err().code,
            FailureCode::Protocol
        );
        assert_eq!(blobs.find_all(&content.sha256), None);
        assert_eq!(put(&mut blobs, b"right", 0, b"right"), Ok(5));
    }

    #[test]
    fn bytes_that_nobody_offered_or_too_many_are_refused() {
        let (_state, mut blobs) = open();
        take(&mut blobs, &offer(vec![file("m", b"abc")]), &none()).unwrap();
        assert!(put(&mut blobs, b"other", 0, b"other").is_err());
        assert!(put(&mut blobs, b"abc", 0, b"abcd").is_err());
        let far = Upload {
            sha256: sha256(b"abc"),
            offset: u64::MAX,
            bytes: vec![1],
        };
        assert!(blobs.piece(far).is_err());
    }

    #[test]
    fn a_bundle_has_its_files_by_their_names() {
        let (_state, mut blobs) = open();
        let content = offer(vec![
            file("../evil/m.onnx", b"m"),
            file("w/big.bin", b"weights"),
        ]);
        take(&mut blobs, &content, &none()).unwrap();
        put(&mut blobs, b"m", 0, b"m").unwrap();
        put(&mut blobs, b"weights", 0, b"weights").unwrap();
        let found = blobs.find_all(&content.sha256).unwrap();
        let folder = found[0].parent().unwrap();
        assert_eq!(
            found,
            [folder.join("content.onnx"), folder.join("w/big.bin")]
        );
        assert_eq!(fs::read(&found[1]).unwrap(), b"weights");
    }

    /// What a power cut makes of a folder whose own name came to the disk first.
    #[test]
    fn a_bundle_without_some_of_its_names_is_none_until_it_has_them_again() {
        let (state, mut blobs) = open();
        let model = offer(vec![
            file("m.onnx", b"model"),
            file("w/big.bin", b"weights"),
        ]);
        take(&mut blobs, &model, &none()).unwrap();
        put(&mut blobs, b"model", 0, b"model").unwrap();
        put(&mut blobs, b"weights", 0, b"weights").unwrap();
        let found = blobs.find_all(&model.sha256).unwrap();
        for spoiled in [&found[..1], &found[1..], &found[..]] {
            for path in spoiled {
                fs::remove_file(path).unwrap();
            }
            assert_eq!(blobs.find_all(&model.sha256), None, "{spoiled:?}");
            take(&mut blobs, &model, &none()).unwrap();
            assert_eq!(blobs.find_all(&model.sha256), Some(found.clone()));
        }
        let folder = found[0].parent().unwrap();
        fs::remove_dir_all(folder).unwrap();
        fs::create_dir(folder).unwrap();
        // Orders that wait rely on it, and no host may be there to offer it.
        let again = Blobs::open(state.path()).unwrap();
        assert_eq!(again.find_all(&model.sha256), Some(found.clone()));
        assert_eq!(fs::read(&found[1]).unwrap(), b"weights");
    }

    #[test]
    fn what_was_used_longest_ago_makes_room_and_what_is_needed_stays() {
        let (_state, mut blobs) = open();
        blobs.quota = Some(10);
        let contents = [b"aaaa".as_slice(), b"bbbb", b"cccc"];
        let offers = contents.map(|bytes| offer(vec![file("m", bytes)]));
        for (content, bytes) in offers.iter().zip(contents).take(2) {
            take(&mut blobs, content, &none()).unwrap();
            put(&mut blobs, bytes, 0, bytes).unwrap();
        }
        blobs.pin(offers[0].sha256);
        let used = BTreeSet::from([offers[1].sha256]);
        let refused = take(&mut blobs, &offers[2], &used).unwrap_err();
        assert_eq!(refused.code, FailureCode::StorageFull);
        take(&mut blobs, &offers[2], &none()).unwrap();
        assert!(blobs.find_all(&offers[0].sha256).is_some());
        assert!(blobs.find_all(&offers[1].sha256).is_none());
        blobs.unpin(&offers[0].sha256);
        assert!(blobs.pins.is_empty());
    }

    #[test]
    fn what_is_larger_than_the_quota_is_refused_before_anything_is_forgotten() {
        let (_state, mut blobs) = open();
        blobs.quota = Some(10);
        let small = offer(vec![file("m", b"aaaa")]);
        take(&mut blobs, &small, &none()).unwrap();
        put(&mut blobs, b"aaaa", 0, b"aaaa").unwrap();
        let large = offer(vec![file("m", &[7; 11])]);
        let refused = take(&mut blobs, &large, &none()).unwrap_err();
        assert_eq!(refused.code, FailureCode::StorageFull);
        assert!(blobs.find_all(&small.sha256).is_some());
    }

    #[test]
    fn what_belongs_to_no_content_goes_at_the_start() {
        let (state, mut blobs) = open();
        let content = offer(vec![file("m", b"abc")]);
        take(&mut blobs, &content, &none()).unwrap();
        put(&mut blobs, b"abc", 0, b"a").unwrap();
        for stray in ["blobs/ff", "blobs/00.part", "bundles/x.offer"] {
            fs::write(state.path().join(stray), b"x").unwrap();
        }
        fs::create_dir(state.path().join("bundles/old")).unwrap();
        let blobs = Blobs::open(state.path()).unwrap();
        let part = format!("{}.part", sha256(b"abc"));
        assert_eq!(disk::names(&blobs.blobs, "").unwrap(), [part]);
        assert_eq!(
            disk::names(&blobs.bundles, "").unwrap(),
            [format!("{}.offer", content.sha256)]
        );
    }
}
