//! Making a bundle: the pieces of a run, cleaned, a report of exactly those, and a list of it all in front.
//!
//! The run is read twice: the list with its hashes comes first in the file, so everything has to be known before
//! the first byte is written, and a run may be larger than memory.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use edgedyno_shared::ids::{RunId, Sha256};
use flate2::{Compression, GzBuilder, write::GzEncoder};
use serde_json::{Value, json};
use sha2::Digest as _;
use tar::{Builder, EntryType, Header};

use super::clean::Words;
use super::error::BundleError;
use super::manifest::{self, DOCUMENT, Manifest, Member, REPORT};
use super::scratch::Scratch;
use super::strip::Strip;
use crate::model::digest::Digest;
use crate::model::identify::identify;
use crate::report::{self, Room};
use crate::source::Source;
use crate::store::Store;
use crate::store::copy::{Copied, Merge, Origin, Piece};

/// Bytes of one member; more are cut into several, so that none is ever too large to be held.
pub(super) const PART: usize = 8 * 1024 * 1024;

/// Kinds of artifacts that hold what a model gave out.
const OUTPUTS: &str = "output";

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Wish {
    /// Private facts as well.
    pub private: bool,
    /// Bytes of saved outputs.
    pub outputs: bool,
    /// The model files.
    pub models: bool,
    pub report: bool,
}

/// What was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Bundled {
    pub manifest: Manifest,
    pub bytes: u64,
    pub sha256: String,
}

/// Takes a member: its name and its bytes.
type Put<'a> = dyn FnMut(&str, &[u8]) -> Result<(), BundleError> + 'a;

/// What goes into the archive, one after the other.
enum Item {
    Head(Piece),
    Cases(Piece),
    Repeat(Piece),
    Content(String, Piece),
    /// A file of its own, in parts.
    File(PathBuf),
    Bytes(String, Vec<u8>),
}

/// Writes a bundle of one run; `path` appears when it is whole.
pub fn write(
    store: &Store,
    run: &RunId,
    wish: &Wish,
    words: &Words,
    path: &Path,
) -> Result<Bundled, BundleError> {
    let part = Part::beside(path)?;
    let copied = store.copy_out(run)?;
    let (manifest, report) = survey(store, &copied, wish, words)?;
    let file = File::create(&part.0).map_err(not_writable(&part.0))?;
    let mut archive = Archive::new(file);
    let list = serde_json::to_vec(&manifest).map_err(|why| not_writable(path)(why.into()))?;
    let failed = not_writable(path);
    archive.member(manifest::NAME, &list).map_err(&failed)?;
    each_member(
        &copied,
        wish,
        words,
        report.as_deref(),
        &mut |name, bytes| archive.member(name, bytes).map_err(&failed),
    )?;
    archive.finish().map_err(&failed)?;
    let (sha256, bytes) = hash_of(&part.0).map_err(&failed)?;
    part.put(path)?;
    Ok(Bundled {
        manifest,
        bytes,
        sha256,
    })
}

/// Reads the run once: what will be in the bundle, and the report of it.
fn survey(
    store: &Store,
    copied: &Copied<'_>,
    wish: &Wish,
    words: &Words,
) -> Result<(Manifest, Option<Vec<u8>>), BundleError> {
    let mut members = Vec::new();
    let mut note = |name: &str, bytes: &[u8]| {
        let sha256 = Sha256(sha2::Sha256::digest(bytes).into()).to_string();
        members.push(Member {
            name: name.into(),
            bytes: bytes.len() as u64,
            sha256,
        });
        Ok(())
    };
    let mut strip = Strip::new(words.clone());
    let left_out = walk(copied, wish, &mut strip, &mut |item| {
        encode(item, &mut note)
    })?;
    let report = match wish.report {
        true => Some(report_of(copied, wish, words)?),
        false => None,
    };
    if let Some(report) = &report {
        note(REPORT, report)?;
    }
    let mut with = Vec::new();
    with.extend(wish.outputs.then(|| "outputs".to_owned()));
    with.extend(wish.models.then(|| "models".to_owned()));
    let manifest = Manifest {
        document: DOCUMENT.into(),
        layout: Store::layout(),
        tool_version: env!("CARGO_PKG_VERSION").into(),
        run: copied.run().0.clone(),
        store: store.id().to_string(),
        private: wish.private,
        with,
        left_out,
        members,
    };
    Ok((manifest, report))
}

/// The same once more, as bytes.
fn each_member(
    copied: &Copied<'_>,
    wish: &Wish,
    words: &Words,
    report: Option<&[u8]>,
    put: &mut Put<'_>,
) -> Result<(), BundleError> {
    let mut strip = Strip::new(words.clone());
    walk(copied, wish, &mut strip, &mut |item| encode(item, put))?;
    match report {
        Some(report) => put(REPORT, report),
        None => Ok(()),
    }
}

