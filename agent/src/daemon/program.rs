//! Which program serves a state folder: the one that a host brought last.
//!
//! Builds stand side by side on a board, each in a folder of its own, and several hosts may know it by
//! different ones. The file `program` in the state folder names the one that counts. Relays of any build start
//! it, and a daemon of another build becomes it between two repeats: same process, same words, lock in hand,
//! so that its queue goes on whether a host is there or not, and a service manager sees one service.
//!
//! Only programs of the same schema follow one another so: one of another schema could do nothing with the
//! queue, and is told to leave by whoever comes with it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use edgedyno_shared::SCHEMA_HASH_HEX;

use crate::disk;

/// When a daemon gives way to the program that is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tenure {
    /// Never: the host that started it starts the next one.
    Fixed,
    /// As soon as another is named: it was started in the name of whichever is.
    OfRelay,
    /// When another is named than at its start: until then it is what somebody chose to start.
    OfService { at_start: Option<PathBuf> },
}

/// Names this program; it is on disk when this returns.
pub fn put_own(state: &Path) -> io::Result<()> {
    put(state, &std::env::current_exe()?)
}

fn put(state: &Path, program: &Path) -> io::Result<()> {
    let mut text = SCHEMA_HASH_HEX.as_bytes().to_vec();
    text.push(b'\n');
    text.extend(program.as_os_str().as_bytes());
    text.push(b'\n');
    disk::write_whole(&file(state), &text)
}

/// The program that is named, when it is there and of this schema.
pub fn named(state: &Path) -> Option<PathBuf> {
    let bytes = fs::read(file(state)).ok()?;
    let text = bytes.strip_suffix(b"\n")?;
    let text = text.strip_prefix(SCHEMA_HASH_HEX.as_bytes())?;
    let path = PathBuf::from(OsString::from_vec(text.strip_prefix(b"\n")?.to_vec()));
    (path.is_absolute() && path.is_file()).then_some(path)
}

/// The program that is named, when that is another than this one.
pub fn other(state: &Path) -> Option<PathBuf> {
    named(state).filter(|program| !is_own(program))
}

/// Also by the name under which it was started: two names of one file must not follow each other for ever.
fn is_own(program: &Path) -> bool {
    let called = std::env::args_os().next();
    std::env::current_exe().is_ok_and(|own| own == program)
        || called.as_deref().map(OsStr::as_bytes) == Some(program.as_os_str().as_bytes())
}

impl Tenure {
    /// The program to give way to.
    pub fn successor(&self, state: &Path) -> Option<PathBuf> {
        match self {
            Self::Fixed => None,
            Self::OfRelay => other(state),
            Self::OfService { at_start } => {
                other(state).filter(|program| Some(program) != at_start.as_ref())
            }
        }
    }
}

fn file(state: &Path) -> PathBuf {
    state.join("program")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_of_a_relay_gives_way_to_any_other_program_and_a_service_to_one_named_since() {
        let state = tempfile::tempdir().unwrap();
        let service = |at_start| Tenure::OfService { at_start };
        assert_eq!(Tenure::OfRelay.successor(state.path()), None, "none named");
        put(state.path(), Path::new("/bin/sh")).unwrap();
        let sh = PathBuf::from("/bin/sh");
        assert_eq!(Tenure::OfRelay.successor(state.path()), Some(sh.clone()));
        assert_eq!(service(None).successor(state.path()), Some(sh.clone()));
        assert_eq!(service(Some(sh)).successor(state.path()), None);
        assert_eq!(Tenure::Fixed.successor(state.path()), None);
        put_own(state.path()).unwrap();
        assert_eq!(Tenure::OfRelay.successor(state.path()), None, "it is this");
    }

    #[test]
    fn what_is_gone_or_of_another_schema_or_unreadable_is_not_named() {
        let state = tempfile::tempdir().unwrap();
        let file = file(state.path());
        put(state.path(), &state.path().join("gone")).unwrap();
        assert_eq!(named(state.path()), None);
        let other = "0".repeat(64);
        for text in [
            format!("{other}\n/bin/sh\n"),
            format!("{SCHEMA_HASH_HEX}\nbin/sh\n"),
            format!("{SCHEMA_HASH_HEX}\n/bin/sh"),
            "x".into(),
            String::new(),
        ] {
            fs::write(&file, &text).unwrap();
            assert_eq!(named(state.path()), None, "{text:?}");
        }
        fs::write(&file, format!("{SCHEMA_HASH_HEX}\n/bin/sh\n")).unwrap();
        assert_eq!(named(state.path()), Some(PathBuf::from("/bin/sh")));
    }
}
