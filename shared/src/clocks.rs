//! Clocks: what a board's own say of each other, and how the host's stands to them.
//!
//! An agent asks its host for four stamps (RFC 5905, section 8) before and after each repeat, never while
//! a window is open. No latency is made from stamps of two clocks.

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// The board's clocks, read one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockReading {
    /// CLOCK_MONOTONIC, read first; every stamp of a repeat is of this clock.
    pub monotonic: Nanos,
    /// The same counting suspension; none where the kernel has no such clock.
    pub boottime: Option<Nanos>,
    /// Since 1970.
    pub realtime: Option<Nanos>,
    /// CLOCK_MONOTONIC_RAW, which nobody slews.
    pub raw: Option<Nanos>,
    /// From the first read to the end of the last: how far apart they may be.
    pub took: Nanos,
}

/// One question and its answer: two stamps of who asks, two of who answers, each by its monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FourStamps {
    pub asked: Nanos,
    pub received: Nanos,
    pub answered: Nanos,
    pub heard: Nanos,
}

impl FourStamps {
    /// What must be added to the asker's clock to get the answerer's, if both ways took equally long.
    pub fn offset(self) -> Nanos {
        let there = i128::from(self.received.0) - i128::from(self.asked.0);
        let back = i128::from(self.answered.0) - i128::from(self.heard.0);
        let half = (there + back) / 2;
        Nanos(i64::try_from(half).unwrap_or(if half > 0 { i64::MAX } else { i64::MIN }))
    }

    /// Time on the way, there and back.
    pub fn round_trip(self) -> Nanos {
        (self.heard - self.asked) - (self.answered - self.received)
    }

    /// The true offset is no further than this from [`Self::offset`], whatever each way took: half the
    /// round trip, and the nanosecond that the two halves may have lost.
    pub fn bound(self) -> Nanos {
        Nanos(self.round_trip().0 / 2 + 1)
    }

    /// The middle, by the asker's clock: the moment for which the offset holds.
    pub fn at(self) -> Nanos {
        Nanos(self.asked.0 + (self.heard.0 - self.asked.0) / 2)
    }

    /// Whether the stamps of each side are in order and leave no negative time for the way.
    pub fn is_sound(self) -> bool {
        let (whole, inside) = (self.heard.0.checked_sub(self.asked.0), self.answered.0);
        let inside = inside.checked_sub(self.received.0);
        matches!((whole, inside), (Some(whole), Some(inside)) if 0 <= inside && inside <= whole)
    }
}

/// The stamps with the shortest round trip, which bound the offset best.
pub fn best(rounds: &[FourStamps]) -> Option<FourStamps> {
    let sound = rounds.iter().filter(|stamps| stamps.is_sound());
    sound.min_by_key(|stamps| stamps.round_trip()).copied()
}

/// How fast the answerer's clock runs against the asker's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drift {
    /// Parts in a thousand million, positive when the answerer's is faster.
    pub ppb: i64,
    /// The true drift is no further than this from it.
    pub bound_ppb: i64,
}

/// Drift from two exchanges with the same answerer; none when no time lies between them.
pub fn drift(before: FourStamps, after: FourStamps) -> Option<Drift> {
    let span = i128::from(after.at().0) - i128::from(before.at().0);
    if span <= 0 {
        return None;
    }
    let moved = i128::from(after.offset().0) - i128::from(before.offset().0);
    let unsure = i128::from(after.bound().0) + i128::from(before.bound().0);
    let ppb = |ns: i128| i64::try_from(ns * 1_000_000_000 / span).ok();
    Some(Drift {
        ppb: ppb(moved)?,
        bound_ppb: ppb(unsure)?.checked_add(1)?,
    })
}

/// Which end of a repeat something belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClockMoment {
    /// Before the worker was started.
    Before,
    /// After it ended.
    After,
}

impl ClockMoment {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

/// What asking the host came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockExchange {
    pub moment: ClockMoment,
    pub result: ExchangeResult,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExchangeResult {
    Answered {
        /// Of the rounds that were answered, the one with the shortest way.
        best: FourStamps,
        /// How many were.
        rounds: u32,
        /// Names the host's clock: drift holds only between two exchanges with the same.
        host_clock: u64,
        /// The host's wall clock when it gave that answer.
        host_unix_ns: i64,
    },
    /// No host was connected.
    NoHost,
    /// One was, and did not answer in time.
    Silent,
}

/// Sent by the agent: its number, which the answer repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockQuestion {
    pub number: u64,
}

