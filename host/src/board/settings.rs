//! The user's own settings: this host's key and the boards it knows.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use edgedyno_shared::link::key::Identity;

/// Moves the folder.
pub const CONFIG_VARIABLE: &str = "EDGEDYNO_CONFIG";

/// Where the host's key and its list of boards lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    folder: PathBuf,
}

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error(
        "neither {CONFIG_VARIABLE}, XDG_CONFIG_HOME nor HOME is set, so there is no folder for settings"
    )]
    NoFolder,
    #[error("`{}` cannot be used", .path.display())]
    File { path: PathBuf, source: io::Error },
}

impl Settings {
    /// `EDGEDYNO_CONFIG`, else `XDG_CONFIG_HOME/edgedyno`, else `~/.config/edgedyno`.
    pub fn from_env() -> Result<Self, SettingsError> {
        Self::from_variables(|name| std::env::var_os(name))
    }

    fn from_variables(get: impl Fn(&str) -> Option<OsString>) -> Result<Self, SettingsError> {
        let get = |name| {
            get(name)
                .filter(|value: &OsString| !value.is_empty())
                .map(PathBuf::from)
        };
        let below = |base: PathBuf| base.join("edgedyno");
        let folder = get(CONFIG_VARIABLE)
            .or_else(|| get("XDG_CONFIG_HOME").map(below))
            .or_else(|| get("HOME").map(|home| below(home.join(".config"))));
        Ok(Self {
            folder: folder.ok_or(SettingsError::NoFolder)?,
        })
    }

    #[cfg(test)]
    pub(crate) fn at(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    /// The list of boards.
    pub fn boards(&self) -> PathBuf {
        self.folder.join("boards.toml")
    }

    /// This host's key, made on first use.
    ///
    /// # Errors
    /// Also when there is a file that holds no key: a new one would lock this host out of its boards.
    pub fn identity(&self) -> Result<Identity, SettingsError> {
        let path = self.folder.join("host.key");
        let in_file = |source| SettingsError::File {
            path: path.clone(),
            source,
        };
        match fs::read(&path) {
            Ok(bytes) => Identity::from_pkcs8(bytes)
                .map_err(|why| in_file(io::Error::new(io::ErrorKind::InvalidData, why))),
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                let identity =
                    Identity::generate().map_err(|why| in_file(io::Error::other(why)))?;
                match self.write_new(&path, identity.pkcs8()) {
                    Ok(()) => Ok(identity),
                    // Another command was faster; its key is the host's.
                    Err(why) if why.kind() == io::ErrorKind::AlreadyExists => self.identity(),
                    Err(why) => Err(in_file(why)),
                }
            }
            Err(why) => Err(in_file(why)),
        }
    }

    /// Holds a file for this command until the answer is dropped; others wait. The file itself is replaced when
    /// it is written, so another one beside it is what is locked.
    pub fn lock(&self, path: &Path) -> io::Result<File> {
        self.make_folder()?;
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.with_extension("lock"))?;
        match lock.lock() {
            // A home on a network may know no locks; commands one after the other need none.
            Err(why) if is_lockless(&why) => Ok(lock),
            Err(why) => Err(why),
            Ok(()) => Ok(lock),
        }
    }

    /// Writes a file anew, whole or not at all, for this user alone.
    pub fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let unfinished = self.unfinished(path, bytes)?;
        fs::rename(unfinished, path)?;
        File::open(&self.folder)?.sync_all()
    }

    /// The same for a file that must not be there yet.
    fn write_new(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let unfinished = self.unfinished(path, bytes)?;
        let linked = fs::hard_link(&unfinished, path);
        fs::remove_file(unfinished)?;
        linked?;
        File::open(&self.folder)?.sync_all()
    }

    fn make_folder(&self) -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)
    }

    fn unfinished(&self, path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
        self.make_folder()?;
        let unfinished = path.with_extension(format!("new-{}", std::process::id()));
        let _ = fs::remove_file(&unfinished);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&unfinished)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(unfinished)
    }
}

fn is_lockless(why: &io::Error) -> bool {
    why.kind() == io::ErrorKind::Unsupported || why.raw_os_error() == Some(nix::libc::ENOLCK)
}

/// What an agent calls this host, for people.
pub fn own_name() -> String {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
    let machine = nix::unistd::gethostname().unwrap_or_default();
    let machine = machine.to_string_lossy();
    match user {
        Ok(user) => format!("{user}@{machine}"),
        Err(_) => machine.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_folder_follows_the_environment() {
        let folder = |pairs: &[(&str, &str)]| {
            let get = |name: &str| {
                let found = pairs.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| OsString::from(value))
            };
            Settings::from_variables(get).map(|settings| settings.folder)
        };
        assert_eq!(
            folder(&[("HOME", "/h")]).unwrap(),
            Path::new("/h/.config/edgedyno")
        );
        let both = [("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")];
        assert_eq!(folder(&both).unwrap(), Path::new("/x/edgedyno"));
        let named = [("HOME", "/h"), (CONFIG_VARIABLE, "/c")];
        assert_eq!(folder(&named).unwrap(), Path::new("/c"));
        assert!(matches!(
            folder(&[("HOME", "")]),
            Err(SettingsError::NoFolder)
        ));
    }

    #[test]
    fn the_key_is_made_once_and_is_for_this_user_alone() {
        let base = tempfile::tempdir().unwrap();
        let settings = Settings::at(&base.path().join("a/b"));
        let first = settings.identity().unwrap().public();
        assert_eq!(settings.identity().unwrap().public(), first);
        let key = settings.folder.join("host.key");
        assert_eq!(
            fs::metadata(&key).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(fs::read_dir(&settings.folder).unwrap().count(), 1);
        let again = settings.write_new(&key, b"x").unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        fs::write(&key, b"no key").unwrap();
        assert!(settings.identity().is_err());
    }
}