/// Hands out everything in order, and says what was left out.
fn walk(
    copied: &Copied<'_>,
    wish: &Wish,
    strip: &mut Strip,
    take: &mut dyn FnMut(Numbered) -> Result<(), BundleError>,
) -> Result<Vec<Value>, BundleError> {
    let mut stripped = |mut piece: Piece| {
        if !wish.private {
            strip.piece(&mut piece);
        }
        piece
    };
    let head = copied.head()?;
    let plan = head.only("runs").and_then(|run| run.get("plan")).cloned();
    take(Numbered("run".into(), Item::Head(stripped(head))))?;
    let mut models = Vec::new();
    for (number, cases) in copied.cases()?.into_iter().enumerate() {
        models.extend(models_of(&cases));
        let name = format!("cases/{number:04}");
        take(Numbered(name, Item::Cases(stripped(cases))))?;
    }
    for (number, id) in copied.repeats()?.into_iter().enumerate() {
        let repeat = stripped(copied.repeat(id)?);
        take(Numbered(
            format!("repeats/{number:06}"),
            Item::Repeat(repeat),
        ))?;
    }
    let mut left = 0;
    for (sha256, kinds) in copied.contents()? {
        if kinds.iter().any(|kind| kind.starts_with(OUTPUTS)) && !wish.outputs {
            left += 1;
            continue;
        }
        let content = copied.content(&sha256)?;
        let name = format!("contents/{sha256}");
        take(Numbered(name, Item::Content(sha256, content)))?;
    }
    let mut left_out: Vec<Value> = match wish.private {
        true => Vec::new(),
        false => strip
            .left_out()
            .iter()
            .map(super::strip::LeftOut::to_json)
            .collect(),
    };
    if left > 0 {
        let what = "bytes of saved outputs; `--with outputs` takes them along";
        left_out.push(json!({ "at": "outputs", "what": what, "count": left }));
    }
    models.sort();
    models.dedup();
    match wish.models {
        true => put_models(&models, plan.as_ref(), take)?,
        false => {
            let what = "model files; `--with models` takes them along";
            left_out.push(json!({ "at": "models", "what": what, "count": models.len() }));
        }
    }
    Ok(left_out)
}

/// An item and the beginning of the names of its members.
struct Numbered(String, Item);

fn models_of(cases: &Piece) -> Vec<String> {
    let model = |row: &crate::store::copy::Row| {
        row.get("definition")?["model"]["sha256"]
            .as_str()
            .map(str::to_owned)
    };
    cases.of("cases").iter().filter_map(model).collect()
}

/// Files of models as they lie on this machine, if they are still what was measured.
fn put_models(
    models: &[String],
    plan: Option<&Value>,
    take: &mut dyn FnMut(Numbered) -> Result<(), BundleError>,
) -> Result<(), BundleError> {
    let contents = plan.and_then(|plan| plan["contents"].as_array());
    for content in contents.into_iter().flatten() {
        let sha256 = content["sha256"].as_str().unwrap_or_default();
        if !models.iter().any(|model| model == sha256) {
            continue;
        }
        let files = content["files"].as_array().cloned().unwrap_or_default();
        let first = files
            .first()
            .and_then(|file| file["path"].as_str())
            .unwrap_or_default();
        let found = identify(Path::new(first)).map(|now| now.sha256.to_string());
        if found.as_deref().ok() != Some(sha256) {
            let source = io::Error::other("it is not the model that was measured any more");
            return Err(BundleError::Unreadable {
                path: first.into(),
                source,
            });
        }
        let mut listed = Vec::new();
        for (number, file) in files.iter().enumerate() {
            let path: PathBuf = file["path"].as_str().unwrap_or_default().into();
            listed.push(json!({ "name": file["name"], "bytes": fs::metadata(&path).map_or(0, |m| m.len()) }));
            let name = format!("models/{sha256}.{number}");
            take(Numbered(name, Item::File(path)))?;
        }
        let list = json!({ "sha256": sha256, "files": listed });
        let name = format!("models/{sha256}.json");
        take(Numbered(
            String::new(),
            Item::Bytes(name, list.to_string().into_bytes()),
        ))?;
    }
    Ok(())
}

