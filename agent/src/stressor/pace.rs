//! When the next piece of work is due. Pure: time comes as an argument.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use edgedyno_shared::load::{DUTY_TURN, Effort, Throttle};
use edgedyno_shared::units::Nanos;

/// A stressor that sleeps and was kept from running makes up for no more than this.
const MOST_LAG: Nanos = Nanos::from_millis(20);

/// CPU time of a thread that the others need not know of yet. All add it to one word, which on many CPUs would
/// wander from cache to cache at every look.
const KEPT: Nanos = Nanos(20_000);

/// What the threads of a stressor keep together.
///
/// A rate belongs to all of them: whoever is done takes the next piece, so that each CPU does what it can,
/// be it fast or slow. A stressor that spins is paced by the mean CPU time of its threads, since it needs the
/// CPU for every piece: kept from running, it falls behind by wall time, and does not rush afterwards. One
/// that sleeps is paced by wall time.
#[derive(Debug)]
pub(super) struct Bucket {
    effort: Effort,
    throttle: Throttle,
    threads: i64,
    /// Units given out: done, or being done.
    given: AtomicU64,
    /// The beginning, on the clock that paces; of a wall that nobody has looked at yet the least there is.
    began: AtomicI64,
    /// CPU time of all threads so far.
    spent: AtomicI64,
}

impl Bucket {
    pub(super) fn new(effort: Effort, throttle: Throttle, threads: usize) -> Self {
        let began = match throttle {
            Throttle::Spin => 0,
            Throttle::Sleep => i64::MIN,
        };
        Self {
            effort,
            throttle,
            threads: i64::try_from(threads.max(1)).unwrap_or(i64::MAX),
            given: AtomicU64::new(0),
            began: AtomicI64::new(began),
            spent: AtomicI64::new(0),
        }
    }

    /// Units that threads have done or are doing; of a rate only.
    pub(super) fn given(&self) -> u64 {
        self.given.load(Relaxed)
    }

    /// When the piece after `place` units is due, on the clock that paces.
    fn planned(&self, place: u64, per_second: u64) -> Nanos {
        let after = u128::from(place) * 1_000_000_000 / u128::from(per_second.max(1));
        let after = Nanos(i64::try_from(after).unwrap_or(i64::MAX / 2));
        Nanos(self.began.load(Relaxed)) + after
    }

    /// Puts the beginning off by what shall not be made up for. Whoever comes second does nothing.
    fn forgive(&self, lag: Nanos) {
        let began = self.began.load(Relaxed);
        if lag > MOST_LAG {
            let later = Nanos(began) + (lag - MOST_LAG);
            let _ = self
                .began
                .compare_exchange(began, later.0, Relaxed, Relaxed);
        }
    }
}

/// The schedule as one thread keeps it. It is absolute: what is due is reckoned from the beginning, so that
/// errors do not add up.
#[derive(Debug)]
pub(super) struct Pace<'a> {
    bucket: &'a Bucket,
    /// Its beginning, on its own clock.
    began: Nanos,
    /// What it has told the others of its own clock.
    told: Nanos,
    /// Units given out before the piece that is its next.
    place: Option<u64>,
    /// Units of its last piece; the next is taken to have as many.
    piece: u64,
    worked: Nanos,
    /// Work that a sleeper was kept from and shall not make up for.
    forgiven: Nanos,
    /// The last look at its CPU time, and whether a piece was done since.
    looked: Option<Nanos>,
    was_working: bool,
}

impl<'a> Pace<'a> {
    /// `own` is the thread's clock: its CPU time where it spins, the wall where it sleeps.
    pub(super) fn new(bucket: &'a Bucket, own: Nanos) -> Self {
        // The first of the threads begins for all.
        let unset = i64::MIN;
        let _ = bucket
            .began
            .compare_exchange(unset, own.0, Relaxed, Relaxed);
        Self {
            bucket,
            began: own,
            told: own,
            place: None,
            piece: 0,
            worked: Nanos::ZERO,
            forgiven: Nanos::ZERO,
            looked: None,
            was_working: false,
        }
    }

