//! What a child inherits and how it is limited, with real child processes.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Command, Stdio};

use edgedyno_sys::kernel::process::{
    affinity_of, allowed_cpus, die_with_parent, inherit, inherited_fd, set_affinity, set_data_limit,
};

#[test]
fn only_the_prepared_child_inherits_the_descriptor() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"handed over").unwrap();
    file.rewind().unwrap();
    let copy = OwnedFd::from(file.try_clone().unwrap());

    let mut prepared = Command::new("sh");
    let number = inherit(&mut prepared, copy);
    let script = format!("cat /proc/self/fd/{number}");
    let prepared = prepared.args(["-c", &script]).output().unwrap();
    let other = Command::new("sh")
        .args(["-c", &script])
        .stderr(Stdio::null())
        .output()
        .unwrap();

    assert_eq!(prepared.stdout, b"handed over");
    assert!(!other.status.success());
}

#[test]
fn an_inherited_descriptor_is_taken_over_once() {
    let number = survives_exec();

    let first = inherited_fd(number).unwrap();
    let second = inherited_fd(number).unwrap_err();

    assert_eq!(first.as_raw_fd(), number);
    assert_eq!(second.raw_os_error(), Some(libc::EBUSY));
    let mut text = String::new();
    File::from(first).read_to_string(&mut text).unwrap();
    assert_eq!(text, "");
}

#[test]
fn a_descriptor_with_an_owner_in_this_process_is_not_taken_over() {
    let file = tempfile::tempfile().unwrap();

    let error = inherited_fd(file.as_raw_fd()).unwrap_err();

    assert_eq!(error.raw_os_error(), Some(libc::EBUSY));
}

#[test]
fn a_number_with_nothing_open_is_an_error() {
    assert_eq!(
        inherited_fd(987_654).unwrap_err().raw_os_error(),
        Some(libc::EBADF)
    );
    assert!(inherited_fd(2).is_err());
    assert!(inherited_fd(-1).is_err());
}

#[test]
fn a_child_dies_when_the_thread_that_started_it_ends() {
    let mut child = std::thread::spawn(|| {
        let mut command = Command::new("sleep");
        die_with_parent(&mut command);
        command.arg("600").spawn().unwrap()
    })
    .join()
    .unwrap();

    let status = child.wait().unwrap();

    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(libc::SIGKILL)
    );
}

#[test]
fn a_thread_is_bound_and_read_back() {
    std::thread::spawn(|| {
        let allowed = allowed_cpus().unwrap();
        let last = *allowed.last().unwrap();

        set_affinity(0, &[last]).unwrap();

        assert_eq!(affinity_of(0).unwrap(), [last]);
        assert_eq!(affinity_of(nix::unistd::gettid().as_raw()).unwrap(), [last]);
    })
    .join()
    .unwrap();
}

#[test]
fn impossible_cpus_and_threads_are_errors() {
    assert!(set_affinity(0, &[]).is_err());
    assert!(set_affinity(0, &[1_000_000]).is_err());
    assert!(affinity_of(i32::MAX).is_err());
}

#[test]
fn the_data_limit_holds_and_is_never_raised() {
    // In a child, for the limit cannot be lifted again: this test binary runs itself.
    if std::env::var_os("EDGEDYNO_TEST_LIMIT_CHILD").is_some() {
        set_data_limit(256 << 20).unwrap();
        set_data_limit(u64::MAX).unwrap();
        let too_much = Vec::<u8>::new().try_reserve_exact(512 << 20);
        std::process::exit(if too_much.is_err() { 0 } else { 1 });
    }
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_data_limit_holds_and_is_never_raised"])
        .env("EDGEDYNO_TEST_LIMIT_CHILD", "1")
        .stdout(Stdio::null())
        .status()
        .unwrap();

    assert_eq!(status.code(), Some(0));
}

/// A descriptor as a child process finds it: open, not close-on-exec, nobody's in this process.
#[cfg(test)]
fn survives_exec() -> i32 {
    let file = tempfile::tempfile().unwrap();
    let number = file.as_raw_fd();
    // The low numbers are free for other tests in this process, so take one far above.
    // SAFETY: duplicates an open descriptor; the copy is without the close-on-exec flag.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD, 500) };
    assert!(copy >= 500);
    copy
}