/// The members of an item.
fn encode(Numbered(name, item): Numbered, put: &mut Put<'_>) -> Result<(), BundleError> {
    match item {
        Item::Bytes(name, bytes) => put(&name, &bytes),
        Item::File(path) => {
            let file = File::open(&path).map_err(unreadable(&path))?;
            in_parts(&name, &mut BufReader::new(file), put, &unreadable(&path))
        }
        Item::Head(piece) | Item::Cases(piece) | Item::Repeat(piece) | Item::Content(_, piece) => {
            let rows = serde_json::to_vec(&piece.rows);
            let rows = rows.map_err(|why| unreadable(Path::new(&name))(why.into()))?;
            put(&format!("{name}.json"), &rows)?;
            let all = piece.blobs.concat();
            in_parts(
                &name,
                &mut all.as_slice(),
                put,
                &unreadable(Path::new(&name)),
            )
        }
    }
}

/// Bytes as `NAME.000.bin`, `NAME.001.bin` ...; nothing for none.
fn in_parts(
    name: &str,
    from: &mut dyn Read,
    put: &mut Put<'_>,
    failed: &dyn Fn(io::Error) -> BundleError,
) -> Result<(), BundleError> {
    for number in 0.. {
        let mut part = Vec::new();
        let read = (&mut *from).take(PART as u64).read_to_end(&mut part);
        if read.map_err(failed)? == 0 {
            break;
        }
        put(&format!("{name}.{number:03}.bin"), &part)?;
    }
    Ok(())
}

/// The report of what will be in the bundle, made from a store that holds nothing else.
fn report_of(copied: &Copied<'_>, wish: &Wish, words: &Words) -> Result<Vec<u8>, BundleError> {
    let scratch = Scratch::new()?;
    let store = Store::open_writing(scratch.path())?;
    {
        let mut strip = Strip::new(words.clone());
        let mut merge: Option<Merge<'_>> = None;
        walk(copied, wish, &mut strip, &mut |Numbered(_, item)| {
            let Some(merge) = &mut merge else {
                if let Item::Head(piece) = item {
                    merge = Some(store.merge(&piece, true)?);
                }
                return Ok(());
            };
            match item {
                Item::Cases(piece) => merge.cases(&piece)?,
                Item::Repeat(piece) => merge.repeat(&piece)?,
                Item::Content(sha256, piece) => merge.content(&sha256, &piece)?,
                Item::Head(_) | Item::File(_) | Item::Bytes(..) => {}
            }
            Ok(())
        })?;
        let origin = Origin {
            source: String::new(),
            store: String::new(),
            sha256: None,
            left_out: Vec::new(),
            tool_version: String::new(),
            imported_unix_ns: 0,
        };
        if let Some(merge) = merge {
            merge.finish(&origin, false)?;
        }
    }
    let run = copied.run().clone();
    let name = run.0.clone();
    let source = Source::Stored { store, run };
    let cases = source.cases()?;
    let chapter = report::gather(&name, &source, &cases, Room::USUAL)?;
    Ok(report::page(&name, &[chapter], None).into_bytes())
}

/// The archive, whose bytes depend on nothing but its members.
struct Archive {
    tar: Builder<GzEncoder<File>>,
}

impl Archive {
    fn new(file: File) -> Self {
        let packed = GzBuilder::new()
            .mtime(0)
            .write(file, Compression::default());
        Self {
            tar: Builder::new(packed),
        }
    }

    fn member(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::Regular);
        header.set_path(name)?;
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        header.set_cksum();
        self.tar.append(&header, bytes)
    }

    fn finish(self) -> io::Result<()> {
        let mut file = self.tar.into_inner()?.finish()?;
        file.flush()?;
        file.sync_all()
    }
}

/// The file while it is being written; gone when it does not become whole.
struct Part(PathBuf);

impl Part {
    fn beside(path: &Path) -> Result<Self, BundleError> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        if name.is_empty() || path.is_dir() {
            return Err(not_writable(path)(io::ErrorKind::IsADirectory.into()));
        }
        name.push(format!(".{}.part", std::process::id()));
        let part = path.with_file_name(name);
        File::create(&part).map_err(not_writable(path))?;
        Ok(Self(part))
    }

    fn put(self, path: &Path) -> Result<(), BundleError> {
        fs::rename(&self.0, path).map_err(not_writable(path))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn hash_of(path: &Path) -> io::Result<(String, u64)> {
    let (digest, bytes) = Digest::of_reader(File::open(path)?)?;
    Ok((digest.to_string(), bytes))
}

fn not_writable(path: &Path) -> impl Fn(io::Error) -> BundleError + '_ {
    move |source| BundleError::NotWritable {
        path: path.to_owned(),
        source,
    }
}

fn unreadable(path: &Path) -> impl Fn(io::Error) -> BundleError + '_ {
    move |source| BundleError::Unreadable {
        path: path.to_owned(),
        source,
    }
}