    /// The clock that paces.
    pub(super) fn time(&mut self, own: Nanos) -> Nanos {
        let bucket = self.bucket;
        let is_shared = matches!(bucket.effort, Effort::Rate { .. });
        if !is_shared || bucket.throttle == Throttle::Sleep {
            return own;
        }
        let more = (own - self.told).0;
        let of_all = match more < KEPT.0 {
            true => bucket.spent.load(Relaxed),
            false => {
                self.told = own;
                bucket.spent.fetch_add(more, Relaxed)
            }
        };
        Nanos((of_all + more) / bucket.threads)
    }

    /// When its next piece may begin; a time that is over means now. That piece is its own from then on.
    pub(super) fn due(&mut self, now: Nanos) -> Nanos {
        let bucket = self.bucket;
        match bucket.effort {
            Effort::Full => now,
            Effort::Rate { per_second } => {
                let piece = self.piece;
                let take = || bucket.given.fetch_add(piece, Relaxed);
                let place = *self.place.get_or_insert_with(take);
                if bucket.throttle == Throttle::Sleep {
                    // Of all: one thread that is late while the others keep the rate lacks nothing.
                    let last = bucket.given().saturating_sub(piece);
                    bucket.forgive(now - bucket.planned(last, per_second));
                }
                bucket.planned(place, per_second)
            }
            Effort::Duty { ppm } => self.due_of_duty(i64::from(ppm), now),
        }
    }

    /// Works at the beginning of each turn, until as much was worked as all turns so far shall have: a piece that
    /// takes longer than what was left of a turn makes the next one shorter.
    fn due_of_duty(&mut self, ppm: i64, now: Nanos) -> Nanos {
        let busy = DUTY_TURN.0 * ppm / 1_000_000;
        let turns = (now - self.began).0 / DUTY_TURN.0 + 1;
        let mut lack = turns * busy - self.worked.0 - self.forgiven.0;
        if self.bucket.throttle == Throttle::Sleep && lack > 2 * busy {
            self.forgiven = self.forgiven + Nanos(lack - 2 * busy);
            lack = 2 * busy;
        }
        match lack > 0 {
            true => now,
            false => self.began + Nanos(turns * DUTY_TURN.0),
        }
    }

    /// A piece was done.
    pub(super) fn did(&mut self, units: u64) {
        self.was_working = true;
        if matches!(self.bucket.effort, Effort::Rate { .. }) {
            let taken = self.place.take().map_or(0, |_| self.piece);
            // Less than was taken comes back.
            let more = units.wrapping_sub(taken);
            self.bucket.given.fetch_add(more, Relaxed);
            self.piece = units;
        }
    }

    /// Its CPU time now: what passed since the last look was work if a piece was done meanwhile, else rest.
    pub(super) fn look(&mut self, cpu_time: Nanos) {
        if let Some(last) = self.looked.replace(cpu_time).filter(|_| self.was_working) {
            self.worked = self.worked + (cpu_time - last);
        }
        self.was_working = false;
    }

