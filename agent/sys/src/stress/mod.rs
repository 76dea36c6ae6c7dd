//! What keeps a machine busy in a known way: memory kernels, chains of dependent reads, arithmetic.
//!
//! Each kernel is written out for its processor, so that what it does is what its name says: a copy in
//! Rust becomes a call of `memcpy`, a store of one value one of `memset`, and a sum nobody reads is left
//! out. Bytes are counted by the loop that moves them, in the currency of STREAM: each byte read counts
//! once, each byte written once, and what a cache fetches only to overwrite it does not count.

mod burn;
mod chase;
mod region;
mod stream;
mod stride;
mod thrash;

#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
mod arch;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
mod arch;
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
#[path = "other.rs"]
mod arch;

pub use burn::{Burn, Mix};
pub use chase::Chase;
pub use region::{HUGE_PAGE, Region};
pub use stream::{Pattern, Stream};
pub use stride::Stride;
pub use thrash::Thrash;

/// Bytes of a cache line on every processor that there is a kernel for.
pub const LINE: usize = 64;

/// 64-bit words of a cache line.
const LINE_WORDS: usize = LINE / 8;

/// The next of a sequence of well-mixed numbers (xorshift64*, Vigna 2016); the seed must not be zero.
fn mixed(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d)
}
