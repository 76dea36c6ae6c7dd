//! Files that are written whole or not at all, whatever happens to this program or to the machine's power.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes a file, in the place of one that is there. Its folder must exist. A rename that comes to the disk
/// before the bytes would leave an empty file.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = unfinished(path);
    let written = File::create(&unfinished)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&unfinished, path));
    if let Err(why) = written {
        let _ = fs::remove_file(&unfinished);
        return Err(why);
    }
    sync_name(path);
    Ok(())
}

/// Makes the name of a file or folder durable. One whose folder cannot be read, or is on a network, cannot be; it
/// is whole all the same.
pub fn sync_name(path: &Path) {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let _ = File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
}

/// Bytes that this user may still write in a folder, where that is known.
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let found = nix::sys::statvfs::statvfs(folder).ok()?;
    #[expect(
        clippy::useless_conversion,
        reason = "the field's width differs between targets"
    )]
    Some(u64::from(found.blocks_available()) * u64::from(found.fragment_size()))
}

/// Beside it, with a name of this process: two that write the same file do not write into each other's.
fn unfinished(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.part", std::process::id()));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_stays_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        write(&path, b"first").unwrap();
        write(&path, b"2").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"2");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let taken = folder.path().join("taken");
        fs::create_dir(&taken).unwrap();
        assert!(write(&taken, b"x").is_err(), "a folder is in its place");
        assert!(write(&folder.path().join("none/a"), b"x").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_eq!(fs::read_dir(taken).unwrap().count(), 0);
    }
}
