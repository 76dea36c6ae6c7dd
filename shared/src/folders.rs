//! Where an agent keeps its state, worked out alike by host and agent.

use std::ffi::OsString;
use std::path::PathBuf;

/// Moves the state folder, and with it everything of the daemon.
pub const STATE_VARIABLE: &str = "EDGEDYNO_AGENT_STATE";

/// How a daemon ends that found another one in its state folder.
pub const TAKEN_EXIT: u8 = 11;

/// Folders of one daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFolders {
    /// Queue, spool, identity, log, socket and lock.
    pub state: PathBuf,
    /// Arenas, on tmpfs.
    pub runtime: PathBuf,
    /// Whether the user moved the state folder, which makes the daemon independent of all others.
    pub moved: bool,
}

/// No folder can be worked out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("neither {STATE_VARIABLE}, XDG_STATE_HOME nor HOME is set, so there is no state folder")]
pub struct NoStateFolder;

impl AgentFolders {
    /// Works the folders out from the environment and the user's number.
    pub fn from_env(
        get: impl Fn(&str) -> Option<OsString>,
        uid: u32,
    ) -> Result<Self, NoStateFolder> {
        let get = |name| get(name).filter(|value: &OsString| !value.is_empty());
        let moved = get(STATE_VARIABLE).map(PathBuf::from);
        // The same words mean another folder elsewhere, and its arenas are named after it.
        let moved = moved.map(|path| std::path::absolute(&path).unwrap_or(path));
        let state = moved
            .clone()
            .map_or_else(|| default_state(get("XDG_STATE_HOME"), get("HOME")), Ok)?;
        let base = get("XDG_RUNTIME_DIR").map(|base| PathBuf::from(base).join("edgedyno"));
        let base = base.unwrap_or_else(|| PathBuf::from(format!("/dev/shm/edgedyno-{uid}")));
        // Two daemons of one user must not share arenas: the name follows the state folder.
        let name = format!("state-{:016x}", fnv1a(state.as_os_str().as_encoded_bytes()));
        Ok(Self {
            runtime: base.join(name),
            state,
            moved: moved.is_some(),
        })
    }

    pub fn socket(&self) -> PathBuf {
        self.state.join("agent.sock")
    }

    pub fn lock(&self) -> PathBuf {
        self.state.join("agent.lock")
    }

    pub fn log(&self) -> PathBuf {
        self.state.join("agent.log")
    }
}

fn default_state(xdg: Option<OsString>, home: Option<OsString>) -> Result<PathBuf, NoStateFolder> {
    let below_home = |home| PathBuf::from(home).join(".local/state");
    let base = xdg.map(PathBuf::from).or_else(|| home.map(below_home));
    Ok(base.ok_or(NoStateFolder)?.join("edgedyno"))
}

/// FNV-1a, 64 bit: a short name for a path, nothing more.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(vars: &[(&str, &str)]) -> Result<AgentFolders, NoStateFolder> {
        let get = |name: &str| {
            vars.iter()
                .find(|(n, _)| *n == name)
                .map(|(_, v)| OsString::from(v))
        };
        AgentFolders::from_env(get, 7)
    }

    #[test]
    fn every_state_folder_has_arenas_of_its_own() {
        let a = folders(&[("EDGEDYNO_AGENT_STATE", "/a"), ("HOME", "/h")]).unwrap();
        let b = folders(&[("EDGEDYNO_AGENT_STATE", "/b"), ("HOME", "/h")]).unwrap();
        assert_eq!(a.state, PathBuf::from("/a"));
        assert!(a.moved);
        assert_ne!(a.runtime, b.runtime);
        let c = folders(&[("HOME", "/c")]).unwrap();
        let d = folders(&[("HOME", "/d")]).unwrap();
        assert_ne!(c.runtime, d.runtime);
    }

    #[test]
    fn a_relative_folder_is_that_of_the_place_where_it_was_said() {
        let here = folders(&[("EDGEDYNO_AGENT_STATE", "a")]).unwrap();
        assert_eq!(here.state, std::env::current_dir().unwrap().join("a"));
        let there = folders(&[("EDGEDYNO_AGENT_STATE", "/tmp/a")]).unwrap();
        assert_ne!(here.runtime, there.runtime);
    }

    #[test]
    fn state_falls_back_to_home_and_runtime_to_shared_memory() {
        let f = folders(&[("HOME", "/h"), ("XDG_STATE_HOME", "")]).unwrap();
        assert_eq!(f.state, PathBuf::from("/h/.local/state/edgedyno"));
        assert!(f.runtime.starts_with("/dev/shm/edgedyno-7"));
        assert_eq!(folders(&[]), Err(NoStateFolder));
    }
}
