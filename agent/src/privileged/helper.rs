//! The process that stays root: answers requests until the daemon has gone.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use edgedyno_shared::telemetry::TelemetryMode;
use edgedyno_sys::kernel::descriptors::{receive_bytes, send};
use edgedyno_sys::kernel::perf::Counter;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::libc::O_NONBLOCK;
use nix::sys::prctl::set_no_new_privs;
use nix::sys::stat::{Mode, umask};
use nix::sys::statfs::{DEBUGFS_MAGIC, PROC_SUPER_MAGIC, SYSFS_MAGIC, fstatfs};

use super::grants::Grant;
use super::message::{Answer, Counted, REQUEST_BYTES, Request, decode, encode};
use crate::daemon::clocks::{self, Held};
use crate::daemon::serve::board_root;
use crate::disk;
use crate::sampler::files::Root;
use crate::sampler::{Board, controller_events, is_core_event};

/// Where the helper writes down what it changed: root's own, and gone with the power, as the changes are.
const FOLDER: &str = "/run/edgedyno-helper";

/// Names another folder, for a machine where several are tried.
const FOLDER_VARIABLE: &str = "EDGEDYNO_HELPER_STATE";

/// Answers the daemon that works as `user` until it has gone.
///
/// # Errors
/// When the folder of its journal cannot be used or the socket fails.
pub fn run(control: OwnedFd, user: u32) -> io::Result<()> {
    umask(Mode::from_bits_truncate(0o077));
    std::env::set_current_dir("/")?;
    // Nothing is executed here, and if it were it could not gain rights.
    set_no_new_privs()?;
    let folder = std::env::var_os(FOLDER_VARIABLE).map_or_else(|| FOLDER.into(), PathBuf::from);
    disk::private_folder(&folder)?;
    let mut helper = Helper {
        root: board_root(),
        user,
        folder,
        held: None,
    };
    helper.restore_left_over();
    let served = serve(&mut helper, control.as_fd());
    // The daemon may have been killed while it held clocks.
    helper.restore()?;
    served
}

fn serve(helper: &mut Helper, control: BorrowedFd<'_>) -> io::Result<()> {
    let mut buffer = vec![0; REQUEST_BYTES];
    loop {
        let got = receive_bytes(control, &mut buffer)?;
        if got.len == 0 {
            return Ok(());
        }
        let request = match got.is_whole {
            true => decode(&buffer[..got.len]),
            false => Err(Errno::EMSGSIZE.into()),
        };
        let (answer, file) = request
            .and_then(|request| helper.answer(request))
            .unwrap_or_else(|why| (refused(&why), None));
        send(control, &encode(&answer)?, file.as_ref().map(AsFd::as_fd))?;
    }
}

fn refused(why: &io::Error) -> Answer {
    Answer::Refused {
        errno: why.raw_os_error().unwrap_or(Errno::EINVAL as i32),
        why: why.to_string(),
    }
}

struct Helper {
    root: PathBuf,
    user: u32,
    folder: PathBuf,
    /// Clocks that are held, and the lock that keeps other helpers from holding them too.
    held: Option<(Held, Flock<File>)>,
}

impl Helper {
    fn answer(&mut self, request: Request) -> io::Result<(Answer, Option<OwnedFd>)> {
        match request {
            Request::Open { row, name } => {
                let path = Grant { row, name }.path(&self.root).ok_or(Errno::EPERM)?;
                Ok((Answer::Opened, Some(self.open(&path)?)))
            }
            Request::Count(counted) => Ok((Answer::Opened, Some(self.count(&counted)?))),
            Request::HoldClocks => {
                self.restore()?;
                let lock = self.lock()?;
                let (held, effective) = Held::set(&self.root, &self.journal())?;
                self.held = Some((held, lock));
                Ok((Answer::Held(effective), None))
            }
            Request::RestoreClocks => self.restore().map(|()| (Answer::Restored, None)),
        }
    }

    /// For reading, and on the machine itself only what is a file of the kernel's.
    fn open(&self, path: &Path) -> io::Result<OwnedFd> {
        let mut how = OpenOptions::new();
        how.read(true).custom_flags(O_NONBLOCK);
        let file = how.open(path)?;
        let kind = fstatfs(&file)?.filesystem_type();
        let is_kernels = [SYSFS_MAGIC, DEBUGFS_MAGIC, PROC_SUPER_MAGIC].contains(&kind);
        if self.is_this_machine() && !is_kernels {
            return Err(Errno::EPERM.into());
        }
        Ok(file.into())
    }

    /// A counter of a memory controller that this board has, or of the cores for a process of the user's.
    fn count(&self, counted: &Counted) -> io::Result<OwnedFd> {
        let event = counted.event();
        let is_allowed = || match (counted.process, counted.cpu) {
            (Some(process), None) => is_core_event(&self.board(), &event) && self.is_users(process),
            (None, Some(cpu)) => controller_events(&self.board()).contains(&(event, cpu)),
            _ => false,
        };
        if !self.is_this_machine() || !is_allowed() {
            return Err(Errno::EPERM.into());
        }
        let counter = Counter::open(event, counted.process, counted.cpu)?;
        // The number may have gone to another process between the look and the call.
        if counted
            .process
            .is_some_and(|process| !self.is_users(process))
        {
            return Err(Errno::EPERM.into());
        }
        counter.as_fd().try_clone_to_owned()
    }

