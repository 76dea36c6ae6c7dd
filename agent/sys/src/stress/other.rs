//! Kernels for a processor that nobody wrote assembly for: word by word, by reads and writes that a
//! compiler must keep as they are. There is none that passes the caches by.

use std::hint::black_box;

use super::stride::{ABREAST, STRIDE};

pub(super) const HAS_NON_TEMPORAL: bool = false;

/// Bytes read, and the sum of all words.
pub(super) fn read(from: &[u64]) -> (u64, u64) {
    let (mut moved, mut sum) = (0, 0_u64);
    for word in from {
        sum = sum.wrapping_add(*black_box(word));
        moved += 8;
    }
    (moved, sum)
}

pub(super) fn write(to: &mut [u64], value: u64) -> u64 {
    let mut moved = 0;
    for word in to {
        *black_box(word) = value;
        moved += 8;
    }
    moved
}

pub(super) fn copy(to: &mut [u64], from: &[u64]) -> u64 {
    let mut moved = 0;
    for (word, source) in to.iter_mut().zip(from) {
        *black_box(word) = *source;
        moved += 16;
    }
    moved
}

pub(super) fn triad(to: &mut [u64], b: &[u64], c: &[u64], scale: f64) -> u64 {
    let mut moved = 0;
    for ((word, b), c) in to.iter_mut().zip(b).zip(c) {
        *black_box(word) = (f64::from_bits(*b) + scale * f64::from_bits(*c)).to_bits();
        moved += 24;
    }
    moved
}

/// Never asked for: [`HAS_NON_TEMPORAL`] is false.
pub(super) fn write_nt(to: &mut [u64], value: u64) -> u64 {
    write(to, value)
}

/// Never asked for: [`HAS_NON_TEMPORAL`] is false.
pub(super) fn copy_nt(to: &mut [u64], from: &[u64]) -> u64 {
    copy(to, from)
}

/// A word each of [`ABREAST`] lines, [`STRIDE`] bytes apart: their sum.
pub(super) fn read_apart(from: &[u64]) -> u64 {
    let words = from.iter().step_by(STRIDE / 8).take(ABREAST);
    words.fold(0, |sum, word| sum.wrapping_add(*black_box(word)))
}

/// Numbers multiplied and added, at least so many, and what came out.
pub(super) fn multiply_add(operations: u64) -> (u64, u64) {
    let mut sums = [0.0_f64; 8];
    let mut done = 0;
    while done < operations {
        for sum in &mut sums {
            *sum = black_box(*sum).mul_add(0.5, 1.0);
        }
        done += 8;
    }
    (done, sums.iter().sum::<f64>().to_bits())
}
