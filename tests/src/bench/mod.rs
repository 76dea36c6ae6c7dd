//! What the benchmarks share: a number with its interval, its goal, and the rule that judges it.
//!
//! A number is met when the 95 % interval of its ratio to the limit lies on the right side. Where the
//! interval holds the limit itself and the control of the same run, the same thing against itself, is
//! at least as wide, the machine cannot tell, and that is what is said.

mod figure;
mod verdict;

pub use figure::{Beside, Figure};
pub use verdict::{Goal, Interval, Verdict, judge, neighbours};
