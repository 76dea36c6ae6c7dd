//! The agent's own key: made on first use, never shown, never changed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use edgedyno_shared::link::key::Identity;

use crate::disk;

/// Where keys and the list of hosts lie.
pub fn folder(state: &Path) -> PathBuf {
    state.join("identity")
}

/// Reads the key, or makes it.
///
/// # Errors
/// Also when there is a file that holds no key: a new one would lock out every host that knows the old.
pub fn load_or_make(state: &Path) -> io::Result<Identity> {
    let folder = folder(state);
    disk::private_folder(&folder)?;
    let path = folder.join("agent.key");
    match fs::read(&path) {
        Ok(bytes) => read(&path, bytes),
        Err(why) if why.kind() == io::ErrorKind::NotFound => match make(&path) {
            // Another process was faster, and its key is this agent's.
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => read(&path, fs::read(&path)?),
            made => made,
        },
        Err(why) => Err(why),
    }
}

fn read(path: &Path, bytes: Vec<u8>) -> io::Result<Identity> {
    Identity::from_pkcs8(bytes).map_err(|why| {
        let text = format!("{} is {why}", path.display());
        io::Error::new(io::ErrorKind::InvalidData, text)
    })
}

/// Written beside its place and linked there, which fails where another process was faster.
fn make(path: &Path) -> io::Result<Identity> {
    let identity = Identity::generate().map_err(io::Error::other)?;
    let unfinished = path.with_extension(format!("new-{}", std::process::id()));
    disk::remove(&unfinished)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&unfinished)?;
    file.write_all(identity.pkcs8())?;
    file.sync_all()?;
    let linked = fs::hard_link(&unfinished, path);
    disk::remove(&unfinished)?;
    linked?;
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(identity)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_is_for_its_owner_alone() {
        let state = tempfile::tempdir().unwrap();
        let first = load_or_make(state.path()).unwrap();
        let path = folder(state.path()).join("agent.key");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(load_or_make(state.path()).unwrap().public(), first.public());
        assert_eq!(
            disk::names(&folder(state.path()), "").unwrap(),
            ["agent.key"]
        );
        assert!(make(&path).is_err(), "a key is never written over");
    }

    #[test]
    fn a_file_that_holds_no_key_is_not_replaced() {
        let state = tempfile::tempdir().unwrap();
        load_or_make(state.path()).unwrap();
        let path = folder(state.path()).join("agent.key");
        fs::write(&path, b"short").unwrap();
        assert!(load_or_make(state.path()).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"short");
    }
}
