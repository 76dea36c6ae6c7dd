//! Kernels for aarch64: pairs of vectors of 16 bytes, which every such processor has.

use std::arch::aarch64::{
    float64x2_t, uint64x2_t, vdupq_n_f64, vdupq_n_u64, vgetq_lane_f64, vgetq_lane_u64,
};
use std::arch::asm;

use super::stream::BLOCK;
use super::stride::{ABREAST, STRIDE};

pub(super) const HAS_NON_TEMPORAL: bool = true;

/// Bytes of one block of assembly: eight vectors.
const STEP: usize = 128;

/// Bytes read, and the sum of all words.
pub(super) fn read(from: &[u64]) -> (u64, u64) {
    check(from);
    let mut moved = 0;
    let mut at = from.as_ptr();
    let [mut a, mut b, mut c, mut d]: [uint64x2_t; 4] = [zero(); 4];
    while moved < from.len() * 8 {
        // SAFETY: reads STEP bytes of the slice, whose length is a multiple of it.
        unsafe {
            asm!(
                "ldp {t:q}, {u:q}, [{p}]",
                "ldp {v:q}, {w:q}, [{p}, #32]",
                "add {a:v}.2d, {a:v}.2d, {t:v}.2d",
                "add {b:v}.2d, {b:v}.2d, {u:v}.2d",
                "ldp {t:q}, {u:q}, [{p}, #64]",
                "add {c:v}.2d, {c:v}.2d, {v:v}.2d",
                "add {d:v}.2d, {d:v}.2d, {w:v}.2d",
                "ldp {v:q}, {w:q}, [{p}, #96]",
                "add {a:v}.2d, {a:v}.2d, {t:v}.2d",
                "add {b:v}.2d, {b:v}.2d, {u:v}.2d",
                "add {c:v}.2d, {c:v}.2d, {v:v}.2d",
                "add {d:v}.2d, {d:v}.2d, {w:v}.2d",
                p = in(reg) at,
                a = inout(vreg) a, b = inout(vreg) b, c = inout(vreg) c, d = inout(vreg) d,
                t = out(vreg) _, u = out(vreg) _, v = out(vreg) _, w = out(vreg) _,
                options(nostack, readonly, preserves_flags)
            );
        }
        at = at.wrapping_byte_add(STEP);
        moved += STEP;
    }
    let sum = [a, b, c, d].into_iter().fold(0_u64, |sum, vector| {
        // SAFETY: every processor of this kind has these vectors.
        let low = unsafe { vgetq_lane_u64::<0>(vector) };
        // SAFETY: as above.
        let high = unsafe { vgetq_lane_u64::<1>(vector) };
        sum.wrapping_add(low).wrapping_add(high)
    });
    (moved as u64, sum)
}

