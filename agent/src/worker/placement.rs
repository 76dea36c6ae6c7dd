//! Which CPUs the worker's threads may use: set on every thread, and read back from the kernel.

use std::fs;
use std::io;

use edgedyno_shared::repeat::{Moment, Placement, ThreadPlace};
use edgedyno_shared::units::Nanos;
use edgedyno_sys::kernel::process::{affinity_of, set_affinity};

/// Reads where every thread of this process may run, then binds each to `wanted` again.
///
/// What is returned is what the kernel said before: a library that moved a thread outside is seen.
pub fn read_and_bind(moment: Moment, wanted: &[u16]) -> io::Result<Placement> {
    let placement = read(moment, wanted)?;
    let cpus: Vec<usize> = wanted.iter().map(|cpu| usize::from(*cpu)).collect();
    for thread in &placement.threads {
        // A thread that ended meanwhile is no error.
        match set_affinity(thread.tid as i32, &cpus) {
            Err(why) if why.raw_os_error() != Some(nix::errno::Errno::ESRCH as i32) => {
                return Err(why);
            }
            _ => {}
        }
    }
    Ok(placement)
}

/// Reads where every thread of this process may run and how much CPU time it has used.
pub fn read(moment: Moment, wanted: &[u16]) -> io::Result<Placement> {
    let mut threads = Vec::new();
    for tid in own_threads()? {
        let Ok(cpus) = affinity_of(tid as i32) else {
            continue;
        };
        let cpus = cpus.into_iter().map(|cpu| cpu as u16).collect();
        threads.push(ThreadPlace {
            tid,
            cpus,
            cpu_time: cpu_time(tid),
        });
    }
    threads.sort_by_key(|t| t.tid);
    forget_untold(&mut threads);
    Ok(Placement {
        moment,
        wanted: wanted.to_vec(),
        threads,
    })
}

/// Binds every thread of this process.
pub fn bind_all(cpus: &[u16]) -> io::Result<()> {
    read_and_bind(Moment::Spawned, cpus).map(drop)
}

fn own_threads() -> io::Result<Vec<u32>> {
    let entries = fs::read_dir("/proc/self/task")?;
    Ok(entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .collect())
}

/// A kernel that keeps no times writes zeros, and the thread that reads them has run.
fn forget_untold(threads: &mut [ThreadPlace]) {
    let has_run = |thread: &ThreadPlace| thread.cpu_time.is_some_and(|time| time > Nanos::ZERO);
    if !threads.iter().any(has_run) {
        threads.iter_mut().for_each(|thread| thread.cpu_time = None);
    }
}

/// First figure of the thread's `schedstat`: nanoseconds on a CPU (Documentation/scheduler/sched-stats).
fn cpu_time(tid: u32) -> Option<Nanos> {
    let text = fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok().map(Nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_the_kernel_does_not_keep_are_none() {
        let kept = |times: &[i64]| {
            let of = |(tid, time): (u32, &i64)| ThreadPlace {
                tid,
                cpus: vec![0],
                cpu_time: Some(Nanos(*time)),
            };
            let mut threads: Vec<ThreadPlace> = (1..).zip(times).map(of).collect();
            forget_untold(&mut threads);
            let times = threads.iter().map(|thread| thread.cpu_time);
            times.collect::<Option<Vec<Nanos>>>()
        };
        assert_eq!(kept(&[0, 0]), None);
        assert_eq!(kept(&[7, 0]), Some(vec![Nanos(7), Nanos(0)]));
    }

    #[test]
    fn every_thread_is_bound_and_read_back() {
        let first = affinity_of(0).unwrap()[0] as u16;
        let (stop, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let _ = wait.recv();
        });
        bind_all(&[first]).unwrap();
        let placement = read(Moment::Loaded, &[first]).unwrap();
        assert!(placement.threads.len() >= 2);
        drop(stop);
        thread.join().unwrap();
        assert!(
            placement.threads.iter().all(|t| t.cpus == [first]),
            "{placement:?}"
        );
    }
}
