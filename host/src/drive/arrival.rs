//! How far a repeat has come that takes its time to arrive. A state machine: time comes in as an argument.

use std::time::Duration;

use super::DriveEvent;
use crate::store::Received;

/// A repeat that arrives within this time needs no word.
const SILENT: Duration = Duration::from_secs(2);

/// Nobody reads faster.
const PERIOD: Duration = Duration::from_millis(250);

/// Bytes of one repeat on their way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Arrival {
    /// Of all that came.
    bytes: u64,
    /// Of files made on the board, which say beforehand how large they are.
    files: u64,
    announced: u64,
    told: Duration,
}

impl Arrival {
    /// Counts a record that came `after` the repeat's begin; what is to be said of it.
    pub(super) fn note(
        &mut self,
        received: Received,
        bytes: usize,
        after: Duration,
    ) -> Option<DriveEvent> {
        self.bytes += bytes as u64;
        match received {
            Received::Announced { bytes } => self.announced += bytes,
            Received::Part { bytes } => self.files += bytes,
            _ => {}
        }
        if after < SILENT || after < self.told + PERIOD {
            return None;
        }
        self.told = after;
        Some(match self.announced {
            0 => DriveEvent::Receiving {
                done: self.bytes,
                total: None,
            },
            announced => DriveEvent::Receiving {
                done: self.files,
                total: Some(announced),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_repeat_that_comes_soon_is_not_spoken_of_and_a_slow_one_four_times_a_second() {
        let mut arrival = Arrival::default();
        let mut at_times = |times: &[u64]| {
            let told = times.iter().map(|time| {
                let event = arrival.note(Received::Typed, 10, at(*time));
                event.map(|event| match event {
                    DriveEvent::Receiving { done, total } => (done, total),
                    other => panic!("{other:?}"),
                })
            });
            told.collect::<Vec<_>>()
        };
        assert_eq!(at_times(&[0, 1000, 1999]), [None, None, None]);
        assert_eq!(
            at_times(&[2000, 2100, 2249, 2250]),
            [Some((40, None)), None, None, Some((70, None))]
        );
    }

    #[test]
    fn files_say_how_much_is_still_to_come() {
        let mut arrival = Arrival::default();
        let announced = Received::Announced { bytes: 1000 };
        assert_eq!(arrival.note(announced, 30, at(0)), None);
        let part = Received::Part { bytes: 400 };
        let told = arrival.note(part, 410, at(5000));
        let expected = DriveEvent::Receiving {
            done: 400,
            total: Some(1000),
        };
        assert_eq!(told, Some(expected));
    }
}
