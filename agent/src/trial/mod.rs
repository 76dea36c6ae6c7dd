//! The timed loop, its warm-up and its stop rules. It knows a [`crate::clock::Clock`] and a
//! [`crate::backend::Runner`], and nothing else that could cost time.

pub mod gap;
pub mod rate;
pub mod steady;
pub mod timed_loop;
pub mod word;

pub use timed_loop::TimedLoop;
