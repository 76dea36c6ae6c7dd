//! Small files that must be whole or not there.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use nix::sys::statvfs::statvfs;

/// What helps where something cannot be written, which the error names.
pub(crate) const MAKE_ROOM: &str =
    "free room on the disk of the agent's state folder, and see that it can be written";

/// Makes a folder for this user alone, and refuses one that belongs to somebody else.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    let absent: Vec<&Path> = path
        .ancestors()
        .take_while(|above| !above.exists())
        .collect();
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path);
    made.map_err(at(path))?;
    for made in absent {
        // What is synced in a folder is gone with the folder's own name. One above that this user may not read
        // cannot be told to.
        let _ = sync_folder(folder_of(made));
    }
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

/// Says of a disk that is full which folder it is about, how much is free there, and how much was to be put there
/// where that is known. Other errors stay as they are.
pub(crate) fn room(folder: &Path, wanted: Option<usize>) -> impl Fn(io::Error) -> io::Error {
    move |why| match is_full(&why) {
        true => io::Error::new(why.kind(), no_room(folder, wanted, &why)),
        false => why,
    }
}

fn no_room(folder: &Path, wanted: Option<usize>, why: &io::Error) -> String {
    let wanted = wanted.map_or_else(String::new, |bytes| format!(" and {bytes} are needed"));
    let free = match free_bytes(folder) {
        Ok(free) => format!(", where {free} bytes are free{wanted}"),
        Err(_) => String::new(),
    };
    format!("{why}: {}{free}", folder.display())
}

pub(crate) fn is_full(why: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(why.kind(), StorageFull | QuotaExceeded)
}

/// Writes a file beside its place, makes it durable, and moves it there.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    put(path, Some(bytes.len()), |file| file.write_all(bytes))?;
    sync_folder(folder_of(path))
}

/// [`write_whole`] for what is written piece by piece.
pub(crate) fn write_with(
    path: &Path,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    put(path, None, fill)?;
    sync_folder(folder_of(path))
}

fn folder_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    parent.unwrap_or(Path::new("."))
}

/// [`write_whole`] for one of many files of a folder: its name is not durable before [`sync_folder`].
pub(crate) fn write_one_of_many(path: &Path, bytes: &[u8]) -> io::Result<()> {
    put(path, Some(bytes.len()), |file| file.write_all(bytes))
}

/// The file is durable when it comes to its place, and its name is not yet.
fn put(
    path: &Path,
    bytes: Option<usize>,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let put = put_unnamed(path, fill);
    put.map_err(room(folder_of(path), bytes))
}

fn put_unnamed(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
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

/// Makes the names in a folder and in all below it durable.
pub(crate) fn sync_tree(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_tree(&entry.path())?;
        }
    }
    sync_folder(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_with_its_folder_and_what_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let at = folder.path().display().to_string();
        let why = write_with(&path, |_| Err(full())).unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::StorageFull);
        let text = why.to_string();
        assert!(text.contains(&format!("{at}, where ")), "{text}");
        assert!(text.ends_with(" bytes are free"), "{text}");
        let text = room(folder.path(), Some(4096))(full()).to_string();
        assert!(
            text.ends_with(" bytes are free and 4096 are needed"),
            "{text}"
        );
        assert!(!path.exists());
        let other = io::Error::from_raw_os_error(nix::libc::EMFILE);
        let kept = room(folder.path(), None)(other);
        assert_eq!(kept.raw_os_error(), Some(nix::libc::EMFILE));
    }
}
