//! The worker's process group: what it started itself ends with it.

use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::Child;
use tokio::time::{Instant, sleep_until};

/// A process that SIGKILL has not ended after this long hangs inside the kernel.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// The worker's process group, killed when this is dropped.
pub(crate) struct Group {
    leader: Option<Pid>,
    pub(crate) killed_at: Option<Instant>,
}

impl Group {
    pub(crate) fn of(child: &Child) -> Self {
        Self {
            leader: child.id().map(|pid| Pid::from_raw(pid as i32)),
            killed_at: None,
        }
    }

    pub(crate) fn kill(&mut self) {
        if let Some(leader) = self.leader {
            // Nobody left to kill is what is wanted.
            let _ = killpg(leader, Signal::SIGKILL);
        }
        self.killed_at.get_or_insert_with(Instant::now);
    }

    /// Ends what a worker that is gone and waited for has left behind. Its number may belong to
    /// somebody else afterwards, so this is the last that is sent.
    pub(crate) fn finish(&mut self) {
        self.kill();
        self.leader = None;
    }

    /// Over when a killed process should have been gone for long.
    pub(crate) async fn patience(&self) {
        if let Some(at) = self.killed_at {
            sleep_until(at + KILL_PATIENCE).await;
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