/// Sent by the host at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockAnswer {
    pub number: u64,
    /// By the host's monotonic clock.
    pub received: Nanos,
    pub answered: Nanos,
    pub unix_ns: i64,
    /// Chosen by chance when the host's process begins.
    pub clock: u64,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Stamps of an exchange between clocks that differ by `offset`, with these times on the way.
    fn exchange(at: i64, offset: i64, there: i64, inside: i64, back: i64) -> FourStamps {
        FourStamps {
            asked: Nanos(at),
            received: Nanos(at + there + offset),
            answered: Nanos(at + there + inside + offset),
            heard: Nanos(at + there + inside + back),
        }
    }

    #[test]
    fn equal_ways_give_the_offset_itself() {
        let stamps = exchange(1_000, 500, 30, 7, 30);
        assert_eq!(stamps.offset(), Nanos(500));
        assert_eq!(stamps.round_trip(), Nanos(60));
        assert_eq!(stamps.bound(), Nanos(31));
        assert_eq!(stamps.at(), Nanos(1_033));
    }

    #[test]
    fn the_shortest_way_wins_and_nonsense_never_does() {
        let good = exchange(0, 5, 10, 0, 20);
        let slow = exchange(100, 5, 300, 0, 20);
        let nonsense = FourStamps {
            answered: Nanos(0),
            ..exchange(200, 5, 1, 1, 1)
        };
        assert_eq!(best(&[slow, nonsense, good]), Some(good));
        assert_eq!(best(&[nonsense]), None);
        assert_eq!(best(&[]), None);
    }

    #[test]
    fn a_clock_that_gains_a_microsecond_in_ten_seconds_drifts_by_a_tenth_of_a_millionth() {
        let before = exchange(0, 0, 50, 0, 50);
        let after = exchange(10_000_000_000, 1_000, 50, 0, 50);
        let drift = drift(before, after).unwrap();
        assert_eq!(drift.ppb, 100);
        // 51 ns on either side of ten seconds are 10.2.
        assert_eq!(drift.bound_ppb, 11);
        assert_eq!(super::drift(after, before), None);
    }

    proptest! {
        #[test]
        fn the_true_offset_lies_inside_the_bound_however_unequal_the_ways(
            at in -1_i64 << 60..1 << 60,
            offset in -1_i64 << 60..1 << 60,
            there in 0_i64..1 << 40,
            inside in 0_i64..1 << 40,
            back in 0_i64..1 << 40,
        ) {
            let stamps = exchange(at, offset, there, inside, back);
            prop_assert!(stamps.is_sound());
            prop_assert!((stamps.offset().0 - offset).abs() <= stamps.bound().0);
            prop_assert_eq!(stamps.round_trip().0, there + back);
        }

        #[test]
        fn the_true_drift_lies_inside_its_bound(
            offset in -1_i64 << 50..1 << 50,
            true_ppb in -500_000_i64..500_000,
            seconds in 1_i64..3_600,
            ways in proptest::array::uniform4(0_i64..5_000_000),
        ) {
            // The offset of a drifting clock at a moment, exchanges being short against the drift.
            let span = seconds * 1_000_000_000;
            let moved = i64::try_from(i128::from(span) * i128::from(true_ppb) / 1_000_000_000).unwrap();
            let [a, b, c, d] = ways;
            let before = exchange(-(a + b) / 2, offset, a, 0, b);
            let after = exchange(span - (c + d) / 2, offset + moved, c, 0, d);
            let found = drift(before, after).unwrap();
            // What is cut off behind the nanosecond, and behind the part in a thousand million.
            prop_assert!((found.ppb - true_ppb).abs() <= found.bound_ppb + 2, "{found:?}");
        }

        #[test]
        fn hostile_stamps_never_panic(stamps: [i64; 4], others: [i64; 4]) {
            let of = |[a, b, c, d]: [i64; 4]| FourStamps {
                asked: Nanos(a),
                received: Nanos(b),
                answered: Nanos(c),
                heard: Nanos(d),
            };
            let (one, two) = (of(stamps), of(others));
            if let (Some(one), Some(two)) = (best(&[one]), best(&[two])) {
                let _ = (one.offset(), one.bound(), drift(one, two));
            }
        }
    }
}
