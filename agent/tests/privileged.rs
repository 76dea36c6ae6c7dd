//! The process that stays root, spoken to as the daemon does, and as nobody should.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use edgedyno_sys::kernel::descriptors::{pair, receive, send};
use edgedyno_sys::kernel::process::inherit;
use proptest::prelude::*;

const LOAD: &str = "sys/kernel/debug/rknpu/load";
const GOVERNOR: &str = "sys/devices/system/cpu/cpufreq/policy0/scaling_governor";
const GOVERNORS: &str = "sys/devices/system/cpu/cpufreq/policy0/scaling_available_governors";

/// Requests as they cross, written down by hand: the number of the request, then its fields.
const OPEN_LOAD: &[u8] = &[0, 0, 0];
const HOLD: &[u8] = &[2];

/// First bytes of answers.
const OPENED: u8 = 0;
const HELD: u8 = 1;
const REFUSED: u8 = 3;

/// A board made of files, and a helper for it.
struct Lab {
    board: tempfile::TempDir,
    helper: Child,
    control: Option<OwnedFd>,
}

impl Lab {
    fn new() -> Self {
        let board = tempfile::tempdir().unwrap();
        for (path, text) in [
            (LOAD, "NPU load:  7%\n"),
            (GOVERNORS, "schedutil performance\n"),
            (GOVERNOR, "schedutil\n"),
            ("etc/shadow", "secret\n"),
        ] {
            let path = board.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let (helper, control) = start(board.path());
        Self {
            board,
            helper,
            control: Some(control),
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.board.path().join(path)
    }

    fn ask(&self, request: &[u8]) -> (Vec<u8>, Option<File>) {
        let control = self.control.as_ref().unwrap().as_fd();
        send(control, request, None).unwrap();
        let mut buffer = vec![0; 4096];
        let answer = receive(control, &mut buffer).unwrap();
        assert_ne!(answer.len, 0, "the helper has gone after {request:?}");
        (buffer[..answer.len].to_vec(), answer.file.map(File::from))
    }

    fn refuses(&self, request: &[u8]) {
        let (answer, file) = self.ask(request);
        assert_eq!(answer[0], REFUSED, "{request:?}");
        assert!(file.is_none(), "{request:?}");
    }
}

fn start(board: &Path) -> (Child, OwnedFd) {
    let (ours, theirs) = pair().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_edgedyno-agent"));
    let number = inherit(&mut command, theirs);
    let user = nix::unistd::getuid().to_string();
    command
        .args(["priv", "--control", &number.to_string(), "--user", &user])
        .env("EDGEDYNO_AGENT_ROOT", board)
        .env("EDGEDYNO_HELPER_STATE", board.join("helper"))
        .stdin(Stdio::null());
    (command.spawn().unwrap(), ours)
}

#[test]
fn a_file_of_the_list_is_handed_over_and_read_without_the_helper() {
    let mut lab = Lab::new();
    let (answer, file) = lab.ask(OPEN_LOAD);
    assert_eq!(answer[0], OPENED);
    lab.helper.kill().unwrap();
    lab.helper.wait().unwrap();
    let mut text = [0; 64];
    let len = file.unwrap().read_at(&mut text, 0).unwrap();
    assert_eq!(&text[..len], b"NPU load:  7%\n");
}

#[test]
fn what_is_no_request_of_the_list_is_refused_and_the_next_is_answered() {
    let lab = Lab::new();
    let path = |row: u8, name: &[u8]| [&[0, row, name.len() as u8], name].concat();
    for request in [
        path(0, b"/../../../../etc/shadow"),
        path(7, b"../../../../etc/shadow\0"),
        path(8, b"0/../../../../etc/shadow"),
        path(8, b"."),
        path(200, b""),
        // Something behind a good request, half of one, another number, bytes that are no text.
        [OPEN_LOAD, &[0]].concat(),
        OPEN_LOAD[..2].to_vec(),
        vec![250],
        path(0, &[0xff, 0xfe]),
        // Longer than any request.
        vec![0; 5000],
        // A counter of everything on CPU 0.
        [&[1, 0, 0, 0, 0, 0, 0, 0][..], &[1, 0]].concat(),
    ] {
        lab.refuses(&request);
    }
    assert_eq!(lab.ask(OPEN_LOAD).0[0], OPENED);
}

#[test]
fn clocks_are_put_back_when_the_daemon_has_gone() {
    let mut lab = Lab::new();
    assert_eq!(lab.ask(HOLD).0[0], HELD);
    assert_eq!(fs::read_to_string(lab.at(GOVERNOR)).unwrap(), "performance");
    lab.control = None;
    assert!(lab.helper.wait().unwrap().success());
    assert_eq!(fs::read_to_string(lab.at(GOVERNOR)).unwrap(), "schedutil");
}

#[test]
fn clocks_that_a_killed_helper_held_are_put_back_by_the_next() {
    let mut lab = Lab::new();
    assert_eq!(lab.ask(HOLD).0[0], HELD);
    lab.helper.kill().unwrap();
    lab.helper.wait().unwrap();
    assert_eq!(fs::read_to_string(lab.at(GOVERNOR)).unwrap(), "performance");
    let (mut next, control) = start(lab.board.path());
    drop(control);
    assert!(next.wait().unwrap().success());
    assert_eq!(fs::read_to_string(lab.at(GOVERNOR)).unwrap(), "schedutil");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]
    /// Whatever is sent, only files of the board's list come back, and the helper stays.
    #[test]
    fn noise_costs_nothing(noise in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..80), 200)) {
        let lab = Lab::new();
        for request in noise {
            let (_, file) = lab.ask(&request);
            if let Some(file) = file {
                let mut text = [0; 7];
                let len = file.read_at(&mut text, 0).unwrap();
                prop_assert_ne!(&text[..len], b"secret\n");
            }
        }
        prop_assert_eq!(lab.ask(OPEN_LOAD).0[0], OPENED);
    }
}
