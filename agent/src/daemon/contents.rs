//! Where contents named by hash lie on this machine.
//!
//! A local user says it, and the file must still be the one whose hash was taken (device, inode, size,
//! time of change) whenever it is used; or a host uploaded them ([`super::blobs`]).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use edgedyno_shared::case::InputSource;
use edgedyno_shared::file_mark::FileMark;
use edgedyno_shared::ids::Sha256;
use edgedyno_shared::order::RepeatOrder;
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_shared::wire::frame;
use edgedyno_shared::wire::hello::schema_hash;
use edgedyno_shared::wire::request::{ContentMap, MappedFile};

use super::blobs::Blobs;
use crate::disk;

/// The known contents; on disk too, so that a queue can be worked off after a restart.
#[derive(Debug)]
pub struct Contents {
    folder: PathBuf,
    known: BTreeMap<Sha256, ContentMap>,
    /// What hosts uploaded.
    pub blobs: Blobs,
}

impl Contents {
    pub fn open(state: &Path) -> io::Result<Self> {
        let folder = state.join("contents");
        disk::private_folder(&folder)?;
        let mut known = BTreeMap::new();
        for name in disk::names(&folder, ".map")? {
            let path = folder.join(&name);
            let bytes = match fs::read(&path) {
                // Nothing that was put here by an agent.
                Err(why) if why.kind() == io::ErrorKind::IsADirectory => continue,
                bytes => bytes.map_err(disk::at(&path))?,
            };
            let map = bytes
                .strip_prefix(&schema_hash())
                .map(|rest| frame::decode::<ContentMap>(0, rest));
            match map {
                // A file that changed is not this content any more.
                Some(Ok(map)) if map.files.iter().all(|file| check(file).is_ok()) => {
                    drop(known.insert(map.sha256, map))
                }
                _ => disk::remove(&path)?,
            }
        }
        let blobs = Blobs::open(state)?;
        Ok(Self {
            folder,
            known,
            blobs,
        })
    }

    /// Remembers a content.
    ///
    /// # Errors
    /// When a file is not what it is said to be, or the map cannot be kept.
    pub fn learn(&mut self, map: ContentMap) -> Result<(), Failure> {
        if map.files.is_empty() {
            return Err(Failure::new(
                FailureCode::Protocol,
                "a content without a file",
            ));
        }
        map.files.iter().try_for_each(check)?;
        if self.known.get(&map.sha256) == Some(&map) {
            return Ok(());
        }
        let mut bytes = schema_hash().to_vec();
        let body = postcard::to_stdvec(&map).map_err(|why| storage(&io::Error::other(why)))?;
        bytes.extend(body);
        let path = self.folder.join(format!("{}.map", map.sha256));
        disk::write_whole(&path, &bytes).map_err(|why| storage(&why))?;
        self.known.insert(map.sha256, map);
        Ok(())
    }

    /// The file of a content, checked to be still the same.
    pub fn find(&self, sha256: &Sha256) -> Result<PathBuf, Failure> {
        Ok(self.find_all(sha256)?.swap_remove(0))
    }

    /// All files of a content, its own first, each checked to be still the same.
    pub fn find_all(&self, sha256: &Sha256) -> Result<Vec<PathBuf>, Failure> {
        let mapped = self.known.get(sha256).ok_or_else(|| {
            let detail = format!("content {sha256} is not known on this board");
            Failure::new(FailureCode::NotFound, detail)
        });
        let sound = mapped.and_then(|map| map.files.iter().try_for_each(check).map(|()| map));
        let map = match (sound, self.blobs.find_all(sha256)) {
            (Ok(map), _) => map,
            (Err(_), Some(uploaded)) => return Ok(uploaded),
            (Err(why), None) => return Err(why),
        };
        Ok(map
            .files
            .iter()
            .map(|file| PathBuf::from(&file.path))
            .collect())
    }
}

/// Hashes of all that an order names and a host may have uploaded.
pub fn named_by(order: &RepeatOrder) -> Vec<Sha256> {
    let mut all = files_of(order);
    all.push(order.case.model.sha256);
    let tenants = order.case.tenants.iter();
    all.extend(tenants.map(|tenant| tenant.model.sha256));
    all
}

/// Hashes of inputs and references.
pub fn files_of(order: &RepeatOrder) -> Vec<Sha256> {
    let inputs = match &order.case.inputs.source {
        InputSource::Files { sets } => sets.concat(),
        InputSource::Generated { .. } => Vec::new(),
    };
    inputs
        .iter()
        .chain(&order.outputs.reference)
        .map(|file| file.sha256)
        .collect()
}

fn storage(why: &io::Error) -> Failure {
    Failure::new(
        FailureCode::StorageFull,
        format!("the agent's state folder cannot be written: {why}"),
    )
    .hint(disk::MAKE_ROOM)
}

fn check(file: &MappedFile) -> Result<(), Failure> {
    let found = fs::metadata(&file.path).map_err(|why| {
        Failure::new(
            FailureCode::NotFound,
            format!("{} cannot be read: {why}", file.path),
        )
    })?;
    if FileMark::of(&found) == file.mark {
        return Ok(());
    }
    let detail = format!("{} changed since its hash was taken", file.path);
    Err(Failure::new(FailureCode::NotFound, detail).hint("start the run again"))
}