    fn is_users(&self, process: i32) -> bool {
        let found = (process > 0).then(|| fs::metadata(format!("/proc/{process}")));
        found.is_some_and(|found| found.is_ok_and(|found| found.uid() == self.user))
    }

    fn is_this_machine(&self) -> bool {
        self.root == Path::new("/")
    }

    fn board(&self) -> Board {
        Board {
            files: Arc::new(Root(self.root.clone())),
            worker: None,
            mode: TelemetryMode::Normal,
            exec: None,
        }
    }

    fn restore(&mut self) -> io::Result<()> {
        match self.held.take() {
            Some((held, _lock)) => held.restore(),
            None => Ok(()),
        }
    }

    /// A helper that was killed could not put anything back.
    fn restore_left_over(&self) {
        // Whoever has the lock holds the clocks now.
        let Ok(_lock) = self.lock() else { return };
        match clocks::restore_left_over(&self.root, &self.journal()) {
            Ok(false) => {}
            Ok(true) => tracing::warn!("clocks that an earlier helper held were put back"),
            Err(why) => tracing::error!("clocks that an earlier helper held stay: {why}"),
        }
    }

    fn lock(&self) -> io::Result<Flock<File>> {
        let path = self.folder.join("lock");
        let mut how = OpenOptions::new();
        how.write(true).create(true).truncate(false).mode(0o600);
        let file = how.open(&path)?;
        let busy = |(_, why): (File, Errno)| match why {
            Errno::EWOULDBLOCK => io::Error::new(
                io::ErrorKind::ResourceBusy,
                "another agent holds the clocks",
            ),
            why => why.into(),
        };
        Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(busy)
    }

    fn journal(&self) -> PathBuf {
        self.folder.join("clocks")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "sys/devices/system/cpu/cpufreq/policy0";

    fn helper(at: &Path) -> Helper {
        let folder = at.join("helper");
        disk::private_folder(&folder).unwrap();
        for (file, text) in [
            ("scaling_available_governors", "schedutil performance\n"),
            ("scaling_governor", "schedutil\n"),
        ] {
            let path = at.join(POLICY).join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Helper {
            root: at.into(),
            user: nix::unistd::getuid().as_raw(),
            folder,
            held: None,
        }
    }

    /// Another helper of the same board.
    fn beside(other: &Helper) -> Helper {
        Helper {
            root: other.root.clone(),
            user: other.user,
            folder: other.folder.clone(),
            held: None,
        }
    }

    fn governor(at: &Path) -> String {
        fs::read_to_string(at.join(POLICY).join("scaling_governor")).unwrap()
    }

    #[test]
    fn clocks_are_put_back_when_asked_when_killed_and_by_one_only() {
        let board = tempfile::tempdir().unwrap();
        let mut first = helper(board.path());
        let (answer, _) = first.answer(Request::HoldClocks).unwrap();
        let Answer::Held(effective) = answer else {
            panic!("{answer:?}")
        };
        assert_eq!(effective[0].observed.as_deref(), Some("performance"));
        let mut second = beside(&first);
        let why = second.answer(Request::HoldClocks).unwrap_err();
        assert!(why.to_string().contains("another agent"), "{why}");
        second.restore_left_over();
        assert_eq!(
            governor(board.path()),
            "performance",
            "they are still the first's"
        );
        first.answer(Request::RestoreClocks).unwrap();
        assert_eq!(governor(board.path()), "schedutil");

        first.answer(Request::HoldClocks).unwrap();
        // Killed: nothing is dropped in order but the lock, by the kernel.
        first.held = None;
        assert_eq!(governor(board.path()), "performance");
        second.restore_left_over();
        assert_eq!(governor(board.path()), "schedutil");
    }

    #[test]
    fn on_the_machine_itself_only_files_of_the_kernel_are_opened() {
        let place = tempfile::tempdir().unwrap();
        let helper = Helper {
            root: "/".into(),
            ..helper(place.path())
        };
        let path = place.path().join("x");
        fs::write(&path, "secret").unwrap();
        let why = helper.open(&path).unwrap_err();
        assert_eq!(why.raw_os_error(), Some(Errno::EPERM as i32));
        helper.open(Path::new("/proc/stat")).unwrap();
    }

    #[test]
    fn counters_of_others_and_of_other_events_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let helper = Helper {
            root: "/".into(),
            user: 12_345,
            ..helper(place.path())
        };
        let own = std::process::id() as i32;
        let cycles = Counted {
            source: 0,
            config: [0; 3],
            exclude_kernel: true,
            inherit: true,
            process: Some(own),
            cpu: None,
        };
        let everybody = Counted {
            process: None,
            cpu: Some(0),
            ..cycles.clone()
        };
        let all_processes = Counted {
            process: Some(-1),
            ..cycles.clone()
        };
        let with_kernel = Counted {
            exclude_kernel: false,
            ..cycles.clone()
        };
        for counted in [cycles, everybody, all_processes, with_kernel] {
            let why = helper.count(&counted).unwrap_err();
            assert_eq!(why.raw_os_error(), Some(Errno::EPERM as i32), "{counted:?}");
        }
    }
}
