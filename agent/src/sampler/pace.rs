//! How often a thread reads: more seldom while the threads of a watch cost more than they may together.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use edgedyno_shared::telemetry::TelemetryMode;
use edgedyno_shared::units::Nanos;

/// Threads of a watch.
pub(super) const THREADS: usize = 2;

/// Periods are stretched so far at most.
const MOST_STRETCHED: i64 = 16;

/// Calm for so long, a thread reads twice as often again; each time that this was too early, it waits twice as
/// long, up to the second.
const CALM: Nanos = Nanos::from_secs(60);
const LONGEST_CALM: Nanos = Nanos::from_secs(16 * 60);

/// Room for what is told.
const MOST_TOLD: usize = 32;

/// Parts in a million of one core that reading may cost.
const fn budget_ppm(mode: TelemetryMode) -> i64 {
    match mode {
        TelemetryMode::Fast => 10_000,
        TelemetryMode::Off | TelemetryMode::Normal => 5_000,
    }
}

/// What each thread of a watch cost lately, in parts in a million of a core.
#[derive(Debug, Default)]
pub(super) struct Costs([AtomicI64; THREADS]);

impl Costs {
    /// Tells what the thread at that place costs; gives what all cost.
    fn tell(&self, place: usize, share: i64) -> i64 {
        let others = self.0.iter().enumerate().filter(|(at, _)| *at != place);
        let others = others.map(|(_, cost)| cost.load(Ordering::Acquire));
        let all = others.sum::<i64>() + share;
        if let Some(own) = self.0.get(place) {
            own.store(share, Ordering::Release);
        }
        all
    }
}

/// The pace of one thread.
#[derive(Debug)]
pub(super) struct Pace {
    budget_ppm: i64,
    stretch: i64,
    costs: Arc<Costs>,
    place: usize,
    /// Since when it has cost less than half of the budget, and for how long that is to last.
    calm_since: Option<Nanos>,
    calm_for: Nanos,
    has_relaxed: bool,
    told: Vec<(Nanos, Told)>,
    is_dear_told: bool,
}

#[derive(Debug, Clone, Copy)]
enum Told {
    Slowed {
        share: i64,
    },
    Relaxed,
    /// What is asked costs more than all reading may.
    Asked {
        share: i64,
    },
}

impl Pace {
    pub(super) fn new(mode: TelemetryMode) -> Self {
        Self {
            budget_ppm: budget_ppm(mode),
            stretch: 1,
            costs: Arc::default(),
            place: 0,
            calm_since: None,
            calm_for: CALM,
            has_relaxed: false,
            told: Vec::with_capacity(MOST_TOLD),
            is_dear_told: false,
        }
    }

    pub(super) fn share(&mut self, costs: Arc<Costs>, place: usize) {
        self.costs = costs;
        self.place = place;
    }

    /// Periods are so many times as long.
    pub(super) fn stretch(&self) -> i64 {
        self.stretch
    }

    /// Takes in what this thread cost since the look before, and the processes that it asks. Allocates nothing.
    pub(super) fn look(&mut self, now: Nanos, own: i64, of_asked: i64) {
        let all = self.costs.tell(self.place, own);
        // Reading them more seldom would not make them cheaper.
        if of_asked > self.budget_ppm && !std::mem::replace(&mut self.is_dear_told, true) {
            self.tell(now, Told::Asked { share: of_asked });
        }
        if all > self.budget_ppm {
            self.calm_since = None;
            // Of two that cost too much together, the one that costs most is over its half.
            if 2 * own > self.budget_ppm && self.stretch < MOST_STRETCHED {
                self.slow_down(now, all);
            }
        } else if 2 * all >= self.budget_ppm {
            self.calm_since = None;
        } else {
            self.relax_after_calm(now);
        }
    }

    fn slow_down(&mut self, now: Nanos, share: i64) {
        self.stretch *= 2;
        if std::mem::take(&mut self.has_relaxed) {
            self.calm_for = Nanos((2 * self.calm_for.0).min(LONGEST_CALM.0));
        }
        self.tell(now, Told::Slowed { share });
    }

    /// Twice as often costs twice as much, which is within the budget still.
    fn relax_after_calm(&mut self, now: Nanos) {
        let since = *self.calm_since.get_or_insert(now);
        if self.stretch > 1 && now - since >= self.calm_for {
            self.stretch /= 2;
            self.calm_since = None;
            self.has_relaxed = true;
            self.tell(now, Told::Relaxed);
        }
    }

    fn tell(&mut self, now: Nanos, what: Told) {
        if self.told.len() < self.told.capacity() {
            self.told.push((now, what));
        }
    }

