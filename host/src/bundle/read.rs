//! Taking a bundle in. Nothing in it is believed: names, sizes and hashes must be those of its list, the list
//! must be of a form that is known, and rows must be what the store would have written itself.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use edgedyno_shared::ids::Sha256;
use flate2::bufread::GzDecoder;
use serde_json::Value;
use sha2::Digest as _;
use tar::{Archive, Entry, EntryType};

use super::error::BundleError;
use super::manifest::{self, DOCUMENT, Manifest, Member, REPORT, is_safe};
use crate::store::Store;
use crate::store::copy::tables::{self, Kind};
use crate::store::copy::{Merge, Merged, Origin, Piece, PieceKind, Row};

/// No member is larger.
pub(super) const LARGEST: u64 = 32 * 1024 * 1024;
/// The bytes of one repeat or artifact.
const LARGEST_PIECE: usize = 2 * 1024 * 1024 * 1024 - 1;
/// What a file may unfold to, whatever its size, and how many times its size beyond that.
const ALWAYS_FITS: u64 = 256 * 1024 * 1024;
const UNFOLDS: u64 = 200;

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Taken {
    pub merged: Merged,
    pub manifest: Manifest,
    pub sha256: String,
    /// Model files that were written.
    pub models: Vec<PathBuf>,
}

/// Takes a bundle in. `open` gives the store, and is asked when the bundle is one; `models` is the folder for
/// model files, which stay in the bundle without it.
///
/// # Errors
/// When anything in the bundle is not as its list says: then nothing of it is in the store.
pub fn read(
    path: &Path,
    models: Option<&Path>,
    now_unix_ns: i64,
    open: impl FnOnce() -> Result<Store, BundleError>,
) -> Result<Taken, BundleError> {
    let unsound = |why: io::Error| BundleError::Unsound {
        path: path.to_owned(),
        why: why.to_string(),
    };
    let file = File::open(path).map_err(unreadable(path))?;
    let size = file.metadata().map_err(unreadable(path))?.len();
    let hashed = Hashed::new(file);
    let unpacked = GzDecoder::new(BufReader::new(hashed));
    let limit = ALWAYS_FITS.max(size.saturating_mul(UNFOLDS));
    let mut archive = Archive::new(Limited::new(unpacked, limit));
    let mut entries = archive.entries().map_err(unsound)?.raw(true);
    let manifest = read_manifest(path, entries.next())?;
    let store = open()?;
    let mut taking = Taking::new(&store, path, models, &manifest);
    for member in &manifest.members {
        let entry = entries
            .next()
            .ok_or_else(|| io::Error::other(format!("{} is not there", member.name)));
        let entry = entry.and_then(|entry| entry).map_err(unsound)?;
        let bytes = read_member(entry, member).map_err(unsound)?;
        taking.member(&member.name, bytes)?;
    }
    if entries.next().is_some() {
        return Err(unsound(io::Error::other(
            "it goes on behind the last member of its list",
        )));
    }
    let sha256 = read_rest(archive.into_inner()).map_err(unsound)?;
    let origin = Origin {
        source: path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        store: manifest.store.clone(),
        sha256: Some(sha256.clone()),
        left_out: manifest.left_out.clone(),
        tool_version: manifest.tool_version.clone(),
        imported_unix_ns: now_unix_ns,
    };
    let (merged, models) = taking.finish(&origin)?;
    Ok(Taken {
        merged,
        manifest,
        sha256,
        models,
    })
}

/// The list, once it is known to be one of a form that this version reads.
fn read_manifest<R: Read>(
    path: &Path,
    entry: Option<io::Result<Entry<'_, R>>>,
) -> Result<Manifest, BundleError> {
    let unsound = |why: String| BundleError::Unsound {
        path: path.to_owned(),
        why,
    };
    let entry = entry.ok_or_else(|| unsound("it is empty".into()))?;
    let mut entry = entry.map_err(|why| unsound(why.to_string()))?;
    check_entry(&entry, manifest::NAME).map_err(|why| unsound(why.to_string()))?;
    let bytes = read_at_most(&mut entry, LARGEST).map_err(|why| unsound(why.to_string()))?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|why| unsound(why.to_string()))?;
    let document = value["document"].as_str().unwrap_or_default();
    let newer = |found: String, known: String| BundleError::Newer {
        path: path.to_owned(),
        found,
        known,
    };
    if document != DOCUMENT {
        let (kind, _) = DOCUMENT.rsplit_once('/').unwrap_or_default();
        return Err(match document.rsplit_once('/') {
            Some((found, _)) if found == kind => newer(document.into(), DOCUMENT.into()),
            _ => unsound(format!("its document is `{document}`")),
        });
    }
    if value["layout"]
        .as_i64()
        .is_some_and(|layout| layout > Store::layout())
    {
        let found = format!("of layout {}", value["layout"]);
        return Err(newer(found, format!("layouts up to {}", Store::layout())));
    }
    let manifest: Manifest =
        serde_json::from_value(value).map_err(|why| unsound(why.to_string()))?;
    check_names(&manifest).map_err(unsound)?;
    Ok(manifest)
}

