//! Small files that must be whole or not there.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use nix::sys::statvfs::statvfs;

/// Makes a folder for this user alone, and refuses one that belongs to somebody else.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path);
    made.map_err(at(path))?;
    let found = fs::symlink_metadata(path).map_err(at(path))?;
    let uid = nix::unistd::geteuid().as_raw();
    if !found.is_dir() || found.uid() != uid {
        let text = format!("{} is not a folder of user {uid}", path.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    if found.mode() & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Says of an error which file it is about.
pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |why| io::Error::new(why.kind(), format!("{}: {why}", path.display()))
}

/// Writes a file beside its place, makes it durable, and moves it there.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_with(path, |file| file.write_all(bytes))
}

/// [`write_whole`] for what is written piece by piece.
pub(crate) fn write_with(
    path: &Path,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    put(path, fill)?;
    sync_folder(path.parent().unwrap_or(Path::new(".")))
}

/// [`write_whole`] for one of many files of a folder: its name is not durable before [`sync_folder`].
pub(crate) fn write_one_of_many(path: &Path, bytes: &[u8]) -> io::Result<()> {
    put(path, |file| file.write_all(bytes))
}

/// The file is durable when it comes to its place, and its name is not yet.
fn put(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let unfinished = path.with_extension("tmp");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&unfinished)?;
    let written = fill(&mut file).and_then(|()| file.sync_all());
    if let Err(why) = written {
        // What is left of it only takes room.
        let _ = fs::remove_file(&unfinished);
        return Err(why);
    }
    fs::rename(&unfinished, path)
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Waits until no other process has what a file stands for, and keeps it as long as the answer lives. A folder on
/// a network may know no locks: those who come one after the other need none.
pub(crate) fn lock(path: &Path) -> io::Result<File> {
    let lock = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(at(path))?;
    match lock.lock() {
        Err(why) if !is_lockless(&why) => Err(at(path)(why)),
        _ => Ok(lock),
    }
}

fn is_lockless(why: &io::Error) -> bool {
    why.kind() == io::ErrorKind::Unsupported || why.raw_os_error() == Some(nix::libc::ENOLCK)
}

/// Removes a file that may be gone already.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why),
        _ => Ok(()),
    }
}

/// Names in a folder that end like `suffix`, sorted; none when there is no folder.
pub(crate) fn names(folder: &Path, suffix: &str) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let names = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(suffix)).collect();
    names.sort();
    Ok(names)
}

/// Bytes that this user may still write there.
pub(crate) fn free_bytes(folder: &Path) -> io::Result<u64> {
    let found = statvfs(folder)?;
    #[expect(
        clippy::useless_conversion,
        reason = "the field's width differs between targets"
    )]
    Ok(u64::from(found.blocks_available()) * u64::from(found.fragment_size()))
}
