//! `--run-as`: an agent that root starts goes on as an ordinary user, with all its workers; a helper stays root.

use std::ffi::CString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;

use edgedyno_sys::kernel::process::inherit;
use nix::unistd::{User, initgroups, setgid, setuid};

use crate::privileged::client;
use crate::worker::spawn::SelfExec;

/// Becomes that user and starts this program again with the same words: a process that changed its user
/// may not read its own /proc, which workers are started from, until it executes anew.
///
/// Returns only when nothing was to be done: for root, or when the user was changed already.
pub fn become_user(name: &str, exec: &SelfExec) -> io::Result<()> {
    let user = User::from_name(name)?;
    let user = user.ok_or_else(|| io::Error::other(format!("there is no user `{name}`")))?;
    if user.uid.is_root() {
        return Ok(());
    }
    // An agent without it measures all the same, and says of each channel that it is denied.
    let helper = client::start(exec, user.uid.as_raw())
        .inspect_err(|why| {
            let _ = writeln!(io::stderr(), "warning: no privileged helper: {why}");
        })
        .ok();
    let group_name = CString::new(name)?;
    initgroups(&group_name, user.gid)?;
    setgid(user.gid)?;
    setuid(user.uid)?;
    let mut words = std::env::args_os();
    let program = words.next().unwrap_or_default();
    let words: Vec<_> = words.collect();
    let at = words.iter().position(|word| word == "--run-as");
    let kept = words
        .iter()
        .enumerate()
        .filter(|(here, _)| at.is_none_or(|at| *here != at && *here != at + 1));
    let mut command = Command::new(std::env::current_exe()?);
    command.arg0(program).args(kept.map(|(_, word)| word));
    if let Some(helper) = helper {
        let number = inherit(&mut command, helper);
        command.arg("--helper").arg(number.to_string());
    }
    // What was root's is not this user's; a folder that was named stays named.
    command
        .env("HOME", &user.dir)
        .env_remove("XDG_RUNTIME_DIR")
        .env_remove("XDG_STATE_HOME");
    Err(command.exec())
}