    /// What came of it, as codes and texts of events.
    pub(super) fn told(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        let budget = self.budget_ppm;
        self.told.iter().map(move |(at, what)| match what {
            Told::Slowed { share } => (
                "sampler_slowed",
                format!(
                    "at {} ns the sampler had used {share} ppm of a core, more than {budget}: it reads half as often",
                    at.0
                ),
            ),
            Told::Relaxed => (
                "sampler_relaxed",
                format!(
                    "at {} ns the sampler had been well below {budget} ppm of a core for long: it reads twice as often again",
                    at.0
                ),
            ),
            Told::Asked { share } => (
                "sensor_dear",
                format!(
                    "at {} ns processes that tell what files do not had used {share} ppm of a core, more than the {budget} of all reading: `sensor.NAME.cpu` names them",
                    at.0
                ),
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: i64 = 2;

    /// Looks every two seconds while reading costs so much at its full pace; the stretch after each.
    fn go(pace: &mut Pace, now_s: &mut i64, seconds: i64, cost_ppm: i64) -> Vec<i64> {
        let looks = (0..seconds / LOOK).map(|_| {
            *now_s += LOOK;
            pace.look(Nanos::from_secs(*now_s), cost_ppm / pace.stretch(), 0);
            pace.stretch()
        });
        looks.collect()
    }

    fn codes(pace: &Pace) -> Vec<&'static str> {
        pace.told().map(|(code, _)| code).collect()
    }

    #[test]
    fn what_was_dear_for_a_while_is_read_as_often_as_before_a_minute_later() {
        let (mut pace, mut now) = (Pace::new(TelemetryMode::Normal), 0);
        // 2 % of a core, 0.5 % are allowed: a quarter of it is just that.
        assert_eq!(go(&mut pace, &mut now, 10, 20_000), [2, 4, 4, 4, 4]);
        // 0.8 % would be 0.2 % at a quarter of the pace and 0.4 % at half of it.
        let calm = go(&mut pace, &mut now, 300, 8_000);
        // The first calm look begins the minute.
        assert_eq!(calm[..30], [4; 30]);
        assert_eq!(calm[30..], [2; 120], "0.4 % is no calm");
        assert_eq!(go(&mut pace, &mut now, 62, 1_000)[30], 1);
        assert_eq!(
            codes(&pace),
            [
                "sampler_slowed",
                "sampler_slowed",
                "sampler_relaxed",
                "sampler_relaxed"
            ]
        );
    }

    #[test]
    fn a_cost_that_comes_and_goes_makes_it_wait_longer_each_time() {
        let (mut pace, mut now) = (Pace::new(TelemetryMode::Normal), 0);
        let mut calms = Vec::new();
        for _ in 0..6 {
            assert_eq!(go(&mut pace, &mut now, 2, 6_000), [2], "0.6 % is too much");
            let calm = go(&mut pace, &mut now, 1200, 1_000);
            calms.push(calm.iter().take_while(|stretch| **stretch == 2).count() as i64 * LOOK);
        }
        assert_eq!(calms, [60, 120, 240, 480, 960, 960]);
    }

    #[test]
    fn threads_have_one_budget_and_who_takes_most_of_it_slows_down() {
        let costs = Arc::new(Costs::default());
        let mut both = [0, 1].map(|place| {
            let mut pace = Pace::new(TelemetryMode::Normal);
            pace.share(Arc::clone(&costs), place);
            pace
        });
        // 0.4 % and 0.2 %: neither is too much alone.
        for second in 1..5 {
            for (pace, cost) in both.iter_mut().zip([4_000, 2_000]) {
                let own = cost / pace.stretch();
                pace.look(Nanos::from_secs(2 * second), own, 0);
            }
        }
        assert_eq!(both.map(|pace| pace.stretch()), [2, 1]);
    }

    #[test]
    fn a_process_that_is_dear_is_told_once_and_slows_nothing_down() {
        let mut pace = Pace::new(TelemetryMode::Normal);
        for second in 1..5 {
            pace.look(Nanos::from_secs(2 * second), 1_000, 9_000);
        }
        assert_eq!(pace.stretch(), 1);
        assert_eq!(codes(&pace), ["sensor_dear"]);
    }

    #[test]
    fn the_stretch_has_an_end() {
        let (mut pace, mut now) = (Pace::new(TelemetryMode::Fast), 0);
        assert_eq!(
            go(&mut pace, &mut now, 12, 1_000_000),
            [2, 4, 8, 16, 16, 16]
        );
    }
}
