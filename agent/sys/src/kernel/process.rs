//! What a parent hands to a child process, and the limits and CPUs of the process itself.
//!
//! The daemon prepares a `Command` with [`inherit`] and [`die_with_parent`]; the worker takes the
//! descriptor up again with [`inherited_fd`]. Everything else about processes is safe in std and nix
//! and is called from there.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getpid, getppid};

/// Lets the child of `command` keep `file` open, and says under which number.
///
/// The number is the parent's own, to be passed as an argument: moving the descriptor to a chosen
/// number could overwrite the pipe on which std reports a failed exec. Only this child inherits it;
/// children started meanwhile by other threads do not.
pub fn inherit(command: &mut Command, file: OwnedFd) -> RawFd {
    let number = file.as_raw_fd();
    // SAFETY: the closure owns the descriptor and makes one fcntl call, which is async-signal-safe.
    unsafe { command.pre_exec(move || set_flags(file.as_raw_fd(), 0)) };
    number
}

/// Has the kernel kill the child when the thread that started it ends.
///
/// The signal follows the spawning *thread*, so spawn from one that lives as long as the daemon. It is
/// set after std has changed the user, which would clear it (prctl(2), PR_SET_PDEATHSIG).
pub fn die_with_parent(command: &mut Command) {
    let parent = getpid();
    let arm = move || {
        set_pdeathsig(Signal::SIGKILL)?;
        // A parent that died before the line above sends nothing any more.
        if getppid() == parent {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(libc::ESRCH))
        }
    };
    // SAFETY: the closure makes two plain system calls and allocates nothing.
    unsafe { command.pre_exec(arm) };
}

/// Takes over a descriptor that the parent process left open under this number.
///
/// Call it before any vendor library is loaded: C code may open files that look inherited.
///
/// # Errors
///
/// `EBADF` when nothing is open there. `EBUSY` when the descriptor would not survive an exec, hence was
/// not inherited but opened in this process, or was taken over before: someone owns it already.
pub fn inherited_fd(number: RawFd) -> io::Result<OwnedFd> {
    // Without the lock two threads could both see the flag clear and both become the owner.
    static TAKING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = TAKING.lock().unwrap_or_else(PoisonError::into_inner);

    if number <= libc::STDERR_FILENO {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the standard streams are not handed over",
        ));
    }
    if flags(number)? & libc::FD_CLOEXEC != 0 {
        return Err(io::Error::from_raw_os_error(libc::EBUSY));
    }
    set_flags(number, libc::FD_CLOEXEC)?;
    // SAFETY: it is open, and no other owner exists: std opens everything close-on-exec, and this
    // function marks what it has given out in the same way.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// The CPUs a thread of this process may run on, in ascending order; 0 means the calling thread.
///
/// # Errors
///
/// When there is no such thread, or the machine has more than 1024 CPUs.
pub fn affinity_of(thread: i32) -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(thread))?;
    Ok((0..CpuSet::count())
        .filter(|&cpu| set.is_set(cpu).unwrap_or(false))
        .collect())
}

/// Binds a thread of this process to some CPUs; 0 means the calling thread.
///
/// The kernel silently drops CPUs that do not exist or that a cpuset forbids, so read back with
/// [`affinity_of`].
///
/// # Errors
///
/// When there is no such thread, or none of the CPUs can be used.
pub fn set_affinity(thread: i32, cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu)?;
    }
    Ok(sched_setaffinity(Pid::from_raw(thread), &set)?)
}

/// The CPUs the calling thread may run on, in ascending order.
///
/// # Errors
///
/// When the machine has more than 1024 CPUs.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    affinity_of(0)
}

/// Limits the private writable memory of this process (RLIMIT_DATA); no way back.
///
/// RLIMIT_DATA counts anonymous memory since Linux 4.7 and leaves file mappings alone, so that a large
/// library or a mapped model does not count against it, as it would against RLIMIT_AS.
///
/// # Errors
///
/// When the kernel refuses. A limit already lower stays as it is and is no error.
pub fn set_data_limit(bytes: u64) -> io::Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_DATA)?;
    let wanted = libc::rlim_t::try_from(bytes).unwrap_or(libc::RLIM_INFINITY);
    // "No limit" is the largest number, so the smallest of the three is the strictest.
    let limit = wanted.min(soft).min(hard);
    Ok(setrlimit(Resource::RLIMIT_DATA, limit, limit)?)
}

fn flags(number: RawFd) -> io::Result<libc::c_int> {
    // SAFETY: F_GETFD reads a flag of whatever is open under the number, or fails with EBADF.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if flags == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(flags)
    }
}

fn set_flags(number: RawFd, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: F_SETFD takes the flags by value; the only one is close-on-exec.
    let done = unsafe { libc::fcntl(number, libc::F_SETFD, flags) };
    if done == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