fn check_names(manifest: &Manifest) -> Result<(), String> {
    let mut seen = std::collections::BTreeSet::new();
    for member in &manifest.members {
        if !is_safe(&member.name) {
            return Err(format!("`{}` is no safe name", member.name));
        }
        if member.name == manifest::NAME || !seen.insert(&member.name) {
            return Err(format!("{} is listed twice", member.name));
        }
        if member.bytes > LARGEST {
            return Err(format!("{} is larger than a member may be", member.name));
        }
    }
    Ok(())
}

/// Plain files of the expected name only: no links, folders, devices or extensions.
fn check_entry<R: Read>(entry: &Entry<'_, R>, expected: &str) -> io::Result<()> {
    let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
    if !is_safe(&name) {
        return Err(io::Error::other(format!(
            "`{}` is no safe name",
            name.escape_debug()
        )));
    }
    if entry.header().entry_type() != EntryType::Regular {
        return Err(io::Error::other(format!("{name} is no plain file")));
    }
    match name == expected {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "{name} stands where {expected} was due"
        ))),
    }
}

fn read_member<R: Read>(mut entry: Entry<'_, R>, member: &Member) -> io::Result<Vec<u8>> {
    check_entry(&entry, &member.name)?;
    let bytes = read_at_most(&mut entry, member.bytes)?;
    let found = Sha256(sha2::Sha256::digest(&bytes).into()).to_string();
    match bytes.len() as u64 == member.bytes && found == member.sha256 {
        true => Ok(bytes),
        false => Err(io::Error::other(format!(
            "{} is not what the list says",
            member.name
        ))),
    }
}

fn read_at_most<R: Read>(entry: &mut Entry<'_, R>, most: u64) -> io::Result<Vec<u8>> {
    let size = entry.size();
    if size > most {
        return Err(io::Error::other("a member is larger than it may be"));
    }
    let mut bytes = Vec::with_capacity(size as usize);
    entry.take(most).read_to_end(&mut bytes)?;
    match bytes.len() as u64 == size {
        true => Ok(bytes),
        false => Err(io::Error::other("it is cut short")),
    }
}

/// Behind the last member there are zeros, and behind those the file ends. The hash is that of the file.
fn read_rest(unpacked: Limited<GzDecoder<BufReader<Hashed>>>) -> io::Result<String> {
    let mut unpacked = unpacked;
    let mut rest = [0; 4096];
    loop {
        match unpacked.read(&mut rest)? {
            0 => break,
            n if rest[..n].iter().all(|byte| *byte == 0) => {}
            _ => return Err(io::Error::other("there is something behind its end")),
        }
    }
    let mut file = unpacked.inner.into_inner();
    if !file.fill_buf()?.is_empty() {
        return Err(io::Error::other("there is something behind its end"));
    }
    let hash = file.into_inner().hash;
    Ok(Sha256(hash.finalize().into()).to_string())
}

/// Members on their way into the store.
struct Taking<'a> {
    store: &'a Store,
    path: PathBuf,
    is_whole: bool,
    run: String,
    merge: Option<Merge<'a>>,
    open: Option<Coming>,
    models: Option<Models>,
}

/// The rows of each table.
type Rows = BTreeMap<String, Vec<Row>>;

/// The piece whose bytes are coming.
struct Coming {
    stem: String,
    kind: PieceKind,
    rows: Rows,
    bytes: Vec<u8>,
}

impl<'a> Taking<'a> {
    fn new(store: &'a Store, path: &Path, models: Option<&Path>, manifest: &Manifest) -> Self {
        Self {
            store,
            path: path.to_owned(),
            is_whole: manifest.private,
            run: manifest.run.clone(),
            merge: None,
            open: None,
            models: models.map(Models::new),
        }
    }

