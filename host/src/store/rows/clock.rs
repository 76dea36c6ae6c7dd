//! What was learned of the clocks of board and host.

use edgedyno_shared::clocks::{
    ClockExchange, ClockMoment, ClockReading, Drift, ExchangeResult, FourStamps, drift,
};
use edgedyno_shared::units::Nanos;
use serde::{Deserialize, Serialize};

use super::common::stored_enum;

stored_enum! {
    /// Which end of its repeat an exchange belongs to.
    ClockMomentRow from ClockMoment { Before = "before", After = "after" }
}

/// One exchange. Without an answer all but the first three is null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockExchangeRow {
    pub moment: ClockMomentRow,
    /// `answered`, `no_host`, `silent`, or `unsound` where the stamps contradict each other.
    pub state: String,
    pub rounds: u32,
    pub asked_ns: Option<i64>,
    pub received_ns: Option<i64>,
    pub answered_ns: Option<i64>,
    pub heard_ns: Option<i64>,
    /// In hex.
    pub host_clock: Option<String>,
    pub host_unix_ns: Option<i64>,
    /// To be added to the board's clock to get the host's.
    pub offset_ns: Option<i64>,
    pub bound_ns: Option<i64>,
    /// Since the exchange before, positive when the host's clock is faster.
    pub drift_ppb: Option<i64>,
    pub drift_bound_ppb: Option<i64>,
}

impl ClockExchangeRow {
    /// `before`: the first exchange of the same repeat, for the second.
    pub fn of(exchange: &ClockExchange, before: Option<&Self>) -> Self {
        let mut row = Self {
            moment: exchange.moment.into(),
            state: state(&exchange.result).into(),
            rounds: 0,
            asked_ns: None,
            received_ns: None,
            answered_ns: None,
            heard_ns: None,
            host_clock: None,
            host_unix_ns: None,
            offset_ns: None,
            bound_ns: None,
            drift_ppb: None,
            drift_bound_ppb: None,
        };
        let ExchangeResult::Answered {
            best,
            rounds,
            host_clock,
            host_unix_ns,
        } = exchange.result
        else {
            return row;
        };
        row.rounds = rounds;
        row.asked_ns = Some(best.asked.0);
        row.received_ns = Some(best.received.0);
        row.answered_ns = Some(best.answered.0);
        row.heard_ns = Some(best.heard.0);
        row.host_clock = Some(format!("{host_clock:016x}"));
        row.host_unix_ns = Some(host_unix_ns);
        if !best.is_sound() {
            return row;
        }
        row.offset_ns = Some(best.offset().0);
        row.bound_ns = Some(best.bound().0);
        let drift = before.and_then(|before| row.drift_since(before));
        row.drift_ppb = drift.map(|drift| drift.ppb);
        row.drift_bound_ppb = drift.map(|drift| drift.bound_ppb);
        row
    }

    /// The stamps, when there is a sound answer.
    pub fn stamps(&self) -> Option<FourStamps> {
        let stamps = FourStamps {
            asked: Nanos(self.asked_ns?),
            received: Nanos(self.received_ns?),
            answered: Nanos(self.answered_ns?),
            heard: Nanos(self.heard_ns?),
        };
        stamps.is_sound().then_some(stamps)
    }

    fn drift_since(&self, before: &Self) -> Option<Drift> {
        if self.host_clock != before.host_clock {
            return None;
        }
        drift(before.stamps()?, self.stamps()?)
    }
}

fn state(result: &ExchangeResult) -> &'static str {
    match result {
        ExchangeResult::Answered { best, .. } if best.is_sound() => "answered",
        ExchangeResult::Answered { .. } => "unsound",
        ExchangeResult::NoHost => "no_host",
        ExchangeResult::Silent => "silent",
    }
}

/// The board's clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockReadingRow {
    pub monotonic_ns: i64,
    pub boottime_ns: Option<i64>,
    pub realtime_ns: Option<i64>,
    pub raw_ns: Option<i64>,
    pub took_ns: i64,
}

impl From<&ClockReading> for ClockReadingRow {
    fn from(reading: &ClockReading) -> Self {
        Self {
            monotonic_ns: reading.monotonic.0,
            boottime_ns: reading.boottime.map(|ns| ns.0),
            realtime_ns: reading.realtime.map(|ns| ns.0),
            raw_ns: reading.raw.map(|ns| ns.0),
            took_ns: reading.took.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(moment: ClockMoment, at: i64, offset: i64, host_clock: u64) -> ClockExchange {
        let best = FourStamps {
            asked: Nanos(at),
            received: Nanos(at + 100 + offset),
            answered: Nanos(at + 150 + offset),
            heard: Nanos(at + 250),
        };
        let result = ExchangeResult::Answered {
            best,
            rounds: 5,
            host_clock,
            host_unix_ns: 1_790_000_000_000_000_000,
        };
        ClockExchange { moment, result }
    }

    #[test]
    fn offset_bound_and_drift_stand_in_the_row() {
        let before = answered(ClockMoment::Before, 0, 5_000, 7);
        let before = ClockExchangeRow::of(&before, None);
        assert_eq!(
            (before.offset_ns, before.bound_ns),
            (Some(5_000), Some(101))
        );
        assert_eq!(before.drift_ppb, None);
        // A second later the host is 3 microseconds further ahead.
        let after = answered(ClockMoment::After, 1_000_000_000, 8_000, 7);
        let row = ClockExchangeRow::of(&after, Some(&before));
        assert_eq!(row.drift_ppb, Some(3_000));
        assert_eq!(row.drift_bound_ppb, Some(203));
        let elsewhere = answered(ClockMoment::After, 1_000_000_000, 8_000, 8);
        let row = ClockExchangeRow::of(&elsewhere, Some(&before));
        assert_eq!((row.drift_ppb, row.offset_ns), (None, Some(8_000)));
    }

    #[test]
    fn without_an_answer_nothing_is_known_and_the_state_says_why() {
        for (result, state) in [
            (ExchangeResult::NoHost, "no_host"),
            (ExchangeResult::Silent, "silent"),
        ] {
            let moment = ClockMoment::After;
            let row = ClockExchangeRow::of(&ClockExchange { moment, result }, None);
            assert_eq!((row.state.as_str(), row.rounds), (state, 0));
            assert_eq!(
                (row.offset_ns, row.bound_ns, row.stamps()),
                (None, None, None)
            );
        }
        let mut torn = answered(ClockMoment::Before, 0, 0, 7);
        if let ExchangeResult::Answered { best, .. } = &mut torn.result {
            best.heard = Nanos(-1);
        }
        let row = ClockExchangeRow::of(&torn, None);
        assert_eq!((row.state.as_str(), row.offset_ns), ("unsound", None));
        assert_eq!(row.heard_ns, Some(-1), "what came is kept");
    }
}
