//! What this board is: CPUs, memory, facts, backends with the libraries found for them.

use std::path::Path;
use std::rc::Rc;

use edgedyno_shared::device::DeviceInfo;
use edgedyno_shared::ids::BuildId;

use super::runtimes;
use super::state::Daemon;
use crate::backend::BACKENDS;
use crate::stressor::tool;
use crate::{hardware, neighbours, readiness};

/// Reads everything now; libraries that were looked at before are not opened again.
pub async fn read(daemon: &Rc<Daemon>) -> DeviceInfo {
    let mut backends = Vec::new();
    for backend in BACKENDS {
        let mut info = backend.info();
        info.runtimes = runtimes::find_all(daemon, *backend).await;
        backends.push(info);
    }
    let mut facts = daemon.kernel.environment();
    facts.extend(neighbours::facts(daemon.kernel.root()));
    facts.extend(hardware::facts(Path::new("/")));
    facts.extend(tool::facts());
    DeviceInfo {
        agent_version: edgedyno_shared::VERSION.into(),
        build: BuildId(crate::BUILD_ID.into()),
        boot: daemon.boot,
        os: std::env::consts::OS.into(),
        arch: std::env::consts::ARCH.into(),
        cpus: daemon.kernel.cpus(),
        allowed_cpus: daemon.allowed_cpus.clone(),
        memory_total: daemon.kernel.memory_total(),
        facts,
        backends,
        readiness: readiness::read(Path::new("/"), &daemon.folders.state),
    }
}