    /// CPU time of its work without its rests; none where no share of the time is asked.
    pub(super) fn worked(&self) -> Option<Nanos> {
        matches!(self.bucket.effort, Effort::Duty { .. }).then_some(self.worked)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: Nanos = Nanos(5_000);

    fn rate(per_second: u64, throttle: Throttle, threads: usize) -> Bucket {
        Bucket::new(Effort::Rate { per_second }, throttle, threads)
    }

    /// A thread of a simulated board.
    struct Thread {
        /// Nanoseconds of its own CPU for a piece of 1000 units.
        takes: i64,
        /// Of each 10 ms of the wall it has the CPU for so many.
        has_ms: i64,
        done: u64,
        cpu_time: i64,
        /// CPU time that the piece it is at needs still.
        left: i64,
    }

    fn thread(takes: i64, has_ms: i64) -> Thread {
        Thread {
            takes,
            has_ms,
            done: 0,
            cpu_time: 0,
            left: 0,
        }
    }

    /// Lets threads run side by side for so many milliseconds of the wall, in steps of 10 µs.
    fn simulate(bucket: &Bucket, threads: &mut [Thread], ms: i64) {
        const STEP: i64 = 10_000;
        let clock = |thread: &Thread, wall: i64| match bucket.throttle {
            Throttle::Spin => Nanos(thread.cpu_time),
            Throttle::Sleep => START + Nanos(wall),
        };
        let mut paces: Vec<Pace<'_>> = threads
            .iter()
            .map(|thread| Pace::new(bucket, clock(thread, 0)))
            .collect();
        for wall in (0..ms * 1_000_000).step_by(STEP as usize) {
            for (thread, pace) in threads.iter_mut().zip(&mut paces) {
                if wall % 10_000_000 >= thread.has_ms * 1_000_000 {
                    continue;
                }
                if thread.left == 0 {
                    let now = pace.time(clock(thread, wall));
                    if pace.due(now) <= now {
                        thread.left = thread.takes;
                    }
                }
                // It spins between two pieces, and its CPU time goes on.
                thread.cpu_time += STEP;
                if thread.left > 0 {
                    thread.left -= STEP;
                    if thread.left <= 0 {
                        thread.left = 0;
                        thread.done += 1000;
                        pace.did(1000);
                    }
                }
            }
        }
    }

    fn all(threads: &[Thread]) -> u64 {
        threads.iter().map(|thread| thread.done).sum()
    }

    #[test]
    fn a_slow_cpu_and_a_fast_one_keep_a_rate_that_half_of_it_would_be_too_much_for() {
        // One does 10 000 pieces a second, the other 2 000: half of 85 % would be 5 100 for each.
        for throttle in [Throttle::Spin, Throttle::Sleep] {
            for percent in [10, 40, 70, 85, 95] {
                let per_second = 12_000_000 * percent / 100;
                let bucket = rate(per_second, throttle, 2);
                let mut threads = [thread(100_000, 10), thread(500_000, 10)];
                simulate(&bucket, &mut threads, 2_000);
                let off = all(&threads) as f64 / (2.0 * per_second as f64) - 1.0;
                assert!(off.abs() <= 0.005, "{throttle:?} {percent} %: {off}");
                assert!(threads[1].done > 0, "the slow one works too");
            }
        }
    }

    #[test]
    fn equal_cpus_share_a_rate_evenly() {
        let bucket = rate(10_000_000, Throttle::Spin, 4);
        let mut threads = [(); 4].map(|()| thread(100_000, 10));
        simulate(&bucket, &mut threads, 1_000);
        for thread in &threads {
            let off = thread.done as f64 / 2_500_000.0 - 1.0;
            assert!(off.abs() <= 0.02, "{off}");
        }
    }

    #[test]
    fn one_that_spins_and_is_kept_from_running_falls_behind_and_the_others_do_not_rush() {
        // Both could do 10 000 pieces a second and shall do 10 000 together; one has half of its CPU.
        let bucket = rate(10_000_000, Throttle::Spin, 2);
        let mut threads = [thread(100_000, 10), thread(100_000, 5)];
        simulate(&bucket, &mut threads, 1_000);
        // The mean of their CPU times is 3/4 of the wall.
        let off = all(&threads) as f64 / 7_500_000.0 - 1.0;
        assert!(off.abs() <= 0.01, "{off}");
        // Once it has its CPU, the rate is what it was, and no more.
        let before = all(&threads);
        threads[1].has_ms = 10;
        simulate(&bucket, &mut threads, 1_000);
        let off = (all(&threads) - before) as f64 / 10_000_000.0 - 1.0;
        assert!(off.abs() <= 0.01, "{off}");
    }

    #[test]
    fn a_short_piece_gives_back_what_it_did_not_do() {
        let bucket = rate(1_000, Throttle::Spin, 1);
        let mut pace = Pace::new(&bucket, START);
        for units in [100, 100, 40, 100] {
            pace.due(Nanos::ZERO);
            pace.did(units);
        }
        assert_eq!(bucket.given(), 340);
        // A thousand a second: the next is due after 340 ms.
        assert_eq!(pace.due(Nanos::ZERO), Nanos::from_millis(340));
    }

    #[test]
    fn time_goes_on_by_the_mean_of_what_all_threads_had() {
        let bucket = rate(1_000, Throttle::Spin, 2);
        let (mut a, mut b) = (Pace::new(&bucket, START), Pace::new(&bucket, Nanos(7)));
        assert_eq!(a.time(START + Nanos(100_000)), Nanos(50_000));
        assert_eq!(b.time(Nanos(7 + 60_000)), Nanos(80_000));
        assert_eq!(a.time(START + Nanos(100_000)), Nanos(80_000));
        // A little more is not told to the other yet, and counts here.
        assert_eq!(a.time(START + Nanos(110_000)), Nanos(85_000));
        assert_eq!(b.time(Nanos(7 + 60_000)), Nanos(80_000));
    }

    /// CPU time worked in `span` at pieces of `takes` each.
    fn worked_in(bucket: &Bucket, span: i64, takes: i64) -> i64 {
        let mut pace = Pace::new(bucket, START);
        let mut now = START;
        while now.0 < START.0 + span {
            pace.look(now);
            let due = pace.due(now);
            if due > now {
                now = due;
            } else {
                now = now + Nanos(takes);
                pace.did(1);
            }
        }
        pace.look(now);
        pace.worked().unwrap().0
    }

    proptest! {
        #[test]
        fn a_rate_below_what_can_be_done_is_kept_exactly(share in 5_u64..95) {
            // A piece of 1000 units takes 1 ms, so 1 000 000 a second can be done.
            let bucket = rate(10_000 * share, Throttle::Spin, 1);
            let mut threads = [thread(1_000_000, 10)];
            simulate(&bucket, &mut threads, 500);
            let done = all(&threads);
            prop_assert!(done.abs_diff(5_000 * share) <= 2_000, "{done}");
        }

        #[test]
        fn a_duty_is_a_share_of_the_time(ppm in 1_000_u32..1_000_000, takes in 5_000_i64..60_000) {
            for throttle in [Throttle::Spin, Throttle::Sleep] {
                let bucket = Bucket::new(Effort::Duty { ppm }, throttle, 1);
                // A second is a hundred turns; a piece that is longer than its turn is taken off later ones.
                let worked = worked_in(&bucket, 1_000_000_000, takes);
                let wanted = i64::from(ppm) * 1_000;
                prop_assert!((worked - wanted).abs() <= takes, "{worked} {wanted}");
            }
        }
    }

    #[test]
    fn a_sleeper_that_was_held_up_makes_up_for_little() {
        let bucket = rate(1_000_000_000, Throttle::Sleep, 1);
        let mut pace = Pace::new(&bucket, START);
        let late = START + Nanos::from_secs(1);
        // Nothing done in a second: 20 ms of it are caught up.
        assert_eq!(pace.due(late), late - MOST_LAG);
        pace.did(20_000_000);
        assert_eq!(pace.due(late), late);
        // Nor does one that works a share of the time: two turns of a quarter, not a hundred.
        let bucket = Bucket::new(Effort::Duty { ppm: 250_000 }, Throttle::Sleep, 1);
        let mut pace = Pace::new(&bucket, START);
        let mut cpu_time = Nanos::ZERO;
        pace.look(cpu_time);
        while pace.due(late) <= late {
            pace.did(1);
            cpu_time = cpu_time + Nanos(100_000);
            pace.look(cpu_time);
        }
        assert_eq!(cpu_time, Nanos::from_millis(5));
    }

    #[test]
    fn full_effort_never_waits() {
        let bucket = Bucket::new(Effort::Full, Throttle::Spin, 1);
        let mut pace = Pace::new(&bucket, START);
        pace.did(u64::MAX);
        assert_eq!(pace.due(Nanos(77)), Nanos(77));
        assert_eq!((pace.worked(), bucket.given()), (None, 0));
    }
}
