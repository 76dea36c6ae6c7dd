//! What an agent that works as an ordinary user may not do, done by a small process that stays root.
//!
//! [`serve --run-as`](crate::daemon::run_as) starts the [`helper`] before it becomes that user. The daemon asks
//! it by [`client`] over a socket pair, in the words of `message`. It opens the files and counters of a
//! closed list (`grants`) and holds clocks; it takes no path, runs nothing, loads no library, and ends with
//! the daemon, clocks put back first.

pub mod client;
mod grants;
pub mod helper;
pub mod message;

pub(crate) use self::grants::remedy;
