//! Reading a word of one line, then of the line that lies a page and a line further on: no prefetcher follows,
//! and every read is of another page.

use std::hint::black_box;
use std::io;

use super::{LINE, LINE_WORDS, Region, arch};

/// Bytes from one read to the next.
pub(super) const STRIDE: usize = 4096 + LINE;

/// Reads that the kernel makes side by side.
pub(super) const ABREAST: usize = 8;

/// Lines from one read to the next: after so many rounds every line was read once.
const LINES: usize = STRIDE / LINE;

/// Goes through a region by strides, again and again.
#[derive(Debug)]
pub struct Stride {
    region: Region,
    /// The line that is read next.
    at: usize,
    /// The line that this round began with.
    first: usize,
    checksum: u64,
}

impl Stride {
    /// # Errors
    /// When there is not so much memory.
    pub fn new(bytes: usize) -> io::Result<Self> {
        Ok(Self {
            region: Region::new(bytes)?,
            at: 0,
            first: 0,
            checksum: 0,
        })
    }

    /// Reads a word each of so many lines; returns the bytes of these lines.
    pub fn step(&mut self, lines: usize) -> u64 {
        let words = self.region.words();
        let mut left = lines;
        while left > 0 {
            let from = &words[self.at * LINE_WORDS..];
            let reads = match left >= ABREAST && from.len() * 8 >= ABREAST * STRIDE {
                true => {
                    self.checksum = self.checksum.wrapping_add(arch::read_apart(from));
                    ABREAST
                }
                false => {
                    self.checksum = self.checksum.wrapping_add(*black_box(&from[0]));
                    1
                }
            };
            left -= reads;
            self.at += reads * LINES;
            if self.at * LINE_WORDS >= words.len() {
                self.first = (self.first + 1) % LINES;
                self.at = self.first;
            }
        }
        (lines * LINE) as u64
    }

    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Sum of all words read so far.
    pub fn checksum(&self) -> u64 {
        self.checksum
    }
}

#[cfg(test)]
mod tests {
    use super::super::HUGE_PAGE;
    use super::*;

    #[test]
    fn every_line_is_read_once_a_round_of_rounds_a_page_and_a_line_apart() {
        let mut stride = Stride::new(HUGE_PAGE).unwrap();
        let lines = HUGE_PAGE / LINE;
        for (line, words) in stride
            .region
            .words_mut()
            .chunks_exact_mut(LINE_WORDS)
            .enumerate()
        {
            words[0] = line as u64;
        }
        // Lines 0, 65, 130, 195.
        assert_eq!(stride.step(4), 4 * 64);
        assert_eq!(stride.checksum(), 390);
        // Eight at once from 260 on: 8 * 260 + 65 * 28.
        assert_eq!(stride.step(8), 8 * 64);
        assert_eq!(stride.checksum(), 390 + 3_900);
        stride.step(lines - 12);
        let all = (lines * (lines - 1) / 2) as u64;
        assert_eq!(stride.checksum(), all);
        // Then from the beginning.
        stride.step(lines);
        assert_eq!(stride.checksum(), 2 * all);
        assert_eq!((stride.at, stride.first), (0, 0));
    }
}