/// A loop that stores one value by pairs, with the instruction given.
macro_rules! store {
    ($(#[$doc:meta])* $name:ident, $instruction:literal) => {
        $(#[$doc])*
        pub(super) fn $name(to: &mut [u64], value: u64) -> u64 {
            check(to);
            // SAFETY: every processor of this kind has these vectors.
            let vector: uint64x2_t = unsafe { vdupq_n_u64(value) };
            let mut moved = 0;
            let mut at = to.as_mut_ptr();
            while moved < to.len() * 8 {
                // SAFETY: writes STEP bytes of the slice, whose length is a multiple of it.
                unsafe {
                    asm!(
                        concat!($instruction, " {v:q}, {v:q}, [{p}]"),
                        concat!($instruction, " {v:q}, {v:q}, [{p}, #32]"),
                        concat!($instruction, " {v:q}, {v:q}, [{p}, #64]"),
                        concat!($instruction, " {v:q}, {v:q}, [{p}, #96]"),
                        p = in(reg) at, v = in(vreg) vector,
                        options(nostack, preserves_flags)
                    );
                }
                at = at.wrapping_byte_add(STEP);
                moved += STEP;
            }
            moved as u64
        }
    };
}

store!(write, "stp");
store!(
    /// The hint of STNP: these data will not be used again soon (Arm ARM, C6.2).
    write_nt, "stnp"
);

/// A loop that copies by pairs, with the instructions given.
macro_rules! copy {
    ($name:ident, $load:literal, $store:literal) => {
        pub(super) fn $name(to: &mut [u64], from: &[u64]) -> u64 {
            check_pair(to, from);
            let mut done = 0;
            let (mut at, mut source) = (to.as_mut_ptr(), from.as_ptr());
            let mut moved = 0;
            while done < to.len() * 8 {
                // SAFETY: reads and writes STEP bytes of two slices of one length, a multiple of it.
                unsafe {
                    asm!(
                        concat!($load, " {t:q}, {u:q}, [{q}]"),
                        concat!($load, " {v:q}, {w:q}, [{q}, #32]"),
                        concat!($store, " {t:q}, {u:q}, [{p}]"),
                        concat!($store, " {v:q}, {w:q}, [{p}, #32]"),
                        concat!($load, " {t:q}, {u:q}, [{q}, #64]"),
                        concat!($load, " {v:q}, {w:q}, [{q}, #96]"),
                        concat!($store, " {t:q}, {u:q}, [{p}, #64]"),
                        concat!($store, " {v:q}, {w:q}, [{p}, #96]"),
                        p = in(reg) at, q = in(reg) source,
                        t = out(vreg) _, u = out(vreg) _, v = out(vreg) _, w = out(vreg) _,
                        options(nostack, preserves_flags)
                    );
                }
                at = at.wrapping_byte_add(STEP);
                source = source.wrapping_byte_add(STEP);
                done += STEP;
                moved += 2 * STEP as u64;
            }
            moved
        }
    };
}

copy!(copy, "ldp", "stp");
copy!(copy_nt, "ldnp", "stnp");

pub(super) fn triad(to: &mut [u64], b: &[u64], c: &[u64], scale: f64) -> u64 {
    check_pair(to, b);
    check_pair(to, c);
    let scale = doubles(scale);
    let mut done = 0;
    let (mut at, mut b, mut c) = (to.as_mut_ptr(), b.as_ptr(), c.as_ptr());
    let mut moved = 0;
    while done < to.len() * 8 {
        // SAFETY: reads and writes STEP / 2 bytes of three slices of one length, a multiple of it.
        unsafe {
            asm!(
                "ldp {t:q}, {u:q}, [{b}]",
                "ldp {v:q}, {w:q}, [{b}, #32]",
                "ldp {x:q}, {y:q}, [{c}]",
                "fmla {t:v}.2d, {x:v}.2d, {s:v}.2d",
                "fmla {u:v}.2d, {y:v}.2d, {s:v}.2d",
                "ldp {x:q}, {y:q}, [{c}, #32]",
                "fmla {v:v}.2d, {x:v}.2d, {s:v}.2d",
                "fmla {w:v}.2d, {y:v}.2d, {s:v}.2d",
                "stp {t:q}, {u:q}, [{p}]",
                "stp {v:q}, {w:q}, [{p}, #32]",
                p = in(reg) at, b = in(reg) b, c = in(reg) c, s = in(vreg) scale,
                t = out(vreg) _, u = out(vreg) _, v = out(vreg) _, w = out(vreg) _,
                x = out(vreg) _, y = out(vreg) _,
                options(nostack, preserves_flags)
            );
        }
        at = at.wrapping_byte_add(STEP / 2);
        b = b.wrapping_byte_add(STEP / 2);
        c = c.wrapping_byte_add(STEP / 2);
        done += STEP / 2;
        moved += 3 * (STEP / 2) as u64;
    }
    moved
}

/// A word each of [`ABREAST`] lines, [`STRIDE`] bytes apart: their sum.
#[inline(never)]
pub(super) fn read_apart(from: &[u64]) -> u64 {
    const { assert!(STRIDE == 4160 && ABREAST == 8) };
    assert!(from.len() * 8 >= ABREAST * STRIDE, "room for all of them");
    let a: u64;
    let b: u64;
    let c: u64;
    let d: u64;
    // SAFETY: reads words of the slice, the last of which begins 7 * STRIDE bytes after its first.
    unsafe {
        asm!(
            "ldr {a}, [{p}]",
            "ldr {b}, [{p}, #4160]",
            "ldr {c}, [{p}, #8320]",
            "ldr {d}, [{p}, #12480]",
            "ldr {e}, [{p}, #16640]",
            "ldr {f}, [{p}, #20800]",
            "ldr {g}, [{p}, #24960]",
            "ldr {h}, [{p}, #29120]",
            "add {a}, {a}, {e}",
            "add {b}, {b}, {f}",
            "add {c}, {c}, {g}",
            "add {d}, {d}, {h}",
            p = in(reg) from.as_ptr(),
            a = out(reg) a, b = out(reg) b, c = out(reg) c, d = out(reg) d,
            e = out(reg) _, f = out(reg) _, g = out(reg) _, h = out(reg) _,
            options(nostack, readonly, preserves_flags)
        );
    }
    a.wrapping_add(b).wrapping_add(c).wrapping_add(d)
}

/// Vectors multiplied and added, at least so many, and what came out.
pub(super) fn multiply_add(operations: u64) -> (u64, u64) {
    // Stays between 0 and 2 for ever: x becomes x / 2 + 1.
    let (factor, term) = (doubles(0.5), doubles(1.0));
    let [mut a, mut b, mut c, mut d] = [doubles(0.0); 4];
    let mut done = 0;
    while done < operations {
        // SAFETY: arithmetic on registers only.
        unsafe {
            asm!(
                "mov {t:v}.16b, {o:v}.16b", "mov {u:v}.16b, {o:v}.16b",
                "mov {v:v}.16b, {o:v}.16b", "mov {w:v}.16b, {o:v}.16b",
                "fmla {t:v}.2d, {a:v}.2d, {k:v}.2d", "fmla {u:v}.2d, {b:v}.2d, {k:v}.2d",
                "fmla {v:v}.2d, {c:v}.2d, {k:v}.2d", "fmla {w:v}.2d, {d:v}.2d, {k:v}.2d",
                "mov {a:v}.16b, {o:v}.16b", "mov {b:v}.16b, {o:v}.16b",
                "mov {c:v}.16b, {o:v}.16b", "mov {d:v}.16b, {o:v}.16b",
                "fmla {a:v}.2d, {t:v}.2d, {k:v}.2d", "fmla {b:v}.2d, {u:v}.2d, {k:v}.2d",
                "fmla {c:v}.2d, {v:v}.2d, {k:v}.2d", "fmla {d:v}.2d, {w:v}.2d, {k:v}.2d",
                a = inout(vreg) a, b = inout(vreg) b, c = inout(vreg) c, d = inout(vreg) d,
                k = in(vreg) factor, o = in(vreg) term,
                t = out(vreg) _, u = out(vreg) _, v = out(vreg) _, w = out(vreg) _,
                options(nostack, nomem, preserves_flags)
            );
        }
        done += 8;
    }
    let sums = [a, b, c, d].map(|vector| {
        // SAFETY: every processor of this kind has these vectors.
        unsafe { vgetq_lane_f64::<0>(vector) }
    });
    (done, sums.iter().sum::<f64>().to_bits())
}

fn zero() -> uint64x2_t {
    // SAFETY: every processor of this kind has these vectors.
    unsafe { vdupq_n_u64(0) }
}

fn doubles(value: f64) -> float64x2_t {
    // SAFETY: every processor of this kind has these vectors.
    unsafe { vdupq_n_f64(value) }
}

/// What the kernels take for granted: whole blocks.
fn check(words: &[u64]) {
    assert_eq!(words.len() * 8 % BLOCK, 0, "whole blocks only");
}

fn check_pair(to: &[u64], from: &[u64]) {
    check(to);
    check(from);
    assert_eq!(to.len(), from.len(), "arrays of one length");
}
