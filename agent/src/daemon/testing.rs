//! A daemon for tests, without its socket.

use std::fs;
use std::path::Path;
use std::rc::Rc;

use edgedyno_shared::folders::AgentFolders;
use tokio::task::LocalSet;

use super::serve;
use super::state::Daemon;
use crate::clock::Monotonic;
use crate::worker::spawn::SelfExec;

pub(super) fn daemon(folder: &Path) -> Rc<Daemon> {
    let folders = AgentFolders {
        state: folder.join("state"),
        runtime: folder.join("run"),
        moved: true,
    };
    fs::create_dir_all(&folders.state).unwrap();
    let exec = SelfExec::new(Vec::new()).unwrap();
    Rc::new(serve::assemble(folders, exec, Rc::new(Monotonic)).unwrap())
}

/// As the daemon's main thread does.
pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, future)
}