    fn member(&mut self, name: &str, bytes: Vec<u8>) -> Result<(), BundleError> {
        if name == REPORT {
            return Ok(());
        }
        if let Some(rest) = name.strip_prefix("models/") {
            return match &mut self.models {
                Some(models) => models.member(rest, bytes),
                None => Ok(()),
            };
        }
        let piece = self.open.as_ref().map(|coming| coming.stem.clone());
        match (name.strip_suffix(".json"), piece) {
            (Some(stem), _) => {
                self.flush()?;
                let kind = kind_of(stem)
                    .ok_or_else(|| self.unsound(format!("{name} is nothing that is known")))?;
                let rows = serde_json::from_slice(&bytes);
                let rows = rows.map_err(|why| self.unsound(format!("{name}: {why}")))?;
                self.open = Some(Coming {
                    stem: stem.to_owned(),
                    kind,
                    rows,
                    bytes: Vec::new(),
                });
                Ok(())
            }
            (None, Some(stem)) if is_part_of(name, &stem) => {
                let unsound = self.unsound(format!("{stem} is larger than it may be"));
                match &mut self.open {
                    Some(coming) if coming.bytes.len() + bytes.len() <= LARGEST_PIECE => {
                        coming.bytes.extend(bytes);
                        Ok(())
                    }
                    _ => Err(unsound),
                }
            }
            (None, _) => Err(self.unsound(format!("{name} is nothing that is known"))),
        }
    }

    /// Takes in the piece that is complete now.
    fn flush(&mut self) -> Result<(), BundleError> {
        let Some(Coming {
            stem,
            kind,
            rows,
            bytes,
        }) = self.open.take()
        else {
            return Ok(());
        };
        let piece =
            assemble(kind, rows, &bytes).map_err(|why| self.unsound(format!("{stem}: {why}")))?;
        let Some(merge) = &mut self.merge else {
            let named = piece
                .only("runs")
                .and_then(|run| run.get("id"))
                .and_then(Value::as_str);
            if kind != PieceKind::Head || named != Some(self.run.as_str()) {
                return Err(self.unsound(format!("{stem} stands where run {} was due", self.run)));
            }
            self.merge = Some(self.store.merge(&piece, self.is_whole)?);
            return Ok(());
        };
        match kind {
            PieceKind::Head => return Err(self.unsound("there are two runs in it".into())),
            PieceKind::Cases => merge.cases(&piece)?,
            PieceKind::Repeat => merge.repeat(&piece)?,
            PieceKind::Content => {
                let sha256 = stem.rsplit('/').next().unwrap_or_default();
                merge.content(sha256, &piece)?;
            }
        }
        Ok(())
    }

    fn finish(mut self, origin: &Origin) -> Result<(Merged, Vec<PathBuf>), BundleError> {
        self.flush()?;
        let merge = self
            .merge
            .take()
            .ok_or_else(|| self.unsound("there is no run in it".into()))?;
        let comes_home = origin.store == self.store.id().to_string();
        let merged = merge.finish(origin, !comes_home)?;
        let models = match self.models.take() {
            Some(models) => models.put()?,
            None => Vec::new(),
        };
        Ok((merged, models))
    }

    fn unsound(&self, why: String) -> BundleError {
        BundleError::Unsound {
            path: self.path.clone(),
            why,
        }
    }
}

fn kind_of(stem: &str) -> Option<PieceKind> {
    match stem.split_once('/') {
        None if stem == "run" => Some(PieceKind::Head),
        Some(("cases", _)) => Some(PieceKind::Cases),
        Some(("repeats", _)) => Some(PieceKind::Repeat),
        Some(("contents", _)) => Some(PieceKind::Content),
        _ => None,
    }
}

/// `repeats/000001.000.bin` of `repeats/000001`.
fn is_part_of(name: &str, stem: &str) -> bool {
    let part = name
        .strip_prefix(stem)
        .and_then(|rest| rest.strip_suffix(".bin"));
    part.is_some_and(|number| {
        number.starts_with('.') && number[1..].bytes().all(|b| b.is_ascii_digit())
    })
}

/// Cuts the bytes as the rows say.
fn assemble(kind: PieceKind, rows: Rows, bytes: &[u8]) -> Result<Piece, String> {
    let known = |name: &String| tables::of_piece(kind).any(|table| table.name == name);
    if let Some(other) = rows.keys().find(|name| !known(name)) {
        return Err(format!("`{other}` is no table of it"));
    }
    let mut piece = Piece {
        rows,
        blobs: Vec::new(),
    };
    let mut rest = bytes;
    for table in tables::of_piece(kind) {
        let blobs = || {
            table
                .columns
                .iter()
                .filter(|column| column.kind == Kind::Blob)
        };
        for row in piece.rows.get(table.name).into_iter().flatten() {
            for column in blobs() {
                let length = match row.get(column.name) {
                    None | Some(Value::Null) => continue,
                    Some(length) => length
                        .as_u64()
                        .and_then(|length| usize::try_from(length).ok()),
                };
                let cut = length.and_then(|length| rest.split_at_checked(length));
                let (blob, behind) = cut.ok_or("it has fewer bytes than its rows say")?;
                piece.blobs.push(blob.to_vec());
                rest = behind;
            }
        }
    }
    match rest.is_empty() {
        true => Ok(piece),
        false => Err("it has more bytes than its rows say".into()),
    }
}

