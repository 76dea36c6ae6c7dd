//! How long threads stood ready to run and did not, as the kernel keeps it.

use std::fs;

use edgedyno_shared::units::Nanos;

/// Of one thread: the second figure of its `schedstat` (Documentation/scheduler/sched-stats.rst). None of one
/// that has ended, and where the kernel does not keep it: one that keeps nothing says that a thread was never put
/// on a CPU.
pub(super) fn of_thread(process: u32, thread: u32) -> Option<Nanos> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/schedstat")).ok()?;
    kept(&text)
}

fn kept(schedstat: &str) -> Option<Nanos> {
    let mut figures = schedstat.split_whitespace();
    let delay = figures.nth(1)?.parse().ok()?;
    let slices: u64 = figures.next()?.parse().ok()?;
    (slices > 0).then_some(Nanos(delay))
}

/// Of all threads of a process and of its children together.
pub(super) fn of_tree(process: u32) -> Option<Nanos> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let threads = threads.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    // One that has just ended is left out.
    let own: Vec<Nanos> = threads
        .filter_map(|thread| of_thread(process, thread))
        .collect();
    let below = children(process).into_iter().filter_map(of_tree);
    let all = below.chain(own.iter().copied()).map(|delay| delay.0).sum();
    (!own.is_empty()).then_some(Nanos(all))
}

/// Processes that a process has begun from its main thread.
pub(super) fn children(process: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
    let text = text.unwrap_or_default();
    let numbers = text.split_whitespace();
    numbers.filter_map(|child| child.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_kernel_that_keeps_nothing_tells_nothing() {
        assert_eq!(kept("812345 6789 3\n"), Some(Nanos(6_789)));
        assert_eq!(kept("812345 0 3\n"), Some(Nanos(0)));
        for nothing in ["0 0 0\n", "812345 6789\n", ""] {
            assert_eq!(kept(nothing), None, "{nothing:?}");
        }
    }

    #[test]
    fn a_process_stands_ready_with_all_its_threads_and_children() {
        let own = std::process::id();
        // A kernel without CONFIG_SCHED_INFO tells of nobody, which is not zero.
        let Some(main) = of_thread(own, own) else {
            assert_eq!(of_tree(own), None);
            return;
        };
        assert!(of_tree(own).unwrap() >= main);
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let id = child.id();
        assert!(of_tree(id).is_some());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(of_tree(id), None, "it has ended");
    }
}
