//! What a model that runs beside another has been told: set by whoever hears the daemon, looked at by the
//! loop between two trials.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// How far the case beside which it runs has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// It settles or warms up: trials of this time are warm-up too.
    Begin = 0,
    /// Its window is open.
    Measure = 1,
    End = 2,
}

/// The last word; it only ever goes forward.
#[derive(Debug, Default)]
pub struct LastWord(AtomicU8);

impl LastWord {
    pub fn say(&self, told: Told) {
        self.0.fetch_max(told as u8, Relaxed);
    }

    #[inline]
    pub fn get(&self) -> Told {
        match self.0.load(Relaxed) {
            0 => Told::Begin,
            1 => Told::Measure,
            _ => Told::End,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_stays_an_end() {
        let word = LastWord::default();
        assert_eq!(word.get(), Told::Begin);
        for (told, then) in [
            (Told::Measure, Told::Measure),
            (Told::End, Told::End),
            (Told::Measure, Told::End),
        ] {
            word.say(told);
            assert_eq!(word.get(), then);
        }
    }
}
