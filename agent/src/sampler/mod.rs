//! What the board does meanwhile: channels that a thread of the daemon reads beside the worker.
//!
//! A sampler finds what a board has of its subject and gives for each thing a source (a kept file and a
//! parser) with its channels. [`Watch`] reads the sources when they are due into series made beforehand;
//! [`Sampling`] gives it a thread for as long as a repeat runs, and makes records of what it holds.
//! Of the worker its files in `/proc` are read; but for `footprint`, none takes a lock of its address space.
//!
//! To add a source that is no file of this board (a counter in shared memory, say), implement [`Source`]
//! and hand it over in [`Plan::extra`].

mod accelerators;
mod board;
mod bpu_tasks;
mod clocks;
mod controllers;
mod counters;
mod cpu;
mod devfreq;
mod drm;
mod fault;
mod feed;
pub mod files;
mod footprint;
mod hrut;
mod hwmon;
pub mod journal;
mod labels;
mod memory;
mod monitors;
mod offer;
mod pace;
mod pressure;
mod rapl;
mod resctrl;
mod series;
mod source;
mod tegrastats;
mod text;
mod thermal;
mod threads;
mod vendor;
mod watch;
mod worker;

#[cfg(test)]
mod boards;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use self::board::Board;
pub(crate) use self::counters::{controller_events, is_core_event};
pub use self::fault::Fault;
pub use self::offer::{Found, Offer, Spec, Tier};
pub use self::thermal::temperatures;
pub use self::threads::{Latest, Sampling};
pub use self::watch::{Plan, Readings, Watch};

/// One subject of the board.
pub trait Sampler: Sync {
    fn name(&self) -> &'static str;

    /// All channels that it can give, as they are documented.
    fn offers(&self) -> &'static [Offer];

    /// What this board has of them. What it has not is a channel with its reason.
    fn find(&self, board: &Board) -> Vec<Found>;
}

/// Something that is read in one go and gives values for its channels.
pub trait Source: Send {
    /// Reads, and puts a value or a fault for every channel. Allocates nothing.
    fn read(&mut self, out: &mut Readings<'_>);

    /// A channel whose name came out by reading, with that name; each is told once. Channels whose name
    /// is empty are room for such.
    fn new_name(&mut self) -> Option<(usize, &str)> {
        None
    }
}

/// What is looked for on a board.
pub static SAMPLERS: &[&dyn Sampler] = &[
    &cpu::Cpu,
    &clocks::Clocks,
    &worker::Worker,
    &footprint::Footprint,
    &drm::Drm,
    &memory::Memory,
    &pressure::Pressure,
    &thermal::Thermal,
    &hwmon::Hwmon,
    &rapl::Rapl,
    &devfreq::Devfreq,
    &accelerators::Accelerators,
    &counters::Counters,
    &resctrl::Resctrl,
    &monitors::Monitors,
    &hrut::Hrut,
    &tegrastats::Tegrastats,
    &vendor::Vendor,
];
