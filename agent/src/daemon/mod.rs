//! The daemon: one for each state folder. It owns queue, spool, arenas and the right to measure.
//!
//! [`serve`] starts it and ends it, [`session`] speaks with a host, `feed` sends it what was measured, `submit`
//! takes its orders, `rights` says who may, [`executor`] runs the queue in order,
//! and what must survive lies in [`queue`], [`spool`], [`contents`], [`blobs`] and [`repeat_folder`]. Who comes
//! over the [`network`] is known by its key ([`identity`], [`access`], [`pairing`]). What a store ordered is for its host
//! alone ([`owners`]). [`host_clock`] asks the host
//! for its clock between repeats. Which build serves is in [`program`].

pub mod access;
mod around;
pub mod ask;
pub mod blobs;
pub mod clocks;
pub mod contents;
mod cool_down;
mod ends;
pub mod executor;
mod feed;
pub mod gate;
pub mod host_clock;
pub mod identity;
pub mod inventory;
pub mod lease;
pub mod lease_file;
pub mod live;
pub mod measure_lock;
pub mod network;
pub mod owners;
pub mod pairing;
pub mod prepare;
pub mod program;
pub mod queue;
pub mod recover;
pub mod relay;
pub mod repeat_folder;
mod rights;
pub mod run_as;
pub mod runtimes;
pub mod serve;
pub mod session;
pub mod spool;
pub mod spool_file;
pub mod state;
mod submit;
pub mod take_over;
#[cfg(test)]
mod testing;
