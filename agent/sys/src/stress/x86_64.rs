//! Kernels for x86-64: vectors of 32 bytes where the processor has AVX2, else of 16.
//!
//! Reading asks for each line 2 KiB ahead: four sums side by side fill the processor's window with loads
//! that wait, and leave less to its prefetcher than one sum does (by a fifth, where it was measured). A
//! prefetch beyond the end of a mapping does nothing.

use std::arch::x86_64::_mm_sfence;
use std::arch::{asm, is_x86_feature_detected};

use super::stream::BLOCK;
use super::stride::{ABREAST, STRIDE};

pub(super) const HAS_NON_TEMPORAL: bool = true;

/// Bytes read, and the sum of all words.
pub(super) fn read(from: &[u64]) -> (u64, u64) {
    check(from);
    if has_avx2() {
        // SAFETY: the processor has AVX2.
        unsafe { avx2::read(from) }
    } else {
        // SAFETY: every x86-64 processor has SSE2.
        unsafe { sse2::read(from) }
    }
}

pub(super) fn write(to: &mut [u64], value: u64) -> u64 {
    check(to);
    if has_avx2() {
        // SAFETY: the processor has AVX2.
        unsafe { avx2::write(to, value) }
    } else {
        // SAFETY: every x86-64 processor has SSE2.
        unsafe { sse2::write(to, value) }
    }
}

pub(super) fn write_nt(to: &mut [u64], value: u64) -> u64 {
    check(to);
    let moved = if has_avx2() {
        // SAFETY: the processor has AVX2.
        unsafe { avx2::write_nt(to, value) }
    } else {
        // SAFETY: every x86-64 processor has SSE2.
        unsafe { sse2::write_nt(to, value) }
    };
    fence();
    moved
}

pub(super) fn copy(to: &mut [u64], from: &[u64]) -> u64 {
    check_pair(to, from);
    if has_avx2() {
        // SAFETY: the processor has AVX2.
        unsafe { avx2::copy(to, from) }
    } else {
        // SAFETY: every x86-64 processor has SSE2.
        unsafe { sse2::copy(to, from) }
    }
}

pub(super) fn copy_nt(to: &mut [u64], from: &[u64]) -> u64 {
    check_pair(to, from);
    let moved = if has_avx2() {
        // SAFETY: the processor has AVX2.
        unsafe { avx2::copy_nt(to, from) }
    } else {
        // SAFETY: every x86-64 processor has SSE2.
        unsafe { sse2::copy_nt(to, from) }
    };
    fence();
    moved
}

pub(super) fn triad(to: &mut [u64], b: &[u64], c: &[u64], scale: f64) -> u64 {
    check_pair(to, b);
    check_pair(to, c);
    if has_avx2() {
        // SAFETY: the processor has AVX2.
        unsafe { avx2::triad(to, b, c, scale) }
    } else {
        // SAFETY: every x86-64 processor has SSE2.
        unsafe { sse2::triad(to, b, c, scale) }
    }
}

/// A word each of [`ABREAST`] lines, [`STRIDE`] bytes apart: their sum.
#[inline(never)]
pub(super) fn read_apart(from: &[u64]) -> u64 {
    const { assert!(STRIDE == 4160 && ABREAST == 8) };
    assert!(from.len() * 8 >= ABREAST * STRIDE, "room for all of them");
    let [mut a, mut b, mut c, mut d] = [0_u64; 4];
    // SAFETY: reads words of the slice, the last of which begins 7 * STRIDE bytes after its first.
    unsafe {
        asm!(
            "add {a}, [{p}]",
            "add {b}, [{p} + 4160]",
            "add {c}, [{p} + 8320]",
            "add {d}, [{p} + 12480]",
            "add {a}, [{p} + 16640]",
            "add {b}, [{p} + 20800]",
            "add {c}, [{p} + 24960]",
            "add {d}, [{p} + 29120]",
            p = in(reg) from.as_ptr(),
            a = inout(reg) a, b = inout(reg) b, c = inout(reg) c, d = inout(reg) d,
            options(nostack, readonly)
        );
    }
    a.wrapping_add(b).wrapping_add(c).wrapping_add(d)
}

