//! Signals by which somebody ends the daemon: a service manager, a terminal, whoever closes one.

use std::fs;
use std::future::poll_fn;
use std::io;
use std::task::Poll;

use nix::sys::signal::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};

const ALL: [Number; 4] = [
    Number::SIGTERM,
    Number::SIGINT,
    Number::SIGHUP,
    Number::SIGQUIT,
];

/// Those that end this process. One that was started with a signal ignored, as `nohup` and the `&` of a script
/// do, goes on ignoring it.
#[derive(Debug)]
pub(super) struct Ends(Vec<(Number, Signal)>);

impl Ends {
    /// # Errors
    /// When the kernel takes no handler.
    pub(super) fn listen() -> io::Result<Self> {
        let ignored = ignored(&fs::read_to_string("/proc/self/status").unwrap_or_default());
        let mut heard = Vec::new();
        for number in ALL {
            if !is_in(ignored, number) {
                heard.push((number, signal(SignalKind::from_raw(number as i32))?));
            }
        }
        Ok(Self(heard))
    }

    /// Waits for one; the exit code of a process that it ended, as shells show it.
    pub(super) async fn next(&mut self) -> i32 {
        poll_fn(|context| {
            for (number, signal) in &mut self.0 {
                if signal.poll_recv(context).is_ready() {
                    return Poll::Ready(128 + *number as i32);
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// The mask of ignored signals in the text of `/proc/PID/status` (proc_pid_status(5)); none where it is not told.
fn ignored(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

fn is_in(mask: u64, number: Number) -> bool {
    mask & (1 << (number as i32 - 1)) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SIGHUP is 1, SIGINT 2, SIGQUIT 3, SIGTERM 15: bits 0, 1, 2 and 14.
    #[test]
    fn what_was_ignored_from_the_start_is_read_from_the_mask() {
        let heard = |mask: &str| {
            let mask = ignored(&format!(
                "SigBlk:\t0000000000000000\nSigIgn:\t{mask}\nSigCgt:\t00000000ffffffff\n"
            ));
            let heard = ALL.into_iter().filter(|number| !is_in(mask, *number));
            heard.map(Number::as_str).collect::<Vec<_>>()
        };
        let all = ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"];
        assert_eq!(heard("0000000000000000"), all);
        assert_eq!(heard("0000000000001000"), all);
        assert_eq!(heard("0000000000001001"), ["SIGTERM", "SIGINT", "SIGQUIT"]);
        assert_eq!(heard("0000000000000006"), ["SIGTERM", "SIGHUP"]);
        assert_eq!(heard("0000000000004007"), [""; 0]);
        assert_eq!(ignored("Name:\tx\n"), 0);
    }
}
