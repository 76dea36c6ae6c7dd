//! Changing one word of every line again and again: other data are driven out of a cache of that size.

use std::io;

use super::{LINE, LINE_WORDS, Region};

/// Goes round a region line by line, reading and writing each.
#[derive(Debug)]
pub struct Thrash {
    region: Region,
    words: usize,
    at: usize,
}

impl Thrash {
    /// `bytes` is the part that is gone round, in whole lines; the region holding it may be larger.
    ///
    /// # Errors
    /// When there is not so much memory.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let bytes = bytes.max(LINE).next_multiple_of(LINE);
        Ok(Self {
            region: Region::new(bytes)?,
            words: bytes / 8,
            at: 0,
        })
    }

    /// Changes so many lines; returns the bytes of the lines read and written.
    pub fn step(&mut self, lines: usize) -> u64 {
        let words = &mut self.region.words_mut()[..self.words];
        let mut moved = 0;
        for _ in 0..lines {
            words[self.at] = std::hint::black_box(words[self.at]).wrapping_add(1);
            self.at += LINE_WORDS;
            if self.at >= words.len() {
                self.at = 0;
            }
            moved += 2 * LINE as u64;
        }
        moved
    }

    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Sum over the first words of all lines: the number of changes made.
    pub fn checksum(&self) -> u64 {
        let words = &self.region.words()[..self.words];
        words.iter().step_by(LINE_WORDS).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_is_made_and_counted() {
        let mut thrash = Thrash::new(3 * LINE).unwrap();
        assert_eq!(thrash.step(7), 7 * 128);
        assert_eq!(thrash.checksum(), 7);
        assert_eq!(thrash.region().words()[0], 3);
        assert_eq!(thrash.region().words()[3 * LINE_WORDS], 0);
    }
}
