//! What the end of a worker means: its exit status, its last words, and what is known of memory.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use edgedyno_shared::repeat::Stage;
use edgedyno_shared::units::{Bytes, Nanos};
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use nix::sys::signal::Signal;

use super::tail::Tail;

/// All that is known when a worker is gone without having said `Done`.
#[derive(Debug)]
pub struct Remains<'a> {
    pub status: ExitStatus,
    pub stderr: &'a Tail,
    /// RLIMIT_DATA the worker ran under.
    pub memory_limit: Option<Bytes>,
    /// The control group counted a kill for lack of memory meanwhile.
    pub oom_killed: bool,
}

/// Names why a worker ended.
pub fn of(remains: &Remains<'_>) -> Failure {
    let last = remains.stderr.last_lines(5);
    let words = if last.is_empty() {
        String::new()
    } else {
        format!("; last words: {last}")
    };
    if remains.oom_killed && remains.status.signal() == Some(9) {
        let detail = format!("killed by the kernel for lack of memory{words}");
        return Failure::new(FailureCode::OutOfMemory, detail)
            .hint("a smaller batch or shape, or a model with smaller weights, needs less");
    }
    let longer = remains.stderr.last_lines(WITH_BACKTRACE);
    if let (Some(limit), Some(line)) = (remains.memory_limit, failed_allocation(&longer)) {
        let detail = format!(
            "allocation failed under the limit of {} bytes: {line}",
            limit.0
        );
        return Failure::new(FailureCode::OutOfMemory, detail).hint("raise --memory-limit");
    }
    match remains.status.signal() {
        Some(9) => {
            let detail = format!("killed by signal 9 (SIGKILL), cause unknown{words}");
            Failure::new(FailureCode::Killed, detail)
                .hint("the kernel log may say whether memory ran out")
        }
        Some(number) => {
            let detail = format!("ended by signal {number} ({}){words}", signal_name(number));
            Failure::new(FailureCode::Crash, detail)
        }
        None => {
            let code = remains.status.code().unwrap_or(-1);
            let detail = format!("left with exit code {code} before it was done{words}");
            Failure::new(FailureCode::Exit, detail)
        }
    }
}

/// Lines in which an allocator's last word is looked for: with `RUST_BACKTRACE` a backtrace follows it.
const WITH_BACKTRACE: usize = 200;

fn signal_name(number: i32) -> &'static str {
    Signal::try_from(number).map_or("unknown", Signal::as_str)
}

/// The line with which an allocator gives up: Rust's, C++'s, glibc's.
fn failed_allocation(text: &str) -> Option<&str> {
    let marks = [
        "memory allocation of",
        "std::bad_alloc",
        "Cannot allocate memory",
        "out of memory",
    ];
    text.lines()
        .find(|line| marks.iter().any(|mark| line.contains(mark)))
}

/// A stage that took too long.
pub fn hang(stage: Stage, limit: Nanos, trials: u64) -> Failure {
    let seconds = limit.as_secs_f64();
    let detail = format!(
        "no progress for {seconds:.1} s in stage {} after {trials} trials; the worker was killed",
        stage.name()
    );
    Failure::new(FailureCode::Hang, detail)
        .hint("the limits are --timeout-load, --timeout-compile and --timeout-trial")
}

/// A worker that SIGKILL does not end.
pub fn wedged(pid: u32) -> Failure {
    let detail = format!("process {pid} does not end after SIGKILL: it hangs inside a driver");
    Failure::new(FailureCode::Wedged, detail)
        .hint("the board needs a restart, or the driver a reset")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(raw: i32, words: &str, limit: Option<u64>, oom_killed: bool) -> Failure {
        let mut stderr = Tail::default();
        stderr.push(words.as_bytes());
        let status = ExitStatus::from_raw(raw);
        of(&Remains {
            status,
            stderr: &stderr,
            memory_limit: limit.map(Bytes),
            oom_killed,
        })
    }

    #[test]
    fn a_crash_names_its_signal_and_the_last_words() {
        let failure = verdict(11, "noise\nbad thing\n", None, false);
        assert_eq!(failure.code, FailureCode::Crash);
        assert!(failure.detail.contains("SIGSEGV") && failure.detail.contains("bad thing"));
    }

    #[test]
    fn sigkill_alone_is_no_proof_of_lack_of_memory() {
        assert_eq!(verdict(9, "", None, false).code, FailureCode::Killed);
        assert_eq!(verdict(9, "", None, true).code, FailureCode::OutOfMemory);
        assert_eq!(
            verdict(11, "", None, true).code,
            FailureCode::Crash,
            "not by that kill"
        );
    }

    #[test]
    fn a_failed_allocation_counts_only_under_a_limit() {
        let words = "memory allocation of 16777216 bytes failed\n";
        assert_eq!(
            verdict(6, words, Some(1 << 28), false).code,
            FailureCode::OutOfMemory
        );
        assert_eq!(verdict(6, words, None, false).code, FailureCode::Crash);
    }

    /// As it is printed with RUST_BACKTRACE=1: the word comes first, the backtrace last.
    #[test]
    fn a_backtrace_does_not_hide_a_failed_allocation() {
        let frames: String = (0..20)
            .map(|n| format!("  {n}: frame\n     at file.rs\n"))
            .collect();
        let words =
            format!("memory allocation of 16777216 bytes failed\nstack backtrace:\n{frames}");
        let failure = verdict(6, &words, Some(1 << 28), false);
        assert_eq!(failure.code, FailureCode::OutOfMemory);
        assert!(failure.detail.contains("16777216"), "{failure}");
    }

    #[test]
    fn leaving_early_is_a_failure_whatever_the_code() {
        assert_eq!(verdict(0, "", None, false).code, FailureCode::Exit);
        assert!(
            verdict(3 << 8, "", None, false)
                .detail
                .contains("exit code 3")
        );
    }
}
