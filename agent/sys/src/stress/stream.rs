//! Going through memory in order, as STREAM does: reading, writing, copying, adding.

use std::io;

use super::{Region, arch};

/// What is done with each byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Wide loads into four sums.
    Read,
    /// Plain stores: a cache fetches each line before it is overwritten.
    Write,
    /// Stores that pass the caches by.
    WriteNt,
    Copy,
    /// Copies by stores that pass the caches by.
    CopyNt,
    /// `a = b + s * c` over doubles.
    Triad,
}

impl Pattern {
    pub const ALL: [Self; 6] = [
        Self::Read,
        Self::Write,
        Self::WriteNt,
        Self::Copy,
        Self::CopyNt,
        Self::Triad,
    ];

    /// Arrays it goes through, all of one size.
    pub const fn arrays(self) -> usize {
        match self {
            Self::Read | Self::Write | Self::WriteNt => 1,
            Self::Copy | Self::CopyNt => 2,
            Self::Triad => 3,
        }
    }

    /// Whether there is a kernel for it on this processor.
    pub const fn is_built(self) -> bool {
        match self {
            Self::WriteNt | Self::CopyNt => arch::HAS_NON_TEMPORAL,
            _ => true,
        }
    }
}

/// Bytes of each array in one step are a multiple of this.
pub(super) const BLOCK: usize = 256;

/// A pattern on arrays of its own, going round for ever.
#[derive(Debug)]
pub struct Stream {
    pattern: Pattern,
    arrays: Vec<Region>,
    /// Where the next step begins, in words of each array.
    at: usize,
    value: u64,
    checksum: u64,
}

impl Stream {
    /// `bytes` are those of all its arrays together.
    ///
    /// # Errors
    /// When there is not so much memory, or no kernel for this processor.
    pub fn new(pattern: Pattern, bytes: usize) -> io::Result<Self> {
        if !pattern.is_built() {
            let text = format!("there is no {pattern:?} kernel for this processor");
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let of_each = bytes / pattern.arrays();
        let arrays = (0..pattern.arrays()).map(|_| Region::new(of_each));
        let mut arrays: Vec<Region> = arrays.collect::<io::Result<_>>()?;
        for array in &mut arrays {
            array.words_mut().fill(f64::to_bits(1.0));
        }
        Ok(Self {
            pattern,
            arrays,
            at: 0,
            value: 0,
            checksum: 0,
        })
    }

    /// Goes on by so many bytes of each array, up to their end, where the next round begins; returns the
    /// bytes read and written.
    pub fn step(&mut self, bytes: usize) -> u64 {
        let words = bytes.next_multiple_of(BLOCK) / 8;
        let end = self.arrays[0].words().len();
        let range = self.at..(self.at + words).min(end);
        self.at = if range.end == end { 0 } else { range.end };
        self.value = self.value.wrapping_add(1);
        let (first, rest) = self.arrays.split_at_mut(1);
        let target = &mut first[0].words_mut()[range.clone()];
        let source = |at: usize| &rest[at].words()[range.clone()];
        match self.pattern {
            Pattern::Read => {
                let (moved, sum) = arch::read(target);
                self.checksum = self.checksum.wrapping_add(sum);
                moved
            }
            Pattern::Write => arch::write(target, self.value),
            Pattern::WriteNt => arch::write_nt(target, self.value),
            Pattern::Copy => arch::copy(target, source(0)),
            Pattern::CopyNt => arch::copy_nt(target, source(0)),
            Pattern::Triad => arch::triad(target, source(0), source(1), 3.0),
        }
    }

    /// Bytes of all arrays.
    pub fn bytes(&self) -> u64 {
        self.arrays.iter().map(|array| array.bytes() as u64).sum()
    }

    /// Bytes of them in large pages; none where the kernel does not say.
    pub fn huge_bytes(&self) -> Option<u64> {
        self.arrays.iter().map(Region::huge_bytes).sum()
    }

    /// Sum of all words read so far, for [`Pattern::Read`]; what stands in the arrays, for the others.
    pub fn checksum(&self) -> u64 {
        match self.pattern {
            Pattern::Read => self.checksum,
            _ => {
                let words = self.arrays[0].words().iter();
                words.fold(0, |sum, word| sum.wrapping_add(*word))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARRAY: usize = super::super::HUGE_PAGE;
    const ONE: u64 = 0x3ff0_0000_0000_0000;

    fn stream(pattern: Pattern) -> Stream {
        Stream::new(pattern, ARRAY * pattern.arrays()).unwrap()
    }

    #[test]
    fn bytes_are_counted_once_read_and_once_written() {
        for (pattern, of_each) in [
            (Pattern::Read, 1),
            (Pattern::Write, 1),
            (Pattern::WriteNt, 1),
            (Pattern::Copy, 2),
            (Pattern::CopyNt, 2),
            (Pattern::Triad, 3),
        ] {
            if !pattern.is_built() {
                continue;
            }
            let mut stream = stream(pattern);
            assert_eq!(stream.step(4096), of_each * 4096, "{pattern:?}");
            // What is left of the round is less than was asked for.
            assert_eq!(
                stream.step(ARRAY),
                of_each * (ARRAY as u64 - 4096),
                "{pattern:?}"
            );
            assert_eq!(stream.step(1), of_each * 256, "{pattern:?}");
        }
    }

    #[test]
    fn a_sum_holds_every_word_that_was_read() {
        let mut stream = stream(Pattern::Read);
        for (word, value) in stream.arrays[0].words_mut().iter_mut().zip(0..) {
            *word = value;
        }
        stream.step(ARRAY);
        let words = (ARRAY / 8) as u64;
        assert_eq!(stream.checksum(), words * (words - 1) / 2);
        stream.step(256);
        assert_eq!(stream.checksum(), words * (words - 1) / 2 + 31 * 32 / 2);
    }

    #[test]
    fn a_store_is_where_it_belongs_and_nowhere_else() {
        for pattern in [Pattern::Write, Pattern::WriteNt] {
            if !pattern.is_built() {
                continue;
            }
            let mut stream = stream(pattern);
            stream.step(512);
            let words = stream.arrays[0].words();
            assert!(words[..64].iter().all(|word| *word == 1), "{pattern:?}");
            assert!(words[64..].iter().all(|word| *word == ONE), "{pattern:?}");
        }
    }

    #[test]
    fn a_copy_is_the_source_and_a_triad_the_sum() {
        for pattern in [Pattern::Copy, Pattern::CopyNt] {
            if !pattern.is_built() {
                continue;
            }
            let mut stream = stream(pattern);
            for (word, value) in stream.arrays[1].words_mut().iter_mut().zip(5..) {
                *word = value;
            }
            stream.step(1024);
            let words = stream.arrays[0].words();
            assert!(words[..128].iter().copied().eq(5..133), "{pattern:?}");
            assert_eq!(words[128], ONE, "{pattern:?}");
        }
        let mut stream = stream(Pattern::Triad);
        for (word, value) in stream.arrays[1].words_mut().iter_mut().zip(0_u32..) {
            *word = f64::from(value).to_bits();
        }
        stream.step(1024);
        let words = stream.arrays[0].words();
        let expected = (0_u32..128).map(|at| f64::from(at) + 3.0);
        assert!(
            words[..128]
                .iter()
                .map(|word| f64::from_bits(*word))
                .eq(expected)
        );
        assert_eq!(words[128], ONE);
    }
}