/// Model files, written beside where they will be until the whole bundle is good.
struct Models {
    folder: PathBuf,
    /// By member, files that are being written.
    parts: BTreeMap<String, PathBuf>,
    /// Where each goes.
    names: Vec<(PathBuf, PathBuf)>,
}

impl Models {
    fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            parts: BTreeMap::new(),
            names: Vec::new(),
        }
    }

    /// `HASH.N.PPP.bin` is part PPP of file N, `HASH.json` gives the files their names.
    fn member(&mut self, name: &str, bytes: Vec<u8>) -> Result<(), BundleError> {
        fs::create_dir_all(&self.folder).map_err(not_writable(&self.folder))?;
        if let Some(sha256) = name.strip_suffix(".json") {
            let list: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            let files = list["files"].as_array().cloned().unwrap_or_default();
            for (number, file) in files.iter().enumerate() {
                let part = self.parts.remove(&format!("{sha256}.{number}"));
                let wanted = Path::new(file["name"].as_str().unwrap_or_default());
                // The name may come from anybody: a bare file name or nothing.
                let plain = wanted
                    .file_name()
                    .filter(|name| *name == wanted.as_os_str());
                if let (Some(part), Some(plain)) = (part, plain) {
                    self.names.push((part, self.folder.join(plain)));
                }
            }
            return Ok(());
        }
        let mut pieces = name.rsplitn(3, '.');
        let (_, _, file) = (
            pieces.next(),
            pieces.next(),
            pieces.next().unwrap_or_default(),
        );
        let part = self
            .folder
            .join(format!(".edgedyno-{}-{file}", std::process::id()));
        let is_new = self.parts.insert(file.to_owned(), part.clone()).is_none();
        let mut options = fs::OpenOptions::new();
        options
            .write(true)
            .create(true)
            .append(!is_new)
            .truncate(is_new);
        let written = options.open(&part).and_then(|mut to| to.write_all(&bytes));
        written.map_err(not_writable(&part))
    }

    /// Gives the files their names, unless there is one already.
    fn put(mut self) -> Result<Vec<PathBuf>, BundleError> {
        let mut put = Vec::new();
        while let Some((part, to)) = self.names.pop() {
            if to.exists() {
                let is_same = fs::read(&to)
                    .ok()
                    .filter(|there| fs::read(&part).ok().as_ref() == Some(there));
                let _ = fs::remove_file(&part);
                if is_same.is_some() {
                    put.push(to);
                    continue;
                }
                let taken =
                    io::Error::new(io::ErrorKind::AlreadyExists, "there is a file of that name");
                return Err(not_writable(&to)(taken));
            }
            let synced = File::open(&part).and_then(|file| file.sync_all());
            synced
                .and_then(|()| fs::rename(&part, &to))
                .map_err(not_writable(&to))?;
            put.push(to);
        }
        put.reverse();
        Ok(put)
    }
}

impl Drop for Models {
    fn drop(&mut self) {
        let left = self
            .parts
            .values()
            .chain(self.names.iter().map(|(part, _)| part));
        left.for_each(|part| drop(fs::remove_file(part)));
    }
}

fn unreadable(path: &Path) -> impl Fn(io::Error) -> BundleError + '_ {
    move |source| BundleError::Unreadable {
        path: path.to_owned(),
        source,
    }
}

fn not_writable(path: &Path) -> impl Fn(io::Error) -> BundleError + '_ {
    move |source| BundleError::NotWritable {
        path: path.to_owned(),
        source,
    }
}

/// Hashes what passes.
#[derive(Debug)]
struct Hashed {
    file: File,
    hash: sha2::Sha256,
}

impl Hashed {
    fn new(file: File) -> Self {
        let hash = sha2::Sha256::new();
        Self { file, hash }
    }
}

impl Read for Hashed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read(into)?;
        self.hash.update(&into[..n]);
        Ok(n)
    }
}

/// Ends with an error when more comes than is allowed: a small file may unfold to a disk full of zeros.
#[derive(Debug)]
struct Limited<R> {
    inner: R,
    left: u64,
}

impl<R> Limited<R> {
    fn new(inner: R, left: u64) -> Self {
        Self { inner, left }
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(into)?;
        self.left = self
            .left
            .checked_sub(n as u64)
            .ok_or_else(|| io::Error::other("it unfolds to more than its size allows"))?;
        Ok(n)
    }
}
