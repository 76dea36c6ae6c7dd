//! Several boards at once: one driver each, on a thread of its own.
//!
//! Threads and not tasks: a driver that commits a long repeat holds the store's write lock and must not
//! keep the others from reading their links.

use std::sync::mpsc;

use super::DriveEvent;

/// What one thread does; events go to whoever shows them.
pub type Job<'a, T> = Box<dyn FnOnce(&mut dyn FnMut(DriveEvent)) -> T + Send + 'a>;

/// Runs all jobs side by side and hands on their events, each with the number of its job.
pub fn side_by_side<T: Send>(
    jobs: Vec<Job<'_, T>>,
    tell: &mut dyn FnMut(usize, DriveEvent),
) -> Vec<T> {
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(jobs)
            .map(|(number, job)| {
                let send = send.clone();
                scope.spawn(move || {
                    let mut pass_on = |event| {
                        // Whoever shows events may have gone; the work goes on.
                        let _ = send.send((number, event));
                    };
                    job(&mut pass_on)
                })
            })
            .collect();
        drop(send);
        for (number, event) in receive {
            tell(number, event);
        }
        let join = |thread: std::thread::ScopedJoinHandle<'_, T>| match thread.join() {
            Ok(end) => end,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().map(join).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_ends_with_its_own_result_and_all_events_arrive() {
        let job = |number: u32| -> Job<'_, u32> {
            Box::new(move |tell| {
                for count in 0..=number {
                    tell(DriveEvent::Reconnecting(count.to_string()));
                }
                number * 10
            })
        };
        let mut seen = vec![0; 3];
        let mut tell = |number: usize, _: DriveEvent| seen[number] += 1;
        let ends = side_by_side(vec![job(0), job(1), job(2)], &mut tell);
        assert_eq!(ends, [0, 10, 20]);
        assert_eq!(seen, [1, 2, 3]);
    }
}
