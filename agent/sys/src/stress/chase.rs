//! A chain of reads, each of which needs the one before: what a memory access costs when it cannot be
//! hidden.

use std::io;

use super::{LINE, LINE_WORDS, Region, mixed};

/// One cycle through all lines of a region in random order (Sattolo 1986), so that no prefetcher knows
/// the next one and no part is left out.
#[derive(Debug)]
pub struct Chase {
    region: Region,
    at: usize,
}

impl Chase {
    /// # Errors
    /// When there is not so much memory.
    pub fn new(bytes: usize, seed: u64) -> io::Result<Self> {
        let mut region = Region::new(bytes)?;
        let words = region.words_mut();
        let lines = words.len() / LINE_WORDS;
        for line in 0..lines {
            words[line * LINE_WORDS] = (line * LINE_WORDS) as u64;
        }
        let mut state = seed | 1;
        for line in (1..lines).rev() {
            let other = (mixed(&mut state) % line as u64) as usize;
            words.swap(line * LINE_WORDS, other * LINE_WORDS);
        }
        Ok(Self { region, at: 0 })
    }

    /// Follows the chain; returns the bytes of the lines it came to.
    pub fn step(&mut self, hops: usize) -> u64 {
        let words = self.region.words();
        let mut at = self.at;
        let mut moved = 0;
        for _ in 0..hops {
            at = words[at] as usize;
            moved += LINE as u64;
        }
        self.at = at;
        moved
    }

    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Where the chain has come to: it depends on every read before.
    pub fn checksum(&self) -> u64 {
        self.at as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_comes_to_every_line_once_and_back() {
        let mut chase = Chase::new(1, 7).unwrap();
        let lines = chase.region().bytes() / LINE;
        let mut seen = vec![false; lines];
        for _ in 0..lines {
            assert_eq!(chase.step(1), 64);
            let line = chase.checksum() as usize / LINE_WORDS;
            assert!(!std::mem::replace(&mut seen[line], true));
        }
        assert_eq!(chase.checksum(), 0);
    }
}
