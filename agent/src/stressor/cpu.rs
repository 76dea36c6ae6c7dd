//! Arithmetic without memory, and `spin`, which does nothing but keep a CPU busy.

use std::io;

use edgedyno_sys::stress::{Burn, Mix};

use super::{Room, Settings, Stressor, Work};

/// Operations of one piece of work: some microseconds.
const PIECE: u64 = 4096;

/// Turns of an idle loop in one piece of work.
const TURNS: u32 = 256;

pub(super) struct Burning {
    name: &'static str,
    mix: Mix,
}

pub(super) static INTEGER: Burning = Burning::new("cpu_int", Mix::Integer);
pub(super) static BRANCHY: Burning = Burning::new("cpu_branchy", Mix::Branchy);
pub(super) static SIMD: Burning = Burning::new("cpu_simd", Mix::Simd);

impl Burning {
    const fn new(name: &'static str, mix: Mix) -> Self {
        Self { name, mix }
    }
}

impl Stressor for Burning {
    fn name(&self) -> &'static str {
        self.name
    }

    fn room(&self) -> Room {
        Room::None
    }

    fn prepare(&self, _settings: &Settings<'_>) -> io::Result<Box<dyn Work>> {
        Ok(Box::new(Computing(Burn::new(self.mix))))
    }
}

struct Computing(Burn);

impl Work for Computing {
    fn step(&mut self) -> io::Result<u64> {
        Ok(self.0.step(PIECE))
    }

    fn checksum(&self) -> u64 {
        self.0.checksum()
    }
}

/// The control arm: what another busy CPU costs by itself.
pub(super) struct Spin;

impl Stressor for Spin {
    fn name(&self) -> &'static str {
        "spin"
    }

    fn room(&self) -> Room {
        Room::None
    }

    fn prepare(&self, _settings: &Settings<'_>) -> io::Result<Box<dyn Work>> {
        Ok(Box::new(Spinning))
    }
}

struct Spinning;

impl Work for Spinning {
    fn step(&mut self) -> io::Result<u64> {
        for _ in 0..TURNS {
            std::hint::spin_loop();
        }
        Ok(0)
    }

    fn checksum(&self) -> u64 {
        0
    }
}