/// Vectors multiplied and added, at least so many, and what came out.
pub(super) fn multiply_add(operations: u64) -> (u64, u64) {
    if has_avx2() && is_x86_feature_detected!("fma") {
        // SAFETY: the processor has AVX2 and FMA.
        unsafe { fused::multiply_add(operations) }
    } else {
        // SAFETY: every x86-64 processor has SSE2.
        unsafe { plain::multiply_add(operations) }
    }
}

fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
}

/// Stores that pass the caches by are seen by others in no order until a fence.
fn fence() {
    // SAFETY: every x86-64 processor has SSE.
    unsafe { _mm_sfence() };
}

/// What the kernels take for granted: whole blocks, at an address that aligned vectors may have.
fn check(words: &[u64]) {
    assert_eq!(words.len() * 8 % BLOCK, 0, "whole blocks only");
    assert_eq!(words.as_ptr().align_offset(32), 0, "aligned to 32 bytes");
}

fn check_pair(to: &[u64], from: &[u64]) {
    check(to);
    check(from);
    assert_eq!(to.len(), from.len(), "arrays of one length");
}

/// The kernels of one width. Each block of assembly moves eight vectors at `p`; the loop around it
/// counts.
macro_rules! kernels {
    (
        $(#[$feature:meta])* $module:ident, $register:ident, $vector:ty, $width:literal,
        splat: $splat:expr, splat_double: $splat_double:expr, zero: $zero:expr, words: $words:literal,
        add: [$($add:literal),+], store: [$($store:literal),+], stream: [$($stream:literal),+],
        copy: [$($copy:literal),+], copy_stream: [$($copy_stream:literal),+], triad: [$($triad:literal),+]
    ) => {
        mod $module {
            use std::arch::asm;
            #[allow(clippy::allow_attributes, clippy::wildcard_imports, reason = "all are of this width")]
            use std::arch::x86_64::*;

            const STEP: usize = 8 * $width;

            $(#[$feature])*
            pub(super) fn read(from: &[u64]) -> (u64, u64) {
                let mut moved = 0;
                let mut at = from.as_ptr();
                let [mut a, mut b, mut c, mut d]: [$vector; 4] = [$zero; 4];
                while moved < from.len() * 8 {
                    // SAFETY: reads STEP bytes of the slice, whose length is a multiple of it, aligned.
                    unsafe {
                        asm!(
                            $($add,)+
                            p = in(reg) at,
                            a = inout($register) a, b = inout($register) b,
                            c = inout($register) c, d = inout($register) d,
                            options(nostack, readonly, preserves_flags)
                        );
                    }
                    at = at.wrapping_byte_add(STEP);
                    moved += STEP;
                }
                let mut sum = 0_u64;
                for vector in [a, b, c, d] {
                    // SAFETY: a vector is its words, whatever they are.
                    let words: [u64; $words] = unsafe { std::mem::transmute(vector) };
                    sum = words.iter().fold(sum, |sum, word| sum.wrapping_add(*word));
                }
                (moved as u64, sum)
            }

            $(#[$feature])*
            pub(super) fn write(to: &mut [u64], value: u64) -> u64 {
                let vector: $vector = $splat(value);
                let mut moved = 0;
                let mut at = to.as_mut_ptr();
                while moved < to.len() * 8 {
                    // SAFETY: writes STEP bytes of the slice, whose length is a multiple of it, aligned.
                    unsafe {
                        asm!(
                            $($store,)+
                            p = in(reg) at, v = in($register) vector,
                            options(nostack, preserves_flags)
                        );
                    }
                    at = at.wrapping_byte_add(STEP);
                    moved += STEP;
                }
                moved as u64
            }

            $(#[$feature])*
            pub(super) fn write_nt(to: &mut [u64], value: u64) -> u64 {
                let vector: $vector = $splat(value);
                let mut moved = 0;
                let mut at = to.as_mut_ptr();
                while moved < to.len() * 8 {
                    // SAFETY: writes STEP bytes of the slice, whose length is a multiple of it, aligned.
                    unsafe {
                        asm!(
                            $($stream,)+
                            p = in(reg) at, v = in($register) vector,
                            options(nostack, preserves_flags)
                        );
                    }
                    at = at.wrapping_byte_add(STEP);
                    moved += STEP;
                }
                moved as u64
            }

            $(#[$feature])*
            pub(super) fn copy(to: &mut [u64], from: &[u64]) -> u64 {
                let mut done = 0;
                let (mut at, mut source) = (to.as_mut_ptr(), from.as_ptr());
                let mut moved = 0;
                while done < to.len() * 8 {
                    // SAFETY: reads and writes STEP bytes of two slices of one length, a multiple of it.
                    unsafe {
                        asm!(
                            $($copy,)+
                            p = in(reg) at, q = in(reg) source,
                            t = out($register) _, u = out($register) _,
                            v = out($register) _, w = out($register) _,
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

            $(#[$feature])*
            pub(super) fn copy_nt(to: &mut [u64], from: &[u64]) -> u64 {
                let mut done = 0;
                let (mut at, mut source) = (to.as_mut_ptr(), from.as_ptr());
                let mut moved = 0;
                while done < to.len() * 8 {
                    // SAFETY: reads and writes STEP bytes of two slices of one length, a multiple of it.
                    unsafe {
                        asm!(
                            $($copy_stream,)+
                            p = in(reg) at, q = in(reg) source,
                            t = out($register) _, u = out($register) _,
                            v = out($register) _, w = out($register) _,
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

            $(#[$feature])*
            pub(super) fn triad(to: &mut [u64], b: &[u64], c: &[u64], scale: f64) -> u64 {
                let scale = $splat_double(scale);
                let mut done = 0;
                let (mut at, mut b, mut c) = (to.as_mut_ptr(), b.as_ptr(), c.as_ptr());
                let mut moved = 0;
                while done < to.len() * 8 {
                    // SAFETY: reads and writes STEP / 2 bytes of three slices of one length, a multiple of it.
                    unsafe {
                        asm!(
                            $($triad,)+
                            p = in(reg) at, b = in(reg) b, c = in(reg) c, s = in($register) scale,
                            t = out($register) _, u = out($register) _,
                            v = out($register) _, w = out($register) _,
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
        }
    };
}

kernels!(
    #[target_feature(enable = "avx2")] avx2, ymm_reg, __m256i, 32,
    splat: |value: u64| _mm256_set1_epi64x(value as i64), splat_double: |value| _mm256_set1_pd(value),
    zero: _mm256_setzero_si256(), words: 4,
    add: [
        "prefetcht0 [{p} + 2048]", "vpaddq {a}, {a}, [{p}]", "vpaddq {b}, {b}, [{p} + 32]",
        "prefetcht0 [{p} + 2112]", "vpaddq {c}, {c}, [{p} + 64]", "vpaddq {d}, {d}, [{p} + 96]",
        "prefetcht0 [{p} + 2176]", "vpaddq {a}, {a}, [{p} + 128]", "vpaddq {b}, {b}, [{p} + 160]",
        "prefetcht0 [{p} + 2240]", "vpaddq {c}, {c}, [{p} + 192]", "vpaddq {d}, {d}, [{p} + 224]"
    ],
    store: [
        "vmovdqa [{p}], {v}", "vmovdqa [{p} + 32], {v}", "vmovdqa [{p} + 64], {v}",
        "vmovdqa [{p} + 96], {v}", "vmovdqa [{p} + 128], {v}", "vmovdqa [{p} + 160], {v}",
        "vmovdqa [{p} + 192], {v}", "vmovdqa [{p} + 224], {v}"
    ],
    stream: [
        "vmovntdq [{p}], {v}", "vmovntdq [{p} + 32], {v}", "vmovntdq [{p} + 64], {v}",
        "vmovntdq [{p} + 96], {v}", "vmovntdq [{p} + 128], {v}", "vmovntdq [{p} + 160], {v}",
        "vmovntdq [{p} + 192], {v}", "vmovntdq [{p} + 224], {v}"
    ],
    copy: [
        "vmovdqa {t}, [{q}]", "vmovdqa {u}, [{q} + 32]", "vmovdqa {v}, [{q} + 64]", "vmovdqa {w}, [{q} + 96]",
        "vmovdqa [{p}], {t}", "vmovdqa [{p} + 32], {u}", "vmovdqa [{p} + 64], {v}", "vmovdqa [{p} + 96], {w}",
        "vmovdqa {t}, [{q} + 128]", "vmovdqa {u}, [{q} + 160]", "vmovdqa {v}, [{q} + 192]", "vmovdqa {w}, [{q} + 224]",
        "vmovdqa [{p} + 128], {t}", "vmovdqa [{p} + 160], {u}", "vmovdqa [{p} + 192], {v}", "vmovdqa [{p} + 224], {w}"
    ],
    copy_stream: [
        "vmovdqa {t}, [{q}]", "vmovdqa {u}, [{q} + 32]", "vmovdqa {v}, [{q} + 64]", "vmovdqa {w}, [{q} + 96]",
        "vmovntdq [{p}], {t}", "vmovntdq [{p} + 32], {u}", "vmovntdq [{p} + 64], {v}", "vmovntdq [{p} + 96], {w}",
        "vmovdqa {t}, [{q} + 128]", "vmovdqa {u}, [{q} + 160]", "vmovdqa {v}, [{q} + 192]", "vmovdqa {w}, [{q} + 224]",
        "vmovntdq [{p} + 128], {t}", "vmovntdq [{p} + 160], {u}", "vmovntdq [{p} + 192], {v}", "vmovntdq [{p} + 224], {w}"
    ],
    triad: [
        "vmulpd {t}, {s}, [{c}]", "vmulpd {u}, {s}, [{c} + 32]", "vmulpd {v}, {s}, [{c} + 64]", "vmulpd {w}, {s}, [{c} + 96]",
        "vaddpd {t}, {t}, [{b}]", "vaddpd {u}, {u}, [{b} + 32]", "vaddpd {v}, {v}, [{b} + 64]", "vaddpd {w}, {w}, [{b} + 96]",
        "vmovapd [{p}], {t}", "vmovapd [{p} + 32], {u}", "vmovapd [{p} + 64], {v}", "vmovapd [{p} + 96], {w}"
    ]
);

kernels!(
    #[target_feature(enable = "sse2")] sse2, xmm_reg, __m128i, 16,
    splat: |value: u64| _mm_set1_epi64x(value as i64), splat_double: |value| _mm_set1_pd(value),
    zero: _mm_setzero_si128(), words: 2,
    add: [
        "prefetcht0 [{p} + 2048]", "paddq {a}, [{p}]", "paddq {b}, [{p} + 16]",
        "paddq {c}, [{p} + 32]", "paddq {d}, [{p} + 48]",
        "prefetcht0 [{p} + 2112]", "paddq {a}, [{p} + 64]", "paddq {b}, [{p} + 80]",
        "paddq {c}, [{p} + 96]", "paddq {d}, [{p} + 112]"
    ],
    store: [
        "movdqa [{p}], {v}", "movdqa [{p} + 16], {v}", "movdqa [{p} + 32], {v}", "movdqa [{p} + 48], {v}",
        "movdqa [{p} + 64], {v}", "movdqa [{p} + 80], {v}", "movdqa [{p} + 96], {v}", "movdqa [{p} + 112], {v}"
    ],
    stream: [
        "movntdq [{p}], {v}", "movntdq [{p} + 16], {v}", "movntdq [{p} + 32], {v}", "movntdq [{p} + 48], {v}",
        "movntdq [{p} + 64], {v}", "movntdq [{p} + 80], {v}", "movntdq [{p} + 96], {v}", "movntdq [{p} + 112], {v}"
    ],
    copy: [
        "movdqa {t}, [{q}]", "movdqa {u}, [{q} + 16]", "movdqa {v}, [{q} + 32]", "movdqa {w}, [{q} + 48]",
        "movdqa [{p}], {t}", "movdqa [{p} + 16], {u}", "movdqa [{p} + 32], {v}", "movdqa [{p} + 48], {w}",
        "movdqa {t}, [{q} + 64]", "movdqa {u}, [{q} + 80]", "movdqa {v}, [{q} + 96]", "movdqa {w}, [{q} + 112]",
        "movdqa [{p} + 64], {t}", "movdqa [{p} + 80], {u}", "movdqa [{p} + 96], {v}", "movdqa [{p} + 112], {w}"
    ],
    copy_stream: [
        "movdqa {t}, [{q}]", "movdqa {u}, [{q} + 16]", "movdqa {v}, [{q} + 32]", "movdqa {w}, [{q} + 48]",
        "movntdq [{p}], {t}", "movntdq [{p} + 16], {u}", "movntdq [{p} + 32], {v}", "movntdq [{p} + 48], {w}",
        "movdqa {t}, [{q} + 64]", "movdqa {u}, [{q} + 80]", "movdqa {v}, [{q} + 96]", "movdqa {w}, [{q} + 112]",
        "movntdq [{p} + 64], {t}", "movntdq [{p} + 80], {u}", "movntdq [{p} + 96], {v}", "movntdq [{p} + 112], {w}"
    ],
    triad: [
        "movapd {t}, [{c}]", "movapd {u}, [{c} + 16]", "movapd {v}, [{c} + 32]", "movapd {w}, [{c} + 48]",
        "mulpd {t}, {s}", "mulpd {u}, {s}", "mulpd {v}, {s}", "mulpd {w}, {s}",
        "addpd {t}, [{b}]", "addpd {u}, [{b} + 16]", "addpd {v}, [{b} + 32]", "addpd {w}, [{b} + 48]",
        "movapd [{p}], {t}", "movapd [{p} + 16], {u}", "movapd [{p} + 32], {v}", "movapd [{p} + 48], {w}"
    ]
);

/// Arithmetic of one width: eight sums, so that one need not wait for another.
macro_rules! arithmetic {
    (
        $(#[$feature:meta])* $module:ident, $register:ident, $splat:expr, $lane:expr,
        [$($operation:literal),+]
    ) => {
        mod $module {
            use std::arch::asm;
            #[allow(clippy::allow_attributes, clippy::wildcard_imports, reason = "all are of this width")]
            use std::arch::x86_64::*;

            $(#[$feature])*
            pub(super) fn multiply_add(operations: u64) -> (u64, u64) {
                // Stays between 0 and 2 for ever: x becomes x / 2 + 1.
                let (factor, term) = ($splat(0.5), $splat(1.0));
                let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = [$splat(0.0); 8];
                let mut done = 0;
                while done < operations {
                    // SAFETY: arithmetic on registers only.
                    unsafe {
                        asm!(
                            $($operation,)+
                            a = inout($register) a, b = inout($register) b,
                            c = inout($register) c, d = inout($register) d,
                            e = inout($register) e, f = inout($register) f,
                            g = inout($register) g, h = inout($register) h,
                            k = in($register) factor, t = in($register) term,
                            options(nostack, nomem, preserves_flags)
                        );
                    }
                    done += 8;
                }
                let sums = [a, b, c, d, e, f, g, h].map($lane);
                (done, sums.iter().sum::<f64>().to_bits())
            }
        }
    };
}

arithmetic!(
    #[target_feature(enable = "avx2,fma")]
    fused,
    ymm_reg,
    |value| _mm256_set1_pd(value),
    |vector| _mm256_cvtsd_f64(vector),
    [
        "vfmadd213pd {a}, {k}, {t}",
        "vfmadd213pd {b}, {k}, {t}",
        "vfmadd213pd {c}, {k}, {t}",
        "vfmadd213pd {d}, {k}, {t}",
        "vfmadd213pd {e}, {k}, {t}",
        "vfmadd213pd {f}, {k}, {t}",
        "vfmadd213pd {g}, {k}, {t}",
        "vfmadd213pd {h}, {k}, {t}"
    ]
);

arithmetic!(
    #[target_feature(enable = "sse2")]
    plain,
    xmm_reg,
    |value| _mm_set1_pd(value),
    |vector| _mm_cvtsd_f64(vector),
    [
        "mulpd {a}, {k}",
        "mulpd {b}, {k}",
        "mulpd {c}, {k}",
        "mulpd {d}, {k}",
        "mulpd {e}, {k}",
        "mulpd {f}, {k}",
        "mulpd {g}, {k}",
        "mulpd {h}, {k}",
        "addpd {a}, {t}",
        "addpd {b}, {t}",
        "addpd {c}, {t}",
        "addpd {d}, {t}",
        "addpd {e}, {t}",
        "addpd {f}, {t}",
        "addpd {g}, {t}",
        "addpd {h}, {t}"
    ]
);

#[cfg(test)]
mod tests {
    use super::super::Region;
    use super::*;

    macro_rules! narrow {
        ($name:ident($($argument:expr),*)) => {
            // SAFETY: every x86-64 processor has SSE2.
            unsafe { sse2::$name($($argument),*) }
        };
    }

    /// The machine that tests this has wide vectors; boards may have narrow ones.
    #[test]
    fn narrow_kernels_do_the_same_as_wide_ones() {
        let mut from = Region::new(1).unwrap();
        for (word, value) in from.words_mut().iter_mut().zip(1_u64..) {
            *word = value;
        }
        let from = &from.words()[..64];
        let (mut wide, mut narrow) = (Region::new(1).unwrap(), Region::new(1).unwrap());
        let (wide, narrow) = (&mut wide.words_mut()[..64], &mut narrow.words_mut()[..64]);
        assert_eq!(read(from), (512, 64 * 65 / 2));
        assert_eq!(narrow!(read(from)), read(from));
        assert_eq!((write(wide, 9), narrow!(write(narrow, 9))), (512, 512));
        assert_eq!(wide, narrow);
        assert_eq!(
            (write_nt(wide, 8), narrow!(write_nt(narrow, 8))),
            (512, 512)
        );
        assert_eq!(wide, narrow);
        assert_eq!(
            (copy(wide, from), narrow!(copy(narrow, from))),
            (1024, 1024)
        );
        assert_eq!((&*wide, &*narrow), (from, from));
        wide.fill(0);
        narrow.fill(0);
        assert_eq!(
            (copy_nt(wide, from), narrow!(copy_nt(narrow, from))),
            (1024, 1024)
        );
        assert_eq!((&*wide, &*narrow), (from, from));
        let doubles: Vec<u64> = (0_u32..64).map(|at| f64::from(at).to_bits()).collect();
        let mut source = Region::new(1).unwrap();
        source.words_mut()[..64].copy_from_slice(&doubles);
        let source = &source.words()[..64];
        assert_eq!(triad(wide, source, source, 3.0), 1536);
        assert_eq!(narrow!(triad(narrow, source, source, 3.0)), 1536);
        assert_eq!(wide, narrow);
        assert_eq!(f64::from_bits(wide[63]), 63.0 * 4.0);
    }

    #[test]
    fn narrow_arithmetic_counts_and_converges_as_wide_does() {
        let sum = f64::to_bits(8.0 * 2.0);
        assert_eq!(multiply_add(8000), (8000, sum));
        // SAFETY: every x86-64 processor has SSE2.
        let narrow = unsafe { plain::multiply_add(8000) };
        assert_eq!(narrow, (8000, sum));
    }
}
