//! The last bytes of a stream, and how many there were in all.

use std::collections::VecDeque;

/// Bytes kept of each of a worker's streams.
pub const KEPT: usize = 64 * 1024;

/// Keeps the end of what goes by.
#[derive(Debug, Default, Clone)]
pub struct Tail {
    kept: VecDeque<u8>,
    total: u64,
}

impl Tail {
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let bytes = &bytes[bytes.len().saturating_sub(KEPT)..];
        let over = (self.kept.len() + bytes.len()).saturating_sub(KEPT);
        self.kept.drain(..over);
        self.kept.extend(bytes);
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    /// The kept end as text; what is no UTF-8 or a control character becomes a replacement mark.
    pub fn text(&self) -> String {
        let bytes: Vec<u8> = self.kept.iter().copied().collect();
        let clean = |c: char| {
            if c.is_control() && c != '\n' && c != '\t' {
                '\u{fffd}'
            } else {
                c
            }
        };
        String::from_utf8_lossy(&bytes).chars().map(clean).collect()
    }

    /// The last `count` lines that are not empty.
    pub fn last_lines(&self, count: usize) -> String {
        let text = self.text();
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        lines[lines.len().saturating_sub(count)..].join("\n")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_end_is_kept_whatever_the_pieces(pieces in proptest::collection::vec(0_usize..90_000, 0..6)) {
            let all: Vec<u8> = (0..pieces.iter().sum::<usize>()).map(|i| b'a' + (i % 23) as u8).collect();
            let (mut tail, mut rest) = (Tail::default(), &all[..]);
            for piece in pieces {
                tail.push(&rest[..piece]);
                rest = &rest[piece..];
            }
            let expected = &all[all.len().saturating_sub(KEPT)..];
            let text = tail.text();
            prop_assert_eq!(text.as_bytes(), expected);
            prop_assert_eq!(tail.total(), all.len() as u64);
        }
    }

    #[test]
    fn the_last_lines_are_those_with_something_in_them() {
        let mut tail = Tail::default();
        tail.push(b"one\ntwo\n\nthree\n\n");
        assert_eq!(tail.last_lines(2), "two\nthree");
    }
}
